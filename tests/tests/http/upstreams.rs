//! A path that another server responds to.

mod events;
mod lies;
mod real;
mod websockets;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests::client::Client;
use tests::http2::{Http2, get};
use tests::marking::exchange;
use tests::server::{Setup, free_port, program};
use tests::upstream::Upstream;
use tests::wait_until;

/// A server whose path /up leads to an upstream. Everything else is PHP's.
pub fn before(upstream: &Upstream, more: &str) -> Setup {
    Setup::empty()
        .file("index.php", "<?php echo 'PHP';")
        .route(&format!("prefix = \"/up\"\n{}\n{more}", upstream.rule()))
}

/// Number of a line in the metrics.
pub fn metric(port: u16, name: &str) -> u64 {
    let text = Client::new(port).get("/metrics").text();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn an_upstream_gets_the_request_and_who_its_client_is() {
    let upstream = Upstream::echo();
    let server = before(&upstream, "")
        .route("prefix = \"/old\"\nrewrite = \"/up/$rest\"")
        .route("path = \"/new\"\nrewrite = \"/up/new%20way%3F\"")
        .route(&format!("prefix = \"/app\"\nupstream = \"http://127.0.0.1:{}/base/$rest\"", upstream.port))
        .start();
    assert_eq!(server.get("/").text(), "PHP");
    let mut client = Client::over(tests::client::connect(server.port).unwrap(), "shop.example:81");
    let sent = [
        ("X-Forwarded-For", "1.1.1.1"),
        ("X_Forwarded_For", "1.1.1.1"),
        ("X-Real-IP", "1.1.1.1"),
        ("Forwarded", "for=1.1.1.1"),
        ("Connection", "x-hop"),
        ("X-Hop", "1"),
        ("TE", "gzip"),
        ("Reprise-Mode", "own"),
        ("X-End", "2"),
    ];
    let got = client.request("GET", "/up/a%2Fb?x=%20y", &sent, b"");
    let text = got.text();
    assert!(text.starts_with("GET /up/a%2Fb?x=%20y HTTP/1.1\r\n"), "{text}");
    let has = |line: &str| text.to_ascii_lowercase().split("\r\n").any(|one| one == line);
    for line in [
        "host: shop.example:81",
        "x-forwarded-for: 127.0.0.1",
        "x-real-ip: 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: shop.example:81",
        "forwarded: for=127.0.0.1;host=\"shop.example:81\";proto=http",
        "x-end: 2",
    ] {
        assert!(has(line), "{line} in {text}");
    }
    assert!(!text.contains("1.1.1.1") && !has("x-hop: 1") && !has("te: gzip") && !has("reprise-mode: own"), "{text}");
    let line = |target: &str, client: &mut Client| client.get(target).text().lines().next().unwrap().to_owned();
    // What means another path is sent as the rules have judged it.
    assert_eq!(line("/x/../up//b/%2e/c", &mut client), "GET /up/b/c HTTP/1.1");
    assert_eq!(line("/old/new%20way?q=1", &mut client), "GET /up/new%20way?q=1 HTTP/1.1");
    assert_eq!(line("/new", &mut client), "GET /up/new%20way%3F HTTP/1.1");
    assert_eq!(line("/app/a%20b/?q=1", &mut client), "GET /base/a%20b/?q=1 HTTP/1.1");
    let posted = client.request("POST", "/up", &[], b"the body").text();
    assert!(posted.contains("content-length: 8\r\n") && posted.ends_with("\r\n\r\nthe body"), "{posted}");
    client
        .send(b"POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")
        .unwrap();
    let chunked = client.read(false).unwrap().text();
    // Trailers of requests end at the front.
    assert!(
        chunked.contains("transfer-encoding: chunked\r\n") && chunked.ends_with("3\r\nabc\r\n0\r\n\r\n"),
        "{chunked}"
    );
    let mut second = Http2::new(server.port);
    second.request(1, &get("/up/two"));
    let text = String::from_utf8_lossy(&second.answer(1).body).into_owned();
    assert!(text.starts_with("GET /up/two HTTP/1.1\r\n") && text.contains("\r\nhost: "), "{text}");
    assert_eq!(upstream.taken(), 1, "one connection served all");
}

#[test]
fn rules_hold_for_responses_of_upstreams() {
    let upstream = Upstream::echo();
    let users = Setup::empty();
    let file = users.directory().join("users");
    std::fs::write(&file, "a:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n").unwrap();
    let server = Setup::empty()
        .application("rate_limits = [{ path = \"/up/often\", rate = \"1/h\" }]")
        .application("max_body = \"1K\"")
        .route(&format!("prefix = \"/up/closed\"\nusers = \"{}\"", file.display()))
        .route("prefix = \"/up/denied\"\ndeny = true")
        .route("headers = { \"X-Added\" = \"1\", \"X-Gone\" = \"\" }\nexpires = \"1h\"")
        .route(&format!("prefix = \"/up\"\n{}", upstream.rule()))
        .start();
    let got = server.get("/up");
    assert_eq!(
        (got.status, got.header("x-added"), got.header("cache-control")),
        (200, Some("1"), Some("max-age=3600"))
    );
    assert_eq!(server.get("/up/closed").status, 401);
    let mut client = server.client();
    assert_eq!(client.request("GET", "/up/closed", &[("Authorization", "Basic YTp0ZXN0")], b"").status, 200);
    assert_eq!((server.get("/up/denied").status, server.get("/up/%64enied").status), (403, 403));
    assert_eq!((server.get("/up/often").status, server.get("/up/often").status), (200, 429));
    let large = server.client().request("POST", "/up", &[], &[b'x'; 2000]);
    assert_eq!((large.status, large.header("reprise-refused")), (413, Some("body-too-large")));
    let mut client = server.client();
    client.send(b"POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n").unwrap();
    client.send(&[b'x'; 2048]).unwrap();
    client.send(b"\r\n0\r\n\r\n").unwrap();
    assert_eq!(client.read(false).unwrap().status, 413);
}

#[test]
fn upstreams_that_hang_refuse_or_are_busy_are_told_apart() {
    let (metrics, nobody) = (free_port(), free_port());
    let hanging = Upstream::start(|mut talk| {
        while let Some(head) = talk.head() {
            if head.starts_with("GET /up/quick") {
                talk.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        }
    });
    let server = before(&hanging, "response_timeout = \"1s\"\nconnections = 1")
        .server(&format!("admin_listen = [\"127.0.0.1:{metrics}\"]\naccess_log_format = \"json\""))
        .route(&format!("prefix = \"/nobody\"\nupstream = \"http://127.0.0.1:{nobody}\""))
        .route("prefix = \"/socket\"\nupstream = \"unix:/nowhere/app.sock\"")
        .start();
    let refused = |path: &str| {
        let got = server.get(path);
        (got.status, got.header("reprise-refused").unwrap_or("").to_owned())
    };
    assert_eq!(refused("/nobody"), (502, "upstream-down".to_owned()));
    assert_eq!(refused("/socket"), (502, "upstream-down".to_owned()));
    let began = Instant::now();
    let mut first = server.client();
    first.send(b"GET /up/slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("it runs", 10, || metric(metrics, "reprise_upstream_running") == 1);
    let busy = server.get("/up/quick");
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    let got = first.read(false).unwrap();
    assert_eq!((got.status, got.header("reprise-refused")), (504, Some("upstream-timeout")));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(refused("/up/quick"), (200, String::new()));
    // Nobody waits any more: the upstream is told at once.
    let mut leaving = server.client();
    leaving.send(b"GET /up/slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("it runs", 10, || metric(metrics, "reprise_upstream_running") == 1);
    leaving.stream().shutdown(std::net::Shutdown::Both).unwrap();
    wait_until("it is given up", 10, || metric(metrics, "reprise_upstream_running") == 0);
    assert_eq!(metric(metrics, "reprise_upstream_requests_total"), 5);
    wait_until("the log", 10, || {
        server.log().contains(&format!(
            "upstream http://127.0.0.1:{nobody}: cannot be connected to: 127.0.0.1:{nobody}: Connection refused"
        )) && server.log().contains("no response within response_timeout")
    });
    let named = format!("\"upstream\":\"http://127.0.0.1:{}\"", hanging.port);
    wait_until("the access log", 10, || server.access_log().contains(&named));
}

#[test]
fn a_request_is_repeated_only_where_that_is_safe() {
    // Each connection serves one request; the second gets no response.
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let upstream = Upstream::start(move |mut talk| {
        for number in 0.. {
            let Some(head) = talk.head() else { return };
            talk.body(&head);
            count.fetch_add(1, Ordering::SeqCst);
            if number > 0 {
                return;
            }
            talk.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let server = before(&upstream, "").start();
    let mut client = server.client();
    assert_eq!(client.get("/up").status, 200);
    wait_until("the connection is kept", 10, || upstream.taken() == 1);
    // On the kept connection it is closed without a response; a new one serves it.
    assert_eq!(client.get("/up").status, 200);
    assert_eq!((upstream.taken(), seen.load(Ordering::SeqCst)), (2, 3));
    // A POST is made once.
    let got = client.request("POST", "/up", &[], b"x");
    assert_eq!((got.status, got.header("reprise-refused")), (502, Some("upstream-bad-response")));
    assert_eq!((upstream.taken(), seen.load(Ordering::SeqCst)), (2, 4));
}

#[test]
fn bytes_that_nobody_asked_for_answer_nobody() {
    let upstream = Upstream::start(|mut talk| {
        while let Some(head) = talk.head() {
            let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
            let extra = if head.starts_with("GET /up/more") { evil } else { "" };
            let number = talk.number;
            if talk.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}{extra}")).is_err() {
                return;
            }
        }
    });
    let server = before(&upstream, "").start();
    let mut client = server.client();
    assert_eq!(client.get("/up/more").text(), "1");
    for _ in 0..3 {
        assert_eq!(client.get("/up").text(), "2", "the first connection is not used again");
    }
}

#[test]
fn a_reload_brings_other_upstreams_without_a_restart() {
    let (one, two) = (Upstream::answering(|_, _| answer("one")), Upstream::answering(|_, _| answer("two")));
    let server = before(&one, "").start();
    assert_eq!(server.get("/up").text(), "one");
    server.reconfigure(&one.rule(), &two.rule());
    let (is_fine, text) = server.reload();
    assert!(is_fine, "{text}");
    assert_eq!(server.get("/up").text(), "two");
}

fn answer(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

#[test]
fn mistakes_in_upstreams_are_named() {
    let run = |rule: &str, arguments: &[&str]| {
        let setup = Setup::empty();
        let config = setup.directory().join("reprise.toml");
        let root = setup.document_root().display();
        let text = format!(
            "listen = [\"127.0.0.1:8123\"]\n[[application]]\nroot = \"{root}\"\n[[application.route]]\nprefix = \"/up\"\n{rule}\n"
        );
        std::fs::File::create(&config).unwrap().write_all(text.as_bytes()).unwrap();
        let out = std::process::Command::new(program()).args(arguments).arg("--config").arg(&config).output().unwrap();
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    };
    for (rule, part) in [
        ("upstream = \"https://127.0.0.1:1\"", "https is not spoken to upstreams"),
        ("upstream = \"127.0.0.1:1\"", "neither http://HOST:PORT nor unix:/PATH"),
        ("upstream = \"http://127.0.0.1\"", "is no HOST:PORT"),
        ("upstream = \"http://0.0.0.0:1\"", "no address of a server"),
        ("upstream = \"http://127.0.0.1:1/\"", "/$rest"),
        ("upstream = \"http://127.0.0.1:1/$nothing\"", "no variable $nothing"),
        ("upstream = \"unix:relative\"", "absolute path"),
        ("upstream = \"http://127.0.0.1:8123\"", "come back for ever"),
        ("upstream = \"http://127.0.0.1:1\"\ndeny = true", "deny and upstream"),
        ("upstream = \"http://127.0.0.1:1\"\nidle_timeout = \"0\"", "time"),
        ("deny = true\nconnections = 3", "'connections' belongs to a rule with upstream"),
    ] {
        let said = run(rule, &["check"]);
        assert!(said.contains(part) && said.contains("reprise.toml:"), "{rule}: {said}");
    }
    let fine = "upstream = \"http://localhost:7001/x/$rest\"";
    let said = run(fine, &["check"]);
    assert!(said.contains("upstream      http://localhost:7001 (") && said.contains("127.0.0.1:7001"), "{said}");
    let said = run(fine, &["route", "http://a.example/up/a?b"]);
    assert!(said.contains("the upstream http://localhost:7001, which is asked for /x/a?b"), "{said}");
}

/// Whatever version an upstream speaks, the client gets the front's own, and its connection goes on.
#[test]
fn an_upstream_s_version_is_its_own() {
    let upstream = Upstream::start(|mut talk| {
        let Some(head) = talk.head() else { return };
        let answer: &[u8] = match head.split(['/', ' ']).find_map(|part| part.parse().ok()) {
            Some(0) => b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            Some(1) => b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            // Its length is where the connection ends.
            Some(2) => b"HTTP/1.0 404 Not Found\r\n\r\nok",
            Some(3) => b"HTTP/1.0 204 No Content\r\n\r\n",
            _ => b"HTTP/1.0 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 2\r\n\r\nok",
        };
        let _ = talk.say(answer);
    });
    let server = before(&upstream, "").start();
    // The last one twice: it is stored.
    let asked = [0, 1, 2, 3, 4, 4].map(|number| format!("GET /up/{number} HTTP/1.1\r\nHost: a\r\n\r\n")).concat();
    let all = format!("{asked}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (answers, _) = exchange(server.port, all.as_bytes(), None, 10);
    let text = String::from_utf8_lossy(&answers);
    assert_eq!((text.matches("HTTP/1.1 ").count(), text.matches("HTTP/1.0").count()), (7, 0), "{text}");
    assert!(text.ends_with("PHP"), "{text}");
}
