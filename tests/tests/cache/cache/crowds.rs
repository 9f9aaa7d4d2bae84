//! Crowds: one response is made for all that ask for it at once.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::{Client, Response, Server, wait_until};

use super::{PUBLIC, SHARED, ask, is_hit, known, runs_of, site, status_of};

/// So many requests for one page at once.
fn crowd(server: &Server, count: usize, target: &str) -> Vec<Response> {
    begin(server, count, target).into_iter().map(joined).collect()
}

fn begin(server: &Server, count: usize, target: &str) -> Vec<JoinHandle<Response>> {
    let ports = vec![server.port; count];
    ports
        .into_iter()
        .map(|port| {
            let target = target.to_owned();
            thread::spawn(move || Client::new(port).get(&target))
        })
        .collect()
}

fn joined(asker: JoinHandle<Response>) -> Response {
    asker.join().expect("a response")
}

/// The workers of these tests.
const WORKERS: usize = 4;

/// A crowd at a page that nobody knows: PHP runs on the workers that are free, and no more often. From then on the page is known, and is made once
/// for a crowd, also by new code, and when another front serves.
#[test]
fn an_unknown_page_is_made_by_free_workers_and_a_known_one_once() {
    let server = site(WORKERS).start();
    let target = format!("/a?{SHARED}&ms=300&bytes=200000");
    let mut made = 0;
    let mut crowd_makes = |what: &str, most: usize| {
        let pages = crowd(&server, tests::amount(200, 1000), &target);
        assert!(pages.iter().all(|page| page.status == 200), "{what}");
        let mut bodies: Vec<&[u8]> = pages.iter().map(|page| page.body.as_slice()).collect();
        bodies.sort_unstable();
        bodies.dedup();
        let runs = runs_of(&server, "/a?") - made;
        assert!((1..=most).contains(&runs) && bodies.len() <= runs, "{what}: {runs} runs, {} bodies", bodies.len());
        made += runs;
        pages
    };
    let purged = || assert_eq!(server.reprise(&["purge", "--url", &target]).1, 0);
    crowd_makes("unknown", WORKERS);
    purged();
    let pages = crowd_makes("purged", 1);
    assert!(pages.iter().filter(|page| status_of(page).contains("collapsed")).count() > 1);
    assert!(server.reload().0);
    purged();
    crowd_makes("after a reload", 1);
    let front = server.front();
    tests::process::kill(front.expect("a front"), nix::sys::signal::Signal::SIGKILL);
    wait_until("another front serves", 20, || server.front().is_some_and(|pid| Some(pid) != front));
    wait_until("it answers", 20, || ask(&server, "/other", &[]).status == 200);
    crowd_makes("by another front", 1);
}

/// A page that turns out to be for one visitor keeps nobody waiting: all others run at once, and later ones do not wait at all.
#[test]
fn a_page_that_is_not_shared_keeps_nobody_waiting() {
    let server = site(16).start();
    let target = "/b?ms=400";
    let began = Instant::now();
    let pages = crowd(&server, 12, target);
    let mut bodies: Vec<_> = pages.iter().map(Response::text).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), runs_of(&server, "/b?")), (12, 12));
    // One after the other would take 4.8 seconds.
    assert!(began.elapsed() < Duration::from_millis(3500), "{:?}", began.elapsed());
}

/// The first one of a crowd leaves: the others get the page, and it was made once.
#[test]
fn who_leaves_takes_nothing_from_the_others() {
    let server = site(4).start();
    let target = format!("/c?{SHARED}&ms=500");
    known(&server, &target);
    let mut first = Client::new(server.port);
    first.send(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port).as_bytes()).expect("sent");
    wait_until("the first one runs", 10, || runs_of(&server, "/c?") == 2);
    let others = begin(&server, tests::amount(8, 1000), &target);
    drop(first);
    let pages: Vec<Response> = others.into_iter().map(joined).collect();
    assert!(pages.iter().all(|page| page.status == 200 && page.body == pages[0].body));
    assert_eq!(runs_of(&server, "/c?"), 2);
    assert!(is_hit(&ask(&server, &target, &[])));
}

/// A page that has expired, and that may not be used any longer, is made once more.
#[test]
fn a_page_that_has_expired_is_made_once() {
    let server = site(WORKERS).start();
    let target = "/h?h[]=Cache-Control:+s-maxage%3D1&ms=300";
    assert_eq!(ask(&server, target, &[]).status, 200);
    wait_until("it has expired", 10, || ask(&server, target, &[("Cache-Control", "only-if-cached")]).status == 504);
    let pages = crowd(&server, tests::amount(100, 1000), target);
    assert!(pages.iter().all(|page| page.status == 200 && page.body == pages[0].body), "all have one page");
    assert_eq!(runs_of(&server, "/h?"), 2);
}

