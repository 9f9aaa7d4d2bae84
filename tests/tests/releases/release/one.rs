//! One node: what it serves is compiled and closed to the application's user, it goes back within a second, and it starts without the pool.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::sys::signal::Signal;
use tests::peer::Program;

use tests::process::is_root;
use tests::yard::Yard;

const LOOK: &str = r#"<?php
$cache = ini_get('opcache.file_cache');
$of = fn ($path) => [is_writable($path), @file_put_contents("$path/new", 'x'), @file_put_contents(__FILE__, 'x')];
echo json_encode(['code' => $of(__DIR__), 'cache' => $of($cache), 'path' => $cache, 'mine' => posix_getuid(), 'has' => extension_loaded('opcache_none'),
    'upload' => @file_put_contents(__DIR__ . '/uploads/' . 'a.txt', 'x'), 'hits' => array_keys(opcache_get_status()['scripts'] ?? [])]);
"#;

/// Releases of one second have sequences of their own, the later one the higher.
#[test]
fn releases_that_are_built_in_a_row_are_in_order() {
    let yard = Yard::new(None);
    let tree = yard.tree("1");
    let (tree, file) = (tree.to_str().unwrap(), yard.path("one.release"));
    let build = || {
        let text = yard.fine(&["build", tree, "-o", file.to_str().unwrap(), "--no-compile", "--json"]);
        let built: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        built["sequence"].as_u64().unwrap()
    };
    let sequences = [build(), build(), build()];
    assert!(sequences.is_sorted_by(|one, next| one < next), "{sequences:?}");
}

/// opcache takes the release's compiled code, in a directory that the application's user cannot write.
#[test]
fn compiled_code_is_used_by_who_cannot_write_it() {
    let yard = Yard::new(None);
    let base = yard.path("base");
    let tree = yard.tree("1");
    std::fs::write(tree.join("public/look.php"), LOOK).unwrap();
    // What lies where the application writes is not unpacked.
    std::fs::create_dir(tree.join("public/uploads")).unwrap();
    std::fs::write(tree.join("public/uploads/seed.txt"), "seed").unwrap();
    let dir = base.to_str().unwrap();
    let text = yard.fine(&[
        "build",
        tree.to_str().unwrap(),
        "-o",
        yard.path("f").to_str().unwrap(),
        "--name",
        "shop",
        "--release-dir",
        dir,
    ]);
    assert!(text.contains("3 of them compiled") && text.contains("NOT SIGNED"), "{text}");
    yard.push(&tree, &["--release-dir", dir]);
    yard.activate_fine("latest");
    let node = yard.node(
        "one",
        &format!("release_dir = \"{dir}\""),
        "release_writable = [\"public/uploads\"]\nini.\"opcache.log_verbosity_level\" = \"4\"",
    );
    assert!(node.serves("1") && node.is_ready());
    let text = node.server.get("/look.php").text();
    let seen: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    assert!(seen["path"].as_str().unwrap().starts_with(dir), "the build's settings are not in the code: {seen}");
    assert_eq!(seen["upload"], 1, "{seen}");
    assert_eq!(std::fs::read_dir(node.server.directory().join("shared/shop/public/uploads")).unwrap().count(), 1);
    assert_eq!(node.server.get("/uploads/a.txt").text(), "x");
    if is_root() {
        for what in ["code", "cache"] {
            assert_eq!(seen[what], serde_json::json!([false, false, false]), "{seen}");
        }
        let owner = std::fs::metadata(seen["path"].as_str().unwrap()).unwrap();
        assert!(owner.uid() != seen["mine"].as_u64().unwrap() as u32 && owner.permissions().mode() & 0o022 == 0);
    }
    for script in ["index.php", "template.php", "look.php"] {
        let line = |line: &str| line.contains("File cached script loaded") && line.contains(&format!("/{script}'"));
        tests::wait_until("the log says that compiled code was loaded", 10, || node.server.log().lines().any(line));
        let line = |line: &str| line.contains("Message Cached script") && line.contains(&format!("/{script}'"));
        assert!(!node.server.log().lines().any(line), "{script} was compiled again");
    }
    if is_root() {
        // What is the application's has links of its making: root makes nothing there.
        std::os::unix::fs::symlink("/tmp", node.server.directory().join("shared/shop/public/uploads/more")).unwrap();
        node.server.reconfigure("public/uploads", "public/uploads/more");
        let (is_done, said) = node.server.reload();
        assert!(!is_done && said.contains("shared/shop/public/uploads: belongs to user"), "{said}");
        assert!(node.serves("1"));
    }
}

/// A switch, a switch back within a second, files of the release before, and a restart without the pool.
#[test]
fn a_node_switches_and_goes_back_and_starts_without_its_pool() {
    let yard = Yard::new(None);
    for version in ["1", "2"] {
        let tree = yard.tree(version);
        std::fs::write(tree.join(format!("public/app.{version}f2a9c1b.css")), version).unwrap();
        std::fs::write(tree.join(format!("public/plain{version}.css")), version).unwrap();
        yard.push(&tree, &["--no-compile"]);
    }
    let (setup, admin) = yard.setup("one", "", "");
    let mut node = tests::yard::Node { server: setup.start(), admin };
    assert_eq!(node.server.get("/").status, 503, "there is no release yet");
    tests::wait_until("it is unready without a release", 10, || !node.is_ready());
    yard.await_nodes(1);
    yard.activate_fine("1");
    assert!(node.serves("1"));
    tests::wait_until("it is ready", 10, || node.is_ready());
    yard.activate_fine("2");
    assert!(node.serves("2"));
    assert_eq!(node.server.get("/app.1f2a9c1b.css").text(), "1", "pages of the old release name it");
    assert!(!node.server.get("/plain1.css").text().starts_with('1'), "a name that may stand for something else");
    let json = yard.rollback();
    assert!(node.serves("1"));
    println!("rollback: {json}");
    assert!(json["ms"].as_u64().unwrap() < 3000, "{json}");
    assert_eq!(node.server.get("/app.2f2a9c1b.css").text(), "2");
    // Reloads keep the release.
    let (is_fine, text) = node.server.reload();
    assert!(is_fine && node.serves("1"), "{text}");
    // Without the pool, and without what was unpacked.
    std::fs::rename(yard.path("pool"), yard.path("away")).unwrap();
    node.server.signal(Signal::SIGTERM);
    assert_eq!(node.server.wait(20), 0);
    let directory = node.server.directory().to_owned();
    let chmod =
        std::process::Command::new("chmod").args(["-R", "u+w"]).arg(directory.join("releases")).status().unwrap();
    assert!(chmod.success());
    std::fs::remove_dir_all(directory.join("releases")).unwrap();
    let mut command = std::process::Command::new(tests::server::program());
    command.args(["serve", "--config"]).arg(directory.join("reprise.toml"));
    let again = Program::start(&mut command, &directory.join("again.log"));
    let port = node.server.port;
    tests::wait_until("it serves what it has kept", 30, || {
        tests::client::connect(port).is_ok() && tests::get(port, "/").text().starts_with("1 1")
    });
    drop(again);
}
