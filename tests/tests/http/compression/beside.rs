//! Files that lie compressed beside others are sent in their place.

use std::fs;
use std::io::Read;

use tests::Setup;

use super::{CODINGS, ask, coding_of, plain, varies};

#[test]
fn compressed_files_beside_files_are_sent() {
    let text = "function a() { return 'a'; }\n".repeat(100);
    let small = |coding: &str| match coding {
        "zstd" => zstd::encode_all(text.as_bytes(), 19).unwrap(),
        "gzip" => {
            let mut all = Vec::new();
            flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::best()).read_to_end(&mut all).unwrap();
            all
        }
        _ => {
            let mut all = Vec::new();
            brotli::CompressorReader::new(text.as_bytes(), 4096, 11, 22).read_to_end(&mut all).unwrap();
            all
        }
    };
    let setup = Setup::empty()
        .application("precompressed = true")
        .file("app.js", &text)
        .file("app.js.br", small("br"))
        .file("app.js.gz", small("gzip"))
        .file("app.js.zst", small("zstd"))
        .file("old.js", &text)
        .file("old.js.gz", small("gzip"))
        .file("alone.js", &text)
        .file("linked.js", &text)
        .file("directory.js", &text)
        .file("directory.js.gz/x", "")
        .file("index.php", "<?php echo 'PHP';");
    let root = setup.document_root().to_owned();
    fs::write(setup.directory().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../../secret", root.join("linked.js.gz")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(root.join("old.js.gz")).unwrap().set_modified(old).unwrap();
    let server = setup.start();
    for coding in CODINGS {
        let response = ask(&server, "/app.js", &[("Accept-Encoding", coding)]);
        assert_eq!(coding_of(&response), coding);
        assert!(plain(&response) == text.as_bytes() && response.body == small(coding) && varies(&response));
        assert_eq!(response.header("content-type"), ask(&server, "/app.js", &[]).header("content-type"));
        assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()));
        let tag = response.header("etag").unwrap();
        assert_ne!(Some(tag), ask(&server, "/app.js", &[]).header("etag"));
        let confirmed = ask(&server, "/app.js", &[("Accept-Encoding", coding), ("If-None-Match", tag)]);
        assert!(confirmed.status == 304 && varies(&confirmed) && confirmed.header("etag") == Some(tag));
        let head = server.client().request("HEAD", "/app.js", &[("Accept-Encoding", coding)], b"");
        assert!(coding_of(&head) == coding && head.header("content-length") == response.header("content-length"));
    }
    let gzip = ("Accept-Encoding", "gzip");
    for target in ["/old.js", "/alone.js", "/linked.js", "/directory.js"] {
        let response = ask(&server, target, &[gzip]);
        assert!(coding_of(&response) == "none" && response.text() == text && varies(&response), "{target}");
    }
    assert_eq!(coding_of(&ask(&server, "/app.js", &[("Accept-Encoding", "zstd;q=0.5, gzip")])), "gzip");
    assert_eq!(coding_of(&ask(&server, "/old.js", &[("Accept-Encoding", "zstd, br")])), "none");
    let part = ask(&server, "/app.js", &[gzip, ("Range", "bytes=9-9")]);
    assert_eq!((part.status, part.text().as_str(), coding_of(&part)), (206, "a", "none"));
    let date = ask(&server, "/app.js", &[gzip]).header("last-modified").unwrap().to_owned();
    let whole = ask(&server, "/app.js", &[gzip, ("Range", "bytes=9-9"), ("If-Range", &date)]);
    assert!(whole.status == 200 && plain(&whole) == text.as_bytes());
    assert_eq!(server.client().request("POST", "/app.js", &[gzip], b"").status, 405);
}
