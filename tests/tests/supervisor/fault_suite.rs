//! Every fault that one request can be, in each mode, under a load of good ones: it costs itself. docs/operations/faults.md is what this
//! has found.

mod load;
mod place;
mod states;
mod table;

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use tests::client::multipart;
use tests::server::project;
use tests::snapshot::is_sanitized;
use tests::{Client, Response, process, wait_until};

use load::{Load, PATIENCE};
use place::{COLUMNS, Column, Place};
use table::{Ask, FAULTS, Fault, Worker};

/// What was found in one mode: a cell for each fault, then for each state.
type Found = Vec<String>;

/// Each fault of the table costs its own request and no other, in each mode, under load.
#[test]
fn each_fault_costs_its_own_request() {
    // AddressSanitizer's memory cannot be rewound, and takes long to fork.
    let columns: Vec<&'static Column> =
        COLUMNS.iter().filter(|column| !is_sanitized() || column.mode != "snapshot").collect();
    let found: Vec<Found> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            columns.iter().enumerate().map(|(number, column)| scope.spawn(move || run(column, number))).collect();
        runs.into_iter().map(|run| run.join().expect("a mode without a failure")).collect()
    });
    if !is_sanitized() {
        let (path, text) = (project().join("docs/operations/faults.md"), page(&found));
        if std::env::var_os("REPRISE_WRITE_DOCS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/operations/faults.md is another; REPRISE_WRITE_DOCS=1 ./test each_fault writes it:\n{text}"
        );
    }
}

fn run(column: &'static Column, number: usize) -> Found {
    let place = Place::start(column, number);
    let mut found = Found::new();
    // A process for each request is dear.
    let pause = Duration::from_millis(if place.forks() { 20 } else { 16 });
    Load::run(place.server.port, column.mode, pause, |load| {
        load.assert_goes_on("before any fault");
        for (number, fault) in FAULTS.iter().enumerate() {
            let what = format!("{}, {}", column.name, fault.name);
            place.wait_until_whole(&what);
            let began = Instant::now();
            found.push(commit(&place, fault, number, &what));
            place.wait_until_whole(&what);
            let waits = place.forks() && fault.code.contains("pcntl_fork");
            if waits {
                // No process for any request while it lasts.
                load.assert_comes_back(&what);
                found[number].push_str("; others wait till it is over");
            } else {
                load.assert_goes_on(&what);
            }
            println!("{what}: {} ({:?})", found[number], began.elapsed());
        }
        for state in states::STATES {
            place.wait_until_whole(state);
            let began = Instant::now();
            found.push(states::kill_in(&place, load, state).unwrap_or_else(|| "–".to_owned()));
            place.wait_until_whole(state);
            println!("{}, {state}: {} ({:?})", column.name, found.last().unwrap(), began.elapsed());
        }
    });
    let front = place.server.front().expect("a front");
    assert!(process::anonymous_kib(front) < 65_536, "the front holds {} KiB", process::anonymous_kib(front));
    found
}

/// Has the request made, checks what follows, and says it.
fn commit(place: &Place, fault: &Fault, number: usize, what: &str) -> String {
    let port = place.server.port;
    let before = place.server.log().len();
    if !fault.prepare.is_empty() {
        assert_eq!(tests::get(port, &format!("/long/?fault=prepare{number}")).text(), "full", "{what}");
    }
    place.forget_victim();
    let _ = fs::remove_file(place.directory.join("begun"));
    let path = format!("/?fault=fault{number}");
    // The machine may be busy: what is not to run over its time has more of it.
    let long = format!("/long{path}");
    let (answer, how) = match fault.ask {
        Ask::Over | Ask::Lock => cut_or_whole(place, &path),
        Ask::Get => cut_or_whole(place, &long),
        Ask::Soft => cut_or_whole(place, &format!("/soft{path}")),
        Ask::Upload => {
            let (kind, body) = multipart(&[], &[("f", "f", "text/plain", &[b'x'; 100_000])]);
            (Client::new(port).request("POST", &long, &[("Content-Type", &kind)], &body), "")
        }
        Ask::Gibibyte => (read_gibibyte(port, &long), "whole"),
        Ask::Unread => (read_nothing(place, &long), "cut off"),
    };
    let victim = place.victim();
    assert_eq!(answer.status, fault.status, "{what}: {}", answer.text());
    let refused = answer.header("reprise-refused").unwrap_or_default();
    let said = [answer.text().as_str(), refused, how].join(" ");
    assert!(said.contains(fault.answer), "{what}: {said}");
    if fault.code.contains("gethostbyname") {
        assert!(place.names.recv(&mut [0; 512]).is_ok(), "{what}: nobody has asked the name server");
    }
    if fault.ask == Ask::Lock {
        service_helps_itself(place, &path);
    }
    if !fault.tidy.is_empty() {
        assert_eq!(tests::get(port, &format!("/long/?fault=tidy{number}")).status, 200, "{what}");
    }
    let log = || place.server.log()[before..].to_owned();
    wait_until(&format!("{what}: {} is in the log", fault.log), PATIENCE, || log().contains(fault.log));
    let goes = match fault.worker {
        Worker::Stays => false,
        Worker::Goes => true,
        Worker::GoesIn(modes) => modes.contains(&place.column.mode),
    };
    if goes || place.forks() {
        wait_until(&format!("{what}: {victim} is gone"), PATIENCE, || !process::is_alive(victim));
    } else {
        assert!(process::is_alive(victim), "{what}: the worker is gone:\n{}", log());
    }
    let refused = if refused.is_empty() { String::new() } else { format!(" `{refused}`") };
    let how = if how == "cut off" { ", cut off" } else { "" };
    format!("{}{refused}{how}{}", answer.status, if goes && !place.forks() { "; another worker" } else { "" })
}

