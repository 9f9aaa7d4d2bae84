//! `reprise verify` compares pages of a running server with the same pages in classic mode, as [`crate::comparison`] does it. Its requests choose
//! the mode, and pass by the cache of responses, by a token that the control socket gives out.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`report`] | what was found, for people and as JSON |
//! | [`beside`] | a server with another PHP, with which the running one is compared (`--php`) |

mod beside;
mod report;

use std::path::Path;

use clap::Args;
use control::which::Which;
use serde_json::json;
use supervisor::os::programs::PhpVersion;

use crate::admin;
use crate::comparison::visitor::{NAMES, Page, Side, Via, Visitor};
use crate::comparison::{CLOSED_LIST, Findings, examine};
use crate::exit::{Code, Failure};
use beside::Beside;
use report::Compared;

pub use beside::{Draft, serve};

/// What `--help` says at its end.
pub const HELP: &str = "Examples:
  reprise verify http://127.0.0.1:8080/ http://127.0.0.1:8080/cart
  reprise verify --host shop.example --rounds 20 pages.txt
  reprise verify --php 8.4 http://127.0.0.1:8080/

A file has one page per line: a URL, or a method, a URL and a form, in which {visitor} becomes anna or otto:
POST http://127.0.0.1:8080/login name={visitor}&password=secret

Each visitor has two sessions in each mode. Parts that vary in classic mode (tokens of sessions, nonces, times, counters,
figures of memory) are masked. verify prints each with the check that it made instead, or as unsure if a leak could hide there.
verify asks the running server for a token at its control socket, so it runs on the same machine, as the server's user or root.
With the token its requests choose the mode and pass by the cache of responses. Where several servers run: --name, --config or --state-dir.

With --php 8.4 the pages are compared with those of another PHP, both in classic mode: a server with the same configuration file, which only
verify reaches, runs meanwhile. What its PHP logs is printed too, such as deprecations. The database, files and sessions are the same.

verify cannot see what pages do not show, pages that are not listed, and what depends on the order of requests of more
than two visitors. Side effects happen: each page is requested several times, in both modes.

Exit status: 0 all alike, 2 differences, leaks, or a page whose every response is an error of the server, 1 if no page has run in another mode than classic, 64 usage.";

/// What is missing without the control socket.
const TOKEN: &str = "verify runs on the server's machine, as its user or as root: it needs a token of its control socket to choose the mode and to pass by the cache";

/// The same limits at the end of the report.
const BLIND: &str =
    "not checked: what pages do not show; pages that are not listed; what depends on more visitors than two";

/// What is to be compared.
#[derive(Args)]
pub struct Asked {
    /// Pages, such as http://127.0.0.1:8080/cart, or files that list them
    #[arg(required = true, value_name = "URL|FILE")]
    pages: Vec<String>,
    /// How many times each visitor requests each page
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// The Host header, if the URL has an address instead of a name
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Compare with the same pages in this version of PHP, such as 8.4, instead of comparing modes
    #[arg(long, value_name = "VERSION")]
    php: Option<PhpVersion>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// The servers that are asked.
struct Servers {
    /// The token of the running one.
    token: String,
    /// The one with another PHP.
    beside: Option<Beside>,
    compared: Compared,
}

impl Servers {
    fn find(asked: &Asked) -> Result<Servers, Failure> {
        let token = token(&asked.which)?;
        let Some(php) = asked.php else {
            let compared = Compared { base: "classic mode".to_owned(), own: "own mode".to_owned() };
            return Ok(Servers { token, beside: None, compared });
        };
        if !asked.json {
            eprintln!("starting a server with the same configuration and PHP {php}");
        }
        let (beside, running) = Beside::start(&asked.which, php)?;
        Ok(Servers { token, beside: Some(beside), compared: Compared { base: running, own: format!("PHP {php}") } })
    }

    fn visitors(&self) -> [Visitor; 2] {
        let side = |mode| Side { via: Via::Address, token: self.token.clone(), mode };
        let own = self.beside.as_ref().map_or_else(|| side("own"), Beside::side);
        NAMES.map(|name| Visitor::new(name, &[own.clone(), side("classic")]))
    }

    /// A front that was started anew has another token: its requests were not those that were asked for.
    fn check(&self, which: &Which) -> Result<(), Failure> {
        self.beside.iter().try_for_each(Beside::check)?;
        if token(which)? == self.token {
            return Ok(());
        }
        Err(Failure::new(Code::Internal, "verify", "the front of the server was started anew meanwhile")
            .hint("verify again"))
    }
}

/// Requests all pages and prints what was found.
pub fn run(asked: &Asked) -> Result<Code, Failure> {
    let pages = read(&asked.pages, asked.host.as_deref())?;
    let servers = Servers::find(asked)?;
    let mut visitors = servers.visitors();
    let compared = &servers.compared;
    let mut all = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        if !asked.json {
            eprintln!("{} of {}: {page}", number + 1, pages.len());
        }
        let mut findings = examine(page, asked.rounds as usize, &mut visitors)?;
        findings.is_classic &= servers.beside.is_none();
        if !asked.json {
            report::print(page, &findings, compared);
        }
        all.push((page, findings));
    }
    servers.check(&asked.which)?;
    let messages = servers.beside.map(Beside::end);
    let bad = all.iter().filter(|(_, findings)| !findings.is_fine()).count();
    if asked.json {
        let list: Vec<_> = all.iter().map(|(page, findings)| report::json(page, findings, compared)).collect();
        let mut whole = json!({ "pages": list, "rounds": asked.rounds, "bad": bad, "compared": compared.json() });
        if let Some(messages) = &messages {
            whole["messages"] = messages.iter().map(|(text, count)| json!({ "text": text, "count": count })).collect();
        }
        println!("{whole}");
    } else {
        messages.iter().for_each(|messages| report::print_messages(messages, compared));
        summarize(&all, bad, compared);
    }
    let of_php: Vec<&Findings> = all.iter().map(|(_, findings)| findings).filter(|one| one.is_php).collect();
    if bad == 0 && of_php.is_empty() {
        return Err(Failure::new(Code::Internal, "verify", "the server does not say in which mode the pages ran")
            .hint("the pages are not PHP's, or are of another server than the one whose token verify has (--config, --name, --state-dir), or a proxy is between them"));
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

fn summarize(all: &[(&Page, Findings)], bad: usize, compared: &Compared) {
    let responses: usize = all.iter().map(|(_, findings)| findings.responses).sum();
    let masks = || all.iter().flat_map(|(_, findings)| &findings.found.masks);
    let (masked, unsure) = (masks().count(), masks().filter(|mask| !mask.is_sure).count());
    let errors = all.iter().filter(|(_, findings)| findings.error.is_some()).count();
    let of_errors = if errors > 0 { format!(", {errors} of errors alone") } else { String::new() };
    println!("{} pages, {responses} responses, {} with differences or leaks{of_errors}", all.len(), bad - errors);
    println!("not compared: {}; {masked} places that vary in {}, {unsure} of them unsure", CLOSED_LIST, compared.base);
    println!("{BLIND}");
}

/// The token by which the server lets verify choose the mode.
fn token(which: &Which) -> Result<String, Failure> {
    admin::token(which).map_err(|failure| failure.and_hint(TOKEN))
}

/// The pages of the command line and of the files on it, in order.
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