/// The first one of a crowd does not read on: the others have the whole page meanwhile, and it was made once.
#[test]
fn who_reads_slowly_holds_up_nobody() {
    // More than the kernel takes for a client that reads nothing.
    const BYTES: usize = 7 << 20;
    let server = site(4).application("cache_object = \"12M\"").start();
    let target = format!("/i?{SHARED}&bytes={BYTES}&ms=300");
    known(&server, &target);
    let mut first = Client::new(server.port);
    first.send(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port).as_bytes()).expect("sent");
    wait_until("the first one's page is made", 10, || runs_of(&server, "/i?") == 2);
    let others = begin(&server, tests::amount(8, 300), &target);
    for other in others {
        let page = joined(other);
        assert!(page.status == 200 && page.body.len() > BYTES, "{} bytes", page.body.len());
    }
    assert_eq!(runs_of(&server, "/i?"), 2);
    let mut page = first.read_head().expect("a head");
    first.read_body(&mut page, false).expect("the page");
    assert!(page.body.len() > BYTES);
}

/// A page that is purged while a crowd waits for it is made at most once more, and who asks after the purge gets the new one.
#[test]
fn a_page_that_is_purged_meanwhile_is_made_twice() {
    let server = site(4).start();
    let target = format!("/j?{SHARED}&ms=1500");
    known(&server, &target);
    let count = tests::amount(50, 500);
    let before = begin(&server, count, &target);
    wait_until("the page is being made", 10, || runs_of(&server, "/j?") == 2);
    let (said, code) = server.reprise(&["purge", "--url", &target]);
    assert_eq!(code, 0, "{said}");
    let after: Vec<_> = begin(&server, count, &target).into_iter().map(joined).collect();
    let before: Vec<_> = before.into_iter().map(joined).collect();
    assert!(after.iter().all(|page| page.status == 200 && page.body == after[0].body));
    assert!(before.iter().all(|page| page.status == 200) && before.iter().any(|page| page.body != after[0].body));
    assert_eq!(runs_of(&server, "/j?"), 3);
}

/// The worker of a crowd's page is killed: one of them asks once more.
#[test]
fn a_worker_that_dies_costs_the_crowd_nothing() {
    let server = site(4).start();
    let count = tests::amount(40, 1000);
    let target = format!("/d?{SHARED}&dies=1&ms=200");
    let died = server.directory().join("runs/log.died");
    std::fs::write(&died, "").unwrap();
    known(&server, &target);
    std::fs::remove_file(&died).unwrap();
    let pages = crowd(&server, count, &target);
    let failed = pages.iter().filter(|page| page.status == 502).count();
    // The one that has begun it is told, as without a cache.
    assert!(failed <= 1 && pages.iter().filter(|page| page.status == 200).count() == count - failed, "{failed}");
    assert_eq!(runs_of(&server, "/d?"), 3);
}

/// Variants that were not known before: a page that is known has each of them made once.
#[test]
fn a_crowd_learns_what_vary_names() {
    let server = site(4).start();
    let target = format!("/e?{PUBLIC}&h[]=Vary:+Accept-Language&ms=200");
    known(&server, &target);
    let port = server.port;
    let askers: Vec<_> = (0..30)
        .map(|number| {
            let (target, language) = (target.clone(), ["de", "en", "fr"][number % 3]);
            thread::spawn(move || {
                (language, Client::new(port).request("GET", &target, &[("Accept-Language", language)], b""))
            })
        })
        .collect();
    for asker in askers {
        let (language, page) = asker.join().expect("a response");
        assert!(page.text().contains(&format!("\"lang\":\"{language}\"")), "{language}: {}", page.text());
    }
    assert_eq!(runs_of(&server, "/e?"), 4);
}

/// What changes while it is fetched is not stored, and nobody who asks later gets it.
#[test]
fn what_began_before_a_change_is_not_stored() {
    let server = site(4).start();
    let target = format!("/f?{SHARED}&ms=600");
    let (port, first) = (server.port, target.clone());
    let old = thread::spawn(move || Client::new(port).get(&first));
    wait_until("the page is being made", 10, || runs_of(&server, "GET /f?") == 1);
    server.client().request("POST", &target, &[], b"");
    let new = ask(&server, &target, &[]).text();
    assert_ne!(old.join().expect("a response").text(), new);
    assert_eq!(ask(&server, &target, &[]).text(), new);
}

/// A page that is too large to be stored reaches all that wait for it, also those that read slowly, and the next one is made anew.
#[test]
fn a_page_that_is_too_large_is_passed_on() {
    let server = site(4).application("cache_object = \"64K\"").start();
    let target = format!("/g?{SHARED}&bytes=3000000&ms=200");
    known(&server, &target);
    let pages = crowd(&server, 8, &target);
    assert!(pages.iter().all(|page| page.status == 200 && page.body.len() > 3_000_000 && page.body == pages[0].body));
    assert_eq!(runs_of(&server, "/g?"), 2);
    assert!(!is_hit(&ask(&server, &target, &[])));
}
