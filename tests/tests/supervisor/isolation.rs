//! Who runs what, and what PHP code can reach.

use nix::sys::signal::Signal;
use tests::process::is_root;
use tests::{Setup, process, wait_until};

/// All four ids of a process.
fn ids(pid: i32, field: &str) -> Vec<String> {
    process::status(pid, field).expect("a living process").split_whitespace().map(str::to_owned).collect()
}

/// Front, prototype and workers have neither root's ids nor capabilities.
#[test]
fn php_front_and_prototype_never_run_as_root() {
    let server = Setup::app("plain").start();
    let family = [server.front().unwrap(), server.prototype().unwrap()].into_iter().chain(server.workers());
    for pid in family {
        for field in ["Uid", "Gid"] {
            let ids = ids(pid, field);
            assert!(!is_root() || ids.iter().all(|id| id != "0"), "{:?} has {field} {ids:?}", process::name(pid));
        }
        assert_eq!(process::status(pid, "CapEff").as_deref(), Some("0000000000000000"));
        let groups = process::status(pid, "Groups").unwrap_or_default();
        assert!(!is_root() || !groups.split_whitespace().any(|group| group == "0"), "{groups}");
    }
    if is_root() {
        let (front, php) = (ids(server.front().unwrap(), "Uid"), ids(server.prototype().unwrap(), "Uid"));
        assert_ne!(front, php, "front and PHP have users of their own");
    }
    assert_eq!(process::status(server.front().unwrap(), "NoNewPrivs").as_deref(), Some("1"));
    let text = server.get("/server.php").text();
    assert!(!is_root() || text.contains("\"USER\": \"www-data\""), "{text}");
}

/// PHP as root, or as another user without root's rights, is refused with exit code 77.
#[test]
fn root_is_refused_for_php() {
    if !is_root() {
        // Without root nobody is changed at all: asking for another user is refused.
        let mut server = Setup::app("plain").application("user = \"nobody\"").launch();
        assert_eq!(server.wait(20), 77, "{}", server.log());
        return;
    }
    let mut server = Setup::app("plain").application("user = \"root\"").launch();
    assert_eq!(server.wait(20), 77, "{}", server.log());
    assert!(server.log().contains("never run as root"), "{}", server.log());
}

/// Reads all of its own memory that is the slab, through /proc/self/mem, and looks for a text. `own` is what the request
/// itself carries: proof that the search works.
const SEARCH: &str = r#"<?php
$found = ['secret' => 0, 'own' => 0, 'bytes' => 0];
$secret = str_rot13($_GET['rot13']);
$mem = fopen('/proc/self/mem', 'rb');
foreach (file('/proc/self/maps') as $line) {
    if (!preg_match('~^([0-9a-f]+)-([0-9a-f]+) rw-s .*reprise-slab~', $line, $m)) continue;
    $from = hexdec($m[1]); $to = hexdec($m[2]); $tail = '';
    for ($at = $from; $at < $to; $at += 1 << 20) {
        fseek($mem, $at);
        $part = '';
        while (strlen($part) < min(1 << 20, $to - $at) && ($more = fread($mem, min(1 << 20, $to - $at) - strlen($part))) !== false && $more !== '') $part .= $more;
        $found['bytes'] += strlen($part);
        $found['secret'] += substr_count($tail . $part, $secret);
        $found['own'] += substr_count($part, 'own-' . 'marker');
        $tail = substr($part, -64);
    }
}
echo json_encode($found);
"#;

