//! Reloads: new code and configuration under load, refused ones, what they leave behind.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tests::server::copy;
use tests::snapshot::is_sanitized;
use tests::{Client, Server, Setup, amount, process, wait_for, wait_until};

/// How an entry is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Classic,
    Snapshot,
    Worker,
}

/// An application whose releases lie side by side, and a link to the one in use.
struct Releases {
    base: PathBuf,
    mode: Mode,
}

impl Releases {
    fn new(mode: Mode) -> (Releases, Setup) {
        let directory = tests::server::Directory::new();
        let releases = Releases { base: directory.0.clone(), mode };
        releases.write(1, true);
        releases.link(1);
        let setup = Setup::root(&directory.0.join("current/public"));
        // It lives as long as the system's temporary directory lets it; the test removes it.
        std::mem::forget(directory);
        (releases, setup)
    }

    /// Every file says which release it is of. `/?sleep` includes the second one late.
    fn write(&self, number: usize, is_sound: bool) {
        let public = self.base.join(format!("releases/{number}/public"));
        fs::create_dir_all(&public).unwrap();
        let (before, after) = match self.mode {
            Mode::Classic => ("(function () {", "})();"),
            Mode::Snapshot => ("reprise_snapshot(); (function () {", "})();"),
            Mode::Worker => ("while (reprise_handle_request(function () {", "})) {}"),
        };
        let broken = if is_sound { "" } else { "this is no PHP" };
        let index = format!(
            "<?php\n{broken}\n$release = {number};\n{before} $release = {number};\n\
             if (isset($_GET['sleep'])) usleep(150_000);\n\
             $part = require __DIR__ . '/part.php';\n\
             $body = strlen(file_get_contents('php://input'));\n\
             echo \"index $release part $part body $body mark \", ini_get('user_agent'), \"\\n\";\n{after}\n"
        );
        fs::write(public.join("index.php"), index).unwrap();
        fs::write(public.join("part.php"), format!("<?php return {number};\n")).unwrap();
    }

    fn link(&self, number: usize) {
        let next = self.base.join("next");
        symlink(self.base.join(format!("releases/{number}")), &next).unwrap();
        fs::rename(next, self.base.join("current")).unwrap();
    }

    fn remove(&self, number: usize) {
        let _ = fs::remove_dir_all(self.base.join(format!("releases/{number}")));
    }
}

