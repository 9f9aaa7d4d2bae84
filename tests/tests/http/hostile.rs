//! HTTP/1.1 as nobody should speak it.
//!
//! What is malformed stands in tables; each row is sent on a connection of its own with a second request hidden behind
//! it. PHP must see neither.

mod malformed;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::marking::*;
use tests::{Server, amount, process, wait_until};

use malformed::*;

// ---- malformed requests --------------------------------------------------------------------------------------------

/// Seconds a refusal may take.
const PATIENCE: u64 = 6;
/// After so many that were not refused the rest is not worth its time.
const SHOWN: usize = 24;

/// Sends each on a connection of its own. Returns what was wrong.
fn attack(server: &Server, requests: &[Vec<u8>], end: Option<Shutdown>) -> Vec<String> {
    let mut wrong = Vec::new();
    for bytes in requests {
        if wrong.len() >= SHOWN {
            wrong.push("and more".to_owned());
            break;
        }
        let began = Instant::now();
        let (answer, closed) = exchange(server.port, bytes, end, PATIENCE);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).escape_debug().to_string();
        let statuses = statuses(&answer);
        // 501: a coding nobody knows; 505: a version nobody speaks.
        let refused = statuses.len() == 1 && ((400..500).contains(&statuses[0]) || [501, 505].contains(&statuses[0]));
        let cut = end.is_some() && statuses.is_empty();
        if !closed {
            wrong.push(format!("not closed ({statuses:?}): {shown}"));
        } else if !refused && !cut {
            wrong.push(format!("answered {statuses:?}: {shown}"));
        } else if began.elapsed() > Duration::from_secs(PATIENCE) {
            wrong.push(format!("took {:?}: {shown}", began.elapsed()));
        }
    }
    wrong
}

/// Attacks, and looks at what it did to PHP, to the front's memory and to other clients.
fn withstands(requests: &[Vec<u8>], end: Option<Shutdown>) {
    assert!(requests.len() >= 50, "only {} requests", requests.len());
    let server = marking().application("front_controller = \"\"").start();
    assert_eq!(server.get("/mark.php?before").text(), "marked 0");
    let front = server.front().unwrap();
    let mut wrong = attack(&server, requests, end);
    let before = process::anonymous_kib(front);
    wrong.extend(attack(&server, requests, end));
    let after = process::anonymous_kib(front);
    assert_eq!(server.get("/mark.php?after").text(), "marked 0");
    assert_eq!(server.front(), Some(front), "the front has died");
    wrong.sort();
    wrong.dedup();
    let text = seen(&server);
    let mut reached: Vec<&str> =
        text.lines().filter(|line| !line.contains("?before") && !line.contains("?after")).collect();
    reached.sort_unstable();
    reached.dedup();
    assert!(
        wrong.is_empty() && reached.is_empty(),
        "of {} requests {} were not refused:\n{}\nPHP saw {reached:#?}",
        requests.len(),
        wrong.len(),
        wrong.join("\n")
    );
    assert!(after <= before + 1024, "the front's memory grew from {before} to {after} KiB");
}

/// No malformed request line reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_request_lines_are_refused() {
    withstands(&bad_lines(), None);
}

/// No malformed header reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_headers_are_refused() {
    withstands(&bad_headers(), None);
}

/// No malformed host reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_hosts_are_refused() {
    withstands(&bad_hosts(), None);
}

/// No malformed Content-Length reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_lengths_are_refused() {
    withstands(&bad_lengths(), None);
}

/// No malformed Transfer-Encoding reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_codings_are_refused() {
    withstands(&bad_codings(), None);
}

/// No malformed target reaches PHP, nor does the request hidden behind it.
#[test]
fn malformed_targets_are_refused() {
    withstands(&bad_targets(), None);
}

/// No body with malformed framing is taken for a whole one, nor does the request hidden behind it reach PHP.
#[test]
fn malformed_bodies_are_refused() {
    withstands(&bad_bodies(), None);
}

/// A request that is cut off at any byte never reaches PHP as a whole one.
#[test]
fn truncated_requests_are_refused() {
    let whole: [&[u8]; 3] = [
        b"GET /mark.php?cut HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
        b"POST /mark.php?cut HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nabcdefghijkl",
        b"POST /mark.php?cut HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na=bcde\r\n0\r\nX: y\r\n\r\n",
    ];
    let cut: Vec<Vec<u8>> = whole.iter().flat_map(|whole| (1..whole.len()).map(|end| whole[..end].to_vec())).collect();
    withstands(&cut, Some(Shutdown::Write));
}

