//! Pages that say nothing to shared caches: with the cache, which is on by default, they are what they are without it.

use std::fs;
use std::thread;

use tests::{Client, Response, Server, Setup, wait_until};

use super::{PUBLIC, ask, is_hit, runs_of, site};

/// What a page has been asked with, and what its query makes it say.
const PAGE: &str = r#"<?php
foreach ($_GET['h'] ?? [] as $header) header($header, false);
if (isset($_GET['status'])) http_response_code((int)$_GET['status']);
if (isset($_GET['judges']) && ($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '"one"') {
    header('X-Own: not modified');
    http_response_code(304);
    exit;
}
ksort($_SERVER);
foreach ($_SERVER as $name => $value) {
    if (is_string($value) && str_starts_with($name, 'HTTP_') && $name !== 'HTTP_HOST') echo "$name: $value\n";
}
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REMOTE_ADDR'];
"#;

/// What pages say that is no word to shared caches, and what they are asked with.
const SAID: [&str; 14] = [
    "",
    "h[]=ETag:+%22one%22",
    "judges&h[]=ETag:+%22one%22",
    "judges&h[]=ETag:+%22one%22&h[]=Cache-Control:+private,+max-age%3D60",
    "h[]=Last-Modified:+Sun,+06+Nov+1994+08:49:37+GMT",
    "h[]=Cache-Control:+max-age%3D60",
    "h[]=Cache-Control:+no-store,+no-cache,+must-revalidate&h[]=Pragma:+no-cache",
    "h[]=Expires:+Sun,+06+Nov+2094+08:49:37+GMT",
    "h[]=Set-Cookie:+a%3Db&h[]=Set-Cookie:+c%3Dd",
    "h[]=Vary:+*",
    "h[]=Vary:+Cookie&h[]=Accept-Ranges:+bytes",
    "h[]=Cache-Tag:+one&h[]=Surrogate-Key:+one+two&h[]=Surrogate-Control:+max-age%3D60&h[]=X-Cache:+MISS",
    "status=404",
    "status=500",
];
const ASKED: [&[(&str, &str)]; 7] = [
    &[],
    &[("If-None-Match", "\"one\"")],
    &[("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")],
    &[("Range", "bytes=0-3"), ("If-Range", "\"one\"")],
    &[("Cookie", "a=b")],
    &[("Cache-Control", "no-cache"), ("Pragma", "no-cache")],
    &[("Authorization", "Basic YTpi"), ("X-Forwarded-Host", "b.example")],
];

/// All of a response but its date.
fn seen(answer: &Response) -> (u16, &str, Vec<&(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| name != "date").collect();
    (answer.status, &answer.reason, headers, answer.text())
}

/// Whoever asks first, and whatever is remembered: client and application see each other as without the cache.
#[test]
fn pages_that_say_nothing_are_as_without_the_cache() {
    let start = |lines: &str| Setup::empty().file("index.php", PAGE).application(lines).start();
    let (with, without) = (start(""), start("cache_memory = 0"));
    for (number, said) in SAID.iter().enumerate() {
        for (other, asked) in ASKED.iter().enumerate() {
            // A URL of its own, so that this request is the first; then others for the same URL.
            let target = format!("/?of={number}-{other}&{said}");
            for asked in [asked, &ASKED[0], asked, &ASKED[1], &ASKED[4]] {
                let [ours, theirs] = [&with, &without].map(|server| ask(server, &target, asked));
                assert_eq!(seen(&ours), seen(&theirs), "{target} {asked:?}");
            }
            let [ours, theirs] =
                [&with, &without].map(|server| server.client().request("HEAD", &format!("{target}&head"), asked, b""));
            assert_eq!(seen(&ours), seen(&theirs), "HEAD {target} {asked:?}");
        }
    }
}

/// Notes that it has begun, and ends when it may. With `head` its client has the beginning at once.
const HELD: &str = r#"<?php
file_put_contents('@runs@/log', $_SERVER['REQUEST_URI'] . "\n", FILE_APPEND | LOCK_EX);
if (isset($_GET['head'])) { echo 'begins '; ob_flush(); flush(); }
while (!file_exists('@runs@/' . $_GET['until'])) usleep(2000);
echo 'ends';
"#;

fn held() -> Server {
    let setup = Setup::empty();
    let runs = setup.writable("runs");
    setup.file("index.php", HELD.replace("@runs@", &runs)).application("workers = 8\nrequest_timeout = \"60s\"").start()
}

fn let_go(server: &Server, name: &str) {
    fs::write(server.directory().join("runs").join(name), "").expect("a file");
}

/// So many requests for a page that is held, all of which have to run at once; then it is let go.
fn all_run(server: &Server, target: &str, more: usize, name: &str) {
    let (before, port) = (runs_of(server, target), server.port);
    let askers: Vec<_> = (0..more)
        .map(|_| {
            let target = target.to_owned();
            thread::spawn(move || Client::new(port).get(&target).status)
        })
        .collect();
    wait_until("all run at once", 20, || runs_of(server, target) == before + more);
    let_go(server, name);
    assert!(askers.into_iter().all(|asker| asker.join().expect("a response") == 200));
}

/// Nobody waits for another's response to a page that is not known to be shared: neither at first, nor after purges, nor after many other pages.
#[test]
fn a_slow_page_is_not_waited_for() {
    let server = held();
    let target = "/?page&until=1";
    all_run(&server, target, 6, "1");
    let remove = || fs::remove_file(server.directory().join("runs/1")).expect("the file");
    remove();
    all_run(&server, target, 6, "1");
    assert_eq!(server.reprise(&["purge", "--all"]).1, 0);
    let mut client = server.client();
    for number in 0..200 {
        client.get(&format!("/?other={number}&until=1"));
    }
    remove();
    all_run(&server, target, 6, "1");
}

/// A page that is sent as it is made, such as server-sent events, tells with its first byte: nobody waits for its end.
#[test]
fn a_page_that_streams_keeps_nobody_waiting_for_its_end() {
    let server = held();
    all_run(&server, "/?events&head&until=2", 6, "2");
}

/// A crowd that has the page already asks a server that knows nothing of the page: its answers to those that find a free worker tell that the page is
/// for many, which is made once.
#[test]
fn a_crowd_that_has_a_page_has_it_made_once() {
    let server = site(4).start();
    let (target, port) = (format!("/a?{PUBLIC}&etag=one&ms=300"), server.port);
    let askers: Vec<_> = (0..20)
        .map(|_| {
            let target = target.clone();
            thread::spawn(move || {
                Client::new(port).request("GET", &target, &[("If-None-Match", "\"one\"")], b"").status
            })
        })
        .collect();
    for asker in askers {
        let status = asker.join().expect("a response");
        assert!([200, 304].contains(&status), "{status}");
    }
    let runs = runs_of(&server, "/a?");
    assert!((2..=4 + 1).contains(&runs), "{runs}");
    assert!(is_hit(&ask(&server, &target, &[])));
}
