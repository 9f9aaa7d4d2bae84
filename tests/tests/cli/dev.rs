//! `reprise dev`: a request that comes after a save is run by what was saved, whatever the mode, and however it was saved.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tests::modes::modes;
use tests::{Client, Setup, amount, wait_until};

fn page(version: u64) -> String {
    format!("<?php function page() {{ return 'version {version}'; }}")
}

/// The version that a page says.
fn version(text: &str) -> u64 {
    let rest = text.split("version ").nth(1).unwrap_or_else(|| panic!("no version: {text}"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// The ways of editors: in place, by a file that takes the name, by a copy that is moved away, by a removal.
fn save(path: &Path, text: &str, way: u64) {
    let beside = path.with_extension("new");
    match way % 4 {
        0 => fs::write(path, text).unwrap(),
        1 => {
            fs::write(&beside, text).unwrap();
            fs::rename(&beside, path).unwrap();
        }
        2 => {
            fs::rename(path, path.with_extension("php~")).unwrap();
            fs::write(path, text).unwrap();
        }
        _ => {
            fs::remove_file(path).unwrap();
            fs::write(path, text).unwrap();
        }
    }
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).unwrap();
}

/// An application that loads its page before a snapshot or loop, as its mode is.
fn application(end: &str) -> Setup {
    let script = format!(
        "<?php require __DIR__ . '/page.php';
        $handle = function () {{ echo page(), ' in ', reprise_info()['mode'] ?? '?'; }};
        {end}"
    );
    Setup::empty().file("index.php", script).file("page.php", page(0))
}

#[test]
fn each_save_is_seen_by_the_next_request_in_every_mode() {
    for (mode, end, _) in modes().into_iter().take(3) {
        let server = application(end).develop(&[]);
        let (path, mut client) = (server.root.join("page.php"), server.client());
        let count = amount(40, 400) as u64;
        for number in 1..=count {
            save(&path, &page(number), number);
            let text = client.get("/").text();
            assert_eq!(version(&text), number, "{mode}: {text}");
        }
        // What runs from a boot does so again when nobody saves.
        wait_until(mode, 20, || client.get("/").text() == format!("version {count} in {mode}"));
    }
}

/// Somebody saves as fast as that goes while others ask: no response is older than what had been saved before its request.
#[test]
fn a_thousand_saves_and_no_stale_response() {
    /// Answers to each of the two while somebody saves, at least.
    const ANSWERS: u64 = 10;
    for (mode, end, _) in modes().into_iter().take(3) {
        let server = application(end).develop(&[]);
        let (saved, saves) = (AtomicU64::new(0), if mode == "classic" { 1000 } else { amount(300, 1000) as u64 });
        let (last, asked) = (AtomicU64::new(u64::MAX), [const { AtomicU64::new(0) }; 2]);
        let path = server.root.join("page.php");
        let ask = |asked: &AtomicU64| {
            let mut client = server.client();
            loop {
                let floor = saved.load(Ordering::SeqCst);
                let text = client.get("/").text();
                // A file that is being written may be empty.
                if text.contains("version ") {
                    assert!(version(&text) >= floor, "{mode}: {text} after save {floor}");
                }
                asked.fetch_add(1, Ordering::SeqCst);
                if floor == last.load(Ordering::SeqCst) {
                    assert_eq!(version(&text), floor, "{mode}: {text}");
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            let asking = asked.each_ref().map(|count| scope.spawn(move || ask(count)));
            let begun = Instant::now();
            let mut number = 0;
            let mut enough = false;
            while !enough {
                number += 1;
                save(&path, &page(number), if number % 2 == 0 { 0 } else { 1 });
                // However fast the disk is: both must have asked while files changed. A failed one does not keep the others waiting.
                let answered = asked.iter().all(|count| count.load(Ordering::SeqCst) >= ANSWERS);
                let late = begun.elapsed() > Duration::from_secs(60) || asking.iter().any(|one| one.is_finished());
                enough = late || (number >= saves && answered);
                if enough {
                    last.store(number, Ordering::SeqCst);
                }
                saved.store(number, Ordering::SeqCst);
            }
            let asked = asked.each_ref().map(|count| count.load(Ordering::SeqCst));
            asking.into_iter().for_each(|one| one.join().unwrap());
            assert!(
                number >= saves && asked.iter().all(|count| *count >= ANSWERS),
                "{mode}: {number} saves, {asked:?}"
            );
        });
    }
}

/// opcache tells files apart by the second of their last change. What changes without another second is seen all the same.
#[test]
fn files_that_keep_their_time_are_seen() {
    let server = application("$handle();").develop(&[]);
    let path = server.root.join("page.php");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    set_time(&path, long_ago);
    for number in 1..4 {
        // Twice, so that opcache has it.
        assert_eq!(version(&server.get("/").text()), number - 1);
        assert_eq!(version(&server.get("/").text()), number - 1);
        let beside = path.with_extension("new");
        fs::write(&beside, page(number)).unwrap();
        set_time(&beside, long_ago);
        fs::rename(&beside, &path).unwrap();
        assert_eq!(version(&server.get("/").text()), number);
    }
}

#[test]
fn links_and_directories_that_change_are_followed() {
    let server = Setup::empty()
        .file("public/index.php", "<?php require '../release/page.php'; echo page();")
        .file("first/page.php", page(1))
        .file("second/page.php", page(2))
        .file("public/style.css", "a {}")
        .develop(&["--ignore", "nothing-there"]);
    let root = &server.root;
    let says = |number: u64| assert_eq!(version(&server.get("/").text()), number);
    symlink("first", root.join("release")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("..", root.join("first/up")).unwrap();
    symlink("/", root.join("first/all")).unwrap();
    says(1);
    says(1);
    // As a deployment does it.
    symlink("second", root.join("next")).unwrap();
    fs::rename(root.join("next"), root.join("release")).unwrap();
    says(2);
    // A directory in the place of the link, made somewhere else.
    fs::create_dir(root.join("third")).unwrap();
    fs::write(root.join("third/page.php"), page(3)).unwrap();
    fs::remove_file(root.join("release")).unwrap();
    fs::rename(root.join("third"), root.join("release")).unwrap();
    says(3);
    fs::write(root.join("release/page.php"), page(4)).unwrap();
    says(4);
    fs::create_dir_all(root.join("new/deep/deeper")).unwrap();
    fs::write(root.join("new/deep/deeper/page.php"), page(5)).unwrap();
    fs::write(root.join("public/index.php"), "<?php require '../new/deep/deeper/page.php'; echo page();").unwrap();
    says(5);
    fs::write(root.join("new/deep/deeper/page.php"), page(6)).unwrap();
    says(6);
    // Gone, and back with a file of the same name.
    fs::remove_dir_all(root.join("new")).unwrap();
    assert_eq!(server.get("/").status, 500);
    fs::create_dir_all(root.join("new/deep/deeper")).unwrap();
    fs::write(root.join("new/deep/deeper/page.php"), page(7)).unwrap();
    says(7);
}

/// Whether there is a front controller, and where, is found out anew.
#[test]
fn a_front_controller_that_comes_and_goes_is_found() {
    let server = Setup::empty().file("index.html", "static").file("a.txt", "text").develop(&[]);
    let get = |path: &str| (server.get(path).status, server.get(path).text());
    assert_eq!((get("/").1.as_str(), get("/a/b").0), ("static", 404));
    fs::write(server.root.join("index.php"), "<?php echo 'script ', $_SERVER['REQUEST_URI'];").unwrap();
    assert_eq!(get("/a/b").1, "script /a/b");
    fs::create_dir(server.root.join("public")).unwrap();
    fs::write(server.root.join("public/index.php"), "<?php echo 'public';").unwrap();
    assert_eq!(get("/a/b").1, "public");
    fs::remove_dir_all(server.root.join("public")).unwrap();
    assert_eq!(get("/a/b").1, "script /a/b");
    // Nothing is left that could be served, which the page says, and then there is something.
    fs::remove_file(server.root.join("index.php")).unwrap();
    fs::remove_file(server.root.join("index.html")).unwrap();
    let gone = server.get("/");
    assert!(gone.status == 503 && gone.text().contains("no index.php"), "{}", gone.text());
    fs::write(server.root.join("index.php"), "<?php echo 'back';").unwrap();
    assert_eq!(get("/").1, "back");
}

/// Files are sent as they are on the disk at that moment, and no browser keeps them.
#[test]
fn files_are_sent_as_they_are() {
    let server = Setup::empty().file("index.html", "x").file("a.css", "one").develop(&[]);
    let mut client: Client = server.client();
    for number in 0..200 {
        let text = format!("{:03}", number % 7);
        fs::write(server.root.join("a.css"), &text).unwrap();
        let response = client.get("/a.css");
        assert_eq!((response.text(), response.header("cache-control")), (text, Some("no-store")));
    }
    fs::remove_file(server.root.join("a.css")).unwrap();
    assert_eq!(client.get("/a.css").status, 404);
}

/// A script whose boot fails is run in classic mode, which shows why; its next version boots.
#[test]
fn a_boot_that_fails_shows_why_and_the_next_save_boots() {
    for (mode, end, _) in modes().into_iter().skip(1).take(2) {
        let server = application(end).develop(&[]);
        let path = server.root.join("page.php");
        wait_until("it is booted", 20, || server.get("/").text() == format!("version 0 in {mode}"));
        for (broken, why) in [
            ("<?php function page() {", "Parse error"),
            ("<?php throw new LogicException('no luck');", "no luck"),
            ("<?php exit(3);", ""),
        ] {
            fs::write(&path, broken).unwrap();
            let response = server.get("/");
            assert!(response.text().contains(why), "{mode}: {}", response.text());
            assert_eq!(response.status, if why.is_empty() { 200 } else { 500 });
        }
        fs::write(&path, page(9)).unwrap();
        assert_eq!(version(&server.get("/").text()), 9);
        wait_until("it is booted again", 20, || server.get("/").text() == format!("version 9 in {mode}"));
    }
}

/// Who watches may be killed: what was saved meanwhile is seen all the same.
#[test]
fn the_watcher_may_die() {
    let server = application(modes()[2].1).develop(&[]);
    let path = server.root.join("page.php");
    wait_until("it is booted", 20, || server.get("/").text() == "version 0 in snapshot");
    let watcher = || {
        let named =
            |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "reprise-watcher\n");
        tests::process::children(server.pid()).into_iter().find(named)
    };
    for number in 1..4 {
        let pid = watcher().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        fs::write(&path, page(number)).unwrap();
        assert_eq!(version(&server.get("/").text()), number);
        wait_until("another watches", 30, || watcher().is_some_and(|other| other != pid));
    }
    wait_until("it is booted again", 20, || server.get("/").text() == "version 3 in snapshot");
}

/// A request that is under way when files change goes on, however long it takes.
#[test]
fn a_request_that_somebody_looks_at_in_a_debugger_goes_on() {
    let script = "<?php if (isset($_GET['wait'])) { while (!file_exists(__DIR__ . '/go.log')) { usleep(1000); clearstatcache(); } }
        echo 'old';";
    let server = Setup::empty().file("index.php", script).file("link/x", "").develop(&[]);
    let mut waiting: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (turn, client) in waiting.iter_mut().enumerate() {
        client.send(format!("GET /?wait HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port).as_bytes()).unwrap();
        wait_until("it runs", 20, || server.get("/").status == 200);
        // A change that takes new processes.
        fs::rename(
            server.root.join(format!("link{}", "k".repeat(turn))),
            server.root.join(format!("linkk{}", "k".repeat(turn))),
        )
        .unwrap();
        assert_eq!(server.get("/").text(), "old");
    }
    fs::write(server.root.join("go.log"), "").unwrap();
    for client in &mut waiting {
        assert_eq!(client.read(false).unwrap().text(), "old");
    }
}

/// What a request itself writes does not let a page that reloads turn in circles.
#[test]
fn what_lies_beside_the_source_changes_nothing() {
    let script = "<?php file_put_contents(__DIR__ . '/var/log/a.log', 'x', FILE_APPEND);
        file_put_contents(__DIR__ . '/data.sqlite', 'x', FILE_APPEND); echo 'done';";
    let setup = Setup::empty().file("index.php", script).file("var/log/a.log", "").file("data.sqlite", "");
    for name in ["var/log/a.log", "data.sqlite"] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(setup.document_root().join(name), open).unwrap();
    }
    let server = setup.develop(&[]);
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "done");
    }
    fs::write(server.root.join("seen.txt"), "").unwrap();
    wait_until("changes are told", 20, || server.log().contains("changed: "));
    assert!(server.log().contains("changed: seen.txt"), "{}", server.log());
    assert!(!server.log().contains("a.log") && !server.log().contains("data.sqlite"), "{}", server.log());
}

/// Directories that keep coming, as while packages are installed, keep nobody waiting: a request needs what was there when it came.
#[test]
fn a_request_does_not_wait_for_what_changes_later() {
    let server = Setup::empty().file("index.php", "<?php echo 'x';").develop(&[]);
    let (made, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = made.fetch_add(1, Ordering::Relaxed);
                let directory = server.root.join(format!("vendor/package{number}"));
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("a.php"), "<?php").unwrap();
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let asked = std::panic::catch_unwind(|| {
            for _ in 0..5 {
                let before = made.load(Ordering::Relaxed);
                wait_until("more directories are there", 20, || made.load(Ordering::Relaxed) > before + 3);
                let response = server.get("/");
                assert_eq!((response.status, response.text().as_str()), (200, "x"));
            }
        });
        is_over.store(true, Ordering::Relaxed);
        asked.unwrap();
    });
}
