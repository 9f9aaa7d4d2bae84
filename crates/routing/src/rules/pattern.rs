//! Regular expressions over bytes, with a limit of steps for each match and a budget for each request; and texts into which
//! what they captured is put.

use std::cell::Cell;

use fancy_regex::{BytesMode, Regex, RegexBuilder};

use crate::target::decode;

/// Steps back that one match may take.
const MAX_STEPS: usize = 10_000;
/// Bytes of memory of one compiled pattern.
const MAX_SIZE: usize = 1 << 20;
/// Bytes that the patterns of one request may look at together; a pattern that can go back counts more.
const BUDGET: usize = 4 << 20;
/// How much more.
const BACKTRACKS: usize = 16;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    text: String,
    cost: usize,
}

/// A pattern needed more steps than it may take, or the patterns of a request were too many for its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// What the patterns of one request may still cost.
#[derive(Debug)]
pub struct Budget(Cell<usize>);

impl Budget {
    /// For a request that begins.
    pub const fn new() -> Budget {
        Budget(Cell::new(BUDGET))
    }

    fn spend(&self, cost: usize) -> Result<(), Exhausted> {
        self.0.set(self.0.get().checked_sub(cost).ok_or(Exhausted)?);
        Ok(())
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

/// Parts of a text by the number of their group; the first is the whole match.
pub type Captures = Vec<Option<Vec<u8>>>;

impl Pattern {
    /// Compiles a pattern. Bytes are ASCII or not: `.` is any byte but the end of a line, which no path has.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let mut builder = RegexBuilder::new(text);
        builder.bytes_mode(BytesMode::Ascii).backtrack_limit(MAX_STEPS);
        builder.delegate_size_limit(MAX_SIZE).delegate_dfa_size_limit(MAX_SIZE).max_prog_size(MAX_SIZE / 64);
        let regex = builder.build().map_err(|error| error.to_string())?;
        // Whatever the plain engine cannot do may go back.
        let goes_back = ["(?=", "(?!", "(?<", "(?>", "\\"].iter().any(|sign| text.contains(sign));
        Ok(Pattern { regex, text: text.to_owned(), cost: if goes_back { BACKTRACKS } else { 1 } })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Groups, the whole match included.
    pub fn groups(&self) -> usize {
        self.regex.captures_len()
    }

    /// The number of a named group.
    pub fn group(&self, name: &str) -> Option<usize> {
        self.regex.capture_names().position(|known| known == Some(name))
    }

    /// Whether it is found in a text.
    pub fn is_in(&self, text: &[u8], budget: &Budget) -> Result<bool, Exhausted> {
        budget.spend((text.len() + 1) * self.cost)?;
        self.regex.is_match(text).map_err(|_| Exhausted)
    }

    /// What its groups captured, if it is found in a text.
    pub fn captures(&self, text: &[u8], budget: &Budget) -> Result<Option<Captures>, Exhausted> {
        budget.spend((text.len() + 1) * self.cost)?;
        let found = self.regex.captures(text).map_err(|_| Exhausted)?;
        Ok(found.map(|found| {
            (0..found.len()).map(|group| found.get(group).map(|part| text[part.start()..part.end()].to_vec())).collect()
        }))
    }
}

/// What stays as it is in a query: it separates nothing there.
const IN_QUERY: &[u8] = b"/:";

/// What a text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Group(usize),
    /// What lies behind the rule's prefix, without its first slash.
    Rest,
    Path,
    Query,
    Host,
}

/// A text with variables: `$1` or `${name}` of the rule's pattern, `$rest`, `$path`, `$query`, `$host`; `$$` is a dollar sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
}

/// The values of a template's variables.
pub struct Values<'a> {
    /// What the rule's pattern captured.
    pub captures: &'a Captures,
    /// What lies behind the rule's prefix.
    pub rest: &'a [u8],
    /// The path.
    pub path: &'a [u8],
    /// The query as it came.
    pub query: &'a [u8],
    /// The host, without port.
    pub host: &'a str,
}

impl Template {
    /// Parses a text. `pattern`: whose groups it may name.
    pub fn new(text: &str, pattern: Option<&Pattern>) -> Result<Template, String> {
        if let Some(odd) = text.chars().find(|one| !one.is_ascii_graphic()) {
            return Err(format!("{text:?} has {odd:?} in it; write it as %XX"));
        }
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        decode(path)
            .map_err(|_| format!("{text:?} has a % that two hexadecimal digits do not follow, or %00 to %1F"))?;
        Ok(Template { path: pieces(path, pattern)?, query: query.map(|query| pieces(query, pattern)).transpose()? })
    }

