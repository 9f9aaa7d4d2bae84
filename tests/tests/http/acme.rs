//! Automatic certificates without an authority: the configuration, and what is served as long as there is no certificate.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::libc::O_NONBLOCK;
use nix::sys::signal::Signal;
use tests::server::{Directory, free_port, program};
use tests::tls::{Authority, both, curl, s_client};
use tests::upstream::Upstream;
use tests::{Setup, process};

/// What `reprise check` says of these tables beside an application for some hosts.
fn check(directory: &Directory, tables: &str) -> (bool, String) {
    fs::create_dir_all(directory.0.join("public")).unwrap();
    let config = directory.0.join("reprise.toml");
    let application = "[[application]]\nroot = \"public\"\nhosts = [\"a.example\", \"*.b.example\"]\n";
    fs::write(&config, format!("listen = [\"https://127.0.0.1:0\"]\n{tables}\n{application}")).unwrap();
    let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Lines of `[acme]` with a directory of the test's own, and a user if that is needed.
fn authority(directory: &Directory) -> String {
    let user = if nix::unistd::Uid::effective().is_root() { "user = \"backup\"\n" } else { "" };
    format!("[acme]\nstorage = \"{}/acme\"\n{user}", directory.0.display())
}

#[test]
fn configurations_that_cannot_work_are_explained() {
    let directory = Directory::new();
    let acme = authority(&directory);
    let auto = |hosts: &str| format!("[[certificate]]\nauto = true\nhosts = [{hosts}]\n");
    for (tables, expected) in [
        (auto("\"*.b.example\""), &["reprise.toml:2", "*.b.example", "DNS-01", "hint: name each host"][..]),
        (auto("\"c.example\""), &["reprise.toml:2", "c.example", "no host of an application"]),
        (auto("\"a.example\", \"a.example\""), &["a.example", "as at"]),
        (auto(""), &["empty list of hosts"]),
        ("[[certificate]]\nauto = true\n".to_owned(), &["no hosts"]),
        (format!("{}chain = \"x.pem\"\n", auto("\"a.example\"")), &["auto = true and a chain"]),
        (format!("{}{acme}directory = \"http://ca.example/\"\n", auto("\"a.example\"")), &["begins with https://"]),
        (format!("{}{acme}challenges = [\"dns-01\"]\n", auto("\"a.example\"")), &["\"http-01\" or \"tls-alpn-01\""]),
        (format!("{}{acme}challenges = []\n", auto("\"a.example\"")), &["'challenges' is empty"]),
        (format!("{}{acme}contact = [\"somebody\"]\n", auto("\"a.example\"")), &["'somebody' is no mail address"]),
        (format!("{}{acme}eab_key_id = \"x\"\n", auto("\"a.example\"")), &["belong together"]),
        (
            format!("{}{acme}eab_key_id = \"x\"\neab_key_file = \"missing\"\n", auto("\"a.example\"")),
            &["eab_key_file", "missing", "No such file"],
        ),
        (format!("{}{acme}profil = \"x\"\n", auto("\"a.example\"")), &["did you mean 'profile'"]),
        (format!("{}[[acme]]\n", auto("\"a.example\"")), &["write [acme], with one bracket"]),
        (format!("profile = \"x\"\n{}", auto("\"a.example\"")), &["'profile' belongs below [acme]"]),
    ] {
        let (is_good, text) = check(&directory, &tables);
        assert!(!is_good && expected.iter().all(|part| text.contains(part)), "{tables}: {text}");
    }
    let (is_good, text) = check(&directory, &format!("{}{acme}", auto("\"a.example\", \"x.b.example\"")));
    assert!(is_good && text.contains("a.example (not issued yet)") && text.contains("letsencrypt.org"), "{text}");
    let storage = directory.0.join("acme");
    assert!(!storage.exists(), "a check makes nothing");
    fs::create_dir(&storage).unwrap();
    let (is_good, text) = check(&directory, &format!("{}{acme}", auto("\"a.example\"")));
    assert!(!is_good && (text.contains("chown") || text.contains("chmod 700")), "{text}");
    fs::create_dir(directory.0.join("conf.d")).unwrap();
    fs::write(directory.0.join("conf.d/x.toml"), "[acme]\n").unwrap();
    let (is_good, text) = check(&directory, &auto("\"a.example\""));
    assert!(!is_good && text.contains("[acme] belongs to the main file"), "{text}");
}

/// The authority cannot be reached: HTTP is served, other certificates too, and a handshake for a host without a certificate is refused.
#[test]
fn a_host_without_a_certificate_is_served_in_clear_alone() {
    let directory = Directory::new();
    let tls = Authority::new(&directory.0.join("tls"));
    tls.issue("other", "DNS:other.example", 20);
    let gone = format!("directory = \"https://127.0.0.1:{}/\"\nca = \"{}\"\n", free_port(), tls.path("ca.pem"));
    let auto = "[[certificate]]\nauto = true\nhosts = [\"a.example\"]\n";
    let tables = format!("{}{gone}retry = \"1s\"\n{auto}{}", authority(&directory), tls.table("other"));
    let admin = free_port();
    let setup = Setup::empty().file("a.txt", "file");
    let (setup, ports) = both(setup, &format!("admin_listen = [\"127.0.0.1:{admin}\"]"), &tables);
    let server = setup.start();
    let clear = curl(&format!("http://a.example:{}/a.txt", ports.http), &[]);
    assert!(clear.status == 200 && clear.text.ends_with("file"), "{clear:?}");
    let other = curl(&format!("https://other.example:{}/a.txt", ports.https), &["--cacert", &tls.path("ca.pem")]);
    assert_eq!(other.status, 200, "{other:?}");
    for version in ["-tls1_2", "-tls1_3"] {
        let said = s_client(ports.https, &["-servername", "a.example", version], "");
        assert!(said.contains("unrecognized name") && !said.contains("subject="), "{said}");
    }
    // A handshake for a challenge that nobody has asked for is none.
    let said = s_client(ports.https, &["-servername", "a.example", "-alpn", "acme-tls/1"], "");
    assert!(!said.contains("subject="), "{said}");
    let metrics = curl(&format!("http://127.0.0.1:{admin}/metrics"), &[]).text;
    assert!(metrics.contains("reprise_tls_handshakes_total{result=\"awaited\"} 3"), "{metrics}");
    tests::wait_until("the failure is logged", 30, || {
        let log = server.log();
        log.contains("warning acme: a.example: no certificate was issued: 127.0.0.1:") && log.contains("attempt 2;")
    });
    let challenge = curl(&format!("http://a.example:{}/.well-known/acme-challenge/token", ports.http), &[]);
    assert_eq!(challenge.status, 404, "there is no account: {challenge:?}");
    assert!(server.reload().0, "a reload does not wait for a certificate");
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

/// The other ends of all pipes by which children learn that their supervisor is gone: as long as somebody has them, they learn nothing.
fn held_pipes(supervisor: i32) -> Vec<File> {
    let entries = fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_pipe =
        |path: &std::path::PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
    let pipes = paths.filter(is_pipe);
    pipes.filter_map(|path| OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path).ok()).collect()
}

/// The supervisor is killed while an order is under way: its authority takes the connection, and is silent. The process ends although
/// another one still holds the supervisor's end of the lifeline, as a child may that the supervisor had just forked; it waits for that,
/// and does not ask in a loop.
#[test]
fn the_process_ends_when_its_supervisor_is_killed() {
    for is_held in [false, true] {
        let directory = Directory::new();
        let authority_of_test = Upstream::start(|mut talk| talk.wait());
        let silent = format!("directory = \"https://127.0.0.1:{}/\"\n", authority_of_test.port);
        let tables =
            format!("{}{silent}[[certificate]]\nauto = true\nhosts = [\"a.example\"]\n", authority(&directory));
        let (setup, _) = both(Setup::empty().file("a.txt", "file"), "", &tables);
        let mut server = setup.start();
        tests::wait_until("an order is under way", 20, || authority_of_test.taken() > 0);
        let children = process::children(server.pid());
        let is_acme = |pid: &i32| process::name(*pid).as_deref() == Some("reprise-acme");
        let acme = children.into_iter().find(is_acme).expect("the process that orders certificates");
        let ran = || {
            let text = fs::read_to_string(format!("/proc/{acme}/schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|first| first.parse().ok()).map(Duration::from_nanos)
        };
        let held = if is_held { held_pipes(server.pid()) } else { Vec::new() };
        assert_eq!(is_held, !held.is_empty());
        let before = ran().expect("its processor time");
        server.signal(Signal::SIGKILL);
        assert_eq!(server.wait(10), -9);
        let (killed, mut after) = (Instant::now(), before);
        tests::wait_until("the process that orders certificates has ended", 3, || {
            after = ran().unwrap_or_default().max(after);
            !process::is_alive(acme)
        });
        println!("ended {:?} after its supervisor, processor time {:?}", killed.elapsed(), after - before);
        assert!(after - before < Duration::from_millis(500), "it took {:?} of a processor", after - before);
    }
}
