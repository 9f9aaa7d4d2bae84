//! Workers killed in each state of the scoreboard.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{Client, process, wait_for};

use super::load::{Load, PATIENCE};
use super::place::{HELD_SESSION, Place, STARTING};

/// States as the scoreboard has them.
pub const STATES: [&str; 7] = ["booting", "idle", "starting", "reading", "running", "finishing", "rewinding"];

/// Kills a worker of this state, and says what the client of its request gets; `None` if there is no such state.
pub fn kill_in(place: &Place, load: &Load, state: &str) -> Option<String> {
    let is_rewound = place.column.name == "snapshot";
    match state {
        "rewinding" if !is_rewound => return None,
        // Elsewhere nothing that an application says makes it last.
        "starting" if place.column.name != "classic" => return None,
        "booting" => kill_newborn(place),
        "idle" => {
            wait_for("an idle worker", PATIENCE, || {
                let workers = place.workers();
                let mut idle = workers.iter().filter(|worker| worker["state"] == "idle");
                idle.any(|worker| kill_if(place, pid(worker), &["idle"])).then_some(())
            });
        }
        _ => return Some(kill_with_request(place, load, state)),
    }
    load.assert_goes_on(state);
    Some("no request is lost".to_owned())
}

fn pid(worker: &Value) -> i32 {
    worker["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a process id")
}

/// Stops a worker, so that its state cannot change any more, and kills it if it is the right one.
fn kill_if(place: &Place, worker: i32, states: &[&str]) -> bool {
    process::kill(worker, Signal::SIGSTOP);
    let workers = place.workers();
    let is_right = workers.iter().any(|line| pid(line) == worker && states.iter().any(|state| line["state"] == *state));
    process::kill(worker, if is_right { Signal::SIGKILL } else { Signal::SIGCONT });
    is_right
}

/// Of a fresh worker, between its fork and its first look for a request.
fn kill_newborn(place: &Place) {
    wait_for("a worker that boots", PATIENCE, || {
        let old: Vec<i32> = place.workers().iter().map(pid).collect();
        let forker = process::parent(*old.first()?)?;
        let children = || {
            let list = std::fs::read_to_string(format!("/proc/{forker}/task/{forker}/children")).unwrap_or_default();
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        };
        let before = children();
        // In fork isolation they come with every request. Elsewhere one has to go first.
        if !place.forks() {
            old.into_iter().find(|&worker| kill_if(place, worker, &["idle"]))?;
        }
        let known = if place.forks() { children() } else { before };
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let Some(newborn) = children().into_iter().find(|pid| !known.contains(pid)) else { continue };
            // "empty": not even on the scoreboard yet.
            return kill_if(place, newborn, &["booting", "empty"]).then_some(());
        }
        None
    });
}

fn who_has(place: &Place, request: &str) -> i32 {
    wait_for(request, PATIENCE, || place.workers().iter().find(|worker| worker["request"] == request).map(pid))
}

fn kill_with_request(place: &Place, load: &Load, state: &str) -> String {
    let outcome = wait_for(&format!("a worker that is {state}"), PATIENCE, || {
        place.forget_victim();
        let mut client = Client::new(place.server.port);
        let head = format!("/long/?fault={state} HTTP/1.1\r\nHost: a\r\n");
        let worker = match state {
            "starting" => {
                let path = format!("/{}/", STARTING.0);
                let cookie = format!("Cookie: PHPSESSID={HELD_SESSION}");
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{cookie}\r\n\r\n").as_bytes()).unwrap();
                who_has(place, &format!("GET {path}"))
            }
            "reading" => {
                let body = "x".repeat(20_000);
                let request = format!("POST {head}Content-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n{body}");
                client.send(request.as_bytes()).unwrap();
                who_has(place, "POST /long/?fault=reading")
            }
            "running" => {
                client.send(format!("GET {head}\r\n").as_bytes()).unwrap();
                place.victim()
            }
            _ => {
                let answer = client.get(&format!("/long/?fault={state}"));
                let is_killed = kill_if(place, answer.text().parse().unwrap(), &[state]);
                return is_killed.then(|| format!("{}, complete", answer.status));
            }
        };
        kill_if(place, worker, &[state]).then(|| {
            let answer = client.read(false).expect("an answer");
            format!("{} `{}`", answer.status, answer.header("reprise-refused").unwrap_or_default())
        })
    });
    load.assert_goes_on(state);
    outcome
}