impl Drop for Releases {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// The release that an answer is of; panics if it is of two, or no answer at all.
fn release(what: &str, answer: io::Result<tests::Response>, body: usize) -> usize {
    let answer = answer.unwrap_or_else(|error| panic!("{what}: lost: {error}"));
    let text = answer.text();
    assert_eq!(answer.status, 200, "{what}: {text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[0], "index", "{what}: {text}");
    assert_eq!(words[1], words[3], "{what}: an answer of two releases: {text}");
    assert_eq!(words[5].parse(), Ok(body), "{what}: {text}");
    words[1].parse().unwrap_or_else(|_| panic!("{what}: {text}"))
}

/// Steady load until told to stop: quick and slow answers and uploads that are in flight while reloads happen.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(port: u16, reloads: &Arc<AtomicUsize>) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let spawn = |what: &'static str| {
            let (stop, answered, reloads) = (stop.clone(), answered.clone(), reloads.clone());
            std::thread::spawn(move || {
                let mut client = Client::new(port);
                while !stop.load(Ordering::Relaxed) {
                    match what {
                        "get" => drop(release(what, client.try_request("GET", "/", &[], b""), 0)),
                        "slow" => drop(release(what, client.try_request("GET", "/?sleep", &[], b""), 0)),
                        "post" => drop(release(what, client.try_request("POST", "/", &[], &[b'x'; 3000]), 3000)),
                        _ => upload(port, &stop, &reloads),
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                    // Steady, not as much as the machine can take.
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            })
        };
        let threads = ["get", "get", "slow", "slow", "post", "upload", "upload"].map(spawn).into();
        Load { stop, answered, threads }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a client failed"));
        self.answered.load(Ordering::Relaxed)
    }
}

/// Sends half of a body, waits until a reload has happened, and sends the rest.
fn upload(port: u16, stop: &AtomicBool, reloads: &AtomicUsize) {
    const SIZE: usize = 400_000;
    let mut client = Client::new(port);
    let before = reloads.load(Ordering::Relaxed);
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n");
    client.send(head.as_bytes()).expect("the head of an upload");
    client.send(&vec![b'u'; SIZE / 2]).expect("half of an upload");
    wait_until("a reload, or the end", 60, || stop.load(Ordering::Relaxed) || reloads.load(Ordering::Relaxed) > before);
    client.send(&vec![b'u'; SIZE / 2]).expect("the rest of an upload");
    release("upload", client.read(false), SIZE);
}

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Memory of all processes that is of no file, in KiB, each page counted once.
fn memory(server: &Server) -> u64 {
    let of = |pid: i32| -> u64 {
        // One that has ended meanwhile has none.
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"));
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    server.processes().into_iter().map(of).sum()
}

fn count_of_prototypes(server: &Server) -> usize {
    process::children(server.pid()).iter().filter(|pid| process::is_php(**pid)).count()
}

fn settled(server: &Server) {
    wait_until("the old generations are gone", 40, || count_of_prototypes(server) == 1);
}

/// How many reloads a test does; REPRISE_RELOADS wins.
fn reloads() -> usize {
    let usual = if is_sanitized() { 10 } else { amount(10, 50) };
    std::env::var("REPRISE_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn nothing_is_lost(mode: Mode) {
    let (releases, setup) = Releases::new(mode);
    let server = setup.application("workers = 6").application("warmup = [\"/\"]").ini("user_agent", "m0").start();
    wait_until("the entry's lane serves", 30, || mode == Mode::Classic || server.log().contains("is booted"));
    let done = Arc::new(AtomicUsize::new(0));
    let load = Load::begin(server.port, &done);
    let (mut current, mut number, mut mark, mut refused) = (1, 1, 0, 0);
    let mut early = (0, 0, 0);
    let total = reloads();
    for turn in 0..total {
        let kind = turn % 5;
        let (is_expected, words) = match kind {
            // New code.
            0 | 2 => {
                number += 1;
                releases.write(number, true);
                releases.link(number);
                (true, "reloaded: app generation")
            }
            // A changed setting.
            1 => {
                mark += 1;
                server.reconfigure(&format!("\"m{}\"", mark - 1), &format!("\"m{mark}\""));
                (true, "reloaded: app generation")
            }
            // Code that is broken.
            3 => {
                releases.write(number + 1, false);
                releases.link(number + 1);
                (false, "no PHP")
            }
            // A broken file.
            _ => {
                server.reconfigure("workers = 6", "workers = many");
                (false, "'workers' takes a number")
            }
        };
        let (is_done, text) = server.reload();
        assert_eq!(is_done, is_expected, "{kind}: {text}\n{}", server.log());
        if is_done {
            assert!(text.contains(words), "{text}");
            current = number;
            done.fetch_add(1, Ordering::Relaxed);
        } else {
            refused += 1;
            assert!(text.contains("goes on as before"), "{text}");
            assert!(text.contains(words) || server.log().contains("syntax error"), "{words}: {text}");
        }
        let answer = server.get("/");
        assert!(answer.text().contains(&format!("index {current} part {current} ")), "{kind}: {}", answer.text());
        assert!(answer.text().contains(&format!("mark m{mark}")), "{}", answer.text());
        match kind {
            3 => {
                releases.link(number);
                releases.remove(number + 1);
            }
            4 => server.reconfigure("workers = many", "workers = 6"),
            _ => {}
        }
        if turn == total / 2 {
            let front = server.front().expect("a front");
            early = (descriptors(server.pid()), descriptors(front), memory(&server));
        }
    }
    let answered = load.end();
    settled(&server);
    println!("{total} reloads of {mode:?}, {refused} of them refused: {answered} requests, none lost");
    assert!(answered > total, "only {answered} requests were made");
    let front = server.front().expect("a front");
    wait_until("no more descriptors than in the middle", 20, || {
        descriptors(server.pid()) <= early.0 && descriptors(front) <= early.1
    });
    let late = memory(&server);
    // In the middle there may be one generation or two, warm or not.
    assert!(late < early.2 * 5 / 4 + 12 * 1024, "memory grows: {} KiB, then {late}", early.2);
    let errors: Vec<String> = server
        .log()
        .lines()
        .filter(|line| line.contains("PHP Fatal") || line.contains("died"))
        .map(str::to_owned)
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Reloads under load lose no request in classic mode, and none sees two releases mixed.
#[test]
fn reloads_lose_nothing_in_classic_mode() {
    nothing_is_lost(Mode::Classic);
}

/// Reloads under load lose no request in snapshot mode, and none sees two releases mixed.
#[test]
fn reloads_lose_nothing_from_a_snapshot() {
    nothing_is_lost(Mode::Snapshot);
}

/// Reloads under load lose no request in worker mode, and none sees two releases mixed.
#[test]
fn reloads_lose_nothing_in_worker_mode() {
    nothing_is_lost(Mode::Worker);
}

/// SIGHUP reloads, and twenty signals give a few reloads, not twenty.
#[test]
fn a_signal_reloads_too_and_several_join() {
    let (releases, setup) = Releases::new(Mode::Classic);
    let server = setup.start();
    releases.write(2, true);
    releases.link(2);
    for _ in 0..20 {
        server.signal(Signal::SIGHUP);
    }
    wait_until("the new release", 20, || server.get("/").text().contains("index 2"));
    settled(&server);
    let count = server.log().matches("reloaded:").count();
    assert!((1..=3).contains(&count), "{count} reloads for 20 signals:\n{}", server.log());
}

/// `opcache_reset()` makes a new generation.
#[test]
fn a_reset_of_opcache_is_a_new_generation() {
    let reset = "<?php echo json_encode(opcache_reset()), ' ', reprise_info()['generation'];";
    let server =
        Setup::empty().file("index.php", "<?php echo reprise_info()['generation'];").file("reset.php", reset).start();
    assert_eq!(server.get("/").text(), "1");
    assert_eq!(server.get("/reset.php").text(), "true 1");
    wait_until("the next generation", 20, || server.get("/").text() == "2");
    assert!(server.log().contains("a script called opcache_reset()"), "{}", server.log());
    settled(&server);
}

/// A reload whose configuration takes a restart is refused, and changes nothing.
#[test]
fn what_takes_a_restart_is_refused_as_a_whole() {
    let server = Setup::empty().file("index.php", "<?php echo ini_get('user_agent');").ini("user_agent", "old").start();
    server.reconfigure("\"old\"", "\"new\"");
    server.reconfigure("access_log = ", "front_threads = 2\naccess_log = ");
    let (is_done, text) = server.reload();
    assert!(!is_done && text.contains("front_threads") && text.contains("restart"), "{text}");
    assert_eq!(server.get("/").text(), "old");
    server.reconfigure("front_threads = 2\n", "");
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    assert_eq!(server.get("/").text(), "new");
}

/// An old generation whose request does not end is ended after `drain_timeout`.
#[test]
fn an_old_generation_that_does_not_drain_is_ended() {
    let script = "<?php if (isset($_GET['sleep'])) { file_put_contents($_GET['sleep'], 'x'); sleep(60); } echo 'done';";
    let setup = Setup::empty().file("index.php", script).server("drain_timeout = \"1s\"");
    let server = setup.start();
    let flag = server.root.join("flag");
    // PHP's user writes it.
    fs::set_permissions(&server.root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut slow = server.client();
    let path = format!("/?sleep={}", flag.display());
    slow.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    wait_until("the script sleeps", 10, || flag.exists());
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    assert_eq!(server.get("/").text(), "done");
    let answer = slow.read(false).expect("an answer");
    assert_eq!((answer.status, answer.header("reprise-refused")), (502, Some("worker-died")));
    assert!(server.log().contains("not drained after 1s"), "{}", server.log());
    settled(&server);
    assert_eq!(server.get("/").text(), "done");
}

/// A reload succeeds though the front or a prototype is killed meanwhile.
#[test]
fn a_dying_front_or_prototype_does_not_stop_a_reload() {
    let (releases, setup) = Releases::new(Mode::Snapshot);
    let server = setup.start();
    for round in 2..6 {
        releases.write(round, true);
        releases.link(round);
        let victim = if round % 2 == 0 { server.front() } else { server.prototype() };
        std::thread::scope(|scope| {
            let reload = scope.spawn(|| server.reload());
            process::kill(victim.expect("a process"), Signal::SIGKILL);
            let (is_done, text) = reload.join().expect("a reload");
            assert!(is_done, "{text}\n{}", server.log());
        });
        let expected = format!("index {round} part {round}");
        wait_for("the new release", 20, || {
            let answer = Client::new(server.port).try_request("GET", "/", &[], b"").ok()?;
            answer.text().contains(&expected).then_some(())
        });
    }
    settled(&server);
}

/// A reload adds and removes applications.
#[test]
fn applications_come_and_go() {
    let setup = Setup::empty().file("index.php", "<?php echo 'first';").application("hosts = [\"a.example\"]");
    let other = setup.directory().join("other");
    copy(setup.document_root(), &other);
    fs::write(other.join("index.php"), "<?php echo 'second';").unwrap();
    let server = setup.start();
    let ask = |host: &str| {
        let mut client = Client::over(tests::client::connect(server.port).unwrap(), host);
        let answer = client.get("/");
        (answer.status, answer.text())
    };
    assert_eq!(ask("a.example"), (200, "first".to_owned()));
    assert_eq!(ask("b.example").0, 421);
    let config = server.directory().join("reprise.toml");
    let old = fs::read_to_string(&config).unwrap();
    let added = format!("[[application]]\nname = \"b\"\nhosts = [\"b.example\"]\nroot = \"{}\"\n", other.display());
    fs::write(&config, old.replace("[[application]]", &format!("{added}[[application]]"))).unwrap();
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(ask("a.example"), (200, "first".to_owned()));
    assert_eq!(ask("b.example"), (200, "second".to_owned()));
    fs::write(&config, &old).unwrap();
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(ask("a.example"), (200, "first".to_owned()));
    assert_eq!(ask("b.example").0, 421);
    settled(&server);
}

/// A failed warm-up request refuses the start, or is logged, as `warmup_failure` says.
#[test]
fn a_server_does_not_start_cold() {
    let script = "<?php if ($_SERVER['REQUEST_URI'] === '/bad') { http_response_code(503); echo 'no database'; }";
    let setup = |failure: &str| {
        let line = format!("warmup = [\"/\", \"/bad\"]\nwarmup_failure = \"{failure}\"");
        Setup::empty().file("index.php", script).application(&line)
    };
    let mut server = setup("refuse").launch();
    assert_eq!(server.wait(30), 70, "{}", server.log());
    for words in [
        "warm-up 1 of 2: GET /: 200",
        "warm-up 2 of 2: GET /bad: 503: no database",
        "its warm-up request GET /bad failed",
    ] {
        assert!(server.log().contains(words), "{words}:\n{}", server.log());
    }
    let server = setup("log").start();
    assert!(server.log().contains("warm-up 2 of 2: GET /bad: 503: no database"), "{}", server.log());
    assert_eq!(server.get("/").status, 200);
}

/// `classic_paths` and all below them run in classic mode, other paths do not.
#[test]
fn paths_can_be_kept_in_classic_mode() {
    let index = "<?php reprise_snapshot(); echo reprise_info()['mode'];";
    let server = Setup::empty().file("index.php", index).application("classic_paths = [\"/cart\"]").start();
    for (path, mode) in [("/", "snapshot"), ("/cart", "classic"), ("/cart/1?x", "classic"), ("/carts", "snapshot")] {
        assert_eq!(server.get(path).text(), mode, "{path}");
    }
}

/// The control socket takes no unknown or long command, and no other user can connect to it.
#[test]
fn nobody_else_reaches_the_admin_socket() {
    let server = Setup::empty().file("index.php", "<?php echo 'up';").start();
    let socket = server.directory().join("state/admin.sock");
    let ask = |text: &[u8]| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("the socket");
        let _ = stream.write_all(text);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(ask(b"dance\n").contains("no such command"));
    assert_eq!(ask(&[b'x'; 5000]), "");
    assert_eq!(ask(b""), "");
    // Connections that say nothing hold nobody up.
    let idle: Vec<_> = (0..100).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    assert_eq!(server.get("/").text(), "up");
    drop(idle);
    assert!(ask(b"reload\n").contains("\"ok\":true"));
    let mode =
        fs::metadata(socket.parent().unwrap()).map(|one| std::os::unix::fs::PermissionsExt::mode(&one.permissions()));
    assert_eq!(mode.unwrap() & 0o777, 0o700);
}

/// A root that is a link to a release is followed when the link changes; a broken release is refused once.
#[test]
fn a_root_that_leads_elsewhere_is_followed() {
    let (releases, setup) = Releases::new(Mode::Snapshot);
    let server = setup.application("watch = true").start();
    wait_until("a snapshot", 20, || server.log().contains("is booted"));
    // Broken: the old goes on, and it is not tried again and again.
    releases.write(2, false);
    releases.link(2);
    wait_until("the refusal", 20, || server.log().contains("reload refused"));
    assert!(server.get("/").text().contains("index 1 part 1"));
    releases.write(3, true);
    releases.link(3);
    wait_until("the new release", 20, || server.get("/").text().contains("index 3 part 3"));
    settled(&server);
    assert_eq!(server.log().matches("leads to").count(), 2, "{}", server.log());
    assert!(
        !server.log().contains("was killed by"),
        "workers that were killed with a refused reload: {}",
        server.log()
    );
}
