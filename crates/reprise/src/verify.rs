//! `reprise verify`: whether pages are what they are in classic mode, and nobody sees what is another's.
//!
//! Two visitors, each with a cookie jar and marks of its own (a cookie, a header, a user agent), ask for each page in turn,
//! in the application's mode and in classic mode (the front lets a client on its machine choose that). What differs between
//! two answers of classic mode to the same visitor is drawn anew each time, and left out of the comparison.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`visitor`] | asks, and keeps cookies |
//! | [`compare`] | what is left of an answer, and where two differ |
//! | [`template`] | what bodies of several lengths have in common |

mod compare;
mod template;
mod visitor;

use std::collections::HashSet;
use std::path::Path;

use serde_json::json;

use crate::exit::{Code, Failure};
use compare::{Difference, Normal};
use visitor::{Answer, Page, Visitor};

/// What `--help` says at its end.
pub const HELP: &str = "Examples:
  reprise verify http://127.0.0.1:8080/ http://127.0.0.1:8080/cart
  reprise verify --host shop.example --rounds 20 pages.txt

A file has a page a line: a URL, or a method, a URL and perhaps a form, in which {visitor} is anna or otto:
POST http://127.0.0.1:8080/login name={visitor}&password=secret

What it cannot see: what pages do not show; pages that are not listed; what depends on the order of other visitors'
requests beyond two; and parts that differ between two answers of classic mode anyway (nonces, clocks, counters), where a
leak could hide. Side effects happen: each page is asked for several times, in both modes.

Exit status: 0 all alike, 2 differences or leaks, 1 if no page has run in another mode than classic, 64 usage.";

/// The same at the end of what it prints.
const BLIND: &str =
    "not seen: what pages do not show; pages that are not listed; what depends on more visitors than two";

/// What was found on a page.
#[derive(Default)]
struct Findings {
    differences: Vec<Difference>,
    leaks: Vec<String>,
    /// Parts left out because classic mode does not agree with itself.
    volatile: usize,
    /// Of the bodies nothing is left then.
    is_blind: bool,
    /// PHP has run for it.
    is_php: bool,
    /// In classic mode alone.
    is_classic: bool,
    answers: u32,
}

/// Asks for all pages and prints what was found.
pub fn run(pages: &[String], rounds: u32, host: Option<&str>, json: bool) -> Result<Code, Failure> {
    let pages = read(pages, host)?;
    let mut visitors = [Visitor::new("anna"), Visitor::new("otto")];
    let mut all = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        if !json {
            eprintln!("{} of {}: {page}", number + 1, pages.len());
        }
        let findings = examine(page, rounds, &mut visitors)?;
        if !json {
            print(page, &findings);
        }
        all.push((page, findings));
    }
    let bad = all.iter().filter(|(_, findings)| !findings.is_fine()).count();
    if json {
        let list: Vec<_> = all.iter().map(|(page, findings)| findings.json(page)).collect();
        println!("{}", json!({ "pages": list, "rounds": rounds, "bad": bad }));
    } else {
        let answers: u32 = all.iter().map(|(_, findings)| findings.answers).sum();
        let volatile: usize = all.iter().map(|(_, findings)| findings.volatile).sum();
        println!("{} pages, {answers} answers, {bad} with differences or leaks", all.len());
        println!("not compared: {}; {volatile} parts that classic mode itself draws anew", compare::CLOSED_LIST);
        println!("{BLIND}");
    }
    let of_php: Vec<&Findings> = all.iter().map(|(_, findings)| findings).filter(|one| one.is_php).collect();
    if bad == 0 && of_php.is_empty() {
        return Err(Failure::new(Code::Internal, "verify", "the server does not say in which modes the pages ran")
            .hint("they are no pages of PHP, or verify is not on the server's machine, or a proxy is between them"));
    }
    if bad == 0 && of_php.iter().all(|one| one.is_classic) {
        return Err(Failure::new(
            Code::Internal,
            "verify",
            "every page ran in classic mode: there is nothing to compare",
        )
        .hint("reprise status shows what runs in which mode, the server's log why something was not booted"));
    }
    Ok(if bad == 0 { Code::Success } else { Code::Different })
}

