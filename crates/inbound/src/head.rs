//! The request head for PHP: the variables that nginx and PHP-FPM give, with the names of `$_SERVER`.
//!
//! Which headers PHP gets: those with names of letters, digits and `-` (an underscore could be taken for a dash). `Proxy`
//! is dropped (HTTP_PROXY). `Forwarded` and `X-Forwarded-*` are dropped unless a declared proxy sent them; then they also
//! decide address, scheme and port, see [`crate::forwarded`]. Repeated headers are joined: Cookie with `; `, lists with `,
//! `. Of repeated headers that can have one value the first counts.

use cache::esi;
use http::header::{self, HeaderMap, HeaderName};
use ipc::head::{TooLarge, Writer};

use crate::connection;
use crate::request::Request;
use routing::route::Script;
use routing::settings::{Application, ProxyHeaders};

/// The header by which `reprise verify` chooses the mode ([`crate::verified`]). PHP never sees it.
pub use ipc::shared::MODE_HEADER as MODE;
/// Longest header name that is passed on.
const MAX_NAME: usize = 250;

/// What the head is made of.
pub struct Facts<'a> {
    /// The request itself.
    pub request: &'a Request,
    /// Which headers proxies write.
    pub written: ProxyHeaders,
    /// The application.
    pub application: &'a Application,
    /// The script.
    pub script: &'a Script,
    /// Host name without port.
    pub host: &'a str,
    /// Length of the body, if the client named it.
    pub content_length: Option<u64>,
    /// Whether there is a body at all.
    pub has_body: bool,
    /// The query, if a rule has rewritten it.
    pub query: Option<&'a [u8]>,
    /// The user whose password a rule asked for.
    pub user: Option<&'a str>,
}

/// Writes the head into `buffer` and returns its size.
pub fn write(facts: &Facts<'_>, buffer: &mut [u8]) -> Result<usize, TooLarge> {
    let Facts { request, application, script, .. } = facts;
    let (peer, headers, target) = (&request.connection.peer, &request.head.headers, &request.head.target);
    let root = script.root(application).as_os_str().as_encoded_bytes();
    let (name, info) = (&script.name[..], &script.path_info[..]);
    let (directory, file) = script.file(application);
    let mut length = Decimal::new(facts.content_length.unwrap_or(0));

    let mut head = Writer::new(buffer);
    head.head.content_length = match (facts.has_body, facts.content_length) {
        (false, _) => 0,
        (true, Some(bytes)) => bytes as i64,
        (true, None) => -1,
    };
    head.head.query = head.add(&[b"QUERY_STRING"], &[facts.query.unwrap_or_else(|| target.raw_query())])?;
    head.head.method = head.add(&[b"REQUEST_METHOD"], &[request.head.method.as_str().as_bytes()])?;
    // As with Debian's fastcgi_params both variables are there for each request, empty if the client sent no such header.
    let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    head.head.content_type = head.add(&[b"CONTENT_TYPE"], &[content_type])?;
    let content_length = if facts.content_length.is_some() { length.digits() } else { b"" };
    head.add(&[b"CONTENT_LENGTH"], &[content_length])?;
    head.head.script = head.add(&[b"SCRIPT_FILENAME"], &[directory.as_os_str().as_encoded_bytes(), file])?;
    head.add(&[b"SCRIPT_NAME"], &[name])?;
    if !info.is_empty() {
        head.add(&[b"PATH_INFO"], &[info])?;
        head.add(&[b"PATH_TRANSLATED"], &[root, info])?;
    }
    head.head.uri = head.add(&[b"REQUEST_URI"], &target.raw())?;
    head.add(&[b"DOCUMENT_URI"], &[name, info])?;
    head.add(&[b"DOCUMENT_ROOT"], &[root])?;
    head.add(&[b"SERVER_PROTOCOL"], &[request.head.protocol_name()])?;
    match &request.behind {
        None => head.append(&peer.variables.0, peer.variables.1)?,
        Some(client) => connection::add_ends(&mut head, peer, client)?,
    }
    head.add(&[b"SERVER_NAME"], &[facts.host.as_bytes()])?;
    let host = target.host().map(str::as_bytes);
    if application.esi {
        head.add(&[b"HTTP_SURROGATE_CAPABILITY"], &[esi::CAPABILITY.as_bytes()])?;
    }
    let written = peer.is_proxy.then_some(facts.written);
    add_headers(&mut head, headers, host, written, application.esi)?;
    if let Some(user) = facts.user {
        head.add(&[b"REMOTE_USER"], &[user.as_bytes()])?;
    }
    head.add(&[b"PHP_SELF"], &[name, info])?;
    // The name by which configurations of nginx pass $request_id on.
    head.add(&[b"REQUEST_ID"], &[request.head.id.as_bytes()])?;
    head.finish()
}

/// `host`: the host of an absolute target, which takes precedence over the header (RFC 9112 §3.2.2).
fn add_headers(
    head: &mut Writer<'_>,
    headers: &HeaderMap,
    host: Option<&[u8]>,
    written: Option<ProxyHeaders>,
    has_capability: bool,
) -> Result<(), TooLarge> {
    for name in headers.keys() {
        let spelled = name.as_str().as_bytes();
        let is_strange = match spelled {
            // What this server is capable of, it says itself.
            b"surrogate-capability" => has_capability,
            b"forwarded" => written != Some(ProxyHeaders::Forwarded),
            _ => spelled.starts_with(b"x-forwarded-") && written != Some(ProxyHeaders::XForwarded),
        };
        if spelled.len() > MAX_NAME || spelled == b"proxy" || spelled == MODE.as_bytes() || is_strange {
            continue;
        }
        let mut values = headers.get_all(name).iter();
        let first = values.next().map_or(&b""[..], |value| value.as_bytes());
        let first = host.filter(|_| name == header::HOST).unwrap_or(first);
        let span = if values.size_hint().1 == Some(0) || takes_one_value(name) {
            head.add_header(spelled, &[first])?
        } else {
            let separator: &[u8] = if name == header::COOKIE { b"; " } else { b", " };
            let rest = values.flat_map(|value| [separator, value.as_bytes()]);
            head.add_header(spelled, &std::iter::once(first).chain(rest).collect::<Vec<_>>())?
        };
        if name == header::COOKIE {
            head.head.cookies = span.unwrap_or_default();
        } else if name == header::AUTHORIZATION {
            head.head.authorization = span.unwrap_or_default();
        }
    }
    Ok(())
}

fn takes_one_value(name: &HeaderName) -> bool {
    [header::AUTHORIZATION, header::CONTENT_TYPE, header::CONTENT_LENGTH, header::REFERER, header::FROM, header::HOST]
        .contains(name)
        || name == header::USER_AGENT
}

/// A number as text, without allocation.
pub struct Decimal {
    digits: [u8; 20],
    value: u64,
}

impl Decimal {
    /// The text of a number.
    pub fn new(value: u64) -> Decimal {
        Decimal { digits: [0; 20], value }
    }

    /// Its digits.
    pub fn digits(&mut self) -> &[u8] {
        let (mut at, mut rest) = (self.digits.len(), self.value);
        loop {
            at -= 1;
            self.digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return &self.digits[at..];
            }
        }
    }
}
