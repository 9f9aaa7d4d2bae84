//! What stands between a client and hyper: whatever bytes arrive, and however they are cut, hyper finds exactly the requests
//! that were framed, refuses none by itself, and their bodies are those that the framing says.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use front::transport::Stream;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Method and target as hyper has them, why it was refused, and its body, if that came whole.
type Seen = (String, String, Option<String>, Option<Vec<u8>>);

/// What is seen of `bytes` that arrive `portion` at a time.
async fn serve(bytes: &[u8], portion: usize) -> Vec<Seen> {
    let (client, server) = tokio::io::duplex(1 << 20);
    let stream = Stream::new(server, Duration::from_secs(5));
    let seen: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let (framer, noted) = (stream.clone(), seen.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let framed = framer.take_framed().expect("hyper found a request where none was framed");
        let noted = noted.clone();
        async move {
            let line = (request.method().to_string(), request.uri().to_string());
            let refusal = framed.refusal.map(|why| format!("{why:?}"));
            let body = request.into_body().collect().await.ok().map(|body| body.to_bytes().to_vec());
            noted.borrow_mut().push((line.0, line.1, refusal, body));
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let conversation = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), service);
    let (mut reader, mut writer) = tokio::io::split(client);
    let sending = async move {
        for part in bytes.chunks(portion.max(1)) {
            if writer.write_all(part).await.is_err() {
                break;
            }
            // The other side runs until it wants more.
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    };
    let reading = async move {
        let mut answers = Vec::new();
        let _ = reader.read_to_end(&mut answers).await;
        answers
    };
    let conversing = async move {
        let _ = conversation.await;
    };
    let ((), (), answers) = tokio::join!(sending, conversing, reading);
    let answers = String::from_utf8_lossy(&answers).into_owned();
    let refused_by_hyper = answers.matches("HTTP/1.1 4").count();
    assert_eq!(refused_by_hyper, 0, "{answers}");
    seen.take()
}

/// Checks what holds for these bytes; the first one says how many of the others arrive at a time.
pub fn check(input: &[u8]) {
    let Some((&portion, bytes)) = input.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let whole = runtime.block_on(serve(bytes, bytes.len()));
    let parts = runtime.block_on(serve(bytes, portion.into()));
    assert_eq!(whole, parts);
}
