//! Visitors of one application at the same time, two of them logging in and out: no byte of one in an answer for another.
//! Thousands of requests of all kinds over four connections to two workers; `./test --full` sends 10,000, and
//! REPRISE_REQUESTS makes them more; of WordPress and MediaWiki (`apps/mediawiki/visitors.rs`), whose pages take the longest,
//! a tenth of that.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use Kind::{Desk, Error, Form, Front, Page, Redirect, Stream, Upload};
use tests::bridged::{
    HOST, LARAVEL_WARM, RUNTIME, SLIM_WARM, SYMFONY_WARM, add_authors, bridged, build_bridged, build_wordpress,
    served_in,
};
use tests::client::multipart;
use tests::compare::{Visitor, value};
use tests::memory_group::MemoryGroup;
use tests::server::{program, project};
use tests::snapshot::{is_sanitized, requests};
use tests::{Response, Server, Setup, amount, process};

/// Marks: names of users (of the applications too, where each is its own password), cookies, headers, and what all that
/// is sent begins with. The last two never log in. In lower case, so that no page writes one in another way.
pub(crate) const MARKS: [&str; 4] =
    ["annak8vq3lxt7wzr2m5p", "bertd4hj9syc6nfg1uxe", "carlw2pq7mbv5ktz8ahr", "dorae6yu3nsj9lgc4ifo"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All that was told: query, cookie, header, session, user.
    Page,
    Form,
    Upload,
    /// To a place with what was told.
    Redirect,
    /// Flushed line by line.
    Stream,
    /// An exception that nobody catches.
    Error,
    /// A page for users; others are sent away.
    Desk,
    /// A page of the application's own.
    Front,
}

/// In turn.
const KINDS: [Kind; 16] =
    [Page, Form, Upload, Desk, Page, Redirect, Stream, Page, Form, Front, Error, Page, Upload, Stream, Redirect, Page];

/// Visits between a login and the logout that follows, and between that and the next login.
const STAY: usize = 50;

/// Where an application has its pages.
pub(crate) struct Site {
    pub address: fn(&str, &str) -> String,
    pub desk: &'static str,
    pub front: &'static str,
    pub log_in: fn(&mut Visitor, &str) -> Response,
    pub log_out: fn(&mut Visitor),
}

fn mark_page(what: &str, own: &str) -> String {
    format!("/mark/{what}?q={own}")
}

const SLIM: Site = Site {
    address: mark_page,
    desk: "/desk",
    front: "/hello/",
    log_in: |visitor, name| {
        let token = value("token")(&visitor.get("/login").text());
        visitor.post_form("/login", &[("user", name), ("password", name), ("token", &token)])
    },
    log_out: |visitor| {
        let token = value("token")(&visitor.get("/desk").text());
        assert_eq!(visitor.post_form("/logout", &[("token", &token)]).status, 303);
    },
};

const SYMFONY: Site = Site {
    address: mark_page,
    desk: "/admin",
    front: "/hello/",
    log_in: |visitor, name| {
        let token = value("_csrf_token")(&visitor.get("/login").text());
        visitor.post_form("/login", &[("_username", name), ("_password", name), ("_csrf_token", &token)])
    },
    log_out: |visitor| assert_eq!(visitor.get("/logout").status, 302),
};

const LARAVEL: Site = Site {
    address: mark_page,
    desk: "/account",
    front: "/echo?q=",
    log_in: |visitor, name| {
        let form = visitor.get("/account/login");
        assert_eq!(form.status, 200, "{form:?}");
        let token = value("_token")(&form.text());
        visitor.post_form("/account/login", &[("name", name), ("password", name), ("_token", &token)])
    },
    log_out: |visitor| {
        let token = value("_token")(&visitor.get("/account").text());
        assert_eq!(visitor.post_form("/account/logout", &[("_token", &token)]).status, 302);
    },
};

const WORDPRESS: Site = Site {
    address: |what, own| format!("/?mark={what}&q={own}"),
    desk: "/page-1/",
    front: "/wp-json/wp/v2/users/me?q=",
    log_in: |visitor, name| {
        visitor.get("/wp-login.php");
        visitor.post_form("/wp-login.php", &[("log", name), ("pwd", &format!("{name} pw")), ("testcookie", "1")])
    },
    log_out: |visitor| visitor.cookies.clear(),
};

