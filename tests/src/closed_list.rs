//! What may differ between two servers' answers to the same request, and nothing else: each entry has a name, is used where
//! it fits, and every use is counted.

use std::collections::BTreeMap;

use crate::Response;

/// A header that is the server's or its connection's, not the application's. Bodies are compared whole, so their length is too.
pub const HEADERS: [&str; 5] = ["connection", "content-length", "date", "server", "transfer-encoding"];

/// Those of them that both send, equally often.
const BOTH: [&str; 2] = ["date", "server"];

/// What Reprise's cache has done, which it says to pages for shared caches alone.
const CACHE_STATUS: &str = "cache-status";

/// Drawn, or counted from the moment of the answer: values of ten bytes and more, times in the future.
pub const COOKIES: &str = "values of Set-Cookie";

/// Expires, where it names the day of the answer: an application that says so says "now".
pub const EXPIRES: Pattern = Pattern {
    name: "header expires that is the time of the answer",
    before: &[],
    of: decimal,
    length: (0, 0),
    after: "",
};

/// A part of a body, or of a header's value, that is drawn anew for each visitor, visit or installation.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// What it is.
    pub name: &'static str,
    /// One of these stands before it.
    pub before: &'static [&'static str],
    /// What it is made of.
    pub of: fn(char) -> bool,
    /// At least and at most so many; anything else is compared as it is.
    pub length: (usize, usize),
    /// What stands behind it, where that is needed to know it.
    pub after: &'static str,
}

/// Hexadecimal, in lower case.
pub fn hexadecimal(c: char) -> bool {
    c.is_ascii_digit() || ('a'..='f').contains(&c)
}

/// Letters, digits and what base64 and its kin use.
pub fn base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=_.-".contains(c)
}

/// Digits.
pub fn decimal(c: char) -> bool {
    c.is_ascii_digit()
}

impl Pattern {
    /// How many bytes at the beginning of `text` are such a value.
    fn measure(&self, text: &str) -> Option<usize> {
        let length = text.find(|c| !(self.of)(c)).unwrap_or(text.len());
        ((self.length.0..=self.length.1).contains(&length) && text[length..].starts_with(self.after)).then_some(length)
    }
}

/// The entries that apply, and how often each was used.
pub struct ClosedList {
    patterns: Vec<Pattern>,
    used: BTreeMap<String, usize>,
}

impl ClosedList {
    /// The common headers, cookies, and an application's own patterns.
    pub fn new(patterns: &[&[Pattern]]) -> ClosedList {
        let patterns = patterns.concat();
        let names = HEADERS.iter().map(|name| format!("header {name}"));
        let names = names.chain([COOKIES.to_owned()]).chain(patterns.iter().map(|pattern| pattern.name.to_owned()));
        ClosedList { used: names.map(|name| (name, 0)).collect(), patterns }
    }

    /// Entries that apply from here on.
    pub fn add(&mut self, patterns: &[Pattern]) {
        self.used.extend(patterns.iter().map(|pattern| (pattern.name.to_owned(), 0)));
        self.patterns.extend(patterns);
    }

    /// Counts a use; the entry has to be on the list.
    fn count(&mut self, name: &str) {
        *self.used.get_mut(name).unwrap_or_else(|| panic!("{name} is not on the list")) += 1;
    }

    /// A body without what may differ.
    pub fn body(&mut self, body: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(body) {
            Ok(text) => self.text(text).into_bytes(),
            Err(_) => body.to_vec(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for pattern in self.patterns.clone() {
            for before in pattern.before {
                let mut whole = String::with_capacity(text.len());
                let mut rest = text.as_str();
                while let Some(at) = rest.find(before) {
                    let (known, behind) = rest.split_at(at + before.len());
                    whole.push_str(known);
                    rest = behind;
                    if let Some(length) = pattern.measure(rest) {
                        whole.push_str(&format!("<{}>", pattern.name));
                        rest = &rest[length..];
                        self.count(pattern.name);
                    }
                }
                whole.push_str(rest);
                text = whole;
            }
        }
        text
    }

    fn is_now(&self, value: &str, answer: &Response) -> bool {
        const DAY: usize = "Sun, 06 Nov 1994".len();
        self.used.contains_key(EXPIRES.name)
            && answer.header("date").is_some_and(|now| now.get(..DAY) == value.get(..DAY))
    }

    /// The application's headers. Their order has no meaning but among those of one name (RFC 9110 §5.3), and is theirs: nginx puts
    /// some first.
    pub fn headers(&mut self, answer: &Response) -> Vec<String> {
        let mut headers: Vec<(&str, String)> = Vec::new();
        let is_public = answer.header("cache-control").is_some_and(|text| text.contains("public"));
        for (name, value) in &answer.headers {
            if HEADERS.contains(&name.as_str()) {
                self.count(&format!("header {name}"));
                if BOTH.contains(&name.as_str()) {
                    headers.push((name, format!("{name}: <{name}>")));
                }
            } else if name == CACHE_STATUS && is_public {
                *self.used.entry(format!("header {name} of a page for shared caches")).or_default() += 1;
            } else if name == "set-cookie" {
                headers.push((name, format!("{name}: {}", self.cookie(value))));
            } else if name == "expires" && self.is_now(value, answer) {
                self.count(EXPIRES.name);
                headers.push((name, format!("{name}: <now>")));
            } else {
                headers.push((name, self.text(&format!("{name}: {value}"))));
            }
        }
        headers.sort_by_key(|(name, _)| *name);
        headers.into_iter().map(|(_, line)| line).collect()
    }

    fn cookie(&mut self, cookie: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (number, part) in cookie.split("; ").enumerate() {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let kind = if number == 0 { "" } else { &name.to_ascii_lowercase() };
            let differs = match kind {
                "" => value.len() >= 10,
                // 0 takes the cookie away, and so does 1970.
                "max-age" => value != "0",
                "expires" => !value.contains("1970"),
                _ => false,
            };
            if differs {
                self.count(COOKIES);
            }
            parts.push(if differs { format!("{name}=<{COOKIES}>") } else { part.to_owned() });
        }
        parts.join("; ")
    }

    /// Prints the list with its uses; panics if an entry was of no use.
    pub fn report(&self, name: &str) {
        let rows = self.used.iter().map(|(entry, count)| format!("  {count:>6}  {entry}\n"));
        println!("{name}: what was left out of the comparison, both sides together:\n{}", rows.collect::<String>());
        let idle: Vec<&str> = self.used.iter().filter(|(_, count)| **count == 0).map(|(entry, _)| &**entry).collect();
        assert!(idle.is_empty(), "{name}: never used, so they do not belong on the list: {idle:?}");
    }
}

/// Where two texts differ first, line by line.
pub fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let (ours, theirs) = (String::from_utf8_lossy(ours), String::from_utf8_lossy(theirs));
    let (a, b): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let line = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let at = |lines: &[&str]| lines.get(line).map_or(String::new(), |text| (*text).to_owned());
    let (left, right) = (at(&a), at(&b));
    let column = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    let near = |text: &str| text.chars().skip(column.saturating_sub(120)).take(400).collect::<String>();
    let context = a[line.saturating_sub(2)..line.min(a.len())].iter().map(|text| format!("  {}\n", near(text)));
    format!(
        "line {} column {column} ({} and {} lines, {} and {} bytes)\n{}- Reprise: {}\n+ PHP-FPM: {}",
        line + 1,
        a.len(),
        b.len(),
        ours.len(),
        theirs.len(),
        context.collect::<String>(),
        near(&left),
        near(&right)
    )
}