/// No byte of an earlier request is found in the shared memory of its lane.
#[test]
fn a_released_exchange_holds_nothing() {
    let server =
        Setup::app("plain").application("workers = 1").application("queue = 64").file("search.php", SEARCH).start();
    let secret = "Fhcre-Frperg-Inyhr-1234567890";
    let plain: String = secret.chars().map(rot13).collect();
    let mut client = server.client();
    // In head, body and answer, whole and cut off, and from a worker that is killed with it.
    let large = plain.repeat(4000);
    let echo =
        client.request("POST", "/echo.php", &[("X-Secret", &plain), ("Content-Type", "text/plain")], large.as_bytes());
    assert!(echo.text().contains(&plain), "{}", echo.text());
    let crash =
        client.request("POST", &format!("/crash.php?x={plain}"), &[("Content-Type", "text/plain")], large.as_bytes());
    assert_eq!(crash.status, 502);
    let mut gone = server.client();
    gone.send(
        format!("POST /sleep.php?ms=300&s={plain} HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n{plain}")
            .as_bytes(),
    )
    .unwrap();
    drop(gone);
    let mut answer = String::new();
    wait_until("nothing of it is left", 10, || {
        answer = client.request("GET", &format!("/search.php?rot13={secret}"), &[("X-Own", "own-marker")], b"").text();
        answer.contains("\"secret\":0")
    });
    // The search itself works: it found what this very request carries, in all of the slab.
    assert!(!answer.contains("\"own\":0"), "{answer}");
    let bytes: u64 = answer.rsplit_once("\"bytes\":").unwrap().1.trim_end_matches('}').parse().unwrap();
    assert!(bytes > 10 << 20, "{answer}");
}

fn rot13(letter: char) -> char {
    match letter {
        'a'..='z' => char::from((letter as u8 - b'a' + 13) % 26 + b'a'),
        'A'..='Z' => char::from((letter as u8 - b'A' + 13) % 26 + b'A'),
        other => other,
    }
}

/// A script can neither read, trace nor signal the front and the supervisor.
#[test]
fn php_reaches_neither_the_front_nor_the_supervisor() {
    const REACH: &str = r#"<?php
$pid = (int) $_GET['pid'];
$tried = [];
foreach (['mem', 'maps', 'environ', 'fd/3', 'fd/5', 'pagemap'] as $what) {
    $handle = @fopen("/proc/$pid/$what", 'rb');
    $tried[$what] = $handle !== false && @fread($handle, 1) !== false && @fread($handle, 1) !== '';
}
$tried['list'] = @scandir("/proc/$pid/fd") !== false;
$tried['kill'] = $_GET['kill'] === '1' && @posix_kill($pid, 0);
echo json_encode($tried), implode(',', array_map(fn ($fd) => @readlink("/proc/self/fd/$fd"), array_diff(@scandir('/proc/self/fd') ?: [], ['.', '..'])));
"#;
    let server = Setup::app("plain").file("reach.php", REACH).start();
    for pid in [server.front().unwrap(), server.pid()] {
        // Without root all are one user's, who may signal his processes but not read this one's memory.
        let answer = server.get(&format!("/reach.php?pid={pid}&kill={}", u8::from(is_root()))).text();
        assert!(!answer.contains("true"), "PHP reached process {pid}: {answer}");
        assert!(
            !answer.contains("reprise-slab") && !answer.contains("reprise-settings"),
            "a descriptor is left open: {answer}"
        );
    }
}

/// Programs that PHP starts have none of the server's descriptors or shared memory.
#[test]
fn programs_that_php_starts_inherit_nothing() {
    let server = Setup::app("plain")
        .file("exec.php", "<?php exec('ls -l /proc/self/fd; grep -c reprise-slab /proc/self/maps', $out); echo implode(\"\\n\", $out);")
        .start();
    let answer = server.get("/exec.php").text();
    assert!(answer.trim_end().ends_with('0'), "the slab is mapped: {answer}");
    for name in ["eventfd", "socket:", "reprise-slab", "pipe:"] {
        let lines: Vec<_> = answer.lines().filter(|line| line.contains(name)).collect();
        // exec() itself makes a pipe for standard output; standard error is the way to the server's log.
        let inherited =
            lines.iter().filter(|line| !line.contains(" 1 -> pipe:") && !line.contains(" 2 -> pipe:")).count();
        assert_eq!(inherited, 0, "{name} is inherited: {answer}");
    }
}

