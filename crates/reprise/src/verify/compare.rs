//! Two answers compared: headers by name, bodies part by part.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use super::template::Template;
use super::visitor::Answer;

/// Headers of the server and its connection, not of the application.
const OTHERWISE: [&str; 7] =
    ["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-powered-by"];
/// In words.
pub const CLOSED_LIST: &str = "Connection, Content-Length, Date, Keep-Alive, Server, Transfer-Encoding, X-Powered-By, values of Set-Cookie, Unix times of today";
/// Letters shown around a difference.
const AROUND: usize = 60;

/// One difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whose answer.
    pub visitor: &'static str,
    /// Status, a header or the body.
    pub what: String,
    /// In classic mode.
    pub classic: String,
    /// In the application's mode.
    pub own: String,
}

/// What the bodies of classic mode have in common.
enum Common {
    /// All have as many parts: which of them were drawn anew.
    Parts(Vec<bool>),
    /// What stands in all of them, in order.
    Template(Template),
}

/// What all answers of classic mode to the same request have in common.
pub struct Normal {
    body: Common,
    /// Headers whose values differ.
    headers: Vec<String>,
}

/// Whether a letter is one of a word, or of a nonce.
pub fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_-".contains(letter)
}

/// Words and what stands between them, so that a nonce is one part, and so is a number with its fraction: a time may have none.
pub fn parts(body: &str) -> Vec<&str> {
    let bytes = body.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let is_point = |at: usize| bytes[at] == b'.' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    let is_word = |at: usize, letter: char| is_of_word(letter) || is_point(at);
    let mut parts = Vec::new();
    let mut from = 0;
    let mut last = None;
    for (at, letter) in body.char_indices() {
        let kind = is_word(at, letter);
        if last.is_some_and(|last| last != kind) {
            parts.push(&body[from..at]);
            from = at;
        }
        last = Some(kind);
    }
    if from < body.len() {
        parts.push(&body[from..]);
    }
    parts
}

/// Whether it is a Unix time of about today, to the second or finer: two answers of one second may be told apart by the next from a third.
pub fn is_now(part: &str) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    part.split('.').next().is_some_and(|whole| whole.parse::<u64>().is_ok_and(|time| time.abs_diff(now) < 86400))
}

/// By name, all values; of cookies the names and attributes.
fn headers(answer: &Answer) -> BTreeMap<&str, Vec<String>> {
    let mut headers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in &answer.headers {
        if OTHERWISE.contains(&name.as_str()) {
            continue;
        }
        let value = match name.as_str() {
            "set-cookie" => {
                let (pair, attributes) = value.split_once(';').unwrap_or((value, ""));
                format!("{}={}", pair.split('=').next().unwrap_or(""), attributes)
            }
            _ => value.clone(),
        };
        headers.entry(name).or_default().push(value);
    }
    headers
}

impl Normal {
    /// Of answers of classic mode; the more there are, the fewer of the parts drawn anew happen to be the same.
    pub fn of(answers: &[Answer]) -> Normal {
        let Some((first, others)) = answers.split_first() else {
            return Normal { body: Common::Parts(Vec::new()), headers: Vec::new() };
        };
        let (first_parts, first_headers) = (parts(&first.body), headers(first));
        let mut volatile = Some(vec![false; first_parts.len()]);
        let mut differing = Vec::new();
        for other in others {
            let (other_parts, other_headers) = (parts(&other.body), headers(other));
            volatile = volatile.filter(|known| known.len() == other_parts.len());
            for (number, known) in volatile.iter_mut().flatten().enumerate() {
                *known |= first_parts[number] != other_parts[number];
            }
            for (name, values) in &first_headers {
                if other_headers.get(name) != Some(values) {
                    differing.push((*name).to_owned());
                }
            }
        }
        differing.sort();
        differing.dedup();
        let template = || Common::Template(Template::of(answers.iter().map(|answer| parts(&answer.body))));
        Normal { body: volatile.map_or_else(template, Common::Parts), headers: differing }
    }

    /// Parts that are left out.
    pub fn volatile(&self) -> usize {
        let of_body = match &self.body {
            Common::Parts(volatile) => volatile.iter().filter(|volatile| **volatile).count(),
            Common::Template(template) => template.gaps(),
        };
        of_body + self.headers.len()
    }

    /// Whether next to nothing of the body is compared: no two of classic mode have enough in common.
    pub fn is_blind(&self) -> bool {
        match &self.body {
            Common::Parts(volatile) => !volatile.is_empty() && volatile.iter().all(|volatile| *volatile),
            Common::Template(template) => template.is_thin(),
        }
    }

