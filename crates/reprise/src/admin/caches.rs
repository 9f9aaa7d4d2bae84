//! What the caches of responses have done, for `reprise status`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use control::command::Command;
use control::outcome::Outcome;
use control::status::{CacheRule, Status};

use super::send;

/// How long the front may take. A status is wanted most of all when something stands still.
const PATIENCE: Duration = Duration::from_secs(1);

/// By application and rule; `None`: there is no front, or it does not answer.
pub fn of(directory: &Path, status: &Status) -> Option<BTreeMap<String, Vec<CacheRule>>> {
    status.front.as_ref()?;
    let mut caches = BTreeMap::new();
    for name in status.applications.keys() {
        let question = Command::Cache(format!("rules\n{name}"));
        let Outcome { ok, message } = send(directory, &question, Some(PATIENCE)).ok()?.read().ok()?;
        let rules: Vec<CacheRule> = message.lines().filter_map(rule).filter(|_| ok).collect();
        if !rules.is_empty() {
            caches.insert(name.clone(), rules);
        }
    }
    Some(caches)
}

/// A line of the front: the numbers, and the rule's name, which may have spaces.
fn rule(line: &str) -> Option<CacheRule> {
    let mut parts = line.splitn(8, ' ');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (hit, stale, collapsed) = (next()?, next()?, next()?);
    let (stored, miss, bypass, waiting) = (next()?, next()?, next()?, next()?);
    let ready = hit.saturating_add(stale).saturating_add(collapsed);
    let made = stored.saturating_add(miss).saturating_add(bypass);
    let ratio = ready as f64 / ready.saturating_add(made).max(1) as f64;
    Some(CacheRule { rule: parts.next()?.to_owned(), hit, stale, collapsed, stored, miss, bypass, ratio, waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbers_and_a_rule() {
        let read = rule("5 2 1 1 1 0 3 2: prefix /a b").unwrap();
        assert_eq!((read.rule.as_str(), read.hit, read.bypass, read.ratio), ("2: prefix /a b", 5, 0, 0.8));
        assert_eq!(read.waiting, 3);
        assert_eq!(rule("0 0 0 0 0 0 0 -").map(|read| read.ratio), Some(0.0));
        assert!(rule("").is_none() && rule("1 2 3 4 5 6 -").is_none() && rule("1 2 3 4 5 6 7").is_none());
    }

    /// The numbers stand in the order in which the front counts.
    #[test]
    fn words_are_those_of_the_cache() {
        let words = cache::status::Result::ALL.map(|(_, word, _)| word);
        let keys: Vec<&str> = CacheRule::KEYS.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [&["rule"][..], &words, &["ratio", "waiting"]].concat());
    }
}
