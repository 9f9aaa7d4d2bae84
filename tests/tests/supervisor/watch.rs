//! Reloads that follow by themselves: files that change, and an opcache that cannot go on.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tests::{Server, Setup, wait_until};

const SNAPSHOT: &str = "<?php require __DIR__ . '/lib.php'; reprise_snapshot(); echo version();";

fn lib(version: u32) -> String {
    format!("<?php function version() {{ return 'version {version}'; }}")
}

fn reloads(server: &Server) -> usize {
    server.log().matches("reloaded: ").count()
}

/// Makes what was written a minute old. Of a file that the watcher has not seen yet opcache knows the second alone.
fn age(file: &Path) {
    let then = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(file).and_then(|file| file.set_modified(then)).unwrap();
}

fn changes(server: &Server, path: &str, text: &str, answer: &str) {
    fs::write(server.root.join(path), text).unwrap();
    wait_until(answer, 30, || server.get("/").text() == answer);
}

/// With `watch` a changed file leads to one reload; broken code does not go live.
#[test]
fn a_changed_file_is_followed_by_a_reload() {
    let setup = Setup::empty().file("index.php", SNAPSHOT).file("lib.php", lib(1)).application("watch = true");
    age(&setup.document_root().join("lib.php"));
    let server = setup.start();
    assert_eq!(server.get("/").text(), "version 1");
    changes(&server, "lib.php", &lib(2), "version 2");
    wait_until("the reload is told", 20, || reloads(&server) == 1);
    let log = server.log();
    assert!(log.contains("lib.php has changed") && log.contains("files have changed"), "{log}");
    // Broken code does not go live, and is not tried again and again.
    fs::write(server.root.join("lib.php"), "<?php function version( {").unwrap();
    wait_until("it is refused", 30, || server.log().contains("reload refused"));
    assert_eq!(server.get("/").text(), "version 2");
    changes(&server, "lib.php", &lib(3), "version 3");
    wait_until("the second reload is told", 20, || reloads(&server) == 2);
    assert_eq!(server.log().matches("reload refused").count(), 1, "{}", server.log());
}

/// `watch` notices changed files though opcache does not validate time stamps.
#[test]
fn files_that_opcache_does_not_validate_are_watched_too() {
    let server = Setup::empty()
        .file("index.php", "<?php require __DIR__ . '/lib.php'; echo version();")
        .file("lib.php", lib(1))
        .application("watch = true")
        .ini("opcache.validate_timestamps", "0")
        .start();
    assert_eq!(server.get("/").text(), "version 1");
    // What is changed before the watcher has seen it once is not noticed without time stamps.
    let new = server.directory().join("lib.new");
    wait_until("the watcher's second look", 20, || {
        fs::write(&new, lib(2)).unwrap();
        fs::rename(&new, server.root.join("lib.php")).unwrap();
        server.log().contains("lib.php has changed")
    });
    wait_until("the reload", 30, || server.get("/").text() == "version 2");
    assert!(reloads(&server) >= 1);
}

