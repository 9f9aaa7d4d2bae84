//! A worker writes over the memory that its lane shares with the front: the lane is replaced, and nobody prints what is there.

use nix::sys::signal::Signal;
use tests::{Server, Setup, process, wait_until};

const SCRIPT: &str = r#"<?php
function scribble(int $from, int $size) {
    foreach (file('/proc/self/maps') as $line) {
        if (strpos($line, 'reprise-slab') && preg_match('/^([0-9a-f]+)-/', $line, $found)) {
            $memory = fopen('/proc/self/mem', 'r+b');
            stream_set_write_buffer($memory, 0);
            fseek($memory, hexdec($found[1]) + $from);
            fwrite($memory, str_repeat("\xa5", $size));
            fclose($memory);
            return;
        }
    }
}
BEFORE
    if (isset($_GET['header'])) scribble(0, 24);
    if (isset($_GET['all'])) scribble(0, 16384);
    echo getmypid();
AFTER
"#;

const MODES: [(&str, &str, &str, &str); 4] = [
    ("classic", "(function () {", "})();", ""),
    ("rewind", "reprise_snapshot(); (function () {", "})();", ""),
    ("fork", "reprise_snapshot(); (function () {", "})();", "isolation = \"fork\""),
    ("worker", "while (reprise_handle_request(function () {", "})) {}", ""),
];

fn start(mode: (&str, &str, &str, &str)) -> Server {
    let script = SCRIPT.replace("BEFORE", mode.1).replace("AFTER", mode.2);
    let server = Setup::empty().file("index.php", script).application(mode.3).server("drain_timeout = \"5s\"").start();
    wait_until("the mode", 30, || mode.0 == "classic" || server.log().contains("is booted"));
    server
}

/// If a worker has overwritten the slab's header, a new generation replaces the lane, in every mode.
#[test]
fn a_lane_whose_workers_cannot_map_their_slab_is_replaced() {
    for mode in MODES {
        let server = start(mode);
        server.get("/?header");
        // Those that have it mapped go on; those that come instead of them cannot.
        for pid in server.workers() {
            process::kill(pid, Signal::SIGKILL);
        }
        wait_until("a new generation serves", 60, || server.log().contains("reloaded: app generation 2"));
        assert!(server.log().contains("its workers cannot start"), "{}: {}", mode.0, server.log());
        for _ in 0..20 {
            assert_eq!(server.get("/").status, 200, "{}", mode.0);
        }
    }
}

/// If a worker has overwritten the queue, the lane is replaced, and the status shows none of the garbage.
#[test]
fn a_lane_whose_queue_is_overwritten_is_replaced_and_its_bytes_are_not_shown() {
    for mode in MODES {
        let server = start(mode);
        // Its answer may never come.
        let mut client = server.client();
        client.send(b"GET /?all HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        wait_until("it is seen", 30, || server.status(&["--json"]).contains("\"state\":\"damaged\""));
        for text in [server.status(&["--json"]), server.status(&["--all"])] {
            let is_garbage = |word: &str| word.len() > 15 && !word.contains('.');
            let numbers = text.split(|one: char| !one.is_ascii_digit() && one != '.');
            let garbage: Vec<&str> = numbers.filter(|word| is_garbage(word)).collect();
            assert!(garbage.is_empty() && text.is_ascii() && !text.contains("e+"), "{}: {garbage:?} in {text}", mode.0);
        }
        wait_until("a new generation serves", 60, || server.log().contains("reloaded: app generation 2"));
        for _ in 0..20 {
            assert_eq!(server.get("/").status, 200, "{}", mode.0);
        }
    }
}
