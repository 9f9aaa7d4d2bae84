//! A fleet that grows: which number says that nodes are missing, and how soon a node that is added serves. docs/operations/kubernetes.md has what an
//! autoscaler makes of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tests::server::{Directory, free_port};
use tests::{Client, seconds, wait_until};

use super::balancer::{Balancer, Node};

/// A request takes so long on any machine.
const SCRIPT: &str = "<?php reprise_snapshot(); usleep(30_000); echo 'here';";
const WORKERS: usize = 2;

/// Requests that wait for a worker, summed over nodes, as an autoscaler sums them.
fn waiting(nodes: &[Node]) -> u64 {
    let of = |node: &Node| {
        let text = Client::new(node.admin).get("/metrics").text();
        let values = text.lines().filter(|line| line.starts_with("reprise_requests_waiting{"));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    nodes.iter().map(of).sum()
}

/// The mean of some looks.
fn mean(nodes: &[Node]) -> f64 {
    const LOOKS: u32 = 40;
    (0..LOOKS).map(|_| waiting(nodes) as f64).sum::<f64>() / f64::from(LOOKS)
}

/// Two nodes have as many workers as clients: next to nothing waits. Twice as many clients, and the requests that wait are as many as workers are
/// missing. A third node serves within seconds of its process' start, nothing fails, and less waits.
#[test]
fn waiting_requests_say_that_a_node_is_missing() {
    let node = || Node::laid(SCRIPT, &format!("workers = {WORKERS}"));
    let mut nodes = [node(), node(), node()];
    nodes[..2].iter_mut().for_each(Node::start);
    let (directory, port) = (Directory::new(), free_port());
    let clients = 2 * WORKERS;
    let balancer = Balancer::start(&directory.0, port, &nodes, true);
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let ask = || {
        let mut client = Client::new(port);
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(client.get("/").text(), "here");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        (0..clients).for_each(|_| drop(scope.spawn(ask)));
        wait_until("requests are served", 10, || answered.load(Ordering::Relaxed) > 100);
        let usual = mean(&nodes[..2]);
        (0..clients).for_each(|_| drop(scope.spawn(ask)));
        wait_until("more wait than the two nodes have workers for", 10, || waiting(&nodes[..2]) >= clients as u64 / 2);
        let doubled = mean(&nodes[..2]);

        let began = Instant::now();
        nodes[2].start();
        wait_until("the third node serves", 10, || balancer.sent_to(&nodes[2]) > 10);
        let took = began.elapsed();
        wait_until("fewer wait", 10, || mean(&nodes) < (doubled + usual) / 2.0 + 0.5);
        let grown = mean(&nodes);
        is_over.store(true, Ordering::Relaxed);
        println!(
            "waiting: {usual:.1}, with twice the clients {doubled:.1}, with a third node {grown:.1}; it served after {took:?}"
        );
        assert!(usual + 1.0 < doubled && grown + 0.5 < doubled, "{usual} {doubled} {grown}");
        assert!(took < seconds(5), "{took:?}");
    });
    drop(balancer);
}
