//! The Content-Length that a script announces: fewer bytes break the response off, more are left out, as with nginx.

use std::fs;

use tests::http2::{Http2, get};
use tests::modes::modes;
use tests::peer::Fpm;
use tests::server::Server;
use tests::{Client, Setup};

const SCRIPT: &str = r#"<?php
$handle = function () {
    ['said' => $said, 'sent' => $sent, 'do' => $do] = $_GET + ['do' => ''];
    header("Content-Length: $said");
    header('Content-Type: text/' . ($_GET['type'] ?? 'x-own'));
    if (isset($_GET['shared'])) header('Cache-Control: public, max-age=600');
    header('X-Run: ' . random_int(0, PHP_INT_MAX));
    if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
    if (isset($_GET['buffer'])) ob_start();
    if (isset($_GET['zlib'])) ob_start('ob_gzhandler');
    echo str_repeat('x', (int) $sent);
    if (isset($_GET['flush'])) { while (ob_get_level()) ob_end_flush(); flush(); }
    switch ($do) {
        case 'exit': exit;
        case 'exception': throw new Exception('it breaks');
        case 'error': there_is_none();
        case 'memory': ini_set('memory_limit', '8M'); str_repeat('x', 100000000);
        case 'time': set_time_limit(1); for (;;);
        case 'wait': for ($i = 0; $i < 5000 && !file_exists($_GET['file']); $i++) { usleep(2000); clearstatcache(); } exit;
    }
};
"#;

/// What a client gets on one connection: status, announced length, bytes of the body, whether the connection ended behind them.
#[derive(Debug, PartialEq, Eq)]
struct Got(u16, Option<String>, usize, bool);

