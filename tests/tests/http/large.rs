//! Two gigabytes each way, with flat memory on both sides.

use std::io::Write;

use tests::{Setup, amount, process, wait_until};

const MEGABYTE: usize = 1 << 20;

/// Megabytes that go each way: two gigabytes in the full run.
fn megabytes() -> usize {
    amount(512, 2048)
}

fn memory(server: &tests::Server) -> (u64, u64) {
    let workers = server.workers().into_iter().map(process::anonymous_kib).max().unwrap_or(0);
    (process::anonymous_kib(server.front().expect("a front")), workers)
}

/// A response of two gigabytes needs no more memory in front and worker than a small one.
#[test]
fn two_gigabytes_come_down() {
    let server = Setup::app("plain").application("workers = 1").start();
    server.get("/big.php?mb=1");
    let before = memory(&server);
    let mut client = server.client();
    client.send(format!("GET /big.php?mb={} HTTP/1.1\r\nHost: a\r\n\r\n", megabytes()).as_bytes()).unwrap();
    let head = client.read_head().unwrap();
    assert_eq!(head.status, 200);
    let mut total = 0usize;
    let mut most = (0, 0);
    let mut next = 0;
    while let Some(chunk) = client.read_chunk().unwrap() {
        total += chunk.len();
        if total >= next {
            next += 64 * MEGABYTE;
            let now = memory(&server);
            most = (most.0.max(now.0), most.1.max(now.1));
        }
    }
    assert_eq!(total, megabytes() * MEGABYTE);
    assert_flat(before, most);
}

/// A body of two gigabytes needs no more memory in front and worker than a small one.
#[test]
fn two_gigabytes_go_up() {
    let server = Setup::app("plain").application("workers = 1").application("max_body = \"3G\"").start();
    server.client().request("PUT", "/count.php", &[], &vec![b'a'; MEGABYTE]);
    let before = memory(&server);
    let mut client = server.client();
    let size = megabytes() * MEGABYTE;
    client.send(format!("PUT /count.php HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n").as_bytes()).unwrap();
    let block = vec![b'a'; MEGABYTE];
    let mut most = (0, 0);
    for sent in 0..megabytes() {
        client.stream().write_all(&block).unwrap();
        if sent % 64 == 63 {
            let now = memory(&server);
            most = (most.0.max(now.0), most.1.max(now.1));
        }
    }
    let answer = client.read(false).unwrap();
    assert!(answer.text().contains(&size.to_string()), "{}", answer.text());
    assert_flat(before, most);
}

/// A file of that size is also taken as an upload, which PHP keeps on disk, not in memory.
#[test]
fn an_upload_of_300_megabytes_is_streamed_to_disk() {
    let server = Setup::app("plain")
        .application("workers = 1")
        .ini("post_max_size", "400M")
        .ini("upload_max_filesize", "400M")
        .start();
    let (kind, small) = tests::client::multipart(&[], &[("file", "small", "text/plain", b"x")]);
    server.client().request("POST", "/tmpupload.php", &[("Content-Type", &kind)], &small);
    let before = memory(&server);
    let bytes = vec![b'u'; 300 * MEGABYTE];
    let (kind, body) = tests::client::multipart(&[], &[("file", "large", "text/plain", &bytes)]);
    let answer = server.client().request("POST", "/tmpupload.php", &[("Content-Type", &kind)], &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let after = memory(&server);
    assert_flat(before, after);
    wait_until("the worker is idle again", 10, || server.get("/").status == 200);
}

fn assert_flat(before: (u64, u64), most: (u64, u64)) {
    println!("anonymous memory, KiB: front {} to {}, worker {} to {}", before.0, most.0, before.1, most.1);
    assert!(most.0 < before.0 + 8 * 1024, "the front grew from {} to {} KiB", before.0, most.0);
    assert!(most.1 < before.1 + 8 * 1024, "the worker grew from {} to {} KiB", before.1, most.1);
}
