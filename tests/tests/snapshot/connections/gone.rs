//! Servers that go away and come back, and how many connections there are.

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::backends::{Postgres, Redis};
use tests::peer::Database;
use tests::server::Directory;
use tests::snapshot::{Lane, rewind};
use tests::{Setup, process, wait_until};

use crate::connections::keeping_in;

const BOOT: &str = r#"
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
function db() {
    switch (getenv('KIND')) {
    case 'mysql': return new mysqli('localhost', 'app', getenv('PASSWORD'), null, 0, getenv('SOCKET'));
    case 'postgres': return new PDO('pgsql:dbname=postgres;host=' . getenv('PG_HOST') . ';port=' . getenv('PG_PORT'), 'app');
    case 'redis': $redis = new Redis; $redis->connect(getenv('SOCKET')); $redis->ping(); return $redis;
    }
}
function ask($db): string { return $db instanceof Redis ? (string) strlen($db->echo('7')) : ($db instanceof PDO ? $db->query('select 1')->fetchColumn() : $db->query('select 1')->fetch_row()[0]); }
ask(db());
reprise_after_fork(function () { $GLOBALS['db'] = db(); });
"#;
const CASES: &str = "case 'ask': $own = isset($db) ? 'kept' : 'own'; echo ask($db ?? db()), ' ', $own; break;
case 'wait': ask($db ?? db()); echo 'ok'; break;
case 'meet': ask($db ?? db()); touch(getenv('PLACE') . '/here-' . getmypid()); for ($i = 0; $i < 4000 && count(glob(getenv('PLACE') . '/here-*')) < $_GET['all']; $i++) usleep(2500); echo $i < 4000 ? 'met' : 'alone'; break;";

