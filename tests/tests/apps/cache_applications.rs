//! The cache of responses with applications: what is the same for many is made once, a change is seen by who has made it and by all others, and nobody
//! gets what was made for somebody else.

mod of_frameworks;
mod of_mediawiki;
mod of_visitors;
mod of_wordpress;

use tests::bridged::HOST;
use tests::compare::Visitor;
use tests::{Response, Server};

fn status_of(response: &Response) -> &str {
    response.header("cache-status").unwrap_or("")
}

fn is_hit(response: &Response) -> bool {
    status_of(response).starts_with("Reprise; hit")
}

fn is_stored(response: &Response) -> bool {
    status_of(response).contains("; stored")
}

/// One that was never here, without a cookie.
fn stranger(server: &Server) -> Visitor {
    let mut visitor = Visitor::marked(server.port, HOST, "");
    visitor.mark = None;
    visitor
}

/// Asked for by a stranger: status 200, and nothing in its head that is for the cache alone.
fn page(server: &Server, path: &str) -> Response {
    let page = stranger(server).get(path);
    assert_eq!(page.status, 200, "{path}: {:.2000}", page.text());
    assert!(!page.headers.iter().any(|(name, _)| name.starts_with("reprise-cache")), "{path}: {:?}", page.headers);
    page
}
