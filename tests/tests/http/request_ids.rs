//! The id of a request: in PHP, in the access log and in what PHP logs, which names the request too.

use std::collections::BTreeSet;

use tests::{Server, Setup, modes, wait_for, wait_until};

const SCRIPT: &str = r#"<?php
error_log('the boot logs');
$handle = function () {
    switch ($_GET['do'] ?? '') {
        case 'log': error_log('logged'); break;
        case 'warn': echo $undefined; break;
        case 'long': error_log('begin ' . str_repeat('long ', 4000)); break;
        case 'late':
            register_shutdown_function(function () { error_log('logged late'); });
            fastcgi_finish_request();
            break;
        case 'throw': throw new Exception('thrown');
    }
    echo json_encode([$_SERVER['REQUEST_ID'] ?? null, $_SERVER['HTTP_X_REQUEST_ID'] ?? null, getenv('REQUEST_ID')]);
};
"#;

/// What is asked with, and what the line of the log has of the message.
const ROWS: [(&str, &str); 5] = [
    ("log", "logged"),
    ("warn", "Undefined variable"),
    ("long", " more bytes]"),
    ("late", "logged late"),
    ("throw", "Uncaught Exception: thrown"),
];

/// The line of the log that has a text and ends with what it says of its request.
fn line_about(server: &Server, text: &str, end: &str) -> String {
    wait_for(&format!("{text} {end}"), 10, || {
        let log = server.log();
        log.lines().find(|line| line.contains(text) && line.ends_with(end)).map(str::to_owned)
    })
}

#[test]
fn a_request_is_named_in_both_logs_and_in_php() {
    for (mode, end, lines) in modes::modes() {
        let end = end.replace("{}", "{ error_log('between two'); }");
        let setup = Setup::empty()
            .file("index.php", format!("{SCRIPT}{end}"))
            .server("access_log_format = \"json\"\nproxies = [\"127.0.0.1\"]")
            .ini("display_errors", "0");
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        let mut client = server.client();
        let mut ask = |path: &str, headers: &[(&str, &str)]| client.request("GET", path, headers, b"");
        for (number, (what, message)) in ROWS.iter().enumerate() {
            let id = format!("{mode}-{number}");
            let path = format!("/a%20page/{what}?do={what}&token=secret");
            ask(&path, &[("X-Request-Id", &id), ("X-Forwarded-For", "192.0.2.7")]);
            let about = format!(" [GET /a%20page/{what}; client 192.0.2.7; request {id}]");
            let line = line_about(&server, message, &about);
            assert!(!line.contains("secret"), "{mode}: {line}");
            wait_until(&id, 10, || server.access_log().contains(&format!("\"request_id\":\"{id}\"}}")));
        }
        let given = ask("/", &[("X-Request-Id", "f058ebd6-02f7")]).text();
        assert_eq!(given, "[\"f058ebd6-02f7\",\"f058ebd6-02f7\",\"f058ebd6-02f7\"]", "{mode}");
        let mut made = BTreeSet::new();
        for headers in [&[][..], &[], &[("X-Request-Id", "not fit")], &[("X-Request-Id", "a\"b\\")]] {
            let said: Vec<Option<String>> = serde_json::from_str(&ask("/", headers).text()).unwrap();
            let id = said[0].clone().unwrap();
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{mode}: {id}");
            wait_until(&id, 10, || server.access_log().contains(&id));
            assert!(made.insert(id), "{mode}: {made:?}");
        }
        let unrelated = ["the boot logs", "between two"];
        let log = server.log();
        let is_named = |line: &&str| unrelated.iter().any(|text| line.contains(text)) && line.contains("; request ");
        assert!(mode == "classic" || log.contains("the boot logs"), "{mode}: {log}");
        assert!(mode != "worker" || log.contains("between two"), "{mode}: {log}");
        assert_eq!(log.lines().filter(|_| mode != "classic").find(is_named), None, "{mode}");
    }
}

/// Who is no declared proxy cannot choose the id, and PHP has the client's header as it came.
#[test]
fn a_client_cannot_choose_its_id() {
    let server = Setup::empty().file("index.php", format!("{SCRIPT}$handle();")).start();
    let answer = server.client().request("GET", "/?do=log", &[("X-Request-Id", "mine")], b"").text();
    let said: Vec<Option<String>> = serde_json::from_str(&answer).unwrap();
    let id = said[0].clone().unwrap();
    assert!(id != "mine" && said[1].as_deref() == Some("mine") && said[2].as_ref() == Some(&id), "{answer}");
    line_about(&server, "logged", &format!(" [GET /; client 127.0.0.1; request {id}]"));
    wait_until("the access log has it", 10, || {
        server.access_log().lines().any(|line| line.ends_with(&format!(" {id}")))
    });
    assert!(!server.access_log().contains("mine"));
}
