//! Clients that leave: what was complete runs, what need not run does not, PHP is told, and each has its line in the log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;

use nix::sys::socket::{setsockopt, sockopt};
use tests::client::connect;
use tests::marking::*;
use tests::modes::modes;
use tests::{Server, Setup, amount, wait_until};

/// Notes each POST by its number; says so at once to anything else.
const SCRIPT: &str = r#"<?php
$handle = function () {
    if ($_SERVER['REQUEST_METHOD'] === 'POST') {
        $number = $_GET['n'] . ' ' . file_get_contents('php://input');
        file_put_contents(getenv('PLACE') . '/ran', "$number\n", FILE_APPEND | LOCK_EX);
    }
    echo 'fine';
};
"#;

/// Ten thousand where there is time for it.
fn requests(usual: usize) -> usize {
    std::env::var("REPRISE_REQUESTS").ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

fn served(end: &str, lines: &[String]) -> Server {
    let setup = Setup::empty().file("index.php", format!("{SCRIPT}\n{end}\n")).application("workers = 2");
    let setup = lines.iter().fold(setup, |setup, line| setup.application(line));
    let place = setup.writable("place");
    setup.env("PLACE", &place).start()
}

fn ran(server: &Server) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(server.directory().join("place/ran")).unwrap_or_default();
    text.lines().fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line.to_owned()).or_default() += 1;
        counts
    })
}