/// A malformed request is refused behind a good one on the same connection, too.
#[test]
fn a_malformed_request_is_refused_behind_a_good_one() {
    let server = marking().start();
    let good = b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let long = [
        b"POST /echo.php HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n",
        &b"Content-Length: 1\r\n\r\n".repeat(2)[..40],
    ]
    .concat();
    let mut wrong = Vec::new();
    let mut codings = bad_codings();
    codings.retain(|bytes| bytes.len() < 1000);
    for bad in codings.iter().chain(&bad_lengths()).chain(&bad_hosts()[..12]) {
        for first in [&good[..], &long] {
            if wrong.len() >= SHOWN {
                break;
            }
            let (answer, closed) = exchange(server.port, &[first, bad].concat(), None, PATIENCE);
            let statuses = statuses(&answer);
            let refused =
                statuses.len() == 2 && statuses[0] == 200 && ((400..500).contains(&statuses[1]) || statuses[1] == 501);
            if !closed || !refused {
                wrong.push(format!("closed {closed} {statuses:?}: {}", String::from_utf8_lossy(bad).escape_debug()));
            }
        }
    }
    let text = seen(&server);
    assert!(
        wrong.is_empty() && text.is_empty(),
        "{} were not refused:\n{}\nPHP saw {text}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Bytes of a body that comes after its response are not taken for a request.
#[test]
fn a_body_is_not_taken_for_a_head() {
    // A body that comes after its answer, and looks like a head with a length; then a good chunked request.
    let server = marking().start();
    let body = "X: y\r\nContent-Length: 5\r\nContent-Length: 6\r\nX: y\r\n".repeat(40);
    for (path, answer) in [("/a.txt", 405), ("/none.txt", 404), ("/mark.php", 200)] {
        let mut client = server.client();
        client
            .send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes())
            .unwrap();
        let early = (answer >= 400).then(|| client.read(false).unwrap().status);
        client.send(body.as_bytes()).unwrap();
        assert_eq!(early.unwrap_or_else(|| client.read(false).unwrap().status), answer, "{path}");
        let next = client
            .send(b"POST /echo.php?n=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .and_then(|()| client.read(false));
        // Closing is fine where the body had not come when it was answered.
        match next {
            Ok(next) => assert_eq!((next.status, next.text().as_str()), (200, "POST 1 ok"), "{path}"),
            Err(error) => assert!(answer >= 400, "{path}: {error}"),
        }
    }
}

// ---- many connections ----------------------------------------------------------------------------------------------

/// Ten thousand unfinished requests delay no other client, and cost bounded memory.
#[test]
fn ten_thousand_slow_clients_keep_nobody_waiting() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The server keeps 256 descriptors for itself; so does this process, for other tests.
    let count = (soft.saturating_sub(600) as usize).min(amount(3_000, 10_000));
    println!("{count} slow connections ({soft} open files allowed)");
    let server = marking().server("header_timeout = \"8s\"").start();
    let front = server.front().unwrap();
    let mut peaks = Vec::new();
    for wave in 0..3 {
        let mut slow = Vec::with_capacity(count);
        let began = Instant::now();
        while slow.len() < count {
            let mut stream = tests::client::connect(server.port).expect("the server accepts");
            let _ = stream.write_all(
                [
                    &b"GET /mark.php?slow HTTP/1.1\r\nHost: a\r\nX: "[..],
                    b"GET",
                    b"POST /mark.php HTTP/1.1\r\n",
                    b"\r\n",
                ][slow.len() % 4],
            );
            slow.push(stream);
        }
        let opened = began.elapsed();
        wait_until("most are open at once", 10, || connections(&server) >= count * 9 / 10);
        let mut slowest = Duration::ZERO;
        for n in 0..20 {
            let asked = Instant::now();
            assert_eq!(server.get("/a.txt").text(), "static");
            assert_eq!(server.get(&format!("/echo.php?n={n}")).text(), format!("GET {n} "));
            slowest = slowest.max(asked.elapsed());
        }
        peaks.push(process::anonymous_kib(front));
        println!("wave {wave}: opened in {opened:?}, {} KiB, good clients waited at most {slowest:?}", peaks[wave]);
        assert!(slowest < tests::seconds(1), "a good client waited {slowest:?}");
        for (number, stream) in slow.iter_mut().enumerate() {
            stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
            let mut rest = Vec::new();
            let result = stream.read_to_end(&mut rest);
            let timed_out =
                result.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
            assert!(!timed_out, "connection {number} is still open after {:?}", began.elapsed());
            assert!(statuses(&rest).iter().all(|status| *status == 408), "{}", String::from_utf8_lossy(&rest));
        }
        assert!(began.elapsed() < tests::seconds(25), "closing took {:?}", began.elapsed());
        drop(slow);
        wait_until("the front has closed them all", 10, || connections(&server) == 0);
        assert_eq!(server.get("/a.txt").text(), "static");
    }
    // What the first wave took is used again by the others, but for what the allocator cannot put together.
    assert!(peaks.iter().all(|&kib| kib < 32 * count as u64), "{peaks:?} KiB for {count} connections at once");
    assert_eq!(seen(&server), "");
}
