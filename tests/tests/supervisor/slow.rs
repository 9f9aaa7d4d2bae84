//! Slow requests in the log and `reprise trace`: where PHP is, read while it runs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tests::peer::Database;
use tests::{Client, Server, Setup, amount, wait_for, wait_until};

/// Each hangs in a line of its own, below a function of its own.
const SCRIPT: &str = r#"<?php
class Page {
    static function sleeps() {
        usleep(1_500_000);
    }
    static function asks() {
        $db = new mysqli(null, 'app', 'app-test-pw', '', 0, getenv('SOCKET'));
        $db->query('SELECT SLEEP(1.5)');
    }
    static function loops() {
        $end = microtime(true) + 1.5;
        while (microtime(true) < $end) {
            $hash = md5(random_bytes(16));
        }
    }
    static function computes() {
        hash_pbkdf2('sha512', 'password', 'salt', 2_000_000);
    }
}
BEFORE
    if (isset($_GET['what'])) Page::{$_GET['what']}();
    echo 'done';
AFTER
"#;

const MODES: [(&str, &str, &str); 3] = [
    ("classic", "(function () {", "})();"),
    ("snapshot", "reprise_snapshot(); (function () {", "})();"),
    ("worker", "while (reprise_handle_request(function () {", "})) {}"),
];

fn start(mode: (&str, &str, &str), socket: &str) -> Server {
    let script = SCRIPT.replace("BEFORE", mode.1).replace("AFTER", mode.2);
    let setup = Setup::empty().file("index.php", script).env("SOCKET", socket);
    setup.application("workers = 6\nslow_timeout = \"500ms\"\nslow_headers = [\"User-Agent\"]").start()
}

/// The log names file and line of a slow request while it runs, in every mode and under load.
#[test]
fn the_log_names_the_line_of_a_slow_request_while_a_load_runs() {
    let database = Database::start();
    let socket = database.socket().display().to_string();
    for mode in MODES {
        let server = start(mode, &socket);
        let runs_so = || mode.0 == "classic" || server.log().contains("is booted");
        wait_until("the mode", 30, runs_so);
        let port = server.port;
        let answers: Vec<String> = std::thread::scope(|scope| {
            let slow = ["sleeps", "asks", "loops", "computes"].map(|what| {
                scope.spawn(move || {
                    let path = format!("/slow/{what}?what={what}");
                    Client::new(port).request("GET", &path, &[("User-Agent", "a \"quoted\" one")], b"").text()
                })
            });
            let load = scope.spawn(move || {
                let mut client = Client::new(port);
                for _ in 0..300 {
                    assert_eq!(client.get("/").text(), "done");
                }
            });
            load.join().expect("the load is not disturbed");
            slow.map(|one| one.join().expect("an answer")).to_vec()
        });
        assert!(answers.iter().all(|answer| answer == "done"), "{}: {answers:?}", mode.0);
        for (what, function, lines) in [
            ("sleeps", "usleep() [internal]", 4..=4),
            ("asks", "mysqli::query() [internal]", 8..=8),
            ("loops", "", 12..=13),
            ("computes", "hash_pbkdf2() [internal]", 17..=17),
        ] {
            let log = wait_for("it is in the log", 10, || {
                let log = server.log();
                log.contains(&format!("GET /slow/{what}?")).then_some(log)
            });
            let from = log.find(&format!("GET /slow/{what}?")).unwrap();
            let trace: Vec<&str> = log[from..].lines().take(6).collect();
            assert!(trace[0].contains("User-Agent: \"a \\\"quoted\\\" one\""), "{}: {trace:#?}", mode.0);
            assert!(trace[1].contains(function), "{}, {what}: {trace:#?}", mode.0);
            let frame = trace.iter().find(|line| line.contains(&format!("Page::{what}()"))).expect(what);
            let line: u32 = frame.rsplit(':').next().and_then(|line| line.trim().parse().ok()).expect("a line");
            assert!(lines.contains(&line) && frame.contains("/index.php:"), "{}, {what}: {trace:#?}", mode.0);
        }
        let count = server.log().matches("slow request of").count();
        assert_eq!(count, 4, "{}: each once, and no other:\n{}", mode.0, server.log());
    }
}

/// `reprise trace` prints the PHP stack of a running worker, in every mode.
#[test]
fn a_worker_tells_where_it_is_when_asked() {
    for mode in MODES {
        let server = start(mode, "none");
        wait_until("the mode", 30, || mode.0 == "classic" || server.log().contains("is booted"));
        let mut slow = server.client();
        slow.send(b"GET /?what=sleeps HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let pid = wait_for("the worker is shown", 10, || {
            let text = server.status(&[]);
            let line = text.lines().find(|line| line.contains("GET /?what=sleeps"))?.trim().to_owned();
            line.split_whitespace().next().map(str::to_owned)
        });
        // It is shown as soon as it has the request, before PHP runs any code.
        wait_until("it sleeps, and says so", 10, || {
            let (code, text) = server.trace(&pid);
            assert_eq!(code, Some(0), "{text}");
            text.contains("#0 usleep() [internal]\n#1 Page::sleeps() /")
        });
        assert_eq!(slow.read(false).unwrap().text(), "done");
        let (code, text) = server.trace("1");
        assert!(code == Some(64) && text.contains("no worker of this server"), "{text}");
    }
}

/// The log names signal, request and generation of a crashed worker.
#[test]
fn a_crash_is_reported_with_its_request() {
    let script = "<?php posix_kill(getmypid(), SIGSEGV);";
    let server = Setup::empty().file("index.php", script).start();
    assert_eq!(server.get("/crash?here").status, 502);
    wait_until("the report", 10, || server.log().contains("SIGSEGV"));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("SIGSEGV")).unwrap();
    assert!(line.contains("while it ran GET /crash?here (crash 1 of generation 1)"), "{line}");
}

/// The trace of code that calls functions without pause reaches the script's main code.
#[test]
fn code_that_calls_all_the_time_is_traced_to_its_beginning() {
    let body = "$end = microtime(true) + 6; $text = ''; while (microtime(true) < $end) { $text = md5($text); }";
    let server = Setup::empty().file("index.php", format!("<?php\nfunction loops() {{ {body} }}\nloops();")).start();
    let mut busy = server.client();
    busy.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let ask = |what: &str| {
        let mut stream = UnixStream::connect(server.directory().join("state/admin.sock")).unwrap();
        stream.write_all(what.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let pid = wait_for("the request is shown", 10, || {
        let status = ask("status\n");
        let worker = status.split("\"pid\":").find(|worker| worker.contains("\"state\":\"running\""))?;
        worker.split(',').next().map(str::to_owned)
    });
    wait_until("the script runs", 10, || ask(&format!("trace {pid}\n")).contains("loops()"));
    let began = Instant::now();
    // One in some hundreds comes between the end of a call and the beginning of the next.
    while began.elapsed() < Duration::from_secs(amount(2, 5) as u64) {
        let trace = ask(&format!("trace {pid}\n"));
        assert!(trace.contains("loops()") && trace.contains("{main}"), "{trace}");
    }
}
