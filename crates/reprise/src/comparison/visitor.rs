//! A visitor: marks of its own, a cookie jar, and requests, each on a connection of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as HeldStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use ipc::shared::MODE_HEADER as MODE;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a response at most.
const MAX_RESPONSE: usize = 64 << 20;

/// The visitors.
pub const NAMES: [&str; 2] = ["anna", "otto"];
/// Bytes that make the head of some requests longer, so that figures of memory change.
pub const PADDING: usize = 6000;

/// A request to make.
pub struct Page {
    method: String,
    uri: Uri,
    authority: String,
    host: String,
    form: Option<String>,
    /// Further headers.
    headers: BTreeMap<String, String>,
}

impl fmt::Display for Page {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.method == "GET" { write!(text, "{}", self.uri) } else { write!(text, "{} {}", self.method, self.uri) }
    }
}

impl Page {
    /// `URL`, or `METHOD URL [FORM]`.
    pub fn parse(line: &str, host: Option<&str>) -> Result<Page, String> {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        let (method, url) = match first.contains("://") {
            true => ("GET", first),
            false => (first, words.next().ok_or("wants a URL after the method")?),
        };
        let form = words.next().map(str::to_owned);
        if words.next().is_some() {
            return Err("has more than a method, a URL and a form".to_owned());
        }
        let uri: Uri = url.parse().map_err(|error| format!("'{url}' is no URL: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err(format!("'{url}': only http:// is asked for; name the server's own address"));
        }
        let authority = uri.authority().ok_or_else(|| format!("'{url}' names no server"))?;
        let port = authority.port_u16().unwrap_or(80);
        let host = host.map_or_else(|| authority.to_string(), str::to_owned);
        let authority = format!("{}:{port}", authority.host());
        Ok(Page { method: method.to_ascii_uppercase(), authority, host, form, uri, headers: BTreeMap::new() })
    }

    /// A page of a server that a socket leads to, with further headers.
    pub fn of(path: &str, host: &str, headers: &BTreeMap<String, String>) -> Result<Page, String> {
        let uri = path.parse().map_err(|error| format!("'{path}' is no path: {error}"))?;
        let (method, host) = ("GET".to_owned(), host.to_owned());
        Ok(Page { method, authority: String::new(), host, form: None, uri, headers: headers.clone() })
    }

    /// The request that sends a form to its path.
    pub fn with_form(&self, form: String) -> Page {
        let (authority, host) = (self.authority.clone(), self.host.clone());
        Page {
            method: "POST".to_owned(),
            uri: self.uri.clone(),
            authority,
            host,
            form: Some(form),
            headers: self.headers.clone(),
        }
    }
}

/// A response.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text; bytes that are not text are replaced.
    pub body: String,
    /// The mode that the request ran in, as the server says; `None`: PHP did not run.
    pub mode: Option<String>,
}

impl Response {
    /// Whether this text occurs in the body or a header.
    pub fn contains(&self, letters: &str) -> bool {
        self.body.contains(letters) || self.headers.iter().any(|(_, value)| value.contains(letters))
    }
}

/// How a page is requested.
#[derive(Clone, Copy)]
pub struct How {
    /// Whether in classic mode; else in what it is compared with: the application's mode, or another PHP.
    pub is_classic: bool,
    /// Which of the visitor's two sessions in that mode.
    pub session: usize,
    /// Whether the head is made longer.
    pub is_padded: bool,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Via {
    /// By the page's own address.
    Address,
    /// By the socket of a server that runs for verify alone.
    Socket(PathBuf),
    /// By a connection that is there already, for one request after the other.
    Held(Rc<HeldStream>),
}

/// Where requests of a kind go.
#[derive(Clone)]
pub struct Side {
    /// The server.
    pub via: Via,
    /// By which that server lets the visitor choose the mode.
    pub token: String,
    /// "classic" or "own".
    pub mode: &'static str,
}

/// A visitor. Its marks are the same in all its sessions.
pub struct Visitor {
    /// The name for people.
    pub name: &'static str,
    cookie: String,
    header: String,
    agent: String,
    /// Where the requests go that are not in classic mode, and those that are.
    sides: [Side; 2],
    /// Both ends of its last connection to the page's own server.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// The cookies of each session, which no other session must see.
    jars: [[BTreeMap<String, String>; 2]; 2],
}

impl Visitor {
    /// Makes a visitor with marks that no other visitor has. `sides`: for requests that are not in classic mode, and for those that are.
    pub fn new(name: &'static str, sides: &[Side; 2]) -> Visitor {
        let draw = |what: &str| format!("{name}-{what}-{:016x}", random());
        let (cookie, header, agent) = (draw("cookie"), draw("header"), draw("agent"));
        Visitor { name, cookie, header, agent, sides: sides.clone(), ends: None, jars: Default::default() }
    }

