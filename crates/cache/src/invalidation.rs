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

/// Path and query of a reference, if it leads to the same host (RFC 9110 §4.3.1: another may not be told by this one), resolved as RFC 3986 §5 has it.
fn below(reference: &str, target: &str, host: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (path, query) = split_query(target);
    if reference.starts_with("//") || reference.contains("://") {
        let uri: Uri =
            reference.strip_prefix("//").map_or(reference.to_owned(), |rest| format!("http://{rest}")).parse().ok()?;
        let is_here =
            uri.authority().is_some_and(|authority| bare(authority.as_str()).eq_ignore_ascii_case(bare(host)));
        return is_here.then(|| resolved(uri.path(), uri.query()));
    }
    let (own_path, own_query) = split_query(reference);
    let whole = match own_path {
        "" => return Some(resolved(path, own_query.or(query))),
        _ if own_path.starts_with('/') => own_path.to_owned(),
        _ => format!("{}{own_path}", &path[..path.rfind('/').map_or(0, |at| at + 1)]),
    };
    Some(resolved(&whole, own_query))
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// Without a default port: which of the two schemes is meant makes no other page of the same host.
fn bare(host: &str) -> &str {
    host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host)
}

/// A path without `.` and `..`, with its query.
fn resolved(path: &str, query: Option<&str>) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let has_dots = path.split('/').any(|segment| segment == "." || segment == "..");
    let mut whole = if has_dots {
        let is_open = path.ends_with("/.") || path.ends_with("/..");
        for segment in path.split('/').skip(1) {
            match segment {
                "." => {}
                ".." => drop(kept.pop()),
                segment => kept.push(segment),
            }
        }
        format!("/{}{}", kept.join("/"), if is_open && !kept.is_empty() { "/" } else { "" })
    } else if path.is_empty() {
        "/".to_owned()
    } else {
        path.to_owned()
    };
    if let Some(query) = query {
        whole.push('?');
        whole.push_str(query);
    }
    whole
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
        for (location, meant) in [
            ("/x?y#z", "/x?y"),
            ("http://EXAMPLE.org/x", "/x"),
            ("//example.org", "/"),
            ("x", "/a/x"),
            ("?d", "/a/b?d"),
            ("../x?y", "/x?y"),
            ("/c/./d/..", "/c/"),
            ("https://example.org:443/x", "/x"),
        ] {
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
