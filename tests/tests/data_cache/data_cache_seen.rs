//! What people see of the data cache: `reprise cache`, `reprise status`, the metrics and the log.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::server::free_port;
use tests::{Server, Setup, amount, process, wait_for, wait_until};

const SCRIPT: &str = r#"<?php
switch ($_GET['do'] ?? '') {
case 'store':
    class Point { public $x = 1; }
    reprise_cache_store('menu.en', ['home' => '/', 'list' => [1, 2.5, true, null, "a\n\x1b[2J\xff"], 'none' => []], 600, ['menu']);
    reprise_cache_store('menu.de', 'größe', 600, ['menu']);
    reprise_cache_store('count', 41);
    reprise_cache_store("odd \0\x1b[31m\xff\n", 'odd');
    reprise_cache_store('App\Menu', new Point);
    reprise_cache_store('row/1', str_repeat('x', 5000));
    break;
case 'fetch': echo json_encode(reprise_cache_fetch($_GET['key'], 'none')); break;
case 'slow': echo reprise_cache("slow\x1b key", function () {
        touch(getenv('RUNS') . '/began');
        for ($i = 0; $i < 8000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); }
        return 'made';
    }, 60); break;
case 'hold':
    $held = reprise_cache_fetch('row/1');
    touch(getenv('RUNS') . '/began');
    for ($i = 0; $i < 8000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); }
    echo strlen($held); break;
case 'fill': for ($i = 0; $i < 600; $i++) reprise_cache_store("fill.$i", str_repeat('y', 3000)); break;
case 'spoil':
    foreach (file('/proc/self/maps') as $line)
        if (preg_match('/^([0-9a-f]+)-([0-9a-f]+) rw-s .*reprise-data/', $line, $found)) {
            [$from, $to] = [hexdec($found[1]), hexdec($found[2])];
            $memory = fopen('/proc/self/mem', 'r+b');
            // The header says that it is a segment.
            for ($at = $from + 4096; $at < $to; $at += 4096) { fseek($memory, $at); fwrite($memory, random_bytes(4096)); }
            echo 'spoiled';
        }
    posix_kill(getmypid(), SIGKILL);
}
"#;

fn server(more: &str) -> Server {
    let setup = Setup::empty().file("index.php", SCRIPT);
    let runs = setup.writable("runs");
    setup.env("RUNS", &runs).application(&format!("workers = 3\n{more}")).start()
}

fn go(server: &Server) {
    std::fs::write(server.directory().join("runs/go"), "").expect("a file");
}

fn waits_for_start(server: &Server) {
    wait_until("it has begun", 20, || server.directory().join("runs/began").exists());
}

