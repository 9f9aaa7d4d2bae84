//! Automatic certificates with an authority: pebble, which refuses nine of ten nonces.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nix::sys::signal::Signal;
use tests::pebble::{Options, Pebble, Way, wait_for_certificate};
use tests::server::{Directory, Server, free_port};
use tests::tls::{Ports, both, curl, s_client};
use tests::{Setup, amount, process, wait_for, wait_until};

/// An authority that checks names by the ports of a server.
struct Site {
    pebble: Pebble,
    shared: Directory,
    ports: Ports,
}

impl Site {
    fn new(options: Options) -> Site {
        let ports = Ports { http: free_port(), https: free_port() };
        Site { pebble: Pebble::start((ports.http, ports.https), options), shared: Directory::new(), ports }
    }

    fn storage(&self) -> String {
        self.shared.0.join("acme").to_str().expect("a plain path").to_owned()
    }

    /// A server with certificates for these hosts, on these ports or others.
    fn server(&self, hosts: &str, more: &str, ports: Option<Ports>) -> (Server, Ports) {
        let setup = Setup::empty().file("a.txt", "file").file("index.php", "<?php echo 'php';");
        let auto = format!("[[certificate]]\nauto = true\nhosts = [{hosts}]\n");
        let tables = format!("{}{more}\n{auto}", self.pebble.lines(&self.storage()));
        match ports {
            None => {
                let (setup, ports) = both(setup, "", &tables);
                (setup.start(), ports)
            }
            Some(ports) => {
                let listen = format!("listen = [\"127.0.0.1:{}\", \"https://127.0.0.1:{}\"]", ports.http, ports.https);
                (setup.server(&listen).server(&tables).start(), ports)
            }
        }
    }

    fn state(&self, host: &str) -> serde_json::Value {
        let path = self.shared.0.join(format!("acme/certificates/{host}.json"));
        let text = fs::read_to_string(path).unwrap_or_else(|_| "{}".to_owned());
        serde_json::from_str(&text).expect("a state")
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.shared.0.join("acme").join(name)
    }
}

/// The process that orders certificates.
fn orderer(server: &Server) -> Option<i32> {
    let all = process::children(server.pid());
    all.into_iter().find(|&pid| process::name(pid).as_deref() == Some("reprise-acme"))
}

/// The serial number of the certificate that a new connection gets.
fn serial(port: u16, host: &str) -> String {
    let said = s_client(port, &["-servername", host], "GET / HTTP/1.0\r\n\r\n");
    let at = said.find("-----BEGIN CERTIFICATE-----").unwrap_or_else(|| panic!("{said}"));
    said[at..].lines().take_while(|line| !line.contains("END CERTIFICATE")).collect()
}

