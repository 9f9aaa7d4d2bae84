//! Listeners that a reload adds, removes and changes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tests::http2::{self, Http2};
use tests::server::{Directory, free_port};
use tests::tls::{Authority, Kept, curl, s_client};
use tests::{Client, Server, Setup, amount, process, wait_until};

/// Says by which port and scheme the request came. `/?wait` waits for a file.
const SCRIPT: &str = r#"<?php
if (isset($_GET['wait'])) {
    touch(getenv('PLACE') . '/begun');
    while (!file_exists(getenv('PLACE') . '/go')) { usleep(2000); clearstatcache(); }
}
$body = strlen(file_get_contents('php://input'));
$text = "$_SERVER[REQUEST_SCHEME] $_SERVER[SERVER_PORT] $_SERVER[REMOTE_ADDR] $body";
header('Content-Length: ' . strlen($text));
echo $text;
"#;

fn site() -> Setup {
    let setup = Setup::empty().file("index.php", SCRIPT);
    let place = setup.writable("place");
    setup.env("PLACE", &place)
}

/// Puts other addresses in the place of those that `listen` has.
fn listen(server: &Server, addresses: &[String]) {
    let text = fs::read_to_string(server.directory().join("reprise.toml")).unwrap();
    let old = text.lines().find(|line| line.starts_with("listen = ")).expect("listen").to_owned();
    server.reconfigure(&old, &format!("listen = {addresses:?}"));
}

fn reload(server: &Server) {
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
}

fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn is_refused(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// A port that only root may bind, if the tests run as root; else any.
fn privileged_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    if Uid::effective().is_root() { (300..1000).find(free).expect("a free port") } else { free_port() }
}

/// New addresses serve, those before are closed, and what had begun there ends well. The next front has the same listeners.
#[test]
fn addresses_come_and_go() {
    let server = site().start();
    let front = server.front().expect("a front");
    let place = server.directory().join("place");
    let mut idle = server.client();
    assert_eq!(idle.get("/").text(), format!("http {} 127.0.0.1 0", server.port));
    let mut idle_http2 = Http2::new(server.port);
    idle_http2.request(1, &http2::get("/"));
    assert_eq!(idle_http2.answer(1).status, Some(200));
    let mut active = server.client();
    active.send(b"GET /?wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request runs", 10, || place.join("begun").exists());
    let (next, low, socket) = (free_port(), privileged_port(), server.directory().join("web.sock"));
    let monitoring = free_port();
    listen(&server, &[local(next), local(low), format!("unix:{}", socket.display())]);
    server.reconfigure("state_dir", &format!("admin_listen = [\"127.0.0.1:{monitoring}\"]\nstate_dir"));
    reload(&server);
    for port in [next, low] {
        assert_eq!(tests::client::get(port, "/").text(), format!("http {port} 127.0.0.1 0"));
    }
    let mut by_socket = Client::over(UnixStream::connect(&socket).expect("a socket"), "x");
    assert_eq!(by_socket.get("/").status, 200);
    assert_eq!(tests::client::get(monitoring, "/healthz").status, 200);
    wait_until("the old address is closed", 10, || is_refused(server.port));
    assert!(idle.is_closed(), "an idle connection");
    assert_eq!(idle_http2.end(), Some(0), "GOAWAY without an error");
    fs::write(place.join("go"), "").unwrap();
    assert_eq!(active.read(false).expect("a response").text(), format!("http {} 127.0.0.1 0", server.port));
    assert!(active.is_closed(), "a connection that was active");
    let log = server.log();
    for line in [
        format!("no longer listening on {}", local(server.port)),
        format!("listening on {}", local(low)),
        format!("listening on {} (metrics)", local(monitoring)),
    ] {
        assert!(log.contains(&line), "{line:?} in {log}");
    }
    assert_eq!(server.front(), Some(front), "{log}");
    assert!(!log.contains("is forbidden"), "{log}");
    process::kill(front, Signal::SIGKILL);
    wait_until("another front", 10, || server.front().is_some_and(|next| next != front));
    assert_eq!(tests::client::get(low, "/").status, 200);
    // A socket goes with its address, and comes back; the address of the start too.
    listen(&server, &[local(server.port)]);
    reload(&server);
    assert!(!socket.exists());
    wait_until("the other addresses are closed", 10, || is_refused(next) && is_refused(low));
    assert_eq!(server.get("/").status, 200);
}

