//! Certificates of clients.

use tests::server::Directory;
use tests::tls::{Authority, Kept, Ports, both, curl, s_client};
use tests::{Server, Setup};

use super::{SHOW, shown};

/// a.example lets in everybody, intern.example only clients with a certificate, maybe.example asks for one.
struct Site {
    authority: Authority,
    clients: Authority,
    _directory: Directory,
    server: Server,
    ports: Ports,
}

impl Site {
    fn start(application: &str) -> Site {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("tls"));
        let clients = Authority::new(&directory.0.join("clients"));
        authority.issue("site", "DNS:a.example,DNS:intern.example,DNS:maybe.example", 20);
        authority.issue("stranger", "DNS:stranger.example", 20);
        clients.issue("alice", "DNS:alice.example", 20);
        clients.issue_expired("former", "DNS:former.example");
        let table = authority.table("site");
        let with = |host: &str, policy: &str| {
            let ca = clients.path("ca.pem");
            format!("{table}hosts = [\"{host}\"]\nclient_ca = \"{ca}\"\nclient_certificate = \"{policy}\"\n")
        };
        let tables = [with("intern.example", "require"), with("maybe.example", "request"), table.clone()].concat();
        let setup = Setup::empty().file("show.php", SHOW).file("a.txt", "file").application(application);
        let (setup, ports) = both(setup, "", &tables);
        Site { server: setup.start(), authority, clients, _directory: directory, ports }
    }

    fn get(&self, host: &str, client: Option<(&Authority, &str)>) -> tests::tls::Got {
        let url = format!("https://{host}:{}/show.php", self.ports.https);
        let ca = self.authority.path("ca.pem");
        let of_client = client
            .map(|(authority, name)| (authority.path(&format!("{name}.pem")), authority.path(&format!("{name}.key"))));
        let mut arguments = vec!["--cacert", &ca];
        if let Some((chain, key)) = &of_client {
            arguments.extend(["--cert", chain, "--key", key]);
        }
        curl(&url, &arguments)
    }
}

#[test]
fn clients_are_let_in_by_their_certificates() {
    let site = Site::start("");
    let alice = Some((&site.clients, "alice"));
    for host in ["intern.example", "maybe.example"] {
        let got = site.get(host, alice);
        let seen = shown(&got.text);
        let is = |name: &str| seen.get(name).map_or("", String::as_str);
        assert_eq!((is("SSL_CLIENT_VERIFY"), is("SSL_CLIENT_S_DN")), ("SUCCESS", "CN=alice"), "{host}");
        assert_eq!((is("SSL_CLIENT_S_DN_CN"), is("SSL_CLIENT_I_DN")), ("alice", "CN=CA of a test"));
        assert!(is("SSL_CLIENT_CERT").starts_with("-----BEGIN CERTIFICATE-----\n"), "{seen:?}");
        assert!(is("SSL_CLIENT_V_END").ends_with(" GMT") && is("SSL_CLIENT_M_SERIAL").len() > 8, "{seen:?}");
        let strangers = [(&site.authority, "stranger"), (&site.clients, "former")];
        for stranger in strangers {
            assert_eq!(site.get(host, Some(stranger)).status, 0, "{host}: {}", stranger.1);
        }
    }
    let nobody = site.get("intern.example", None);
    assert!(nobody.status == 0 && nobody.code != 0, "{}", nobody.text);
    let seen = shown(&site.get("maybe.example", None).text);
    assert_eq!(seen.get("SSL_CLIENT_VERIFY").map(String::as_str), Some("NONE"));
    assert!(!seen.contains_key("SSL_CLIENT_S_DN"), "{seen:?}");
    // Nobody asks for a certificate there, so none is sent.
    assert!(!shown(&site.get("a.example", alice).text).contains_key("SSL_CLIENT_VERIFY"));
}

/// A connection to one host makes no request to another that lets in other clients, however it came about.
#[test]
fn a_request_outside_of_the_policy_is_421() {
    let site = Site::start("https_redirect = false");
    let mut kept = Kept::connect(site.ports.https, &["-servername", "a.example"]);
    for (host, expected) in [("a.example", 200), ("intern.example", 421), ("maybe.example", 421), ("a.example", 200)] {
        assert_eq!(kept.get(host, "/a.txt").0, expected, "{host}");
    }
    let in_clear = |host: &str| curl(&format!("http://{host}:{}/a.txt", site.ports.http), &[]).status;
    assert_eq!((in_clear("intern.example"), in_clear("maybe.example"), in_clear("a.example")), (421, 200, 200));

    let (chain, key) = (site.clients.path("alice.pem"), site.clients.path("alice.key"));
    let session = site.server.directory().join("session").to_str().expect("a path").to_owned();
    let alice = ["-servername", "intern.example", "-cert", &chain, "-key", &key];
    let ask = |host: &str| format!("GET /show.php HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    for version in ["-tls1_2", "-tls1_3"] {
        let connect = |more: [&str; 2], host: &str| {
            s_client(site.ports.https, &[&alice[..], &[version], &more].concat(), &ask(host))
        };
        let first = connect(["-sess_out", &session], "intern.example");
        assert!(first.contains("HTTP/1.1 200") && first.contains("\"SSL_CLIENT_S_DN_CN\":\"alice\""), "{first}");
        let resumed = connect(["-sess_in", &session], "intern.example");
        assert!(resumed.contains("Reused, TLS") && resumed.contains("\"SSL_CLIENT_S_DN_CN\":\"alice\""), "{resumed}");
        let other = connect(["-sess_in", &session], "a.example");
        assert!(other.contains("Reused, TLS") && other.contains("HTTP/1.1 421"), "{other}");
    }
    // Another authority: what was let in before is not any more.
    let mut kept = Kept::connect(site.ports.https, &alice);
    assert_eq!(kept.get("intern.example", "/a.txt").0, 200);
    std::fs::copy(site.authority.path("ca.pem"), site.clients.path("ca.pem")).unwrap();
    assert!(site.server.reload_certificates().0, "{}", site.server.log());
    assert_eq!(kept.get("intern.example", "/a.txt").0, 421);
    let refused =
        s_client(site.ports.https, &[&alice[..], &["-tls1_3", "-sess_in", &session]].concat(), &ask("intern.example"));
    assert!(!refused.contains("Reused, TLS") && !refused.contains("HTTP/1.1 200"), "{refused}");
}
