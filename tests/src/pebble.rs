//! An authority that speaks ACME: pebble, which `scripts/pebble` builds. Beside it are a name server for which every name is this machine,
//! and a proxy that can be slow, lose connections, or be gone.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use crate::server::{Directory, free_port, project};
use crate::tls::{Authority, curl};
use crate::{wait_for, wait_until};

/// How connections to the authority go.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// As they should.
    Open,
    /// They are closed at once.
    Gone,
    /// Nothing comes back.
    Stalled,
    /// Each piece takes a while, and connections are lost in between.
    Bad,
}

/// What pebble is started with.
#[derive(Clone)]
pub struct Options {
    /// Percentage of good nonces that it refuses.
    pub refused_nonces: u32,
    /// Seconds before it checks a name.
    pub sleep: u32,
    /// Seconds for which certificates are valid, by profile.
    pub profiles: Vec<(&'static str, u32)>,
    /// Identifier and key of the one account that may be made.
    pub external: Option<(&'static str, &'static str)>,
}

impl Default for Options {
    fn default() -> Options {
        Options { refused_nonces: 90, sleep: 0, profiles: vec![("default", 90 * 86400)], external: None }
    }
}

/// A running authority.
pub struct Pebble {
    child: Child,
    directory: Directory,
    tls: Authority,
    port: u16,
    management: u16,
    way: Arc<AtomicU8>,
    proxy: u16,
    names: u16,
    ends: Arc<AtomicBool>,
    options: Options,
    checks: (u16, u16),
}

fn built() -> PathBuf {
    let output = Command::new(project().join("scripts/pebble")).output().expect("scripts/pebble");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("pebble")
}

impl Pebble {
    /// Starts one that checks names by these ports, in clear and with TLS.
    pub fn start(checks: (u16, u16), options: Options) -> Pebble {
        let directory = Directory::new();
        let tls = Authority::new(&directory.0.join("tls"));
        tls.issue("site", "DNS:localhost,IP:127.0.0.1", 20);
        let (port, management, proxy) = (free_port(), free_port(), free_port());
        let (way, ends) = (Arc::new(AtomicU8::new(Way::Open as u8)), Arc::new(AtomicBool::new(false)));
        let names = serve_names(ends.clone());
        serve_proxy(proxy, port, way.clone(), ends.clone());
        let child = spawn(&directory, &tls, (port, management), names, checks, &options);
        let pebble = Pebble { child, directory, tls, port, management, way, proxy, names, ends, options, checks };
        pebble.wait();
        pebble
    }

    /// Ends it, and starts another one that knows nothing of the first.
    pub fn restart(&mut self) {
        self.end();
        self.child =
            spawn(&self.directory, &self.tls, (self.port, self.management), self.names, self.checks, &self.options);
        self.wait();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait(&self) {
        let url = format!("https://localhost:{}/roots/0", self.management);
        wait_until("pebble listens", 30, || curl(&url, &["-k"]).status == 200);
        let root = curl(&url, &["-k"]).text;
        let text = &root[root.find("-----BEGIN").expect("a certificate")..];
        fs::write(self.root(), text).expect("a file");
    }

    /// The file of the root of its certificates.
    pub fn root(&self) -> String {
        self.tls.path("pebble.pem")
    }

    /// How connections to it go from now on.
    pub fn goes(&self, way: Way) {
        self.way.store(way as u8, Ordering::Relaxed);
    }

    /// The lines of `[acme]` for it, with its directory behind the proxy.
    pub fn lines(&self, storage: &str) -> String {
        let user = if nix::unistd::Uid::effective().is_root() { "user = \"backup\"\n" } else { "" };
        format!(
            "[acme]\ndirectory = \"https://localhost:{}/dir\"\nca = \"{}\"\nstorage = \"{storage}\"\nretry = \"1s\"\n{user}",
            self.proxy,
            self.tls.path("ca.pem")
        )
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.0.join("pebble.log")).unwrap_or_default()
    }

    /// How many orders were made.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order ").count()
    }

    /// Has it advise another time of renewal for a certificate.
    pub fn advise(&self, certificate: &str, window: (&str, &str)) {
        let advice = format!("{{\"suggestedWindow\":{{\"start\":\"{}\",\"end\":\"{}\"}}}}", window.0, window.1);
        let body = serde_json::json!({ "Certificate": certificate, "ARIResponse": advice }).to_string();
        let url = format!("https://localhost:{}/set-renewal-info/", self.management);
        let got = curl(&url, &["-k", "-d", &body]);
        assert_eq!(got.status, 200, "{}", got.text);
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- pebble\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        self.ends.store(true, Ordering::Relaxed);
        self.end();
    }
}

