//! Slow clients hold no worker: the front holds what they have not taken, within limits, in memory and in a file.

use std::path::PathBuf;

use tests::modes::modes;
use tests::status::sum;
use tests::{Client, Response, Server, Setup, amount, process, wait_until};

/// A page of so many kilobytes, in which each response has another number.
const SCRIPT: &str = r#"<?php
$handle = function () {
    ['kb' => $kb, 'n' => $n] = $_GET + ['kb' => 0, 'n' => 0];
    if (isset($_GET['type'])) header("Content-Type: $_GET[type]");
    if (isset($_GET['buffering'])) header("X-Accel-Buffering: $_GET[buffering]");
    for ($i = 0; $i < $kb; $i++) echo str_repeat(sprintf('%015d ', $n), 64);
    echo "end of $n";
};
"#;

fn expected(kb: usize, n: usize) -> Vec<u8> {
    [format!("{n:015} ").repeat(64 * kb).as_bytes(), format!("end of {n}").as_bytes()].concat()
}

fn site(workers: usize) -> Setup {
    Setup::empty()
        .file("index.php", format!("{SCRIPT}$handle();"))
        .application(&format!("workers = {workers}"))
        .server(&format!("admin_listen = [\"127.0.0.1:{}\"]", tests::server::free_port()))
}

