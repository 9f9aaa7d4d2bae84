//! Whether a stored response may answer a request (RFC 9111 §4).

use http::header;

use crate::Rules;
use crate::cookies;
use crate::directives::{Directives, Reach};
use crate::status::Why;
use crate::storing::{Asked, Terms};

/// What becomes of a request for which there is a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The stored response answers.
    Fresh,
    /// The stored response answers, and is to be renewed meanwhile.
    Renew,
    /// The origin has to say that the stored response is still right.
    Validate,
    /// The stored response is not for this request.
    Bypass(Why),
    /// The client wants a stored response or none, and there is none that may answer: 504.
    Unsatisfied,
}

/// Decides. `since`: seconds since the stored response came, by a clock that never jumps.
pub fn decide(rules: Rules, terms: &Terms, asked: &Asked<'_>, since: u64) -> Reuse {
    if let Err(why) = is_for(terms, asked) {
        return Reuse::Bypass(why);
    }
    let wants = Directives::of(asked.headers);
    let age = terms.age.saturating_add(since);
    let (left, over) = (terms.lifetime.saturating_sub(age), age.saturating_sub(terms.lifetime));
    let is_fresh = left > 0 && !terms.is_validated;
    let by_origin = match (is_fresh, terms.is_strict || terms.is_validated) {
        (true, _) => Reuse::Fresh,
        (false, false) if terms.stale_while_revalidate > over => Reuse::Renew,
        (false, false) if rules == Rules::Rfc9111 && wants.max_stale.is_some_and(|most| most >= over) => Reuse::Fresh,
        _ => Reuse::Validate,
    };
    let is_refused = rules == Rules::Rfc9111 && refuses(&wants, asked, age, left);
    match by_origin {
        Reuse::Fresh | Reuse::Renew if !is_refused => by_origin,
        _ if wants.only_if_cached => Reuse::Unsatisfied,
        _ => Reuse::Validate,
    }
}

/// Whether the stored response may answer since the origin failed to (RFC 5861 §4). `since`: as for [`decide`].
pub fn may_after_error(terms: &Terms, asked: &Asked<'_>, since: u64) -> bool {
    let over = terms.age.saturating_add(since).saturating_sub(terms.lifetime);
    let may = terms.stale_if_error.is_some_and(|seconds| seconds > over) && !terms.is_strict && !terms.is_validated;
    may && is_for(terms, asked).is_ok()
}

/// Whether a response that may be shared is for a request with these headers: with a cookie or a password only if it is public.
fn is_for(terms: &Terms, asked: &Asked<'_>) -> Result<(), Why> {
    if terms.cookies.as_ref().is_some_and(|cookies| cookies::has_any(asked.headers, cookies)) {
        return Err(Why::Cookie);
    }
    if terms.is_public {
        return Ok(());
    }
    if asked.headers.contains_key(header::AUTHORIZATION) {
        return Err(Why::Authorization);
    }
    if asked.has_cookie { Err(Why::Cookie) } else { Ok(()) }
}

