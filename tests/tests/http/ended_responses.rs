//! Responses that have ended before their script has: HEAD, 204, 304 and more output than was announced. As under PHP-FPM, a
//! script learns of it when it flushes, and an ordinary page runs to its end.

use std::fs;
use std::time::Instant;

use tests::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, fields, frame};
use tests::modes::modes;
use tests::peer::Fpm;
use tests::{Client, Server, Setup, seconds, wait_until};

/// `note` is what the test learns of a script that has no client any more.
const SCRIPT: &str = r#"<?php
$handle = function () {
    ['do' => $do, 'n' => $n] = $_GET;
    $note = fn ($what) => file_put_contents("PLACE/$n", $what, FILE_APPEND);
    if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
    if (isset($_GET['long'])) header('Content-Length: 5');
    switch ($do) {
        case 'stream':
            register_shutdown_function(fn () => $note(connection_aborted()));
            while (ob_get_level()) ob_end_flush();
            for ($i = 0; $i < 3000; $i++) { echo "data: x\n\n"; flush(); usleep(10000); }
            $note('never noticed');
            break;
        case 'write':
            register_shutdown_function(fn () => $note(connection_aborted()));
            while (ob_get_level()) ob_end_flush();
            echo "data\n"; flush();
            for ($i = 0; $i < 3000; $i++) { echo "data\n"; usleep(10000); }
            $note('never noticed');
            break;
        case 'stay':
            ignore_user_abort(true);
            while (ob_get_level()) ob_end_flush();
            for ($i = 0; $i < 3000 && !connection_aborted(); $i++) { echo "data: x\n\n"; flush(); usleep(10000); }
            echo 'more'; flush();
            $note(connection_aborted() . ' to the end');
            break;
        case 'page':
            session_id($n); session_start();
            $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
            echo str_repeat("a page of 200 kB\n", 12000);
            $note('.');
            break;
        case 'body':
            while (ob_get_level()) ob_end_flush();
            echo ' '; flush(); usleep(50000);
            $note(strlen(file_get_contents('php://input')));
            break;
        case 'count': session_id($n); session_start(); echo $_SESSION['count'] ?? 0; break;
        default: echo 'fine';
    }
};
"#;

struct Site {
    server: Server,
    place: String,
}

impl Site {
    fn start(end: &str, lines: &[String]) -> Site {
        let setup = Setup::empty().application("workers = 1");
        let (place, sessions) = (setup.writable("place"), setup.writable("sessions"));
        let setup = setup.file("index.php", format!("{}\n{end}\n", SCRIPT.replace("PLACE", &place)));
        let setup = lines.iter().fold(setup, |setup, line| setup.application(line));
        let server = setup.ini("session.save_path", &sessions).ini("session.use_strict_mode", "0").start();
        Site { server, place }
    }

    fn noted(&self, name: &str) -> String {
        fs::read_to_string(format!("{}/{name}", self.place)).unwrap_or_default()
    }

    fn await_note(&self, name: &str, expected: &str, what: &str) {
        wait_until(&format!("{what} has ended"), 20, || !self.noted(name).is_empty());
        assert_eq!(self.noted(name), expected, "{what}");
    }
}

fn in_each_mode(test: impl Fn(&Site, &str)) {
    for (mode, end, lines) in modes() {
        let site = Site::start(end, &lines);
        test(&site, mode);
        assert!(!site.server.log().contains("audit"), "{}", site.server.log());
    }
}

/// Asks by either protocol and reads no more than the head.
fn ask(port: u16, is_http2: bool, method: &str, target: &str) {
    if is_http2 {
        let mut client = Http2::new(port);
        let head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", target)];
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&head))).unwrap();
        assert!(client.answer(1).is_complete, "{target}");
    } else {
        let answer = Client::new(port).request(method, target, &[], b"");
        assert!([200, 204, 304].contains(&answer.status), "{target}: {answer:?}");
    }
}

/// An endless stream of which nothing more is wanted does not keep its worker.
#[test]
fn a_stream_whose_response_has_ended_is_ended() {
    in_each_mode(|site, mode| {
        for is_http2 in [false, true] {
            for (number, (method, query)) in [
                ("HEAD", "do=stream"),
                ("GET", "do=stream&status=204"),
                ("GET", "do=stream&status=304"),
                ("GET", "do=stream&long"),
                ("GET", "do=write&status=204"),
            ]
            .into_iter()
            .enumerate()
            {
                let (n, began) = (format!("{mode}{is_http2}{number}"), Instant::now());
                ask(site.server.port, is_http2, method, &format!("/?{query}&n={n}"));
                // There is one worker.
                assert_eq!(site.server.get("/?do=&n=").text(), "fine");
                assert!(began.elapsed() < seconds(5), "{mode}: {method} {query}: {:?}", began.elapsed());
                site.await_note(&n, "1", &format!("{mode}: {method} {query}"));
            }
            let n = format!("{mode}{is_http2}stay");
            ask(site.server.port, is_http2, "HEAD", &format!("/?do=stay&n={n}"));
            site.await_note(&n, "1 to the end", mode);
        }
    });
    // PHP-FPM does the same.
    let site = Site::start("$handle();", &[]);
    let fpm = Fpm::start(&site.server.root);
    for (n, query, expected) in [("a", "do=stream", "1"), ("b", "do=stay", "1 to the end")] {
        ask(fpm.port, false, "HEAD", &format!("/?{query}&n={n}"));
        site.await_note(n, expected, query);
    }
}

/// A page that does not flush runs to its end, with its session, and however long it is.
#[test]
fn an_ordinary_page_runs_to_its_end() {
    in_each_mode(|site, mode| {
        for is_http2 in [false, true] {
            let n = format!("{mode}{is_http2}");
            for (method, more) in [("HEAD", ""), ("GET", "&status=204"), ("GET", "&status=304"), ("GET", "&long")] {
                ask(site.server.port, is_http2, method, &format!("/?do=page&n={n}{more}"));
            }
            assert_eq!(site.server.get(&format!("/?do=count&n={n}")).text(), "4", "{mode}");
            assert_eq!(site.noted(&n), "....", "{mode}");
        }
    });
}

/// A body that comes after the response has ended reaches its script whole.
#[test]
fn a_body_that_follows_its_response_is_whole() {
    in_each_mode(|site, mode| {
        for (number, status) in ["204", "304", "200"].into_iter().enumerate() {
            let (n, body) = (format!("{mode}{number}"), "x".repeat(300_000));
            let (first, rest) = body.split_at(100_000);
            let mut client = Client::new(site.server.port);
            let target = format!("/?do=body&status={status}&long&n={n}");
            let head = format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            client.send(&[head.as_bytes(), first.as_bytes()].concat()).unwrap();
            assert_eq!(client.read_head().unwrap().status.to_string(), status, "{mode}");
            client.send(rest.as_bytes()).unwrap();
            site.await_note(&n, "300000", &format!("{mode}: {status}"));
        }
    });
}
