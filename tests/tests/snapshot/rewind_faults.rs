//! What goes wrong in one request of a snapshot costs that request, and says so; the service goes on.

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::snapshot::{HAZARDS, Lane, always_both, snapshot, with_hazards};
use tests::{Client, amount, process, wait_for, wait_until};

const CASES: &str = r#"
case 'fine': static $count = 0; echo 'fine ', ++$count, ' ', strlen($held); break;
case 'crash': echo 'half'; $hazards->crash();
case 'overflow': $hazards->overflow(0);
case 'recursion': function again($n) { return array_map('again', [$n + 1]); } again(0);
case 'callbacks': function next_one($m) { return preg_replace_callback('/./', 'next_one', 'x' . $m[0]); } next_one(['y']);
case 'memory': $list = []; while (true) $list[] = str_repeat('x', 100000 + count($list));
case 'deep_memory': function deeper($n) { $local = range(0, 50); return deeper($n + 1) + 1; } deeper(0);
case 'time': set_time_limit(1); while (true);
case 'abort': $libc->abort();
case 'exit': $libc->_exit(3);
case 'kill': posix_kill(getmypid(), SIGTERM); usleep(300000); echo 'survived'; break;
case 'loop': while (true);
case 'free': $libc->free($page); break;
"#;

/// The request fails, later ones do not.
fn fails(lane: &Lane, what: &str, times: usize) {
    for round in 0..times {
        let answer = lane.get(&format!("/?do={what}"));
        assert!([500, 502, 504].contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
        for _ in 0..4 {
            assert_eq!(lane.text("fine"), "fine 1 5000000", "after {what} in round {round} of {}", lane.isolation);
        }
    }
}

/// Each kind of crash costs its own request, and the next is served from the snapshot.
#[test]
fn a_crash_costs_its_own_request() {
    always_both(
        || {
            with_hazards(snapshot(
                &format!(
                    "{HAZARDS}\n$held = str_repeat('x', 5000000); $libc = FFI::cdef('void abort(void); void _exit(int); void free(size_t);');"
                ),
                CASES,
            ))
        },
        |lane| {
            lane.expect(&["crash"]);
            for what in ["crash", "overflow", "recursion", "callbacks", "abort", "exit", "free"] {
                fails(lane, what, 2);
            }
            wait_until("the log names the signal", 5, || {
                let log = lane.log();
                log.contains("killed by SIGSEGV") && log.contains("killed by SIGABRT")
            });
        },
    );
}

/// A request over PHP's limits of memory or time costs only itself.
#[test]
fn limits_cost_their_own_request() {
    always_both(
        || {
            let boot = format!("{HAZARDS}\n$held = str_repeat('x', 5000000);");
            with_hazards(snapshot(&boot, CASES)).ini("memory_limit", "64M").ini("display_errors", "0")
        },
        |lane| {
            fails(lane, "memory", 5);
            fails(lane, "deep_memory", 5);
            fails(lane, "time", 1);
            let log = lane.log();
            assert!(log.contains("Allowed memory size of 67108864 bytes exhausted"), "{log}");
            assert!(log.contains("Maximum execution time of 1 second exceeded"), "{log}");
        },
    );
}

/// The front ends a request of a snapshot after `request_timeout`.
#[test]
fn the_wall_clock_is_the_fronts() {
    always_both(
        || {
            with_hazards(snapshot(&format!("{HAZARDS}\n$held = str_repeat('x', 5000000);"), CASES))
                .application("request_timeout = \"1s\"")
        },
        |lane| {
            lane.expect(&["crash"]);
            let began = Instant::now();
            let answer = lane.get("/?do=loop");
            assert_eq!((answer.status, answer.header("reprise-refused")), (504, Some("request-timeout")));
            assert!(began.elapsed() < tests::seconds(4), "{:?}", began.elapsed());
            (0..4).for_each(|_| assert_eq!(lane.text("fine"), "fine 1 5000000"));
        },
    );
}

const ABORTED: &str = r#"
case 'write': for ($i = 0; $i < 300; $i++) echo str_repeat('w', 20000); note('write'); break;
case 'flush': for ($i = 0; $i < 2000; $i++) { echo 'f'; ob_flush(); flush(); usleep(500); } note('flush'); break;
case 'ignore': ignore_user_abort(true); for ($i = 0; $i < 300; $i++) echo str_repeat('w', 20000); note('ignore'); break;
case 'body': echo strlen(file_get_contents('php://input')); note('body'); break;
case 'form': echo count($_POST), count($_FILES); note('form'); break;
case 'headers': header('X-A: ' . str_repeat('h', 3000)); flush(); usleep(20000); echo str_repeat('x', 4000000); note('headers'); break;
case 'fine': echo 'fine ', ++$count; break;
"#;

/// Clients that leave while PHP writes, flushes, or reads what they send: each of these ends a request from inside a
/// callback of ours.
#[test]
fn clients_that_leave_leave_nothing() {
    let boot = "$count = 0; function note(string $what) { file_put_contents(getenv('PLACE') . \"/$what\", 'x', FILE_APPEND); }\nregister_shutdown_function(fn () => note('ended'));";
    always_both(
        || snapshot(boot, ABORTED).ini("output_buffering", "0"),
        |lane| {
            let port = lane.port;
            let leave = |request: &str, read: usize| {
                let mut client = Client::new(port);
                client.send(request.as_bytes()).unwrap();
                let mut buffer = vec![0; read];
                let mut got = 0;
                while got < read {
                    match client.read_some(&mut buffer[got..]) {
                        Ok(0) | Err(_) => break,
                        Ok(more) => got += more,
                    }
                }
                let _ = client.stream().shutdown(Shutdown::Both);
            };
            let get = |what: &str| format!("GET /?do={what} HTTP/1.1\r\nHost: a\r\n\r\n");
            let post = |what: &str, kind: &str, part: &str| {
                format!(
                    "POST /?do={what} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: 900000\r\n\r\n{part}"
                )
            };
            for _ in 0..6 {
                leave(&get("write"), 30000);
                leave(&get("flush"), 10);
                leave(&get("ignore"), 30000);
                leave(&get("headers"), 10);
                for size in [0, 100, 20000, 200_000] {
                    leave(&post("body", "text/plain", &"b".repeat(size)), 0);
                    leave(&post("form", "application/x-www-form-urlencoded", &"a=b&".repeat(size / 4)), 0);
                    let upload = format!(
                        "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n{}",
                        "u".repeat(size)
                    );
                    leave(&post("form", "multipart/form-data; boundary=x", &upload), 0);
                }
                assert!(lane.repeat("fine", 8).iter().all(|text| text == "fine 1"), "{}", lane.isolation);
            }
            // Who ignores it goes on to its end.
            wait_until("the ignoring ones ended", 20, || {
                std::fs::read(lane.directory().join("place/ignore")).is_ok_and(|noted| noted.len() == 6)
            });
            assert!(!lane.directory().join("place/body").exists() || lane.directory().join("place/ended").exists());
        },
    );
}

/// Children by the kernel's own list: killing is quick, so finding has to be.
fn children(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// All processes below one.
fn descendants(pid: i32) -> Vec<i32> {
    let own = children(pid);
    own.iter().flat_map(|&child| descendants(child)).chain(own.iter().copied()).collect()
}

/// Clones, killed at random points of a load: while they wait, serve, end a request or rewind.
#[test]
fn killed_clones_lose_their_own_requests() {
    let kills = if std::env::var_os("REPRISE_REQUESTS").is_some() { 2000 } else { amount(20, 100) as u64 };
    let cases = "case 'id': static $seen = []; $seen[] = $_GET['id']; $work = range(0, 3000); shuffle($work); usleep($_GET['id'] % 4 * 900); echo 'id=', implode(',', $seen), ' '; break;\n";
    always_both(
        || snapshot("$held = range(1, 20000);", cases).application("workers = 4"),
        |lane| {
            lane.expect(&["crash"]);
            // Clones are the children of the template, the classic workers' brother: nobody else's name begins so deep.
            let clones = || -> Vec<i32> {
                let prototypes = children(lane.pid()).into_iter();
                let templates = prototypes.flat_map(children);
                templates.flat_map(children).collect()
            };
            wait_until("there are clones", 10, || !clones().is_empty());
            let (stop, next, answered, lost) =
                (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
            let wrong = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..5 {
                    scope.spawn(|| {
                        let mut client = lane.client();
                        while !stop.load(Ordering::Relaxed) {
                            let id = next.fetch_add(1, Ordering::Relaxed);
                            let answer = client.try_request("GET", &format!("/?do=id&id={id}"), &[], b"");
                            match answer {
                                Ok(answer) if answer.status == 200 && answer.text() == format!("id={id} ") => {
                                    answered.fetch_add(1, Ordering::Relaxed);
                                }
                                Ok(answer) if answer.status == 502 => {
                                    lost.fetch_add(1, Ordering::Relaxed);
                                }
                                other => {
                                    wrong.lock().unwrap().push(format!("{id}: {other:?}"));
                                    client = lane.client();
                                }
                            }
                        }
                    });
                }
                let mut random = fastrand::Rng::with_seed(7);
                for _ in 0..kills {
                    // Under a load: a few requests between two deaths.
                    let from = answered.load(Ordering::Relaxed);
                    wait_until("requests are answered", 20, || answered.load(Ordering::Relaxed) >= from + 4);
                    let clone = wait_for("a clone", 20, || {
                        let clones = clones();
                        (!clones.is_empty()).then(|| clones[random.usize(..clones.len())])
                    });
                    let until = Instant::now() + Duration::from_micros(random.u64(..3000));
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                    process::kill(clone, Signal::SIGKILL);
                }
                let from = answered.load(Ordering::Relaxed);
                wait_until("the service goes on", 30, || answered.load(Ordering::Relaxed) > from + 100);
                stop.store(true, Ordering::Relaxed);
            });
            let wrong = wrong.into_inner().unwrap();
            assert!(wrong.is_empty(), "{} wrong answers: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
            let lost = lost.load(Ordering::Relaxed);
            assert!((1..=kills).contains(&lost), "{lost} requests were lost to {kills} kills");
            println!("{kills} kills: {} answered, {lost} lost", answered.into_inner());
            wait_until("all clones are back", 20, || clones().len() >= 4);
            assert!(descendants(lane.pid()).len() < 40, "processes are left over");
        },
    );
}