/// `reprise cache`, which has to succeed.
fn cache(server: &Server, arguments: &[&str]) -> String {
    let (text, code) = server.reprise(&[&["cache"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

fn json(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&cache(server, &[arguments, &["--json"]].concat())).expect("JSON")
}

fn is_safe(text: &str) -> bool {
    !text.chars().any(|one| one.is_control() && one != '\n')
}

#[test]
fn keys_and_values_are_shown_and_removed() {
    let server = server("");
    assert_eq!(server.get("/?do=store").status, 200);
    let list = cache(&server, &["keys"]);
    assert!(
        list.contains("6 of 6 keys") && list.contains("odd\\x20\\x00\\x1b[31m\\xff\\x0a\n") && is_safe(&list),
        "{list}"
    );
    let of_menu = cache(&server, &["keys", "--prefix", "menu.", "--limit", "1"]);
    assert!(of_menu.contains("1 of 2 keys") && of_menu.contains("10min"), "{of_menu}");
    let keys = json(&server, &["keys", "--prefix", "menu.en"]);
    assert_eq!(
        (&keys["all"], &keys["keys"][0]["key"], &keys["keys"][0]["tags"]),
        (&1.into(), &"menu.en".into(), &1.into())
    );
    let ttl = keys["keys"][0]["ttl_ms"].as_u64().expect("a time");
    assert!(ttl > 500_000 && ttl <= 600_000, "{keys}");

    let value = cache(&server, &["get", "menu.en"]);
    let code = "[\n    'home' => '/',\n    'list' => [\n        1,\n        2.5,\n        true,\n        null,\n        \"a\\n\\x1b[2J\\xff\",\n    ],\n    'none' => [],\n]\n";
    assert!(value.ends_with(code) && is_safe(&value), "{value}");
    assert_eq!(json(&server, &["get", "menu.de"])["value"], "'größe'\n".trim_end());
    assert_eq!(json(&server, &["get", "count"])["value"], "41");
    let object = cache(&server, &["get", "App\\Menu"]);
    assert!(object.contains("unserialize(") && object.contains("Point") && is_safe(&object), "{object}");
    let odd = cache(&server, &["get", "odd\\x20\\x00\\x1b[31m\\xff\\x0a"]);
    assert!(odd.ends_with("'odd'\n"), "{odd}");
    // The same key, but for the zero byte, which no argument can have.
    let output =
        server.output(&[OsStr::new("cache"), OsStr::new("get"), OsStr::from_bytes(b"odd \\x00\x1b[31m\xff\n")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Workers see at once what is done.
    cache(&server, &["delete", "count"]);
    assert_eq!(server.get("/?do=fetch&key=count").text(), "\"none\"");
    let (text, code) = server.reprise(&["cache", "delete", "count"]);
    assert!(code == 64 && text.contains("there is no value with this key"), "{text}");
    assert_ne!(server.get("/?do=fetch&key=menu.de").text(), "\"none\"");
    cache(&server, &["invalidate", "other", "menu"]);
    assert_eq!(server.get("/?do=fetch&key=menu.de").text(), "\"none\"");
    assert_ne!(server.get("/?do=fetch&key=row/1").text(), "\"none\"");
    cache(&server, &["flush"]);
    assert_eq!(server.get("/?do=fetch&key=row/1").text(), "\"none\"");
    assert!(cache(&server, &["keys"]).contains("0 of 0 keys"));
}

#[test]
fn numbers_are_in_the_status_and_in_the_metrics() {
    let admin = free_port();
    let setup = Setup::empty().file("index.php", SCRIPT).server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]"));
    let server = setup.start();
    server.get("/?do=store");
    server.get("/?do=fetch&key=menu.de");
    server.get("/?do=fetch&key=absent");
    let stats = json(&server, &["stats"]);
    for (name, number) in [("hits", 1), ("misses", 1), ("stores", 6), ("entries", 6), ("memory", 64 << 20), ("held", 0)]
    {
        assert_eq!(stats[name], number, "{name} in {stats}");
    }
    assert_eq!(stats["prefixes"][0]["prefix"], "row/");
    let of =
        |prefix: &str| stats["prefixes"].as_array()?.iter().find(|one| one["prefix"] == prefix)?["entries"].as_u64();
    assert_eq!((of("menu."), of("")), (Some(2), Some(3)), "{stats}");
    assert_eq!(stats["others"]["entries"], 0);
    let text = cache(&server, &["stats"]);
    assert!(text.contains("6 values") && text.contains("(keys without . : or /)"), "{text}");
    let status: Value = serde_json::from_str(&server.status(&["--json"])).expect("JSON");
    let of_status = status["data_caches"].as_object().and_then(|all| all.values().next()).expect("one application");
    assert_eq!((&of_status["stores"], &of_status["holder"]), (&6.into(), &Value::Null));
    assert!(server.status(&[]).contains("data cache\n  6 values"));
    let metrics = wait_for("a prototype has said it", 20, || {
        let metrics = tests::Client::new(admin).get("/metrics").text();
        metrics.contains("reprise_data_cache_stores_total{application=\"app\"} 6").then_some(metrics)
    });
    for line in [
        "# TYPE reprise_data_cache_hits counter",
        "reprise_data_cache_hits_total{application=\"app\"} 1\n",
        "reprise_data_cache_entries{application=\"app\"} 6\n",
        "reprise_data_cache_memory_bytes{application=\"app\"} 67108864\n",
        "reprise_data_cache_held_bytes{application=\"app\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(server.reload().0);
    assert_eq!(json(&server, &["stats"])["stores"], 6, "another generation, the same cache");
    assert!(
        tests::Client::new(admin)
            .get("/metrics")
            .text()
            .contains("reprise_data_cache_stores_total{application=\"app\"} 6")
    );
}

/// The log says for which value a slow request waits, and which process computes it; so does `reprise trace`.
#[test]
fn a_slow_request_that_waits_says_for_what() {
    let server = server("slow_timeout = \"300ms\"");
    thread::scope(|scope| {
        let computes = scope.spawn(|| server.get("/?do=slow").text());
        waits_for_start(&server);
        let waits = scope.spawn(|| server.get("/?do=slow&waits").text());
        let log = wait_for("both are slow", 20, || {
            let log = server.log();
            (log.matches("slow request of").count() == 2).then_some(log)
        });
        let of = |what: &str| {
            let from = log.find(what).unwrap_or_else(|| panic!("{what} is not in {log}"));
            log[from..].lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let (computing, waiting) = (of("GET /?do=slow,"), of("GET /?do=slow&waits"));
        let owner = computing[0].rsplit("in worker ").next().expect("a worker").trim().to_owned();
        assert!(!computing[1].contains("waits for"), "{computing:?}");
        let line = format!("waits for \"slow\\x1b\\x20key\" of the data cache, which process {owner} computes");
        assert!(waiting[1].contains(&line), "{waiting:?}");
        let waiter = waiting[0].rsplit("in worker ").next().expect("a worker").trim();
        let (_, trace) = server.trace(waiter);
        assert!(trace.starts_with(&line) && trace.contains("#0 reprise_cache()"), "{trace}");
        go(&server);
        assert_eq!((computes.join().expect("made").as_str(), waits.join().expect("made").as_str()), ("made", "made"));
    });
}

#[test]
fn the_status_names_the_request_that_holds_memory() {
    let server = server("data_cache_memory = \"1M\"");
    server.get("/?do=store");
    thread::scope(|scope| {
        let holds = scope.spawn(|| server.get("/?do=hold&who").text());
        waits_for_start(&server);
        server.get("/?do=fill");
        let stats = json(&server, &["stats"]);
        assert!(stats["held"].as_u64().is_some_and(|held| held > 0), "{stats}");
        assert_eq!(
            (&stats["holder"]["lane"], &stats["holder"]["request"]),
            (&"classic".into(), &"GET /?do=hold&who".into())
        );
        let text = server.status(&[]);
        let line = text.lines().find(|line| line.contains("of removed values are held")).expect("a line");
        let pid = stats["holder"]["pid"].as_i64().expect("a process");
        assert!(line.contains(&format!("longest by process {pid} for ")), "{line}");
        assert!(line.contains("(classic, slot ") && line.ends_with("): GET /?do=hold&who"), "{line}");
        assert!(stats["evicted"].as_u64() > Some(0) && stats["refused"].is_u64(), "{stats}");
        go(&server);
        assert_eq!(holds.join().expect("held"), "5000");
    });
}

#[test]
fn who_cannot_be_asked_is_named() {
    let setup = Setup::empty().file("index.php", SCRIPT).application("data_cache_memory = \"0\"");
    let without = setup.start();
    for (arguments, why) in [
        (&["cache", "keys"][..], "no application has a data cache: data_cache_memory is 0"),
        (
            &["cache", "flush", "--application", "app"],
            "application 'app' has no data cache: its data_cache_memory is 0",
        ),
        (&["cache", "stats", "--application", "other\u{1b}[2J"], "there is no application \"other"),
    ] {
        let (text, code) = without.reprise(arguments);
        assert!(code == 64 && text.contains(why) && is_safe(&text), "{arguments:?}: {text}");
    }
    assert!(!without.status(&[]).contains("data cache"));

    let server = server("");
    let long = "k".repeat(1025);
    for (arguments, why) in [
        (&["cache", "get", &long][..], "a key has 1 to 1,024 bytes"),
        (&["cache", "delete", ""], "a key has 1 to 1,024 bytes"),
        (&["cache", "invalidate", "a", ""], "a tag has 1 to 1,024 bytes"),
        (&["cache", "keys", "--prefix", &long], "a prefix has at most 1,024 bytes"),
        (&["cache", "get", "absent"], "there is no value with this key"),
        (&["cache", "get", &"k".repeat(66_000)], "the question is too long"),
    ] {
        let (text, code) = server.reprise(arguments);
        assert!(code != 0 && text.contains(why), "{:?}: {text}", arguments[1]);
    }
    // A prototype that is stopped does not answer, and the supervisor goes on.
    let prototype = server.prototype().expect("a prototype");
    process::kill(prototype, Signal::SIGSTOP);
    let began = Instant::now();
    let (text, code) = server.reprise(&["cache", "keys"]);
    assert!(code == 64 && text.contains("has not answered in 5s; is it stopped?"), "{text}");
    assert!(began.elapsed() < tests::seconds(9), "{:?}", began.elapsed());
    assert_eq!(server.get("/?do=fetch&key=x").status, 200);
    process::kill(prototype, Signal::SIGKILL);
    wait_until("another prototype answers", 30, || server.reprise(&["cache", "keys"]).1 == 0);
}

/// Any process of the application can write anything into its cache. Who asks then gets an answer or an error, and nobody else notices.
#[test]
fn a_spoiled_cache_hurts_nobody_who_looks() {
    let server = server("");
    server.get("/?do=store");
    let prototype = server.prototype().expect("a prototype");
    server.get("/?do=spoil");
    for arguments in
        [&["keys"][..], &["get", "menu.en"], &["get", "row/1"], &["stats"], &["delete", "count"], &["flush"]]
    {
        let began = Instant::now();
        let (text, _) = server.reprise(&[&["cache"], arguments].concat());
        assert!(is_safe(&text) && began.elapsed() < tests::seconds(9), "{arguments:?}: {:?} {text}", began.elapsed());
    }
    assert!(server.status(&[]).contains("prototype"));
    assert!(process::is_alive(prototype), "{}", server.log());
}

/// More questions than are answered at once, from clients that wait and from clients that do not.
#[test]
fn a_thousand_questions_are_answered_or_refused() {
    let server = server("");
    server.get("/?do=store");
    let socket = server.directory().join("state/admin.sock");
    let ask = || {
        let mut stream = UnixStream::connect(&socket).expect("the control socket");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        stream.write_all(b"data [\"app\", \"keys\\nmenu.\\n10\"]\n").expect("room");
        stream
    };
    let answered: usize = thread::scope(|scope| {
        let askers = (0..10).map(|_| {
            scope.spawn(|| {
                let one = |number: usize| {
                    if number % 4 == 0 {
                        drop(ask());
                        return 0;
                    }
                    let mut text = String::new();
                    ask().read_to_string(&mut text).expect("an answer");
                    assert!(
                        text.contains("all 2 ") || text.contains("too many") || text.contains("not answered"),
                        "{text}"
                    );
                    usize::from(text.contains("all 2 "))
                };
                (0..amount(30, 100)).map(one).sum::<usize>()
            })
        });
        askers.collect::<Vec<_>>().into_iter().map(|one| one.join().expect("answers")).sum()
    });
    assert!(answered > amount(90, 300), "{answered}");
    let prototype = server.prototype().expect("a prototype");
    wait_until("no answerer is left", 20, || process::children(prototype).len() == 3);
    assert_eq!(server.get("/?do=fetch&key=count").text(), "41");
}