    /// Where an answer of the application's mode differs from one of classic mode.
    pub fn compare(&self, visitor: &'static str, classic: &Answer, own: &Answer) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut add = |what: String, classic: String, own: String| {
            found.push(Difference { visitor, what, classic, own });
        };
        if classic.status != own.status {
            add("status".to_owned(), classic.status.to_string(), own.status.to_string());
        }
        let (a, b) = (headers(classic), headers(own));
        for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
            if a.get(name) != b.get(name) && !self.headers.iter().any(|volatile| volatile == name) {
                let show =
                    |values: Option<&Vec<String>>| values.map_or("(none)".to_owned(), |values| values.join(" | "));
                add(format!("header {name}"), show(a.get(name)), show(b.get(name)));
            }
        }
        let (a, b) = (parts(&classic.body), parts(&own.body));
        match &self.body {
            Common::Parts(volatile) if a.len() == b.len() => {
                let mut at = 0;
                for ((a_part, b_part), volatile) in a.iter().zip(&b).zip(volatile) {
                    if a_part != b_part && !volatile && !(is_now(a_part) && is_now(b_part)) {
                        add("body".to_owned(), around(&classic.body, at), around(&own.body, at));
                        break;
                    }
                    at += a_part.len();
                }
            }
            Common::Parts(_) => {
                let alike = |a: &str, b: &str| a == b || (is_now(a) && is_now(b));
                let at = a.iter().zip(&b).take_while(|(a, b)| alike(a, b)).map(|(a, _)| a.len()).sum();
                add("body".to_owned(), around(&classic.body, at), around(&own.body, at));
            }
            Common::Template(template) => {
                if let Some((text, at)) = template.missing_in(&b) {
                    add("body".to_owned(), around(&text, 0), around(&own.body, at));
                }
            }
        }
        found
    }
}

/// The letters around a place, on one line.
fn around(body: &str, at: usize) -> String {
    let mut from = at.saturating_sub(AROUND).min(body.len());
    while !body.is_char_boundary(from) {
        from -= 1;
    }
    body[from..].chars().take(2 * AROUND).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str, headers: &[(&str, &str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Answer { status: 200, headers, body: body.to_owned(), mode: None }
    }

    #[test]
    fn what_classic_mode_draws_anew_is_left_out() {
        let (one, two) = (answer("a nonce=n12 b", &[("date", "1")]), answer("a nonce=n34 b", &[("date", "2")]));
        let normal = Normal::of(&[one, two]);
        let one = answer("a nonce=n12 b", &[]);
        assert_eq!(normal.volatile(), 1);
        assert!(normal.compare("anna", &one, &answer("a nonce=n56 b", &[])).is_empty());
        let found = normal.compare("anna", &one, &answer("a nonce=n56 c", &[]));
        assert_eq!((found.len(), found[0].what.as_str()), (1, "body"));
        assert_eq!(normal.compare("anna", &one, &answer("a nonce=n56 b more", &[])).len(), 1);
    }

    /// A nonce with characters of several kinds, a list of any length: what stands around them is compared all the same.
    #[test]
    fn bodies_of_several_shapes_are_compared_where_they_agree() {
        let page = |nonce: &str, list: &str, end: &str| {
            answer(&format!("<html><p nonce='{nonce}'>you are a guest</p>{list}<footer>the end{end}</footer>"), &[])
        };
        let normal = Normal::of(&[
            page("ab+cd/e=", "<li>1</li>", ""),
            page("xyz0123=", "", ""),
            page("q/w+r+t=", "<li>3</li><li>4</li>", ""),
        ]);
        assert!(!normal.is_blind() && normal.volatile() > 0);
        let one = page("ab+cd/e=", "<li>1</li>", "");
        assert!(normal.compare("anna", &one, &page("m/n/o/p=", "<li>9</li>", "")).is_empty());
        for wrong in [
            answer(&page("m/n/o=", "", "").body.replace("a guest", "anna"), &[]),
            page("m/n/o=", "", " of anna"),
            answer("", &[]),
        ] {
            let found = normal.compare("anna", &one, &wrong);
            assert_eq!((found.len(), found[0].what.as_str()), (1, "body"), "{}", wrong.body);
        }
        assert!(Normal::of(&[answer("a", &[]), answer("b.c.d", &[])]).is_blind());
        assert!(Normal::of(&[answer("a", &[]), answer("b", &[])]).is_blind());
    }

    /// microtime(true) has a fraction but once in ten thousand times.
    #[test]
    fn a_time_is_one_part_with_and_without_a_fraction() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let page = |time: &str| answer(&format!("at {now}{time}. v8.2 {{x}}"), &[]);
        let normal = Normal::of(&[page(".6431"), page(".1")]);
        assert_eq!(normal.volatile(), 1);
        assert!(normal.compare("anna", &page(".25"), &page("")).is_empty());
        let fresh = Normal::of(&[page(".5")]);
        assert!(fresh.compare("anna", &page(".25"), &page("")).is_empty());
        assert_eq!(fresh.compare("anna", &page(""), &answer(&format!("at {now}. v8.3 {{x}}"), &[])).len(), 1);
    }

    #[test]
    fn headers_are_compared_but_for_the_closed_list() {
        let one = answer("", &[("set-cookie", "s=1; path=/"), ("x-a", "1"), ("server", "a")]);
        let normal = Normal::of(&[answer("", &[("set-cookie", "s=1; path=/"), ("x-a", "1"), ("server", "b")])]);
        assert!(normal.compare("anna", &one, &answer("", &[("set-cookie", "s=2; path=/"), ("x-a", "1")])).is_empty());
        assert_eq!(normal.compare("anna", &one, &answer("", &[("set-cookie", "s=2; path=/x"), ("x-a", "1")])).len(), 1);
        assert_eq!(normal.compare("anna", &one, &answer("", &[("set-cookie", "s=2; path=/"), ("x-b", "1")])).len(), 2);
    }
}
