//! What machines ask a running server: health, metrics, and how long an answer took.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;

use tests::server::{free_port, project};
use tests::{Client, Setup, wait_for, wait_until};

/// The samples of an OpenMetrics text; panics if it is none.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(families.insert(name, kind).is_none(), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let family = name.split('{').next().unwrap();
            let known = families.iter().any(|(known, kind)| match *kind {
                "counter" => family == format!("{known}_total"),
                "histogram" => ["_bucket", "_count", "_sum"].iter().any(|end| family == format!("{known}{end}")),
                _ => family == *known,
            });
            assert!(known, "{line} belongs to no family");
            assert!(all.insert(name.to_owned(), value.parse().expect("a number")).is_none(), "{name} twice");
        }
    }
    all
}

/// The metrics listener has health, readiness and all documented metrics, and serves no application.
#[test]
fn health_and_metrics_have_a_listener_of_their_own() {
    let port = free_port();
    let index = "<?php reprise_snapshot(); if (isset($_GET['slow'])) usleep(200_000); echo 'done';";
    let server = Setup::empty()
        .file("index.php", index)
        .file("other.php", "<?php echo 'other';")
        .server(&format!("admin_listen = [\"127.0.0.1:{port}\"]"))
        .application("max_body = \"1K\"")
        .start();
    let ask = |path: &str| {
        let answer = Client::new(port).get(path);
        (answer.status, answer.text())
    };
    assert_eq!(ask("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(ask("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(server.reprise(&["status", "--ready"]), ("ready\n".to_owned(), 0));
    // Neither the application there, nor this here.
    assert_eq!((ask("/").0, ask("/index.php").0, server.get("/metrics").text()), (404, 404, "done".to_owned()));
    assert_eq!(Client::new(port).request("POST", "/healthz", &[], b"").status, 405);
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "done");
    }
    assert_eq!((server.get("/?slow").status, server.get("/other.php").status), (200, 200));
    assert_eq!(server.client().request("POST", "/", &[], &[b'x'; 2000]).status, 413);
    let lane = "application=\"app\",lane=\"/index.php\"";
    // An answer is counted when all of it is sent, which its client may see first; so are workers that are made ready again.
    let text = wait_for("all are counted", 10, || {
        let (status, text) = ask("/metrics");
        assert_eq!(status, 200);
        let is_counted = text.contains("reprise_request_seconds_count{application=\"app\"} 23\n");
        (is_counted && text.contains(&format!("reprise_workers{{{lane},state=\"idle\"}} 2\n"))).then_some(text)
    });
    let all = samples(&text);
    let value = |name: &str| *all.get(name).unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    assert_eq!(value(&format!("reprise_requests_total{{{lane}}}")), 22.0);
    assert_eq!(value("reprise_requests_total{application=\"app\",lane=\"classic\"}"), 1.0);
    assert_eq!(value(&format!("reprise_workers{{{lane},state=\"idle\"}}")), 2.0);
    assert_eq!(value("reprise_refusals_total{reason=\"body-too-large\"}"), 1.0);
    assert_eq!(value("reprise_request_seconds_count{application=\"app\"}"), 23.0);
    let buckets = ["0.1", "0.3", "+Inf"]
        .map(|le| value(&format!("reprise_request_seconds_bucket{{application=\"app\",le=\"{le}\"}}")));
    assert!(buckets[0] <= 22.0 && buckets[0] < buckets[1] && buckets[2] == 23.0, "{buckets:?}");
    assert!(all.keys().all(|name| !name.contains("/metrics") && !name.contains("slow")), "labels are bounded");
    the_documentation_has(&text, &server.status(&[]));
}

