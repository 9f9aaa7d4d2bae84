//! Files that change, grow or go while they are sent.

use super::*;

/// A file too large for the sockets between, half asked for.
fn begun(server: &Server, name: &str, bytes: u64) -> (Client, Response) {
    fs::File::create(server.root.join(name)).and_then(|file| file.set_len(bytes)).unwrap();
    let mut client = server.client();
    client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let head = client.read_head().unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*bytes.to_string())));
    (client, head)
}

/// A file that grows while it is sent has the length that it had at the beginning.
#[test]
fn a_file_that_grows_is_sent_as_it_was() {
    let server = plain().start();
    let (mut client, mut head) = begun(&server, "grows.bin", 64 << 20);
    let mut file = fs::OpenOptions::new().append(true).open(server.root.join("grows.bin")).unwrap();
    file.write_all(&[b'x'; 100_000]).unwrap();
    client.read_body(&mut head, false).unwrap();
    assert!(head.body.len() == 64 << 20 && head.body.iter().all(|&byte| byte == 0));
    assert_eq!(client.get("/a.txt").text(), "static");
}

/// If a file shrinks while it is sent, the connection ends early and the server goes on.
#[test]
fn a_file_that_shrinks_ends_its_connection() {
    let server = plain().start();
    let (mut client, mut head) = begun(&server, "shrinks.bin", 64 << 20);
    fs::OpenOptions::new().write(true).open(server.root.join("shrinks.bin")).unwrap().set_len(1 << 20).unwrap();
    client.read_body(&mut head, false).expect_err("the connection ends before the body does");
    assert_eq!(server.get("/a.txt").text(), "static");
}

/// A file that is removed or replaced while it is sent is sent to its end.
#[test]
fn a_file_that_is_replaced_or_removed_is_sent_as_it_was() {
    let server = plain().start();
    let (mut client, mut head) = begun(&server, "goes.bin", 64 << 20);
    fs::remove_file(server.root.join("goes.bin")).unwrap();
    fs::write(server.root.join("goes.bin"), "new").unwrap();
    client.read_body(&mut head, false).unwrap();
    assert_eq!(head.body.len(), 64 << 20);
    assert_eq!(client.get("/goes.bin").text(), "new");
}

/// The last bytes of a large file are sent at once, without reading the rest into memory.
#[test]
fn the_end_of_a_huge_file_is_sent_without_the_rest() {
    let server = plain().start();
    let mut file = fs::File::create(server.root.join("huge.bin")).unwrap();
    file.seek(SeekFrom::Start((1 << 30) - 3)).unwrap();
    file.write_all(b"end").unwrap();
    let front = server.front().unwrap();
    let before = process::anonymous_kib(front);
    let began = SystemTime::now();
    let mut client = server.client();
    for range in ["bytes=-3", "bytes=1073741821-", "bytes=1073741821-1073741823"] {
        let answer = with(&mut client, "/huge.bin", &[("Range", range)]);
        assert_eq!((answer.status, answer.text().as_str()), (206, "end"));
        assert_eq!(answer.header("content-range"), Some("bytes 1073741821-1073741823/1073741824"));
    }
    assert_eq!(client.request("HEAD", "/huge.bin", &[], b"").header("content-length"), Some("1073741824"));
    assert!(began.elapsed().unwrap() < tests::seconds(2));
    // All of it, to the byte, in little memory.
    client.send(b"GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(client.read_head().unwrap().status, 200);
    let (mut left, mut piece, mut last) = (1u64 << 30, vec![0; 1 << 20], Vec::new());
    while left > 0 {
        let count = client.read_some(&mut piece).unwrap();
        assert!(count > 0, "{left} bytes are missing");
        left -= count as u64;
        last = [&last[last.len().saturating_sub(3)..], &piece[count.saturating_sub(3)..count]].concat();
    }
    assert!(last.ends_with(b"end"));
    assert!(process::anonymous_kib(front) < before + 8 * 1024);
    assert_eq!(client.get("/a.txt").text(), "static");
}

/// A new file or script is served by the first request after it was written.
#[test]
fn a_file_is_served_as_soon_as_it_is_there() {
    let server = Setup::empty().file("index.php", "<?php echo 'front controller';").start();
    for n in 0..20 {
        let (file, script) = (format!("new{n}.txt"), format!("new{n}.php"));
        assert_eq!(server.get(&format!("/{file}")).text(), "front controller");
        assert_eq!(server.get(&format!("/{script}")).text(), "front controller");
        fs::write(server.root.join(&file), "there").unwrap();
        fs::write(server.root.join(&script), "<?php echo 'runs';").unwrap();
        assert_eq!(server.get(&format!("/{file}")).text(), "there");
        assert_eq!(server.get(&format!("/{script}")).text(), "runs");
        fs::remove_file(server.root.join(&file)).unwrap();
        assert_eq!(server.get(&format!("/{file}")).text(), "front controller");
    }
}
