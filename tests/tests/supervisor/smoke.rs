//! One test for each thing that a server does, with the least that shows it: these run where others cannot, on processors that are
//! emulated (`scripts/cross`). Snapshots have fork isolation.

use tests::client::multipart;
use tests::{Setup, wait_until};

/// What a worker counts up with each request that it remembers.
const COUNT: &str = "echo ++$count, ' ', reprise_info()['mode'], ' ', reprise_info()['isolation'];";

#[test]
fn a_script_runs_and_says_where() {
    let script = "<?php echo PHP_VERSION, ' ', php_uname('m'), ' ', PHP_INT_SIZE, ' ', reprise_info()['mode'];";
    let server = Setup::empty().file("index.php", script).start();
    let answer = server.get("/");
    let text = answer.text();
    assert!(answer.status == 200 && text.starts_with("8.") && text.ends_with(" 8 classic"), "{text}");
    assert!(
        server.get("/").text() == text && server.get("/none.php").status == 200,
        "the front controller has all paths"
    );
}

#[test]
fn a_static_file_comes_whole_and_in_parts() {
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    let server = Setup::empty().file("picture.bin", &bytes).file("index.php", "<?php echo 1;").start();
    let mut client = server.client();
    assert_eq!(client.get("/picture.bin").body, bytes);
    let part = client.request("GET", "/picture.bin", &[("Range", "bytes=100000-100099")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &bytes[100_000..100_100]));
}

#[test]
fn a_form_and_a_large_body_reach_php() {
    let script = "<?php echo isset($_POST['name']) ? $_POST['name'] : sha1(file_get_contents('php://input'));";
    let server = Setup::empty().file("index.php", script).start();
    let mut client = server.client();
    assert_eq!(client.post_form("/", &[], &[("name", "a value & more")]).text(), "a value & more");
    let mut digest = |byte: u8| {
        let headers = [("Content-Type", "application/octet-stream")];
        client.request("POST", "/", &headers, &vec![byte; 1_000_000]).text()
    };
    let (first, second) = (digest(b'1'), digest(b'2'));
    assert!(first.len() == 40 && second.len() == 40 && first != second && digest(b'1') == first, "{first} {second}");
}

#[test]
fn an_upload_becomes_a_file() {
    let script = "<?php $file = $_FILES['photo'];
        echo $file['name'], ' ', $file['size'], ' ', md5_file($file['tmp_name']) === md5(str_repeat('x', 200000)) ? 'same' : 'other',
            ' ', $_POST['title'];";
    let server = Setup::empty().file("index.php", script).start();
    let (kind, body) = multipart(&[("title", "dune")], &[("photo", "a.jpg", "image/jpeg", &[b'x'; 200_000])]);
    assert_eq!(
        server.client().request("POST", "/", &[("Content-Type", &kind)], &body).text(),
        "a.jpg 200000 same dune"
    );
}

#[test]
fn each_request_from_a_snapshot_starts_where_it_was_taken() {
    let script =
        format!("<?php $count = 10; $held = range(1, 5000); reprise_snapshot(); {COUNT} echo ' ', array_sum($held);");
    let server = Setup::empty().file("index.php", script).application("isolation = \"fork\"").start();
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "11 snapshot fork 12502500", "{}", server.log());
    }
    assert!(!server.log().contains("killed by"), "{}", server.log());
}

#[test]
fn a_worker_script_keeps_its_state() {
    let script =
        format!("<?php $count = 0; while (reprise_handle_request(function () use (&$count) {{ {COUNT} }})) {{}}");
    let server = Setup::empty().file("index.php", script).application("workers = 1").start();
    for number in 1..=5 {
        assert_eq!(server.get("/").text(), format!("{number} worker none"), "{}", server.log());
    }
}

#[test]
fn a_reload_brings_new_code() {
    let index = "<?php $text = 'old'; reprise_snapshot(); echo $text;";
    let server = Setup::empty().file("index.php", index).application("isolation = \"fork\"").start();
    assert_eq!(server.get("/").text(), "old");
    std::fs::write(server.root.join("index.php"), index.replace("old", "new")).expect("the script");
    let (reloaded, said) = server.reload();
    assert!(reloaded, "{said}\n{}", server.log());
    assert_eq!(server.get("/").text(), "new");
}

#[test]
fn a_crash_costs_its_own_request() {
    let script = "<?php if (isset($_GET['crash'])) posix_kill(getmypid(), 11); echo 'fine';";
    let server = Setup::empty().file("index.php", script).start();
    assert_eq!(server.get("/?crash").status, 502);
    wait_until("another worker serves", 20, || server.get("/").text() == "fine");
}
