//! Request targets as clients really send them, with nginx and PHP-FPM as judge: what those take is taken, and PHP gets the same.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use tests::client::connect;
use tests::modes::modes;
use tests::peer::Fpm;
use tests::server::Directory;
use tests::{Client, Server, Setup, amount};

/// What a script learns of its target, byte for byte.
const SCRIPT: &str = r"<?php
$handle = function () {
    foreach (['REQUEST_URI', 'QUERY_STRING', 'SCRIPT_NAME', 'PATH_INFO', 'DOCUMENT_URI', 'PHP_SELF'] as $name) {
        echo $name, '=', bin2hex($_SERVER[$name] ?? ''), ' ';
    }
    echo bin2hex(serialize($_GET));
};
";

/// Sends the target as it is. The status, and the body of a success.
fn ask(port: u16, target: &[u8]) -> (u16, String) {
    let mut client = Client::over(connect(port).unwrap(), "a");
    client.send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat()).unwrap();
    let answer = client.read(false).unwrap();
    (answer.status, if answer.status == 200 { answer.text() } else { String::new() })
}

fn root() -> Directory {
    let root = Directory::new();
    fs::write(root.0.join("index.php"), format!("{SCRIPT}$handle();")).unwrap();
    for name in [&b"caf\xe9.txt"[..], "caf\u{e9}.txt".as_bytes(), b"a\"b<c>`.txt", b"a|b^[c].txt", b"d\xff/e.txt"] {
        let path = root.0.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    root
}

/// Targets: every byte in path and query, and what browsers, scanners and frameworks send.
fn targets() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &b"/?q={\"a\":1}"[..],
        b"/caf%e9",
        b"/x/caf%e9?x=%e9",
        b"/index.php?a[]=1&a[b]=<2>&c=`d`",
        b"/index.php?a=b?c=d",
        b"/x/a%20b/%22?%zz",
        b"/index.php?a#b",
        b"/x/a#b?c",
        b"/x/a%23b?c%23d",
        b"/x/%7Ea//b/./c?//",
        b"/x/%c0%ae%c0%ae/%c0%af%e0%80%af?%ed%a0%80",
        b"http://a/x/x?\"y\"",
        b"/index.php?\xc3\xa9=\xe9",
        b"/x/\xf0\x9f\x98\x80?\xf0\x9f\x98\x80",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    for byte in 0..=255 {
        all.push([b"/x/a", &[byte][..], b"b?c"].concat());
        all.push([b"/index.php?a", &[byte][..], b"b"].concat());
    }
    all
}

/// A line end makes another message of it.
fn is_one_line(target: &[u8]) -> bool {
    !target.contains(&b'\n') && !target.contains(&b'\r')
}

/// Each target of the table gives PHP the same variables as under nginx, in every mode.
#[test]
fn targets_are_taken_as_under_nginx() {
    let root = root();
    let theirs = Fpm::start(&root.0);
    for (mode, end, lines) in modes().into_iter().step_by(amount(2, 1)) {
        let setup = Setup::root(&root.0);
        fs::write(root.0.join("index.php"), format!("{SCRIPT}{end}")).unwrap();
        let ours = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        fs::write(root.0.join("index.php"), format!("{SCRIPT}$handle();")).unwrap();
        let mut wrong = Vec::new();
        for target in targets().iter().filter(|target| is_one_line(target)) {
            let (our, their) = (ask(ours.port, target), ask(theirs.port, target));
            if our != their {
                wrong.push(format!("{} {our:?} {their:?}", target.escape_ascii()));
            }
        }
        assert!(wrong.is_empty(), "{mode}: {wrong:#?}");
    }
}

/// The nginx of these tests passes no path info.
#[test]
fn a_path_info_may_have_any_bytes() {
    let root = root();
    for (mode, end, lines) in modes() {
        fs::write(root.0.join("index.php"), format!("{SCRIPT}{end}")).unwrap();
        let server = lines.iter().fold(Setup::root(&root.0), |setup, line| setup.application(line)).start();
        for (target, info) in [
            (&b"/index.php/caf%e9"[..], &b"/caf\xe9"[..]),
            (b"/index.php/caf\xe9/\"<>`", b"/caf\xe9/\"<>`"),
            (b"/index.php/a%23b#c", b"/a#b"),
        ] {
            let hex: String = info.iter().map(|byte| format!("{byte:02x}")).collect();
            let (status, text) = ask(server.port, target);
            assert!(status == 200 && text.contains(&format!("PATH_INFO={hex} ")), "{mode}: {status} {text}");
        }
    }
}

/// Files with names of any bytes are found as by nginx.
#[test]
fn files_are_found_by_names_of_any_bytes() {
    let root = root();
    let (ours, theirs) = (Setup::root(&root.0).start(), Fpm::start(&root.0));
    for target in [
        &b"/caf%e9.txt"[..],
        b"/caf\xe9.txt",
        b"/caf%C3%A9.txt",
        b"/caf\xc3\xa9.txt",
        b"/a%22b%3Cc%3E%60.txt",
        b"/a\"b<c>`.txt",
        b"/a|b^[c].txt",
        b"/d%FF/e.txt",
        b"/d\xff/../d\xff/e.txt",
    ] {
        for port in [ours.port, theirs.port] {
            let mut client = Client::over(connect(port).unwrap(), "a");
            client.send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat()).unwrap();
            let answer = client.read(false).unwrap();
            assert_eq!(answer.status, 200, "{}", target.escape_ascii());
            assert!(answer.body.ends_with(b".txt"), "{}: {}", target.escape_ascii(), answer.text());
        }
    }
    has_lines(&ours);
}

/// Their lines in the log are as they came, escaped.
fn has_lines(server: &Server) {
    tests::wait_until("each has its line", 5, || server.access_log().lines().count() >= 9);
    let log = server.access_log();
    for line in ["\"GET /caf\\xE9.txt HTTP/1.1\" 200", "\"GET /a\\x22b<c>`.txt HTTP/1.1\" 200"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}
