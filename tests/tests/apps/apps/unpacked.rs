//! Kanboard and Roundcube, unpacked from Debian's packages, from a snapshot: their pages are right, and nearly no rewind has to
//! look for what was written.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::User;
use tests::compare::{Build, Visitor, between};
use tests::peer::{Program, run_to_end, web_user};
use tests::server::{Directory, free_port};
use tests::status::sum;
use tests::{Server, Setup, wait_until};

/// A page, and what stands in it.
type Page = (&'static str, &'static str);

fn visit(visitor: &mut Visitor, pages: &[Page], times: usize) {
    for (path, text) in pages.iter().cycle().take(times) {
        let page = visitor.get(path);
        assert!(page.status == 200 && page.text().contains(text), "{path}: {} {}", page.status, page.text());
    }
}

fn rewinds(server: &Server) -> [u64; 2] {
    let status = server.status(&["--json"]);
    ["fast", "scanned"].map(|name| sum(&status, name))
}

/// Pages by one visitor and one clone, which has learned its hot pages and patterns.
fn rewinds_are_fast(name: &str, server: &Server, visitor: &mut Visitor, pages: &[Page]) {
    // A clone that leaves for a newer snapshot takes its counts with it: it learns after 16, 64 and 256 requests. After 512 a clone
    // learns once more which pages are hot.
    visit(visitor, pages, 580);
    let before = rewinds(server);
    visit(visitor, pages, 300);
    wait_until("all requests are rewound", 10, || {
        rewinds(server).iter().sum::<u64>() >= before.iter().sum::<u64>() + 300
    });
    let after = rewinds(server);
    let [fast, scanned] = [after[0] - before[0], after[1] - before[1]];
    let share = 100 * fast / (fast + scanned);
    println!("{name}: {share} % of {} rewinds are fast", fast + scanned);
    assert!(share >= 95, "{name}: {share} % of the rewinds are fast: {fast}, {scanned} scanned");
}

fn from_a_snapshot(application: &Path) -> Setup {
    let setup = Setup::root(&application.join("htdocs")).application("mode.\"index.php\" = \"snapshot\"");
    setup.application("workers = 1")
}

/// The pages again, with each rewind audited.
fn nothing_differs(setup: Setup, visit: impl Fn(&Server)) {
    let server = setup.flag("--audit").start();
    visit(&server);
    let log = server.log();
    assert!(log.contains("is booted, isolation rewind") && !log.contains("recycled: audit"), "{log}");
}

fn log_in_to_kanboard(server: &Server) -> Visitor {
    let mut visitor = Visitor::new(server.port);
    let form = visitor.get("/login").text();
    let token = between(&form, "name=\"csrf_token\" value=\"", "\"");
    let answer =
        visitor.post_form("/login/check", &[("csrf_token", token), ("username", "admin"), ("password", "admin")]);
    assert_eq!((answer.status, answer.header("location")), (302, Some("/dashboard")), "{}", answer.text());
    visitor
}

/// Kanboard with SQLite: its login page, and boards, tasks and lists of somebody who has logged in.
#[test]
fn kanboard_s_rewinds_are_fast() {
    const LOGIN: [Page; 1] = [("/login", "form-login")];
    const PAGES: [Page; 7] = [
        ("/", "House 12"),
        ("/board/1", "Garden 12"),
        ("/task/3", "<code>code 3</code>"),
        ("/projects", "House"),
        ("/project/1", "All of the <strong>Garden</strong>"),
        ("/list/1", "Garden 5"),
        ("/search?search=Garden", "Garden 7"),
    ];
    let build = Build::new("kanboard");
    let site = build.site();
    let server = from_a_snapshot(&site.ours).start();
    rewinds_are_fast("Kanboard's login", &server, &mut Visitor::new(server.port), &LOGIN);
    // A clone learns which pages of memory are hot in its first requests: another page begins with another clone.
    let server = from_a_snapshot(&site.theirs).start();
    rewinds_are_fast("Kanboard", &server, &mut log_in_to_kanboard(&server), &PAGES);
    nothing_differs(from_a_snapshot(&site.theirs), |server| visit(&mut log_in_to_kanboard(server), &PAGES, 35));
}

