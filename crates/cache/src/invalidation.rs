//! What a response to an unsafe method makes stale (RFC 9111 §4.4).

use http::header;
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::list;

/// Targets of this host, path and query, whose stored responses must not be used any more: the request's own, and those that Location and
/// Content-Location name. `host`: with its port, if it has one.
pub fn targets(method: &Method, target: &str, host: &str, status: StatusCode, headers: &HeaderMap) -> Vec<String> {
    let is_done = status.is_success() || status.is_redirection();
    if method.is_safe() || !is_done {
        return Vec::new();
    }
    let named = [header::LOCATION, header::CONTENT_LOCATION].into_iter().filter_map(|name| headers.get(name));
    let named = named.filter_map(list::text).filter_map(|text| below(text, target, host));
    let mut all: Vec<String> = std::iter::once(target.to_owned()).chain(named).collect();
    all.sort();
    all.dedup();
    all
}

/// Path and query of a reference, if it leads to the same host (RFC 9110 §4.3.1: another may not be told by this one).
fn below(reference: &str, target: &str, host: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let uri: Uri = if reference.starts_with('/') && !reference.starts_with("//") {
        reference.parse().ok()?
    } else if let Some(rest) = reference.strip_prefix("//") {
        format!("http://{rest}").parse().ok()?
    } else if reference.contains("://") {
        reference.parse().ok()?
    } else {
        // Relative to the directory of the request's path; dots in it are left, and such a key has no entry.
        let path = target.split('?').next().unwrap_or_default();
        let end = path.rfind('/').map_or(0, |at| at + 1);
        format!("{}{reference}", &path[..end]).parse().ok()?
    };
    let is_here = uri.authority().is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host));
    is_here.then(|| uri.path_and_query().map_or_else(|| "/".to_owned(), |target| target.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(method: Method, status: u16, location: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_str(location).unwrap());
        targets(&method, "/a/b?c", "example.org", StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn what_was_changed_is_asked_for_anew() {
        for (location, meant) in
            [("/x?y#z", "/x?y"), ("http://EXAMPLE.org/x", "/x"), ("//example.org", "/"), ("x", "/a/x")]
        {
            assert_eq!(
                of(Method::POST, 303, location),
                [meant.to_owned(), "/a/b?c".to_owned()]
                    .into_iter()
                    .collect::<std::collections::BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>(),
                "{location}"
            );
        }
    }

    #[test]
    fn another_host_is_left_alone() {
        for location in
            ["http://example.com/x", "//example.org:81/x", "http://example.org.evil/x", "http://a@example.org/x"]
        {
            assert_eq!(of(Method::DELETE, 200, location), ["/a/b?c"], "{location}");
        }
    }

    #[test]
    fn what_failed_or_reads_changes_nothing() {
        assert!(of(Method::POST, 500, "/x").is_empty() && of(Method::POST, 404, "/x").is_empty());
        assert!(of(Method::GET, 200, "/x").is_empty() && of(Method::OPTIONS, 200, "/x").is_empty());
    }
}
