//! Whether a response may be stored (RFC 9111 §3), and on which terms it may be used then.

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};

use crate::Rules;
use crate::directives::{Directives, Reach};
use crate::freshness::{self, Lifetime};
use crate::status::Why;
use crate::targeted::{self, OWN, Said};
use crate::variant::{self, Nominated};
use crate::{cookies, list, purge, tags};

/// Final statuses whose meaning for a cache is known here.
const UNDERSTOOD: [u16; 22] =
    [200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 421, 500, 501, 502, 503, 504];

/// Statuses of responses that stand for a part of a response or for a condition: without a range or a condition nobody gets them.
const OF_SOME: [u16; 4] = [206, 304, 412, 416];

/// Headers of a connection, which are not part of what is stored (RFC 9111 §3.1), and cookies, which are for one client.
const NOT_STORED: [HeaderName; 10] = [
    header::SET_COOKIE,
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// What is known of the request that a response answers.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Whether it has a cookie that matters. Who declares that some do not matter leaves them out.
    pub has_cookie: bool,
    /// Whether it has a body.
    pub has_body: bool,
}

/// When a response came, by the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    /// Seconds since 1970.
    pub at: u64,
    /// Seconds since its request was sent.
    pub waited: u64,
}

/// On which terms a stored response may be used. Times in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it is fresh, from when it was made.
    pub lifetime: u64,
    /// How old it was when it came.
    pub age: u64,
    /// How long it may be used beyond that, while it is being renewed.
    pub stale_while_revalidate: u64,
    /// How long it may be used beyond that, if it cannot be renewed; `None`: it does not say.
    pub stale_if_error: Option<u64>,
    /// It must not be used when it is stale.
    pub is_strict: bool,
    /// It must be validated before each use.
    pub is_validated: bool,
    /// It is for requests with a cookie or a password too.
    pub is_public: bool,
    /// Which headers of a request choose it.
    pub nominated: Nominated,
    /// The cookies of which a visitor must have none to get it, if the response names them.
    pub cookies: Option<Vec<String>>,
    /// Names by which it can be purged.
    pub tags: Vec<String>,
}

/// Whether a response may be stored: on which terms, or why not. What is unclear is not stored.
pub fn decide(
    rules: Rules,
    asked: &Asked<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    came: Came,
) -> Result<Terms, Why> {
    let said = Said::under(rules, headers);
    may_ask(asked)?;
    may_share(rules, &said, asked, status, headers)?;
    let Directives { public, s_maxage, max_age, must_revalidate, .. } = said.directives;
    let is_public = said.is_open;
    let opens = |more: bool| is_public || (rules == Rules::Rfc9111 && more);
    if asked.headers.contains_key(header::AUTHORIZATION) && !opens(s_maxage.is_some() || must_revalidate) {
        return Err(Why::Authorization);
    }
    // RFC 9111 says nothing of cookies; what was made for a visitor is for others only if it is meant for shared caches.
    if asked.has_cookie && !opens(s_maxage.is_some()) {
        return Err(Why::Cookie);
    }
    let cookies = cookies::of_response(headers);
    if cookies.as_ref().is_some_and(|cookies| cookies::has_any(asked.headers, cookies)) {
        return Err(Why::Cookie);
    }
    let mut nominated = variant::nominated(rules, headers).ok_or(Why::Vary)?;
    if rules == Rules::Safe && cookies.is_some() {
        // The response has said which cookies make another one, and who has one of them does not get it.
        nominated.remove(&header::COOKIE);
    }
    if rules == Rules::Safe && headers.contains_key(header::CONTENT_ENCODING) {
        // Whoever asks for another coding gets another response, even if this one does not say so.
        if !variant::is_accepted_coding(headers, asked.headers) {
            return Err(Why::Vary);
        }
        nominated.add(header::ACCEPT_ENCODING);
    }
    let tags = tags::of(headers).ok_or(Why::Tags)?;
    let lifetime = freshness::lifetime(rules, status.as_u16(), headers, &said, came.at);
    let says_so = s_maxage.is_some() || ((public || said.is_targeted) && max_age.is_some());
    let is_wanted = match rules {
        Rules::Safe => says_so && !said.directives.is_malformed,
        Rules::Rfc9111 => {
            let may_assume = freshness::is_heuristic(status.as_u16()) && is_validator(headers);
            lifetime != Lifetime::Unknown || public || may_assume
        }
    };
    if !is_wanted {
        return Err(if says_so { Why::Malformed } else { Why::NoFreshness });
    }
    let terms = Terms {
        lifetime: lifetime.seconds(),
        age: freshness::age(headers, came.at, came.waited),
        stale_while_revalidate: said.directives.stale_while_revalidate.unwrap_or(0),
        stale_if_error: said.directives.stale_if_error,
        is_strict: is_strict(&said.directives),
        is_validated: said.directives.no_cache == Reach::Whole,
        // By RFC 9111 alone neither a cookie nor a password keeps a request from a stored response.
        is_public: is_public || rules == Rules::Rfc9111,
        nominated,
        cookies,
        tags,
    };
    if terms.is_useful() || is_validator(headers) { Ok(terms) } else { Err(Why::Stale) }
}

/// Beginnings of the names of fields that speak to caches, beside Cache-Control.
const SPEAKING: [&str; 8] = [
    "reprise-",
    "x-litespeed-",
    "cdn-cache-control",
    "surrogate-",
    "cache-tag",
    "cache-groups",
    "x-cache-tags",
    "xkey",
];

