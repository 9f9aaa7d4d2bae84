//! Whether the Content-Security-Policy of a page lets it listen (CSP Level 3): it loads a script of the front, and connects to the front.
//! A policy in a `<meta>` of the page is not looked at; a browser says in its console what such a one forbids.

use http::header::{self, HeaderMap};

/// What one policy says of scripts of the front.
struct Scripts<'a> {
    /// They may be loaded as they are.
    are_allowed: bool,
    /// Or with one of these.
    nonces: Vec<&'a str>,
}

/// The nonce that the script needs, if there is one. An error says which directive is in the way.
pub fn nonce(response: &HeaderMap, request: &HeaderMap) -> Result<Option<String>, String> {
    let host = request.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let values = response.get_all(header::CONTENT_SECURITY_POLICY).iter().filter_map(|value| value.to_str().ok());
    let policies: Vec<&str> = values.flat_map(|value| value.split(',')).collect();
    let mut all = Vec::new();
    for policy in policies {
        check_sandbox(policy)?;
        check_connections(policy, host)?;
        all.extend(scripts(policy, host)?);
    }
    // Each policy has to let it run.
    let any = all.iter().flat_map(|one| &one.nonces).next().copied();
    let fits = |nonce: &&str| all.iter().all(|one| one.are_allowed || one.nonces.contains(nonce));
    let fitting = all.iter().flat_map(|one| &one.nonces).copied().find(fits);
    match fitting {
        Some(nonce) => Ok(Some(nonce.to_owned())),
        None if all.iter().all(|one| one.are_allowed) => Ok(any.map(str::to_owned)),
        None => Err("no nonce is in all of its policies (Content-Security-Policy)".to_owned()),
    }
}

/// The sources of a directive; the first one counts.
fn directive<'a>(policy: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let directives = policy.split(';').map(str::split_ascii_whitespace);
    directives.into_iter().find_map(|mut words| words.next()?.eq_ignore_ascii_case(name).then(|| words.collect()))
}

/// The first of these directives that the policy has, with its name.
fn first<'a>(policy: &'a str, names: &[&'static str]) -> Option<(&'static str, Vec<&'a str>)> {
    names.iter().find_map(|name| Some((*name, directive(policy, name)?)))
}

fn check_sandbox(policy: &str) -> Result<(), String> {
    let Some(allowed) = directive(policy, "sandbox") else { return Ok(()) };
    for wanted in ["allow-scripts", "allow-same-origin"] {
        if !allowed.iter().any(|word| word.eq_ignore_ascii_case(wanted)) {
            return Err(format!("Content-Security-Policy has sandbox without {wanted}"));
        }
    }
    Ok(())
}

fn check_connections(policy: &str, host: &str) -> Result<(), String> {
    match first(policy, &["connect-src", "default-src"]) {
        Some((name, sources)) if !sources.iter().any(|source| is_own(source, host)) => {
            Err(format!("Content-Security-Policy has {name} without 'self'"))
        }
        _ => Ok(()),
    }
}

fn scripts<'a>(policy: &'a str, host: &str) -> Result<Option<Scripts<'a>>, String> {
    let Some((name, sources)) = first(policy, &["script-src-elem", "script-src", "default-src"]) else {
        return Ok(None);
    };
    let has = |word: &str| sources.iter().any(|source| source.eq_ignore_ascii_case(word));
    let nonces = sources.iter().filter_map(|source| {
        let inner = source.strip_prefix('\'')?.strip_suffix('\'')?;
        let value = inner.get(..6).filter(|begin| begin.eq_ignore_ascii_case("nonce-")).and(inner.get(6..))?;
        // Of base64, as the grammar has it: nothing in it can end an attribute.
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
        (!value.is_empty() && value.bytes().all(is_fine)).then_some(value)
    });
    let nonces: Vec<&str> = nonces.collect();
    let are_allowed = !has("'strict-dynamic'") && sources.iter().any(|source| is_own(source, host));
    if !are_allowed && nonces.is_empty() {
        return Err(format!("Content-Security-Policy has {name} with neither 'self' nor a nonce"));
    }
    Ok(Some(Scripts { are_allowed, nonces }))
}

/// Whether a source includes this server, whose scheme is the page's own.
fn is_own(source: &str, host: &str) -> bool {
    let without_scheme = source.split_once("://").map_or(source, |(_, rest)| rest);
    source.eq_ignore_ascii_case("'self'")
        || source == "*"
        || without_scheme.trim_end_matches('/').eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn asked(policies: &[&'static str]) -> Result<Option<String>, String> {
        let (mut response, mut request) = (HeaderMap::new(), HeaderMap::new());
        for policy in policies {
            response.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        }
        request.insert(header::HOST, HeaderValue::from_static("localhost:8080"));
        nonce(&response, &request)
    }

    #[test]
    fn policies_that_let_the_page_listen() {
        for (policies, expected) in [
            (&[][..], None),
            (&["img-src 'none'"], None),
            (&["default-src 'self'"], None),
            (&["default-src 'none'; script-src http://localhost:8080; connect-src *"], None),
            (&["script-src 'nonce-aB3+/_-='"], Some("aB3+/_-=")),
            (&["script-src 'self' 'nonce-x'"], Some("x")),
            (&["script-src 'strict-dynamic' 'NONCE-x' 'self'"], Some("x")),
            (&["script-src 'nonce-a' 'nonce-b'", "default-src 'self'; script-src 'nonce-b'"], Some("b")),
            (&["script-src 'nonce-a', script-src 'self'"], Some("a")),
            (&["sandbox allow-scripts allow-same-origin"], None),
            (&["script-src 'self'; script-src 'none'"], None),
        ] {
            assert_eq!(asked(policies), Ok(expected.map(str::to_owned)), "{policies:?}");
        }
    }

    #[test]
    fn policies_that_do_not_and_why() {
        for (policies, expected) in [
            (&["default-src 'none'"][..], "default-src without 'self'"),
            (&["script-src 'unsafe-inline'"], "script-src with neither"),
            (&["script-src 'self'; connect-src https://api.example"], "connect-src without"),
            (&["script-src 'strict-dynamic' 'self'"], "neither 'self' nor"),
            (&["script-src 'nonce-\"><b>'"], "neither 'self' nor"),
            (&["script-src-elem 'none'; script-src 'self'"], "script-src-elem with neither"),
            (&["sandbox"], "allow-scripts"),
            (&["sandbox allow-scripts"], "allow-same-origin"),
            (&["script-src 'nonce-a'", "script-src 'nonce-b'"], "no nonce"),
        ] {
            let why = asked(policies).unwrap_err();
            assert!(why.contains(expected), "{policies:?}: {why}");
        }
    }
}
