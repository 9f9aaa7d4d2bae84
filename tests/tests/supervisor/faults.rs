//! Deaths under load: each costs its own request and nothing else.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::snapshot::is_sanitized;
use tests::{Client, Server, Setup, amount, process, wait_for, wait_until};

/// What became of the requests of a load.
#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    lost_in_php: AtomicU64,
    /// Connections that ended without an answer.
    broken: AtomicU64,
    /// Answers that cannot be: another's, or another status.
    wrong: Mutex<Vec<String>>,
}

/// Runs clients that send numbered requests until told to stop.
fn load<R>(server: &Server, clients: usize, path: &str, tally: &Tally, during: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = None;
                while !stop.load(Ordering::Relaxed) {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let Ok(stream) = client.take().map_or_else(|| tests::client::connect(server.port).map(open), Ok)
                    else {
                        tally.broken.fetch_add(1, Ordering::Relaxed);
                        std::thread::park_timeout(Duration::from_millis(2));
                        continue;
                    };
                    let mut connection: Client = stream;
                    match connection.try_request("GET", &format!("{path}id={id}"), &[], b"") {
                        Ok(answer) => {
                            note(tally, id, &answer);
                            client = Some(connection);
                        }
                        Err(_) => {
                            tally.broken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let _stopped = Stopped(&stop);
        during()
    })
}

/// Also if the test has failed: the clients are waited for.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open(stream: std::net::TcpStream) -> Client {
    Client::over(stream, "localhost")
}

fn note(tally: &Tally, id: u64, answer: &tests::Response) {
    let text = answer.text();
    match answer.status {
        200 if text.starts_with(&format!("id={id} ")) => tally.answered.fetch_add(1, Ordering::Relaxed),
        502 => tally.lost_in_php.fetch_add(1, Ordering::Relaxed),
        other => {
            tally.wrong.lock().unwrap().push(format!("{id}: {other} {text}"));
            0
        }
    };
}

impl Tally {
    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    fn assert_no_wrong(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{} wrong answers: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    }

    /// Waits until `more` further requests were answered.
    fn wait_for_more(&self, more: u64) {
        let from = self.answered();
        wait_until("requests are answered", 20, || self.answered() >= from + more);
    }
}

/// No request ran twice.
fn assert_none_ran_twice(journal: &std::path::Path) -> usize {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let mut runs: HashMap<&str, u32> = HashMap::new();
    for line in text.lines() {
        *runs.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).take(5).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    runs.len()
}

fn journalled(workers: usize) -> (Server, std::path::PathBuf) {
    journalled_with(workers, 1)
}

fn journalled_with(workers: usize, front_threads: usize) -> (Server, std::path::PathBuf) {
    let setup = Setup::app("faults")
        .server(&format!("front_threads = {front_threads}"))
        .application(&format!("workers = {workers}"));
    let journal = setup.directory().join("journal");
    std::fs::write(&journal, "").unwrap();
    std::fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let journal_text = journal.to_str().unwrap().to_owned();
    (setup.env("JOURNAL", &journal_text).start(), journal)
}

/// Kills workers at random points of a hello load.
fn kill_workers(kills: usize, front_threads: usize) {
    let (mut server, journal) = journalled_with(4, front_threads);
    let tally = Tally::default();
    let mut random = fastrand::Rng::with_seed(7);
    load(&server, 16, "/?", &tally, || {
        tally.wait_for_more(100);
        for _ in 0..kills {
            let worker = wait_for("a worker", 20, || {
                // So many deaths make a generation suspect: there may be another prototype by now.
                let workers = server.workers();
                (!workers.is_empty()).then(|| workers[random.usize(..workers.len())])
            });
            // A random point: up to a few requests later.
            let until = Instant::now() + Duration::from_micros(random.u64(..2000));
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            process::kill(worker, Signal::SIGKILL);
        }
        tally.wait_for_more(1000);
    });
    tally.assert_no_wrong();
    let (answered, lost) = (tally.answered(), tally.lost_in_php.load(Ordering::Relaxed));
    assert_eq!(tally.broken.load(Ordering::Relaxed), 0, "connections must not break");
    assert!(lost <= kills as u64, "{lost} requests were lost to {kills} kills");
    let runs = assert_none_ran_twice(&journal) as u64;
    assert!(runs >= answered && runs <= answered + lost, "{runs} runs, {answered} answers, {lost} lost");
    // A drain waits for every exchange: one that is stuck would make it miss its deadline, and exit with 1.
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0, "an exchange was stuck");
    println!("{kills} kills: {answered} answered, {lost} lost in PHP");
}

