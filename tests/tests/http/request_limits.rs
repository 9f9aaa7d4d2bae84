//! What a request may have, of an application and of paths of it: memory, places in the queue, time there, places for a client.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tests::status::sum;
use tests::{Client, Response, Server, Setup, wait_until};

/// Holds as many MB as it is asked for, and then waits for a second.
const HOLD: &str = "if (isset($_GET['mb'])) { $all = str_repeat('x', $_GET['mb'] << 20); usleep(1_000_000); } echo 'done ', getmypid();";

/// A script that takes a worker until the file of that name exists, having said so in another.
const WAIT: &str = "<?php
    if (isset($_GET['wait'])) {
        file_put_contents(getenv('BEGUN'), 'x');
        while (file_get_contents(getenv('RELEASED')) === '') { usleep(5000); }
    }
    echo 'done';";

/// A server with that script, and the two files.
fn waiting(limits: &str) -> (Server, [PathBuf; 2]) {
    let setup = Setup::empty().file("index.php", WAIT).application(limits);
    let files = ["begun", "released"].map(|name| setup.directory().join(name));
    for file in &files {
        std::fs::write(file, "").unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o666)).unwrap();
    }
    let [begun, released] = files.each_ref().map(|file| file.to_str().unwrap().to_owned());
    (setup.env("BEGUN", &begun).env("RELEASED", &released).start(), files)
}

fn is_written(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| !bytes.is_empty())
}

fn refused(answer: &Response, status: u16, word: &str) {
    assert_eq!((answer.status, answer.header("reprise-refused")), (status, Some(word)), "{}", answer.text());
}

fn what_holds_too_much_is_killed(server: &Server, first: &str) {
    wait_until("the mode", 20, || server.get("/").status == 200);
    assert_eq!(server.get("/?mb=40").status, 200, "{first}: less than the limit");
    refused(&server.get("/?mb=900"), 502, "request-memory");
    assert_eq!(server.get("/big/x?mb=900").status, 200, "{first}: its path has no limit");
    assert_eq!(server.get("/bigger?mb=40").status, 200, "{first}");
    wait_until("it is in the log", 10, || {
        server.log().contains("KiB, and request_memory is 614400 KiB: killed while it ran")
    });
    assert!(server.log().contains("GET /?mb=900"), "{first}: {}", server.log());
    assert!(!server.log().contains("reload"), "{first}: its generation is not suspect: {}", server.log());
}

/// Sanitizers hold memory of their own, hence the large numbers.
fn with_memory_limit(script: &str) -> Setup {
    Setup::empty()
        .file("index.php", script)
        .application("workers = 2\nrequest_memory = \"600M\"\nlimits.\"/big\" = { request_memory = 0 }")
        .ini("memory_limit", "2G")
}

/// A worker over `request_memory` is killed, its request gets a refusal, and others are served.
#[test]
fn a_worker_that_holds_too_much_is_killed() {
    what_holds_too_much_is_killed(&with_memory_limit(&format!("<?php {HOLD}")).start(), "classic");
    let looped = format!("<?php while (reprise_handle_request(function () {{ {HOLD} }})) {{}}");
    what_holds_too_much_is_killed(&with_memory_limit(&looped).start(), "worker");
}

/// The memory of a snapshot does not count against `request_memory`.
#[test]
fn what_a_snapshot_holds_is_nobodys() {
    let script = format!("<?php $boot = str_repeat('y', 700 << 20); reprise_snapshot(); {HOLD}");
    let setup = with_memory_limit(&script).application("mode.\"index.php\" = \"snapshot\"");
    what_holds_too_much_is_killed(&setup.start(), "snapshot");
}

/// Paths have their own limits of the queue and of waiting.
#[test]
fn paths_have_limits_of_their_own() {
    let limits = "workers = 1\nqueue = 50\nqueue_timeout = \"60s\"\n\
                  limits.\"/less\" = { queue = 1 }\nlimits.\"/hasty\" = { queue_timeout = \"300ms\" }\n\
                  limits.\"/more\" = { queue = 1100 }";
    let (server, [begun, released]) = waiting(limits);
    let queued = || sum(&server.status(&["--json"]), "waiting");
    std::thread::scope(|scope| {
        let ask = |path: &str| {
            let path = path.to_owned();
            scope.spawn(move || Client::new(server.port).get(&path))
        };
        let first = ask("/?wait");
        wait_until("the worker is taken", 20, || is_written(&begun));
        let second = ask("/?second");
        wait_until("the second waits", 20, || queued() >= 1);
        refused(&server.get("/less/than"), 503, "queue-full");
        let began = Instant::now();
        refused(&server.get("/hasty"), 503, "queue-timeout");
        assert!(began.elapsed() < tests::seconds(10), "{:?}", began.elapsed());
        let others: Vec<_> = (0..60).map(|number| ask(&format!("/more?{number}"))).collect();
        wait_until("more wait than the application lets", 20, || queued() >= 61);
        refused(&server.get("/?over"), 503, "queue-full");
        std::fs::write(released, "x").unwrap();
        for one in [first, second].into_iter().chain(others) {
            assert_eq!(one.join().unwrap().status, 200);
        }
    });
    assert_eq!(server.get("/less").status, 200);
}

/// A path has its own `client_requests`, apart from the application's.
#[test]
fn a_path_has_places_of_its_own_for_a_client() {
    let limits = "workers = 4\nlimits.\"/export\" = { client_requests = 1 }";
    let (server, [begun, released]) = waiting(limits);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| Client::new(server.port).get("/export?wait"));
        wait_until("the first runs", 20, || is_written(&begun));
        refused(&server.get("/export/other"), 429, "client-busy");
        assert_eq!(server.get("/exports").status, 200);
        std::fs::write(released, "x").unwrap();
        assert_eq!(first.join().unwrap().status, 200);
    });
    assert_eq!(server.get("/export").status, 200);
}

/// An option that a path cannot have, or an impossible value, is refused.
#[test]
fn limits_that_no_path_has_are_refused() {
    let output = |limits: &str| {
        let setup = Setup::empty().file("index.php", "<?php").application(limits);
        let mut server = setup.launch();
        (server.wait(20), server.log())
    };
    for (limits, words) in [
        ("limits.\"/x\" = { max_age = \"1s\" }", "the limits of a path have no 'max_age'"),
        ("limits.\"/x\" = { request_memory = \"much\" }", "'request_memory' takes a"),
        ("limits.\"/x\" = { queue = 0 }", "'queue' takes a"),
    ] {
        let (code, log) = output(limits);
        assert!(code == 78 && log.contains(words), "{limits}: {code}: {log}");
    }
}
