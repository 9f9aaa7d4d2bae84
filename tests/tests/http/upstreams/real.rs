//! Python's own HTTP server as an upstream.

use std::io::{Read, Write};
use std::process::Command;

use tests::client::{Client, connect, get};
use tests::peer::Program;
use tests::server::{Setup, free_port};

const SERVER: &str = r#"
import base64, hashlib, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def chunks(self):
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline() != b'\r\n':
            pass

    def parts(self):
        if 'Transfer-Encoding' in self.headers:
            return self.chunks()
        return [self.rfile.read(int(self.headers.get('Content-Length', 0)))]

    def do_PUT(self):
        size, digest = 0, hashlib.sha1()
        for part in self.parts():
            size += len(part)
            digest.update(part)
        text = f'PUT {size} {digest.hexdigest()}'.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.headers.get('Upgrade') == 'websocket':
            key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
            self.send_response(101)
            self.send_header('Connection', 'Upgrade')
            self.send_header('Upgrade', 'websocket')
            self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.end_headers()
            while part := self.rfile.read1(4096):
                self.wfile.write(part)
            self.close_connection = True
            return
        self.send_response(200)
        if self.path == '/large':
            self.send_header('Content-Length', str(24 << 20))
            self.end_headers()
            for _ in range(24):
                self.wfile.write(b'x' * (1 << 20))
            return
        self.send_header('Transfer-Encoding', 'chunked')
        self.send_header('Trailer', 'X-Sum, Set-Cookie')
        self.end_headers()
        self.wfile.write(b'4\r\npart\r\n0\r\nX-Sum: 4\r\nSet-Cookie: evil=1\r\n\r\n')

ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"#;

#[test]
fn bodies_trailers_and_websockets_pass() {
    let port = free_port();
    let setup = Setup::empty().route(&format!("upstream = \"http://127.0.0.1:{port}\""));
    let script = setup.directory().join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let mut python = Program::start(
        Command::new("python3").arg(&script).arg(port.to_string()),
        &setup.directory().join("python.log"),
    );
    python.await_ready(20, || connect(port).is_ok());
    let server = setup.start();
    // A body of a length that is known, and one in chunks.
    let body = vec![b'y'; 10 << 20];
    let direct = Client::new(port).request("PUT", "/", &[], &body).text();
    assert!(direct.starts_with("PUT 10485760 "), "{direct}");
    assert_eq!(server.client().request("PUT", "/", &[], &body).text(), direct);
    let mut client = server.client();
    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for part in body.chunks(1 << 20) {
        client.send(format!("{:x}\r\n", part.len()).as_bytes()).unwrap();
        client.send(part).unwrap();
        client.send(b"\r\n").unwrap();
    }
    client.send(b"0\r\n\r\n").unwrap();
    assert_eq!(client.read(false).unwrap().text(), direct);
    assert_eq!(get(server.port, "/large").body.len(), 24 << 20);
    // A client that says that it takes trailers gets them; what no trailer may be is left out.
    let trailers = |headers: &str| {
        let mut socket = connect(server.port).unwrap();
        write!(socket, "GET /trailers HTTP/1.1\r\nHost: a\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text.to_ascii_lowercase()
    };
    let text = trailers("TE: trailers\r\n");
    assert!(text.ends_with("4\r\npart\r\n0\r\nx-sum: 4\r\n\r\n") && text.contains("\r\ntrailer: "), "{text}");
    let text = trailers("");
    assert!(text.ends_with("4\r\npart\r\n0\r\n\r\n"), "{text}");
    let url = format!("http://127.0.0.1:{}/trailers", server.port);
    let out = Command::new("curl").args(["-s", "-D", "-", "--http2-prior-knowledge", &url]).output().expect("curl");
    let text = String::from_utf8_lossy(&out.stdout).to_ascii_lowercase();
    assert!(text.starts_with("http/2 200") && text.contains("part") && text.contains("x-sum: 4\r\n"), "{text}");
    assert!(!text.contains("evil"), "{text}");
    // A WebSocket, with the key that RFC 6455 §1.3 has as its example.
    let mut client = server.client();
    client.send(b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").unwrap();
    let head = client.read_head().unwrap();
    assert_eq!((head.status, head.header("sec-websocket-accept")), (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
    // A masked text frame.
    let frame = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    client.send(frame).unwrap();
    let mut back = [0; 11];
    let mut read = 0;
    while read < back.len() {
        read += client.read_some(&mut back[read..]).unwrap();
    }
    assert_eq!(&back, frame);
}
