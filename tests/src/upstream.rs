//! Servers in the test's own process, which say what a test wants, right or wrong.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server: each of its connections has a thread.
pub struct Upstream {
    /// Where it listens.
    pub port: u16,
    taken: Arc<AtomicUsize>,
}

/// A connection that it has taken.
pub struct Talk {
    /// The socket.
    pub stream: TcpStream,
    /// Which connection it is, from 1.
    pub number: usize,
}

impl Upstream {
    /// Starts one; `serve` gets each connection.
    pub fn start(serve: impl Fn(Talk) + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its port").port();
        let taken = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (taken.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
                stream.set_nodelay(true).expect("an option");
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let serve = serve.clone();
                thread::spawn(move || serve(Talk { stream, number }));
            }
        });
        Upstream { port, taken }
    }

    /// One whose responses are what `respond` makes of head and body of a request.
    pub fn answering(respond: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
        Upstream::start(move |mut talk| {
            while let Some(head) = talk.head() {
                let body = talk.body(&head);
                if talk.stream.write_all(&respond(&head, &body)).is_err() {
                    return;
                }
            }
        })
    }

    /// One that sends back what it gets: the head as it came, then the body.
    pub fn echo() -> Upstream {
        Upstream::answering(|head, body| {
            let all = [head.as_bytes(), body].concat();
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", all.len()).as_bytes(), &all].concat()
        })
    }

    /// Connections that it has taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// The line of a rule that leads to it.
    pub fn rule(&self) -> String {
        format!("upstream = \"http://127.0.0.1:{}\"", self.port)
    }
}

impl Talk {
    /// The next head, with its empty line; `None`: the other side has ended.
    pub fn head(&mut self) -> Option<String> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            if self.stream.read(&mut byte).unwrap_or(0) == 0 {
                return None;
            }
            head.push(byte[0]);
        }
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    /// The body that a head announces: by length, or in chunks, which are returned as they came.
    pub fn body(&mut self, head: &str) -> Vec<u8> {
        let header = |name: &str| {
            let found = head
                .lines()
                .find_map(|line| line.split_once(':').filter(|(known, _)| known.eq_ignore_ascii_case(name)));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let mut body = Vec::new();
        if let Some(length) = header("content-length") {
            body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut body).expect("a body");
        } else if header("transfer-encoding").is_some() {
            let mut byte = [0];
            while !body.ends_with(b"0\r\n\r\n") {
                self.stream.read_exact(&mut byte).expect("a chunk");
                body.push(byte[0]);
            }
        }
        body
    }

    /// Sends something.
    pub fn say(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(text.as_ref())
    }

    /// Waits until the other side ends.
    pub fn wait(&mut self) {
        while self.stream.read(&mut [0; 4096]).unwrap_or(0) > 0 {}
    }
}
