//! Compares responses: headers by name, bodies part by part. What varies in classic mode is learnt from its responses, and
//! masked.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::found::{Found, Mask, Text, Visit, around, difference};
use super::parts::{has_clock, parts, tokens};
use super::places;
use super::template::Template;
use super::visitor::{NAMES, Response};

/// Headers of the server and its connection, not of the application.
const OTHERWISE: [&str; 7] =
    ["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-powered-by"];
/// The same list in words.
pub const CLOSED_LIST: &str = "Connection, Content-Length, Date, Keep-Alive, Server, Transfer-Encoding, X-Powered-By, values of Set-Cookie and Max-Age beside its Expires";
/// The value of a header that is absent.
const ABSENT: &str = "(none)";

/// All values by the header's name; of cookies the names and attributes.
fn headers(response: &Response) -> BTreeMap<&str, String> {
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &response.headers {
        if OTHERWISE.contains(&name.as_str()) {
            continue;
        }
        let value = match name.as_str() {
            "set-cookie" => {
                let (pair, attributes) = value.split_once(';').unwrap_or((value, ""));
                // PHP computes Max-Age from Expires, so it is one less if a second ends in between.
                let has_expires = attributes.to_ascii_lowercase().contains("expires=");
                let is_age = |attribute: &&str| attribute.trim_start().to_ascii_lowercase().starts_with("max-age=");
                let kept = attributes.split(';').filter(|attribute| !has_expires || !is_age(attribute));
                format!("{}={}", pair.split('=').next().unwrap_or(""), kept.collect::<Vec<_>>().join(";"))
            }
            _ => value.clone(),
        };
        let values = headers.entry(name).or_default();
        if !values.is_empty() {
            values.push_str(" | ");
        }
        values.push_str(&value);
    }
    headers
}

/// Whether a response shows a time of day. Then two responses of different seconds are needed to see whether the time goes
/// on.
pub fn shows_clock(response: &Response) -> bool {
    has_clock(&response.body) || headers(response).values().any(|value| has_clock(value))
}

/// Compares all responses to the same request.
pub fn compare(visits: &[Visit]) -> Found {
    let mut found = Found::default();
    let codes: Vec<String> = visits.iter().map(|visit| visit.response.status.to_string()).collect();
    study("status", visits, &codes, &mut found);
    let all: Vec<BTreeMap<&str, String>> = visits.iter().map(|visit| headers(&visit.response)).collect();
    let names: BTreeSet<&str> = all.iter().flat_map(|headers| headers.keys().copied()).collect();
    for name in names {
        let of = |headers: &BTreeMap<&str, String>| headers.get(name).map_or_else(|| ABSENT.to_owned(), Clone::clone);
        study(&format!("header {name}"), visits, &all.iter().map(of).collect::<Vec<_>>(), &mut found);
    }
    let bodies: Vec<&str> = visits.iter().map(|visit| visit.response.body.as_str()).collect();
    study("body", visits, &bodies, &mut found);
    share_no_tokens(visits, &mut found);
    // The first difference of a kind is enough.
    let mut kinds = HashSet::new();
    found.differences.retain(|one| kinds.insert((one.visitor, one.what.clone())));
    found.leaks.sort();
    found.leaks.dedup();
    found
}

/// Compares one header, or the body, of all responses.
fn study<T: AsRef<str>>(what: &str, visits: &[Visit], texts: &[T], found: &mut Found) {
    let mut all = Vec::with_capacity(visits.len());
    for (visit, text) in visits.iter().zip(texts) {
        all.push(Text { visit, text: text.as_ref(), parts: parts(text.as_ref()) });
    }
    let texts = all;
    let shapes = [0, 1].map(|visitor| shape(&texts, visitor));
    let of = |visitor: usize| texts.iter().filter(move |text| text.visit.visitor == visitor);
    let fits = |text: &&Text<'_>| shapes[text.visit.visitor] == Some(text.parts.len());
    if shapes[0].is_some() && shapes[0] == shapes[1] {
        places::judge(what, &texts.iter().filter(fits).collect::<Vec<_>>(), found);
    } else {
        for visitor in [0, 1].into_iter().filter(|visitor| shapes[*visitor].is_some()) {
            places::judge(what, &of(visitor).filter(fits).collect::<Vec<_>>(), found);
        }
    }
    for visitor in [0, 1] {
        // Responses of the usual shape have been compared. The others are compared with what all responses of classic mode
        // have in common: a session's token may have another shape.
        let classic: Vec<&Text<'_>> = of(visitor).filter(|text| text.visit.is_classic).collect();
        let own = of(visitor).filter(|text| !text.visit.is_classic);
        let rest: Vec<&Text<'_>> = own.filter(|text| shapes[visitor] != Some(text.parts.len())).collect();
        compare_shapes(what, &classic, &rest, shapes[visitor].is_none(), found);
    }
}