/// How many restarts; REPRISE_RESTARTS wins.
fn restarts(default: usize) -> usize {
    std::env::var("REPRISE_RESTARTS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

enum Backend {
    Mysql(Database),
    Postgres(Postgres),
    Redis(Redis),
}

impl Backend {
    fn all() -> [Backend; 3] {
        [Backend::Mysql(Database::start()), Backend::Postgres(Postgres::start(&[])), Backend::Redis(Redis::start(&[]))]
    }

    fn again(&mut self) {
        match self {
            Backend::Mysql(database) => database.again(),
            Backend::Postgres(postgres) => postgres.again(),
            Backend::Redis(redis) => redis.again(),
        }
    }

    fn setup(&self, workers: usize, kept: usize) -> Setup {
        let setup = keeping_in(workers, kept, BOOT, CASES);
        match self {
            Backend::Mysql(database) => {
                let environment = database.environment();
                let password = &environment.iter().find(|(name, _)| *name == "WP_DB_PASSWORD").unwrap().1;
                let setup = setup.env("KIND", "mysql").env("PASSWORD", password);
                setup.env("SOCKET", database.socket().to_str().unwrap())
            }
            Backend::Postgres(postgres) => {
                let setup = setup.env("KIND", "postgres").env("PG_HOST", &postgres.host());
                setup.env("PG_PORT", &postgres.port.to_string())
            }
            Backend::Redis(redis) => setup.env("KIND", "redis").env("SOCKET", redis.socket().to_str().unwrap()),
        }
    }

    /// How many clients the server has, without who asks.
    fn clients(&self) -> usize {
        let count = match self {
            Backend::Mysql(database) => {
                database.rows("", "select count(*) from information_schema.processlist where user = 'app'")
            }
            Backend::Postgres(postgres) => postgres
                .say("select count(*) from pg_stat_activity where client_port is not null and pid <> pg_backend_pid()"),
            Backend::Redis(redis) => return redis.say(&["client", "list"]).lines().count() - 1,
        };
        count.trim().parse().unwrap()
    }
}

/// Whether no worker has anything to do.
fn are_idle(status: &Value) -> bool {
    match status {
        Value::Array(all) => all.iter().all(are_idle),
        Value::Object(one) if one.contains_key("state_seconds") => one["state"] == "idle",
        Value::Object(all) => all.values().all(are_idle),
        _ => true,
    }
}

/// How many connections all workers say that they keep.
fn kept(status: &Value) -> u64 {
    match status {
        Value::Array(all) => all.iter().map(kept).sum(),
        Value::Object(one) => {
            one.get("kept_connections").and_then(Value::as_u64).unwrap_or_else(|| one.values().map(kept).sum())
        }
        _ => 0,
    }
}

/// A server that was restarted while nobody asked costs no request anything: the connection is found closed before the request begins,
/// which opens its own. A fresh worker opens the connection again.
#[test]
fn a_restarted_server_costs_no_request_that_comes_later() {
    for backend in Backend::all().map(RefCell::new) {
        rewind(
            || backend.borrow().setup(1, 4),
            |lane: &mut Lane| {
                lane.expect(&["connection"]);
                for number in 0..restarts(2) {
                    wait_until("the connection is kept", 30, || lane.text("ask") == "1 kept");
                    // Its reset is over, too.
                    wait_until("the worker is idle", 30, || {
                        let status = serde_json::from_str(&lane.status(&["--json", "--all"])).expect("JSON");
                        are_idle(&status)
                    });
                    backend.borrow_mut().again();
                    assert_eq!(lane.text("ask"), "1 own", "restart {number}: {}", lane.log());
                }
            },
        );
    }
}

/// Ends clients that ask until then, also if the test fails: it would wait for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Under load: once the server is back, no request fails, but those that ran when it went.
#[test]
fn a_restart_under_load_costs_only_what_ran() {
    for backend in Backend::all().map(RefCell::new) {
        rewind(
            || backend.borrow().setup(2, 4),
            |lane: &mut Lane| {
                lane.expect(&["connection"]);
                for _ in 0..restarts(1) {
                    let ends = AtomicBool::new(false);
                    let lane = &*lane;
                    thread::scope(|scope| {
                        let clients: Vec<_> = (0..4)
                            .map(|number| {
                                let (ends, page) = (&ends, format!("/?do=wait&client={number}"));
                                scope.spawn(move || {
                                    let mut client = lane.client();
                                    let mut failed = vec![];
                                    while !ends.load(Ordering::Relaxed) {
                                        let begun = Instant::now();
                                        if client.get(&page).status != 200 {
                                            failed.push(begun);
                                        }
                                        // Steady, not as much as the machine can take.
                                        thread::park_timeout(Duration::from_millis(3));
                                    }
                                    failed
                                })
                            })
                            .collect();
                        let end = Ends(&ends);
                        backend.borrow_mut().again();
                        let back = Instant::now();
                        // Each client has asked a few times more.
                        (0..40).for_each(|_| assert_eq!(lane.get("/?do=wait").status, 200, "{}", lane.log()));
                        drop(end);
                        let late =
                            clients.into_iter().flat_map(|client| client.join().unwrap()).filter(|begun| *begun > back);
                        assert_eq!(late.count(), 0, "{}", lane.log());
                    });
                }
                wait_until("connections are kept again", 60, || lane.text("ask") == "1 kept");
            },
        );
    }
}

/// Stands before `server` at `place`, and replies to the first reset as one that shuts down.
fn interrupts_first_reset(place: &Path, server: PathBuf) {
    let listener = UnixListener::bind(place).expect("a socket");
    fs::set_permissions(place, Permissions::from_mode(0o777)).expect("a socket for all");
    let is_first = Arc::new(AtomicBool::new(true));
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, UnixStream::connect(&server)) else { continue };
            let (from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut &from, &mut to).and_then(|_| to.shutdown(Shutdown::Both)));
            let is_first = is_first.clone();
            thread::spawn(move || {
                let mut said = [0; 4096];
                while let Ok(size @ 1..) = (&client).read(&mut said) {
                    let is_reset = said[..size].windows(11).any(|some| some == b"DISCARD ALL");
                    if is_reset && is_first.swap(false, Ordering::Relaxed) {
                        let _ = (&client).write_all(b"E\0\0\0\x1fSFATAL\0VFATAL\0C57P01\0Mend\0\0");
                        break;
                    }
                    if (&server).write_all(&said[..size]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
}

/// A server that shuts down while it resets a hook's connection has not refused it for good.
#[test]
fn a_reset_that_a_server_interrupts_is_tried_again() {
    let postgres = Postgres::start(&[]);
    let name = format!(".s.PGSQL.{}", postgres.port);
    let place = Directory::new();
    fs::set_permissions(&place.0, Permissions::from_mode(0o755)).expect("a directory for all");
    interrupts_first_reset(&place.0.join(&name), Path::new(&postgres.host()).join(&name));
    rewind(
        || {
            let setup =
                keeping_in(1, 4, BOOT, CASES).env("KIND", "postgres").env("PG_PORT", &postgres.port.to_string());
            setup.env("PG_HOST", place.0.to_str().unwrap())
        },
        |lane: &mut Lane| {
            lane.expect(&["connection"]);
            wait_until("the connection is kept", 30, || lane.text("ask") == "1 kept");
            let log = lane.log();
            assert_eq!(log.matches("the server has ended the session or interrupted its reset").count(), 1, "{log}");
        },
    );
}

/// Whoever takes the place of a worker that keeps connections keeps them, too, wherever its slot is: that of a worker that has just died
/// is still in use.
#[test]
fn a_successor_keeps_connections_from_its_first_request_on() {
    let redis = Redis::start(&[]);
    let kill = "case 'kill': posix_kill(getmypid(), SIGKILL); break;";
    rewind(
        || {
            let setup = keeping_in(1, 1, BOOT, &format!("{CASES} {kill}")).env("KIND", "redis");
            setup.env("SOCKET", redis.socket().to_str().unwrap())
        },
        |lane: &mut Lane| {
            lane.expect(&["connection", "crash"]);
            for number in 0..20 {
                assert_eq!(lane.text("ask"), "1 kept", "worker {number}: {}", lane.log());
                lane.get("/?do=kill");
            }
        },
    );
}

/// Workers of a front that has died end after the next ones have begun, which then take their places.
#[test]
fn connections_are_kept_after_a_front_has_died() {
    let redis = Redis::start(&[]);
    rewind(
        || {
            let setup = keeping_in(2, 2, BOOT, CASES).env("KIND", "redis");
            setup.env("SOCKET", redis.socket().to_str().unwrap())
        },
        |lane: &mut Lane| {
            // The front is killed.
            lane.expect(&["connection", "crash"]);
            let all_keep = |lane: &Lane| {
                lane.repeat("ask", 4);
                kept(&serde_json::from_str(&lane.status(&["--json", "--all"])).expect("JSON")) == 2
            };
            wait_until("connections are kept", 30, || all_keep(lane));
            for _ in 0..3 {
                let front = lane.front().expect("a front");
                process::kill(front, Signal::SIGKILL);
                wait_until("another front", 20, || lane.front().is_some_and(|pid| pid != front));
                wait_until("connections are kept again", 30, || all_keep(lane));
            }
        },
    );
}

/// No more workers keep connections than may; the others open their own.
#[test]
fn there_are_no_more_connections_than_may_be() {
    for backend in Backend::all() {
        rewind(
            || backend.setup(6, 2),
            |lane| {
                thread::scope(|scope| {
                    // The cache would make one request of those for the same page.
                    let ask = |number| lane.text(&format!("meet&all=6&number={number}"));
                    let all: Vec<_> = (0..6).map(|number| scope.spawn(move || ask(number))).collect();
                    assert!(all.into_iter().all(|one| one.join().unwrap() == "met"));
                });
                wait_until("requests' own connections are closed", 10, || backend.clients() == 2);
                let status = serde_json::from_str(&lane.status(&["--json", "--all"])).expect("JSON");
                assert_eq!(kept(&status), 2, "{status}");
                assert!(lane.status(&[]).contains("  KEPT  "));
            },
        );
        wait_until("all connections are closed", 10, || backend.clients() == 0);
    }
}
