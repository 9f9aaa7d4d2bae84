//! A plain HTTP/1.1 client: what is written goes out as written, what comes back is read to the byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// Header lines in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, unchunked.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All headers of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
pub struct Client<S: Read + Write = TcpStream> {
    reader: BufReader<S>,
    host: String,
}

/// Connects to a port of this machine; waits at most 60 seconds for anything.
pub fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One GET on a connection of its own.
pub fn get(port: u16, path: &str) -> Response {
    Client::new(port).get(path)
}

impl Client<TcpStream> {
    /// Connects, and panics if that fails.
    pub fn new(port: u16) -> Client {
        Client::over(connect(port).expect("the server accepts"), &format!("127.0.0.1:{port}"))
    }
}

impl<S: Read + Write> Client<S> {
    /// Speaks over an open stream.
    pub fn over(stream: S, host: &str) -> Client<S> {
        Client { reader: BufReader::new(stream), host: host.to_owned() }
    }

    /// The stream, for what a client does not do.
    pub fn stream(&mut self) -> &mut S {
        self.reader.get_mut()
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)?;
        self.reader.get_mut().flush()
    }

    /// A GET; panics unless there is an answer.
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    /// A POST of a form.
    pub fn post_form(&mut self, path: &str, headers: &[(&str, &str)], form: &[(&str, &str)]) -> Response {
        let body: Vec<String> =
            form.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let mut headers = headers.to_vec();
        headers.push(("Content-Type", "application/x-www-form-urlencoded"));
        self.request("POST", path, &headers, body.join("&").as_bytes())
    }

    /// Any request; panics unless there is an answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Any request.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        self.send(&[text.as_bytes(), body].concat())?;
        self.read(method == "HEAD")
    }

    /// Reads an answer; informational ones are skipped.
    pub fn read(&mut self, is_head: bool) -> io::Result<Response> {
        loop {
            let mut response = self.read_head()?;
            if response.status >= 200 {
                self.read_body(&mut response, is_head)?;
                return Ok(response);
            }
        }
    }

    /// Reads the head of an answer, informational or not.
    pub fn read_head(&mut self) -> io::Result<Response> {
        let line = self.line()?;
        let mut words = line.splitn(3, ' ');
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("no status line: {line:?}"));
        if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
            return Err(bad());
        }
        let status = words.next().and_then(|code| code.parse().ok()).ok_or_else(bad)?;
        let reason = words.next().unwrap_or("").to_owned();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Response { status, reason, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads a body according to its head.
    pub fn read_body(&mut self, response: &mut Response, is_head: bool) -> io::Result<()> {
        if is_head || response.status == 204 || response.status == 304 {
            return Ok(());
        }
        if response.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            while let Some(chunk) = self.read_chunk()? {
                response.body.extend(chunk);
            }
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().map_err(|_| io::Error::other("a Content-Length that is no number"))?;
            response.body = vec![0; length];
            self.reader.read_exact(&mut response.body)?;
        } else {
            self.reader.read_to_end(&mut response.body)?;
        }
        Ok(())
    }

    /// Reads a chunk; `None` is the last.
    pub fn read_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or(""), 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("no chunk size: {line:?}")))?;
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// Whether the other end has closed the connection. Waits for that, or for a byte.
    pub fn is_closed(&mut self) -> bool {
        self.reader.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    /// Reads what comes, at most `target.len()` bytes.
    pub fn read_some(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.reader.read(target)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while line.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// Percent-encodes a form's name or value.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// A multipart form: fields, then files (name, file name, type, bytes). Returns Content-Type and body.
pub fn multipart(fields: &[(&str, &str)], files: &[(&str, &str, &str, &[u8])]) -> (String, Vec<u8>) {
    let boundary = "------------------------reprise-test-boundary";
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes(),
        );
    }
    for (name, file, kind, bytes) in files {
        let disposition = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"");
        body.extend(format!("--{boundary}\r\n{disposition}\r\nContent-Type: {kind}\r\n\r\n").bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}
