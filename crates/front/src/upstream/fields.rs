//! Target and headers on their way to an upstream and back.
//!
//! What belongs to one connection stays there (RFC 9110 §7.6.1). Who the client is, the front says itself: what a client writes into
//! these headers never reaches an upstream.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version};

use inbound::head::MODE;
use inbound::request::{Head, Request};

/// Headers of one connection, besides those that `Connection` names.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];
/// Headers of a request that end here besides: who the client is says the front.
const OF_CLIENT: [&str; 5] = ["forwarded", "x-real-ip", "proxy", "proxy-authorization", "expect"];
/// Fields that no trailer may have (RFC 9110 §6.5.1): they frame, route or guard the message, or change what was decided by its head.
const NO_TRAILERS: [HeaderName; 14] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::HOST,
    header::LOCATION,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What is wrong with a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong(pub &'static str);

/// Whether a request asks for a WebSocket (RFC 6455 §4.1).
pub fn asks_for_websocket(head: &Head) -> bool {
    head.method == Method::GET && head.protocol == Version::HTTP_11 && is_websocket(&head.headers)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    words(headers, &header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
        && headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers.get_all(header::UPGRADE).iter().count() == 1
}

/// The words of a list.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// Removes the headers of one connection.
fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        words(headers, &header::CONNECTION).filter_map(|word| word.to_ascii_lowercase().parse().ok()).collect();
    for name in OF_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Whether a header of a client may not reach an upstream. Many servers take `_` for `-`.
fn is_of_client(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is = |name: &str| OF_CLIENT.contains(&name) || name.starts_with("x-forwarded-") || name == MODE;
    is(name) || (name.contains('_') && is(&name.replace('_', "-")))
}

/// The headers for an upstream. `host`: as the client named it. `length`: of the body.
pub fn of_request(request: &Request, host: &str, length: Option<u64>, is_upgrade: bool) -> HeaderMap {
    let takes_trailers = words(&request.head.headers, &header::TE).any(|word| word.eq_ignore_ascii_case("trailers"));
    let mut headers = request.head.headers.clone();
    remove_of_connection(&mut headers);
    let strange: Vec<HeaderName> = headers.keys().filter(|name| is_of_client(name)).cloned().collect();
    strange.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let mut set = |name: HeaderName, value: &str| {
        // All of these values are made of addresses, numbers and a checked host.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(header::HOST, host);
    let peer = &request.connection.peer;
    let behind = request.behind.as_ref();
    let address = behind.filter(|client| !client.address.is_empty()).map_or(&peer.address, |client| &client.address);
    let is_https = request.is_https();
    let scheme = if is_https { "https" } else { "http" };
    let by_default = if is_https { 443 } else { 80 };
    let port = match behind {
        Some(client) => client.server_port.or(client.is_https.map(|_| by_default)),
        None => peer.server_port.parse().ok(),
    };
    // A client at a unix socket has no address.
    let has_address = address != "unix:";
    if has_address {
        set(HeaderName::from_static("x-forwarded-for"), address);
        set(HeaderName::from_static("x-real-ip"), address);
    }
    set(HeaderName::from_static("x-forwarded-proto"), scheme);
    set(HeaderName::from_static("x-forwarded-host"), host);
    set(HeaderName::from_static("x-forwarded-port"), &port.unwrap_or(by_default).to_string());
    let from = match address.contains(':') && has_address {
        true => format!("\"[{address}]\""),
        false if has_address => address.clone(),
        false => "unknown".to_owned(),
    };
    set(header::FORWARDED, &format!("for={from};host=\"{}\";proto={scheme}", host.replace(['"', '\\'], "")));
    if is_upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    } else if takes_trailers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("TE"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    headers
}

/// Checks the head of a response and removes what belongs to the connection. hyper has refused what is no HTTP.
pub fn of_response<B>(response: &mut Response<B>, asked_for_websocket: bool) -> Result<(), Wrong> {
    // Which version the upstream speaks belongs to its connection, too (RFC 9110 §2.5).
    *response.version_mut() = Version::HTTP_11;
    let status = response.status();
    let headers = response.headers();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        if !asked_for_websocket {
            return Err(Wrong("101 (Switching Protocols) without being asked for that"));
        }
        if !is_websocket(headers) {
            return Err(Wrong("101 (Switching Protocols) to something else than websocket"));
        }
        let headers = response.headers_mut();
        remove_of_connection(headers);
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return Ok(());
    }
    let (codings, lengths) = (headers.get_all(header::TRANSFER_ENCODING), headers.get_all(header::CONTENT_LENGTH));
    let mut codings = codings.iter();
    if let Some(coding) = codings.next() {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(Wrong("both Content-Length and Transfer-Encoding"));
        }
        if codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(Wrong("a Transfer-Encoding other than chunked"));
        }
    }
    let is_number = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        (1..=18).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit)
    };
    if lengths.iter().count() > 1 || !lengths.iter().all(is_number) {
        return Err(Wrong("a Content-Length that is no single number"));
    }
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let trailers = headers.get(header::TRAILER).filter(|_| is_chunked).cloned();
    let headers = response.headers_mut();
    remove_of_connection(headers);
    headers.remove(header::PROXY_AUTHENTICATE);
    if let Some(trailers) = trailers {
        headers.insert(header::TRAILER, trailers);
    }
    if status == StatusCode::NO_CONTENT {
        headers.remove(header::CONTENT_LENGTH);
    }
    Ok(())
}

