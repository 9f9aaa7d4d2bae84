//! What the cache has done is counted for each rule of an application: in the metrics, and by `reprise status`.

use serde_json::{Value, json};
use tests::client::get;
use tests::server::free_port;
use tests::{Server, Setup, wait_until};

use super::{SHARED, ask, encoded, is_hit, known, site};

/// An application with rules that lead to a page, and the metrics at that port.
fn with_rules() -> (Setup, u16) {
    let port = free_port();
    let setup = site(2)
        .server(&format!("admin_listen = [\"127.0.0.1:{port}\"]"))
        .application("front_controller = \"index.php\"")
        .route("prefix = \"/headed\"\nheaders = { X-Rule = \"1\" }")
        .route("path = \"/say \\\"a\\\\b\\\"\"\nscript = \"/index.php\"")
        .route("prefix = \"/denied\"\ndeny = true")
        .route("prefix = \"/shop\"\nscript = \"/index.php\"")
        .route("pattern = \"^/old/(.*)$\"\nrewrite = \"/new/$1\"");
    (setup, port)
}

/// A page of half a kilobyte that is kept for a minute.
fn kept(path: &str) -> String {
    format!("{path}?{SHARED}")
}

/// The lines of one rule, without those at zero.
fn lines(port: u16, rule: &str) -> Vec<String> {
    let text = get(port, "/metrics").text();
    let begin = format!("reprise_cache_rule_requests_total{{application=\"app\",rule=\"{rule}\",result=");
    let mut lines: Vec<String> = text.lines().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect();
    lines.retain(|line| !line.ends_with(" 0"));
    lines
}

/// What `reprise status --json` says of a rule, in the order of its words, and its ratio.
fn status_of(server: &Server, rule: &str) -> Option<(Vec<u64>, f64)> {
    let status: Value = serde_json::from_str(&server.status(&["--json"])).unwrap();
    let found = status["caches"]["app"].as_array()?.iter().find(|one| one["rule"] == rule)?.clone();
    let words = ["hit", "stale", "collapsed", "stored", "miss", "bypass"];
    Some((words.map(|word| found[word].as_u64().unwrap()).to_vec(), found["ratio"].as_f64().unwrap()))
}

/// A request counts for the rule whose action has decided, a rewrite too; for `-` if none has. What rules refuse does not ask the cache.
#[test]
fn each_rule_has_counters_of_its_own() {
    let (setup, port) = with_rules();
    let server = setup.start();
    let shop = kept("/shop/1");
    assert!(!is_hit(&ask(&server, &shop, &[])));
    for _ in 0..3 {
        assert!(is_hit(&ask(&server, &shop, &[])));
    }
    assert!(!is_hit(&ask(&server, &shop, &[("Cookie", "a=b")])));
    ask(&server, "/shop/2", &[]);
    assert_eq!(ask(&server, "/denied", &[]).status, 403);
    let headed = ask(&server, &kept("/headed"), &[]);
    assert_eq!(headed.header("x-rule"), Some("1"));
    ask(&server, &kept("/headed"), &[]);
    ask(&server, &kept("/old/1"), &[]);
    ask(&server, &kept("/say%20%22a%5Cb%22"), &[]);

    let shop = ["\"hit\"} 3", "\"stored\"} 1", "\"miss\"} 1", "\"bypass\"} 1"];
    assert_eq!(lines(port, "4: prefix /shop"), shop);
    assert_eq!(lines(port, "-"), ["\"hit\"} 1", "\"stored\"} 1"]);
    assert_eq!(lines(port, "5: pattern ^/old/(.*)$"), ["\"stored\"} 1"]);
    // The label's value is escaped.
    assert_eq!(lines(port, r#"2: path /say \"a\\b\""#), ["\"stored\"} 1"]);
    let text = get(port, "/metrics").text();
    assert!(!text.contains("3: prefix /denied") && !text.contains("1: prefix /headed"), "{text}");
    assert!(text.contains("reprise_cache_requests_total{application=\"app\",result=\"hit\"} 4\n"), "{text}");

    assert_eq!(status_of(&server, "4: prefix /shop"), Some((vec![3, 0, 0, 1, 1, 1], 0.5)));
    assert_eq!(status_of(&server, "-"), Some((vec![1, 0, 0, 1, 0, 0], 0.5)));
    assert_eq!(status_of(&server, "3: prefix /denied"), None);
    let table = server.status(&[]);
    let row = table.lines().find(|line| line.ends_with("4: prefix /shop")).unwrap_or_else(|| panic!("{table}"));
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..8], ["6", "50.0%", "3", "0", "0", "1", "1", "1"], "{table}");
    assert!(table.contains("\napp, cache of responses\n"), "{table}");
}

/// A stale page counts as `stale`, and one that another request has asked for as `collapsed`: nothing was made for either.
#[test]
fn stale_and_collapsed_count_as_answered() {
    let server = with_rules().0.start();
    let target = format!("/shop/slow?ms=400&h[]={}", encoded("Cache-Control: s-maxage=1, stale-while-revalidate=60"));
    known(&server, &target);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| ask(&server, &target, &[]))));
    });
    let made = status_of(&server, "4: prefix /shop").unwrap();
    assert_eq!((made.0[2] + made.0[0], made.0[3], made.1), (3, 2, 0.6), "{made:?}");
    wait_until("a stale page", 10, || {
        ask(&server, &target, &[]);
        status_of(&server, "4: prefix /shop").unwrap().0[1] > 0
    });
}

/// A reload leaves the counters of rules that stay as they are; a rule that is new begins at zero.
#[test]
fn reloads_leave_counters_as_they_are() {
    let server = with_rules().0.start();
    for _ in 0..2 {
        ask(&server, &kept("/shop/1"), &[]);
    }
    server.reconfigure("prefix = \"/denied\"\ndeny = true", "prefix = \"/blog\"\nscript = \"/index.php\"");
    assert!(server.reload().0);
    ask(&server, &kept("/shop/other"), &[]);
    ask(&server, &kept("/blog"), &[]);
    assert_eq!(status_of(&server, "4: prefix /shop"), Some((vec![1, 0, 0, 2, 0, 0], 1.0 / 3.0)));
    assert_eq!(status_of(&server, "3: prefix /blog"), Some((vec![0, 0, 0, 1, 0, 0], 0.0)));
}

/// Without rules there is one row; without a cache none.
#[test]
fn applications_without_rules_or_without_a_cache() {
    let server = site(1).start();
    ask(&server, &kept("/a"), &[]);
    assert_eq!(status_of(&server, "-"), Some((vec![0, 0, 0, 1, 0, 0], 0.0)));
    let server = Setup::empty().file("index.php", "<?php echo 1;").application("cache_memory = 0").start();
    server.get("/");
    let status: Value = serde_json::from_str(&server.status(&["--json"])).unwrap();
    assert_eq!(status["caches"], json!({}));
    assert!(!server.status(&[]).contains("cache of responses"));
}