    /// The marks that no other visitor must see, and what each of them is.
    pub fn marks(&self) -> [(&'static str, String); 3] {
        [("cookie", self.cookie.clone()), ("header", self.header.clone()), ("user agent", self.agent.clone())]
    }

    /// Requests a page.
    pub fn ask(&mut self, page: &Page, how: How) -> Result<Response, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let response = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, self.exchange(page, how))
                .await
                .map_err(|_| format!("no response within {PATIENCE:?}"))?
        })?;
        let jar = &mut self.jars[usize::from(how.is_classic)][how.session];
        for (_, value) in response.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().unwrap_or("");
            let Some((name, value)) = pair.split_once('=') else { continue };
            match value {
                "" | "deleted" => jar.remove(name.trim()),
                _ => jar.insert(name.trim().to_owned(), value.trim().to_owned()),
            };
        }
        Ok(response)
    }

    async fn exchange(&mut self, page: &Page, how: How) -> Result<Response, String> {
        match &self.sides[usize::from(how.is_classic)].via {
            Via::Socket(socket) => {
                let failed = |error| format!("{}: {error}", socket.display());
                let mut stream = UnixStream::connect(socket).await.map_err(failed)?;
                stream.write_all(self.proxy_header().as_bytes()).await.map_err(failed)?;
                self.exchange_over(stream, page, how).await
            }
            Via::Held(held) => {
                let copy = || {
                    held.set_nonblocking(true)?;
                    UnixStream::from_std(held.try_clone()?)
                };
                let stream = copy().map_err(|error: std::io::Error| format!("the connection to the front: {error}"))?;
                self.exchange_over(StaysOpen(stream), page, how).await
            }
            Via::Address => {
                let failed = |error| format!("{}: {error}", page.authority);
                let stream = TcpStream::connect(&page.authority).await.map_err(failed)?;
                self.ends = stream.local_addr().and_then(|ours| Ok((ours, stream.peer_addr()?))).ok();
                self.exchange_over(stream, page, how).await
            }
        }
    }

    /// Has PHP see the same ends of the connection as on the page's own server.
    fn proxy_header(&self) -> String {
        let Some((client, server)) = self.ends else { return "PROXY UNKNOWN\r\n".to_owned() };
        let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
        format!("PROXY {family} {} {} {} {}\r\n", client.ip(), server.ip(), client.port(), server.port())
    }

    async fn exchange_over<S>(&self, stream: S, page: &Page, how: How) -> Result<Response, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let side = &self.sides[usize::from(how.is_classic)];
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let driving = async move {
            // If the connection fails, the exchange fails too.
            let _ = connection.await;
        };
        let jar = &self.jars[usize::from(how.is_classic)][how.session];
        let mut cookies = format!("reprise_verify={}", self.cookie);
        for (name, value) in jar {
            cookies.push_str(&format!("; {name}={value}"));
        }
        let path = page.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder()
            .method(page.method.as_str())
            .uri(path)
            .header("host", &page.host)
            .header("user-agent", &self.agent)
            .header("x-reprise-verify", &self.header)
            .header("cookie", cookies);
        request = request.header(MODE, format!("{} {}", side.mode, side.token));
        if how.is_padded {
            request = request.header("x-reprise-verify-padding", "x".repeat(PADDING));
        }
        for (name, value) in &page.headers {
            request = request.header(name, value);
        }
        if page.form.is_some() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        let form = page.form.as_deref().unwrap_or_default().replace("{visitor}", self.name);
        let body = Full::new(Bytes::from(form));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let exchange = async move {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let (parts, body) = response.into_parts();
            let body = http_body_util::Limited::new(body, MAX_RESPONSE);
            let bytes = body.collect().await.map_err(|error| format!("the response broke off: {error}"))?.to_bytes();
            let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            Ok(Response {
                status: parts.status.as_u16(),
                mode: parts.headers.get(MODE).map(text),
                headers: parts
                    .headers
                    .iter()
                    .filter(|(name, _)| *name != MODE)
                    .map(|(name, value)| (name.to_string(), text(value)))
                    .collect(),
                body: String::from_utf8_lossy(&bytes).into_owned(),
            })
        };
        tokio::pin!(driving);
        tokio::pin!(exchange);
        tokio::select! {
            response = &mut exchange => response,
            () = &mut driving => exchange.await,
        }
    }
}

/// A connection that further requests follow on: whoever has made one with it does not end it.
struct StaysOpen(UnixStream);

impl AsyncRead for StaysOpen {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for StaysOpen {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Random enough that two visitors, or two runs, have no mark in common.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