/// A mail server for anybody whose password is "secret", with letters to ada.
struct Mail {
    port: u16,
    _server: Program,
    _directory: Directory,
}

impl Mail {
    fn start() -> Mail {
        let (directory, port, user) = (Directory::new(), free_port(), web_user());
        let place = directory.0.display();
        let letters = directory.0.join("mail/ada/cur");
        fs::create_dir_all(&letters).expect("a mailbox");
        for number in 1..=6 {
            let letter = format!(
                "From: Bob <bob@example.org>\r\nTo: ada@example.org\r\nSubject: Letter {number}\r\n\
                 Date: Mon, 1 Jan 2024 10:0{number}:00 +0000\r\nMessage-ID: <{number}@example.org>\r\nMIME-Version: 1.0\r\n\
                 Content-Type: text/html; charset=utf-8\r\n\r\n<p>Hello <b>number {number}</b></p>\r\n"
            );
            fs::write(letters.join(format!("170410320{number}.M{number}.host:2,S")), letter).expect("a letter");
        }
        let config = directory.0.join("dovecot.conf");
        let text = DOVECOT.replace("{place}", &place.to_string()).replace("{port}", &port.to_string());
        fs::write(&config, text.replace("{user}", &user)).expect("a configuration");
        run_to_end(Command::new("chown").arg("-R").arg(&user).arg(&directory.0));
        let account = User::from_name(&user).expect("accounts").expect("an account");
        let mut command = Command::new("/usr/sbin/dovecot");
        command.arg("-F").arg("-c").arg(&config).uid(account.uid.as_raw()).gid(account.gid.as_raw());
        let mut server = Program::start(&mut command, &directory.0.join("output.log"));
        server.await_ready(30, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Mail { port, _server: server, _directory: directory }
    }
}

const DOVECOT: &str = "base_dir = {place}/run
state_dir = {place}/state
log_path = {place}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
default_login_user = {user}
default_internal_user = {user}
default_internal_group = {user}
first_valid_uid = 1
mail_location = maildir:{place}/mail/%u
passdb {
  driver = static
  args = password=secret
}
userdb {
  driver = static
  args = uid={user} gid={user} home={place}/mail/%u
}
service imap-login {
  chroot =
  inet_listener imap {
    port = {port}
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
";

fn log_in_to_roundcube(server: &Server) -> Visitor {
    let mut visitor = Visitor::new(server.port);
    let form = visitor.get("/?_task=login").text();
    let token = between(&form, "name=\"_token\" value=\"", "\"");
    let fields = [("_token", token), ("_task", "login"), ("_action", "login"), ("_user", "ada"), ("_pass", "secret")];
    let answer = visitor.post_form("/?_task=login", &fields);
    assert_eq!(answer.status, 302, "{}", answer.text());
    visitor
}

/// Roundcube with SQLite and a mail server: its login page, and mailbox, letters, settings and addresses.
#[test]
fn roundcube_s_rewinds_are_fast() {
    const LOGIN: [Page; 1] = [("/?_task=login", "rcmloginuser")];
    const PAGES: [Page; 5] = [
        ("/?_task=mail", "INBOX"),
        ("/?_task=mail&_action=list&_mbox=INBOX&_remote=1", "Letter 6"),
        ("/?_task=mail&_action=show&_uid=2&_mbox=INBOX", "number 2"),
        ("/?_task=settings", "settings"),
        ("/?_task=addressbook", "addressbook"),
    ];
    let build = Build::new("roundcube");
    let (site, mail) = (build.site(), Mail::start());
    let setup = |application: &Path| {
        let libraries = format!(".:{}:/usr/share/php", application.join("php").display());
        from_a_snapshot(application).ini("include_path", &libraries).env("IMAP_PORT", &mail.port.to_string())
    };
    let server = setup(&site.ours).start();
    rewinds_are_fast("Roundcube's login", &server, &mut Visitor::new(server.port), &LOGIN);
    rewinds_are_fast("Roundcube", &server, &mut log_in_to_roundcube(&server), &PAGES);
    nothing_differs(setup(&site.theirs), |server| visit(&mut log_in_to_roundcube(server), &PAGES, 35));
}
