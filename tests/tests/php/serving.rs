//! PHP as applications see it: input, output, ends of a request.

use std::time::{Duration, Instant};

use tests::client::multipart;
use tests::{Setup, wait_until};

/// A small response has its length, type and date.
#[test]
fn hello_is_answered_with_its_length() {
    let server = Setup::app("plain").start();
    let answer = server.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (200, "Hello World!"));
    assert_eq!(answer.header("content-length"), Some("12"));
    assert_eq!(answer.header("content-type"), Some("text/plain;charset=UTF-8"));
    assert!(answer.header("date").is_some());
}

/// `$_SERVER`, `$_GET` and `$_COOKIE` have what the client sent, without headers that could forge variables.
#[test]
fn superglobals_hold_what_the_client_sent() {
    let server = Setup::app("plain").env("GREETING", "hi there").start();
    let mut client = server.client();
    let headers = [
        ("Cookie", "a=1"),
        ("Cookie", "b=2"),
        ("X-Thing", "x"),
        ("X-Thing", "y"),
        ("Proxy", "evil"),
        ("Bad_Name", "1"),
    ];
    let answer = client.request("GET", "/server.php/in/fo?q=1&r[]=2", &headers, b"");
    let text = answer.text();
    for expected in [
        "\"PATH_INFO\": \"/in/fo\"",
        "\"SCRIPT_NAME\": \"/server.php\"",
        "\"PHP_SELF\": \"/server.php/in/fo\"",
        "\"REQUEST_URI\": \"/server.php/in/fo?q=1&r[]=2\"",
        "\"QUERY_STRING\": \"q=1&r[]=2\"",
        "\"HTTP_COOKIE\": \"a=1; b=2\"",
        "\"HTTP_X_THING\": \"x, y\"",
        "\"REQUEST_METHOD\": \"GET\"",
        "\"GATEWAY_INTERFACE\": \"CGI/1.1\"",
        "\"REMOTE_ADDR\": \"127.0.0.1\"",
        "\"GREETING\": \"hi there\"",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    for unexpected in ["HTTP_PROXY", "HTTP_BAD_NAME", "PHP_INI_SCAN_DIR", "\"PATH\""] {
        assert!(!text.contains(unexpected), "{unexpected} is in {text}");
    }
}

/// Forms, raw bodies and methods reach PHP.
#[test]
fn forms_bodies_and_methods_arrive() {
    let server = Setup::app("plain").start();
    let mut client = server.client();
    let form =
        client.post_form("/echo.php?x=1", &[("Cookie", "c=3")], &[("name", "Ä & b"), ("list[]", "1"), ("list[]", "2")]);
    let text = form.text();
    for expected in ["\"method\": \"POST\"", "\"x\": \"1\"", "\"name\": \"\\u00c4 & b\"", "\"c\": \"3\"", "\"2\""] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let put = client.request("PUT", "/echo.php", &[("Content-Type", "application/json")], b"{\"a\":1}");
    assert!(put.text().contains("\"method\": \"PUT\""), "{}", put.text());
    let raw = client.request("POST", "/count.php", &[("Content-Type", "text/plain")], &vec![b'x'; 300_000]);
    assert!(raw.text().contains("300000"), "{}", raw.text());
    // The same, chunked: PHP is told no length.
    client
        .send(b"POST /count.php HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    for _ in 0..30 {
        client.send(format!("{:x}\r\n{}\r\n", 10_000, "x".repeat(10_000)).as_bytes()).unwrap();
    }
    client.send(b"0\r\n\r\n").unwrap();
    let chunked = client.read(false).unwrap();
    let sum = |answer: &tests::Response| answer.text().split("memory_peak").next().map(str::to_owned);
    assert_eq!(sum(&chunked), sum(&raw));
}

/// Uploads are there as files, and removed after the request.
#[test]
fn uploads_are_streamed_to_files_that_go_away() {
    let server = Setup::app("plain").start();
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let (kind, body) = multipart(&[("title", "t")], &[("file", "a b.bin", "application/octet-stream", &bytes)]);
    let mut client = server.client();
    let echo = client.request("POST", "/echo.php", &[("Content-Type", &kind)], &body).text();
    for expected in ["\"title\": \"t\"", "a b.bin", "1000000"] {
        assert!(echo.contains(expected), "{expected} is missing in {echo}");
    }
    let name = client.request("POST", "/tmpupload.php", &[("Content-Type", &kind)], &body).text();
    let path = name
        .lines()
        .find_map(|line| line.split_whitespace().find(|word| word.contains("/php")))
        .map(|word| word.trim_matches(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '/')).to_owned());
    let path = path.unwrap_or_else(|| panic!("no temporary name in {name}"));
    wait_until("the temporary file is gone", 10, || !std::path::Path::new(&path).exists());
}

