//! Four nodes: they switch together under load, or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use tests::backends::Redis;
use tests::yard::{Node, Yard};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

fn nodes(yard: &Yard, more: &str) -> Vec<Node> {
    let nodes = std::thread::scope(|scope| {
        let started: Vec<_> = NAMES.iter().map(|name| scope.spawn(|| yard.node(name, "", more))).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    yard.await_nodes(4);
    nodes
}

/// A response: the version of the code, and when it was asked for and there.
struct Seen {
    version: String,
    began: Instant,
    ended: Instant,
}

/// Asks all nodes as long as something is done. Returns the responses, and what was wrong with them.
fn under_load<T>(nodes: &[Node], what: impl FnOnce() -> T) -> (T, Vec<Seen>, Vec<String>) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ask = |node: &Node| {
            let (mut seen, mut wrong) = (Vec::new(), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let response = node.server.get("/");
                let ended = Instant::now();
                let text = response.text();
                let mut words = text.split(' ');
                let (code, template) = (words.next(), words.next());
                if response.status != 200 || code.is_none() || code != template {
                    wrong.push(format!("{}: {text:.200}", response.status));
                }
                seen.push(Seen { version: code.unwrap_or_default().to_owned(), began, ended });
                // Steady, not as much as the machine can take.
                std::thread::park_timeout(Duration::from_millis(5));
            }
            (seen, wrong)
        };
        let clients: Vec<_> = nodes.iter().map(|node| scope.spawn(move || ask(node))).collect();
        let done = what();
        is_over.store(true, Ordering::Relaxed);
        let all = clients.into_iter().map(|one| one.join().unwrap());
        let (seen, wrong): (Vec<_>, Vec<_>) = all.unzip();
        (done, seen.into_iter().flatten().collect(), wrong.concat())
    })
}

/// For how long clients saw the version before, when one had seen this one.
fn window(seen: &[Seen], number: usize) -> Duration {
    let of = |number: usize| seen.iter().filter(move |one| one.version == number.to_string());
    let first = of(number).map(|one| one.ended).min().expect("a client has seen it");
    of(number - 1).map(|one| one.began).max().map_or(Duration::ZERO, |last| last.saturating_duration_since(first))
}

fn switches(yard: &Yard) {
    yard.push_version("0");
    yard.activate_fine("latest");
    let nodes = nodes(yard, "");
    let (switches, rollbacks) = (tests::amount(2, 50), tests::amount(1, 10));
    let ((windows, all_switched, backs), mut seen, wrong) = under_load(&nodes, || {
        let switch = |number: usize| {
            let version = number.to_string();
            yard.push_version(&version);
            let told = yard.activate_fine("latest");
            assert!(nodes.iter().all(|node| node.serves(&version)), "{told}");
            told["switched_ms"].as_u64().unwrap()
        };
        let windows = (1..=switches).map(switch).collect::<Vec<_>>();
        let all_switched = Instant::now();
        // Each leads to the release from which the one before has led away.
        let back = |number: usize| {
            let told = yard.rollback();
            let version = (switches - number % 2).to_string();
            assert!(nodes.iter().all(|node| node.serves(&version)), "{told}");
            told["ms"].as_u64().unwrap()
        };
        (windows, all_switched, (1..=rollbacks).map(back).collect::<Vec<_>>())
    });
    let count = seen.len();
    assert!(wrong.is_empty(), "{} of {count}: {:?}", wrong.len(), wrong.first());
    assert!(count > switches, "{count}");
    seen.retain(|one| one.ended < all_switched);
    let of_clients: Vec<_> = (1..=switches).map(|number| window(&seen, number).as_millis()).collect();
    println!(
        "{switches} switches of four nodes, {count} responses, none wrong; clients saw two versions for {} ms at most {of_clients:?}; \
        until all had said so {windows:?} ms; back in {backs:?} ms",
        of_clients.iter().max().unwrap()
    );
    assert!(windows.iter().all(|one| *one < 5000) && of_clients.iter().all(|one| *one < 5000));
}

/// No request fails, none has code of two releases, and the time in which nodes differ is bounded.
#[test]
fn four_nodes_switch_together_under_load() {
    switches(&Yard::new(None));
}

/// The same with a pool in Redis.
#[test]
fn four_nodes_switch_together_by_redis() {
    let redis = Redis::start(&[]);
    switches(&Yard::new(Some(redis.url())));
}

