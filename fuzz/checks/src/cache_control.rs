//! What a response says to caches: whatever stands beside it, what is for one client is not stored for others, and nothing answers that
//! may not.

use cache::Rules;
use cache::directives::{MOST, Reach};
use cache::reuse::{self, Reuse};
use cache::storing::{self, Asked, Came, Terms};
use cache::targeted::{OWN, Said, TARGETS};
use cache::update;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};

const OF_RESPONSE: [HeaderName; 12] = [
    header::CACHE_CONTROL,
    OWN,
    HeaderName::from_static("cdn-cache-control"),
    header::SET_COOKIE,
    header::EXPIRES,
    header::DATE,
    header::AGE,
    header::LAST_MODIFIED,
    header::ETAG,
    header::VARY,
    header::CONTENT_RANGE,
    header::CONNECTION,
];
const OF_REQUEST: [HeaderName; 4] = [header::CACHE_CONTROL, header::COOKIE, header::AUTHORIZATION, header::PRAGMA];

/// When the response came.
const NOW: u64 = 1_800_000_000;

/// The first targeted field that counts, read by the library alone.
fn targeted(headers: &HeaderMap) -> Option<Dictionary> {
    TARGETS.iter().find_map(|name| {
        let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
        let lines = lines.ok().filter(|lines| !lines.is_empty())?;
        Parser::new(&lines.join(",")).parse::<Dictionary>().ok().filter(|read| !read.is_empty())
    })
}

fn with(headers: &HeaderMap, name: &HeaderName, value: &'static str) -> HeaderMap {
    let mut more = headers.clone();
    more.append(name, HeaderValue::from_static(value));
    more
}

/// Two bytes: the status; a byte: cookie, body and method; a byte: when the response is asked for again. Then lines; the first byte of each
/// says which header it is.
pub fn check(bytes: &[u8]) {
    let Some(([high, low, kind, later], lines)) = bytes.split_first_chunk() else { return };
    let Ok(status) = StatusCode::from_u16(u16::from_be_bytes([*high, *low])) else { return };
    let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
    for line in lines.split(|&byte| byte == b'\n').take(24) {
        let [which, value @ ..] = line else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        let which = usize::from(*which) % (OF_RESPONSE.len() + OF_REQUEST.len());
        match OF_RESPONSE.get(which) {
            Some(name) => response.append(name, value),
            None => request.append(&OF_REQUEST[which - OF_RESPONSE.len()], value),
        };
    }
    let method = [Method::GET, Method::HEAD, Method::POST][usize::from(kind >> 2) % 3].clone();
    let has_cookie = request.contains_key(header::COOKIE) || kind & 1 != 0;
    let asked = Asked { method: &method, headers: &request, has_cookie, has_body: kind & 2 != 0 };
    let came = Came { at: NOW, waited: 1 };
    let store = |rules, response: &HeaderMap| storing::decide(rules, &asked, status, response, came);
    let [safe, by_letter] = [Rules::Safe, Rules::Rfc9111].map(|rules| store(rules, &response));
    if let Ok(terms) = &safe {
        // Surrogate-Control counts by RFC 9111 alone.
        assert!(by_letter.is_ok() || response.contains_key("surrogate-control"), "who stores less stores nothing else");
        assert!(Said::by(&response).is_for_shared_caches());
        assert!(terms.is_public || !(asked.has_cookie || request.contains_key(header::AUTHORIZATION)));
    }
    for (rules, decided) in [(Rules::Safe, safe), (Rules::Rfc9111, by_letter)] {
        never_stored(rules, &response, &store);
        if let Ok(terms) = decided {
            assert!(method == Method::GET && !asked.has_body);
            is_sharable(&response);
            is_withheld(&response);
            assert!(terms.lifetime <= MOST && terms.age <= MOST && terms.stale_while_revalidate <= MOST);
            answers(rules, &terms, &asked, u64::from(*later) * u64::from(*later));
        }
    }
    // A 304 with the same head: what takes the response from others takes it from them whatever they had before.
    if update::withdraws(&response).is_none() {
        is_sharable(&response);
    }
}

