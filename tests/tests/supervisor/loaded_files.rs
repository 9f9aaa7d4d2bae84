//! What people have to know of a server that serves: a file that a boot has loaded has changed, a boot takes long, workers crash.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tests::{Server, Setup, modes, wait_until};

const SCRIPT: &str = "<?php
    $made = __DIR__ . '/../cache/made.php';
    is_file($made) || file_put_contents($made, '<?php return 1;');
    require $made;
    require __DIR__ . '/lib.php';
    $handle = function () {
        if (isset($_GET['die'])) posix_kill(getmypid(), (int) $_GET['die']);
        echo lib();
    };
";

fn lib(text: &str) -> String {
    format!("<?php function lib() {{ return '{text}'; }}")
}

/// Ways to change a file, after the last of which the directory has another file of that name.
type Change = fn(&Path);
const CHANGES: [(&str, Change); 3] = [
    ("written", |path| fs::write(path, lib("two")).unwrap()),
    ("written, with its old time", |path| {
        let time = SystemTime::now() - Duration::from_secs(86_400);
        fs::write(path, lib("two")).unwrap();
        fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }),
    ("replaced", |path| {
        let next = path.with_extension("next");
        fs::write(&next, lib("two")).unwrap();
        fs::rename(next, path).unwrap();
    }),
];

fn start(mode: &str, end: &str, lines: &[String]) -> Server {
    let setup = Setup::empty().file("index.php", format!("{SCRIPT}{end}")).file("lib.php", lib("one"));
    let cache = setup.writable("app/cache");
    assert!(Path::new(&cache).is_dir(), "{mode}");
    lines.iter().fold(setup, |setup, line| setup.application(line)).start()
}

const SAID: &str = "a loaded file has changed";

/// Said once and marked, until a reload has loaded the file anew. In classic mode PHP looks at the file itself, and nothing is said.
#[test]
fn a_loaded_file_that_has_changed_is_noticed() {
    let modes = modes::modes();
    std::thread::scope(|scope| {
        for (number, (mode, end, lines)) in modes.iter().enumerate() {
            scope.spawn(move || {
                let (what, change) = CHANGES[number % CHANGES.len()];
                let server = start(mode, end, lines);
                assert_eq!(server.get("/").text(), "one");
                let path = server.root.join("lib.php");
                change(&path);
                if *mode == "classic" {
                    wait_until("PHP sees it", 10, || server.get("/").text() == "two");
                    assert!(!server.log().contains(SAID), "{}", server.log());
                    return;
                }
                let is_marked = || server.status(&["--json"]).contains("\"outdated\":true");
                wait_until(&format!("{mode}: {what}"), 20, || server.log().contains(SAID) && is_marked());
                assert!(server.status(&[]).contains("files changed"), "{mode}: {}", server.status(&[]));
                change(&path);
                assert_eq!(server.get("/").text(), "one", "{mode}");
                let log = server.log();
                let said: Vec<&str> = log.lines().filter(|line| line.contains(SAID)).collect();
                assert!(said.len() == 1 && said[0].ends_with(&path.display().to_string()), "{mode}: {log}");
                let (is_done, text) = server.reload();
                assert!(is_done, "{mode}: {text}");
                assert_eq!(server.get("/").text(), "two", "{mode}");
                wait_until("the old generation is gone", 20, || !is_marked());
            });
        }
    });
}

/// A worker that has crashed is in the status: how many, how the last one ended, and what it ran.
#[test]
fn crashed_workers_are_in_the_status() {
    for (mode, end, lines) in modes::modes() {
        let server = start(mode, end, &lines);
        assert!(!server.status(&["--json"]).contains("\"crashes\""), "{mode}");
        for (count, (signal, name)) in [(11, "SIGSEGV"), (9, "SIGKILL")].into_iter().enumerate() {
            assert_eq!(server.get(&format!("/?die={signal}")).status, 502, "{mode}");
            let shown = format!("\"crashes\":{{\"count\":{},\"last\":\"worker ", count + 1);
            let ran = format!(" while it ran GET /?die={signal}\"");
            wait_until(&format!("{mode}: {name}"), 10, || {
                let status = server.status(&["--json"]);
                status.contains(&shown) && status.contains(name) && status.contains(&ran)
            });
        }
        let text = server.status(&[]);
        assert!(text.contains("crashes: 2, the last ") && text.contains("was killed by SIGKILL"), "{mode}: {text}");
    }
}

/// Whoever waits for a boot learns from the log that it goes on.
#[test]
fn a_boot_that_takes_long_says_so() {
    let script = "<?php usleep(10_600_000); reprise_snapshot(); echo 'up';";
    let server = Setup::empty().file("index.php", script).start();
    let log = server.log();
    assert_eq!(log.matches("application 'app': /index.php is booting, 10 s").count(), 1, "{log}");
    assert!(!log.contains("is booting, 20 s"), "{log}");
}
