//! What PHP-FPM behind nginx does, compared with nginx and PHP-FPM themselves.

use serde_json::Value;
use tests::client::multipart;
use tests::modes::modes;
use tests::peer::{Fpm, php_version};
use tests::snapshot::isolations;
use tests::{Client, Response, Server, Setup};

/// What PHP has got of a body, and what it says of its limits.
const BODY: &str = "echo json_encode([ini_get('post_max_size'), count($_POST), array_sum(array_map('strlen', $_POST)),
    strlen(file_get_contents('php://input')), array_map(fn($file) => [$file['error'], $file['size']], $_FILES),
    error_get_last()['message'] ?? null]);";

fn json(answer: &Response) -> Value {
    // Warnings of the request's startup stand before it.
    let text = answer.text();
    let at = text.find("[\"").unwrap_or_else(|| panic!("{}: {text}", answer.status));
    serde_json::from_str(&text[at..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A form, an upload and a body of no kind that PHP reads, each of about that many bytes.
fn bodies(bytes: usize) -> [(String, Vec<u8>); 3] {
    let form = ("application/x-www-form-urlencoded".to_owned(), [b"a=".to_vec(), vec![b'x'; bytes]].concat());
    let upload = multipart(&[("field", "1")], &[("file", "a.bin", "application/octet-stream", &vec![b'y'; bytes])]);
    [form, upload, ("application/octet-stream".to_owned(), vec![b'z'; bytes])]
}

fn post(port: u16, path: &str, (kind, body): &(String, Vec<u8>)) -> Response {
    let mut client = Client::new(port);
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    // Who is refused may be hung up on before all is sent.
    let _ = client.send(&[head.as_bytes(), body].concat());
    client.read(false).unwrap_or_else(|error| panic!("{path}, {length} bytes of {kind}: {error}"))
}

const LIMIT: [(&str, &str); 2] = [("post_max_size", "64K"), ("html_errors", "0")];

fn limited(setup: Setup) -> Setup {
    LIMIT.iter().fold(setup, |setup, (name, value)| setup.ini(name, value)).ini("user_ini.cache_ttl", "0")
}

/// `post_max_size` in a `.user.ini` raises the limit of bodies for its directory and those below, as under PHP-FPM.
#[test]
fn a_user_ini_file_raises_the_limit_of_bodies_as_under_fpm() {
    let script = format!("<?php {BODY}");
    let server = limited(Setup::empty())
        .file("index.php", &script)
        .file("up/index.php", &script)
        .file("up/.user.ini", "post_max_size = 300K\n")
        .file("up/deep/index.php", &script)
        .file("down/.user.ini", "post_max_size = 1K\n")
        .file("down/index.php", &script)
        .start();
    let fpm = Fpm::with_php_ini(&server.root, &[], &LIMIT);
    for path in ["/up/index.php", "/up/deep/index.php", "/down/index.php"] {
        for bytes in [500, 30_000, 100_000, 290_000, 400_000, 3_000_000] {
            for body in bodies(bytes) {
                let [ours, theirs] = [server.port, fpm.port].map(|port| post(port, path, &body));
                let what = format!("{path}: {bytes} bytes of {}", body.0);
                assert_eq!((ours.status, theirs.status), (200, 200), "{what}");
                assert_eq!(json(&ours), json(&theirs), "{what}");
            }
        }
    }
    // Without such a file the body need not come: as nginx with client_max_body_size.
    for body in bodies(100_000) {
        assert_eq!(post(server.port, "/index.php", &body).status, 413, "{}", body.0);
    }
}

fn raised(server: &Server, path: &str, what: &str) {
    for body in bodies(100_000) {
        let answer = post(server.port, path, &body);
        assert_eq!(answer.status, 200, "{what}: {}", body.0);
        let said = json(&answer);
        assert_eq!(said[0], "300K", "{what}: {said}");
        assert!(
            said[2].as_u64() == Some(100_000) || said[3] == 100_000 || said[4]["file"][1] == 100_000,
            "{what}: {said}"
        );
    }
    for body in bodies(3_000_000) {
        let answer = post(server.port, path, &body);
        let got = if answer.status == 413 { 0 } else { json(&answer)[2].as_u64().unwrap() };
        assert!(got <= 300 << 10, "{what}: {got} bytes of {}", body.0);
    }
}

/// A snapshot keeps the limit of bodies of its boot's `.user.ini`, even after that file is removed.
#[test]
fn the_limit_of_a_boots_user_ini_file_holds_in_its_lane() {
    for isolation in isolations() {
        let server = limited(Setup::empty())
            .file("index.php", format!("<?php reprise_snapshot(); {BODY}"))
            .file(".user.ini", "post_max_size = 300K\n")
            .application(&format!("isolation = \"{isolation}\""))
            .flag("--audit")
            .start();
        raised(&server, "/index.php", isolation);
        // It was read when the script was booted.
        std::fs::remove_file(server.root.join(".user.ini")).unwrap();
        raised(&server, "/index.php", isolation);
    }
    let server = limited(Setup::empty())
        .file("index.php", format!("<?php while (reprise_handle_request(function () {{ {BODY} }})) {{}}"))
        .file(".user.ini", "post_max_size = 300K\n")
        .start();
    raised(&server, "/index.php", "worker");
}

/// A `.user.ini` raises neither `max_body` nor a limit where such files are turned off.
#[test]
fn a_user_ini_file_raises_no_limit_that_is_configured() {
    let script = format!("<?php {BODY}");
    let with = |setup: Setup| {
        let server = setup.file("index.php", &script).file(".user.ini", "post_max_size = 300K\n").start();
        bodies(100_000).map(|body| post(server.port, "/index.php", &body).status)
    };
    assert_eq!(with(limited(Setup::empty())), [200; 3]);
    assert_eq!(with(limited(Setup::empty()).application("max_body = \"64K\"")), [413; 3]);
    assert_eq!(with(limited(Setup::empty()).ini("user_ini.filename", "")), [413; 3]);
    assert_eq!(with(limited(Setup::empty()).ini("user_ini.filename", "other.ini")), [413; 3]);
    let admin = Setup::empty().application("admin_ini.post_max_size = \"64K\"");
    assert_eq!(with(admin), [413; 3]);
}

/// What a script learns of who sent what: the variables that are there, and the headers.
const ASKED: &str = "<?php $names = ['CONTENT_TYPE', 'CONTENT_LENGTH', 'HTTP_CONTENT_TYPE', 'HTTP_CONTENT_LENGTH',
    'PHP_AUTH_USER', 'PHP_AUTH_PW', 'AUTH_TYPE', 'HTTP_AUTHORIZATION'];
    $say = function () use ($names) {
        $headers = array_intersect_key(getallheaders(), array_flip(['Content-Type', 'Content-Length', 'Authorization', 'X-Empty']));
        ksort($headers);
        return json_encode([array_map(fn($name) => $_SERVER[$name] ?? null, $names), array_map('getenv', $names), $headers]);
    };";

fn asked(port: u16, path: &str, request: &str) -> String {
    let mut client = Client::new(port);
    client.send(request.replace("PATH", path).as_bytes()).unwrap();
    let answer = client.read(false).unwrap_or_else(|error| panic!("{request}: {error}"));
    assert_eq!(answer.status, 200, "{request}: {}", answer.text());
    answer.text()
}

/// With and without a body, a type and a name.
const REQUESTS: [&str; 8] = [
    "GET PATH HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nX-Empty:\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Type: text/x\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "PUT PATH HTTP/1.1\r\nHost: a\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabc",
    "GET PATH HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YWRtaW46c2VjcmV0\r\n\r\n",
];

/// `CONTENT_TYPE` and `CONTENT_LENGTH` are set for each request in every mode, with the values that PHP-FPM gives.
#[test]
fn empty_content_type_and_length_are_there_as_under_fpm() {
    for isolation in isolations() {
        let server = Setup::empty()
            .file("classic.php", format!("{ASKED} echo $say();"))
            .file("index.php", format!("{ASKED} reprise_snapshot(); echo $say();"))
            .file("worker.php", format!("{ASKED} while (reprise_handle_request(fn() => print($say()))) {{}}"))
            .application("mode.\"/worker.php\" = \"worker\"")
            .application(&format!("isolation = \"{isolation}\""))
            .start();
        let fpm = Fpm::start(&server.root);
        for request in REQUESTS {
            let theirs = asked(fpm.port, "/classic.php", request);
            for path in ["/classic.php", "/index.php", "/worker.php"] {
                assert_eq!(asked(server.port, path, request), theirs, "{isolation}, {path}: {request}");
            }
        }
    }
}

/// No header of a client sets `REMOTE_USER`.
#[test]
fn nobody_is_a_remote_user_by_saying_so() {
    let script =
        "<?php echo json_encode([$_SERVER['REMOTE_USER'] ?? null, getenv('REMOTE_USER'), $_SERVER['PHP_AUTH_USER']]);";
    let server = Setup::empty().file("index.php", script).start();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YWRtaW46c2VjcmV0\r\nRemote-User: admin\r\n\r\n";
    assert_eq!(asked(server.port, "/", request), r#"[null,false,"admin"]"#);
}

/// `flush()` before any output sends the headers since PHP 8.4 and does nothing before, as under PHP-FPM.
#[test]
fn flush_before_output_sends_the_headers_as_under_fpm() {
    let script = "<?php while (ob_get_level()) ob_end_clean(); header('X-Early: 1'); flush(); $sent = headers_sent();
        if (!$sent) { http_response_code(404); header('X-Late: 1'); } var_export($sent);";
    let server = Setup::empty().file("index.php", script).start();
    let fpm = Fpm::start(&server.root);
    let [ours, theirs] = [server.port, fpm.port].map(|port| {
        let answer = Client::new(port).get("/");
        (answer.status, answer.header("x-early").is_some(), answer.header("x-late").is_some(), answer.text())
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours.3, if php_version() == "8.2" { "false" } else { "true" });
}

/// What PHP says of input that it cannot parse names no file and no line, as under PHP-FPM: no code has run for it.
#[test]
fn input_that_php_cannot_parse_is_reported_as_under_fpm() {
    const SETTINGS: [(&str, &str); 6] = [
        ("max_input_vars", "4"),
        ("max_file_uploads", "1"),
        ("max_multipart_body_parts", "6"),
        ("html_errors", "0"),
        ("display_errors", "1"),
        ("display_startup_errors", "1"),
    ];
    let many: Vec<String> = (0..8).map(|number| format!("v{number}=1")).collect();
    let file = ("f", "a.txt", "text/plain", b"text" as &[u8]);
    let form = "application/x-www-form-urlencoded".to_owned();
    let bodies = [
        ("variables", (form.clone(), many.join("&").into_bytes())),
        ("no boundary", ("multipart/form-data".to_owned(), b"--x\r\n\r\n--x--".to_vec())),
        ("a bad boundary", ("multipart/form-data; boundary=\"".to_owned(), b"x".to_vec())),
        ("no end", ("multipart/form-data; boundary=x".to_owned(), b"--x\r\nContent-Disposition: form-data".to_vec())),
        ("files", multipart(&[], &[file, ("g", "b.txt", "text/plain", b"text")])),
        ("parts", multipart(&[("a", "1"); 9], &[])),
        ("nothing wrong", (form, b"a=1".to_vec())),
    ];
    let (query, cookies) = (format!("/?{}", many.join("&")), many.join("; "));
    let answers = |port: u16| -> Vec<(String, u16, String)> {
        let mut client = Client::new(port);
        let posted = bodies.iter().map(|(what, body)| ((*what).to_owned(), post(port, "/", body)));
        let got =
            [("query", client.get(&query)), ("cookies", client.request("GET", "/", &[("Cookie", &cookies)], b""))];
        let got = got.map(|(what, answer)| (what.to_owned(), answer));
        posted.chain(got).map(|(what, answer)| (what, answer.status, answer.text())).collect()
    };
    for (mode, end, configured) in modes() {
        let script = format!(
            "<?php $handle = function () {{ echo json_encode(error_get_last()); }};\nif (function_exists('reprise_info')) {{ {end} }} else $handle();"
        );
        let setup = SETTINGS.iter().fold(Setup::empty(), |setup, (name, value)| setup.ini(name, value));
        let setup = configured.iter().fold(setup.file("index.php", script), |setup, line| setup.application(line));
        let server = setup.start();
        let fpm = Fpm::with_php_ini(&server.root, &[], &SETTINGS);
        let (ours, theirs) = (answers(server.port), answers(fpm.port));
        assert!(theirs.iter().filter(|(_, _, text)| text.contains("Unknown on line 0")).count() >= 7, "{theirs:#?}");
        assert_eq!(ours, theirs, "{mode}, {configured:?}");
    }
}