/// The pages of the command line, in order; of files, all they list.
fn read(names: &[String], host: Option<&str>) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::new();
    for name in names {
        if name.contains("://") {
            pages.push(Page::parse(name, host).map_err(|why| Failure::new(Code::Usage, name, why))?);
            continue;
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|error| {
            Failure::new(Code::Usage, name, error)
                .hint("a page begins with http://; anything else is a file that lists them")
        })?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = || format!("{name}:{}", number + 1);
            pages.push(Page::parse(line, host).map_err(|why| Failure::new(Code::Usage, at(), why))?);
        }
    }
    if pages.is_empty() {
        return Err(Failure::new(Code::Usage, "verify", "there is no page to ask for"));
    }
    Ok(pages)
}

fn examine(page: &Page, rounds: u32, visitors: &mut [Visitor; 2]) -> Result<Findings, Failure> {
    let failed = |why: String| Failure::new(Code::Internal, page.to_string(), why);
    let mut findings = Findings::default();
    let marks = [visitors[0].marks(), visitors[1].marks()];
    let mut own: [Vec<Answer>; 2] = [Vec::new(), Vec::new()];
    let mut classic: [Vec<Answer>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        // Interleaved: each comes between two requests of the other, in both modes.
        for is_classic in [false, true, true, false] {
            for (number, visitor) in visitors.iter_mut().enumerate() {
                let answer = visitor.ask(page, is_classic).map_err(failed)?;
                let answers = if is_classic { &mut classic } else { &mut own };
                answers[number].push(answer);
                findings.answers += 1;
            }
        }
    }
    let mut modes = own.iter().flatten().filter_map(|answer| answer.mode.as_deref()).peekable();
    findings.is_php = modes.peek().is_some();
    findings.is_classic = findings.is_php && modes.all(|mode| mode == "classic");
    for (number, visitor) in visitors.iter().enumerate() {
        let normal = Normal::of(&classic[number]);
        findings.volatile = findings.volatile.max(normal.volatile());
        findings.is_blind |= normal.is_blind();
        for answer in &own[number] {
            findings.differences.extend(normal.compare(visitor.name, &classic[number][0], answer));
        }
        let whose = visitors[1 - number].name;
        for answer in own[number].iter().chain(&classic[number]) {
            let seen = marks[1 - number].iter().filter(|(_, mark)| answer.contains(mark));
            findings.leaks.extend(seen.map(|(what, _)| format!("{} sees {whose}'s {what}", visitor.name)));
        }
    }
    // The first of a kind shows it.
    let mut kinds = HashSet::new();
    findings.differences.retain(|one| kinds.insert((one.visitor, one.what.clone())));
    findings.leaks.sort();
    findings.leaks.dedup();
    Ok(findings)
}

impl Findings {
    fn is_fine(&self) -> bool {
        self.differences.is_empty() && self.leaks.is_empty()
    }

    fn json(&self, page: &Page) -> serde_json::Value {
        let differences: Vec<_> = self
            .differences
            .iter()
            .map(|one| json!({"visitor": one.visitor, "what": one.what, "classic": one.classic, "own": one.own}))
            .collect();
        json!({
            "page": page.to_string(), "differences": differences, "leaks": self.leaks, "volatile": self.volatile,
            "blind": self.is_blind, "classic": self.is_classic,
        })
    }
}

/// Differences printed of a page.
const SHOWN: usize = 6;

fn print(page: &Page, findings: &Findings) {
    match findings {
        Findings { is_classic: true, .. } => {
            println!("CLASSIC    {page}: it ran in classic mode, compared with itself")
        }
        Findings { is_blind: true, .. } => println!("UNKNOWN    {page}: no two bodies of classic mode are alike"),
        _ if findings.is_fine() => println!("alike      {page}"),
        _ => {}
    }
    for leak in &findings.leaks {
        println!("LEAK       {page}: {leak}");
    }
    for difference in findings.differences.iter().take(SHOWN) {
        println!("DIFFERENT  {page}: {}, as {}", difference.what, difference.visitor);
        println!("  classic  {}", difference.classic);
        println!("  own mode {}", difference.own);
    }
    if findings.differences.len() > SHOWN {
        println!("           and {} more", findings.differences.len() - SHOWN);
    }
}