/// By a request in clear, with nine of ten nonces refused; keys are closed to the front and to PHP.
#[test]
fn a_certificate_is_issued_by_http_01() {
    let site = Site::new(Options { sleep: 1, ..Options::default() });
    let (server, ports) = site.server("\"a.example\", \"b.example\"", "challenges = [\"http-01\"]", Some(site.ports));
    let front = server.front();
    for host in ["a.example", "b.example"] {
        wait_for_certificate(&site.pebble, host, ports.https, 120);
    }
    assert_eq!((site.pebble.orders(), server.front()), (2, front), "{}", server.log());
    assert!(server.log().contains("notice acme: a.example: a certificate was issued"), "{}", server.log());
    // Once there is a certificate, requests are redirected to it, but the authority's are not.
    let clear = curl(&format!("http://a.example:{}/a.txt", ports.http), &[]);
    assert_eq!(clear.status, 301, "{clear:?}");
    let challenge =
        |path: &str| curl(&format!("http://a.example:{}/.well-known/acme-challenge/{path}", ports.http), &[]);
    let got = challenge("to-ken");
    let thumbprint = got.text.rsplit("to-ken.").next().unwrap_or_default().to_owned();
    assert!(got.status == 200 && thumbprint.len() == 43, "{got:?}");
    assert!(challenge("a/b").text.ends_with("php"), "no token");
    let elsewhere = curl(&format!("http://c.example:{}/.well-known/acme-challenge/to-ken", ports.http), &[]);
    assert!(elsewhere.text.ends_with("php"), "no host of its own: {elsewhere:?}");
    // Nobody but the user of the process reads what it has written.
    let mut files = 0;
    for directory in ["", "accounts", "certificates", "challenges", "leases"] {
        let path = site.file(directory);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
        for entry in fs::read_dir(&path).unwrap().map(Result::unwrap).filter(|one| one.path().is_file()) {
            let known = entry.metadata().unwrap();
            assert_eq!(known.permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
            files += 1;
        }
    }
    assert!(files >= 5, "{files}");
    if nix::unistd::Uid::effective().is_root() {
        let key = site.file("certificates/a.example.pem");
        assert_eq!(fs::metadata(&key).unwrap().uid(), 34, "backup");
        let of = |pid: i32| process::status(pid, "Uid").expect("its user").split_whitespace().next().map(str::to_owned);
        let users = [server.front(), server.prototype(), orderer(&server)].map(|pid| of(pid.expect("a process")));
        assert_eq!(users[2].as_deref(), Some("34"));
        for user in users[..2].iter().flatten() {
            assert_ne!(user, "34");
            let read = Command::new("setpriv")
                .args(["--reuid", user, "--regid", user, "--clear-groups", "cat"])
                .arg(&key)
                .output()
                .expect("setpriv");
            assert!(!read.status.success() && read.stdout.is_empty(), "user {user} reads the key");
        }
    }
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

#[test]
fn a_certificate_is_issued_by_tls_alpn_01() {
    let site = Site::new(Options::default());
    let (server, ports) = site.server("\"a.example\"", "challenges = [\"tls-alpn-01\"]", Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
    assert!(
        site.pebble.log().contains("type is \"tls-alpn-01\"") || site.pebble.orders() == 1,
        "{}",
        site.pebble.log()
    );
    // The challenge is over.
    assert_eq!(fs::read_dir(site.file("challenges")).unwrap().count(), 0);
    let said = s_client(ports.https, &["-servername", "a.example", "-alpn", "acme-tls/1"], "");
    assert!(!said.contains("subject="), "{said}");
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

/// One kind of check does not come through: after a failure the other one is tried.
#[test]
fn another_challenge_is_tried_after_a_failure() {
    let ports = Ports { http: free_port(), https: free_port() };
    // Nobody listens where the authority asks in clear.
    let pebble = Pebble::start((free_port(), ports.https), Options::default());
    let site = Site { pebble, shared: Directory::new(), ports };
    let (server, ports) = site.server("\"a.example\"", "", Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
    let log = server.log();
    assert!(log.contains("no certificate was issued") && log.contains("connection refused (connection)"), "{log}");
}

/// Certificates that live for half a minute are renewed while clients connect all the time. No handshake fails.
#[test]
fn renewals_under_load_lose_nothing() {
    let site = Site::new(Options { profiles: vec![("default", 30)], ..Options::default() });
    let (server, ports) = site.server("\"a.example\"", "", Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = || {
        let (stop, count, root) = (stop.clone(), count.clone(), site.pebble.root());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for path in ["a.txt", "index.php"] {
                    let got = curl(&format!("https://a.example:{}/{path}", ports.https), &["--cacert", &root]);
                    assert!(got.status == 200, "{} {}", got.code, got.said);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    };
    let threads = [load(), load(), load()];
    let (front, mut seen) = (server.front(), vec![serial(ports.https, "a.example")]);
    wait_until("renewals", 300, || {
        let now = serial(ports.https, "a.example");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        assert!(threads.iter().all(|thread| !thread.is_finished()), "a client has failed");
        seen.len() > amount(3, 6)
    });
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no handshake fails"));
    assert_eq!(server.front(), front);
    assert!(count.load(Ordering::Relaxed) > 50 * seen.len(), "{count:?}");
    assert!(server.status(&["--json"]).contains("\"generation\":1"), "no generation was replaced");
}

/// Servers that share a directory order each certificate once, and all serve it. The authority asks the second one alone.
#[test]
fn servers_that_share_a_directory_ask_once() {
    let site = Site::new(Options { sleep: 1, ..Options::default() });
    let hosts: Vec<String> = ["a", "b", "c", "d", "e", "f"].iter().map(|name| format!("\"{name}.example\"")).collect();
    let (first, first_ports) = site.server(&hosts.join(", "), "", None);
    let (second, second_ports) = site.server(&hosts.join(", "), "", Some(site.ports));
    for port in [first_ports.https, second_ports.https] {
        hosts.iter().for_each(|host| wait_for_certificate(&site.pebble, host.trim_matches('"'), port, 180));
    }
    let logs = [first.log(), second.log()];
    assert_eq!(site.pebble.orders(), hosts.len(), "{logs:?}");
    let issued: usize = logs.iter().map(|log| log.matches("a certificate was issued").count()).sum();
    assert_eq!(issued, hosts.len(), "{logs:?}");
    assert_eq!(logs.iter().map(|log| log.matches("an account was made").count()).sum::<usize>(), 1, "{logs:?}");
    assert_eq!(serial(first_ports.https, "a.example"), serial(second_ports.https, "a.example"));
}

/// A process that dies in the middle of an order leaves nothing to wait for: the next one goes on with the same order.
#[test]
fn an_order_is_continued_by_the_next_process() {
    let site = Site::new(Options { sleep: 10, ..Options::default() });
    let (server, ports) = site.server("\"a.example\"", "", Some(site.ports));
    let order = site.file("certificates/a.example.order");
    wait_until("an order", 60, || order.exists());
    let first = orderer(&server).expect("it runs");
    process::kill(first, Signal::SIGKILL);
    let second = wait_for("another process", 30, || orderer(&server).filter(|pid| *pid != first));
    // The whole server too.
    drop(server);
    assert!(!process::is_alive(second));
    let (server, _) = site.server("\"a.example\"", "", Some(ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 180);
    assert_eq!(site.pebble.orders(), 1, "{}", server.log());
    assert!(!order.exists());
}

/// The authority's words are in the log; other hosts get theirs, and nothing stops.
#[test]
fn a_refusal_is_logged_and_stops_nothing() {
    let site = Site::new(Options::default());
    let (server, ports) = site.server("\"blocked.example\", \"a.example\"", "", Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
    wait_until("three attempts", 60, || {
        let log = server.log();
        log.contains("blocked.example: no certificate was issued:")
            && log.contains("(rejectedIdentifier)")
            && log.contains("(attempt 3;")
    });
    let clear = curl(&format!("http://blocked.example:{}/a.txt", ports.http), &[]);
    assert_eq!(clear.status, 200, "{clear:?}");
    // Delays survive a restart.
    wait_until("a delay that lasts", 120, || site.state("blocked.example")["failures"].as_u64() >= Some(5));
    let state = site.state("blocked.example");
    drop(server);
    let (server, _) = site.server("\"blocked.example\", \"a.example\"", "", Some(ports));
    wait_until("the next attempt", 120, || server.log().contains("attempt 6;"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now >= state["not_before"].as_u64().expect("a time"), "{state}");
    // A profile that the authority does not have.
    server.reconfigure("retry = \"1s\"", "retry = \"1s\"\nprofile = \"unknown\"");
    let before = serial(ports.https, "a.example");
    assert!(server.reload().0);
    wait_until("its words", 60, || {
        server.log().contains("a.example: no certificate was issued: Order includes unrecognized profile name")
    });
    assert_eq!(serial(ports.https, "a.example"), before, "the old one is served");
}

/// An authority that is gone, then stalls, then is slow and loses connections, then knows nothing of the account.
#[test]
fn an_authority_that_fails_is_asked_again() {
    // Fewer nonces are refused than elsewhere: of each hundred requests a fifth is lost on top.
    let mut site = Site::new(Options { refused_nonces: 50, ..Options::default() });
    site.pebble.goes(Way::Gone);
    let (server, ports) = site.server("\"a.example\"", "", Some(site.ports));
    wait_until("its absence is logged", 60, || server.log().contains("(attempt 2;"));
    site.pebble.goes(Way::Stalled);
    let clear = curl(&format!("http://a.example:{}/index.php", ports.http), &[]);
    assert!(clear.status == 200 && clear.text.ends_with("php"), "{clear:?}");
    wait_until("its silence is logged", 200, || server.log().contains("no response within 30s"));
    site.pebble.goes(Way::Bad);
    wait_for_certificate(&site.pebble, "a.example", ports.https, 300);
    site.pebble.goes(Way::Open);
    // Another authority at the same address: it has no account of this server.
    site.pebble.restart();
    fs::remove_file(site.file("certificates/a.example.pem")).unwrap();
    let first = orderer(&server).expect("it runs");
    process::kill(first, Signal::SIGKILL);
    wait_until("its words", 60, || server.log().contains("(accountDoesNotExist)"));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
}

#[test]
fn an_external_account_and_a_profile_are_used() {
    let external = ("reprise-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");
    let profiles = vec![("default", 90 * 86400), ("shortlived", 6 * 86400)];
    let site = Site::new(Options { external: Some(external), profiles, ..Options::default() });
    let key = site.shared.0.join("eab.key");
    fs::write(&key, format!("{}\n", external.1)).unwrap();
    let lines = format!("profile = \"shortlived\"\neab_key_id = \"reprise-1\"\neab_key_file = \"{}\"", key.display());
    let (server, ports) = site.server("\"a.example\"", &lines, Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 120);
    assert!(server.log().contains("issued, for 6.0 days"), "{}", server.log());
    // Another profile is wanted: another certificate follows.
    server.reconfigure("profile = \"shortlived\"", "profile = \"default\"");
    assert!(server.reload().0);
    wait_until("the other profile", 60, || server.log().contains("issued, for 90.0 days"));
}

/// The authority wants a certificate to be renewed at once. The new one says which it replaces.
#[test]
fn the_authority_says_when_to_renew() {
    let site = Site::new(Options { refused_nonces: 0, ..Options::default() });
    let (server, ports) = site.server("\"a.example\"", "", Some(site.ports));
    wait_for_certificate(&site.pebble, "a.example", ports.https, 60);
    wait_until("the authority was asked", 30, || site.state("a.example")["window"].is_array());
    let (before, mut state) = (serial(ports.https, "a.example"), site.state("a.example"));
    let window: Vec<u64> = state["window"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).collect();
    let renew_at = state["renew_at"].as_u64().expect("a time");
    assert!((window[0]..=window[1]).contains(&renew_at), "{state}");
    let text = fs::read_to_string(site.file("certificates/a.example.pem")).unwrap();
    let certificate = &text[text.find("-----BEGIN CERTIFICATE").expect("a certificate")..];
    site.pebble.advise(certificate, ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"));
    // It was issued long ago, and it is time to ask.
    state["issued"] = 1.into();
    state["ask_at"] = 1.into();
    fs::write(site.file("certificates/a.example.json"), state.to_string()).unwrap();
    process::kill(orderer(&server).expect("it runs"), Signal::SIGKILL);
    wait_until("the next certificate", 60, || serial(ports.https, "a.example") != before);
    assert_eq!(site.pebble.orders(), 2);
    assert!(!server.log().contains("does not say when to renew"), "{}", server.log());
}
