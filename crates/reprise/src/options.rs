//! Options of the configuration file, one row each ([`rows`]). The structs, their defaults, their parsers, the reference
//! and the list of options that take a restart come from the rows.
//!
//! | module | what |
//! |---|---|
//! | [`rows`] | the rows; below it the parsers of options that are more than a value |
//! | [`option_table`] | makes structs of the rows |
//! | [`value`] | how a value of each type is written |
//! | [`rates`] | the limits of `rate_limits` |
//! | [`reader`] | the file while it is read, and its mistakes |

mod option_table;
mod rates;
mod reader;
mod rows;
mod value;

use std::sync::OnceLock;
use std::time::Duration;

use front::READERS;
use ipc::control::MAX_LANES;
use ipc::layout::{HEAD_SIZE, MAX_EXCHANGES, MAX_SLOTS};
use routing::rate::CLIENTS as RATED_CLIENTS;
use supervisor::os::groups::{self, Memory};
use supervisor::os::programs::PhpVersion;

use Kind::{Number, Rates, Requests, Rules, Signed, Size, Switch, Table, Text, Texts, Time};
use Scope::{Acme as OfAcme, Application as OfApplication, Certificate as OfCertificate, Server};

pub use option_table::Options;
pub use reader::File;
#[cfg(test)]
pub use rows::PRESETS;
pub use rows::{
    Acme, Application, Certificate, Config, RequestLimits, Unpacked, missing, read_rules, refused, resolve,
};

/// Where an option may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At the top of the file.
    Server,
    /// Below `[[application]]`.
    Application,
    /// Below `[[certificate]]`.
    Certificate,
    /// Below `[acme]`.
    Acme,
}

/// What makes a change of an option take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `reprise reload`.
    Reload,
    /// A restart: a reload is refused if the option has changed.
    Restart,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// A whole number within these bounds, which may be negative.
    Signed(i64, i64),
    /// true or false.
    Switch,
    /// A string such as "500ms", "30s", "5m", or a number of seconds; within these seconds.
    Time(u64, u64),
    /// A string such as "512K", "8M", "2G", or a number of bytes; 0: any.
    Size,
    /// A table of strings, numbers and booleans.
    Table,
    /// A list of tables with path, rate, burst, excess and methods.
    Rates,
    /// A list of requests: paths, or tables of method, path and headers.
    Requests,
    /// Tables `[[application.route]]`.
    Rules,
}

impl Kind {
    /// The lowest and the highest number; of a time in seconds.
    pub const fn bounds(self) -> (i128, i128) {
        match self {
            Number(low, high) | Time(low, high) => (low as i128, high as i128),
            Signed(low, high) => (low as i128, high as i128),
            Text | Texts | Switch | Size | Table | Rates | Requests | Rules => (0, u64::MAX as i128),
        }
    }
}

/// One option.
#[derive(Debug)]
pub struct Row {
    /// Its name in the file.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Default, in words.
    pub default: &'static str,
    /// What makes a change take effect.
    pub change: Change,
    /// What it does, and why no default could serve everybody.
    pub text: &'static str,
}

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// As the script asks for.
    Auto,
    /// Never from a snapshot.
    Classic,
    /// From a snapshot, or the server does not start.
    Snapshot,
    /// In a loop of its own, or the server does not start.
    Worker,
}

/// What happens if a warm-up request gets a 5xx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupFailure {
    /// The server does not start, or a reload is refused.
    Refuse,
    /// A line in the log.
    Log,
}

/// The version of PHP that an application is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedPhp {
    /// Which.
    pub version: PhpVersion,
    /// Who says so: a line of a file, or a flag.
    pub place: String,
}

/// What clients have to show that are to have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// A certificate of the authorities, or they are refused.
    Require,
    /// A certificate of the authorities, or none.
    Request,
}

/// How an authority checks a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By a request in clear.
    Http01,
    /// By a TLS handshake.
    TlsAlpn01,
}

