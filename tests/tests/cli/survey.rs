//! What `reprise check` and the start say of an application's tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};
use tests::process::needs_root;
use tests::server::{Directory, program};
use tests::{Setup, seconds};

fn check(root: &Path, lines: &str) -> String {
    let directory = Directory::new();
    let config = directory.0.join("reprise.toml");
    fs::write(&config, format!("[[application]]\nroot = \"{}\"\n{lines}\n", root.display())).expect("a configuration");
    let output = Command::new(program()).args(["check", "--config"]).arg(config).output().expect("reprise check");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line of that name.
fn line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix(name).filter(|rest| rest.starts_with(' ')))
        .map(str::trim)
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("permissions");
}

/// `reprise check` and the start name directories that the front cannot enter.
#[test]
fn directories_closed_to_the_front_are_named() {
    needs_root();
    let setup = Setup::empty()
        .file("index.php", "<?php echo 'controller';")
        .file("uploads/a.jpg", "jpg")
        .file("open/closed/b.jpg", "jpg")
        .file("passable/c.jpg", "jpg")
        .file(".git/config", "hidden");
    let root = setup.document_root().to_owned();
    mode(&root.join("passable"), 0o711);
    mode(&root.join(".git"), 0o700);
    assert_eq!(line(&check(&root, ""), "warning"), None);
    mode(&root.join("uploads"), 0o700);
    let expected = "uploads is closed to user nobody, who sends files: requests for them get 403";
    assert_eq!(line(&check(&root, ""), "warning"), Some(expected));
    mode(&root.join("open/closed"), 0o750);
    let expected = "open/closed, uploads are closed to user daemon, who sends files: requests for them get 403";
    let text = {
        let directory = Directory::new();
        let config = directory.0.join("reprise.toml");
        let lines = format!("front_user = \"daemon\"\n[[application]]\nroot = \"{}\"\n", root.display());
        fs::write(&config, lines).expect("a configuration");
        let output = Command::new(program()).args(["check", "--config"]).arg(config).output().expect("reprise check");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(line(&text, "warning"), Some(expected));
    for number in 0..5 {
        let path = root.join(format!("private{number}"));
        fs::create_dir(&path).expect("a directory");
        mode(&path, 0o700);
    }
    let text = check(&root, "");
    let said = line(&text, "warning").expect("a warning");
    assert!(said.starts_with("open/closed, private0, private1 and 4 more are closed to user nobody"), "{said}");
    // Whoever is let in by group or as owner is not warned of it; the start says the same as the check.
    nix::unistd::chown(&root.join("uploads"), Some(Uid::from_raw(65534)), None).expect("chown");
    let server = setup.start();
    let log = server.log();
    let said = line(&log, "warning").expect("a warning");
    assert!(said.starts_with("open/closed, private0, private1 and 3 more are closed"), "{said}");
    assert_eq!(server.get("/open/closed/b.jpg").status, 403);
    assert_eq!(server.get("/uploads/a.jpg").text(), "jpg");
    assert_eq!(server.get("/passable/c.jpg").text(), "jpg");
}

/// A hint tells of a front controller that was found beside many other scripts.
#[test]
fn a_front_controller_among_many_scripts_is_told_of() {
    let mut setup = Setup::empty().file("index.php", "<?php echo 'controller';");
    let root = setup.document_root().to_owned();
    assert_eq!(line(&check(&root, ""), "hint"), None);
    for name in ["login.php", "admin.php", "admin/index.php", "lib/functions.php"] {
        setup = setup.file(name, "<?php echo 'own';");
    }
    assert_eq!(line(&check(&root, ""), "hint"), None, "five are not many");
    let setup = setup.file("feed.php", "<?php echo 'own';");
    let text = check(&root, "");
    let hint = line(&text, "hint").expect("a hint");
    assert!(hint.starts_with("5 scripts beside index.php run by their own names"), "{hint}");
    assert!(hint.contains("set front_controller = \"\":"), "{hint}");
    // Who has said what he wants is told nothing.
    assert_eq!(line(&check(&root, "front_controller = \"\""), "hint"), None);
    assert_eq!(line(&check(&root, "front_controller = \"index.php\""), "hint"), None);
    // Nor is an application that has a preset, named or found.
    assert_eq!(line(&check(&root, "preset = \"laravel\""), "hint"), None);
    let found = Setup::empty().file("index.php", "<?php echo 'controller';");
    let of_wordpress =
        ["wp-includes/version.php", "wp-load.php", "wp-login.php", "wp-cron.php", "wp-mail.php", "xmlrpc.php"];
    let found = of_wordpress.iter().fold(found, |setup, name| setup.file(name, "<?php"));
    let described = check(found.document_root(), "");
    assert!(
        line(&described, "preset").is_some_and(|text| text.starts_with("wordpress (the tree says so)")),
        "{described}"
    );
    assert_eq!(line(&described, "hint"), None);
    assert!(line(&check(found.document_root(), "preset = \"\""), "hint").is_some());

    let server = setup.start();
    assert_eq!(line(&server.log(), "hint"), Some(hint));
    assert_eq!((server.get("/nope.css").status, server.get("/nope.css").text().as_str()), (200, "controller"));
    let as_hinted = Setup::root(&root).application("front_controller = \"\"").start();
    assert_eq!(as_hinted.get("/nope.css").status, 404);
    assert_eq!(as_hinted.get("/").text(), "controller");
    assert_eq!(as_hinted.get("/login.php").text(), "own");
    assert_eq!(line(&as_hinted.log(), "hint"), None);
}

/// Links are not followed, nothing is opened, and neither depth nor number of entries delays the start.
#[test]
fn a_huge_tree_is_looked_at_for_a_moment_only() {
    let setup = Setup::empty().file("index.php", "<?php echo 'controller';");
    let root = setup.document_root().to_owned();
    symlink(".", root.join("loop")).expect("a link");
    symlink("/", root.join("all")).expect("a link");
    mkfifo(&root.join("pipe.txt"), Mode::from_bits_truncate(0o666)).expect("a pipe");
    let mut deep = root.join("deep");
    for _ in 0..200 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).expect("directories");
    assert_eq!(line(&check(&root, ""), "hint"), None);
    for directory in 0..30 {
        let path = root.join(format!("many{directory}"));
        fs::create_dir(&path).expect("a directory");
        for number in 0..1000 {
            fs::write(path.join(format!("{number}.php")), "").expect("a script");
        }
    }
    let began = Instant::now();
    let text = check(&root, "");
    assert!(began.elapsed() < seconds(5), "{:?}", began.elapsed());
    let hint = line(&text, "hint").expect("a hint");
    let count = hint.strip_prefix("more than ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(count.is_some_and(|count| (5..=20_000).contains(&count)), "{hint}");
    let server = setup.start();
    let took = server.log().split("ready after ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(Duration::from_millis(took.expect("a time")) < seconds(5), "{}", server.log());
}