fn metrics(server: &Server) -> String {
    let text = std::fs::read_to_string(server.directory().join("reprise.toml")).unwrap();
    let port = text.split("admin_listen = [\"127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    tests::client::get(port.parse().unwrap(), "/metrics").text()
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = metrics(server);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// A client that has read the head of its response and reads no more for the time being.
fn stalled(server: &Server, target: &str) -> (Client, Response) {
    let mut client = server.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let head = client.read_head().unwrap();
    assert_eq!(head.status, 200, "{target}");
    (client, head)
}

fn is_complete((mut client, mut response): (Client, Response), kb: usize, n: usize) {
    client.read_body(&mut response, false).unwrap();
    assert!(response.body == expected(kb, n), "{} bytes of {kb} KB, number {n}", response.body.len());
    // The connection can be used again.
    assert_eq!(client.get("/?n=7").text(), "end of 7");
}

fn busy(server: &Server) -> usize {
    let status = server.status(&["--json"]);
    status.matches("\"slot\":").count() - status.matches("\"state\":\"idle\"").count()
}

/// Many more clients than workers have begun to read 9 MB, of which the kernel takes up to 4, and none of them goes on; others are served all the same.
#[test]
fn clients_that_stall_hold_no_worker() {
    let server = site(8).server("spool_memory = \"128K\"").start();
    let clients: Vec<_> = (0..amount(24, 200)).map(|n| stalled(&server, &format!("/?kb=9000&n={n}"))).collect();
    for n in 0..200 {
        assert_eq!(server.get(&format!("/?n={n}")).text(), format!("end of {n}"));
    }
    wait_until("all workers are idle", 60, || busy(&server) == 0);
    let count = clients.len() as u64;
    assert_eq!(
        (metric(&server, "reprise_spool_responses_total"), metric(&server, "reprise_spool_full_total")),
        (count, 0)
    );
    assert!(metric(&server, "reprise_spool_bytes{place=\"disk\"}") > 0);
    wait_until("the supervisor knows", 10, || sum(&server.status(&["--json"]), "responses") == count);
    assert!(server.status(&[]).contains("responses so far, 0 reached a limit, 0 failures"), "{}", server.status(&[]));
    for (n, client) in clients.into_iter().enumerate() {
        is_complete(client, 9000, n);
    }
    for place in ["memory", "disk"] {
        wait_until("nothing is held any more", 10, || {
            metric(&server, &format!("reprise_spool_bytes{{place=\"{place}\"}}")) == 0
        });
    }
}

/// In every mode the worker goes on to other requests, is rewound or replaced, while its response is being sent.
#[test]
fn a_response_outlives_the_request_in_its_worker() {
    for (mode, end, lines) in modes() {
        let setup = Setup::empty().file("index.php", format!("{SCRIPT}{end}")).application("workers = 1");
        let setup = if mode == "snapshot" { setup } else { setup.application("max_requests = 1") };
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        let clients: Vec<_> = (0..4).map(|n| stalled(&server, &format!("/?kb=9000&n={n}"))).collect();
        for n in 0..20 {
            assert_eq!(server.get(&format!("/?n={n}")).text(), format!("end of {n}"), "{mode}");
        }
        let (went_well, said) = server.reload();
        assert!(went_well, "{said}");
        wait_until("the old generation is gone", 30, || !server.status(&[]).contains("generation 1,"));
        for (n, client) in clients.into_iter().enumerate() {
            is_complete(client, 9000, n);
        }
    }
}

/// PHP waits for the client where a limit is reached, and nothing is lost.
#[test]
fn limits_make_php_wait() {
    for limits in [["256K", "64M", "0", "2G"], ["128K", "64M", "512K", "2G"], ["1M", "256K", "1G", "512K"]] {
        let names = ["spool_memory", "spool_memory_total", "spool_disk", "spool_disk_total"];
        let setup = names
            .iter()
            .zip(limits)
            .fold(site(2), |setup, (name, value)| setup.server(&format!("{name} = \"{value}\"")));
        let server = setup.start();
        let first = stalled(&server, "/?kb=20000&n=1");
        wait_until("it has reached a limit", 30, || metric(&server, "reprise_spool_full_total") == 1);
        // The other worker may have been forked a moment ago.
        wait_until("its worker alone waits", 10, || busy(&server) == 1);
        assert!(metric(&server, "reprise_spool_bytes{place=\"memory\"}") <= 400 << 10, "{}", metrics(&server));
        assert!(metric(&server, "reprise_spool_bytes{place=\"disk\"}") <= 512 << 10, "{}", metrics(&server));
        assert_eq!(server.get("/?n=3").text(), "end of 3");
        is_complete(first, 20000, 1);
    }
}

/// A disk that takes no more: memory alone is used, the log says so, and each response is complete.
#[test]
fn a_full_disk_costs_nobody_a_byte() {
    // No file may become larger than that; the shared memory of a lane is smaller, and that of the data cache, which has none here.
    let limited = ["prlimit".into(), "--fsize=40000000".into(), tests::server::program()];
    let server = site(2).application("queue = 16\ndata_cache_memory = 0").command::<PathBuf>(limited).start();
    let client = stalled(&server, "/?kb=60000&n=5");
    wait_until("a write has failed", 30, || metric(&server, "reprise_spool_errors_total") > 0);
    wait_until("it is logged", 10, || server.log().contains("the spool's file cannot be written: File too large"));
    wait_until("one worker alone is busy", 10, || busy(&server) == 1);
    assert_eq!(server.get("/?n=3").text(), "end of 3");
    is_complete(client, 60000, 5);
    assert_eq!(metric(&server, "reprise_spool_bytes{place=\"disk\"}"), 0);
}

/// The directory has to be usable if it is named; the usual one need not be.
#[test]
fn the_directory_is_checked_at_the_start() {
    let mut server = Setup::empty().file("index.php", "x").server("spool_dir = \"nowhere\"").launch();
    assert_eq!(server.wait(30), 77);
    let log = server.log();
    assert!(log.contains("spool_dir: ") && log.contains("nowhere: No such file"), "{log}");
    let here = Setup::empty().file("index.php", "<?php echo 'served';");
    let spool = here.writable("spool");
    let server = here.server("spool_dir = \"spool\"").start();
    assert_eq!(server.get("/").text(), "served");
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0, "the file has no name");
}

/// Event streams, and responses that say so, are not held: the script learns how fast its client is.
#[test]
fn what_is_sent_as_it_happens_is_not_held() {
    for query in ["type=text/event-stream", "type=Text/Event-Stream%3Bcharset%3Dutf-8", "buffering=no", "buffering=No"]
    {
        let server = site(2).start();
        let client = stalled(&server, &format!("/?kb=20000&n=4&{query}"));
        assert_eq!(server.get("/?n=3").text(), "end of 3");
        // The worker of the other response may still be ending its request; that of the stalled client stays.
        wait_until("one worker alone is busy", 10, || busy(&server) == 1);
        assert_eq!(metric(&server, "reprise_spool_responses_total"), 0, "{query}");
        is_complete(client, 20000, 4);
    }
}

/// A HEAD has no body that could be held; pages of the server itself are as always.
#[test]
fn other_responses_are_as_they_were() {
    let server = site(1).application("status_path = \"/status\"").file("a.txt", "file").start();
    let client = stalled(&server, "/?kb=9000&n=1");
    for _ in 0..3 {
        let head = server.client().request("HEAD", "/?kb=9000&n=2", &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
    wait_until("the worker is idle", 30, || server.get("/status?json").text().contains("\"idle processes\":1"));
    assert_eq!((server.get("/a.txt").text(), server.get("/?n=9").text()), ("file".into(), "end of 9".into()));
    assert_eq!(metric(&server, "reprise_spool_responses_total"), 1);
    is_complete(client, 9000, 1);
}

/// The front that takes the place of another finds nothing of it in the file.
#[test]
fn another_front_begins_with_an_empty_spool() {
    let server = site(2).start();
    let _client = stalled(&server, "/?kb=9000&n=1");
    wait_until("something is on disk", 30, || metric(&server, "reprise_spool_bytes{place=\"disk\"}") > 0);
    let front = server.front().expect("a front");
    process::kill(front, nix::sys::signal::Signal::SIGKILL);
    wait_until("another front serves", 30, || {
        let answer = tests::client::connect(server.port).ok().map(|stream| Client::over(stream, "a"));
        answer.is_some_and(|mut client| client.try_request("GET", "/?n=1", &[], b"").is_ok())
    });
    assert_eq!(metric(&server, "reprise_spool_bytes{place=\"disk\"}"), 0);
    is_complete(stalled(&server, "/?kb=9000&n=2"), 9000, 2);
}