fn ask(port: u16, method: &str, query: &str, headers: &str) -> Got {
    let mut client = Client::new(port);
    client.send(format!("{method} /?{query} HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes()).unwrap();
    let mut head = client.read_head().unwrap_or_else(|error| panic!("{query}: {error}"));
    let said = head.header("content-length").map(str::to_owned);
    if method == "HEAD" || said.is_none() {
        client.read_body(&mut head, method == "HEAD").unwrap_or_else(|error| panic!("{query}: {error}"));
        return Got(head.status, said, head.body.len(), false);
    }
    let mut left = said.as_deref().and_then(|said| said.parse::<usize>().ok()).expect("a length");
    let (mut got, mut part) = (0, vec![0; 65536]);
    while left > 0 {
        let most = left.min(part.len());
        match client.read_some(&mut part[..most]).unwrap() {
            0 => return Got(head.status, said, got, true),
            count => (got, left) = (got + count, left - count),
        }
    }
    // Nothing is left over on the connection.
    assert_eq!(client.get("/?said=2&sent=2").text(), "xx", "{query}");
    Got(head.status, said, got, false)
}

/// Starts the script in each mode, with the judge at first.
fn in_each_mode(test: impl Fn(&Server, Option<&Fpm>, &str)) {
    for (number, (mode, end, lines)) in modes().into_iter().enumerate() {
        let setup = Setup::empty().file("index.php", format!("{SCRIPT}\n{end}\n"));
        let setup = setup.application("compression = [\"gzip\"]");
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        let fpm = (number == 0).then(|| Fpm::start(&server.root));
        test(&server, fpm.as_ref(), mode);
        assert!(!server.log().contains("audit"), "{}", server.log());
    }
}

/// However a script comes to its end before it has sent what it has announced, its client notices.
#[test]
fn a_response_that_is_too_short_does_not_look_whole() {
    in_each_mode(|server, fpm, mode| {
        for (query, status, got) in [
            ("said=1000&sent=500", 200, 500),
            ("said=1000&sent=500&do=exit", 200, 500),
            ("said=1000&sent=500&do=exception", 500, 500),
            ("said=1000&sent=500&do=error", 500, 500),
            ("said=1000&sent=0&do=memory", 500, 0),
            ("said=1000&sent=500&do=exit&buffer", 200, 500),
            ("said=1000&sent=500&flush&do=error", 200, 500),
            ("said=100000&sent=99999", 200, 99_999),
            ("said=300000&sent=200000&do=exit", 200, 200_000),
        ] {
            let said = query[5..].split('&').next().map(str::to_owned);
            let ours = ask(server.port, "GET", query, "");
            assert_eq!(ours, Got(status, said, got, true), "{mode}: {query}");
            if let Some(fpm) = fpm {
                assert_eq!(ours, ask(fpm.port, "GET", query, ""), "{query}");
            }
        }
        if fpm.is_some() {
            let ours = ask(server.port, "GET", "said=1000&sent=500&do=time", "");
            assert_eq!(ours, Got(500, Some("1000".to_owned()), 500, true), "{mode}");
        }
        // Over HTTP/2 the stream is reset behind what there is; the connection goes on.
        let mut client = Http2::new(server.port);
        for (number, (query, got)) in [
            ("said=1000&sent=500", 500),
            ("said=1000&sent=0&do=exit", 0),
            ("said=1000&sent=500&flush&do=error", 500),
            ("said=50000&sent=40000", 40_000),
        ]
        .into_iter()
        .enumerate()
        {
            let stream = number as u32 * 2 + 1;
            client.request(stream, &get(&format!("/?{query}")));
            let answer = client.answer(stream);
            assert_eq!((answer.status, answer.body.len()), (Some(200), got), "{mode}: {query}");
            assert!(answer.reset.is_some() && !answer.is_complete, "{mode}: {query}");
        }
        client.request(101, &get("/?said=2&sent=2"));
        assert_eq!(client.answer(101).body, b"xx", "{mode}");
    });
}

/// Bytes beyond the announced length are nobody's, and the connection goes on behind the others.
#[test]
fn what_is_beyond_the_announced_length_is_left_out() {
    in_each_mode(|server, fpm, mode| {
        for (query, got) in [
            ("said=1000&sent=1500", 1000),
            ("said=1000&sent=1500&flush", 1000),
            ("said=0&sent=10", 0),
            ("said=100000&sent=200000", 100_000),
        ] {
            let said = query[5..].split('&').next().map(str::to_owned);
            let ours = ask(server.port, "GET", query, "");
            assert_eq!(ours, Got(200, said, got, false), "{mode}: {query}");
            if let Some(fpm) = fpm {
                assert_eq!(ours, ask(fpm.port, "GET", query, ""), "{query}");
            }
        }
        let mut client = Http2::new(server.port);
        for (stream, query, got) in [(1, "said=1000&sent=1500", 1000), (3, "said=40000&sent=200000", 40_000)] {
            client.request(stream, &get(&format!("/?{query}")));
            let answer = client.answer(stream);
            assert_eq!((answer.body.len(), answer.is_complete, answer.reset), (got, true, None), "{mode}: {query}");
        }
        // What is no length announces nothing, and HEAD announces what GET does.
        for query in ["said=abc&sent=500", "said=-1&sent=500", "said=%2B5&sent=500"] {
            let Got(status, said, got, is_cut) = ask(server.port, "GET", query, "");
            assert_eq!((status, got, is_cut), (200, 500, false), "{mode}: {query}");
            assert!(said.is_none_or(|said| said == "500"), "{mode}: {query}");
            assert_eq!(ask(server.port, "HEAD", query, ""), Got(200, None, 0, false), "{mode}: {query}");
        }
        for query in ["said=1000&sent=500&do=exit", "said=1000&sent=500&flush", "said=1000&sent=1500"] {
            let ours = ask(server.port, "HEAD", query, "");
            assert_eq!(ours, Got(200, Some("1000".to_owned()), 0, false), "{mode}: {query}");
            if let Some(fpm) = fpm {
                assert_eq!(ours, ask(fpm.port, "HEAD", query, ""), "{query}");
            }
        }
    });
}

/// Neither PHP's compression nor that of the front makes a short response whole.
#[test]
fn a_compressed_response_that_is_too_short_has_no_end() {
    in_each_mode(|server, fpm, mode| {
        let query = "said=1000&sent=500&zlib";
        let ours = ask(server.port, "GET", query, "Accept-Encoding: gzip\r\n");
        assert!(matches!(ours, Got(200, Some(_), 1..100, true)), "{mode}: {ours:?}");
        if let Some(fpm) = fpm {
            assert_eq!(ours, ask(fpm.port, "GET", query, "Accept-Encoding: gzip\r\n"));
        }
        for sent in [4000, 200_000] {
            let mut client = server.client();
            let target = format!("/?said=300000&sent={sent}&type=html&shared");
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            client.send(head.as_bytes()).unwrap();
            let mut answer = client.read_head().unwrap();
            assert_eq!(answer.header("content-encoding"), Some("gzip"), "{mode}: {answer:?}");
            assert!(client.read_body(&mut answer, false).is_err(), "{mode}: {sent}");
        }
    });
}

/// The cache keeps no response that is too short, and who waits for one gets as little.
#[test]
fn a_response_that_is_too_short_is_not_stored() {
    let setup = Setup::empty().file("index.php", format!("{SCRIPT}\n$handle();"));
    let place = setup.writable("place");
    let server = setup.start();
    let run = |query: &str| {
        let mut client = server.client();
        client.send(format!("GET /?{query} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut answer = client.read_head().unwrap();
        let is_whole = client.read_body(&mut answer, false).is_ok();
        (answer.header("x-run").unwrap().to_owned(), is_whole)
    };
    for query in ["said=1000&sent=500&shared", "said=1000&sent=500&flush&shared", "said=300000&sent=200000&shared"] {
        let (first, second) = (run(query), run(query));
        assert!(!first.1 && !second.1 && first.0 != second.0, "{query}: {first:?} {second:?}");
    }
    // One that is as long as it says is.
    let query = "said=500&sent=500&shared";
    assert_eq!(run(query), run(query));

    let query = format!("said=1000&sent=500&flush&shared&do=wait&file={place}/go");
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(format!("GET /?{query} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    }
    let runs: Vec<_> = clients.iter_mut().map(|client| client.read_head().unwrap()).collect();
    fs::write(format!("{place}/go"), "").unwrap();
    for (client, head) in clients.iter_mut().zip(&runs) {
        let mut all = Vec::new();
        std::io::Read::read_to_end(client.stream(), &mut all).unwrap();
        assert_eq!(head.header("content-length"), Some("1000"));
    }
    assert!(!run(&query).1);
}
