//! Scripts that are symbolic links, as Debian installs applications: /var/lib/mediawiki/index.php leads to /usr/share/mediawiki.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tests::server::Directory;
use tests::{Server, Setup};

const SHOW: &str = "<?php echo basename(__FILE__), ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], ' ',
    str_replace($_SERVER['DOCUMENT_ROOT'], '', $_SERVER['SCRIPT_FILENAME']);";

/// What a package installs.
fn package(script: &str) -> Directory {
    let directory = Directory::new();
    fs::create_dir(directory.0.join("share")).expect("a directory");
    for name in ["real.php", "load.php"] {
        fs::write(directory.0.join("share").join(name), script).expect("a script");
    }
    fs::write(directory.0.join("share/skin.css"), "css").expect("a file");
    directory
}

/// A root that leads there: its front controller, one below it, and a directory.
fn linked(package: &Directory) -> Setup {
    let setup = Setup::empty().file("sub/plain.txt", "plain");
    let (share, root) = (package.0.join("share"), setup.document_root());
    symlink(share.join("real.php"), root.join("index.php")).expect("a link");
    symlink(share.join("real.php"), root.join("sub/start.php")).expect("a link");
    symlink(&share, root.join("w")).expect("a link");
    setup
}

fn follow(package: &Directory) -> String {
    format!("links = \"inside\"\nfollow = [\"{}\"]", package.0.join("share").display())
}

fn assert_answers(server: &Server, expected: &[(&str, &str)]) {
    for (path, text) in expected {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, *text), "{path}");
    }
}

/// A front controller that is a symbolic link is taken if `follow` allows its target.
#[test]
fn a_linked_front_controller_is_taken_as_follow_allows() {
    let package = package(SHOW);
    let wiki = [
        ("/", "real.php /index.php / /index.php"),
        ("/wiki/Main_Page", "real.php /index.php /wiki/Main_Page /index.php"),
        ("/index.php/x?y", "real.php /index.php /index.php/x?y /index.php"),
        ("/w/load.php?a", "load.php /w/load.php /w/load.php?a /w/load.php"),
        ("/w/skin.css", "css"),
        ("/sub/plain.txt", "plain"),
    ];
    // By itself, said outright, and with the two options in either order.
    for lines in [
        follow(&package),
        format!("{}\nfront_controller = \"index.php\"", follow(&package)),
        format!("front_controller = \"/index.php\"\n{}", follow(&package)),
    ] {
        let server = linked(&package).application(&lines).start();
        assert_answers(&server, &wiki);
    }
    for (script, below) in [("sub/start.php", "real.php"), ("w/load.php", "load.php")] {
        let lines = format!("front_controller = \"{script}\"\n{}", follow(&package));
        let server = linked(&package).application(&lines).start();
        for path in ["/", "/none", "/sub/none?q"] {
            assert_eq!(server.get(path).text(), format!("{below} /{script} {path} /{script}"), "{script}");
        }
    }
}

/// Scripts that are symbolic links have the mode that `mode` says for their name.
#[test]
fn linked_scripts_have_the_mode_that_is_said() {
    let snapshot = package("<?php reprise_snapshot(); echo reprise_info()['mode'], ' ', $_SERVER['SCRIPT_NAME'];");
    for isolation in ["auto", "fork"] {
        let lines = format!("{}\nmode.\"w/load.php\" = \"snapshot\"\nisolation = \"{isolation}\"", follow(&snapshot));
        let server = linked(&snapshot).application(&lines).start();
        assert_answers(&server, &[("/w/load.php", "snapshot /w/load.php"), ("/any", "snapshot /index.php")]);
    }
    let worker = package(
        "<?php while (reprise_handle_request(fn () => print(reprise_info()['mode'] . ' ' . $_SERVER['SCRIPT_NAME'])));",
    );
    let server = linked(&worker).application(&format!("mode.\"index.php\" = \"worker\"\n{}", follow(&worker))).start();
    assert_answers(&server, &[("/any", "worker /index.php")]);
}

fn assert_refused(setup: Setup, lines: &str, words: &[&str]) {
    let mut server = setup.application(lines).launch();
    assert_eq!(server.wait(20), 78, "{lines}: {}", server.log());
    assert!(words.iter().all(|word| server.log().contains(word)), "{words:?} in {}", server.log());
}

/// A linked script whose target `follow` does not allow is refused, with a hint that names the option.
#[test]
fn links_that_follow_does_not_allow_are_refused_in_words() {
    let package = package(SHOW);
    let share = package.0.join("share").canonicalize().expect("a path").display().to_string();
    let hint = format!("hint: follow = [\"{share}\"]");
    let real = format!("leads to {share}/real.php, which is outside the root");
    for option in ["", "front_controller = \"index.php\"", "mode.\"sub/start.php\" = \"classic\""] {
        let lines = format!("{option}\nlinks = \"inside\"");
        assert_refused(linked(&package), &lines, &[&real, &hint]);
    }
    // Out of the directory that is allowed by another link.
    fs::write(package.0.join("other.php"), SHOW).expect("a script");
    symlink("../other.php", package.0.join("share/out.php")).expect("a link");
    for option in ["front_controller = \"w/out.php\"", "mode.\"w/out.php\" = \"classic\""] {
        let lines = format!("{option}\n{}", follow(&package));
        assert_refused(linked(&package), &lines, &["share/out.php leads to", "outside the root"]);
    }
    let setup = linked(&package);
    symlink("nowhere.php", setup.document_root().join("gone.php")).expect("a link");
    assert_refused(setup, "front_controller = \"gone.php\"", &["gone.php is not a file in"]);
    assert_refused(linked(&package), "front_controller = \"../x\"", &["outside the root"]);
}

/// The link may be open to PHP's user and what it leads to closed.
#[test]
fn a_linked_script_that_phps_user_cannot_read_is_named() {
    tests::process::needs_root();
    let package = package(SHOW);
    fs::set_permissions(package.0.join("share"), fs::Permissions::from_mode(0o700)).expect("permissions");
    let lines = format!("front_controller = \"index.php\"\n{}", follow(&package));
    let mut server = linked(&package).application(&lines).launch();
    assert_eq!(server.wait(20), 77, "{}", server.log());
    assert!(server.log().contains("share (mode 700) is closed to"), "{}", server.log());
}
