//! Answers leave as they are made, and a client that leaves is noticed: in classic and worker mode, from a snapshot that is
//! rewound and from one that is forked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tests::bridged::{LARAVEL_WARM, RUNTIME, SLIM_WARM, SYMFONY_WARM, bridged, build_bridged};
use tests::modes::modes;
use tests::server::Directory;
use tests::{Client, Server, Setup, wait_until};

/// `await` waits for the test to go on; `note` is what the test learns of a script whose client has left.
const SCRIPT: &str = r#"<?php
function await(string $name): void { for ($i = 0; $i < 10000 && !file_exists(getenv('PLACE') . "/$name"); $i++) { usleep(2000); clearstatcache(); } }
function note(string $name, $what): void { file_put_contents(getenv('PLACE') . "/$name", $what, FILE_APPEND); }
function made(string $n): Generator { yield "first $n\n"; await("go-$n"); yield "second $n\n"; await("again-$n"); yield "third $n\n"; }
$handle = function () {
    ['do' => $do, 'n' => $n] = $_GET;
    switch ($do) {
        case 'events':
            header('Content-Type: text/event-stream');
            while (ob_get_level()) ob_end_flush();
            echo "first $n\n"; flush(); await("go-$n"); echo "second $n\n"; flush(); await("again-$n"); echo "third $n\n";
            break;
        case 'generator':
            header('Content-Type: text/event-stream');
            foreach (made($n) as $part) { echo $part; ob_flush(); flush(); }
            break;
        case 'leave':
            register_shutdown_function(fn () => note("ended-$n", connection_aborted()));
            echo "first $n\n"; ob_flush(); flush(); await("go-$n");
            for ($i = 0; $i < 40000; $i++) { echo "SECRET OF $n\n"; ob_flush(); flush(); usleep(500); }
            note("ended-$n", 'never noticed');
            break;
        case 'block':
            register_shutdown_function(fn () => note("ended-$n", connection_aborted()));
            echo "first $n\n"; ob_flush(); flush(); await("go-$n");
            // More than fits anywhere, in one write.
            while (ob_get_level()) ob_end_flush();
            echo str_repeat("SECRET OF $n\n", 1000000);
            note("ended-$n", 'never noticed');
            break;
        case 'exhaust':
            // In the output buffer; then PHP, or its report of that, finds that nobody is there.
            register_shutdown_function(fn () => note("ended-$n", connection_aborted()));
            echo "first $n\n"; ob_flush(); flush(); await("go-$n");
            echo str_repeat("SECRET OF $n\n", 4000000);
            break;
        case 'stay':
            ignore_user_abort(true);
            register_shutdown_function(fn () => note("ended-$n", ' ended'));
            echo "first $n\n"; ob_flush(); flush(); await("go-$n");
            for ($i = 0; $i < 40000 && !connection_aborted(); $i++) { echo "SECRET OF $n\n"; ob_flush(); flush(); usleep(500); }
            echo "SECRET OF $n\n"; flush();
            note("ended-$n", connection_aborted() . connection_status());
            break;
        default: echo "fine $n ", connection_aborted(), ignore_user_abort(), ' ', reprise_info()['mode'];
    }
};
"#;

/// A directory that PHP may write to.
fn place() -> Directory {
    let place = Directory::new();
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).expect("permissions");
    place
}

/// Asks in each mode, of one worker.
fn in_each_mode(test: impl Fn(&Server, &Directory, &str)) {
    for (mode, end, lines) in modes() {
        let place = place();
        let setup = Setup::empty().file("index.php", format!("{SCRIPT}\n{end}\n")).application("workers = 1");
        let setup = lines.iter().fold(setup, |setup, line| setup.application(line));
        let server = setup.env("PLACE", place.0.to_str().unwrap()).ini("output_buffering", "4096").start();
        println!("{lines:?}");
        test(&server, &place, mode);
    }
}

/// A client that has sent a request, and read the head and the body up to `part`.
fn begin(server: &Server, path: &str, part: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: blog.test:8080\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(client.read_head().unwrap().status, 200, "{path}");
    read_up_to(&mut client, part);
    client
}

