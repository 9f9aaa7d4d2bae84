//! What others say of HTTPS: sslyze and testssl judge it, and OpenSSL, GnuTLS, curl and Chromium get pages. What the judges find is
//! in the table of docs/reference/tls-findings.md, with a reason; anything else fails.

mod clients;
mod scanners;

use tests::server::Directory;
use tests::tls::{Authority, Ports, both};
use tests::{Server, Setup};

/// A host with an ECDSA certificate, one with an RSA certificate, one that asks for a certificate of its clients, and one that requires it.
const HOSTS: [&str; 4] = ["ecdsa.example", "rsa.example", "asked.example", "required.example"];

struct Site {
    authority: Authority,
    directory: Directory,
    _server: Server,
    ports: Ports,
}

impl Site {
    fn start() -> Site {
        let directory = Directory::new();
        let authority = Authority::new(&directory.0.join("tls"));
        let ca = authority.path("ca.pem");
        let mut tables = String::new();
        for host in HOSTS {
            let name = host.trim_end_matches(".example");
            match name {
                "rsa" => authority.issue_rsa(name, &format!("DNS:{host}"), 80),
                _ => authority.issue(name, &format!("DNS:{host}"), 80),
            }
            tables += &authority.table(name);
            tables += &match name {
                "asked" => format!("client_ca = \"{ca}\"\nclient_certificate = \"request\"\n"),
                "required" => format!("client_ca = \"{ca}\"\nclient_certificate = \"require\"\n"),
                _ => String::new(),
            };
        }
        authority.issue("client", "DNS:client.example", 80);
        let script = "<?php echo 'a page by ', $_SERVER['SERVER_PROTOCOL'], ' and ', $_SERVER['SSL_PROTOCOL'];";
        let setup = Setup::empty().file("index.php", script).application("hsts = \"max-age=31536000\"");
        let (setup, ports) = both(setup, "", &tables);
        Site { authority, directory, _server: setup.start(), ports }
    }

    /// What a client of each host needs: the authority, and a certificate of its own with its key.
    fn papers(&self) -> [String; 3] {
        ["ca.pem", "client.pem", "client.key"].map(|name| self.authority.path(name))
    }

    /// A path in the test's directory.
    fn place(&self, name: &str) -> String {
        self.directory.0.join(name).to_str().expect("a plain path").to_owned()
    }
}
