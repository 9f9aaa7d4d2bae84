//! How a response tells what the cache did: Cache-Status (RFC 9211). The same words are in the log and in the metrics.

use std::fmt::Write as _;

/// Why a response was not stored, or a stored one did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Another method than GET, or HEAD of a stored GET.
    Method,
    /// The request has a body.
    Body,
    /// The request says no-store.
    RequestNoStore,
    /// The request has a header that could have made a page for others.
    RequestHeader,
    /// The status, or a part of a response.
    Status,
    /// The response says no-store.
    NoStore,
    /// The response says private.
    Private,
    /// The response sets a cookie.
    SetCookie,
    /// The request has a password, and the response is not public.
    Authorization,
    /// The request has a cookie, and the response is not public.
    Cookie,
    /// Vary cannot be matched.
    Vary,
    /// The response does not say that shared caches may keep it.
    NoFreshness,
    /// Its tags cannot be understood.
    Tags,
    /// Cache-Control cannot be understood.
    Malformed,
    /// It is larger than what is stored.
    Size,
    /// Its body is not as long as its head says.
    Length,
    /// It is stale already, and cannot be validated.
    Stale,
}

impl Why {
    /// All, with the word and the text of each.
    pub const ALL: [(Why, &str, &str); 17] = [
        (Why::Method, "method", "another method than GET, or HEAD of a stored GET"),
        (Why::Body, "request-body", "the request has a body"),
        (Why::RequestNoStore, "request-no-store", "the request says no-store"),
        (
            Why::RequestHeader,
            "request-header",
            "the request has a header that applications take the scheme, the host or the like from, and that is not part of the key",
        ),
        (Why::Status, "status", "the status is not one that is stored, or the response is a part"),
        (Why::NoStore, "no-store", "the response says no-store"),
        (Why::Private, "private", "the response says private"),
        (Why::SetCookie, "set-cookie", "the response sets a cookie"),
        (Why::Authorization, "authorization", "the request has Authorization, and the response does not say public"),
        (Why::Cookie, "cookie", "the request has a cookie, and the response does not say public"),
        (Why::Vary, "vary", "Vary is *, malformed, or names too many headers"),
        (Why::NoFreshness, "no-freshness", "the response does not say for how long shared caches may keep it"),
        (Why::Tags, "tags", "the response has more than 1,000 tags, or they cannot be read"),
        (Why::Malformed, "malformed", "Cache-Control cannot be understood"),
        (Why::Size, "size", "the response is larger than `cache_object`"),
        (Why::Length, "length", "the body is not as long as Content-Length says"),
        (Why::Stale, "stale", "the response is stale when it comes, and has neither ETag nor Last-Modified"),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Why::ALL.iter().find(|(why, ..)| *why == self).map_or("", |(_, word, _)| word)
    }
}

/// Why a request went on to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was passed by.
    Bypass,
    /// The method asks for it.
    Method,
    /// Nothing is stored for the URL.
    UriMiss,
    /// Nothing that is stored for the URL is for such a request.
    VaryMiss,
    /// What is stored is stale.
    Stale,
    /// The request asked for something newer.
    Request,
}

impl Forward {
    /// Its word in RFC 9211.
    pub const fn word(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
        }
    }
}

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// A stored response answered; the seconds that it is still fresh, below zero if it is stale.
    Hit(i64),
    /// The origin was asked.
    Forwarded {
        /// Why.
        why: Forward,
        /// Status of the origin's response, if it is not the one that is sent.
        status: Option<u16>,
        /// Whether its response was stored.
        is_stored: bool,
        /// Whether another request asked, and this one waited for it.
        is_collapsed: bool,
        /// Why the response was not stored, or the cache was passed by.
        detail: Option<Why>,
    },
}

/// What the cache did, in a word: for the log and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// A fresh response was there.
    Hit,
    /// A stale one was sent.
    Stale,
    /// Another request had asked for it already.
    Collapsed,
    /// The origin made it, and it was stored.
    Stored,
    /// The origin made it.
    Miss,
    /// The cache was passed by.
    Bypass,
}

impl Result {
    /// All, with the word and the text of each.
    pub const ALL: [(Result, &str, &str); 6] = [
        (Result::Hit, "hit", "a stored response was sent"),
        (Result::Stale, "stale", "a stale one was sent, and is renewed or could not be"),
        (Result::Collapsed, "collapsed", "the response that another request had asked for was sent"),
        (Result::Stored, "stored", "the response was made, and stored"),
        (Result::Miss, "miss", "the response was made, and not stored"),
        (Result::Bypass, "bypass", "there is a stored response, but not for such a request"),
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        Result::ALL[self as usize].1
    }
}

impl Did {
    /// In a word.
    pub const fn result(&self) -> Result {
        match self {
            Did::Hit(ttl) if *ttl > 0 => Result::Hit,
            Did::Hit(_) => Result::Stale,
            Did::Forwarded { is_collapsed: true, .. } => Result::Collapsed,
            Did::Forwarded { why: Forward::Bypass, .. } => Result::Bypass,
            Did::Forwarded { is_stored: true, .. } => Result::Stored,
            Did::Forwarded { .. } => Result::Miss,
        }
    }

    /// Why the response was not stored, or the stored one not sent.
    pub const fn detail(&self) -> Option<Why> {
        match self {
            Did::Hit(_) => None,
            Did::Forwarded { detail, .. } => *detail,
        }
    }
}

/// The member of Cache-Status for this cache.
pub fn text(did: &Did) -> String {
    let mut text = "Reprise".to_owned();
    match *did {
        Did::Hit(ttl) => {
            let _ = write!(text, "; hit; ttl={ttl}");
        }
        Did::Forwarded { why, status, is_stored, is_collapsed, detail } => {
            let _ = write!(text, "; fwd={}", why.word());
            if let Some(status) = status {
                let _ = write!(text, "; fwd-status={status}");
            }
            for (is_so, word) in [(is_stored, "; stored"), (is_collapsed, "; collapsed")] {
                text.push_str(if is_so { word } else { "" });
            }
            if let Some(detail) = detail {
                let _ = write!(text, "; detail={}", detail.word());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use sfv::{List, Parser};

    use super::*;

    #[test]
    fn each_reason_has_a_word_of_its_own() {
        let words: HashSet<&str> = Why::ALL.iter().map(|(why, ..)| why.word()).collect();
        assert!(words.len() == Why::ALL.len() && !words.contains(""));
    }

    #[test]
    fn results_are_rows_of_their_table() {
        assert!(Result::ALL.iter().enumerate().all(|(number, (result, ..))| *result as usize == number));
    }

    #[test]
    fn it_is_a_structured_field() {
        let forwarded = |detail| Did::Forwarded {
            why: Forward::UriMiss,
            status: Some(304),
            is_stored: true,
            is_collapsed: true,
            detail,
        };
        for (did, meant) in [
            (Did::Hit(-5), "Reprise; hit; ttl=-5"),
            (forwarded(None), "Reprise; fwd=uri-miss; fwd-status=304; stored; collapsed"),
            (
                forwarded(Some(Why::SetCookie)),
                "Reprise; fwd=uri-miss; fwd-status=304; stored; collapsed; detail=set-cookie",
            ),
        ] {
            assert_eq!(text(&did), meant);
            assert!(Parser::new(meant).parse::<List>().is_ok());
        }
    }
}