    /// The path alone, as bytes: without escapes.
    pub fn path(&self, values: &Values<'_>) -> Vec<u8> {
        let mut made = Vec::new();
        for piece in &self.path {
            match piece {
                Piece::Literal(text) => made.extend_from_slice(&decode(text).unwrap_or(text.as_bytes().into())),
                _ => made.extend_from_slice(piece.value(values)),
            }
        }
        made
    }

    /// The query, if the text has a `?`. What comes from the path is escaped.
    pub fn query(&self, values: &Values<'_>) -> Option<Vec<u8>> {
        let mut query = self.query.as_ref().map(|pieces| escaped(pieces, values, IN_QUERY))?;
        // `…&$query` without a query.
        if values.query.is_empty() && query.ends_with(b"&") {
            query.pop();
        }
        Some(query)
    }

    /// The whole as the target of a redirect, escaped where it has to be. Without a `?` in the text the query of the request
    /// follows.
    pub fn location(&self, values: &Values<'_>) -> Vec<u8> {
        let mut made = escaped(&self.path, values, b"/!$&'()*+,;=:@");
        // Two slashes at the beginning would name another host.
        while made.starts_with(b"//") {
            made.remove(0);
        }
        let query = match &self.query {
            Some(pieces) => escaped(pieces, values, IN_QUERY),
            None => values.query.to_vec(),
        };
        if !query.is_empty() {
            made.push(b'?');
            made.extend_from_slice(&query);
        }
        made
    }

    /// The literal text, if there are no variables in it.
    pub fn fixed(&self) -> Option<String> {
        let literal = |pieces: &[Piece]| match pieces {
            [] => Some(String::new()),
            [Piece::Literal(text)] => Some(text.clone()),
            _ => None,
        };
        literal(&self.path)
    }
}

/// Pieces as text: literals as they are written, variables with `%XX` for what is neither unreserved nor `kept`. A query goes
/// in as it came.
fn escaped(pieces: &[Piece], values: &Values<'_>, kept: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    for piece in pieces {
        let value = piece.value(values);
        if matches!(piece, Piece::Literal(_) | Piece::Query) {
            made.extend_from_slice(value);
            continue;
        }
        for &byte in value.iter() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
                made.push(byte);
            } else {
                made.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
        }
    }
    made
}

impl Piece {
    fn value<'v>(&'v self, values: &'v Values<'_>) -> &'v [u8] {
        match self {
            Piece::Literal(text) => text.as_bytes(),
            Piece::Group(number) => values.captures.get(*number).and_then(|part| part.as_deref()).unwrap_or_default(),
            Piece::Rest => values.rest,
            Piece::Path => values.path,
            Piece::Query => values.query,
            Piece::Host => values.host.as_bytes(),
        }
    }
}

fn pieces(text: &str, pattern: Option<&Pattern>) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        literal.push_str(before);
        let (piece, left) = variable(after, pattern)?;
        match piece {
            None => literal.push('$'),
            Some(piece) => {
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(piece);
            }
        }
        rest = left;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// The variable behind a dollar sign, `None` for a second dollar sign, and the text behind it.
fn variable<'t>(after: &'t str, pattern: Option<&Pattern>) -> Result<(Option<Piece>, &'t str), String> {
    if let Some(left) = after.strip_prefix('$') {
        return Ok((None, left));
    }
    let (name, left) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        Some(named) => named,
        None if after.starts_with(|one: char| one.is_ascii_digit()) => after.split_at(1),
        None => after.split_at(after.find(|one: char| !one.is_ascii_alphabetic()).unwrap_or(after.len())),
    };
    let group = |number: usize| {
        let groups = pattern.map_or(0, Pattern::groups);
        if number < groups {
            Ok(Piece::Group(number))
        } else {
            Err(format!("${name} names no group of the rule's pattern"))
        }
    };
    if let Some(number) = pattern.and_then(|pattern| pattern.group(name)) {
        return Ok((Some(group(number)?), left));
    }
    let piece = match name {
        "rest" => Piece::Rest,
        "path" => Piece::Path,
        "query" => Piece::Query,
        "host" => Piece::Host,
        _ => match name.parse() {
            Ok(number) => group(number)?,
            Err(_) => {
                let known = "$1, ${name}, $rest, $path, $query and $host; $$ is a dollar sign";
                return Err(format!("there is no variable ${name}: there are {known}"));
            }
        },
    };
    Ok((Some(piece), left))
}
