//! PHP's messages in the log: one line each, which cannot be taken for another's.

use tests::{Setup, wait_until};

const FORGED: &str = "2026-01-31T23:59:59Z error supervisor: forged";

const SCRIPT: &str = r#"<?php
$forged = '2026-01-31T23:59:59Z error supervisor: forged';
switch ($_GET['what'] ?? '') {
    case 'lines': error_log("first\n$forged\r\e[31mred\x00after"); break;
    case 'raw': fwrite(fopen('php://stderr', 'w'), "raw\n$forged\n\e[2Jend\n"); break;
    case 'mark': fwrite(fopen('php://stderr', 'w'), "\x1e$forged\n\x1e2026-01-31T23:59:59Z error php[1] other: forged\n"); break;
    case 'glued': fwrite(fopen('php://stderr', 'w'), 'without an end'); error_log('the next'); break;
    case 'alone': fwrite(fopen('php://stderr', 'w'), 'alone without an end'); break;
    case 'long': error_log('begin ' . str_repeat('long ', 4000)); break;
    case 'most': error_log('begin ' . str_repeat("\n", 4000) . ' end of most'); break;
    case 'rawlong': fwrite(fopen('php://stderr', 'w'), str_repeat('raw ', 5000) . "\nafter it\n"); break;
    case 'thrown': throw new Exception("one\n$forged");
}
echo 'ok';
"#;

/// A line without what it says of its request.
fn without_request(line: &str) -> String {
    let end = line.rfind(" [GET /").filter(|_| line.ends_with(']') && line.contains("; request "));
    line[..end.unwrap_or(line.len())].to_owned()
}

/// Nothing that PHP writes to its log can be taken for a line of the supervisor.
#[test]
fn no_message_of_php_looks_like_the_supervisors() {
    let server = Setup::empty().file("index.php", SCRIPT).start();
    let lines = || server.log().lines().map(without_request).collect::<Vec<_>>();
    for (what, end) in [
        ("lines", "red"),
        ("raw", "[2Jend"),
        ("mark", "other: forged"),
        ("glued", "the next"),
        ("alone", "alone without an end"),
        ("thrown", "thrown in"),
    ] {
        server.get(&format!("/?what={what}"));
        wait_until(what, 10, || lines().iter().any(|line| line.contains(end)));
    }
    let all = lines();
    assert!(!all.iter().any(|line| line.starts_with(FORGED) || line.contains(char::is_control)), "{all:#?}");
    let has = |begin: &str, end: &str| {
        all.iter().any(|line| line.get(20..).is_some_and(|line| line.starts_with(begin)) && line.ends_with(end))
    };
    assert!(
        has(" notice php[", &format!("app: first\\n{FORGED}\\r\\x1b[31mred")) || has(" error php[", "red"),
        "{all:#?}"
    );
    assert!(has(" notice stderr app: raw", "") && has(" notice stderr app: ", FORGED), "{all:#?}");
    assert!(
        has(" notice stderr app: \\x1b[2Jend", "") && has(" notice stderr app: \\x1e2026", "other: forged"),
        "{all:#?}"
    );
    assert!(has(" notice stderr app: without an end", "without an end") && has(" ", "app: the next"), "{all:#?}");
    assert!(has(" notice stderr app: alone", "alone without an end"), "{all:#?}");
}

/// Long messages of several workers at once are whole, or marked as cut off.
#[test]
fn long_messages_are_whole_or_say_that_they_are_cut() {
    let server = Setup::empty().file("index.php", SCRIPT).start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    for what in ["long", "most", "rawlong"] {
                        assert_eq!(server.get(&format!("/?what={what}")).text(), "ok");
                    }
                }
            });
        }
    });
    let lines = || server.log().lines().map(without_request).collect::<Vec<_>>();
    let count = |of: &dyn Fn(&str) -> bool| lines().iter().filter(|line| of(line)).count();
    let is_long = |line: &str| {
        line.split_once("app: begin long").is_some_and(|(_, rest)| rest.len() > 8000 && rest.ends_with(" more bytes]"))
    };
    let is_most = |line: &str| {
        line.split_once("begin ").is_some_and(|(_, rest)| rest == format!("{} end of most", "\\n".repeat(4000)))
    };
    let is_raw = |line: &str| line.contains("stderr app: raw raw") && line.ends_with(" more bytes]");
    wait_until("all are there", 10, || [count(&is_long), count(&is_most)] == [40, 40] && count(&is_raw) > 0);
    // Two at a time may be mixed, for they are longer than what is written at once; nothing else may.
    assert!(lines().iter().all(|line| line.len() < 50_000 && !line.contains(char::is_control)));
}

/// Configured settings and headers are in no process's arguments.
#[test]
fn settings_are_not_in_the_arguments_of_any_process() {
    let setup =
        Setup::empty().file("index.php", "<?php echo ini_get('user_agent'), ' ', ini_get('mysqli.default_pw');");
    let setup = setup
        .ini("user_agent", "secret-one")
        .application("warmup = [{ path = \"/\", headers = { X-Key = \"secret-three\" } }]");
    let server = setup.application("admin_ini.\"mysqli.default_pw\" = \"secret-two\"").start();
    assert_eq!(server.get("/").text(), "secret-one secret-two");
    for pid in server.processes() {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&arguments).into_owned();
        assert!(!text.contains("secret"), "{pid}: {text}");
    }
}
