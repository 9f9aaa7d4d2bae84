//! `reprise cache keys|get|delete|invalidate|flush|stats`: what the data cache of an application holds. What comes from there was written by
//! processes of the application: texts are shown escaped, and numbers are shown if they are some.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use control::command::Command;
use control::outcome::Outcome;
use control::status::{DataCache, DataHolder, DataStore, Status};
use control::which::Which;
use serde_json::json;

use super::table::{data_cache, kilobytes, table, time};
use super::{ask, send};
use crate::exit::{Code, Failure};

/// How long an application may take to say its numbers for `reprise status`.
const PATIENCE: Duration = Duration::from_secs(1);
/// Beginnings of keys that `stats` shows.
const PREFIXES: usize = 20;

/// Whose data cache.
#[derive(Args)]
pub struct Whose {
    /// The application; without it, the only one that has a data cache
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// What is asked of a data cache.
#[derive(Subcommand)]
pub enum DataVerb {
    /// List keys of the data cache with size, age and times; in no order
    #[command(
        after_help = "Bytes of keys that are no visible ASCII are shown as \\xHH, and may be given so to the other commands."
    )]
    Keys {
        /// Only keys that begin so
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: OsString,
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
        #[command(flatten)]
        whose: Whose,
    },
    /// Show a value of the data cache as PHP code, and how long it is good
    Get {
        #[arg(value_name = "KEY")]
        key: OsString,
        #[command(flatten)]
        whose: Whose,
    },
    /// Remove a value from the data cache
    Delete {
        #[arg(value_name = "KEY")]
        key: OsString,
        #[command(flatten)]
        whose: Whose,
    },
    /// Remove all values with one of these tags from the data cache
    Invalidate {
        #[arg(required = true, value_name = "TAG")]
        tags: Vec<OsString>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Remove all values from the data cache
    Flush {
        #[command(flatten)]
        whose: Whose,
    },
    /// Show what the data cache has done and holds, and which keys take most of it
    Stats {
        #[command(flatten)]
        whose: Whose,
    },
}

/// Runs one of them.
pub fn run(verb: &DataVerb) -> Result<Code, Failure> {
    let text = match verb {
        DataVerb::Keys { prefix, limit, whose } => keys(prefix, *limit, whose)?,
        DataVerb::Get { key, whose } => get(key, whose)?,
        DataVerb::Delete { key, whose } => {
            let was_there = question(whose, &format!("delete\n{}", word(key)))? == "yes";
            if !was_there {
                return Err(Failure::new(Code::Usage, word(key), "there is no value with this key"));
            }
            done(whose, "removed")
        }
        DataVerb::Invalidate { tags, whose } => {
            let tags: Vec<String> = tags.iter().map(|tag| word(tag)).collect();
            question(whose, &format!("invalidate\n{}", tags.join("\n")))?;
            done(whose, "removed all values with these tags")
        }
        DataVerb::Flush { whose } => {
            question(whose, "flush")?;
            done(whose, "removed all values")
        }
        DataVerb::Stats { whose } => stats(whose)?,
    };
    super::print(&text);
    Ok(Code::Success)
}

fn done(whose: &Whose, what: &str) -> String {
    if whose.json { format!("{}\n", json!({ "done": true })) } else { format!("{what}\n") }
}

/// A key as an answer shows it. What already looks so is taken for that.
fn word(key: &OsStr) -> String {
    let visible = |byte: &u8| match byte {
        b'!'..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    key.as_bytes().iter().map(visible).collect()
}

fn question(whose: &Whose, text: &str) -> Result<String, Failure> {
    let application = whose.application.clone().unwrap_or_default();
    let command = Command::Data { application, question: text.to_owned() };
    let Outcome { ok, message } = ask(&whose.which, command)?.read()?;
    if ok { Ok(message) } else { Err(Failure::new(Code::Usage, "data cache", message)) }
}

/// A line about a value.
struct Terms<'a> {
    key: &'a str,
    bytes: u64,
    age_ms: u64,
    ttl_ms: Option<u64>,
    gone_ms: Option<u64>,
    cost_us: u64,
    tags: u64,
}