/// Why a response is not stored that says nothing to shared caches, by [`Rules::Safe`]: what [`decide`] says too, at less cost. `None`: the response may say
/// something, so [`decide`] has to look. A response for which this has a reason has none of [`OWN_FIELDS`].
pub fn glance(asked: &Asked<'_>, status: StatusCode, headers: &HeaderMap) -> Option<Why> {
    let (mut has_control, mut has_vary) = (false, false);
    for name in headers.keys() {
        if *name == header::CACHE_CONTROL {
            has_control = true;
        } else if *name == header::VARY {
            has_vary = true;
        } else if *name == header::CONTENT_ENCODING || *name == header::CONTENT_RANGE {
            return None;
        } else {
            let name = name.as_str();
            if b"crsx".contains(&name.as_bytes()[0]) && SPEAKING.iter().any(|beginning| name.starts_with(beginning)) {
                return None;
            }
        }
    }
    let is_plain = *asked.method == Method::GET && !asked.has_body;
    if !is_plain || asked.headers.contains_key(header::CACHE_CONTROL) {
        return None;
    }
    let directives = if has_control { Directives::of(headers) } else { Directives::default() };
    if directives.public || directives.s_maxage.is_some() {
        return None;
    }
    if !UNDERSTOOD.contains(&status.as_u16()) {
        return Some(Why::Status);
    }
    if let Some(why) = is_of_one_client(&directives, headers) {
        return Some(why);
    }
    if asked.headers.contains_key(header::AUTHORIZATION) {
        return Some(Why::Authorization);
    }
    if asked.has_cookie {
        return Some(Why::Cookie);
    }
    if has_vary && variant::nominated(Rules::Safe, headers).is_none() {
        return Some(Why::Vary);
    }
    Some(Why::NoFreshness)
}

/// Whether a response to such a request could be stored at all.
pub fn may_ask(asked: &Asked<'_>) -> Result<(), Why> {
    if asked.method != Method::GET {
        return Err(Why::Method);
    }
    if asked.has_body {
        return Err(Why::Body);
    }
    let own = Directives::of(asked.headers);
    if own.no_store { Err(Why::RequestNoStore) } else { Ok(()) }
}

fn may_share(rules: Rules, said: &Said, asked: &Asked<'_>, status: StatusCode, headers: &HeaderMap) -> Result<(), Why> {
    let directives = &said.directives;
    let is_understood = UNDERSTOOD.contains(&status.as_u16());
    let may_be_stored = match rules {
        // Content-Range means something in a 206 and a 416 alone (RFC 9110 §14.4). Lists of some interfaces say by it which items they have.
        // A request with Range, which a script may have answered with a part under another status, is not stored for others.
        Rules::Safe => {
            is_understood && !(headers.contains_key(header::CONTENT_RANGE) && asked.headers.contains_key(header::RANGE))
        }
        Rules::Rfc9111 => {
            let is_whole = !status.is_informational() && !OF_SOME.contains(&status.as_u16());
            is_whole && (is_understood || !directives.must_understand)
        }
    };
    if !may_be_stored {
        return Err(Why::Status);
    }
    match is_of_one_client(directives, headers) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// Why a response is for one client alone, if it says so.
pub(crate) fn is_of_one_client(directives: &Directives, headers: &HeaderMap) -> Option<Why> {
    if directives.no_store && !directives.must_understand {
        return Some(Why::NoStore);
    }
    if directives.private == Reach::Whole {
        return Some(Why::Private);
    }
    headers.contains_key(header::SET_COOKIE).then_some(Why::SetCookie)
}

/// `s-maxage` forbids stale use too (RFC 9111 §5.2.2.10), unless the same response allows it in so many words.
fn is_strict(directives: &Directives) -> bool {
    let allows = directives.stale_while_revalidate.is_some() || directives.stale_if_error.is_some();
    directives.must_revalidate || directives.proxy_revalidate || (directives.s_maxage.is_some() && !allows)
}

fn is_validator(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED)
}

impl Terms {
    /// Whether it may ever be used without asking the origin.
    const fn is_useful(&self) -> bool {
        let stale = if let Some(seconds) = self.stale_if_error { seconds } else { 0 };
        !self.is_validated && self.lifetime + self.stale_while_revalidate + stale > self.age
    }
}

/// Fields that speak to this cache alone; no client sees them, whether or not the cache is on.
pub const OF_REPRISE: [HeaderName; 4] = [OWN, tags::OWN, cookies::OWN, purge::OWN];

/// Fields that speak to this cache, or to one that it stands in for; no client of the cache sees them.
pub const OWN_FIELDS: [HeaderName; 7] =
    [OWN, tags::OWN, cookies::OWN, purge::OWN, targeted::OF_LITESPEED, tags::OF_LITESPEED, purge::OF_LITESPEED];

/// Takes away what is not stored: headers of the connection, those that Connection names, those that are for one client, and the fields for this
/// cache alone.
pub fn strip(headers: &mut HeaderMap) {
    let Said { directives, .. } = Said::by(headers);
    let named = list::members(headers, header::CONNECTION).unwrap_or_default();
    let named: Vec<HeaderName> = named.into_iter().filter_map(|name| name.parse().ok()).collect();
    let goes = |name: &HeaderName| {
        NOT_STORED.contains(name) || named.contains(name) || directives.withholds(name) || OWN_FIELDS.contains(name)
    };
    let gone: Vec<HeaderName> = headers.keys().filter(|name| goes(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
    // Age is what this cache says.
    headers.remove(header::AGE);
}

#[cfg(test)]
mod tests;