/// REPRISE_KILLS says how many; ten thousand are one of the long runs.
#[test]
fn killed_workers_lose_only_their_own_requests() {
    let kills = std::env::var("REPRISE_KILLS").ok().and_then(|text| text.parse().ok());
    kill_workers(kills.unwrap_or_else(|| amount(100, 1000)), 1);
}

/// With several front threads, too, a killed worker costs no more than the request that it ran.
#[test]
fn several_front_threads_lose_no_more() {
    kill_workers(amount(60, 200), 3);
}

/// Whatever else the machine does: it is possible in a second, and does not take long at other times.
fn in_a_second(turns: impl Iterator<Item = Duration>) {
    let all: Vec<Duration> = turns.collect();
    let (best, worst) = (*all.iter().min().expect("a turn"), *all.iter().max().expect("a turn"));
    assert!(best < Duration::from_secs(1) && worst < tests::seconds(3), "service took {all:?} to come back");
}

/// Under load a killed prototype is replaced within a second, and only requests that ran are lost.
#[test]
fn a_killed_prototype_is_replaced_within_a_second() {
    let (mut server, journal) = journalled(3);
    let tally = Tally::default();
    load(&server, 8, "/?us=2000&", &tally, || {
        in_a_second((0..5).map(|_| {
            tally.wait_for_more(50);
            let old = wait_for("a prototype", 10, || server.prototype());
            let began = Instant::now();
            process::kill(old, Signal::SIGKILL);
            wait_until("the old prototype is gone", 5, || !process::is_alive(old));
            tally.wait_for_more(10);
            began.elapsed()
        }));
    });
    tally.assert_no_wrong();
    assert_eq!(tally.broken.load(Ordering::Relaxed), 0, "connections must not break");
    // Each kill costs at most what its three workers were running.
    assert!(tally.lost_in_php.load(Ordering::Relaxed) <= 15);
    assert_none_ran_twice(&journal);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
}

/// Under load a killed front is replaced within a second, and listeners never close.
#[test]
fn a_killed_front_is_replaced_within_a_second() {
    let (mut server, journal) = journalled(3);
    let tally = Tally::default();
    load(&server, 8, "/?us=2000&", &tally, || {
        in_a_second((0..5).map(|_| {
            tally.wait_for_more(50);
            let old = wait_for("a front", 10, || server.front());
            let began = Instant::now();
            process::kill(old, Signal::SIGKILL);
            wait_until("the old front is gone", 5, || !process::is_alive(old));
            tally.wait_for_more(10);
            began.elapsed()
        }));
    });
    tally.assert_no_wrong();
    assert_eq!(tally.lost_in_php.load(Ordering::Relaxed), 0);
    assert_none_ran_twice(&journal);
    let workers = wait_for("workers", 10, || Some(server.workers()).filter(|workers| workers.len() == 3));
    assert_eq!(workers.len(), 3, "the old front's workers are gone");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
}