/// The number of parts of the responses in classic mode, if it is the same for all but the first visits.
fn shape(texts: &[Text<'_>], visitor: usize) -> Option<usize> {
    let is_later = |text: &&Text<'_>| text.visit.is_classic && text.visit.visitor == visitor && text.visit.round > 0;
    let mut counts = texts.iter().filter(is_later).map(|text| text.parts.len());
    let first = counts.next()?;
    counts.all(|count| count == first).then_some(first)
}

/// Compares responses in the parts where the responses of classic mode, which have several shapes, agree.
fn compare_shapes(what: &str, classic: &[&Text<'_>], own: &[&Text<'_>], is_all: bool, found: &mut Found) {
    if own.is_empty() && !is_all {
        return;
    }
    let template = Template::of(classic.iter().map(|text| text.parts.clone()));
    found.is_blind |= is_all && what == "body" && template.is_thin();
    for own in own {
        if let Some((text, at)) = template.missing_in(&own.parts) {
            found.differences.push(difference(what, own, around(&text, 0), around(own.text, at)));
        }
    }
    let draws = is_all && fresh_tokens(what, classic, own, found);
    for place in template.gaps() {
        found.masks.push(Mask {
            what: what.to_owned(),
            place: around(&place, place.len()),
            kind: "shape varies",
            seen: (classic.iter().map(|text| text.text).collect::<HashSet<_>>().len(), classic.len()),
            checked: if draws {
                "tokens are not the other visitor's, and not repeated"
            } else {
                "tokens are not the other visitor's"
            },
            is_sure: draws,
        });
    }
}

/// If each response of classic mode has a token that no other response has, each response of the application's mode must
/// have one too. Returns whether classic mode does.
fn fresh_tokens(what: &str, classic: &[&Text<'_>], own: &[&Text<'_>], found: &mut Found) -> bool {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for text in classic.iter().chain(own) {
        tokens(text.text).collect::<HashSet<_>>().into_iter().for_each(|token| *seen.entry(token).or_default() += 1);
    }
    let has_fresh = |text: &&&Text<'_>| tokens(text.text).any(|token| seen.get(token) == Some(&1));
    if !classic.iter().all(|text| has_fresh(&text)) {
        return false;
    }
    // In a few responses a token may not be recognised, because it has characters of other kinds.
    let stale: Vec<&&Text<'_>> = own.iter().filter(|own| !has_fresh(own)).collect();
    let most_are_stale = stale.len() * 2 > own.len();
    if let (true, Some(stands), Some(beside)) = (most_are_stale, stale.first(), classic.first()) {
        let what = format!("{what}, where classic mode draws a token for each request: nothing new");
        let token = |text: &Text<'_>| tokens(text.text).next().map_or_else(String::new, |token| around(token, 0));
        found.differences.push(difference(&what, stands, token(beside), token(stands)));
    }
    true
}

/// Of the tokens that never appear in classic mode none may appear for both visitors, or belong to the other visitor.
fn share_no_tokens(visits: &[Visit], found: &mut Found) {
    let session = |visit: &Visit| (visit.is_classic, visit.visitor, visit.session);
    let all: HashSet<(bool, usize, usize)> = visits.iter().map(session).collect();
    let mut seen: BTreeMap<&str, HashSet<(bool, usize, usize)>> = BTreeMap::new();
    for visit in visits {
        let headers = visit.response.headers.iter().filter(|(name, _)| !OTHERWISE.contains(&name.as_str()));
        for text in headers.map(|(_, value)| value.as_str()).chain([visit.response.body.as_str()]) {
            for token in tokens(text) {
                seen.entry(token).or_default().insert(session(visit));
            }
        }
    }
    let count = |of: &HashSet<(bool, usize, usize)>| of.iter().filter(|(is_classic, ..)| *is_classic).count();
    let has = |of: &HashSet<(bool, usize, usize)>, is_classic: bool, visitor: usize| {
        of.iter().any(|one| (one.0, one.1) == (is_classic, visitor))
    };
    // Tokens from a fixed set, as in a list in random order: two sessions may draw the same.
    let is_stock =
        |of: &&HashSet<(bool, usize, usize)>| has(of, true, 0) && has(of, true, 1) && count(of) < count(&all);
    let has_stock = seen.values().any(|of| is_stock(&of));
    for (token, of) in seen {
        let shown = around(token, 0);
        if !has_stock && count(&of) == 0 && has(&of, false, 0) && has(&of, false, 1) {
            found.leaks.push(format!(
                "{} and {} are both given '{shown}', which classic mode gives nobody",
                NAMES[0], NAMES[1]
            ));
        }
        for visitor in [0, 1] {
            let other = 1 - visitor;
            if !has_stock && has(&of, true, other) && !has(&of, true, visitor) && has(&of, false, visitor) {
                found.leaks.push(format!(
                    "{} is given '{shown}', which is {}'s alone in classic mode",
                    NAMES[visitor], NAMES[other]
                ));
            }
        }
    }
}
