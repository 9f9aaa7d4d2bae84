//! Phars that are refused before anything serves, each with its reason in words.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::Setup;
use tests::server::program;

use super::closed::unpacked;
use super::{STUB, about, phar, setup};

/// What `reprise check` says of a root, and its code.
fn check(root: &Path, directory: &Path) -> (String, i32) {
    let config = directory.join("check.toml");
    fs::write(&config, format!("[[application]]\nroot = \"{}\"\n", root.display())).expect("a configuration");
    let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise");
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.code().expect("a code"))
}

/// Each fault of a file is found, and none of it is served: the code is that of a wrong configuration.
#[test]
fn what_is_no_sound_phar_is_refused_with_words() {
    let (setup, file) = setup();
    let place = setup.directory().to_owned();
    let good = || phar(&file, &[("index.php", "<?php echo 'ok';"), ("a.txt", "some text of a file")], STUB);
    good();
    let (said, code) = check(&file, &place);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("2 files with 1 KiB, signed by SHA-256") && said.contains(&format!("phar://{}", file.display())),
        "{said}"
    );
    let bytes = fs::read(&file).expect("the phar");
    let with = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        edit(&mut bytes);
        bytes
    };
    let find = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).expect("the text");
    let at = find(b"some text");
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("its bytes are not those of its signature", with(&|bytes| bytes[at] ^= 1)),
        ("its bytes are not those of its signature", with(&|bytes| bytes[8] ^= 1)),
        ("has no signature", with(&|bytes| bytes.truncate(at))),
        ("has no signature", with(&|bytes| bytes.push(b'\n'))),
        ("has no signature", Vec::new()),
        (
            "unknown kind",
            with(&|bytes| {
                let end = bytes.len();
                bytes[end - 8] = 0x77;
            }),
        ),
        ("has no signature", b"GBMB".to_vec()),
        (
            "compressed as a whole, by gzip",
            with(&|bytes| {
                bytes.splice(0..2, [0x1f, 0x8b]);
            }),
        ),
        ("format of zip", b"PK\x03\x04 and so on".to_vec()),
        ("format of tar", {
            let mut tar = vec![b'x'; 600];
            tar[257..262].copy_from_slice(b"ustar");
            tar
        }),
    ];
    for (why, bytes) in rows {
        fs::write(&file, bytes).expect("a file");
        let (said, code) = check(&file, &place);
        assert!(code == 78 && said.contains(why) && said.contains("app.phar"), "{why}: {code}: {said}");
    }
    good();
    let (said, code) = check(&file.join("nowhere"), &place);
    assert!(code == 78 && said.contains("nowhere is not a directory in it"), "{said}");
    let (said, code) = check(&file.join("a.txt"), &place);
    assert!(code == 78 && said.contains("is not a directory"), "{said}");
}

/// A signature by a key is checked with the key beside the phar, as PHP does; hashes that can be forged are warned of.
#[test]
fn keys_are_checked_and_weak_hashes_warned_of() {
    let (setup, file) = setup();
    let place = setup.directory().to_owned();
    let key = |name: &str| {
        let code = format!(
            "$k = openssl_pkey_new(['private_key_bits' => 2048]); openssl_pkey_export($k, $p); file_put_contents('{0}/{name}', $p);
             file_put_contents('{0}/{name}.pub', openssl_pkey_get_details($k)['key']);",
            place.display()
        );
        tests::bridged::php(&code, &place);
    };
    key("one");
    key("two");
    let beside = file.with_extension("phar.pubkey");
    for (kind, is_weak) in [("OPENSSL", true), ("OPENSSL_SHA256", false), ("OPENSSL_SHA512", false)] {
        super::build(
            &file,
            &format!(
                "$phar['index.php'] = '<?php echo 1;'; $phar->setSignatureAlgorithm(Phar::{kind}, file_get_contents('{}/one'));",
                place.display()
            ),
        );
        let _ = fs::remove_file(&beside);
        let (said, code) = check(&file, &place);
        assert!(code == 78 && said.contains("public key"), "{kind}: {said}");
        fs::copy(place.join("two.pub"), &beside).expect("a key");
        let (said, code) = check(&file, &place);
        assert!(code == 78 && said.contains("is not one of the key beside it"), "{kind}: {said}");
        fs::copy(place.join("one.pub"), &beside).expect("a key");
        let (said, code) = check(&file, &place);
        assert_eq!((code, said.contains("can be forged")), (0, is_weak), "{kind}: {said}");
        // What was checked at the start is served, whatever lies beside the phar by then.
        let server = Setup::root(&file).start();
        fs::copy(place.join("two.pub"), &beside).expect("a key");
        assert_eq!(server.get("/").text(), "1", "{kind}: {}", server.log());
    }
    // A hash in the place of a signature is none.
    super::build(&file, "$phar['index.php'] = '<?php echo 1;'; $phar->setSignatureAlgorithm(Phar::SHA256);");
    let (said, code) = check(&file, &place);
    assert!(code == 78 && said.contains("a public key lies beside it, and it is signed by none"), "{said}");
    fs::remove_file(&beside).expect("a key");
    // A key that is not there, and was meant to be.
    std::os::unix::fs::symlink(place.join("nowhere"), &beside).expect("a link");
    let (said, code) = check(&file, &place);
    assert!(code == 78 && said.contains("the public key beside it: No such file"), "{said}");
    fs::remove_file(&beside).expect("a link");
    for (kind, is_weak) in [("MD5", true), ("SHA1", true), ("SHA256", false), ("SHA512", false)] {
        super::build(
            &file,
            &format!("$phar['index.php'] = '<?php echo 1;'; $phar->setSignatureAlgorithm(Phar::{kind});"),
        );
        let (said, code) = check(&file, &place);
        assert_eq!((code, said.contains("can be forged")), (0, is_weak), "{kind}: {said}");
    }
}