/// What comes on top forbids it, whatever else is said.
fn never_stored(
    rules: Rules,
    response: &HeaderMap,
    store: &impl Fn(Rules, &HeaderMap) -> Result<Terms, cache::status::Why>,
) {
    assert!(store(rules, &with(response, &header::SET_COOKIE, "a=b")).is_err());
    assert!(update::withdraws(&with(response, &header::SET_COOKIE, "a=b")).is_some());
    let said = Said::by(response);
    if said.is_targeted {
        return;
    }
    for says in ["private", "no-store", "PRIVATE", "x=1, no-store ,"] {
        let headers = with(response, &header::CACHE_CONTROL, says);
        if says.contains("private") || says.contains("PRIVATE") || !said.directives.must_understand {
            assert!(store(rules, &headers).is_err(), "{says}");
            assert!(update::withdraws(&headers).is_some(), "{says}");
        }
    }
    let mut own = response.clone();
    own.insert(OWN, HeaderValue::from_static("max-age=60, private"));
    assert!(store(rules, &own).is_err());
}

/// Nothing in a response that others get says that it is for one client.
fn is_sharable(response: &HeaderMap) {
    assert!(!response.contains_key(header::SET_COOKIE));
    let Some(said) = targeted(response) else { return };
    let is_set = |name: &str| match said.get(name) {
        None | Some(ListEntry::Item(Item { bare_item: BareItem::Boolean(false), .. })) => false,
        Some(_) => true,
    };
    assert!(!is_set("no-store") || is_set("must-understand"));
    // It may name fields that are for one client.
    let names = matches!(said.get("private"), Some(ListEntry::Item(Item { bare_item: BareItem::String(_), .. })));
    assert!(!is_set("private") || names);
}

/// Fields that are for one client or one connection are not stored.
fn is_withheld(response: &HeaderMap) {
    let mut stored = response.clone();
    for name in ["x-a", "set-cookie", "authentication-info"] {
        stored.insert(name, HeaderValue::from_static("1"));
    }
    let directives = Said::by(&stored).directives;
    storing::strip(&mut stored);
    for reach in [directives.private, directives.no_cache] {
        if let Reach::Fields(names) = reach {
            assert!(names.iter().all(|name| !stored.contains_key(name)));
        }
    }
    for name in [header::CONNECTION, header::AGE, header::SET_COOKIE, OWN] {
        assert!(!stored.contains_key(name));
    }
}

/// When a stored response answers.
fn answers(rules: Rules, terms: &Terms, asked: &Asked<'_>, since: u64) {
    let is_visitor = asked.has_cookie || asked.headers.contains_key(header::AUTHORIZATION);
    let age = terms.age + since;
    let decided = reuse::decide(rules, terms, asked, since);
    match decided {
        Reuse::Fresh | Reuse::Renew => {
            assert!(terms.is_public || !is_visitor);
            assert!(!terms.is_validated);
            let is_fresh = age < terms.lifetime;
            let may_be_stale = !terms.is_strict && age < terms.lifetime + terms.stale_while_revalidate;
            // By the letter a client may accept what is stale.
            assert!(is_fresh || may_be_stale || (rules == Rules::Rfc9111 && !terms.is_strict));
            assert!(decided == Reuse::Renew || is_fresh || rules == Rules::Rfc9111);
        }
        Reuse::Bypass(_) => assert!(is_visitor && !terms.is_public),
        Reuse::Validate | Reuse::Unsatisfied => {
            // It does not become fresh again.
            let later = reuse::decide(rules, terms, asked, since + 1000);
            assert!(rules == Rules::Rfc9111 || later == decided, "{decided:?}, then {later:?}");
        }
    }
    if reuse::may_after_error(terms, asked, since) {
        assert!((terms.is_public || !is_visitor) && !terms.is_strict && !terms.is_validated);
        assert!(age < terms.lifetime + terms.stale_if_error.unwrap_or(0));
    }
}