impl Challenge {
    /// As ACME names it.
    pub const fn word(self) -> &'static str {
        match self {
            Challenge::Http01 => "http-01",
            Challenge::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// Capabilities of programs that PHP starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capabilities {
    /// The programs have the capabilities that they would have without Reprise.
    Keep,
    /// The bounding set is empty.
    None,
}

/// CPUs that this process may use. Some defaults depend on their number.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory that this process may use, and the file that limits it: the machine's or a control group's. Some defaults depend on it.
pub fn memory() -> &'static Memory {
    static MEMORY: OnceLock<Memory> = OnceLock::new();
    MEMORY.get_or_init(|| {
        let everything = Memory { bytes: u64::MAX, file: "no limit is known".to_owned(), line: 0, text: String::new() };
        groups::memory(&|path| std::fs::read_to_string(path).ok()).unwrap_or(everything)
    })
}

/// The default size of a cache or buffer: `usual`, where it is no more than a sixteenth of the memory there is.
pub fn sized(usual: u64) -> u64 {
    const LEAST: u64 = 1 << 20;
    usual.min((memory().bytes / 16) & !(LEAST - 1)).max(LEAST)
}

/// Default number of workers of a lane: four per CPU, and at most one per 64 MiB of memory.
pub fn usual_workers() -> usize {
    const EACH: u64 = 64 << 20;
    (4 * cpus()).min(usize::try_from(memory().bytes / EACH).unwrap_or(usize::MAX)).max(1)
}

/// Default number of connections at once: at most one per 128 KiB of memory, so that the heads of all requests, of 32 KiB at most, take a quarter of it.
pub fn usual_connections() -> u64 {
    const EACH: u64 = 128 << 10;
    65536.min(memory().bytes / EACH).max(16)
}

/// All rows of a part of the file. Options that paths may have too are listed with the application's, before `limits`.
pub fn rows(scope: Scope) -> impl Iterator<Item = &'static Row> {
    let (own, of_requests) = match scope {
        Server => (Config::ROWS, &[][..]),
        OfApplication => (Application::ROWS, RequestLimits::ROWS),
        OfCertificate => (Certificate::ROWS, &[][..]),
        OfAcme => (Acme::ROWS, &[][..]),
    };
    let limits = own.iter().position(|row| row.name == "limits").unwrap_or(own.len());
    own[..limits].iter().chain(of_requests).chain(&own[limits..])
}

/// The row with this name.
pub fn find(scope: Scope, name: &str) -> Option<&'static Row> {
    rows(scope).find(|row| row.name == name)
}

/// The name nearest to a wrong one, if one is near.
pub fn nearest(scope: Scope, wrong: &str) -> Option<&'static str> {
    let tables = ["application", "certificate", "acme"].into_iter().filter(|_| scope == Server);
    let names = rows(scope).map(|row| row.name).chain(tables);
    names
        .map(|name| (strsim::levenshtein(name, wrong), name))
        .filter(|(distance, name)| *distance <= 3.max(name.len() / 3))
        .min()
        .map(|(_, name)| name)
}