/// A reload that fails for an address, or for anything else, opens and closes nothing.
#[test]
fn a_refused_reload_changes_no_address() {
    let server = site().start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port();
    let (next, socket) = (free_port(), server.directory().join("web.sock"));
    let others = [local(next), format!("unix:{}", socket.display())];
    let unchanged = || {
        wait_until("what was opened is closed again", 10, || is_refused(next) && !socket.exists());
        assert_eq!(server.get("/").text(), format!("http {} 127.0.0.1 0", server.port));
        assert_eq!(server.status(&["--json"]).matches("\"generation\":1").count(), 1);
    };
    listen(&server, &[&others[..], &[local(taken_port)]].concat());
    let (is_done, text) = server.reload();
    assert!(
        !is_done && text.contains(&format!("cannot listen on {}: the address is in use", local(taken_port))),
        "{text}"
    );
    unchanged();
    // An address of this server's own is in the way.
    listen(&server, &[&others[..], &[format!("http://0.0.0.0:{}", server.port)]].concat());
    let (is_done, text) = server.reload();
    let hint = format!("this server listens on {}", local(server.port));
    assert!(!is_done && text.contains("in use") && text.contains(&hint), "{text}");
    unchanged();
    listen(&server, &[&others[..], &["https://127.0.0.1:1".to_owned()]].concat());
    let (is_done, text) = server.reload();
    assert!(!is_done && text.contains("there is no certificate for it"), "{text}");
    unchanged();
    // The new code does not work.
    listen(&server, &others);
    server.reconfigure("workers = 2", "workers = 2\nwarmup = [\"/broken.php\"]");
    fs::write(server.root.join("broken.php"), "<?php http_response_code(500);").unwrap();
    let (is_done, text) = server.reload();
    assert!(!is_done && text.contains("broken.php"), "{text}");
    unchanged();
    // The same, mended.
    fs::write(server.root.join("broken.php"), "<?php").unwrap();
    drop(taken);
    listen(&server, &[&others[..], &[local(taken_port)]].concat());
    reload(&server);
    assert_eq!(tests::client::get(taken_port, "/").status, 200);
    assert!(socket.exists());
}

/// A server that was started without TLS gets certificates, and a port changes from http to https and back.
#[test]
fn a_port_changes_its_scheme() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0.join("tls"));
    authority.issue("site", "DNS:a.example", 20);
    let server = site().start();
    let port = server.port;
    let mut idle = server.client();
    assert_eq!(idle.get("/").status, 200);
    listen(&server, &[format!("https://127.0.0.1:{port}")]);
    server.reconfigure("[[application]]", &format!("{}\n[[application]]", authority.table("site")));
    reload(&server);
    assert!(idle.is_closed(), "a connection in clear");
    let url = |scheme: &str| format!("{scheme}://a.example:{port}/");
    let ca = authority.path("ca.pem");
    let got = curl(&url("https"), &["--cacert", &ca]);
    assert!(got.text.ends_with(&format!("https {port} 127.0.0.1 0")), "{} {}", got.text, got.said);
    // Tickets are issued too, and resume.
    let session = directory.0.join("session").display().to_string();
    let ask = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    wait_until("a session is resumed", 10, || {
        let said = match fs::exists(&session).unwrap() {
            true => s_client(port, &["-servername", "a.example", "-sess_in", &session], ask),
            false => s_client(port, &["-servername", "a.example", "-sess_out", &session], ask),
        };
        assert!(said.contains("HTTP/1.1 200"), "{said}");
        said.contains("Reused, TLS")
    });
    let mut kept = Kept::connect(port, &["-servername", "a.example"]);
    assert_eq!(kept.get("a.example", "/").0, 200);
    listen(&server, &[local(port)]);
    reload(&server);
    assert!(kept.is_closed(), "a connection by TLS");
    assert_eq!(server.get("/").text(), format!("http {port} 127.0.0.1 0"));
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