/// docs/operations/monitoring.md has every metric, and the columns of `reprise status`.
fn the_documentation_has(metrics: &str, status: &str) {
    let page = std::fs::read_to_string(project().join("docs/operations/monitoring.md")).expect("the page");
    let is_row = |line: &&str| line.starts_with("| `reprise_");
    let rows: String = page.lines().filter(is_row).collect::<String>().replace('…', "reprise_data_cache");
    for family in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').expect("a kind");
        let end = if kind == "counter" { "_total" } else { "" };
        assert!(rows.contains(&format!("`{name}{end}`")), "monitoring.md does not have {name}{end}");
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = page.lines().map(words).collect();
    let is_head =
        |line: &String| line.contains(' ') && line.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ');
    let heads: Vec<String> = status.lines().map(words).filter(is_head).collect();
    assert_eq!(heads.len(), 3, "{status}");
    heads.iter().for_each(|head| assert!(lines.contains(head), "monitoring.md does not have {head}"));
}

/// PHP starts once and, when its preloaded file is broken, not again: so the state lasts until that is mended.
#[test]
fn a_server_without_workers_is_not_ready() {
    let port = free_port();
    let setup = Setup::empty()
        .file("preload.php", "<?php")
        .file("index.php", "<?php echo 'done';")
        .server(&format!("admin_listen = [\"127.0.0.1:{port}\"]"));
    let preload = setup.document_root().join("preload.php");
    let server = setup.ini("opcache.preload", preload.to_str().expect("a plain path")).start();
    wait_until("it is ready", 60, || Client::new(port).get("/readyz").status == 200);
    std::fs::write(&preload, "<?php syntax error").expect("a file");
    tests::process::kill(server.prototype().expect("a prototype"), nix::sys::signal::Signal::SIGKILL);
    let readiness = || {
        let response = Client::new(port).get("/readyz");
        (response.status, response.text())
    };
    wait_until("it says so", 10, || readiness() == (503, "no workers: app\n".to_owned()));
    let (said, code) = server.reprise(&["status", "--ready"]);
    assert!(code == 1 && said.contains("not ready: no workers: app"), "{code} {said}");
    // It is alive all the same.
    assert_eq!(Client::new(port).get("/healthz").status, 200);
    std::fs::write(&preload, "<?php").expect("a file");
    wait_until("it is ready again", 60, || readiness().0 == 200);
    assert_eq!(server.get("/").text(), "done");
}

/// `Server-Timing` has the time of waiting and of PHP.
#[test]
fn an_answer_says_how_long_it_took() {
    let script = "<?php usleep(30_000); echo 'done';";
    let server = Setup::empty().file("index.php", script).application("workers = 1\nserver_timing = true").start();
    let parse = |header: &str| -> [f64; 2] {
        let parts: Vec<&str> = header.split(", ").collect();
        ["queue;dur=", "php;dur="].map(|name| {
            let part = parts.iter().find_map(|part| part.strip_prefix(name)).unwrap_or_else(|| panic!("{header}"));
            part.parse().unwrap_or_else(|_| panic!("{header}"))
        })
    };
    // Visitors with a cookie wait for nobody's response.
    let ask = || server.client().request("GET", "/", &[("Cookie", "a=b")], b"");
    let times: Vec<[f64; 2]> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| parse(one.join().unwrap().header("server-timing").expect("the header"))).collect()
    });
    let most = |number: usize| times.iter().map(|time| time[number]).fold(0.0, f64::max);
    let least = |number: usize| times.iter().map(|time| time[number]).fold(f64::MAX, f64::min);
    // One worker: the last of four waited for three.
    assert!(least(1) >= 29.0 && most(0) >= 80.0 && least(0) < 29.0, "{times:?}");
    let server = Setup::empty().file("index.php", script).start();
    assert_eq!(server.get("/").header("server-timing"), None);
}

/// 64 have a place at once.
#[test]
fn who_only_holds_the_admin_socket_gives_its_place_to_others() {
    let server = Setup::empty().file("index.php", "<?php echo 'done';").start();
    let held: Vec<UnixStream> = (0..64)
        .map(|number| {
            let mut stream = UnixStream::connect(server.directory().join("state/admin.sock")).unwrap();
            // Half of them have begun to ask.
            stream.write_all(if number % 2 == 0 { b"sta" } else { b"" }).unwrap();
            stream
        })
        .collect();
    assert!(server.status(&["--json"]).contains("\"generation\":1"));
    drop(held);
}