fn post(number: usize) -> String {
    format!("POST /?n={number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
}

/// Waits until so many have run, and until nothing is left to run; none of them ran twice.
fn all_ran_once(server: &Server, total: usize, what: &str) {
    let patience = 60 + total as u64 / 100;
    wait_until(&format!("{total} have run, {what}"), patience, || ran(server).len() >= total);
    let log = |server: &Server| server.access_log().matches("\"POST /?n=").count();
    wait_until("each has its line", 10, || log(server) == total);
    let counts = ran(server);
    assert!(counts.len() == total && counts.values().all(|count| *count == 1), "{what}: {counts:?}");
    assert!(counts.keys().all(|line| line.ends_with(" abc")), "{what}: {counts:?}");
}

/// A complete request runs though its client closes the connection with it, in every mode.
#[test]
fn complete_requests_run_whose_client_closes_with_them() {
    for (mode, end, lines) in modes() {
        let server = served(end, &lines);
        let total = requests(amount(120, 400));
        for number in 0..total {
            let mut stream = connect(server.port).unwrap();
            match number % 4 {
                // On a connection that has been used and read to the end.
                0 | 1 => {
                    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                    let mut answer = Vec::new();
                    while !answer.ends_with(b"fine") {
                        let mut bytes = [0; 512];
                        let count = stream.read(&mut bytes).unwrap();
                        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
                        answer.extend_from_slice(&bytes[..count]);
                    }
                    stream.write_all(post(number).as_bytes()).unwrap();
                }
                // On a new one.
                2 => stream.write_all(post(number).as_bytes()).unwrap(),
                // The end of the body by itself, with the close.
                _ => {
                    let (head, body) = (post(number), "abc");
                    stream.write_all(head.strip_suffix(body).unwrap().as_bytes()).unwrap();
                    stream.write_all(body.as_bytes()).unwrap();
                }
            }
            if number % 8 >= 4 {
                // As a reset, not as an end of input.
                setsockopt(&stream, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
            }
        }
        all_ran_once(&server, total, mode);
        println!("{mode}: {total} requests whose client closed with them, each ran once");
        assert!(!server.log().contains("audit"), "{}", server.log());
    }
}

/// Their answers are read by nobody, and the first that cannot be sent ends none of those behind it.
#[test]
fn pipelined_requests_run_in_order_though_their_client_is_gone() {
    for (mode, end, lines) in modes() {
        let server = served(end, &lines);
        let total = requests(amount(120, 400)) / 10;
        for turn in 0..10 {
            let mut stream = connect(server.port).unwrap();
            let all: String = (turn * total..(turn + 1) * total).map(post).collect();
            stream.write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{all}").as_bytes()).unwrap();
        }
        all_ran_once(&server, total * 10, mode);
        for turn in 0..10 {
            let text = fs::read_to_string(server.directory().join("place/ran")).unwrap();
            let of_turn = |number: &usize| (turn * total..(turn + 1) * total).contains(number);
            let order: Vec<usize> =
                text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).filter(of_turn).collect();
            assert!(order.is_sorted(), "{mode}: {order:?}");
        }
    }
}

/// A client that has shut down its sending side gets its response.
#[test]
fn a_client_that_only_ends_its_input_gets_its_answer() {
    let server = marking().start();
    for (request, expected) in [
        ("GET /mark.php HTTP/1.0\r\n\r\n", "marked 0"),
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", "static"),
        ("POST /mark.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "marked 3"),
    ] {
        let (answer, closed) = exchange(server.port, request.as_bytes(), Some(Shutdown::Write), 10);
        let text = String::from_utf8_lossy(&answer);
        assert!(closed && text.ends_with(expected), "{request:?}: {text}");
    }
}

/// What is not complete never runs, and is no reason to leave out what came before it.
#[test]
fn an_incomplete_request_does_not_run_with_the_close() {
    let server = marking().start();
    for (number, rest) in [
        "POST /mark.php?half HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabc",
        "POST /mark.php?half HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        "POST /mark.php?half HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n",
    ]
    .iter()
    .enumerate()
    {
        let whole = format!("POST /mark.php?whole{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab{rest}");
        connect(server.port).unwrap().write_all(whole.as_bytes()).unwrap();
    }
    wait_until("the complete ones have run", 10, || seen(&server).matches("?whole").count() == 3);
    assert_eq!(server.get("/mark.php?last").text(), "marked 0");
    assert!(!seen(&server).contains("?half"), "{}", seen(&server));
}

/// Each request that the parser refuses has its line in the access log and is counted in the metrics.
#[test]
fn what_the_parser_refuses_has_a_line_and_is_counted() {
    let port = tests::server::free_port();
    let server = marking().server(&format!("admin_listen = [\"127.0.0.1:{port}\"]")).start();
    for (request, status, word, line) in [
        ("GET  / HTTP/1.1\r\n\r\n", 400, "bad-request", "\"GET  / HTTP/1.1\""),
        ("\x16\x03\x01\x02\r\n\r\n", 400, "bad-request", "\"\\x16\\x03\\x01\\x02\""),
        ("GET / HTTP/1.1\r\nA b: c\r\n\r\n", 400, "bad-request", "\"GET / HTTP/1.1\""),
        ("GET /\x01 HTTP/1.1\r\n\r\n", 400, "bad-target", "\"GET /\\x01 HTTP/1.1\""),
        ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, "bad-framing", "\"POST / HTTP/1.1\""),
        ("CONNECT a:80 HTTP/1.1\r\n\r\n", 405, "bad-method", "\"CONNECT a:80 HTTP/1.1\""),
    ] {
        let (answer, closed) = exchange(server.port, request.as_bytes(), None, 10);
        let text = String::from_utf8_lossy(&answer);
        assert!(closed && statuses(&answer) == [status], "{request:?}: {text}");
        assert!(text.contains(&format!("reprise-refused: {word}\r\n")), "{request:?}: {text}");
        let logged = format!("{line} {status} ");
        wait_until(&format!("{logged} is logged"), 5, || server.access_log().contains(&logged));
    }
    let metrics = tests::get(port, "/metrics").text();
    let counted =
        |word: &str| metrics.lines().any(|line| line.contains(&format!("\"{word}\"")) && !line.ends_with(" 0"));
    for word in ["bad-request", "bad-target", "bad-framing", "bad-method"] {
        assert!(counted(word), "{word}: {metrics}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(40_000));
    assert_eq!(statuses(&exchange(server.port, long.as_bytes(), None, 10).0), [414]);
}

/// The line of a header in which the second part of a pipelined request begins is no request line.
#[test]
fn framing_does_not_depend_on_how_bytes_arrive() {
    let server = marking().start();
    let first = "POST /mark.php?first HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let second = "POST /mark.php?second HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nPOST-X: /mark.php?second\r\n\
                  Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for cut in [0, 20, second.find("POST-X").unwrap(), second.len() - 7] {
        let mut stream = connect(server.port).unwrap();
        stream.set_read_timeout(Some(tests::seconds(10))).unwrap();
        stream.write_all(format!("{first}{}", &second[..cut]).as_bytes()).unwrap();
        let mut answer = vec![0; 4096];
        let count = stream.read(&mut answer).unwrap();
        assert_eq!(statuses(&answer[..count]), [200], "{cut}");
        stream.write_all(&second.as_bytes()[cut..]).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(statuses(&rest), [400], "{cut}: {}", String::from_utf8_lossy(&rest));
        assert!(String::from_utf8_lossy(&rest).contains("bad-framing"), "{cut}");
    }
    assert!(!seen(&server).contains("?second"), "{}", seen(&server));
}

/// 3,000 clients that send 31 KB of a head each and wait.
#[test]
fn unfinished_heads_cost_little_and_are_given_back() {
    const CLIENTS: usize = 3_000;
    let server = marking().server("header_timeout = \"120s\"").start();
    let front = server.front().unwrap();
    server.get("/a.txt");
    let before = tests::process::anonymous_kib(front);
    let head = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(31_000));
    let (mut clients, mut most) = (Vec::new(), 0);
    for round in 0..2 {
        clients.clear();
        wait_until("they are gone", 20, || connections(&server) == 0);
        for _ in 0..CLIENTS {
            let mut stream = connect(server.port).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            clients.push(stream);
        }
        // All of it is read: what is not would stand in the sockets.
        wait_until("all are read", 30, || unread(server.port) == 0 && connections(&server) == CLIENTS);
        most = most.max(tests::process::anonymous_kib(front) - before);
        assert!(most < 48 * CLIENTS as u64, "round {round}: {most} KiB");
    }
    clients.clear();
    // What stays is of the connections themselves, for the next ones: 4 to 5 KiB each.
    let kept = || tests::process::anonymous_kib(front).saturating_sub(before);
    wait_until(&format!("memory is given back, of {most} KiB"), 20, || kept() < 6 * CLIENTS as u64);
    println!("{CLIENTS} heads: {most} KiB, then {} KiB", kept());
    assert_eq!(server.get("/a.txt").text(), "static");
}

/// Bytes that wait in the sockets of a port.
fn unread(port: u16) -> u64 {
    let local = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let of_port = table.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|own| own.ends_with(&local)));
    let queue = |line: &str| u64::from_str_radix(line.split_whitespace().nth(4)?.split(':').nth(1)?, 16).ok();
    // The queue of a listener counts connections.
    of_port.filter(|line| line.split_whitespace().nth(3) == Some("01")).filter_map(queue).sum()
}