/// After the supervisor is killed all its processes end, and requests that run get their response.
#[test]
fn nothing_is_left_over_of_a_killed_supervisor() {
    let (mut server, _) = journalled(3);
    let tally = Tally::default();
    let family: Vec<i32> =
        [server.front().unwrap(), server.prototype().unwrap()].into_iter().chain(server.workers()).collect();
    let mut slow = server.client();
    slow.send(b"GET /?us=500000&id=slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    load(&server, 4, "/?", &tally, || {
        tally.wait_for_more(50);
        server.signal(Signal::SIGKILL);
        wait_until("the supervisor is gone", 5, || !process::is_alive(server.pid()));
    });
    assert_eq!(server.wait(5), -9);
    tally.assert_no_wrong();
    assert_eq!(tally.lost_in_php.load(Ordering::Relaxed), 0, "what is in PHP is still answered");
    assert_eq!(slow.read(false).unwrap().status, 200, "what is in PHP is still answered");
    wait_until("nothing is left over", 10, || !family.iter().any(|&pid| process::is_alive(pid)));
    // Its place is free: same address, same state directory.
    let log = std::fs::File::create(server.directory().join("second.log")).unwrap();
    let began = Instant::now();
    let mut second = std::process::Command::new(tests::server::program())
        .args(["serve", "--config"])
        .arg(server.directory().join("reprise.toml"))
        .stderr(log.try_clone().unwrap())
        .stdout(log)
        .spawn()
        .unwrap();
    wait_until("a second server answers", 10, || {
        tests::client::connect(server.port)
            .is_ok_and(|stream| open(stream).try_request("GET", "/?id=1", &[], b"").is_ok())
    });
    assert!(began.elapsed() < tests::seconds(2));
    process::kill(second.id() as i32, Signal::SIGTERM);
    assert_eq!(second.wait().unwrap().code(), Some(0));
}

/// A segmentation fault in PHP gives 502 or ends a begun response, is logged, and costs no other request.
#[test]
fn a_crash_in_php_costs_its_own_request() {
    let server = Setup::app("plain").start();
    let mut client = server.client();
    for round in 0..5 {
        let crash = client.get("/crash.php");
        assert_eq!((crash.status, crash.header("reprise-refused")), (502, Some("worker-died")), "round {round}");
        assert_eq!(client.get("/").text(), "Hello World!", "round {round}");
    }
    wait_until("the crash is in the log", 5, || server.log().contains("was killed by SIGSEGV"));
    // Half an answer cannot be taken back: the connection ends without the last chunk. Where the front hears of the death before it has sent any of it, it is 502.
    let begun = |client: &mut Client| {
        client.send(b"GET /crash.php?flush=1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let head = client.read_head().unwrap();
        assert!([200, 502].contains(&head.status), "{}", head.status);
        head.status == 200
    };
    let mut client = (0..20).map(|_| server.client()).find_map(|mut client| begun(&mut client).then_some(client));
    let client = client.as_mut().expect("a response that has begun");
    let error = loop {
        match client.read_chunk() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a broken answer looked complete"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset), "{error}");
}

/// An endless loop gets 504 after `request_timeout`, and the next request is served.
#[test]
fn an_endless_loop_is_ended_by_the_time_limit() {
    let server = Setup::app("plain").application("workers = 1").application("request_timeout = \"1s\"").start();
    let began = Instant::now();
    let mut client = server.client();
    let answer = client.get("/loop.php");
    assert_eq!((answer.status, answer.header("reprise-refused")), (504, Some("request-timeout")));
    assert!(began.elapsed() < tests::seconds(4), "{:?}", began.elapsed());
    assert_eq!(client.get("/").text(), "Hello World!");
}

/// If PHP does not start at the server's start, the exit code is 70 and the log names the application and the reason.
#[test]
fn php_that_does_not_start_is_reported_and_takes_no_traffic() {
    let setup = Setup::app("plain").ini("opcache.preload", "/nonexistent/preload.php");
    let mut server = setup.launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    let log = server.log();
    assert!(log.contains("preload") && log.contains("reprise: application 'app'"), "{log}");
}

/// Eight idle workers that are killed at once are back within a second, and no request fails meanwhile.
#[test]
fn workers_killed_while_idle_are_back_within_a_second() {
    let server = Setup::app("plain").application("workers = 8").start();
    in_a_second((0..5).map(|_| {
        let workers = wait_for("eight workers", 10, || Some(server.workers()).filter(|workers| workers.len() == 8));
        let began = Instant::now();
        workers.into_iter().for_each(|worker| process::kill(worker, Signal::SIGKILL));
        assert_eq!(server.get("/").text(), "Hello World!");
        began.elapsed()
    }));
}

/// The highest number of workers starts, serves, comes back after the prototype's death, and stops.
#[test]
fn hundreds_of_workers_start_serve_and_stop() {
    // With sanitizers each takes ten times the memory and time.
    let count = if is_sanitized() { 100 } else { amount(192, 1024) };
    let mut server = Setup::app("plain").application(&format!("workers = {count}")).start();
    wait_until("all are there", 30, || server.workers().len() == count);
    assert_eq!(server.get("/").text(), "Hello World!");
    let workers = server.workers();
    process::kill(server.prototype().unwrap(), Signal::SIGKILL);
    // A request that meets a worker which is about to die gets 502, as it would from any worker that dies.
    wait_until("the old workers are gone", 30, || !workers.iter().any(|&pid| process::is_alive(pid)));
    assert_eq!(server.get("/").text(), "Hello World!");
    wait_until("all are there again", 30, || server.workers().len() == count);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(30), 0);
}

/// A worker whose front was killed is ended after `drain_timeout`.
#[test]
fn workers_of_a_killed_front_do_not_outlive_the_drain() {
    let mut server = Setup::app("plain").server("drain_timeout = \"2s\"").start();
    // The server is ready with its first worker.
    let workers = wait_for("two workers", 10, || Some(server.workers()).filter(|workers| workers.len() == 2));
    let mut client = server.client();
    client.send(b"GET /sleep.php?ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("a worker sleeps in the script", 10, || {
        workers
            .iter()
            .any(|pid| std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("nanosleep")))
    });
    process::kill(server.front().unwrap(), Signal::SIGKILL);
    wait_until("the old workers are gone", 10, || !workers.iter().any(|&pid| process::is_alive(pid)));
    assert_eq!(server.get("/").text(), "Hello World!");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(10), 0);
}

