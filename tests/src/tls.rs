//! Certificates of an authority of a test's own, and clients that speak TLS: curl and `openssl s_client`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Setup;
use crate::peer::run_to_end;
use crate::programs::not_started;
use crate::server::free_port;

/// An authority, in a directory of its own.
pub struct Authority {
    directory: PathBuf,
}

/// What makes a key for ECDSA.
const ECDSA: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

fn openssl(arguments: &[&str]) {
    run_to_end(Command::new("openssl").args(arguments));
}

impl Authority {
    /// Makes one.
    pub fn new(directory: &Path) -> Authority {
        let authority = Authority { directory: directory.to_owned() };
        fs::create_dir_all(directory).expect("a directory");
        authority.make(&ECDSA, "ca", "CA of a test", &["-addext", "keyUsage=critical,keyCertSign,cRLSign"], 90);
        authority
    }

    /// The path of a file: `ca.pem`, or NAME.pem and NAME.key of a certificate.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().expect("a plain path").to_owned()
    }

    fn make(&self, kind: &[&str], name: &str, subject: &str, more: &[&str], days: i32) {
        let (key, chain) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.pem")));
        let (subject, days) = (format!("/CN={subject}"), days.to_string());
        let mut arguments = vec!["req", "-x509", "-nodes"];
        arguments.extend(kind);
        arguments.extend(["-keyout", &key, "-out", &chain, "-subj", &subject, "-days", &days]);
        arguments.extend(more);
        openssl(&arguments);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
    }

    /// Makes a certificate of this authority: NAME.pem and NAME.key. `names`: `DNS:a.example,IP:127.0.0.1`.
    pub fn issue(&self, name: &str, names: &str, days: i32) {
        self.issue_with(&ECDSA, name, names, days);
    }

    /// The same with a key for RSA.
    pub fn issue_rsa(&self, name: &str, names: &str, days: i32) {
        self.issue_with(&["-newkey", "rsa:2048"], name, names, days);
    }

    fn issue_with(&self, kind: &[&str], name: &str, names: &str, days: i32) {
        let (authority, key) = (self.path("ca.pem"), self.path("ca.key"));
        let names = format!("subjectAltName={names}");
        let of_authority =
            ["-CA", &authority, "-CAkey", &key, "-addext", &names, "-addext", "basicConstraints=CA:FALSE"];
        self.make(kind, name, name, &of_authority, days);
    }

    /// The same, expired.
    pub fn issue_expired(&self, name: &str, names: &str) {
        self.issue(name, names, 1);
        let (authority, authority_key) = (self.path("ca.pem"), self.path("ca.key"));
        let (chain, key, request) =
            (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")), self.path("request"));
        openssl(&["x509", "-x509toreq", "-in", &chain, "-signkey", &key, "-copy_extensions", "copy", "-out", &request]);
        let signed =
            ["x509", "-req", "-in", &request, "-CA", &authority, "-CAkey", &authority_key, "-copy_extensions", "copy"];
        let signed = [&signed[..], &["-out", &chain]].concat();
        // OpenSSL 3.0 takes no dates, and 3.5 no negative number.
        let days = Command::new("openssl").args(&signed).args(["-days", "-1"]).output().expect("openssl");
        if !days.status.success() {
            let dates = ["-not_before", "20200101000000Z", "-not_after", "20200201000000Z"];
            openssl(&[&signed[..], &dates].concat());
        }
    }

    /// `[[certificate]]` with the files of a certificate.
    pub fn table(&self, name: &str) -> String {
        let (chain, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        format!("[[certificate]]\nchain = \"{chain}\"\nkey = \"{key}\"\n")
    }

    /// Puts the files of another certificate in the place of one, each by a rename.
    pub fn replace(&self, name: &str, by: &str) {
        for kind in ["key", "pem"] {
            let (next, place) = (self.path("next"), self.path(&format!("{name}.{kind}")));
            fs::copy(self.path(&format!("{by}.{kind}")), &next).expect("a copy");
            fs::rename(next, place).expect("a rename");
        }
    }
}

/// The ports of a server that listens for both schemes.
#[derive(Clone, Copy)]
pub struct Ports {
    /// In clear.
    pub http: u16,
    /// With TLS.
    pub https: u16,
}

/// A server that listens for both, with these certificates; `more` are further lines of the server.
pub fn both(setup: Setup, more: &str, tables: &str) -> (Setup, Ports) {
    let ports = Ports { http: free_port(), https: free_port() };
    let listen = format!("listen = [\"127.0.0.1:{}\", \"https://127.0.0.1:{}\"]", ports.http, ports.https);
    (setup.server(&listen).server(&format!("{more}\n{tables}")), ports)
}

/// What curl has got.
#[derive(Debug)]
pub struct Got {
    /// Its exit code; 0: a response.
    pub code: i32,
    /// The response's status.
    pub status: u16,
    /// Head and body.
    pub text: String,
    /// What curl said.
    pub said: String,
}

/// Asks for a URL such as `https://a.example:PORT/`, whose host is this machine, with these further arguments.
pub fn curl(url: &str, arguments: &[&str]) -> Got {
    let output = Command::new("curl")
        .args(["-sS", "-i", "--http1.1", "--max-time", "60", "--connect-to", "::127.0.0.1:", "-w", "\n%{http_code}"])
        .args(arguments)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}", not_started(Path::new("curl"), &error)));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (text, status) = text.rsplit_once('\n').unwrap_or((&text, "0"));
    Got {
        code: output.status.code().unwrap_or(-1),
        status: status.parse().unwrap_or(0),
        text: text.to_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `openssl s_client` with these arguments and this input, to its end: all that it said.
pub fn s_client(port: u16, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-ign_eof"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl s_client");
    // It may end before it has read anything, if the handshake fails.
    let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("its output");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A connection by `openssl s_client` that stays open.
pub struct Kept {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Kept {
    /// Connects and makes the handshake.
    pub fn connect(port: u16, arguments: &[&str]) -> Kept {
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl s_client");
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        Kept { child, input, output: BufReader::new(output) }
    }

    /// A GET for a host: the status and the body.
    pub fn get(&mut self, host: &str, path: &str) -> (u16, String) {
        write!(self.input, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("a connection");
        let mut line = || {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        };
        let first = line();
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut length = 0;
        loop {
            let header = line().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("a body");
        (status.unwrap_or_else(|| panic!("no response: {first:?}")), String::from_utf8_lossy(&body).into_owned())
    }
}

impl Kept {
    /// Whether the server has closed the connection. Waits for that, or for a byte.
    pub fn is_closed(&mut self) -> bool {
        self.output.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