/// A visitor, and whether the application knows it.
struct Guest<'a> {
    site: &'a Site,
    mode: &'a str,
    visitor: Visitor,
    mark: &'static str,
    number: usize,
    is_user: bool,
    /// Processes that have answered.
    workers: BTreeSet<String>,
}

impl Guest<'_> {
    /// Its visits of these numbers, up to the first answer that is wrong.
    fn visit(&mut self, visits: Range<usize>) -> Result<(), String> {
        for number in visits {
            if self.number < 2 && number % STAY == 0 {
                self.enter_or_leave()?;
            }
            let kind = KINDS[(number + 5 * self.number) % KINDS.len()];
            let answer = self.ask(kind, number);
            self.check(kind, number, &answer)?;
            self.workers.extend(answer.header("x-worker").map(str::to_owned));
        }
        Ok(())
    }

    fn enter_or_leave(&mut self) -> Result<(), String> {
        if self.is_user {
            (self.site.log_out)(&mut self.visitor);
        } else {
            let answer = (self.site.log_in)(&mut self.visitor, self.mark);
            self.nothing_foreign("a login", &answer)?;
            assert!([302, 303].contains(&answer.status), "{}: {}", answer.status, answer.text());
        }
        self.is_user = !self.is_user;
        Ok(())
    }

    fn ask(&mut self, kind: Kind, number: usize) -> Response {
        let own = format!("{}-{number}", self.mark);
        let address = |what: &str| (self.site.address)(what, &own);
        match kind {
            Page => self.visitor.get(&address("page")),
            Form => self.visitor.post_form(&address("form"), &[("field", &format!("field of {own}"))]),
            Upload => {
                let content = format!("content of {own}");
                let file: (&str, &str, &str, &[u8]) = ("file", &format!("{own}.txt"), "text/plain", content.as_bytes());
                let (kind, body) = multipart(&[("field", &format!("field of {own}"))], &[file]);
                self.visitor.request("POST", &address("upload"), &[("Content-Type", &kind)], &body)
            }
            Redirect => self.visitor.get(&address("redirect")),
            Stream => self.visitor.get(&address("stream")),
            Error => self.visitor.get(&address("error")),
            Desk => self.visitor.get(self.site.desk),
            Front => self.visitor.get(&format!("{}{own}", self.site.front)),
        }
    }

    /// What the answer has to show, and what it must not.
    fn check(&self, kind: Kind, number: usize, answer: &Response) -> Result<(), String> {
        let what = format!("{kind:?} {number}");
        self.nothing_foreign(&what, answer)?;
        let own = format!("{}-{number}", self.mark);
        let is_wordpress = self.site.desk == WORDPRESS.desk;
        let user = if self.is_user { self.mark } else { "nobody" };
        let mut shown = vec![];
        let statuses: &[u16] = match kind {
            Page | Form | Upload | Stream => {
                shown.push(format!("\"user\":\"{user}\""));
                shown.push(format!("\"get\":\"{own}\""));
                shown.push(format!("\"mode\":\"{}\"", self.mode));
                shown.extend(["cookie", "header", "session"].map(|name| format!("\"{name}\":\"{}\"", self.mark)));
                if matches!(kind, Form | Upload) {
                    shown.push(format!("\"post\":\"field of {own}\""));
                } else {
                    shown.push("\"post\":null".to_owned());
                }
                if kind == Upload {
                    shown.push(format!("\"file\":\"{own}.txt\""));
                    shown.push(format!("\"content\":\"content of {own}\""));
                }
                &[200]
            }
            Redirect => &[302],
            Error => &[500],
            Desk if self.is_user => {
                // MediaWiki writes names with a capital.
                shown.push(self.mark[1..].to_owned());
                &[200]
            }
            Desk if is_wordpress => &[200],
            Desk => &[302, 303],
            Front if is_wordpress => &[401],
            Front => {
                shown.push(own.clone());
                &[200]
            }
        };
        let text = answer.text();
        let head = match kind {
            Redirect => "location",
            Desk | Front | Error => "",
            _ => "x-told",
        };
        let is_told = head.is_empty() || answer.header(head).is_some_and(|value| value.ends_with(&own));
        match shown.iter().find(|part| !text.contains(*part)) {
            _ if !statuses.contains(&answer.status) => Err(format!("{what}: {}\n{text}", answer.status)),
            Some(part) => Err(format!("{what} for {} does not show {part}:\n{text}", self.mark)),
            None if !is_told => Err(format!("{what} for {} does not tell {own}: {:?}", self.mark, answer.headers)),
            None => Ok(()),
        }
    }

    /// Head and body have nothing of another visitor.
    fn nothing_foreign(&self, what: &str, answer: &Response) -> Result<(), String> {
        let whole = format!("{} {:?}\n{}", answer.reason, answer.headers, answer.text()).to_lowercase();
        match MARKS.iter().find(|other| **other != self.mark && whole.contains(*other)) {
            Some(other) => Err(format!("{what}: {} sees {other}:\n{whole}", self.mark)),
            None => Ok(()),
        }
    }
}