/// Whether a client asks for something newer. Only by the rules of RFC 9111: a crowd presses reload.
fn refuses(wants: &Directives, asked: &Asked<'_>, age: u64, left: u64) -> bool {
    let has_control = asked.headers.contains_key(header::CACHE_CONTROL);
    let pragma = !has_control
        && crate::list::members(asked.headers, header::PRAGMA)
            .is_some_and(|members| members.iter().any(|member| member.eq_ignore_ascii_case("no-cache")));
    let is_stale_allowed = wants.max_stale.is_some();
    pragma
        || wants.no_cache != Reach::Nothing
        || wants.max_age.is_some_and(|most| age > most && !is_stale_allowed)
        || wants.min_fresh.is_some_and(|least| left < least)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::*;
    use crate::variant::Nominated;

    const TERMS: Terms = Terms {
        lifetime: 100,
        age: 10,
        stale_while_revalidate: 0,
        stale_if_error: None,
        is_strict: false,
        is_validated: false,
        is_public: false,
        nominated: Nominated::NONE,
        cookies: None,
        tags: Vec::new(),
    };

    fn of(rules: Rules, terms: &Terms, fields: &[(&'static str, &str)], since: u64) -> Reuse {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let has_cookie = headers.contains_key(header::COOKIE);
        decide(rules, terms, &Asked { method: &Method::GET, headers: &headers, has_cookie, has_body: false }, since)
    }

    #[test]
    fn it_is_fresh_until_its_end() {
        for rules in [Rules::Safe, Rules::Rfc9111] {
            assert_eq!(of(rules, &TERMS, &[], 89), Reuse::Fresh);
            assert_eq!(of(rules, &TERMS, &[], 90), Reuse::Validate);
            assert_eq!(of(rules, &Terms { is_validated: true, ..TERMS }, &[], 0), Reuse::Validate);
            assert_eq!(of(rules, &TERMS, &[], u64::MAX), Reuse::Validate);
        }
    }

    #[test]
    fn it_is_renewed_while_it_may_be_stale() {
        let terms = Terms { stale_while_revalidate: 20, ..TERMS };
        assert_eq!(of(Rules::Safe, &terms, &[], 109), Reuse::Renew);
        assert_eq!(of(Rules::Safe, &terms, &[], 110), Reuse::Validate);
        assert_eq!(of(Rules::Safe, &Terms { is_strict: true, ..terms.clone() }, &[], 100), Reuse::Validate);
        assert_eq!(of(Rules::Safe, &Terms { is_validated: true, ..terms }, &[], 100), Reuse::Validate);
    }

    #[test]
    fn a_visitor_with_a_cookie_or_a_password_gets_what_is_public() {
        let public = Terms { is_public: true, ..TERMS };
        for (field, why) in [("cookie", Why::Cookie), ("authorization", Why::Authorization)] {
            for rules in [Rules::Safe, Rules::Rfc9111] {
                assert_eq!(of(rules, &TERMS, &[(field, "a=b")], 0), Reuse::Bypass(why));
                assert_eq!(of(rules, &public, &[(field, "a=b")], 0), Reuse::Fresh);
            }
        }
    }

    #[test]
    fn a_page_that_names_its_cookies_is_not_for_who_has_one() {
        let terms = Terms { is_public: true, cookies: Some(vec!["login*".to_owned()]), ..TERMS };
        assert_eq!(of(Rules::Safe, &terms, &[("cookie", "_ga=1")], 0), Reuse::Fresh);
        assert_eq!(of(Rules::Safe, &terms, &[("cookie", "_ga=1; login_x=2")], 0), Reuse::Bypass(Why::Cookie));
    }

    #[test]
    fn only_by_the_letter_a_client_asks_for_something_newer() {
        for (field, value) in [
            ("cache-control", "no-cache"),
            ("cache-control", "max-age=0"),
            ("cache-control", "max-age=9"),
            ("cache-control", "min-fresh=91"),
            ("pragma", "no-cache"),
        ] {
            assert_eq!(of(Rules::Safe, &TERMS, &[(field, value)], 0), Reuse::Fresh, "{value}");
            assert_eq!(of(Rules::Rfc9111, &TERMS, &[(field, value)], 0), Reuse::Validate, "{value}");
        }
        assert_eq!(of(Rules::Rfc9111, &TERMS, &[("cache-control", "max-age=10, min-fresh=90")], 0), Reuse::Fresh);
        assert_eq!(of(Rules::Rfc9111, &TERMS, &[("cache-control", "max-stale=5")], 95), Reuse::Fresh);
        assert_eq!(of(Rules::Rfc9111, &TERMS, &[("cache-control", "max-stale=5")], 96), Reuse::Validate);
        assert_eq!(of(Rules::Safe, &TERMS, &[("cache-control", "max-stale")], 96), Reuse::Validate);
        let both = [("cache-control", "x=1"), ("pragma", "no-cache")];
        assert_eq!(of(Rules::Rfc9111, &TERMS, &both, 0), Reuse::Fresh);
    }

    #[test]
    fn who_wants_nothing_from_the_origin_gets_nothing_from_it() {
        for rules in [Rules::Safe, Rules::Rfc9111] {
            assert_eq!(of(rules, &TERMS, &[("cache-control", "only-if-cached")], 0), Reuse::Fresh);
            assert_eq!(of(rules, &TERMS, &[("cache-control", "only-if-cached")], 90), Reuse::Unsatisfied);
        }
    }

    #[test]
    fn after_an_error_it_answers_if_it_says_so() {
        let headers = HeaderMap::new();
        let asked = Asked { method: &Method::GET, headers: &headers, has_cookie: false, has_body: false };
        let may = |terms: &Terms, since| may_after_error(terms, &asked, since);
        let terms = Terms { stale_if_error: Some(20), ..TERMS };
        assert!(may(&terms, 109) && !may(&terms, 110) && !may(&TERMS, 91));
        assert!(!may(&Terms { is_strict: true, ..terms.clone() }, 95));
        let visitor = Asked { has_cookie: true, ..asked };
        assert!(!may_after_error(&terms, &visitor, 95));
    }
}