impl<'a> Terms<'a> {
    fn read(line: &'a str) -> Option<Terms<'a>> {
        let mut words = line.strip_prefix("key ")?.split(' ');
        let key = words.next()?;
        let until = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
        Some(Terms {
            key,
            bytes: words.next()?.parse().ok()?,
            age_ms: words.next()?.parse().ok()?,
            ttl_ms: until(words.next()?)?,
            gone_ms: until(words.next()?)?,
            cost_us: words.next()?.parse().ok()?,
            tags: words.next()?.parse().ok()?,
        })
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "key": self.key, "bytes": self.bytes, "age_ms": self.age_ms, "ttl_ms": self.ttl_ms, "gone_ms": self.gone_ms,
            "cost_us": self.cost_us, "tags": self.tags,
        })
    }

    fn row(&self) -> Vec<String> {
        let seconds = |milliseconds: u64| time(Some(milliseconds as f64 / 1000.0));
        let until = |milliseconds: Option<u64>| milliseconds.map_or("-".to_owned(), seconds);
        vec![
            kilobytes(self.bytes),
            seconds(self.age_ms),
            if self.ttl_ms == Some(0) { "stale".to_owned() } else { until(self.ttl_ms) },
            until(self.gone_ms),
            time(Some(self.cost_us as f64 / 1e6)),
            self.tags.to_string(),
            self.key.to_owned(),
        ]
    }
}

fn head() -> Vec<String> {
    ["BYTES", "AGE", "GOOD FOR", "GONE IN", "COST", "TAGS", "KEY"].map(str::to_owned).to_vec()
}

fn keys(prefix: &OsStr, limit: u32, whose: &Whose) -> Result<String, Failure> {
    let answer = question(whose, &format!("keys\n{}\n{limit}", word(prefix)))?;
    let list: Vec<Terms> = answer.lines().filter_map(Terms::read).collect();
    let all: [u64; 2] = answer.lines().find_map(|line| numbers(line.strip_prefix("all ")?)).unwrap_or_default();
    if whose.json {
        let keys: Vec<_> = list.iter().map(Terms::json).collect();
        return Ok(format!("{}\n", json!({ "keys": keys, "all": all[0], "bytes": all[1] })));
    }
    let rows: Vec<_> = std::iter::once(head()).chain(list.iter().map(Terms::row)).collect();
    Ok(format!("{}{} of {} keys, which take {}\n", table(&rows), list.len(), all[0], kilobytes(all[1])))
}

fn get(key: &OsStr, whose: &Whose) -> Result<String, Failure> {
    let answer = question(whose, &format!("get\n{}", word(key)))?;
    let (line, value) = answer.split_once('\n').unwrap_or((&answer, ""));
    let terms = Terms::read(line);
    if whose.json {
        let mut object = terms.map_or_else(|| json!({}), |terms| terms.json());
        object["value"] = value.into();
        return Ok(format!("{object}\n"));
    }
    let rows: Vec<_> = std::iter::once(head()).chain(terms.iter().map(Terms::row)).collect();
    Ok(format!("{}{}\n", table(&rows), value.trim_end()))
}

fn numbers<const COUNT: usize>(text: &str) -> Option<[u64; COUNT]> {
    let list: Option<Vec<u64>> = text.split(' ').map(|word| word.parse().ok()).collect();
    list?.try_into().ok()
}

fn stats(whose: &Whose) -> Result<String, Failure> {
    let cache = read(&question(whose, "stats")?, &ask(&whose.which, Command::Status)?.read()?);
    let answer = question(whose, &format!("prefixes\n{PREFIXES}"))?;
    let prefixes = answer.lines().filter_map(|line| {
        let (prefix, rest) = line.strip_prefix("prefix ")?.split_once(' ')?;
        let [entries, bytes] = numbers(rest)?;
        Some((prefix, entries, bytes))
    });
    let prefixes: Vec<(&str, u64, u64)> = prefixes.collect();
    let rest: [u64; 2] = answer.lines().find_map(|line| numbers(line.strip_prefix("rest ")?)).unwrap_or_default();
    if whose.json {
        let list = prefixes
            .iter()
            .map(|(prefix, entries, bytes)| json!({ "prefix": prefix, "entries": entries, "bytes": bytes }));
        let mut object = json!(cache);
        object["prefixes"] = list.collect();
        object["others"] = json!({ "entries": rest[0], "bytes": rest[1] });
        return Ok(format!("{object}\n"));
    }
    let mut rows = vec![["BYTES", "KEYS", "PREFIX"].map(str::to_owned).to_vec()];
    for (prefix, entries, bytes) in prefixes {
        let prefix = if prefix.is_empty() { "(keys without . : or /)" } else { prefix };
        rows.push(vec![kilobytes(bytes), entries.to_string(), prefix.to_owned()]);
    }
    if rest[0] > 0 {
        rows.push(vec![kilobytes(rest[1]), rest[0].to_string(), "(all others)".to_owned()]);
    }
    Ok(format!("{}{}", data_cache(&cache), table(&rows)))
}