/// A listener for balancers, and hosts of certificates and applications, come by reloads.
#[test]
fn balancers_and_hosts_come_by_reload() {
    let directory = Directory::new();
    let authority = Authority::new(&directory.0.join("tls"));
    authority.issue("a", "DNS:a.example", 20);
    authority.issue("b", "DNS:b.example", 20);
    let (clear, port) = (free_port(), free_port());
    let server = site()
        .server(&format!("listen = [\"http://127.0.0.1:{clear}\", \"https://127.0.0.1:{port}\"]"))
        .server(&authority.table("a"))
        .application("hosts = [\"a.example\"]\nhttps_redirect = false")
        .start();
    let ask = |host: &str| curl(&format!("https://{host}:{port}/"), &["--cacert", &authority.path("ca.pem")]);
    assert_eq!((ask("a.example").status, ask("b.example").code), (200, 60));
    server.reconfigure("hosts = [\"a.example\"]", "hosts = [\"a.example\", \"b.example\"]");
    server.reconfigure("[[application]]", &format!("{}\n[[application]]", authority.table("b")));
    reload(&server);
    assert_eq!((ask("a.example").status, ask("b.example").status), (200, 200));
    let balanced = free_port();
    listen(&server, &[local(balanced), format!("https://127.0.0.1:{port}")]);
    server.reconfigure("state_dir", "proxy_protocol = [\"127.0.0.1\"]\nstate_dir");
    reload(&server);
    let mut client = Client::new(balanced);
    client.send(b"PROXY TCP4 192.0.2.1 192.0.2.9 1234 8000\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert_eq!(client.read(false).expect("a response").text(), "http 8000 192.0.2.1 0");
}

/// The number that the rule of now redirects to.
fn redirected(port: u16) -> usize {
    let response = tests::client::get(port, "/rule");
    assert_eq!(response.status, 302, "{}", response.text());
    response.header("location").and_then(|to| to.strip_prefix("/to-")?.parse().ok()).expect("a number")
}

/// Loads a server until it is told to stop: each function makes one request, or a few.
struct Load {
    stop: Arc<AtomicBool>,
    done: Vec<Arc<AtomicUsize>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn begin(clients: Vec<Box<dyn FnMut() + Send>>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let done: Vec<Arc<AtomicUsize>> = clients.iter().map(|_| Arc::default()).collect();
        let threads = clients.into_iter().zip(&done).map(|(mut client, done)| {
            let (stop, done) = (stop.clone(), done.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client();
                    done.fetch_add(1, Ordering::Relaxed);
                    thread::park_timeout(Duration::from_millis(4));
                }
            })
        });
        Load { threads: threads.collect(), stop, done }
    }

    /// Waits until each client has made another request.
    fn goes_on(&self) {
        for done in &self.done {
            let before = done.load(Ordering::Relaxed);
            let has_failed = || self.threads.iter().any(thread::JoinHandle::is_finished);
            wait_until("requests", 20, || has_failed() || done.load(Ordering::Relaxed) > before);
        }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("nothing is lost"));
    }
}

/// An upload on a new connection to the port that is announced. It begins before a listener is removed and ends after that.
fn upload(announced: &RwLock<u16>) {
    const SIZE: usize = 40_000;
    // The connection is made while the port is announced.
    let (port, mut client) = {
        let port = announced.read().unwrap();
        (*port, Client::new(*port))
    };
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n");
    client.send(head.as_bytes()).expect("a head");
    client.send(&[b'u'; SIZE / 2]).expect("half of a body");
    thread::park_timeout(Duration::from_millis(150));
    client.send(&[b'u'; SIZE / 2]).expect("the rest of a body");
    let response = client.read(false).unwrap_or_else(|error| panic!("port {port}: {error}"));
    assert_eq!(response.text(), format!("http {port} 127.0.0.1 {SIZE}"));
}

