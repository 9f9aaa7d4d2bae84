//! The addition `limits` of a rule: other limits for what the rule fits.

use std::fs;
use std::process::Command;
use std::time::Instant;

use tests::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, fields, frame};
use tests::server::{Directory, program};
use tests::status::sum;
use tests::upstream::Upstream;
use tests::{Client, Response, Server, Setup, wait_until};

const BODY: &str = "<?php echo 'read ', strlen(file_get_contents('php://input'));";

/// Sends a body of so many bytes with its length, in chunks, and over HTTP/2 with and without its length; whether each was taken.
fn taken(server: &Server, path: &str, bytes: usize) -> [bool; 4] {
    let body = vec![b'x'; bytes];
    let is_taken = |text: &str| {
        let (is_fine, is_refused) = (text.contains(&format!("{bytes}")), text.contains("body-too-large"));
        assert!(is_fine != is_refused, "{path} {bytes}: {text}");
        is_fine
    };
    let with_length = server.client().request("POST", path, &[], &body);
    let mut client = server.client();
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    // A server that refuses may close before all is sent.
    let _ = client.send(&[format!("{bytes:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat());
    let chunked = client.read(false).expect("a response");
    let over_http2 = |length: Option<String>| {
        let mut client = Http2::new(server.port);
        let mut head = vec![(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", path)];
        head.extend(length.as_deref().map(|length| ("content-length", length)));
        client.send(&frame(HEADERS, END_HEADERS, 1, &fields(&head))).unwrap();
        let mut parts = body.chunks(16_000).peekable();
        while let Some(part) = parts.next() {
            client.send(&frame(DATA, if parts.peek().is_none() { END_STREAM } else { 0 }, 1, part)).unwrap();
        }
        String::from_utf8_lossy(&client.answer(1).body).into_owned()
    };
    let named = over_http2(Some(bytes.to_string()));
    let unnamed = over_http2(None);
    [is_taken(&with_length.text()), is_taken(&chunked.text()), is_taken(&named), is_taken(&unnamed)]
}

/// The largest body, with a length or without, for PHP and for upstreams; where a rule fits, and where a rewrite leads.
#[test]
fn bodies_have_the_limit_of_the_rule() {
    let upstream = Upstream::answering(|_, body| {
        // Without a length the body comes in chunks.
        let text = format!("read {}", body.iter().filter(|byte| **byte == b'x').count());
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    });
    let server = Setup::empty()
        .file("index.php", BODY)
        .application("max_body = \"20K\"")
        .route("prefix = \"/small\"\nlimits = { max_body = \"1K\" }")
        .route("prefix = [\"/large\", \"/up/large\"]\nlimits = { max_body = \"40K\" }")
        .route("pattern = '^/up/.*small'\nlimits = { max_body = \"2K\" }")
        .route("method = \"POST\"\nheader = { \"x-any\" = \"*\" }\nlimits = { max_body = 0 }")
        .route("prefix = \"/way\"\nrewrite = \"/small/$rest\"")
        .route(&format!("prefix = \"/up\"\n{}\nlimits = {{ max_body = \"30K\" }}", upstream.rule()))
        .start();
    for (path, most) in [
        ("/", 20 << 10),
        ("/small/a", 1 << 10),
        ("/way/a", 1 << 10),
        ("/large", 40 << 10),
        ("/up", 30 << 10),
        // The rule that stands last is in force.
        ("/up/large", 30 << 10),
    ] {
        assert_eq!(taken(&server, path, most), [true; 4], "{path}");
        assert_eq!(taken(&server, path, most + 1), [false; 4], "{path}");
    }
    let any = server.client().request("POST", "/small", &[("X-Any", "1")], &vec![b'x'; 900_000]);
    assert_eq!((any.status, any.text().as_str()), (200, "read 900000"));
}

fn refused(answer: &Response, status: u16, word: &str) {
    assert_eq!((answer.status, answer.header("reprise-refused")), (status, Some(word)));
}

/// Times and places of PHP's requests; of several rules the last value counts, and what a rule leaves out is as before.
#[test]
fn requests_of_php_have_the_limits_of_the_rules() {
    let setup = Setup::empty();
    let said = setup.writable("said");
    let [begun, released] = ["begun", "released"].map(|name| format!("{said}/{name}"));
    fs::write(&released, "").unwrap();
    let script = format!(
        "<?php if (isset($_GET['wait'])) {{
            file_put_contents('{begun}', 'x');
            while (!filesize('{released}')) {{ usleep(10000); clearstatcache(); }}
        }}
        if (isset($_GET['spin'])) {{ while (true) {{ usleep(1000); }} }}
        echo 'page';"
    );
    let server = setup
        .file("index.php", script)
        .application("workers = 1\nqueue = 50\nqueue_timeout = \"60s\"\nlimits.\"/less/path\" = { queue = 30 }")
        .route("pattern = '^/(hard|soft)'\nlimits = { request_timeout = \"20s\", soft_timeout = \"20s\" }")
        .route("prefix = \"/hard\"\nlimits = { request_timeout = \"400ms\" }")
        .route("prefix = \"/soft\"\nlimits = { soft_timeout = \"300ms\" }")
        .route("prefix = [\"/less\", \"/hasty\"]\nlimits = { queue = 1 }")
        .route("prefix = \"/hasty\"\nlimits = { queue = 9, queue_timeout = \"300ms\" }")
        .route("header = { \"x-one\" = \"*\" }\nlimits = { client_requests = 1 }")
        .start();
    let began = Instant::now();
    refused(&server.get("/hard?spin"), 504, "request-timeout");
    assert!(began.elapsed() < tests::seconds(15), "{:?}", began.elapsed());
    assert_eq!(server.get("/soft?spin").status, 500);
    wait_until("the log names the line", 20, || {
        server.log().contains("index.php:5") || server.log().contains("on line")
    });
    let waiting = || sum(&server.status(&["--json"]), "waiting");
    std::thread::scope(|scope| {
        let ask = |path: &'static str| scope.spawn(move || Client::new(server.port).get(path));
        let one = || server.client().request("GET", "/", &[("X-One", "1")], b"");
        let first = scope.spawn(|| server.client().request("GET", "/?wait", &[("X-One", "1")], b""));
        wait_until("the worker is taken", 20, || fs::metadata(&begun).is_ok_and(|file| file.len() > 0));
        refused(&one(), 429, "client-busy");
        let second = ask("/");
        wait_until("the second waits", 20, || waiting() >= 1);
        refused(&server.get("/less/path"), 503, "queue-full");
        let began = Instant::now();
        refused(&server.get("/hasty"), 503, "queue-timeout");
        assert!(began.elapsed() < tests::seconds(10), "{:?}", began.elapsed());
        fs::write(&released, "x").unwrap();
        for asked in [first, second] {
            assert_eq!(asked.join().unwrap().status, 200);
        }
        assert_eq!(one().status, 200);
    });
}

/// A rate counts what its rule fits, whatever that is by; every rate of a request counts, before a password is looked at.
#[test]
fn rates_count_what_a_rule_fits() {
    let setup = Setup::empty().file("index.php", "page").file("a.txt", "file").file("late.html", "later");
    let users = setup.directory().join("users");
    fs::write(&users, "s:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n").expect("a file");
    let upstream = Upstream::echo();
    let server = setup
        .server("proxies = [\"127.0.0.1\"]")
        .application("rate_limits = [{ path = \"/both\", rate = \"3/h\" }]")
        .route("error_pages = { \"429\" = \"/late.html\" }\nheaders = { \"X-All\" = \"1\" }")
        .route("path = \"/search\"\nmethod = \"POST\"\nlimits = { rate = \"2/h\" }")
        .route("header = { \"user-agent\" = \"~^bot\" }\nlimits = { rate = \"3/h\", burst = 0 }")
        .route("prefix = \"/wait\"\nlimits = { rate = \"4/s\", burst = 1, excess = \"delay\" }")
        .route("path = \"/both\"\nlimits = { rate = \"2/h\" }")
        .route(&format!("prefix = \"/closed\"\nlimits = {{ rate = \"2/h\" }}\nusers = \"{}\"", users.display()))
        .route("path = \"/index.php\"\nlimits = { rate = \"4/h\" }")
        .route("path = \"/way\"\nrewrite = \"/index.php\"")
        .route(&format!("prefix = \"/up\"\n{}\nlimits = {{ rate = \"1/h\" }}", upstream.rule()))
        .start();
    let ask = |client: &str, method: &str, path: &str, agent: &str| {
        server.client().request(method, path, &[("X-Forwarded-For", client), ("User-Agent", agent)], b"")
    };
    let statuses = |client: &str, method: &str, path: &str, agent: &str, count: usize| -> Vec<u16> {
        (0..count).map(|_| ask(client, method, path, agent).status).collect()
    };
    assert_eq!(statuses("192.0.2.1", "POST", "/search", "-", 3), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.1", "GET", "/search", "-", 2), [200, 200]);
    assert_eq!(statuses("192.0.2.2", "POST", "/./%73earch", "-", 3), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.3", "GET", "/a.txt", "bot/1", 2), [200, 429]);
    assert_eq!(statuses("192.0.2.3", "GET", "/other", "bot/2", 1), [429]);
    assert_eq!(statuses("192.0.2.3", "GET", "/a.txt", "man", 1), [200]);
    assert_eq!(statuses("192.0.2.4", "GET", "/both", "-", 3), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.5", "GET", "/closed/x", "-", 3), [401, 401, 429]);
    // Both names of the script count for one limit.
    assert_eq!(statuses("192.0.2.6", "GET", "/way", "-", 2), [200, 200]);
    assert_eq!(statuses("192.0.2.6", "GET", "/index.php", "-", 3), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.7", "GET", "/up", "-", 2), [200, 429]);
    let answer = ask("192.0.2.1", "POST", "/search", "-");
    refused(&answer, 429, "rate-limit");
    assert_eq!((answer.text().as_str(), answer.header("x-all")), ("later", Some("1")));
    let after: u64 = answer.header("retry-after").expect("a time").parse().unwrap();
    assert!((1700..=1800).contains(&after), "two an hour: {after}");
    let began = Instant::now();
    let waited: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..2).map(|_| scope.spawn(|| ask("192.0.2.8", "GET", "/wait", "-").status)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(waited == [200, 200] && began.elapsed().as_millis() >= 250, "{waited:?} after {:?}", began.elapsed());
    // The counts outlive a reload that moves the rule to another line, and a rule that fits something else counts anew.
    server.reconfigure("[[application.route]]\npath = \"/search\"", "\n\n[[application.route]]\npath = \"/search\"");
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    assert_eq!(statuses("192.0.2.1", "POST", "/search", "-", 1), [429]);
    server.reconfigure("path = \"/search\"\n", "path = [\"/search\", \"/find\"]\n");
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    assert_eq!(statuses("192.0.2.1", "POST", "/search", "-", 1), [200]);
}

fn run(directory: &Directory, arguments: &[&str], routes: &str) -> (Option<i32>, String) {
    fs::create_dir_all(directory.0.join("www")).expect("a directory");
    fs::write(directory.0.join("www/index.php"), "").expect("a file");
    let config = directory.0.join("reprise.toml");
    let text = format!(
        "[[application]]\nroot = \"www\"\nworkers = 3\nlimits.\"/export\" = {{ request_timeout = \"10m\" }}\n{routes}"
    );
    fs::write(&config, text).expect("a file");
    let output = Command::new(program()).args(arguments).arg("--config").arg(&config).output().expect("reprise");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// `reprise route` says which limits are in force, and who says so.
#[test]
fn limits_in_force_are_explained() {
    let directory = Directory::new();
    let routes = "rate_limits = [{ path = \"/export\", rate = \"60/m\" }]\n\
        [[application.route]]\nlimits = { queue = 7, client_requests = 2 }\n\
        [[application.route]]\nprefix = \"/export\"\nlimits = { queue = 5, max_body = \"1G\", rate = \"10/m\", burst = 3 }\n\
        [[application.route]]\nprefix = \"/up\"\nupstream = \"http://127.0.0.1:9\"\nlimits = { max_body = \"2M\" }\n";
    let (code, said) = run(&directory, &["route", "/export/x"], routes);
    assert_eq!(code, Some(0), "{said}");
    for part in [
        "limit        queue 5 (",
        "reprise.toml:10)",
        "limit        client_requests 2 (",
        "reprise.toml:7)",
        "limit        request_timeout 10m (limits.\"/export\")",
        "limit        soft_timeout none (limits.\"/export\")",
        "limit        max_body 1G (",
        "limit        rate one in 1s, 60 at once (rate_limits, /export)",
        "limit        rate one in 6s, 4 at once (",
        "does not fit",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let (_, said) = run(&directory, &["route", "/x"], routes);
    assert!(
        said.contains("max_body post_max_size (php.ini)") && said.contains("request_timeout 5m (the app"),
        "{said}"
    );
    assert!(said.contains("queue 7 (") && !said.contains("rate one"), "{said}");
    let (_, said) = run(&directory, &["route", "/up"], routes);
    assert!(said.contains("max_body 2M (") && !said.contains("queue 7 ("), "{said}");
    let (_, said) = run(&directory, &["route", "/export", "--json"], routes);
    assert!(said.contains("\"name\": \"max_body\"") && said.contains("\"value\": \"1G\""), "{said}");
}

/// Each mistake is an error that names the line.
#[test]
fn wrong_limits_are_named_with_their_line() {
    for (limits, line, part) in [
        ("limits = { max_age = \"1s\" }", 7, "the limits of a rule have no 'max_age'"),
        ("limits = {}", 7, "'limits' is empty"),
        ("limits = 5", 7, "'limits' takes a table"),
        ("limits = { queue = 0 }", 7, "'queue' takes a number, 1 to 3000"),
        ("limits = { request_timeout = \"soon\" }", 7, "'request_timeout' takes a time"),
        ("limits = { max_body = \"8X\" }", 7, "'max_body' takes a size"),
        ("limits = { rate = \"10\" }", 7, "'rate' takes requests by time"),
        ("limits = { burst = 3 }", 7, "'burst' belongs to limits with rate"),
        ("limits = { rate = \"10/m\", burst = 100, excess = \"delay\" }", 7, "may wait for 600 s"),
        ("limits = { rate = \"10/m\", excess = \"drop\" }", 7, "takes \"refuse\" or \"delay\""),
        ("limits = { rate = \"10/m\", path = \"/x\" }", 7, "the limits of a rule have no 'path'"),
        ("upstream = \"http://127.0.0.1:9\"\nlimits = { soft_timeout = \"1s\" }", 5, "soft_timeout is a limit of PHP"),
        ("deny = true\n[[application.route]]\nprefix = \"/a/b\"\nlimits = { queue = 1 }", 8, "never matches"),
    ] {
        let (code, said) =
            run(&Directory::new(), &["check"], &format!("[[application.route]]\nprefix = \"/a\"\n{limits}"));
        assert_eq!(code, Some(78), "{limits}: {said}");
        assert!(said.contains(&format!("reprise.toml:{line}: ")) && said.contains(part), "{limits}: {said}");
    }
}
