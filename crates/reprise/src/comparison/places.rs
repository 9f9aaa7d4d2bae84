//! Compares responses of one shape part by part. What a part is in classic mode decides what it has to be in the
//! application's mode:
//!
//! | in classic mode a part | in the application's mode it must |
//! |---|---|
//! | is the same in all sessions of a visitor at the same visit | be the same |
//! | belongs to the session | stay within the session, and be no other session's |
//! | is a time | lie between the times in the responses of classic mode before and after |
//! | is drawn for each request, from many values | not be repeated |
//! | is drawn from few values, or counts memory | – : reported as unsure |

use std::collections::{BTreeMap, HashSet};

use super::found::{Found, Mask, Text, difference};
use super::parts::{are_of_many, is_of_clock, is_token, looks_like_duration, looks_like_memory, number, unix_time};
use super::visitor::{NAMES, PADDING};

/// A session: mode, visitor, number.
type Session = (bool, usize, usize);

fn session(text: &Text<'_>) -> Session {
    (text.visit.is_classic, text.visit.visitor, text.visit.session)
}

/// One part in all responses.
struct Place<'a> {
    what: &'a str,
    number: usize,
    rows: &'a [&'a Text<'a>],
}

/// Compares responses that have the same number of parts, of one visitor or of both.
pub fn judge(what: &str, rows: &[&Text<'_>], found: &mut Found) {
    let count = rows.first().map_or(0, |row| row.parts.len());
    // One difference of a response is enough: later ones may be consequences.
    let mut differing = HashSet::new();
    let mut compared = 0;
    for number in 0..count {
        if rows.iter().all(|row| row.parts[number] == rows[0].parts[number]) {
            compared += 1;
            continue;
        }
        let place = Place { what, number, rows };
        if place.is_steady() {
            compared += 1;
            place.compare(&mut differing, found);
        } else if place.belongs_to_sessions() && !place.is_duration() {
            place.compare_sessions(found);
        } else {
            place.compare_requests(found);
        }
    }
    found.is_blind |= what == "body" && count > 0 && compared == 0;
}

impl<'a> Place<'a> {
    fn value(&self, row: &Text<'a>) -> &'a str {
        row.parts[self.number]
    }

    fn of(&self, is_classic: bool) -> impl Iterator<Item = &'a Text<'a>> + use<'a> {
        self.rows.iter().copied().filter(move |row| row.visit.is_classic == is_classic)
    }

    fn values(&self, is_classic: bool) -> Vec<&'a str> {
        self.of(is_classic).map(|row| self.value(row)).collect()
    }

    /// The responses of classic mode to the same visitor at the same visit.
    fn beside(&self, own: &Text<'a>) -> Vec<&'a Text<'a>> {
        let (visitor, round) = (own.visit.visitor, own.visit.round);
        self.of(true).filter(|row| (row.visit.visitor, row.visit.round) == (visitor, round)).collect()
    }

    /// Whether all sessions of a visitor agree, at each visit.
    fn is_steady(&self) -> bool {
        let mut known: BTreeMap<(usize, usize), &str> = BTreeMap::new();
        self.of(true)
            .all(|row| *known.entry((row.visit.visitor, row.visit.round)).or_insert(self.value(row)) == self.value(row))
    }

    /// Whether a session has one value, at least from its second visit on.
    fn belongs_to_sessions(&self) -> bool {
        let has_many_rounds = self.rows.iter().any(|row| row.visit.round > 1);
        let mut known: BTreeMap<Session, &str> = BTreeMap::new();
        let is_later = |row: &&Text<'_>| !has_many_rounds || row.visit.round > 0;
        self.of(true)
            .filter(is_later)
            .all(|row| *known.entry(session(row)).or_insert(self.value(row)) == self.value(row))
    }

    /// A duration: on a quiet machine it may often be the same, also within a session.
    fn is_duration(&self) -> bool {
        self.rows.iter().all(|row| looks_like_duration(&row.parts, self.number))
    }

    fn mask(&self, kind: &'static str, checked: &'static str, is_sure: bool, found: &mut Found) {
        let values = self.values(true);
        found.masks.push(Mask {
            what: self.what.to_owned(),
            place: self.rows.first().map_or_else(String::new, |row| row.around(self.number)),
            kind,
            seen: (values.iter().collect::<HashSet<_>>().len(), values.len()),
            checked,
            is_sure,
        });
    }

    /// A number that depends on the size of the request: the last visits of each round have a longer head.
    fn follows_memory(&self) -> bool {
        let mut rises = self.of(true).filter(|row| row.visit.is_padded).filter_map(|row| {
            let before =
                self.of(true).find(|one| session(one) == session(row) && one.visit.round + 1 == row.visit.round)?;
            Some(number(self.value(row))? - number(self.value(before))?)
        });
        let first = rises.next().is_some_and(|rise| rise * 2.0 >= PADDING as f64);
        first && rises.all(|rise| rise * 2.0 >= PADDING as f64)
    }

    /// Parts that do not vary in classic mode.
    fn compare(&self, differing: &mut HashSet<(Session, usize)>, found: &mut Found) {
        let wrong: Vec<(&Text<'_>, &Text<'_>)> = self
            .of(false)
            .filter_map(|own| Some((own, *self.beside(own).first()?)))
            .filter(|(own, beside)| self.value(own) != self.value(beside))
            .collect();
        if wrong.is_empty() {
            return;
        }
        let is_of_base64 = |row: &&Text<'_>| self.value(row).chars().all(|letter| "+/=".contains(letter));
        if self.rows.iter().all(is_of_base64) {
            return self.mask("token", "nothing: a mark within a token of base64", false, found);
        }
        if self.follows_memory() {
            return self.mask("memory", "the number grows with the request's head in classic mode", true, found);
        }
        if self.rows.iter().all(|row| looks_like_memory(&row.parts, self.number)) {
            return self.mask(
                "memory",
                "nothing: a figure with a unit of memory, which classic mode does not vary",
                false,
                found,
            );
        }
        if self.is_duration() {
            return self.mask("duration", "nothing: a duration, which classic mode does not vary", false, found);
        }
        for (own, beside) in wrong {
            if differing.insert((session(own), own.visit.round)) {
                found.differences.push(difference(self.what, own, beside.around(self.number), own.around(self.number)));
            }
        }
    }

    /// Parts that belong to one session.
    fn compare_sessions(&self, found: &mut Found) {
        let mut of: BTreeMap<Session, HashSet<&str>> = BTreeMap::new();
        let mut later: BTreeMap<Session, HashSet<&str>> = BTreeMap::new();
        for row in self.rows {
            of.entry(session(row)).or_default().insert(self.value(row));
            if row.visit.round > 0 {
                later.entry(session(row)).or_default().insert(self.value(row));
            }
        }
        let meets = |a: &Session, b: &Session| of[a].intersection(&of[b]).next().copied();
        let pairs = || of.keys().flat_map(|a| of.keys().filter(move |b| a < b).map(move |b| (a, b)));
        let is_distinct = !pairs().any(|(a, b)| a.0 && b.0 && meets(a, b).is_some());
        let is_token = self.values(true).into_iter().all(is_token);
        let is_sure = is_distinct && is_token;
        let what = "no session is given another's";
        let what = if is_sure { what } else { "nothing but that a session keeps it: too short, or sessions share it" };
        self.mask("session", what, is_sure, found);
        if let Some(own) = self.of(false).find(|row| later.get(&session(row)).is_some_and(|values| values.len() > 1)) {
            let what = format!("{}, where classic mode gives a session one value: another for each request", self.what);
            let beside = self.beside(own).first().map_or_else(String::new, |row| row.around(self.number));
            found.differences.push(difference(&what, own, beside, own.around(self.number)));
        }
        if !is_sure {
            return;
        }
        for (a, b) in pairs().filter(|(a, b)| !(a.0 && b.0)) {
            let Some(value) = meets(a, b) else { continue };
            let whose = if a.1 == b.1 {
                format!("two sessions of {}", NAMES[a.1])
            } else {
                format!("{} and {}", NAMES[0], NAMES[1])
            };
            found
                .leaks
                .push(format!("{whose} are given the same '{value}', which classic mode gives one session alone"));
        }
    }

    /// Parts that are new for each request.
    fn compare_requests(&self, found: &mut Found) {
        let (classic, own) = (self.values(true), self.values(false));
        let clock = |row: &&Text<'_>| {
            let near = |at: usize| row.parts.get(at).copied().unwrap_or("");
            is_of_clock(self.value(row), near(self.number.wrapping_sub(1)), near(self.number + 1))
        };
        if classic.iter().all(|value| unix_time(value).is_some()) {
            self.mask("time", "the time goes on as in classic mode", true, found);
            return self.goes_on(unix_time, None, found);
        }
        if self.of(true).all(|row| clock(&row)) {
            self.mask("clock", "the time goes on as in classic mode", true, found);
            return self.goes_on(|value| value.parse().ok(), Some(60.0), found);
        }
        let is_distinct = classic.iter().collect::<HashSet<_>>().len() == classic.len();
        if is_distinct && are_of_many(&classic) {
            self.mask("drawn", "none is repeated", true, found);
            return self.repeats(found);
        }
        let is_memory = self.rows.iter().all(|row| looks_like_memory(&row.parts, self.number)) || self.follows_memory();
        let stands = own.windows(2).all(|two| two[0] == two[1]);
        let checked = if stands {
            "nothing: drawn of few; in the own mode it is always the same"
        } else {
            "nothing: drawn of few"
        };
        self.mask(if is_memory { "memory" } else { "drawn of few" }, checked, false, found);
    }

    /// Each time lies between those of classic mode before and after it. A field of a clock may begin again in between.
    fn goes_on(&self, time: fn(&str) -> Option<f64>, turn: Option<f64>, found: &mut Found) {
        for own in self.of(false) {
            let beside = self.beside(own);
            let times: Vec<f64> = beside.iter().filter_map(|row| time(self.value(row))).collect();
            let (Some(from), Some(to)) = (times.first(), times.last()) else { continue };
            let is_between = time(self.value(own)).is_some_and(|now| match turn {
                None => (*from..=*to).contains(&now),
                Some(turn) => (now - from).rem_euclid(turn) <= (to - from).rem_euclid(turn),
            });
            if !is_between {
                let what = format!("{}, a time that does not go on", self.what);
                let beside = beside.first().map_or_else(String::new, |row| row.around(self.number));
                found.differences.push(difference(&what, own, beside, own.around(self.number)));
            }
        }
    }

    /// No value is drawn twice.
    fn repeats(&self, found: &mut Found) {
        let mut first: BTreeMap<&str, &Text<'_>> = self.of(true).map(|row| (self.value(row), row)).collect();
        for own in self.of(false) {
            let value = self.value(own);
            let Some(before) = first.insert(value, own) else { continue };
            if before.visit.visitor == own.visit.visitor {
                let what = format!("{}, where classic mode draws a value for each request: drawn once", self.what);
                found.differences.push(difference(&what, own, before.around(self.number), own.around(self.number)));
            } else {
                found.leaks.push(format!(
                    "{} and {} are given the same '{value}', which classic mode draws for each request",
                    NAMES[0], NAMES[1]
                ));
            }
        }
    }
}