/// Removes what no trailer may have.
pub fn of_trailers(mut trailers: HeaderMap) -> HeaderMap {
    remove_of_connection(&mut trailers);
    NO_TRAILERS.iter().for_each(|name| drop(trailers.remove(name)));
    trailers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use inbound::connection::{Connection, Nobody, Peer};
    use inbound::forwarded::Client;
    use inbound::request::{By, RequestBody};

    fn request(fields: &[(&'static str, &'static str)], behind: Option<Client>) -> Request {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        let peer = Peer::tcp("192.0.2.7:99".parse().unwrap(), "127.0.0.1:8080".parse().unwrap(), &[]);
        let connection = Arc::new(Connection { peer: Arc::new(peer), client: Box::new(Nobody) });
        let head = Head::new(Method::GET, "/".parse().unwrap(), Version::HTTP_11, headers, None);
        Request { head, body: RequestBody::None, connection, behind, refusal: None, by: By::Client }
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn who_the_client_is_says_the_front_alone() {
        let sent = [
            ("host", "a.example"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-anything", "1"),
            ("x_forwarded_for", "1.1.1.1"),
            ("x_real-ip", "1.1.1.1"),
            ("forwarded", "for=1.1.1.1"),
            ("proxy", "http://evil"),
            ("connection", "close, x-own"),
            ("x-own", "1"),
            ("keep-alive", "1"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("cookie", "a=b"),
        ];
        let made = of_request(&request(&sent, None), "a.example", Some(3), false);
        let mut expected = [
            "content-length: 3",
            "cookie: a=b",
            "forwarded: for=192.0.2.7;host=\"a.example\";proto=http",
            "host: a.example",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: a.example",
            "x-forwarded-port: 8080",
            "x-forwarded-proto: http",
            "x-real-ip: 192.0.2.7",
        ];
        expected.sort_unstable();
        assert_eq!(lines(&made), expected);
        let client =
            Client { address: "2001:db8::1".to_owned(), port: String::new(), is_https: Some(true), server_port: None };
        let made = of_request(&request(&[("te", "trailers")], Some(client)), "a:81", None, false);
        assert_eq!(made[header::FORWARDED], "for=\"[2001:db8::1]\";host=\"a:81\";proto=https");
        assert_eq!(
            (&made["x-forwarded-port"], &made[header::TE]),
            (&HeaderValue::from(443), &"trailers".parse().unwrap())
        );
    }

    #[test]
    fn lies_about_the_body_are_found() {
        let checked = |status: u16, fields: &[(&'static str, &'static str)], asked| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in fields {
                response.headers_mut().append(*name, value.parse().unwrap());
            }
            of_response(&mut response, asked).map(|()| lines(response.headers()))
        };
        let switch = [("connection", "upgrade"), ("upgrade", "WebSocket"), ("sec-websocket-accept", "x")];
        assert!(checked(101, &switch, false).is_err());
        assert!(checked(101, &switch[1..], true).is_err());
        assert_eq!(checked(101, &switch, true).unwrap().len(), 3);
        assert!(checked(200, &[("content-length", "1"), ("transfer-encoding", "chunked")], false).is_err());
        assert!(checked(200, &[("transfer-encoding", "gzip, chunked")], false).is_err());
        assert!(checked(200, &[("content-length", "1"), ("content-length", "1")], false).is_err());
        assert!(checked(200, &[("content-length", "+1")], false).is_err());
        let kept = checked(
            200,
            &[("transfer-encoding", "chunked"), ("trailer", "x-sum"), ("connection", "x-own"), ("x-own", "1")],
            false,
        );
        assert_eq!(kept.unwrap(), ["trailer: x-sum"]);
        assert_eq!(checked(204, &[("content-length", "9")], false).unwrap(), [""; 0]);
    }
}