/// A node that cannot boot it lets nobody switch.
#[test]
fn nobody_switches_if_one_cannot() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let mut nodes = nodes(&yard, "");
    // Its code asks for something that one node does not have.
    let tree = yard.tree("2");
    let guard = "<?php if (getenv('LACKS')) { throw new Exception('lacking'); }\n?>";
    let page = std::fs::read_to_string(tree.join("public/index.php")).unwrap();
    std::fs::write(tree.join("public/index.php"), format!("{guard}{page}")).unwrap();
    yard.push(&tree, &["--no-compile"]);
    nodes.pop();
    tests::wait_until("it is not there any more", 20, || {
        yard.fine(&["status", &yard.pool, "shop", "--json"]).matches("\"is_there\":true").count() == 3
    });
    nodes.push(yard.node("four", "", "env.LACKS = \"1\""));
    yard.await_nodes(4);
    let ((text, code), seen, wrong) = under_load(&nodes, || yard.activate("latest", &[]));
    assert!(code == 70 && text.contains("four") && text.contains("warm-up"), "{text}");
    assert!(wrong.is_empty() && !seen.is_empty(), "{wrong:?}");
    assert!(nodes.iter().all(|node| node.serves("1") && node.is_ready()));
    // Three are enough, if that is said. The fourth keeps the old one and is unready, for a while.
    let (text, code) = yard.activate("latest", &["--quorum", "3"]);
    assert_eq!(code, 0, "{text}");
    assert!(nodes[..3].iter().all(|node| node.serves("2") && node.is_ready()));
    assert!(nodes[3].serves("1"));
    tests::wait_until("the fourth is unready", 20, || !nodes[3].is_ready());
}

/// The store dies when nodes are ready and wait: they serve on, are unready, and ready again after `release_uncertain`.
#[test]
fn a_store_that_dies_in_the_middle_stops_nobody() {
    let mut redis = Redis::start(&[]);
    let yard = Yard::new(Some(redis.url()));
    yard.push_version("1");
    yard.activate_fine("latest");
    let nodes = nodes(&yard, "release_uncertain = \"3s\"");
    yard.push_version("2");
    // One node says nothing any more, so nobody gets the record that the others wait for.
    let silent = Pid::from_raw(nodes[3].follower());
    kill(silent, Signal::SIGSTOP).unwrap();
    let ((), seen, wrong) = under_load(&nodes, || {
        std::thread::scope(|scope| {
            let activating = scope.spawn(|| yard.activate("latest", &[]));
            tests::wait_until("three nodes are ready", 20, || {
                yard.fine(&["status", &yard.pool, "shop"]).matches(": ready,").count() == 3
            });
            redis.stop();
            let since = Instant::now();
            tests::wait_until("they are unready", 20, || nodes[..3].iter().all(|node| !node.is_ready()));
            println!("unready after {:?}", since.elapsed());
            tests::wait_until("they are ready again", 20, || nodes[..3].iter().all(Node::is_ready));
            assert!(since.elapsed() > Duration::from_secs(5), "{:?}", since.elapsed());
            let (text, code) = activating.join().unwrap();
            assert!(code != 0, "{text}");
        });
    });
    kill(silent, Signal::SIGCONT).unwrap();
    assert!(wrong.is_empty() && !seen.is_empty(), "{wrong:?}");
    assert!(nodes.iter().all(|node| node.serves("1")));
    assert!(nodes[0].server.log().contains("which may be the old one"), "{}", nodes[0].server.log());
}

/// A node that says nothing any more lets nobody switch, and takes what is served when it is back.
#[test]
fn a_node_that_dies_in_the_middle_lets_nobody_switch_and_comes_late() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let mut nodes = nodes(&yard, "");
    yard.push_version("2");
    let silent = Pid::from_raw(nodes[3].follower());
    kill(silent, Signal::SIGSTOP).unwrap();
    let (text, code) = yard.activate("latest", &[]);
    assert!(code == 70 && text.contains("four has said nothing"), "{text}");
    assert!(nodes.iter().all(|node| node.serves("1")));
    // It is killed; the others need it no more.
    let gone = nodes.pop().unwrap();
    kill(silent, Signal::SIGCONT).unwrap();
    drop(gone);
    tests::wait_until("it is not there any more", 20, || {
        yard.fine(&["status", &yard.pool, "shop", "--json"]).matches("\"is_there\":true").count() == 3
    });
    yard.activate_fine("latest");
    assert!(nodes.iter().all(|node| node.serves("2")));
    let late = yard.node("four", "", "");
    assert!(late.serves("2"), "a node that starts takes what is served");
}