/// `flush()` sends what was written so far.
#[test]
fn output_is_streamed_on_flush() {
    let server = Setup::app("plain").start();
    let mut client = server.client();
    client.send(b"GET /stream.php?ms=300 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let began = Instant::now();
    let head = client.read_head().unwrap();
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    let first = client.read_chunk().unwrap().expect("a first chunk");
    let first_took = began.elapsed();
    let mut rest = first;
    while let Some(chunk) = client.read_chunk().unwrap() {
        rest.extend(chunk);
    }
    assert!(began.elapsed() > Duration::from_millis(900), "all of it took {:?}", began.elapsed());
    assert!(first_took < began.elapsed() * 3 / 4, "the first chunk took {first_took:?} of {:?}", began.elapsed());
    assert_eq!(String::from_utf8_lossy(&rest).lines().count(), 5);
}

/// Headers, cookies and status that PHP sets reach the client, without what would break the framing.
#[test]
fn headers_cookies_and_status_are_sent() {
    let server = Setup::app("plain")
        .file("status.php", "<?php header('HTTP/1.1 418 Short and Stout'); header('Status: 200'); echo 'x';")
        .file("none.php", "<?php http_response_code(204); header('Content-Length: 5');")
        .file("moved.php", "<?php header('Location: /elsewhere');")
        .file("lie.php", "<?php header('Content-Length: 3'); echo 'four';")
        .file("same.php", "<?php header('ETag: \"1\"'); header('Content-Type: text/plain'); http_response_code(304);")
        .start();
    let mut client = server.client();
    let answer = client.get("/headers.php");
    assert!(answer.all("set-cookie").len() >= 2, "{answer:?}");
    let odd = client.get("/status.php");
    assert_eq!((odd.status, odd.reason.as_str()), (418, "Short and Stout"));
    let none = client.get("/none.php");
    assert_eq!((none.status, none.header("content-length"), none.body.len()), (204, None, 0));
    let same = client.get("/same.php");
    assert_eq!((same.status, same.header("etag")), (304, Some("\"1\"")));
    assert_eq!(same.header("content-type"), None, "FPM leaves it out too");
    let moved = client.get("/moved.php");
    assert_eq!((moved.status, moved.header("location")), (302, Some("/elsewhere")));
    assert_eq!(client.get("/lie.php").text(), "fou", "as with nginx");
    let head = client.request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_ne!(head.header("content-length"), Some("0"), "HEAD must not claim that GET is empty");
    assert_eq!(client.get("/").text(), "Hello World!", "the connection is still good");
}

/// `exit`, fatal errors, shutdown functions and lack of memory end a request as under PHP-FPM.
#[test]
fn a_request_ends_as_it_would_under_fpm() {
    let server = Setup::app("plain").start();
    let mut client = server.client();
    assert_eq!(client.get("/exit.php").status, 200);
    let fatal = client.get("/fatal.php");
    assert_eq!(fatal.status, 500);
    wait_until("the error is in the log", 5, || server.log().contains("PHP Fatal error"));
    assert!(client.get("/shutdown.php").text().contains("SHUTDOWN"));
    assert_eq!(client.get("/oom.php").status, 500);
    assert_eq!(client.get("/").text(), "Hello World!");
    assert_eq!(client.get("/error_log.php").text(), "logged\n");
    for said in ["error_log.php was here", "error_log.php warns", "error_log.php writes to stderr"] {
        wait_until(said, 5, || server.log().contains(said));
    }
}

/// After `fastcgi_finish_request()` the client has its response and the script goes on.
#[test]
fn a_finished_request_goes_on_without_its_client() {
    let server = Setup::app("plain").start();
    let marker = std::env::temp_dir().join(format!("reprise-finish-{}", server.port));
    let answer = server.get(&format!("/finish.php?ms=1500&marker={}", marker.display()));
    assert_eq!(answer.status, 200);
    assert!(!marker.exists(), "the answer waited for the script");
    wait_until("the script goes on", 10, || marker.exists());
    std::fs::remove_file(&marker).unwrap();
}

/// Workers share one opcache.
#[test]
fn opcache_is_on_and_shared_by_the_workers() {
    let server = Setup::app("plain").application("workers = 3").ini("opcache.revalidate_freq", "0").start();
    // file_update_protection: files younger than two seconds are not cached.
    let cached = |text: &str| text.contains("\"cached\":true");
    wait_until("the script is cached", 10, || cached(&server.get("/opcache.php").text()));
    let info = server.get("/info.php").text();
    assert!(
        info.contains("fpm-fcgi") || info.contains("FPM") || info.contains("Reprise"),
        "{}",
        &info[..500.min(info.len())]
    );
}

/// PHP's own sessions work.
#[test]
fn sessions_work() {
    let server = Setup::app("plain").start();
    let mut client = server.client();
    let first = client.get("/session.php");
    let cookie = first.header("set-cookie").expect("a session cookie").split(';').next().unwrap().to_owned();
    let again = client.request("GET", "/session.php", &[("Cookie", &cookie)], b"");
    assert!(first.text().contains('1') && again.text().contains('2'), "{} {}", first.text(), again.text());
}

/// `ini` and `env` of the configuration reach PHP unchanged.
#[test]
fn settings_from_the_configuration_win() {
    let server = Setup::empty()
        .file("index.php", "<?php echo ini_get('memory_limit'), '|', ini_get('date.timezone'), '|', getenv('WHO'), '|', getcwd(), '|', PHP_SAPI;")
        .ini("memory_limit", "77M")
        .ini("date.timezone", "Europe/Vienna")
        .env("WHO", "me; \\\"$you\\\"")
        .start();
    let expected = format!("77M|Europe/Vienna|me; \"$you\"|{}|fpm-fcgi", server.root.display());
    assert_eq!(server.get("/").text(), expected);
}

/// `error_reporting` takes the constants that php.ini takes, and settings behind it are still read.
#[test]
fn error_levels_are_what_php_ini_makes_of_them() {
    for (levels, expected) in [
        ("E_ALL & ~E_DEPRECATED", "22527"),
        ("E_ERROR|E_WARNING", "3"),
        ("E_ALL", "30719"),
        ("8191", "6143"),
        ("E_ALL &", "0"),
    ] {
        // What follows is read too. Without E_STRICT, 2048, which E_ALL of PHP 8.4 no longer has.
        let server = Setup::empty()
            .file(
                "index.php",
                "<?php echo error_reporting() & ~2048, '|', ini_get('user_agent'), '|', ini_get('memory_limit');",
            )
            .ini("error_reporting", levels)
            .ini("memory_limit", "77M")
            .ini("user_agent", "E_ALL; ~x (E_NOTICE)")
            .start();
        assert_eq!(server.get("/").text(), format!("{expected}|E_ALL; ~x (E_NOTICE)|77M"), "{levels}");
    }
}

/// A child that a script forks writes into no response and disturbs no later request.
#[test]
fn a_forked_child_of_php_code_harms_nobody() {
    let server = Setup::app("plain")
        .file("fork.php", "<?php $p = pcntl_fork(); if ($p === 0) { echo 'child'; exit(3); } pcntl_waitpid($p, $s); echo 'parent ', pcntl_wexitstatus($s);")
        .file("fork_on.php", "<?php $p = pcntl_fork(); echo $p === 0 ? 'child' : 'parent'; if ($p) pcntl_waitpid($p, $s);")
        .start();
    for _ in 0..20 {
        assert_eq!(server.get("/fork.php").text(), "parent 3");
        assert_eq!(server.get("/fork_on.php").text(), "parent");
        assert_eq!(server.get("/").text(), "Hello World!");
    }
}

/// A script that may not be read is 403, and one that is gone is 404 or the front controller's.
#[test]
fn a_missing_or_closed_script_is_answered_as_under_fpm() {
    use std::os::unix::fs::PermissionsExt;
    let server = Setup::app("plain").file("closed.php", "<?php echo 1;").file("gone.php", "<?php echo 1;").start();
    std::fs::set_permissions(server.root.join("closed.php"), std::fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(server.get("/closed.php").status, 403);
    assert_eq!(server.get("/gone.php").text(), "1");
    std::fs::remove_file(server.root.join("gone.php")).unwrap();
    // Remembered for a second at most: first PHP says that it is gone, then the front controller answers.
    let answer = server.get("/gone.php");
    assert!(answer.status == 404 || answer.text() == "Hello World!", "{answer:?}");
}

/// Only a declared proxy's forwarding headers reach PHP.
#[test]
fn forwarding_headers_are_believed_of_declared_proxies_only() {
    let headers = [("X-Forwarded-For", "9.9.9.9"), ("X-Forwarded-Proto", "https"), ("Forwarded", "for=9.9.9.9")];
    for (line, expected) in [("", 0), ("proxies = [\"10.0.0.0/8\"]", 0), ("proxies = [\"127.0.0.0/8\"]", 2)] {
        let server = Setup::app("plain").server(line).start();
        let text = server.client().request("GET", "/server.php", &headers, b"").text();
        assert_eq!(text.matches("FORWARDED").count(), expected, "{line}: {text}");
    }
}

/// Uploads that break off leave no file and no descriptor.
#[test]
fn a_broken_off_upload_leaves_nothing_behind() {
    let setup = Setup::app("plain").application("workers = 1");
    let temporary = setup.writable("uploads");
    let server = setup.ini("upload_tmp_dir", &temporary).start();
    server.get("/");
    let worker = server.workers()[0];
    let descriptors = || std::fs::read_dir(format!("/proc/{worker}/fd")).unwrap().count();
    let before = descriptors();
    let (kind, body) = multipart(&[], &[("file", "large", "text/plain", &vec![b'x'; 300_000])]);
    for _ in 0..5 {
        let mut client = server.client();
        let head = format!(
            "POST /echo.php HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.send(head.as_bytes()).unwrap();
        client.send(&body[..200_000]).unwrap();
        wait_until("PHP writes the upload", 10, || std::fs::read_dir(&temporary).unwrap().count() > 0);
        drop(client);
        wait_until("the upload is gone", 10, || std::fs::read_dir(&temporary).unwrap().count() == 0);
    }
    assert_eq!(server.get("/").text(), "Hello World!");
    assert_eq!(server.workers(), [worker], "it is still the same worker");
    assert_eq!(descriptors(), before);
}

/// A script that does not read its body responds before the body has come.
#[test]
fn a_script_that_ignores_its_body_is_answered_before_it_has_come() {
    let server = Setup::app("plain").application("workers = 1").start();
    let mut client = server.client();
    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n").unwrap();
    client.send(&[b'x'; 50_000]).unwrap();
    assert_eq!(client.read(false).unwrap().text(), "Hello World!");
    assert_eq!(server.get("/").text(), "Hello World!");
}

/// A script that reads a body which breaks off ends, and its worker serves the next request.
#[test]
fn a_body_that_breaks_off_ends_the_script_that_reads_it() {
    let setup = Setup::app("plain").file(
        "read.php",
        "<?php ignore_user_abort(true); $n = strlen(file_get_contents('php://input')); file_put_contents($_GET['to'], $n);",
    );
    let marker = std::env::temp_dir().join(format!("reprise-read-{}", std::process::id()));
    let server = setup.application("workers = 1").start();
    let mut client = server.client();
    let target = format!("/read.php?to={}", marker.display());
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n").as_bytes()).unwrap();
    client.send(&[b'x'; 50_000]).unwrap();
    drop(client);
    assert_eq!(server.get("/").text(), "Hello World!");
    assert!(!marker.exists(), "the script took a part for the whole");
    server.client().request("PUT", &target, &[], &[b'x'; 50_000]);
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "50000");
    std::fs::remove_file(&marker).unwrap();
}

/// Shutdown functions can read the body and write output.
#[test]
fn shutdown_functions_may_still_read_and_write() {
    let server = Setup::empty()
        .file(
            "index.php",
            "<?php register_shutdown_function(function () { echo getcwd(), ' ', strlen(file_get_contents('php://input')); });",
        )
        .start();
    let body = vec![b'x'; 100_000];
    assert_eq!(server.client().request("PUT", "/", &[], &body).text(), "/ 100000");
}

/// A script that sets a 1xx status cannot make the front read its output as a head.
#[test]
fn an_informational_status_cannot_forge_an_answer() {
    let server = Setup::empty()
        .file(
            "index.php",
            "<?php http_response_code(103); echo \"\\x01\\0\\xc8\\0\\0\\0\\0\\0\\x03\\0\\0\\0\\0\\0\\0\\0forged\";",
        )
        .start();
    let answer = server.get("/");
    assert_eq!((answer.status, answer.body.len()), (200, 22));
}