/// The lines of `stats`, with the request of who holds memory.
fn read(answer: &str, status: &Status) -> DataCache {
    let all: BTreeMap<&str, u64> = answer
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect();
    let number = |name: &str| all.get(name).copied().unwrap_or(0);
    DataCache {
        hits: number("hits"),
        misses: number("misses"),
        stale: number("stale"),
        stores: number("stores"),
        waits: number("waits"),
        computed: number("computed"),
        evicted: number("evicted"),
        refused: number("refused"),
        swept: number("swept"),
        entries: number("entries"),
        bytes: number("bytes"),
        memory: number("memory"),
        held: number("held"),
        holder: i32::try_from(number("holder"))
            .ok()
            .filter(|pid| *pid > 0)
            .map(|pid| holder(pid, number("held_ms") as f64 / 1000.0, status)),
        store: all.contains_key("store_ready").then(|| DataStore {
            ready: number("store_ready") == 1,
            heard_seconds: all.get("store_heard_ms").map(|milliseconds| *milliseconds as f64 / 1000.0),
            untold: number("store_untold"),
            requests: number("store_requests"),
            failures: number("store_failures"),
            forged: number("store_forged"),
        }),
    }
}

fn holder(pid: i32, seconds: f64, status: &Status) -> DataHolder {
    let lanes = status.applications.values().flatten().flat_map(|generation| &generation.lanes);
    let mut workers = lanes.flat_map(|lane| lane.workers.iter().flatten().map(move |worker| (lane, worker)));
    let Some((lane, worker)) = workers.find(|(_, worker)| worker.pid == pid) else {
        return DataHolder { pid, seconds, ..DataHolder::default() };
    };
    let name = lane.script.clone().unwrap_or_else(|| "classic".to_owned());
    DataHolder { pid, seconds, lane: Some(name), slot: Some(worker.slot), request: worker.request.clone() }
}

/// For `reprise status`: of each application that has a data cache and answers.
pub fn of(directory: &Path, status: &Status) -> BTreeMap<String, DataCache> {
    let mut caches = BTreeMap::new();
    for name in status.applications.keys() {
        let command = Command::Data { application: name.clone(), question: "stats".to_owned() };
        let answer = send(directory, &command, Some(PATIENCE)).and_then(|response| response.read());
        if let Ok(Outcome { ok: true, message }) = answer {
            caches.insert(name.clone(), read(&message, status));
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_values_are_read_or_left_out() {
        let terms = Terms::read("key menu.en 256 1500 60000 - 12 1 0").expect("terms");
        assert_eq!(terms.row(), ["0.2K", "1.5s", "60.0s", "-", "0ms", "1", "menu.en"]);
        for line in ["", "key", "key a", "key a 1 2 x - 3 4", "value a 1 2 3 4 5 6", "key a -1 0 - - 0 0"] {
            assert!(Terms::read(line).is_none(), "{line}");
        }
        assert_eq!(word(OsStr::from_bytes(b"a b\\x41\xff")), "a\\x20b\\x41\\xff");
        assert_eq!(numbers::<2>("1 2"), Some([1, 2]));
        assert!(
            numbers::<2>("1").is_none()
                && numbers::<2>("1 x").is_none()
                && numbers::<1>("99999999999999999999").is_none()
        );
    }

    /// Names of the numbers are those that a process of the application writes.
    #[test]
    fn numbers_that_are_missing_are_zero() {
        let status: Status = serde_json::from_str(
            r#"{"version": "1", "pid": 1, "seconds": 1, "state": "serving", "front": null, "applications": {}}"#,
        )
        .expect("a status");
        let cache = read("hits 5\nheld 1024\nholder 77\nheld_ms 2500\nrubbish\nmisses many", &status);
        assert_eq!((cache.hits, cache.misses, cache.held), (5, 0, 1024));
        let text = data_cache(&cache);
        assert!(text.contains("1.0K of removed values are held, longest by process 77 for 2.5s\n"), "{text}");
        assert_eq!(read("holder 4294967296", &status).holder, None);
    }
}