/// Writes a phar with entries of these names, signed as PHP does it; PHP itself writes no such names.
fn write_names(file: &Path, names: &[&str], place: &Path) {
    let names = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let code = format!(
        r#"$names = [{names}]; $manifest = pack('Vnv', count($names), 0x1110, 0) . pack('vVV', 1, 0, 0);
        foreach ($names as $name) $manifest .= pack('V', strlen($name)) . $name . pack('V6', 2, 1700000000, 2, crc32('hi'), 0644, 0);
        $all = "<?php __HALT_COMPILER(); ?>\r\n" . pack('V', strlen($manifest)) . $manifest . str_repeat('hi', count($names));
        file_put_contents('{}', $all . hash('sha256', $all, true) . pack('V', 3) . 'GBMB');"#,
        file.display()
    );
    tests::bridged::php(&code, place);
}

/// Names that collide, lead out of the phar or stand for something else.
#[test]
fn names_that_collide_or_lead_elsewhere_are_refused() {
    let (setup, file) = setup();
    let place = setup.directory().to_owned();
    write_names(&file, &["index.php", "a/b.txt", "a/c.txt"], &place);
    let (said, code) = check(&file, &place);
    assert!(code == 0 && said.contains("3 files"), "{said}");
    for (names, why) in [
        (&["index.php", "index.php"][..], "two entries have the name"),
        (&["a", "a/b"], "needs a directory where the entry"),
        (&["a/b", "a"], "is a file where other entries need a directory"),
        (&["../../../../tmp/out"], "could lead out of the phar"),
        (&["a/../../b"], "could lead out of the phar"),
        (&["/etc/cron.d/x"], "has an absolute path"),
        (&["a\\\\b"], "has a backslash in its name"),
        (&["a\\0.txt"], "has a control character in its name"),
        (&["app.phar"], "has the name of the phar itself"),
        (&["app.phar/x"], "has the name of the phar itself"),
    ] {
        write_names(&file, names, &place);
        let (said, code) = check(&file, &place);
        assert!(code == 78 && said.contains(why), "{names:?}: {code}: {said}");
    }
}

/// A name that is not a phar's, and a root that is neither.
#[test]
fn a_file_without_the_name_of_a_phar_is_no_root() {
    let place = Setup::empty();
    let file = place.directory().join("app.zip");
    fs::write(&file, "x").expect("a file");
    let (said, code) = check(&file, place.directory());
    assert!(code == 78 && said.contains("neither a directory nor a phar"), "{said}");
    let link = place.directory().join("app.phar");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let (said, code) = check(&link, place.directory());
    assert!(code == 78 && said.contains("app.zip, whose name does not end in .phar"), "{said}");
}

/// opcache would find the code of one version for another.
#[test]
fn a_file_cache_is_refused() {
    let (setup, file) = setup();
    phar(&file, &[("index.php", "<?php echo 1;")], STUB);
    let config = setup.directory().join("check.toml");
    let lines = format!("[[application]]\nroot = \"{}\"\nini.\"opcache.file_cache\" = \"/tmp\"\n", file.display());
    fs::write(&config, lines).expect("a configuration");
    let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(78) && said.contains("opcache.file_cache: keeps code by path"), "{said}");
}

/// What was unpacked is the server's as long as it runs, and gone with it.
#[test]
fn unpacked_phars_go_with_who_used_them() {
    let (setup, file) = setup();
    let text = format!("<?php echo '{}';", file.display());
    phar(&file, &[("index.php", &text)], STUB);
    let mut server = setup.start();
    let place = unpacked(&server);
    let (said, code) = about(&server, &["check"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read_to_string(place.join("index.php")).expect("it is unpacked"), text);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.wait(20), 0, "{}", server.log());
    assert!(!place.exists(), "{} is left", place.display());
}
