//! The cache makes nothing slower: a request waits for another one's response only if no worker is free for it, or if the page is known to be shared.

use std::thread;

use tests::modes::modes;
use tests::{Client, Response, Server, Setup, wait_until};

use super::{SHARED, ask, go, known, runs_of, site};

/// A page that is complete only when as many requests for it run as its query says. A request that waits for another one's response never meets it.
const MEETING: &str = r#"<?php
$handle = function () {
    $place = getenv('MARKS') . '/' . md5($_SERVER['REQUEST_URI']);
    touch($place . '.' . getmypid());
    foreach ($_GET['h'] ?? [] as $header) header($header);
    if (isset($_GET['flush'])) { echo "data: begun\n\n"; flush(); }
    for ($tries = 0; $tries < 2000 && count(glob("$place.*")) < 2; $tries++) { usleep(5000); }
    echo count(glob("$place.*")) < 2 ? 'alone' : 'together';
};
"#;

/// So many requests at once.
fn at_once(port: u16, target: &str, count: usize) -> Vec<thread::JoinHandle<Response>> {
    (0..count)
        .map(|_| {
            let target = target.to_owned();
            thread::spawn(move || Client::new(port).get(&target))
        })
        .collect()
}

/// Two visitors of a page that nobody knows run at once, whatever the page says of itself, and again for each query.
#[test]
fn two_visitors_of_a_page_that_nobody_knows_run_at_once() {
    for (mode, end, lines) in modes() {
        let setup = Setup::empty().application("workers = 12\ncache_memory = \"16M\"");
        let marks = setup.writable("marks");
        let setup = setup.env("MARKS", &marks).file("index.php", format!("{MEETING}{end}"));
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        let targets = [
            "/slow".to_owned(),
            "/slow?page=1".to_owned(),
            "/slow?page=2".to_owned(),
            format!("/shared?{SHARED}"),
            "/events?flush&h[]=Content-Type:+text/event-stream".to_owned(),
            "/export?flush&h[]=Content-Disposition:+attachment".to_owned(),
        ];
        let asked: Vec<_> = targets.iter().map(|target| (target, at_once(server.port, target, 2))).collect();
        for (target, both) in asked {
            for one in both {
                let page = one.join().expect("a response");
                assert!(page.status == 200 && page.text().ends_with("together"), "{mode} {target}: {}", page.text());
            }
        }
    }
}

/// How many requests wait for another one's response.
fn waiting(server: &Server) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&server.status(&["--json"])).expect("JSON");
    let rules = status["caches"]["app"].as_array();
    rules.map_or(0, |rules| rules.iter().filter_map(|rule| rule["waiting"].as_u64()).sum())
}

/// Without a free worker a request waits for the response of another one, and is seen; when a worker comes free before that, the request has it.
#[test]
fn who_waits_without_a_free_worker_has_the_next_one() {
    let server = site(2).start();
    let busy = at_once(server.port, "/busy?until=busy", 1);
    wait_until("a worker is busy", 10, || runs_of(&server, "/busy?") == 1);
    let target = format!("/page?{SHARED}&until=page");
    let both = at_once(server.port, &target, 2);
    wait_until("one waits for the other", 10, || runs_of(&server, "/page?") == 1 && waiting(&server) == 1);
    go(&server, "busy");
    wait_until("it has the worker", 10, || runs_of(&server, "/page?") == 2 && waiting(&server) == 0);
    go(&server, "page");
    for one in both.into_iter().chain(busy) {
        assert_eq!(one.join().expect("a response").status, 200);
    }
    // Of those that stand in the queue, each leaves it for the response if that comes first.
    let busy = at_once(server.port, "/busy?until=again", 2);
    wait_until("all workers are busy", 10, || runs_of(&server, "/busy?") == 3);
    let crowd = at_once(server.port, &format!("/crowd?{SHARED}&ms=300"), 30);
    wait_until("they wait", 10, || {
        let status: serde_json::Value = serde_json::from_str(&server.status(&["--json"])).expect("JSON");
        tests::status::sum(&status.to_string(), "waiting") >= 30
    });
    go(&server, "again");
    for one in crowd.into_iter().chain(busy) {
        assert_eq!(one.join().expect("a response").status, 200);
    }
    let runs = runs_of(&server, "/crowd?");
    assert!((1..=2 * 2).contains(&runs), "{runs} runs");
}

/// Who waits for a page that is known to be shared is seen meanwhile, and its response says how long it has waited.
#[test]
fn who_waits_for_a_known_page_is_seen() {
    let server = site(4).application("server_timing = true").start();
    let target = format!("/page?{SHARED}&until=page");
    go(&server, "page");
    known(&server, &target);
    std::fs::remove_file(server.directory().join("runs/log.page")).unwrap();
    let all = at_once(server.port, &target, 3);
    wait_until("two wait", 10, || waiting(&server) == 2);
    assert!(server.status(&[]).contains("WAITING"), "{}", server.status(&[]));
    go(&server, "page");
    let timed = |page: &Response| page.all("server-timing").iter().any(|value| value.starts_with("cache;dur="));
    let pages: Vec<_> = all.into_iter().map(|one| one.join().expect("a response")).collect();
    assert_eq!(pages.iter().filter(|page| timed(page)).count(), 2);
    assert_eq!((runs_of(&server, "/page?"), waiting(&server)), (2, 0));
    assert_eq!(ask(&server, &target, &[]).status, 200);
}
