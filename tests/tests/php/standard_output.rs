//! What PHP's processes and their children write to standard output: lines of the server's log, in all modes and in boots.

use tests::{Setup, modes, wait_until};

const SCRIPT: &str = r#"<?php
$kept = fopen('php://stdout', 'w');
fwrite($kept, "the boot writes\n");
$handle = function () use ($kept) {
    $out = fopen('php://stdout', 'w');
    switch ($_GET['what'] ?? '') {
        case 'stream': fwrite($out, "a line\nand another\n"); break;
        case 'kept': fwrite($kept, "by the boot's stream\n"); break;
        case 'child': proc_close(proc_open('echo a child', [], $pipes)); break;
        case 'grandchild': exec('sh -c "echo a grandchild" >&2'); break;
        case 'bytes': fwrite($out, "bytes \xff\x1b[2J\x1e{}\n"); break;
        case 'forged': fwrite($out, "2026-01-31T23:59:59Z error supervisor: forged\n"); break;
        case 'long': fwrite($out, str_repeat('long ', 4000) . "\n"); break;
        case 'library': FFI::cdef('int printf(const char *, ...);')->printf("a library prints\n"); break;
        case 'flags': var_dump(stream_set_blocking($out, false)); break;
        case 'part': fwrite($out, 'without an end'); break;
    }
    file_put_contents('php://output', 'the body');
};
"#;

/// Path, and what the log has of it behind the time.
const ROWS: [(&str, &str); 10] = [
    ("stream", " notice stdout app: and another"),
    ("kept", " notice stdout app: by the boot's stream"),
    ("child", " notice stdout app: a child"),
    ("grandchild", " notice stderr app: a grandchild"),
    ("bytes", " notice stdout app: bytes \\xff\\x1b[2J\\x1e{}"),
    ("forged", " notice stdout app: 2026-01-31T23:59:59Z error supervisor: forged"),
    ("long", " more bytes]"),
    ("library", " notice stdout app: a library prints"),
    ("flags", ""),
    ("part", " notice stdout app: without an end"),
];

#[test]
fn each_line_is_in_the_log_and_none_in_the_response() {
    for (mode, end, lines) in modes::modes() {
        let setup = Setup::empty().file("index.php", format!("{SCRIPT}{end}")).ini("ffi.enable", "1");
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        for (what, expected) in ROWS {
            let body = server.get(&format!("/?what={what}")).text();
            let flags = if what == "flags" { "bool(false)\n" } else { "" };
            assert_eq!(body, format!("{flags}the body"), "{mode}: {what}");
            let is_it = |line: &str| line.get(20..).is_some_and(|rest| rest.ends_with(expected));
            wait_until(&format!("{mode}: {what}"), 10, || server.log().lines().any(is_it));
        }
        let log = server.log();
        assert!(log.contains("Z notice stdout app: the boot writes\n"), "{mode}: {log}");
        assert!(!log.contains("recycled"), "{mode}: {log}");
    }
}

/// For collectors that read JSON: lines come as they were written, whole, in their order, and none is lost.
#[test]
fn output_that_is_not_decorated_is_passed_on_as_it_is() {
    let script = r#"<?php
        $out = fopen('php://stdout', 'w');
        for ($i = 0; $i < 3000; $i++) fwrite($out, json_encode(['n' => $i, 'pad' => str_repeat('é', 50)], JSON_UNESCAPED_UNICODE) . "\n");
        fwrite($out, '{"long":"' . str_repeat('x', 30000) . "\"}\n");
        fwrite(fopen('php://stderr', 'w'), "{\"a\tb\":1}\n");
        error_log('a message');
        echo 'ok';"#;
    let server = Setup::empty().file("index.php", script).application("decorate_output = false").start();
    assert_eq!(server.get("/").text(), "ok");
    wait_until("the last line", 10, || server.log().contains("a message"));
    let log = server.log();
    let numbered: Vec<&str> = log.lines().filter(|line| line.starts_with("{\"n\":")).collect();
    let expected: Vec<String> = (0..3000).map(|n| format!("{{\"n\":{n},\"pad\":\"{}\"}}", "é".repeat(50))).collect();
    assert_eq!(numbered, expected);
    let long = format!("\n{{\"long\":\"{}\"}}\n", "x".repeat(30000));
    assert!(log.contains(&long) && log.contains("\n{\"a\tb\":1}\n"), "{log}");
    assert!(log.lines().any(|line| line.contains("Z ") && line.contains("app: a message")), "{log}");
}
