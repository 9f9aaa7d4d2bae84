//! What a script sees and does, case by case (tests/apps/plain/public/cases.php): the same as under nginx and PHP-FPM, in
//! classic mode and from a snapshot.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tests::backends::Redis;
use tests::client::multipart;
use tests::peer::{Fpm, Program};
use tests::server::{Directory, free_port};
use tests::snapshot::isolations;
use tests::{Client, Response, Server, Setup, amount};

const HOST: (&str, &str) = ("Host", "site.test");

/// Headers of the server and its connection. Bodies are compared whole, so their length is too.
const OTHERWISE: [&str; 7] =
    ["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-powered-by"];

struct Case {
    query: String,
    method: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn get(query: &str) -> Case {
    Case { query: query.to_owned(), method: "GET", headers: vec![], body: vec![] }
}

fn post(query: &str, kind: &str, body: impl Into<Vec<u8>>) -> Case {
    let headers = vec![("Content-Type", kind.to_owned())];
    Case { method: "POST", headers, body: body.into(), ..get(query) }
}

impl Case {
    fn with(mut self, name: &'static str, value: &str) -> Case {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn by(mut self, method: &'static str) -> Case {
        self.method = method;
        self
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn part(headers: &str, body: &str) -> String {
    format!("--B\r\n{headers}\r\n\r\n{body}\r\n")
}

/// Uploads as browsers and others send them, and as nobody should.
fn uploads() -> Vec<Case> {
    let upload = |body: String| post("files", "multipart/form-data; boundary=B", body);
    let file = |name: &str, file: &str, body: &str| {
        part(
            &format!(
                "Content-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\nContent-Type: text/plain"
            ),
            body,
        )
    };
    let field = |name: &str, value: &str| part(&format!("Content-Disposition: form-data; name=\"{name}\""), value);
    let end = "--B--\r\n";
    vec![
        upload(format!("{}{}{end}", field("a", "1"), file("f", "a.txt", "text"))),
        upload(format!("{}{}{end}", file("f[]", "a.txt", "1"), file("f[]", "b.txt", "22"))),
        upload(format!("{}{}{end}", file("f[x][y]", "a.txt", "1"), field("v[x][]", "2"))),
        upload(format!("{}{end}", file("f", "dir/../name.txt", "path"))),
        upload(format!("{}{end}", file("f", "C:\\\\dir\\\\name.txt", "path"))),
        upload(format!("{}{end}", file("f", "", ""))),
        upload(format!("{}{end}", file("f", "empty", ""))),
        upload(format!("{}{end}", file("f", "\u{fc}.txt", "utf-8"))),
        upload(format!("{}{end}", file("f[", "a.txt", "1"))),
        upload(format!("{}{end}", file("a.b c", "a.txt", "1"))),
        upload(format!("{}{end}", file("f", "big.txt", &"x".repeat(3 << 20)))),
        upload(format!("{}{}{end}", field("MAX_FILE_SIZE", "10"), file("f", "a.txt", "more than ten bytes"))),
        upload(format!("{}{end}", (0..25).map(|i| file(&format!("f{i}"), "a.txt", "x")).collect::<String>())),
        upload(format!("{}{end}", (0..1200).map(|i| field(&format!("v{i}"), "x")).collect::<String>())),
        // Without an end, without a part, with lines missing or too many.
        upload(file("f", "a.txt", "text")),
        upload("--B\r\n".to_owned()),
        upload(String::from("--B--\r\n")),
        upload("no boundary at all".to_owned()),
        upload(format!("{}{end}", part("Content-Disposition: form-data", "no name"))),
        upload(format!("{}{end}", part("Content-Disposition: form-data; name=\"f\"; filename=\"a", "no quote"))),
        upload(format!(
            "{}{end}",
            part("X-Other: 1\r\nContent-Disposition: form-data; name=f; filename=a.txt", "no quotes")
        )),
        upload(format!("preamble\r\n{}{end}epilogue", file("f", "a.txt", "text"))),
        upload(format!("{}{end}", file("f", "a.txt", "a line\r\n--A\r\n--\r\nof others"))),
        post("files", "multipart/form-data", file("f", "a.txt", "text")),
        post("files", "multipart/form-data; boundary=\"B\"", format!("{}{end}", file("f", "a.txt", "quoted"))),
        post("files", "multipart/form-data; boundary=B, charset=x", format!("{}{end}", file("f", "a.txt", "more"))),
        post("files", "Multipart/Form-Data; Boundary=B", format!("{}{end}", file("f", "a.txt", "case"))),
        post("move", "multipart/form-data; boundary=B", format!("{}{end}", file("f", "a.txt", "moved"))),
        upload(format!("{}{end}", file("f", "a.txt", "text"))).by("PUT"),
    ]
}

fn cases() -> Vec<Case> {
    let plain = [
        "header-forms",
        "header-injection",
        "header-status",
        "header-status-10",
        "header-status-line",
        "header-code",
        "header-location",
        "header-location-201",
        "header-location-code",
        "header-auth",
        "header-type",
        "header-type-charset",
        "header-type-none",
        "header-charset",
        "header-length",
        "header-callback",
        "header-after-output",
        "header-replace-all",
        "code-204",
        "code-304",
        "cookies",
        "apache",
        "ob-callback",
        "ob-nested",
        "ob-levels",
        "ob-clean",
        "ob-gzip",
        "rewrite",
        "exit-text",
        "exit-code",
        "exit-in-function",
        "shutdown",
        "destructor",
        "finish",
        "big",
        "flushes",
        "binary",
        "nothing",
        "warning",
        "warning&html=0",
        "fatal",
        "fatal&show=0",
        "exception",
        "parse",
        "handler",
        "last-error",
        "error-last",
        "memory",
        "time",
        "prepend",
        "input&a=1&b[]=2&b[x]=3&d.e=4&f%20g=5&h",
        "input&",
        "raw",
        "auth",
        "server",
        "server&x=%41%zz&y=a+b",
        "time-is-now",
        "filter&n=12",
        "filter&n=x",
        "env&q=1",
        "streams",
        "stderr",
        "cwd",
        "limits",
        "functions",
        "included",
        "info",
        "session-headers&limiter=public",
        "session-headers&limiter=nocache",
        "session-headers&limiter=private",
        "session-headers&limiter=private_no_expire",
        "session-headers&limiter=",
        "session-regenerate",
        "session-destroy&id=gone",
        "session-own",
        "none",
    ];
    let mut all: Vec<Case> = plain.iter().map(|query| get(query)).collect();
    // The same by HEAD, and where the method does not matter.
    all.extend(
        ["header-forms", "code-304", "big", "flushes", "nothing", "exit-text"].map(|query| get(query).by("HEAD")),
    );
    all.extend(["OPTIONS", "DELETE", "PATCH", "PROPFIND", "PURGE"].map(|method| get("server").by(method)));
    // A redirect without a status of its own.
    all.extend(["HEAD", "PUT", "DELETE", "PATCH"].map(|method| get("header-location").by(method)));
    all.extend(["header-location", "header-location-201"].map(|query| post(query, FORM, "a=1")));
    all.push(get("ob-gzip").with("Accept-Encoding", "gzip"));
    all.push(get("session-strict").with("Cookie", "PHPSESSID=notmade"));
    all.push(get("input").with("Cookie", "a=1; b=%32; c[x]=3; d.e=4;f=5; a=2; =6; g"));
    for value in [
        "Basic dXNlcjpwYXNz",
        "basic dXNlcjo=",
        "Basic dXNlcg==",
        "Basic !!!",
        "Basic",
        "Digest username=\"u\", realm=\"r\"",
        "Bearer token",
        "Basic  dXNlcjpwYXNz",
        "Basic dTpwOmE6Yg==",
    ] {
        all.push(get("auth").with("Authorization", value));
    }
    for (kind, body) in [
        (FORM, "a=1&b[]=2&b[x]=3&c=%C3%BC&d.e=4&f g=5&=6&h"),
        ("application/x-www-form-urlencoded; charset=utf-8", "a=1"),
        ("APPLICATION/X-WWW-FORM-URLENCODED", "a=1"),
        ("application/json", "{\"a\": 1}"),
        ("text/plain", "a=1"),
        (FORM, ""),
        ("", "a=1"),
        ("application/x-www-form-urlencoded, text/plain", "a=1"),
    ] {
        for query in ["input", "raw", "raw-twice"] {
            all.push(post(query, kind, body));
        }
    }
    all.push(post("raw", FORM, "a=1").by("PUT"));
    all.push(post("input", FORM, "a=1").by("DELETE"));
    all.push(post("input", FORM, (0..1100).map(|i| format!("v{i}={i}&")).collect::<String>()));
    all.push(post("filter", FORM, "p=1&q[]=2"));
    // Repeated headers are not compared: nginx gives PHP the last, here they are folded (RFC 9110 §5.3).
    all.push(post("server", "application/json", "{}").with("X-Custom-Header", "v"));
    all.push(get("server").with("Accept", "a").with("User-Agent", "x"));
    all.push(get("apache").with("X-Lower", "1").with("Accept-Language", "de"));
    all.push(get("server").with("X_Underscored", "1").with("X-Dashed", "2").with("Content-Type", "text/plain"));
    let progress =
        multipart(&[("PHP_SESSION_UPLOAD_PROGRESS", "job")], &[("f", "a.txt", "text/plain", &[b'x'; 100_000])]);
    all.push(
        Case { headers: vec![("Content-Type", progress.0)], body: progress.1, ..get("session-progress").by("POST") }
            .with("Cookie", "PHPSESSID=progress"),
    );
    all.extend(uploads());
    all
}

struct Side {
    name: &'static str,
    client: Client,
    script: &'static str,
    port: u16,
}

impl Side {
    fn new(name: &'static str, port: u16, script: &'static str) -> Side {
        Side { name, client: Client::new(port), script, port }
    }

    fn ask(&mut self, case: &Case) -> Response {
        let mut headers = vec![HOST];
        headers.extend(case.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let path = format!("/{}?c={}", self.script, case.query);
        let answer = self.client.try_request(case.method, &path, &headers, &case.body);
        // nginx closes after some answers.
        let answer = answer.unwrap_or_else(|_| {
            self.client = Client::new(self.port);
            self.client.request(case.method, &path, &headers, &case.body)
        });
        if answer.header("connection") == Some("close") {
            self.client = Client::new(self.port);
        }
        answer
    }
}

/// How long after an answer it expires, as text; the two may be asked in different seconds. `None`: at a fixed time.
fn minutes_after(now: &str, expires: &str) -> Option<String> {
    // "Sun, 06 Nov 1994 08:49:37 GMT"
    let seconds = |date: &str| {
        let parts: Vec<i64> = date.get(17..25)?.split(':').filter_map(|part| part.parse().ok()).collect();
        (parts.len() == 3).then(|| parts[0] * 3600 + parts[1] * 60 + parts[2])
    };
    let is_fixed = now.get(12..16)? != expires.get(12..16)?;
    let after = (seconds(expires)? - seconds(now)? + 30).rem_euclid(86400) / 60;
    (!is_fixed).then(|| format!("{after} minutes after the answer"))
}

/// What is compared of an answer: status, reason, headers by name, body.
fn seen(answer: &Response, script: &str) -> (u16, String, BTreeMap<String, Vec<String>>, String) {
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &answer.headers {
        let is_public = answer.header("cache-control").is_some_and(|text| text.contains("public"));
        // What speaks to shared caches learns from this one what it did; nothing else does.
        if OTHERWISE.contains(&name.as_str()) || name == "cache-status" && is_public {
            continue;
        }
        let mut value = value.replace(script, "SCRIPT");
        if name == "set-cookie" && value.starts_with("PHPSESSID=") {
            // Drawn at random.
            value = value.split_once(';').map_or("PHPSESSID".to_owned(), |(_, rest)| format!("PHPSESSID;{rest}"));
        }
        if let Some((before, (seconds, rest))) =
            value.split_once("Max-Age=").and_then(|(before, after)| Some((before, after.split_once(';')?)))
        {
            if name == "set-cookie" && seconds != "0" {
                // Until the time that the cookie names beside it; the two may be asked in different seconds.
                value = format!("{before}Max-Age;{rest}");
            }
        }
        if name == "last-modified" {
            value = "a time".to_owned();
        }
        if name == "expires" {
            value = answer.header("date").and_then(|now| minutes_after(now, &value)).unwrap_or(value);
        }
        headers.entry(name.clone()).or_default().push(value);
    }
    let body: String = answer.body.iter().map(|&byte| char::from(byte)).collect();
    (answer.status, answer.reason.clone(), headers, body.replace(script, "SCRIPT"))
}

fn compare(setup: Setup, script: &'static str) {
    let server: Server = setup.start();
    let fpm = Fpm::start(&server.root);
    let mut ours = Side::new("reprise", server.port, script);
    let mut theirs = Side::new("php-fpm", fpm.port, script);
    let mut different = Vec::new();
    let cases = cases();
    for case in &cases {
        if script == "worker.php" && case.query == "fatal" {
            // Its trace tells of the loop.
            continue;
        }
        let (mut mine, other) = (seen(&ours.ask(case), script), seen(&theirs.ask(case), script));
        if other.1.is_empty() {
            // nginx knows fewer statuses.
            mine.1.clear();
        }
        if mine != other {
            let show = |side: &Side, seen: &(u16, String, BTreeMap<String, Vec<String>>, String)| {
                let body: String = seen.3.chars().take(900).collect();
                format!("  {}: {} {} {:?}\n    {body}", side.name, seen.0, seen.1, seen.2)
            };
            let what = format!("{} {} {:?}", case.method, case.query, case.headers);
            different.push(format!("{what}\n{}\n{}", show(&theirs, &other), show(&ours, &mine)));
        }
    }
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), cases.len(), different.join("\n"));
}

fn plain() -> Setup {
    Setup::app("plain").application("front_controller = \"\"")
}

/// Every case of the script gives the same response in classic mode as under nginx and PHP-FPM.
#[test]
fn classic_mode_is_as_php_fpm() {
    compare(plain(), "cases.php");
}

/// Every case of the script gives the same response from a snapshot as under nginx and PHP-FPM.
#[test]
fn a_snapshot_is_as_php_fpm() {
    for isolation in isolations().iter().take(amount(1, 2)) {
        let mode = format!("isolation = \"{isolation}\"\nmode.\"snapshot.php\" = \"snapshot\"");
        compare(plain().application(&mode).flag("--audit"), "snapshot.php");
    }
}

/// Every case of the script gives the same response in worker mode as under nginx and PHP-FPM.
#[test]
fn a_worker_script_is_as_php_fpm() {
    compare(plain().application("mode.\"worker.php\" = \"worker\""), "worker.php");
}

/// Sessions in files, Redis and Memcached: counted by visitor, one after the other and at once.
#[test]
fn sessions_are_kept_by_every_handler() {
    let directory = Directory::new();
    let memcached_port = free_port();
    let redis = Redis::start(&[]);
    let mut memcached = Command::new("memcached");
    memcached.args(["-l", "127.0.0.1", "-p", &memcached_port.to_string(), "-U", "0", "-u", "nobody"]);
    let mut memcached = Program::start(&mut memcached, &directory.0.join("memcached.log"));
    memcached.await_ready(20, || TcpStream::connect(("127.0.0.1", memcached_port)).is_ok());
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o777)).unwrap();

