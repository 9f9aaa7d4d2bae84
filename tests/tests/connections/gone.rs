//! Servers that go away and come back, and how many connections there are.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use tests::backends::{Postgres, Redis};
use tests::peer::Database;
use tests::snapshot::{Lane, rewind};
use tests::{Setup, wait_until};

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
                                    }
                                    failed
                                })
                            })
                            .collect();
                        backend.borrow_mut().again();
                        let back = Instant::now();
                        // Each client has asked a few times more.
                        (0..40).for_each(|_| assert_eq!(lane.get("/?do=wait").status, 200, "{}", lane.log()));
                        ends.store(true, Ordering::Relaxed);
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
