//! Files with a fingerprint of their content in their names.

use super::*;

const FOR_EVER: Option<&str> = Some("public, max-age=31536000, immutable");

fn of(server: &Server, path: &str) -> Option<String> {
    let response = with(&mut server.client(), path, &[("Accept", "*/*")]);
    response.header("cache-control").map(str::to_owned)
}

fn site() -> Setup {
    let mut setup = plain().file("index.php", "<?php echo 'a page';");
    for name in ["build/app.3f2a9c1b.js", "build/app.js", "build/report-20240101.pdf", "other/app.3f2a9c1b.js"] {
        setup = setup.file(name, "text");
    }
    setup
}

#[test]
fn clients_keep_them_for_ever() {
    let server = site().application("fingerprinted = [\"/build\"]").start();
    assert_eq!(of(&server, "/build/app.3f2a9c1b.js").as_deref(), FOR_EVER);
    for path in ["/build/app.js", "/build/app.js?v=3f2a9c1b", "/build/report-20240101.pdf", "/other/app.3f2a9c1b.js"] {
        assert_eq!(of(&server, path), None, "{path}");
    }
    let mut client = server.client();
    let first = client.get("/build/app.3f2a9c1b.js");
    let etag = first.header("etag").unwrap();
    for (headers, status, value) in [
        (("If-None-Match", etag), 304, FOR_EVER),
        (("Range", "bytes=0-1"), 206, FOR_EVER),
        (("Range", "bytes=9-"), 416, None),
        (("If-Match", "\"other\""), 412, None),
    ] {
        let response = with(&mut client, "/build/app.3f2a9c1b.js", &[headers]);
        assert_eq!((response.status, response.header("cache-control")), (status, value), "{headers:?}");
    }
    // A file that is not there, and a page in its place.
    assert_eq!(of(&server, "/build/gone.3f2a9c1b.js"), None);
    server.reconfigure("front_controller = \"\"", "front_controller = \"index.php\"");
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(
        (server.get("/build/gone.3f2a9c1b.js").text(), of(&server, "/build/gone.3f2a9c1b.js")),
        ("a page".to_owned(), None)
    );
}

/// The option has to be set, or a preset named; rules win, and what a password guards is not for shared caches.
#[test]
fn presets_and_rules_decide() {
    let server = site().start();
    assert_eq!(of(&server, "/build/app.3f2a9c1b.js"), None);
    drop(server);
    let server = site().application("preset = \"laravel\"").start();
    assert_eq!(of(&server, "/build/app.3f2a9c1b.js").as_deref(), FOR_EVER);
    assert_eq!(of(&server, "/other/app.3f2a9c1b.js"), None);
    server.reconfigure("preset = \"laravel\"", "preset = \"laravel\"\nfingerprinted = []");
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(of(&server, "/build/app.3f2a9c1b.js"), None);
    drop(server);
    let setup = site().application("fingerprinted = [\"/\"]");
    fs::write(setup.directory().join("users"), "me:{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=\n").unwrap();
    let server = setup
        .route("prefix = \"/build/\"\nexpires = \"1h\"")
        .route("prefix = \"/guarded/\"\nusers = \"users\"")
        .file("guarded/app.3f2a9c1b.js", "text")
        .start();
    assert_eq!(of(&server, "/build/app.3f2a9c1b.js").as_deref(), Some("max-age=3600"));
    assert_eq!(of(&server, "/other/app.3f2a9c1b.js").as_deref(), FOR_EVER);
    let response = with(&mut server.client(), "/guarded/app.3f2a9c1b.js", &[("Authorization", "Basic bWU6MQ==")]);
    assert_eq!((response.status, response.header("cache-control")), (200, None));
}
