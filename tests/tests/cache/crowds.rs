//! Crowds: one response is made for all that ask for it at once.

use std::thread;
use std::time::{Duration, Instant};

use tests::{Client, Response, Server, wait_until};

use super::{PUBLIC, SHARED, ask, is_hit, runs_of, site, status_of};

/// So many requests for one page at once.
fn crowd(server: &Server, count: usize, target: &str) -> Vec<Response> {
    let ports = vec![server.port; count];
    let askers: Vec<_> = ports
        .into_iter()
        .map(|port| {
            let target = target.to_owned();
            thread::spawn(move || Client::new(port).get(&target))
        })
        .collect();
    askers.into_iter().map(|asker| asker.join().expect("a response")).collect()
}

/// A crowd at a page that is not there yet: PHP runs once.
#[test]
fn a_cold_page_is_made_once() {
    let server = site(4).start();
    let target = format!("/a?{SHARED}&ms=300&bytes=200000");
    let pages = crowd(&server, tests::amount(100, 1000), &target);
    assert!(pages.iter().all(|page| page.status == 200 && page.body == pages[0].body), "all have one page");
    assert_eq!(runs_of(&server, "/a?"), 1);
    assert!(pages.iter().filter(|page| status_of(page).contains("collapsed")).count() > 1);
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
    let mut first = Client::new(server.port);
    first.send(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port).as_bytes()).expect("sent");
    wait_until("the first one runs", 10, || runs_of(&server, "/c?") == 1);
    let (port, other) = (server.port, target.clone());
    let others: Vec<_> = (0..tests::amount(8, 1000))
        .map(|_| {
            let other = other.clone();
            thread::spawn(move || Client::new(port).get(&other))
        })
        .collect();
    drop(first);
    let pages: Vec<Response> = others.into_iter().map(|other| other.join().expect("a response")).collect();
    assert!(pages.iter().all(|page| page.status == 200 && page.body == pages[0].body));
    assert!(runs_of(&server, "/c?") <= 2);
    assert!(is_hit(&ask(&server, &target, &[])));
}

/// The worker of a crowd's page is killed: one of them asks once more.
#[test]
fn a_worker_that_dies_costs_the_crowd_nothing() {
    let server = site(4).start();
    let count = tests::amount(40, 1000);
    let pages = crowd(&server, count, &format!("/d?{SHARED}&dies=1&ms=200"));
    let failed = pages.iter().filter(|page| page.status == 502).count();
    // The one that has begun it is told, as without a cache.
    assert!(failed <= 1 && pages.iter().filter(|page| page.status == 200).count() == count - failed, "{failed}");
    assert_eq!(runs_of(&server, "/d?"), 2);
}

/// Variants that were not known before: each is made once.
#[test]
fn a_crowd_learns_what_vary_names() {
    let server = site(4).start();
    let target = format!("/e?{PUBLIC}&h[]=Vary:+Accept-Language&ms=200");
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
    assert_eq!(runs_of(&server, "/e?"), 3);
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
    let pages = crowd(&server, 8, &target);
    assert!(pages.iter().all(|page| page.status == 200 && page.body.len() > 3_000_000 && page.body == pages[0].body));
    assert_eq!(runs_of(&server, "/g?"), 1);
    assert!(!is_hit(&ask(&server, &target, &[])));
}