/// A process that PHP has detached does not delay the server's end.
#[test]
fn a_daemonised_grandchild_does_not_keep_the_server_from_ending() {
    let mut server = Setup::app("plain")
        .file("daemon.php", "<?php exec('setsid sleep 30 >/dev/null 2>&1 & echo $!', $out); echo $out[0];")
        .start();
    let pid: i32 = server.get("/daemon.php").text().trim().parse().unwrap();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(10), 0);
    process::kill(pid, Signal::SIGKILL);
}

/// A user without root's rights can serve.
#[test]
fn an_ordinary_user_can_serve() {
    if !is_root() {
        let server = Setup::app("plain").start();
        assert_eq!(server.get("/").text(), "Hello World!");
        return;
    }
    // As root, become one: the binaries are reached through a copy.
    let setup = Setup::app("plain");
    let home = setup.directory().join("home");
    std::fs::create_dir(&home).unwrap();
    for name in ["reprise", "reprise-php"] {
        std::fs::copy(tests::server::program().with_file_name(name), home.join(name)).unwrap();
    }
    nix::unistd::chown(&home, Some(nix::unistd::Uid::from_raw(33)), Some(nix::unistd::Gid::from_raw(33))).unwrap();
    let port = tests::server::free_port();
    let log = std::fs::File::create(home.join("log")).unwrap();
    let mut child = std::process::Command::new("setpriv")
        .args(["--reuid=33", "--regid=33", "--clear-groups"])
        .arg(home.join("reprise"))
        .arg("serve")
        .arg(setup.document_root().parent().unwrap())
        .args(["--listen", &format!("127.0.0.1:{port}"), "--workers", "2", "--access-log", "off"])
        .env_remove("XDG_RUNTIME_DIR")
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    wait_until("it answers", 20, || {
        assert!(child.try_wait().unwrap().is_none(), "{}", std::fs::read_to_string(home.join("log")).unwrap());
        tests::client::connect(port).is_ok_and(|stream| {
            tests::Client::over(stream, "a").try_request("GET", "/", &[], b"").is_ok_and(|a| a.status == 200)
        })
    });
    let uid = process::status(child.id() as i32, "Uid").unwrap();
    assert!(uid.starts_with("33"), "{uid}");
    // The front shares the user here, and is closed to PHP all the same.
    process::kill(child.id() as i32, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A script can neither truncate the server's log nor write a line that looks like the server's or the access log's.
#[test]
fn php_cannot_touch_the_servers_log() {
    let server = Setup::app("plain")
        .server("access_log = \"stdout\"")
        .file(
            "log.php",
            "<?php $r = []; foreach (['stdout', 'stderr'] as $name) { $f = fopen(\"php://$name\", 'w');
             $r[] = @ftruncate($f, 0); fwrite($f, \"\\n127.0.0.1 - forged $name\\n\"); } echo json_encode($r);",
        )
        .start();
    assert_eq!(server.get("/log.php").text(), "[false,false]");
    for name in ["stdout", "stderr"] {
        wait_until(&format!("{name} is in the log"), 5, || server.log().contains(&format!("forged {name}")));
    }
    let log = server.log();
    assert!(log.starts_with("Reprise "), "the log was truncated");
    assert!(!log.lines().any(|line| line.starts_with("127.0.0.1 - forged")), "{log}");
}

/// A state directory with other files in it is refused, and nothing in it changes.
#[test]
fn a_directory_that_is_not_ours_is_left_alone() {
    let setup = Setup::app("plain");
    let foreign = setup.directory().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("precious"), "x").unwrap();
    let config = setup.directory().join("foreign.toml");
    let text = format!(
        "state_dir = \"{}\"\n[[application]]\nroot = \"{}\"\n",
        foreign.display(),
        setup.document_root().display()
    );
    std::fs::write(&config, text).unwrap();
    let listen = format!("127.0.0.1:{}", tests::server::free_port());
    let output = std::process::Command::new(tests::server::program())
        .args(["serve", "--listen", &listen, "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{said}");
    assert!(said.contains("precious") && foreign.join("precious").exists(), "{said}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&foreign).unwrap().permissions().mode() & 0o777, 0o755);
}