/// "500ms", "30s", "5m", "1h".
pub fn parse_time(text: &str) -> Option<Duration> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let milliseconds = match &text[split..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// "512K", "8M", "2G", plain bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let unit = match text[split..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The values of a kind in words, for messages and the reference.
pub fn describe(kind: Kind) -> String {
    match kind {
        Text => "text".to_owned(),
        Texts => "list of texts".to_owned(),
        Number(low, high) => format!("number, {low} to {high}"),
        Signed(low, high) => format!("number, {low} to {high}"),
        Switch => "true or false".to_owned(),
        Time(..) => "time (\"500ms\", \"30s\", \"5m\")".to_owned(),
        Size => "size (\"512K\", \"8M\")".to_owned(),
        Table => "table".to_owned(),
        Rules => "list of rules".to_owned(),
        Rates => "list of tables { path, rate, burst, excess, methods }".to_owned(),
        Requests => "list of paths, or of tables { method, path, headers }".to_owned(),
    }
}

/// What the reference says before its tables.
pub const ABOUT: [&str; 2] = [
    "The file is TOML; options of the server stand at its top, each application\nbegins with `[[application]]`, each certificate with `[[certificate]]`; `[acme]` has those of the authority that issues certificates. Flags win \
     over the file, the file over defaults. A change takes `reprise reload`, or a restart where the table says so \
     (docs/operations/reload.md).",
    "Applications may have files of their own: the directory `conf.d` beside the configuration file is read too, each file \
     whose name\nends with `.toml` and does not begin with a dot, in the order of their names. Such a file has \
     `[[application]]` and `[[certificate]]` and nothing else, with the\nsame options. An error in any file is an error of the whole \
     configuration.",
];

/// The reference, as in docs/reference/configuration.md.
pub fn reference() -> String {
    let mut text = String::from("# Configuration\n\nGenerated by `reprise check --options`. ");
    text.push_str(&ABOUT.join("\n\n"));
    text.push('\n');
    for (scope, title) in
        [(Server, "Server"), (OfApplication, "Application"), (OfCertificate, "Certificate"), (OfAcme, "ACME")]
    {
        text.push_str(&format!(
            "\n## {title}\n\n| option | takes | default | a change takes | |\n|---|---|---|---|---|\n"
        ));
        for Row { name, kind, default, change, text: what } in rows(scope) {
            let change = match change {
                Change::Reload => "reload",
                Change::Restart => "restart",
            };
            text.push_str(&format!("| `{name}` | {} | {default} | {change} | {what} |\n", describe(*kind)));
        }
    }
    let (head, whole_response) = (HEAD_SIZE / 1024, ipc::response::MAX_SIZE / 1024);
    text.push_str(&format!(
        "\n## Fixed limits\n\n| what | limit | beyond the limit |\n|---|---|---|\n| request head, as PHP gets it | {head} KiB | 431 |\n\
         | header lines | 100 | 431 |\n| request target | 8 KiB | 414 |\n| response's head | {whole_response} KiB | 500 |\n\
         | header name passed to PHP | 250 bytes, letters, digits and `-` | dropped |\n\
         | rate of a body larger than 16 KiB, on average, after `body_timeout` | 500 bytes a second | 408 |\n\
         | requests in flight per lane | {MAX_EXCHANGES} | 503 |\n\
         | client addresses that `rate_limits` know at once | {RATED_CLIENTS} | that which is least ahead of its time is forgotten |\n\
         | threads that read files that are not in the page cache, per thread of the front | {READERS} | the response waits |\n\
         | workers per lane | {MAX_SLOTS} | |\n\
         | lanes per application | classic and {} with a snapshot | the others run in classic mode |\n",
        MAX_LANES - 1
    ));
    text
}

/// The options that only a restart changes.
fn restarting() -> impl Iterator<Item = &'static str> {
    rows(Server)
        .chain(rows(OfApplication))
        .chain(rows(OfCertificate))
        .chain(rows(OfAcme))
        .filter(|row| row.change == Change::Restart)
        .map(|row| row.name)
}

/// The same list for docs/operations/reload.md.
#[cfg(test)]
pub fn restart_reference() -> String {
    restarting().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ") + "\n"
}

/// The same list for the help.
pub fn restart_help() -> String {
    restarting().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest(Server, "lisen"), Some("listen"));
        assert_eq!(nearest(OfApplication, "worker"), Some("workers"));
        assert_eq!(nearest(OfApplication, "front_controler"), Some("front_controller"));
        assert_eq!(nearest(Server, "applications"), Some("application"));
        assert_eq!(nearest(Server, "zzzzzzzzz"), None);
    }

    #[test]
    fn times_and_sizes_are_understood() {
        assert_eq!(parse_time("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_time("5m"), Some(Duration::from_secs(300)));
        assert_eq!(parse_time("5 m"), None);
        assert_eq!(parse_time(""), None);
        assert_eq!(parse_size("8M"), Some(8 << 20));
        assert_eq!(parse_size("99999999999G"), None);
        assert_eq!(parse_size("8X"), None);
    }

    #[test]
    fn names_are_unique_where_they_may_stand() {
        for scope in [Server, OfApplication, OfCertificate, OfAcme] {
            let mut names: Vec<&str> = rows(scope).map(|row| row.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