fn spawn(
    directory: &Directory,
    tls: &Authority,
    (port, management): (u16, u16),
    names: u16,
    checks: (u16, u16),
    options: &Options,
) -> Child {
    let profile = |(name, validity): &(&str, u32)| {
        ((*name).to_owned(), serde_json::json!({ "description": name, "validityPeriod": validity }))
    };
    let profiles: serde_json::Map<String, serde_json::Value> = options.profiles.iter().map(profile).collect();
    let keys: serde_json::Map<String, serde_json::Value> =
        options.external.iter().map(|(id, key)| ((*id).to_owned(), (*key).into())).collect();
    let config = serde_json::json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{port}"),
        "managementListenAddress": format!("127.0.0.1:{management}"),
        "certificate": tls.path("site.pem"),
        "privateKey": tls.path("site.key"),
        "httpPort": checks.0,
        "tlsPort": checks.1,
        "externalAccountBindingRequired": options.external.is_some(),
        "externalAccountMACKeys": keys,
        "domainBlocklist": ["blocked.example"],
        "retryAfter": { "authz": 1, "order": 1 },
        "keyAlgorithm": "ecdsa",
        "profiles": profiles,
    }});
    let path = directory.0.join("pebble.json");
    fs::write(&path, config.to_string()).expect("a configuration");
    let log = fs::File::create(directory.0.join("pebble.log")).expect("a log");
    let mut command = Command::new(built());
    command.args(["-dnsserver", &format!("127.0.0.1:{names}"), "-config"]).arg(&path);
    command.env("PEBBLE_WFE_NONCEREJECT", options.refused_nonces.to_string());
    match options.sleep {
        0 => command.env("PEBBLE_VA_NOSLEEP", "1"),
        sleep => command.env("PEBBLE_VA_SLEEPTIME", (sleep * 2).to_string()),
    };
    let output = log.try_clone().expect("a log");
    command.stdin(Stdio::null()).stdout(output).stderr(log).spawn().expect("pebble")
}

/// Serves names until it ends: the address of each is 127.0.0.1, and there is nothing else. pebble asks by TCP.
fn serve_names(ends: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a listener");
    thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((client, _)) => drop(thread::spawn(move || serve_name(client))),
                Err(_) => thread::park_timeout(Duration::from_millis(5)),
            }
        }
    });
    port
}

fn serve_name(mut client: TcpStream) {
    let mut length = [0; 2];
    client.set_nonblocking(false).expect("a socket");
    while client.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if client.read_exact(&mut query).is_err() || query.len() < 17 {
            return;
        }
        let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap_or(0) + 5;
        let is_address = query.get(end - 4..end - 2) == Some(&[0, 1]);
        let mut answer = query[..end.min(query.len())].to_vec();
        // A response with one question and at most one answer.
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
        if is_address {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
        }
        let length = u16::try_from(answer.len()).expect("it is short").to_be_bytes();
        if client.write_all(&[&length, &answer[..]].concat()).is_err() {
            return;
        }
    }
}

/// Passes connections on until it ends.
fn serve_proxy(port: u16, to: u16, way: Arc<AtomicU8>, ends: Arc<AtomicBool>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            let Ok((client, _)) = listener.accept() else {
                thread::park_timeout(Duration::from_millis(5));
                continue;
            };
            if way.load(Ordering::Relaxed) == Way::Gone as u8 {
                continue;
            }
            client.set_nonblocking(false).expect("a socket");
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, to, is_back) in
                [(client.try_clone(), server.try_clone(), false), (server.try_clone(), client.try_clone(), true)]
            {
                let (Ok(from), Ok(to)) = (from, to) else { continue };
                let (way, ends) = (way.clone(), ends.clone());
                thread::spawn(move || pass(from, to, is_back, &way, &ends));
            }
        }
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_back: bool, way: &AtomicU8, ends: &AtomicBool) {
    let is = |one: Way| way.load(Ordering::Relaxed) == one as u8;
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while is_back && is(Way::Stalled) && !ends.load(Ordering::Relaxed) {
            thread::park_timeout(Duration::from_millis(20));
        }
        if is(Way::Bad) {
            thread::park_timeout(Duration::from_millis(fastrand::u64(0..100)));
        }
        let is_lost = is(Way::Bad) && fastrand::u32(0..12) == 0;
        if is(Way::Gone) || is_lost || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Waits until a server serves a host with a certificate of this authority.
pub fn wait_for_certificate(pebble: &Pebble, host: &str, port: u16, seconds: u64) {
    let url = format!("https://{host}:{port}/a.txt");
    wait_for("a certificate", seconds, || {
        let got = curl(&url, &["--cacert", &pebble.root()]);
        (got.status == 200).then_some(())
    });
}
