//! New certificates under load, and what clients resume.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tests::server::Directory;
use tests::tls::{Authority, Kept, Ports, both, curl, s_client};
use tests::{Server, Setup, amount, process, wait_for, wait_until};

const ASK: &str = "GET /a.txt HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// A server whose certificate `site` is that of `one` at first; there is another, `two`.
struct Site {
    authority: Arc<Authority>,
    _directory: Directory,
    server: Server,
    ports: Ports,
}

impl Site {
    fn start(more: &str) -> Site {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("tls"));
        for name in ["one", "two"] {
            authority.issue(name, "DNS:a.example", 20);
        }
        authority.replace("site", "one");
        let setup = Setup::empty().file("a.txt", "file").file("index.php", "<?php echo 'php';");
        let (setup, ports) = both(setup, more, &authority.table("site"));
        Site { server: setup.start(), authority: Arc::new(authority), _directory: directory, ports }
    }

    /// Which certificate a new connection gets.
    fn serves(&self) -> String {
        let said = s_client(self.ports.https, &["-servername", "a.example"], ASK);
        let line = said.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or_else(|| panic!("{said}"));
        line.replace("CN = ", "").replace("CN=", "")
    }

    /// Connects, and says whether that has resumed the session of a file; the file then holds the new session.
    fn resumes(&self, session: &str) -> bool {
        let mut arguments = vec!["-servername", "a.example", "-sess_out", session];
        if fs::exists(session).unwrap() {
            arguments.extend(["-sess_in", session]);
        }
        let said = s_client(self.ports.https, &arguments, ASK);
        assert!(said.contains("HTTP/1.1 200"), "{said}");
        assert!(!said.contains("Early data was accepted") && !said.contains("Max Early Data: 1"), "{said}");
        said.contains("Reused, TLS")
    }

    fn session(&self, name: &str) -> String {
        self.server.directory().join(name).to_str().expect("a plain path").to_owned()
    }
}

/// No request is lost, neither on connections that stay nor on new ones; each swap is in force when the command has ended.
#[test]
fn fifty_swaps_under_load_lose_nothing() {
    let site = Site::start("");
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = |is_kept: bool| {
        let (stop, answered) = (stop.clone(), answered.clone());
        let (ports, authority) = (site.ports, site.authority.clone());
        thread::spawn(move || {
            let mut kept = is_kept.then(|| Kept::connect(ports.https, &["-servername", "a.example"]));
            while !stop.load(Ordering::Relaxed) {
                match &mut kept {
                    Some(kept) => assert_eq!(kept.get("a.example", "/index.php"), (200, "php".to_owned())),
                    None => {
                        let url = format!("https://a.example:{}/a.txt", ports.https);
                        let got = curl(&url, &["--cacert", &authority.path("ca.pem")]);
                        assert!(got.status == 200 && got.text.ends_with("file"), "{} {}", got.code, got.said);
                    }
                }
                answered.fetch_add(1, Ordering::Relaxed);
                // Steady, not as much as the machine can take.
                thread::park_timeout(Duration::from_millis(5));
            }
        })
    };
    let threads = [load(true), load(true), load(false), load(false)];
    let front = site.server.front();
    for turn in 0..amount(8, 50) {
        let name = if turn % 2 == 0 { "two" } else { "one" };
        let before = answered.load(Ordering::Relaxed);
        site.authority.replace("site", name);
        let (is_good, text) = site.server.reload_certificates();
        assert!(is_good && text.contains("a.example (until "), "{text}");
        assert_eq!(site.serves(), name, "turn {turn}");
        wait_until("requests between two swaps", 10, || answered.load(Ordering::Relaxed) > before + 2);
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no request is lost"));
    assert_eq!(site.server.front(), front);
    let status = site.server.status(&["--json"]);
    assert!(status.contains("\"generation\":1"), "no generation was replaced: {status}");
    assert!(!site.server.log().contains("is forbidden"), "{}", site.server.log());
}

/// Files that change are noticed without a command; those that cannot be served change nothing.
#[test]
fn changed_files_are_noticed_and_broken_ones_keep_the_old() {
    let site = Site::start("");
    site.authority.replace("site", "two");
    wait_until("the other certificate is served", 30, || site.serves() == "two");
    let chain = site.authority.path("site.pem");
    let whole = fs::read(site.authority.path("one.pem")).unwrap();
    fs::write(&chain, &whole[..whole.len() / 2]).unwrap();
    let (is_good, text) = site.server.reload_certificates();
    assert!(!is_good && text.contains("written in part") && text.contains("site.pem"), "{text}");
    let refusal = "Those before stay in use";
    assert!(site.server.log().contains(refusal), "{}", site.server.log());
    // All or nothing holds for a reload too.
    let (is_good, text) = site.server.reload();
    assert!(!is_good && text.contains("written in part"), "{text}");
    assert_eq!(site.serves(), "two");
    // The key and its certificate come one after the other.
    fs::write(&chain, &whole).unwrap();
    let (is_good, text) = site.server.reload_certificates();
    assert!(!is_good && text.contains("is not the key of the certificate"), "{text}");
    assert_eq!(site.serves(), "two");
    site.authority.replace("site", "one");
    let (is_good, text) = site.server.reload();
    assert!(is_good, "{text}");
    assert_eq!(site.serves(), "one");
    // A new front gets what is in force, not what the server began with.
    site.authority.replace("site", "two");
    assert!(site.server.reload_certificates().0);
    let front = site.server.front().expect("a front");
    process::kill(front, Signal::SIGKILL);
    wait_for("another front", 20, || site.server.front().filter(|pid| *pid != front));
    wait_until("it serves", 20, || {
        curl(&format!("https://a.example:{}/a.txt", site.ports.https), &["-k"]).status == 200
    });
    assert_eq!(site.serves(), "two");
}

/// The keys of tickets outlive the front, and servers can share them.
#[test]
fn tickets_outlive_the_front_and_can_be_shared() {
    let site = Site::start("");
    let session = site.session("session");
    assert!(
        !site.resumes(&session) && site.resumes(&session),
        "the first connection resumes none, the second the first"
    );
    let front = site.server.front().expect("a front");
    process::kill(front, Signal::SIGKILL);
    wait_for("another front", 20, || site.server.front().filter(|pid| *pid != front));
    wait_until("it serves", 20, || {
        curl(&format!("https://a.example:{}/a.txt", site.ports.https), &["-k"]).status == 200
    });
    assert!(site.resumes(&session), "with the next front");
    site.authority.replace("site", "two");
    assert!(site.server.reload_certificates().0 && site.resumes(&session), "with the next certificate");
    assert!(!Site::start("").resumes(&session), "another server has other keys");

    let keys = site.session("keys");
    fs::write(&keys, [[1; 80], [2; 80]].concat()).unwrap();
    let shared = format!("tls_ticket_keys = \"{keys}\"");
    let (first, second) = (Site::start(&shared), Site::start(&shared));
    let session = site.session("shared");
    assert!(!first.resumes(&session) && second.resumes(&session) && first.resumes(&session));
    // The newest key is put in front; the others still decrypt.
    fs::write(&keys, [[3; 80], [1; 80], [2; 80]].concat()).unwrap();
    assert!(first.server.reload_certificates().0 && first.resumes(&session));
    assert!(!second.resumes(&session), "it has not read the new key, with which that ticket was made");
    fs::write(&keys, [0; 79]).unwrap();
    let (is_good, text) = first.server.reload_certificates();
    assert!(!is_good && text.contains("openssl rand 80"), "{text}");
}