fn read_up_to(client: &mut Client, part: &str) {
    let mut text = String::new();
    while !text.contains(part) {
        let chunk = client.read_chunk().unwrap().unwrap_or_else(|| panic!("{part} is missing: {text:?}"));
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert_eq!(text, part);
}

/// Each event of a stream leaves when it is made, in every mode.
#[test]
fn events_leave_as_they_are_made() {
    in_each_mode(|server, place, mode| {
        for round in 0..3 {
            for what in ["events", "generator"] {
                let n = format!("{what}{round}");
                // The second does not exist before the first was read.
                let mut client = begin(server, &format!("/?do={what}&n={n}"), &format!("first {n}\n"));
                fs::write(place.0.join(format!("go-{n}")), "").unwrap();
                read_up_to(&mut client, &format!("second {n}\n"));
                fs::write(place.0.join(format!("again-{n}")), "").unwrap();
                read_up_to(&mut client, &format!("third {n}\n"));
                assert_eq!(client.read_chunk().unwrap(), None);
                // On the same connection.
                assert_eq!(client.get(&format!("/?do=&n={n}")).text(), format!("fine {n} 00 {mode}"));
            }
        }
    });
}

/// PHP notices that a client has left, and goes on only if it ignores that, in every mode.
#[test]
fn a_client_that_leaves_is_noticed() {
    in_each_mode(|server, place, mode| {
        for round in 0..3 {
            for (what, told) in [("leave", "1"), ("block", "1"), ("exhaust", "1"), ("stay", "11 ended")] {
                let n = format!("{what}{round}");
                drop(begin(server, &format!("/?do={what}&n={n}"), &format!("first {n}\n")));
                fs::write(place.0.join(format!("go-{n}")), "").unwrap();
                // There is one worker: this runs when the other has ended.
                assert_eq!(server.get(&format!("/?do=&n={n}")).text(), format!("fine {n} 00 {mode}"), "{what}");
                let ended = || fs::read_to_string(place.0.join(format!("ended-{n}"))).unwrap_or_default();
                wait_until(&format!("{n} is noted"), 10, || ended().len() >= told.len());
                // Whether the report came before anybody knew is not to be told.
                assert!(ended() == told || what == "exhaust" && ended() == "0", "{what}, {mode}: {}", ended());
            }
        }
        assert!(!server.log().contains("SECRET"));
    });
}

/// `/events` of the application yields events from a generator.
fn through_a_bridge(name: &str, warm_up: &str) {
    let (_directory, application) = build_bridged(name);
    for mode in ["worker", "snapshot"] {
        let setup = bridged(&application.join("public"), mode, warm_up).env("APP_RUNTIME", RUNTIME);
        let server = setup.application("workers = 1").ini("output_buffering", "4096").start();
        let place = place();
        for round in 0..3 {
            let file = place.0.join(format!("{round}"));
            let path = |last: u32| format!("/events?file={}&last={last}", file.display());
            let first = "data: first\n\n";
            let mut client = begin(&server, &path(1), first);
            fs::write(&file, "").unwrap();
            read_up_to(&mut client, "data: next 1\n\n");
            assert_eq!(client.read_chunk().unwrap(), None);
            let ended = place.0.join(format!("{round}.ended"));
            wait_until("it has ended", 10, || fs::read_to_string(&ended).is_ok_and(|text| text == "0"));

            fs::remove_file(&file).unwrap();
            fs::remove_file(&ended).unwrap();
            drop(begin(&server, &path(40_000), first));
            fs::write(&file, "").unwrap();
            let next = server.get("/hello");
            assert_eq!((next.status, next.text().as_str()), (200, "Hello World!"), "{name}, {mode}");
            wait_until("it was noticed", 10, || fs::read_to_string(&ended).is_ok_and(|text| text == "1"));
        }
        assert!(!server.log().contains("audit"), "{}", server.log());
    }
}

/// A generator in a PSR-7 body streams through the bridge.
#[test]
fn a_generator_streams_through_the_psr_bridge() {
    through_a_bridge("slim", SLIM_WARM);
}

/// A streamed response of Symfony streams through the runtime.
#[test]
fn a_generator_streams_through_symfony_s_runtime() {
    through_a_bridge("symfony", SYMFONY_WARM);
}

/// A streamed response of Laravel streams through the bridge.
#[test]
fn a_generator_streams_through_laravel_s_bridge() {
    through_a_bridge("laravel", LARAVEL_WARM);
}