/// Private memory of all workers together.
fn weigh(server: &Server) -> u64 {
    let lanes = server.workers();
    let clones = lanes.iter().flat_map(|&lane| process::children(lane));
    lanes.iter().copied().chain(clones).map(process::anonymous_kib).sum()
}

/// So many visits by four visitors at once, in two halves that are weighed. The first answer that is wrong is the error.
fn interleave(server: &Server, site: &Site, mode: &str, total: usize) -> Result<String, String> {
    let began = Instant::now();
    let mut guests: Vec<Guest> = MARKS
        .into_iter()
        .enumerate()
        .map(|(number, mark)| {
            let visitor = Visitor::marked(server.port, HOST, mark);
            Guest { site, mode, visitor, mark, number, is_user: false, workers: BTreeSet::new() }
        })
        .collect();
    let each = total / MARKS.len();
    let mut memory = vec![];
    for half in [0..each / 2, each / 2..each] {
        std::thread::scope(|scope| {
            let visits = guests.iter_mut().map(|guest| {
                let half = half.clone();
                // The first to be ready waits for the others.
                guest.visitor.reconnect();
                scope.spawn(move || guest.visit(half))
            });
            let visits: Vec<_> = visits.collect();
            visits.into_iter().try_for_each(|visit| visit.join().expect("a visitor"))
        })?;
        memory.push(weigh(server));
    }
    // Clones that make room for a newer snapshot serve few, and perhaps not all of them. Forks serve one request.
    let shared = |worker: &&String| guests.iter().all(|guest| guest.workers.contains(*worker));
    let of_all = guests[0].workers.iter().filter(shared).count();
    let forks = is_sanitized() && mode == "snapshot";
    assert!(of_all >= 1 || forks, "no process has served all of them");
    // AddressSanitizer keeps what is freed for a while.
    assert!(is_sanitized() || memory[1] <= memory[0] + 8192, "private memory of the workers grows: {memory:?} KiB");
    let (workers, seconds) = (guests[0].workers.len(), began.elapsed().as_secs_f64());
    Ok(format!("{total} requests in {seconds:.1} s by {workers} workers, private memory {memory:?} KiB"))
}

fn with_bridge(name: &str, site: &Site, warm_up: &str, mode: &str) {
    let (_place, application) = build_bridged(name);
    let server = bridged(&application.join("public"), mode, warm_up).env("APP_RUNTIME", RUNTIME).start();
    report(name, &server, site, mode, requests(amount(800, 10_000)));
}

pub(crate) fn report(name: &str, server: &Server, site: &Site, mode: &str, total: usize) {
    let total = if is_sanitized() { total / 20 } else { total };
    let report = interleave(server, site, mode, total).unwrap_or_else(|wrong| panic!("{name}, {mode}: {wrong}"));
    served_in(server, mode);
    println!("{name}, {mode}: {report}");
}