/// Files in excepted directories, which the application itself writes, lead to no reload.
#[test]
fn directories_of_caches_are_left_alone() {
    let script = "<?php
        require __DIR__ . '/lib.php';
        foreach (['excepted', 'other'] as $name) {
            $cache = getenv('CACHE') . \"/$name/cached.php\";
            file_put_contents(\"$cache.new\", '<?php return ' . hrtime(true) . ';');
            touch(\"$cache.new\", time() - 10 - random_int(0, 1000));
            rename(\"$cache.new\", $cache);
            opcache_invalidate($cache, true);
            if (!(include $cache) || !opcache_is_script_cached($cache)) exit('not cached');
        }
        echo version();";
    let setup = Setup::empty().file("index.php", script).file("lib.php", lib(1));
    let [name, ..] = ["cache", "cache/excepted", "cache/other"].map(|name| setup.writable(name));
    let watched = format!("watch = true\nwatch_except = [\"{name}/excepted\"]");
    let server = setup.application(&watched).env("CACHE", &name).start();
    // Each request changes both: whoever looks at the one and finds it changed has seen the other too.
    wait_until("the other is found changed, twice", 30, || {
        assert_eq!(server.get("/").text(), "version 1");
        server.log().matches("other/cached.php has changed").count() >= 2
    });
    changes(&server, "lib.php", &lib(2), "version 2");
    assert!(!server.log().contains("excepted/cached.php has changed"), "{}", server.log());
}

/// Includes files of some hundred KB, each of which is replaced at once if it is to be, until opcache has no room left.
const FILL: &str = "<?php
    $status = fn () => opcache_get_status(false);
    for ($i = 0; $i < 400 && !$status()['cache_full'] && !$status()['restart_pending']; $i++) {
        $file = getenv('CACHE') . \"/$i.php\";
        $entries = '';
        // Small ones at last: memory in which they find no place is full for opcache.
        for ($n = 0; $n < ($i < 80 ? 2000 : 100); $n++) $entries .= \"'key $i $n ' => 'a value that stands here for the first time $i $n',\\n\";
        file_put_contents($file, \"<?php return [$entries];\");
        touch($file, time() - 1000);
        include $file;
        if (isset($_GET['waste'])) opcache_invalidate($file, true);
    }
    echo json_encode(array_intersect_key($status(), ['cache_full' => 1, 'restart_pending' => 1]));";

fn filling(settings: &str) -> Setup {
    let setup = Setup::empty().file("index.php", SNAPSHOT).file("lib.php", lib(1)).file("fill.php", FILL);
    let name = setup.writable("cache");
    setup
        .env("CACHE", &name)
        .application(settings)
        .ini("opcache.memory_consumption", "16")
        .ini("opcache.interned_strings_buffer", "4")
}

/// If opcache has to restart, a new generation with an opcache of its own takes over.
#[test]
fn an_opcache_that_is_to_restart_makes_place_for_another() {
    let server = filling("workers = 1").ini("opcache.max_wasted_percentage", "1").start();
    let answer = server.get("/fill.php?waste").text();
    assert!(answer.contains("\"restart_pending\":true"), "{answer}");
    // The template holds opcache's lock: it would wait for ever, and cache nothing.
    wait_until("another generation", 60, || {
        server.get("/lib.php");
        reloads(&server) == 1
    });
    let log = server.log();
    assert!(log.contains("opcache has to restart") && !log.contains("refused"), "{log}");
    assert_eq!(server.get("/").text(), "version 1");
}

/// A worker script runs code that lies in opcache for as long as it lives: no restart may come between its requests.
#[test]
fn an_opcache_does_not_restart_under_a_worker_script() {
    let functions: String = (0..500)
        .map(|n| format!("function own_{n}() {{ return strlen('a text that is of {n} alone') + [{n}, 'x{n}' => {n}]['x{n}']; }}\n"))
        .collect();
    let sum: usize = (0..500).map(|n: usize| format!("a text that is of {n} alone").len() + n).sum();
    let script = "<?php require __DIR__ . '/own.php';
        $handler = function () { if (isset($_GET['fill'])) { include __DIR__ . '/fill.php'; } else { $sum = 0; for ($n = 0; $n < 500; $n++) $sum += (\"own_$n\")(); echo $sum; } };
        while (reprise_handle_request($handler)) {}";
    let server = filling("workers = 1\nmode.\"index.php\" = \"worker\"")
        .file("index.php", script)
        .file("own.php", format!("<?php\n{functions}"))
        .ini("opcache.max_wasted_percentage", "1")
        .ini("opcache.file_update_protection", "0")
        .ini("memory_limit", "512M")
        .start();
    for round in 0..8 {
        server.get("/?fill=1&waste=1");
        for _ in 0..5 {
            let answer = server.get("/");
            assert_eq!((answer.status, answer.text()), (200, sum.to_string()), "{round}: {}", server.log());
        }
    }
    assert!(!server.log().contains("recycled") && !server.log().contains("killed by"), "{}", server.log());
}

/// A full opcache is reported once, with the setting to raise, and leads to no reload.
#[test]
fn an_opcache_that_is_full_is_told_once() {
    let server = filling("workers = 1").ini("opcache.max_wasted_percentage", "50").start();
    let answer = server.get("/fill.php").text();
    assert!(answer.contains("\"cache_full\":true"), "{answer}");
    wait_until("it is told", 60, || {
        server.get("/lib.php");
        server.log().contains("opcache is full")
    });
    assert!(server.log().contains("opcache.memory_consumption (it is 16 MB"), "{}", server.log());
    assert_eq!(reloads(&server), 0, "what fills it within an hour would fill the next one too");
}