    for isolation in isolations().iter().take(amount(1, 2)) {
        let mode = format!("isolation = \"{isolation}\"\nmode.\"snapshot.php\" = \"snapshot\"");
        let server = plain().application(&mode).application("workers = 4").flag("--audit").start();
        let handlers = [
            ("files", directory.0.display().to_string()),
            ("redis", format!("tcp://127.0.0.1:{}?prefix={isolation}:", redis.port)),
            ("memcached", format!("127.0.0.1:{memcached_port}")),
        ];
        for (handler, path) in &handlers {
            let query = format!("c=session&handler={handler}&path={}", tests::client::encode(path));
            let visit = |visitor: &str, script: &str| {
                let cookie = format!("PHPSESSID={isolation}{visitor}");
                Client::new(server.port).request("GET", &format!("/{script}?{query}"), &[("Cookie", &cookie)], b"")
            };
            let counted = |answer: &Response| -> (String, u64) {
                let value: serde_json::Value =
                    serde_json::from_str(&answer.text()).unwrap_or_else(|_| panic!("{}", answer.text()));
                assert_eq!((value[2].as_u64(), value[3].as_str()), (Some(2), Some(*handler)));
                (value[0].as_str().unwrap().to_owned(), value[1].as_u64().unwrap())
            };
            for round in 0..4 {
                for visitor in ["anna", "otto"] {
                    for (n, script) in ["cases.php", "snapshot.php"].into_iter().enumerate() {
                        let expected = (format!("{isolation}{visitor}"), 2 * round + n as u64 + 1);
                        assert_eq!(counted(&visit(visitor, script)), expected, "{handler}, {script}");
                    }
                }
            }
            // Locked: requests of one visitor at once lose no count. Redis and Memcached lock where they are told to.
            if *handler == "files" {
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| visit("many", "snapshot.php"))).collect();
                    threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().status, 200));
                });
                assert_eq!(counted(&visit("many", "cases.php")).1, 9);
            }
        }
    }
}
