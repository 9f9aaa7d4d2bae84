//! The php-cgi look-alike. run-tests.php starts it with the environment of a CGI program and `-d` settings; it asks for
//! an instance of Reprise with these settings, sends one HTTP request by TCP, and prints the answer as a CGI program
//! does. It runs no PHP.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::instances::{ENVIRONMENT, SOCKET};

/// What the environment of a CGI program has without a test's --ENV-- section: names, and beginnings of names.
const NOT_OF_TESTS: [&str; 17] = [
    "ASAN_OPTIONS",
    "CONTENT_",
    "HTTP_",
    "LC_",
    "NO_INTERACTION",
    "PATH",
    "QUERY_STRING",
    "REDIRECT_",
    "REPRISE",
    "REQUEST_",
    "SCRIPT_",
    "SERVER_",
    "SKIP_",
    "TEMP",
    "TEST_",
    "TMPDIR",
    "TZ",
];

/// What ends with the connection, and what no CGI program says of itself.
const NOT_FROM_PHP: [&str; 4] = ["connection", "transfer-encoding", "date", "server"];

/// Answers one start of "php-cgi"; returns its exit code.
pub fn run(arguments: impl Iterator<Item = String>) -> i32 {
    let asked = Asked::parse(arguments);
    match asked.answer() {
        Ok(answer) => {
            let output = asked.print(&answer);
            i32::from(io::stdout().write_all(&output).is_err())
        }
        Err(error) => {
            println!("no answer from Reprise: {error}");
            1
        }
    }
}

/// What the command line asks for.
#[derive(Default)]
struct Asked {
    settings: Vec<String>,
    script: PathBuf,
    is_quiet: bool,
}

struct Answer {
    status: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Asked {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Asked {
        let mut asked = Asked::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // To stay in the caller's directory is no matter of a request.
                "-C" | "-f" => {}
                "-q" => asked.is_quiet = true,
                "-d" => asked.settings.extend(arguments.next()),
                "--" => break,
                script => asked.script = script.into(),
            }
        }
        asked
    }

    fn answer(&self) -> io::Result<Answer> {
        let root = self.script.parent().ok_or_else(|| io::Error::other("there is no script"))?;
        let mut stream = TcpStream::connect(("127.0.0.1", instance(root, &self.settings)?))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(&self.request()?)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        parse(&bytes).ok_or_else(|| io::Error::other(format!("malformed: {}", String::from_utf8_lossy(&bytes))))
    }

    /// The CGI variables as a request. Those of an --ENV-- section may name the path; else it is the script's. Without a
    /// method it is not about the test but about whether to run it: its SKIPIF section, a GET.
    fn request(&self) -> io::Result<Vec<u8>> {
        let has_method = env::var_os("REQUEST_METHOD").is_some_and(|method| !method.is_empty());
        let variable = |name: &str| env::var_os(name).filter(|_| has_method).unwrap_or_default();
        let or = |value: OsString, default: &OsStr| if value.is_empty() { default.to_owned() } else { value };
        let method = or(variable("REQUEST_METHOD"), "GET".as_ref());
        let script = Path::new("/").join(self.script.file_name().unwrap_or_default());
        let mut target = or(variable("REQUEST_URI"), script.as_os_str());
        if !variable("QUERY_STRING").is_empty() && !target.as_bytes().contains(&b'?') {
            target.push("?");
            target.push(variable("QUERY_STRING"));
        }
        let (method, target) = (method.to_string_lossy(), escape(target.as_bytes()));
        let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let mut request = request.into_bytes();
        let mut header = |name: &str, value: &[u8]| request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        for (name, value) in env::vars_os() {
            // run-tests.php has an empty HTTP_COOKIE for tests without a cookie.
            let name = name.to_str().and_then(|name| name.strip_prefix("HTTP_"));
            if let Some(name) = name.filter(|&name| name != "COOKIE" || !value.is_empty()) {
                header(&header_name(name), &unfold(value.as_bytes()));
            }
        }
        let mut body = Vec::new();
        if !variable("CONTENT_LENGTH").is_empty() {
            io::stdin().read_to_end(&mut body)?;
            header("Content-Length", body.len().to_string().as_bytes());
        }
        if !variable("CONTENT_TYPE").is_empty() {
            header("Content-Type", variable("CONTENT_TYPE").as_bytes());
        }
        Ok([&request[..], b"\r\n", &body].concat())
    }

    fn print(&self, answer: &Answer) -> Vec<u8> {
        let mut output = Vec::new();
        // SKIPIF sections are run with -q, which keeps the headers back.
        if !self.is_quiet {
            if !answer.status.starts_with("200") {
                output.extend(format!("Status: {}\r\n", answer.status).bytes());
            }
            for (name, value) in answer.headers.iter().filter(|(name, _)| !NOT_FROM_PHP.contains(&name.as_str())) {
                for name in spellings(name) {
                    output.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
                }
            }
            output.extend(b"\r\n");
        }
        output.extend(&answer.body);
        output
    }
}

/// The port of an instance for this directory and these settings.
fn instance(root: &Path, settings: &[String]) -> io::Result<u16> {
    let socket = env::var_os(SOCKET).ok_or_else(|| io::Error::other(format!("{SOCKET} is not set")))?;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut question = root.to_string_lossy().into_owned();
    settings.iter().for_each(|setting| question.push_str(&format!("\0{setting}")));
    let of_test = |name: &String| !NOT_OF_TESTS.iter().any(|begin| name.starts_with(begin));
    let texts = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    for (name, value) in texts.filter(|(name, _)| of_test(name)) {
        question.push_str(&format!("\0{ENVIRONMENT}{name}={value}"));
    }
    stream.write_all(question.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    answer.parse().map_err(|_| io::Error::other("the instance did not start"))
}

/// ACCEPT_ENCODING is Accept-Encoding.
fn header_name(variable: &str) -> String {
    variable.split('_').map(capitalise).collect::<Vec<_>>().join("-")
}

fn capitalise(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
}

/// Names of headers have no case in HTTP, but run-tests.php compares it. PHP writes Content-type, scripts Content-Type.
fn spellings(name: &str) -> Vec<String> {
    let mut spellings = vec![header_name(&name.replace('-', "_")), capitalise(name)];
    spellings.dedup();
    spellings
}

/// A line end cannot stand in a header; where it was folded, a space is what it means (RFC 9112, 5.2).
fn unfold(value: &[u8]) -> Vec<u8> {
    value.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect()
}

/// As a browser does with what may not stand in a request line.
fn escape(target: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>#".contains(&byte);
    target
        .iter()
        .map(|&byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// An answer that ends with its connection.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut body = bytes[end + 4..].to_vec();
    let head = bytes[..end].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut lines = head.into_iter();
    let status = String::from_utf8_lossy(lines.next()?).split_once(' ')?.1.to_owned();
    let mut headers = Vec::new();
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':')?;
        headers.push((
            String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase(),
            line[colon + 1..].trim_ascii().to_vec(),
        ));
    }
    if headers.iter().any(|(name, _)| name == "transfer-encoding") {
        body = unchunk(&body)?;
    }
    Some(Answer { status, headers, body })
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
    }
}
