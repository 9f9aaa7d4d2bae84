//! Upstreams that lie, or die in the middle.

use std::io::Write;

use tests::client::Client;
use tests::http2::{Http2, get};
use tests::upstream::Upstream;

use super::before;

/// A server before an upstream that sends these bytes and then ends the connection.
fn says(bytes: Vec<Vec<u8>>) -> tests::server::Server {
    let upstream = Upstream::start(move |mut talk| {
        let Some(head) = talk.head() else { return };
        let number = head.split(['/', ' ', '?']).find_map(|part| part.parse::<usize>().ok()).expect("a number");
        // It may be cut off before it has said all.
        let _ = talk.say(&bytes[number]);
    });
    before(&upstream, "response_timeout = \"5s\"").start()
}

#[test]
fn heads_that_lie_are_no_responses() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101));
    let flood = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000);
    let hints = format!("{}HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(20_000));
    let texts = [
        "",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        &long,
        &many,
        &flood,
        &hints,
    ];
    let server = says(texts.iter().map(|text| text.as_bytes().to_vec()).collect());
    for (number, text) in texts.iter().enumerate() {
        let got = server.get(&format!("/up/{number}"));
        let what = text.get(..80).unwrap_or(text);
        assert_eq!((got.status, got.header("reprise-refused")), (502, Some("upstream-bad-response")), "{what:?}");
    }
    assert_eq!(server.get("/").text(), "PHP");
}

#[test]
fn bodies_that_lie_break_the_response_off() {
    let texts = [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort--",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nffffffffffffffffff\r\n",
    ];
    let server = says(texts.iter().map(|text| text.as_bytes().to_vec()).collect());
    for (number, text) in texts.iter().enumerate() {
        let mut client = Client::new(server.port);
        write!(client.stream(), "GET /up/{number} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut head = client.read_head().unwrap();
        assert_eq!(head.status, 200);
        let read = client.read_body(&mut head, false);
        assert!(read.is_err(), "{text:?} is complete: {:?}", head.text());
        let mut client = Http2::new(server.port);
        client.request(1, &get(&format!("/up/{number}")));
        let answer = client.answer(1);
        assert!(answer.reset.is_some(), "{text:?} is complete over HTTP/2");
    }
}

#[test]
fn bodies_that_are_longer_than_they_say_are_cut() {
    let texts: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\n\r\nto the end",
    ];
    let server = says(texts.iter().map(|text| text.to_vec()).collect());
    let mut client = server.client();
    for (number, (status, text)) in [(200, "ok"), (204, ""), (200, "to the end")].into_iter().enumerate() {
        let got = client.get(&format!("/up/{number}"));
        assert_eq!((got.status, got.text().as_str()), (status, text));
        assert_eq!(client.get("/").text(), "PHP", "the client's connection goes on");
    }
}
