//! An application whose scripts leave marks: what PHP has seen, what runs, what may go on.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;

use crate::{Client, Server, Setup, wait_until};

/// Reads all of the body, then notes the request.
const MARK: &str = "<?php $body = file_get_contents('php://input');
file_put_contents(getenv('MARKS') . '/seen', \"{$_SERVER['REQUEST_METHOD']} {$_SERVER['REQUEST_URI']} \" . strlen($body) . \"\\n\", FILE_APPEND);
echo 'marked ', strlen($body);";

/// Says that it runs, then waits until it is let go.
const HOLD: &str = "<?php $mark = getenv('MARKS') . '/' . $_GET['name'];
touch(\"$mark.started\");
for ($i = 0; $i < 6000 && !file_exists(\"$mark.go\"); $i++) { usleep(5000); clearstatcache(); }
echo 'held';";

/// An application whose scripts leave marks.
pub fn marking() -> Setup {
    let setup = Setup::empty().file("mark.php", MARK).file("hold.php", HOLD).file("a.txt", "static");
    let marks = setup.writable("marks");
    let setup = setup.file(
        "echo.php",
        "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_GET['n'] ?? '', ' ', file_get_contents('php://input');",
    );
    setup.env("MARKS", &marks)
}

/// The path of a mark.
pub fn mark(server: &Server, name: &str) -> PathBuf {
    server.directory().join("marks").join(name)
}

/// Requests that PHP has seen.
pub fn seen(server: &Server) -> String {
    fs::read_to_string(mark(server, "seen")).unwrap_or_default()
}

/// A connection with a request for hold.php that is running.
pub fn hold(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET /hold.php?name={name} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    wait_until("the script runs", 10, || mark(server, &format!("{name}.started")).exists());
    client
}

/// Lets a held script end.
pub fn let_go(server: &Server, name: &str) {
    fs::write(mark(server, &format!("{name}.go")), "").unwrap();
}

/// Sends bytes, and reads until the server closes or `seconds` are over. Whether it closed is the second value.
pub fn exchange(port: u16, bytes: &[u8], end: Option<Shutdown>, seconds: u64) -> (Vec<u8>, bool) {
    let mut stream = crate::client::connect(port).expect("the server accepts");
    stream.set_read_timeout(Some(crate::seconds(seconds))).unwrap();
    // A server that has refused already need not take the rest.
    let _ = stream.write_all(bytes);
    if let Some(end) = end {
        let _ = stream.shutdown(end);
    }
    let mut answer = Vec::new();
    let closed = match stream.read_to_end(&mut answer) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    (answer, closed)
}

/// The status codes in what came back.
pub fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    text.split("HTTP/1.").skip(1).filter_map(|rest| rest.get(2..5)?.parse().ok()).collect()
}

/// Whether the server closes the connection in time.
pub fn closes_within(client: &mut Client, seconds: u64) -> bool {
    client.stream().set_read_timeout(Some(crate::seconds(seconds))).unwrap();
    client.is_closed()
}

/// Connections the front has open.
pub fn connections(server: &Server) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", server.front().unwrap())).unwrap();
    let sockets: HashSet<String> = open
        .flatten()
        .filter_map(|fd| {
            Some(fs::read_link(fd.path()).ok()?.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let established = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(3) == Some(&"01") && words.get(9).is_some_and(|inode| sockets.contains(*inode))
    };
    table.lines().filter(established).count()
}