/// Reloads under load that change addresses and rules: connections of an address that stays notice nothing, those of one that is
/// removed finish what they have begun, and each request sees the rule of before or of after.
#[test]
fn reloads_of_listeners_and_routes_lose_nothing() {
    let directory = Directory::new();
    let authority = Arc::new(Authority::new(&directory.0.join("tls")));
    authority.issue("site", "DNS:a.example", 20);
    let (stays, secure, other) = (free_port(), free_port(), [free_port(), free_port()]);
    let addresses = |more: &[u16]| -> Vec<String> {
        let fixed = [local(stays), format!("https://127.0.0.1:{secure}")];
        fixed.into_iter().chain(more.iter().copied().map(local)).collect()
    };
    let server = site()
        .server(&format!("listen = {:?}", addresses(&[other[0]])))
        .server(&authority.table("site"))
        .application("https_redirect = false")
        .application("workers = 6")
        .route("path = \"/rule\"\nredirect = \"/to-0\"")
        .start();
    let front = server.front();
    let announced = Arc::new(RwLock::new(other[0]));
    let (mut kept, mut kept_secure) = (Client::new(stays), Kept::connect(secure, &["-servername", "a.example"]));
    let (mut http2, mut stream) = (Http2::new(stays), 1);
    let uploads = (0..3).map(|_| {
        let announced = announced.clone();
        Box::new(move || upload(&announced)) as Box<dyn FnMut() + Send>
    });
    let clients: Vec<Box<dyn FnMut() + Send>> = vec![
        Box::new(move || assert_eq!(kept.get("/").text(), format!("http {stays} 127.0.0.1 0"))),
        Box::new(move || assert_eq!(kept_secure.get("a.example", "/"), (200, format!("https {secure} 127.0.0.1 0")))),
        Box::new(move || {
            http2.request(stream, &http2::get("/"));
            let answer = http2.answer(stream);
            assert_eq!(answer.status, Some(200));
            http2.give_window(0, answer.body.len() as u32).expect("the server reads");
            stream += 2;
        }),
        Box::new(move || {
            redirected(stays);
        }),
    ];
    let load = Load::begin(clients.into_iter().chain(uploads).collect());
    // Each turn has two reloads: one adds an address and changes the rule, the other removes the address of before.
    for turn in 1..=amount(2, 25) {
        let [old, new] = if turn % 2 == 1 { other } else { [other[1], other[0]] };
        server.reconfigure(&format!("/to-{}\"", turn - 1), &format!("/to-{turn}\""));
        listen(&server, &addresses(&[old, new]));
        reload(&server);
        assert_eq!(redirected(stays), turn);
        *announced.write().unwrap() = new;
        listen(&server, &addresses(&[new]));
        reload(&server);
        wait_until("the removed address is closed", 10, || is_refused(old));
        load.goes_on();
    }
    load.end();
    assert_eq!(server.front(), front, "{}", server.log());
    assert!(!server.log().contains("is forbidden"), "{}", server.log());
}

/// A port alone is for this machine; with `:` or `*:` it is for all addresses of IPv4 and IPv6, and the start says so. 127.0.0.2 stands for other machines.
#[test]
fn a_port_alone_is_for_this_machine() {
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let port = || free_port();
    let (bare, scheme, colon, star, four, admin, flag) = (port(), port(), port(), port(), port(), port(), port());
    let reach = |port: u16| ["127.0.0.1", "127.0.0.2", "::1"].map(|ip| TcpStream::connect((ip, port)).is_ok());
    let local = [true, false, false];
    let listen = format!(
        "listen = [\"{bare}\", \"http://{scheme}\", \":{colon}\", \"http://*:{star}/\", \"0.0.0.0:{four}\"]\nadmin_listen = [\"{admin}\"]"
    );
    let server = site().server(&listen).start();
    for (port, expected) in [
        (bare, local),
        (scheme, local),
        (admin, local),
        (colon, [true, true, has_ipv6]),
        (star, [true, true, has_ipv6]),
        (four, [true, true, false]),
    ] {
        assert_eq!(reach(port), expected, "{listen}, {port}: {}", server.log());
    }
    // Clients by IPv4 are IPv4's.
    assert_eq!(Client::new(colon).get("/").text(), format!("http {colon} 127.0.0.1 0"));
    let all = if has_ipv6 { "[::]" } else { "0.0.0.0" };
    let said = format!(
        "  reachable     from other machines: http://{all}:{colon} http://{all}:{star} http://0.0.0.0:{four}\n"
    );
    assert!(server.log().contains(&said), "{}", server.log());
    // The same words keep their sockets, and a change of spelling is no change of address.
    server.reconfigure(&format!("\":{colon}\""), &format!("\"*:{colon}\""));
    reload(&server);
    assert_eq!(reach(colon), [true, true, has_ipv6]);

    let server = site().flag("--listen").flag(&flag.to_string()).start();
    assert_eq!(reach(flag), local);
    assert!(!server.log().contains("reachable"), "{}", server.log());
}