/// An access log on a pipe that nobody reads stops no request.
#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let setup = Setup::app("plain");
    let port = tests::server::free_port();
    let errors = std::fs::File::create(setup.directory().join("errors")).unwrap();
    let mut child = std::process::Command::new(tests::server::program())
        .arg("serve")
        .arg(setup.document_root().parent().unwrap())
        .args(["--listen", &format!("127.0.0.1:{port}"), "--workers", "2"])
        .stdout(std::process::Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    wait_until("it listens", 20, || tests::client::connect(port).is_ok());
    let mut client = Client::new(port);
    let padding = "x".repeat(2000);
    for _ in 0..2000 {
        assert_eq!(client.get(&format!("/?{padding}")).status, 200);
    }
    process::kill(child.id() as i32, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A server that stops ends though its prototype is killed meanwhile.
#[test]
fn a_prototype_killed_during_a_drain_does_not_hold_it_up() {
    let mut server = Setup::app("plain").application("workers = 1").start();
    let mut client = server.client();
    client.send(b"GET /sleep.php?ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (prototype, worker) = (server.prototype().unwrap(), server.workers()[0]);
    wait_until("the script sleeps", 10, || {
        std::fs::read_to_string(format!("/proc/{worker}/wchan")).is_ok_and(|at| at.contains("nanosleep"))
    });
    server.signal(Signal::SIGTERM);
    wait_until("new connections are refused", 10, || tests::client::connect(server.port).is_err());
    process::kill(prototype, Signal::SIGKILL);
    assert_eq!(client.read(false).unwrap().status, 502);
    assert_eq!(server.wait(10), 0);
}
