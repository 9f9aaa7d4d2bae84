//! Nodes behind a load balancer (HAProxy): one after the other is stopped and started under load, and no request is lost, because a node
//! says that it leaves before it leaves (`shutdown_delay`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use tests::server::{Directory, free_port, program};
use tests::{Client, amount, client, process, wait_until};

const SCRIPT: &str = "<?php reprise_snapshot(); usleep(random_int(0, 3000)); echo 'here';";
/// HAProxy asks each node five times a second.
const OPTIONS: &str = "shutdown_delay = \"1s\"\ndrain_timeout = \"20s\"\naccess_log = \"off\"\n";

/// A server that can be started again at the same place.
pub struct Node {
    directory: Directory,
    port: u16,
    /// Where it says how it is.
    pub admin: u16,
    process: Option<Child>,
}

impl Node {
    fn new() -> Node {
        let mut node = Node::laid(SCRIPT, "");
        node.start();
        node
    }

    /// One that does not run yet, with a script and lines of its application.
    pub fn laid(script: &str, lines: &str) -> Node {
        let (directory, port, admin) = (Directory::new(), free_port(), free_port());
        let root = directory.0.join("public");
        std::fs::create_dir(&root).expect("a directory");
        std::fs::write(root.join("index.php"), script).expect("a script");
        let text = format!(
            "listen = [\"127.0.0.1:{port}\"]\nadmin_listen = [\"http://127.0.0.1:{admin}\"]\nstate_dir = \"{}\"\n{OPTIONS}\n\
             [[application]]\nname = \"app\"\nroot = \"{}\"\n{lines}\n",
            directory.0.join("state").display(),
            root.display()
        );
        std::fs::write(directory.0.join("reprise.toml"), text).expect("a configuration");
        Node { directory, port, admin, process: None }
    }

    fn log(&self) -> PathBuf {
        self.directory.0.join("log")
    }

    /// Starts it and waits until it says that it is ready.
    pub fn start(&mut self) {
        let log = || Stdio::from(std::fs::File::options().create(true).append(true).open(self.log()).expect("a log"));
        let mut command = Command::new(program());
        command.args(["serve", "--config"]).arg(self.directory.0.join("reprise.toml")).stdout(log()).stderr(log());
        self.process = Some(command.spawn().expect("a server"));
        wait_until("the node is ready", 30, || {
            let answer = client::connect(self.admin).ok().map(|stream| Client::over(stream, "a.example"));
            let answer = answer.and_then(|mut client| client.try_request("GET", "/readyz", &[], b"").ok());
            answer.is_some_and(|answer| answer.status == 200)
        });
    }

    /// Ends it as a service manager does; all of its requests have to be answered.
    fn stop(&mut self) {
        let mut child = self.process.take().expect("it runs");
        process::kill(child.id() as i32, Signal::SIGTERM);
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{status}\n{}", std::fs::read_to_string(self.log()).unwrap_or_default());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            process::kill(child.id() as i32, Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// HAProxy in front of nodes.
pub struct Balancer {
    process: Child,
    /// Where it says what it knows of the nodes.
    socket: PathBuf,
}

impl Balancer {
    /// Starts it, and waits until it has found one of the nodes.
    pub fn start(directory: &Path, port: u16, nodes: &[Node], redispatches: bool) -> Balancer {
        let socket = directory.join("socket");
        let word = if redispatches { "option redispatch" } else { "no option redispatch" };
        let servers: String = nodes
            .iter()
            .map(|node| {
                let name = format!("n{}", node.port);
                format!("  server {name} 127.0.0.1:{} check port {} inter 200ms fall 1 rise 1\n", node.port, node.admin)
            })
            .collect();
        let text = format!(
            "global\n  stats socket {}\ndefaults\n  mode http\n  retries 3\n  {word}\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
             frontend all\n  bind 127.0.0.1:{port}\n  default_backend nodes\n\
             backend nodes\n  balance roundrobin\n  option httpchk GET /readyz\n{servers}",
            socket.display()
        );
        let file = directory.join("haproxy.cfg");
        std::fs::write(&file, text).expect("a configuration");
        let log = std::fs::File::create(directory.join("haproxy.log")).expect("a log");
        let child = Command::new("haproxy").arg("-db").arg("-f").arg(&file).stderr(log).stdout(Stdio::null()).spawn();
        let process = child.expect("haproxy: apt-get install --no-install-recommends haproxy");
        let balancer = Balancer { process, socket };
        wait_until("HAProxy has found the nodes", 20, || {
            let stream = client::connect(port).ok();
            let answer =
                stream.and_then(|stream| Client::over(stream, "a.example").try_request("GET", "/", &[], b"").ok());
            answer.is_some_and(|answer| answer.status == 200)
        });
        balancer
    }

    /// Whether it sends requests to that node.
    fn has(&self, node: &Node) -> bool {
        self.column(node, 17) == "UP"
    }

    /// Requests that it has sent to that node.
    pub fn sent_to(&self, node: &Node) -> u64 {
        self.column(node, 7).parse().expect("a number")
    }

    /// A column of its table.
    fn column(&self, node: &Node, number: usize) -> String {
        let mut stream = UnixStream::connect(&self.socket).expect("HAProxy's socket");
        stream.write_all(b"show stat\n").expect("a question");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a table");
        let line = text.lines().find(|line| line.starts_with(&format!("nodes,n{},", node.port)));
        line.expect("the node").split(',').nth(number).expect("a column").to_owned()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends that many requests while nodes are replaced one after the other, again and again; every one has to be answered.
fn replaced_under_load(mut nodes: Vec<Node>, redispatches: bool, requests: usize) {
    let (directory, port) = (Directory::new(), free_port());
    let balancer = Balancer::start(&directory.0, port, &nodes, redispatches);
    let (sent, failed, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut replaced = 0;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = None;
                while sent.fetch_add(1, Ordering::Relaxed) < requests || !is_over.load(Ordering::Relaxed) {
                    let mut one = client.take().unwrap_or_else(|| Client::new(port));
                    match one.try_request("GET", "/", &[], b"") {
                        Ok(answer) if (answer.status, answer.text().as_str()) == (200, "here") => client = Some(one),
                        Ok(answer) => {
                            eprintln!("{} {}", answer.status, answer.text());
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            eprintln!("{error}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        while replaced < nodes.len() || sent.load(Ordering::Relaxed) < requests {
            let number = replaced % nodes.len();
            nodes[number].stop();
            nodes[number].start();
            replaced += 1;
            // The next one leaves when the balancer has this one back.
            wait_until("HAProxy has the node back", 20, || balancer.has(&nodes[number]));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(balancer);
    println!("{} requests, {replaced} nodes replaced", sent.into_inner());
    assert_eq!(failed.into_inner(), 0);
}

/// Two nodes are taken out and in; HAProxy may send a request that it could not deliver to the other node.
#[test]
fn nodes_are_replaced_and_nothing_is_lost() {
    replaced_under_load(vec![Node::new(), Node::new()], true, amount(2_000, 100_000));
}

/// The same without that help.
#[test]
fn nodes_are_replaced_without_redispatch() {
    replaced_under_load(vec![Node::new(), Node::new()], false, amount(2_000, 100_000));
}

/// A rolling update of three nodes.
#[test]
fn three_nodes_are_updated_one_after_the_other() {
    replaced_under_load(vec![Node::new(), Node::new(), Node::new()], true, amount(2_000, 100_000));
}