/// In worker mode no byte of one visitor of Slim is in another's response.
#[test]
fn slim_s_visitors_are_kept_apart_in_a_worker() {
    with_bridge("slim", &SLIM, SLIM_WARM, "worker");
}

/// From a snapshot no byte of one visitor of Slim is in another's response.
#[test]
fn slim_s_visitors_are_kept_apart_from_a_snapshot() {
    with_bridge("slim", &SLIM, SLIM_WARM, "snapshot");
}

/// In worker mode no byte of one visitor of Symfony is in another's response.
#[test]
fn symfony_s_visitors_are_kept_apart_in_a_worker() {
    with_bridge("symfony", &SYMFONY, SYMFONY_WARM, "worker");
}

/// From a snapshot no byte of one visitor of Symfony is in another's response.
#[test]
fn symfony_s_visitors_are_kept_apart_from_a_snapshot() {
    with_bridge("symfony", &SYMFONY, SYMFONY_WARM, "snapshot");
}

/// In worker mode no byte of one visitor of Laravel is in another's response.
#[test]
fn laravel_s_visitors_are_kept_apart_in_a_worker() {
    with_bridge("laravel", &LARAVEL, LARAVEL_WARM, "worker");
}

/// From a snapshot no byte of one visitor of Laravel is in another's response.
#[test]
fn laravel_s_visitors_are_kept_apart_from_a_snapshot() {
    with_bridge("laravel", &LARAVEL, LARAVEL_WARM, "snapshot");
}

/// From a snapshot no byte of one visitor of WordPress is in another's response.
#[test]
fn wordpress_s_visitors_are_kept_apart() {
    let (_database, _place, application) = build_wordpress();
    add_authors([MARKS[0], MARKS[1]], &application);
    let root = application.join("htdocs");
    add_mark_page(&root);
    // Each page is made for each visitor; tests of the cache keep them apart there.
    let setup = Setup::root(&root).application("mode.\"index.php\" = \"snapshot\"\ncache_memory = 0");
    let server = setup.start();
    report("wordpress", &server, &WORDPRESS, "snapshot", requests(amount(4_000, 100_000)) / 10);
}

/// With the sizes that it gets by default, in a container of 512 MiB: no process is ended for memory.
#[test]
fn wordpress_fits_into_512_mib() {
    let (_database, _place, application) = build_wordpress();
    add_authors([MARKS[0], MARKS[1]], &application);
    let root = application.join("htdocs");
    add_mark_page(&root);
    let group = MemoryGroup::with_limit(512);
    let setup = Setup::root(&root).application("mode.\"index.php\" = \"snapshot\"").with_default_sizes();
    let server = setup.command(group.command(&program())).start();
    report("wordpress in 512 MiB", &server, &WORDPRESS, "snapshot", requests(amount(400, 20_000)));
    println!("{} MiB at most", group.peak());
    assert_eq!(group.kills(), 0, "{}", server.log());
}

fn add_mark_page(root: &Path) {
    let from = project().join("tests/apps/wordpress/mark.php");
    std::fs::copy(from, root.join("wp-content/mu-plugins/mark.php")).expect("the plugin");
}

/// The visitors find what is planted: a static variable that keeps a visitor, shown in a head and in a body, and a page that
/// shows nothing of its own. From a snapshot the variable is none's: nothing is found.
#[test]
fn visitors_who_see_each_other_say_so() {
    let (_place, application) = build_bridged("slim");
    let start = |mode: &str, leak: &str| {
        bridged(&application.join("public"), mode, SLIM_WARM).env("LEAK", leak).application("workers = 1").start()
    };
    for leak in ["head", "body"] {
        let seen = interleave(&start("worker", leak), &SLIM, "worker", 400).expect_err(leak);
        assert!(seen.contains(" sees "), "{leak}: {seen}");
        interleave(&start("snapshot", leak), &SLIM, "snapshot", 400).expect(leak);
    }
    let silent = interleave(&start("worker", "silent"), &SLIM, "worker", 400).expect_err("nothing is shown");
    assert!(silent.contains(" does not show "), "{silent}");
}
