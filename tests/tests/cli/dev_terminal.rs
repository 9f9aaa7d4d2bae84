//! `reprise dev` on a terminal and towards other machines: keys, mails and logs, https, and what is refused.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::server::{Directory, free_port, program};
use tests::{Client, Setup, tls, wait_for, wait_until};

/// Runs the command line and says how it ended.
fn refused(flags: &[&str]) -> (Option<i32>, String) {
    let directory = Directory::new();
    fs::write(directory.0.join("index.php"), "<?php").unwrap();
    let output = Command::new(program()).arg("dev").arg(&directory.0).args(flags).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn other_machines_are_let_in_only_if_that_is_said_twice() {
    for address in ["0.0.0.0:1", "[::]:1", ":1", "*:1", "192.0.2.1:1", "https://0.0.0.0:1"] {
        let (code, text) = refused(&["--listen", address]);
        assert!(code == Some(64) && text.contains("other machines") && text.contains("--public"), "{address}: {text}");
    }
    let port = free_port();
    let server = Setup::empty().file("index.php", "<?php echo 'x';").develop(&[
        "--public",
        "--listen",
        &format!("0.0.0.0:{port}"),
    ]);
    assert!(server.log().contains("warning: --public"), "{}", server.log());
    assert_eq!(tests::get(port, "/").text(), "x");
}

#[test]
fn mistakes_of_the_command_line_are_named() {
    for (flags, part) in [
        (&["--editor", "nothing"][..], "'nothing' is no editor"),
        (&["--editor", "javascript:%f"], "is no editor"),
        (&["--ini", "opcache.revalidate_freq=60"], "opcache.revalidate_freq is always \"0\""),
        (&["--ini", "novalue"], "not NAME=VALUE"),
    ] {
        let (code, text) = refused(flags);
        assert!(code == Some(64) && text.contains(part), "{flags:?}: {code:?} {text}");
    }
    let output = Command::new(program()).args(["dev", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    // Nobody sees a save in a phar, or any other file.
    let directory = Directory::new();
    fs::write(directory.0.join("app.phar"), "").unwrap();
    let output = Command::new(program()).arg("dev").arg(directory.0.join("app.phar")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(64) && text.contains("app.phar: is a file"), "{text}");
}

/// A page of the web may let a name of its own lead to this machine. It gets nothing by that name.
#[test]
fn only_local_names_are_answered() {
    let server = Setup::empty().file("index.php", "<?php echo 'x';").develop(&["--host", "shop.test"]);
    let status = |host: &str| {
        let mut client: Client = server.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        client.read(false).unwrap().status
    };
    for host in ["localhost", "localhost:8080", "127.0.0.1", "[::1]:80", "shop.localhost", "shop.test"] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["attacker.example", "localhost.attacker.example", "10.0.0.1"] {
        assert_eq!(status(host), 421, "{host}");
    }
}

#[test]
fn mails_and_logs_are_in_the_terminal() {
    let script = "<?php error_log('a line of the log');
        var_dump(mail('a@b.example', 'Hello', \"First line\\n.\\n\\x1b[2J last\"), mail('big@b.example', 'Big', str_repeat(\"x\\n\", 100000)));";
    // PHP's user runs the program: it lies where that user may go.
    let programs = Directory::new();
    for name in ["reprise", "reprise-php"] {
        fs::copy(program().with_file_name(name), programs.0.join(name)).unwrap();
    }
    let server = Setup::empty().file("index.php", script).command([programs.0.join("reprise")]).develop(&[]);
    assert_eq!(server.get("/").text().matches("bool(true)").count(), 2);
    wait_until("all of it is shown", 20, || {
        server.log().contains("bytes more") && server.log().contains("\"GET / HTTP/1.1\" 200")
    });
    let log = server.log();
    for part in [
        "a line of the log",
        "mail, not sent",
        "| To: a@b.example",
        "| Subject: Hello",
        "| First line",
        "\\x1b[2J last",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn https_is_by_the_authority_of_this_machine() {
    let directory = Directory::new();
    let port = free_port();
    let home = directory.0.join("data");
    let server = Setup::empty()
        .file("index.php", "<?php echo $_SERVER['HTTPS'] ?? 'off', ' ', $_SERVER['SERVER_PROTOCOL'];")
        .command([std::path::PathBuf::from("env"), format!("XDG_DATA_HOME={}", home.display()).into(), program()])
        .develop(&["--listen", &format!("https://127.0.0.1:{port}")]);
    let authority = home.join("reprise/local-ca/ca.pem");
    let got = tls::curl(&format!("https://localhost:{port}/"), &["--cacert", &authority.to_string_lossy()]);
    assert!(got.text.ends_with("on HTTP/1.1") || got.text.ends_with("on HTTP/2.0"), "{}", got.text);
    // In clear nothing is redirected: both are for the same browser.
    assert_eq!(server.get("/").text(), "off HTTP/1.1");
}

/// On a terminal of its own, made by script(1).
#[test]
fn keys_are_commands_and_the_terminal_is_as_before() {
    let directory = Directory::new();
    fs::write(directory.0.join("index.php"), "<?php echo 'x';").unwrap();
    let (port, log, opened) = (free_port(), directory.0.join("terminal.log"), directory.0.join("opened.txt"));
    let browser = directory.0.join("browser");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >'{}'\n", opened.display())).unwrap();
    fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let line = format!(
        "'{}' dev '{}' --listen 127.0.0.1:{port}; echo \"ended with $?\"; stty -a",
        program().display(),
        directory.0.display()
    );
    let mut terminal = Command::new("script")
        .args(["--quiet", "--flush", "--command", &line, "/dev/null"])
        .env("BROWSER", &browser)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&log).unwrap())
        .spawn()
        .expect("script, of bsdutils");
    let text = || fs::read_to_string(&log).unwrap_or_default();
    let mut keys = terminal.stdin.take().unwrap();
    let mut press = |key: &[u8]| keys.write_all(key).and_then(|()| keys.flush()).unwrap();
    wait_until("the keys are named", 30, || text().contains("keys: r restart"));
    tests::get(port, "/first");
    wait_until("requests are shown", 20, || text().contains("GET /first"));
    press(b"l");
    wait_until("they are not shown", 20, || text().contains("requests are not shown"));
    // Lines are written four times a second.
    let is_shown = |path: &str| {
        tests::get(port, path);
        let asked = Instant::now();
        wait_for("the next lines", 20, || {
            let shown = text().contains(&format!("GET {path}"));
            (shown || asked.elapsed() > Duration::from_secs(1)).then_some(shown)
        })
    };
    let mut number = 0;
    wait_until("requests are not shown any more", 20, || {
        number += 1;
        !is_shown(&format!("/second{number}"))
    });
    let generations = text().matches("reloaded: ").count();
    press(b"r");
    wait_until("it is made anew", 20, || {
        text().contains("key r") && text().matches("reloaded: ").count() > generations
    });
    press(b"x\x1b[Al");
    wait_until("they are shown again", 20, || text().contains("requests are shown"));
    wait_until("requests are shown again", 20, || {
        tests::get(port, "/third");
        text().contains("GET /third")
    });
    press(b"o");
    let url = format!("http://localhost:{port}\n");
    wait_until("the browser is opened", 20, || fs::read_to_string(&opened).is_ok_and(|said| said == url));
    press(b"q");
    wait_until("it ends", 30, || text().contains("ended with 0") && text().contains("rows"));
    terminal.wait().unwrap();
    let text = text();
    assert!(text.contains(" icanon") && text.contains(" echo "), "{text}");
}
