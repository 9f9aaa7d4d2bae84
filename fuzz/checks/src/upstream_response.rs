//! What an upstream responds: of whatever bytes, a client gets a head that says the truth about its body and nothing of the connection to the
//! upstream, and how the bytes are cut changes nothing.

use front::upstream_fields::{of_response, of_trailers};
use front::upstream_protocol;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
/// Fields that change what a message is, and so belong to its head (RFC 9110 §6.5.1).
const NO_TRAILERS: [HeaderName; 8] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::HOST,
    header::SET_COOKIE,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::LOCATION,
    header::CONNECTION,
];

/// How the request asks.
#[derive(Clone, Copy)]
struct Asked {
    is_head: bool,
    for_websocket: bool,
}

/// Head, body and trailers as they go to the client. `None` in place of the body: it breaks off.
type Passed = (StatusCode, HeaderMap, Option<(Bytes, Option<HeaderMap>)>);

/// What is passed on of `bytes` that arrive `portion` at a time. `None`: there is no response, or its head is refused.
async fn pass(bytes: &[u8], portion: usize, asked: Asked) -> Option<Passed> {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = upstream_protocol().handshake(TokioIo::new(near)).await.expect("a connection");
    let driving = tokio::spawn(connection.with_upgrades());
    let method = if asked.is_head { Method::HEAD } else { Method::GET };
    let request = Request::builder().method(method).uri("/").header(header::HOST, "a.example");
    let receiving = sender.send_request(request.body(Empty::<Bytes>::new()).expect("a request"));
    let sending = async {
        // The request comes first: an upstream that responds to none has its connection closed.
        let _ = far.read(&mut [0; 1024]).await;
        for part in bytes.chunks(portion.max(1)) {
            if far.write_all(part).await.is_err() {
                break;
            }
            // The other side runs until it wants more.
            tokio::task::yield_now().await;
        }
        let _ = far.shutdown().await;
    };
    let reading = async {
        let mut response = receiving.await.ok()?;
        let original = (response.status(), response.headers().clone());
        of_response(&mut response, asked.for_websocket).ok()?;
        is_clean(&original.1, &response, asked);
        let (head, body) = response.into_parts();
        Some((head.status, head.headers, read(body).await))
    };
    let ((), passed) = tokio::join!(sending, reading);
    driving.abort();
    passed
}

/// The whole body, and its trailers.
async fn read(mut body: Incoming) -> Option<(Bytes, Option<HeaderMap>)> {
    let (mut whole, mut trailers) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        match frame.ok()?.into_data() {
            Ok(part) => whole.extend_from_slice(&part),
            Err(frame) => trailers = frame.into_trailers().ok().map(of_trailers),
        }
    }
    Some((whole.into(), trailers))
}

/// What holds for a head that was let through.
fn is_clean(original: &HeaderMap, response: &Response<Incoming>, asked: Asked) {
    let (status, headers) = (response.status(), response.headers());
    let named = |name: &HeaderName| {
        let lines = original.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|word| word.trim().eq_ignore_ascii_case(name.as_str()))
    };
    let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
    assert!(!is_switch || asked.for_websocket);
    for name in &OF_CONNECTION {
        let is_own = match *name {
            header::CONNECTION => is_switch && headers[name] == "Upgrade",
            header::UPGRADE => is_switch && headers.get(name).is_some_and(|value| value == "websocket"),
            header::TRAILER => !is_switch && original.contains_key(header::TRANSFER_ENCODING),
            _ => false,
        };
        assert!(is_own || !headers.contains_key(name), "{name}: {headers:?}");
        assert!(headers.get_all(name).iter().count() <= 1, "{name}");
    }
    let lengths: Vec<_> = headers.get_all(header::CONTENT_LENGTH).iter().collect();
    assert!(lengths.len() <= 1 && lengths.iter().all(|length| length.as_bytes().iter().all(u8::is_ascii_digit)));
    assert!(lengths.is_empty() || !(is_switch || original.contains_key(header::TRANSFER_ENCODING)));
    assert!(lengths.is_empty() || status != StatusCode::NO_CONTENT);
    // What belongs to the response stays, line by line.
    for name in original.keys() {
        let is_changed = OF_CONNECTION.contains(name) || *name == "http2-settings" || named(name);
        if !is_changed && *name != header::CONTENT_LENGTH {
            assert!(headers.get_all(name).iter().eq(original.get_all(name)), "{name}");
        }
        assert!(!named(name) || OF_CONNECTION.contains(name) || !headers.contains_key(name), "{name}");
    }
    assert!(headers.keys().all(|name| original.contains_key(name) || OF_CONNECTION.contains(name)));
}

/// Two bytes: how the request asks, and how many of the other bytes arrive at a time.
pub fn check(input: &[u8]) {
    let Some(([how, portion], bytes)) = input.split_first_chunk() else { return };
    let asked = Asked { is_head: how & 1 != 0, for_websocket: how & 2 != 0 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let whole = runtime.block_on(pass(bytes, bytes.len(), asked));
    let parts = runtime.block_on(pass(bytes, (*portion).into(), asked));
    assert_eq!(whole, parts);
    let Some((status, headers, Some((body, trailers)))) = whole else { return };
    let has_none = asked.is_head || [204, 304, 101].contains(&status.as_u16());
    assert!(!has_none || body.is_empty());
    if let (false, Some(length)) = (has_none, headers.get(header::CONTENT_LENGTH)) {
        assert_eq!(length.to_str().ok().and_then(|length| length.parse().ok()), Some(body.len()));
    }
    assert!(body.len() <= bytes.len());
    let trailers = trailers.unwrap_or_default();
    assert!(NO_TRAILERS.iter().all(|name| !trailers.contains_key(name)));
}