/// `begun` tells the script that its head has come.
fn cut_or_whole(place: &Place, path: &str) -> (Response, &'static str) {
    let mut client = Client::new(place.server.port);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut answer = client.read_head().expect("an answer");
    fs::write(place.directory.join("begun"), "").unwrap();
    match client.read_body(&mut answer, false) {
        Ok(()) => (answer, ""),
        Err(_) => (answer, "cut off"),
    }
}

/// All of it, counted and not kept.
fn read_gibibyte(port: u16, path: &str) -> Response {
    let mut client = Client::new(port);
    client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let answer = client.read_head().expect("an answer");
    let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
    loop {
        match client.read_some(&mut buffer).expect("bytes") {
            0 => break,
            more => total += more,
        }
    }
    assert_eq!(total, 1 << 30, "bytes of a gibibyte");
    answer
}

/// Waits until the service has given up.
fn read_nothing(place: &Place, path: &str) -> Response {
    let mut client = Client::new(place.server.port);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let victim = place.victim();
    let is_idle = |worker: &serde_json::Value| worker["pid"] == i64::from(victim) && worker["state"] == "idle";
    wait_until("nobody runs it any more", PATIENCE, || {
        !process::is_alive(victim) || place.workers().iter().any(is_idle)
    });
    let mut answer = client.read_head().expect("a head");
    assert!(client.read_body(&mut answer, false).is_err(), "a broken answer looked complete");
    answer
}

/// The lock of the dead one is never released: who comes for it hangs until `request_timeout`. Two of them are enough for a new
/// generation, which has a lock of its own.
fn service_helps_itself(place: &Place, path: &str) {
    let ask = || tests::get(place.server.port, &format!("{path}&after=1")).status;
    let old = place.lanes()[0]["generation"].as_u64();
    let ask_twice = || std::thread::scope(|scope| [scope.spawn(ask), scope.spawn(ask)].map(|one| one.join().unwrap()));
    let refusals = || place.server.log().matches("reload refused").count();
    let mut seen = refusals();
    assert_eq!(ask_twice(), [504, 504], "the lock is held");
    wait_until("a generation with another lock", PATIENCE, || {
        // Where a request of another server forks for ever, a generation may not be able to; the next two see to another.
        if refusals() > seen {
            seen = refusals();
            ask_twice();
        }
        let lanes = place.lanes();
        lanes.len() == 1 && lanes[0]["generation"].as_u64() > old
    });
    assert_eq!(ask(), 200);
}

/// The page, from what was found in all modes.
fn page(found: &[Found]) -> String {
    let mut text = String::from(
        "# Faults\n\n\
         Generated from a run of `each_fault_costs_its_own_request` in [fault_suite.rs](../../tests/tests/supervisor/fault_suite.rs). Each line was one\n\
         request, sent while three clients sent good requests over connections that they keep, to four workers. All good requests got the right\n\
         response in time, and afterwards all workers were there. `request_timeout` was 6 s, `send_timeout` 2 s. From PHP 8.3 on,\n\
         PHP ends deep recursion in C itself: the request gets 500 and the worker stays. The setting\n\
         `zend.max_allowed_stack_size = -1` was there to forbid that.\n\n\
         Requests that run over their time may wait for a lock that nobody releases. After two such requests within ten seconds the application gets\n\
         a new generation ([reload.md](reload.md)). What the death of a front, prototype, template or supervisor costs is tested in\n\
         [faults.rs](../../tests/tests/supervisor/faults.rs) and [lanes.rs](../../tests/tests/snapshot/lanes.rs).\n",
    );
    let mut table = |title: &str, first: &str, last: &str, rows: &[(&str, &str)], skip: usize| {
        let headings: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        write!(text, "\n## {title}\n\n| {first} | {} |{last}\n", headings.join(" | ")).unwrap();
        let columns = 1 + COLUMNS.len() + usize::from(!last.is_empty());
        writeln!(text, "|{}", "---|".repeat(columns)).unwrap();
        for (number, (name, log)) in rows.iter().enumerate() {
            let cells: Vec<&str> = found.iter().map(|column| column[skip + number].as_str()).collect();
            let log = match (last.is_empty(), log.is_empty()) {
                (true, _) => String::new(),
                (false, true) => " – |".to_owned(),
                (false, false) => format!(" {log} |"),
            };
            writeln!(text, "| {name} | {} |{log}", cells.join(" | ")).unwrap();
        }
    };
    let faults: Vec<_> = FAULTS.iter().map(|fault| (fault.name, fault.log)).collect();
    table("A request that", "fault", " in the log |", &faults, 0);
    let states: Vec<_> = states::STATES.iter().map(|state| (*state, "")).collect();
    table("A worker killed while it is", "state", "", &states, FAULTS.len());
    text
}
