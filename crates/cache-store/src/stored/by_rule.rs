//! What the cache has done with requests, by the rule that has decided of them. The counters are made with the table of rules, so a request finds
//! its own by the rule's number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cache::status::{Did, Result as Results};

use routing::rules::table::Table;

/// The name of what no rule has decided.
const NO_RULE: &str = "-";

/// The counters of an application: of what no rule has decided, then of each rule of its table.
#[derive(Clone)]
pub struct ByRule(Arc<[Arc<OfRule>]>);

/// The counters of a rule.
pub struct OfRule {
    /// Its name.
    pub name: String,
    results: [AtomicU64; Results::ALL.len()],
    waiting: AtomicU64,
}

/// A request that waits for a response which another one has asked for.
pub struct Waiting(Arc<OfRule>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the cache has done with the requests of a rule.
pub struct Counted<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// Requests by result, in the order of [`Results::ALL`].
    pub results: [u64; Results::ALL.len()],
    /// Requests that wait now.
    pub waiting: u64,
}

impl ByRule {
    /// For the rules of a table. Rules with a name that `before` has go on with its counters, so that no reload sets one back.
    pub fn new(table: &Table, before: Option<&ByRule>) -> ByRule {
        let before = before.into_iter().flat_map(|before| before.0.iter());
        let known: HashMap<&str, &Arc<OfRule>> = before.map(|one| (one.name.as_str(), one)).collect();
        let of = |name: String| match known.get(name.as_str()) {
            Some(one) => Arc::clone(one),
            None => Arc::new(OfRule { name, results: Default::default(), waiting: AtomicU64::new(0) }),
        };
        ByRule(std::iter::once(NO_RULE.to_owned()).chain(table.names()).map(of).collect())
    }

    /// Counts what the cache did with a request. `rule`: the number of the rule in the table.
    pub fn count(&self, rule: Option<usize>, did: &Did) {
        if let Some(one) = self.of(rule) {
            one.results[did.result() as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request as one that waits, for as long as what this returns lives.
    pub fn wait(&self, rule: Option<usize>) -> Option<Waiting> {
        let one = self.of(rule)?.clone();
        one.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Waiting(one))
    }

    fn of(&self, rule: Option<usize>) -> Option<&Arc<OfRule>> {
        self.0.get(rule.map_or(0, |number| number + 1))
    }

    /// The rules whose requests have asked the cache.
    pub fn asked(&self) -> impl Iterator<Item = Counted<'_>> {
        let read = |one: &AtomicU64| one.load(Ordering::Relaxed);
        let all = self.0.iter().map(move |one| Counted {
            rule: &one.name,
            results: one.results.each_ref().map(read),
            waiting: read(&one.waiting),
        });
        all.filter(|one| one.waiting > 0 || one.results.iter().any(|count| *count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::rules::rule::Rule;

    fn table(prefixes: &[&str]) -> Table {
        let rule = |prefix: &&str| {
            let mut rule = Rule { is_preset: prefix.is_empty(), ..Rule::default() };
            rule.on.prefix.extend((!prefix.is_empty()).then(|| (*prefix).to_owned()));
            rule
        };
        Table::new(&prefixes.iter().map(rule).collect::<Vec<_>>()).unwrap()
    }

    fn hits(counts: &ByRule) -> Vec<(&str, u64)> {
        counts.asked().map(|one| (one.rule, one.results[Results::Hit as usize])).collect()
    }

    #[test]
    fn rules_that_stay_go_on_where_they_were() {
        let counts = ByRule::new(&table(&["/a", "/b", ""]), None);
        for rule in [None, Some(0), Some(1), Some(1), Some(2), Some(3)] {
            counts.count(rule, &Did::Hit(1));
        }
        let meant = [("-", 1), ("1: prefix /a", 1), ("2: prefix /b", 2), ("preset 1: every path", 1)];
        assert_eq!(hits(&counts), meant);
        let later = ByRule::new(&table(&["/c", "/b", ""]), Some(&counts));
        assert_eq!(hits(&later), [meant[0], meant[2], meant[3]]);
        // A request that still runs by the old rules counts too, if its rule has stayed.
        counts.count(Some(1), &Did::Hit(1));
        assert_eq!(hits(&later)[1], ("2: prefix /b", 3));
    }

    #[test]
    fn names_are_short_and_fit_on_a_line() {
        let long = format!("/a\n{}", "é".repeat(200));
        let counts = ByRule::new(&table(&[&long]), None);
        counts.count(Some(0), &Did::Hit(1));
        let name = counts.asked().next().unwrap().rule;
        assert!(name.starts_with("1: prefix /a é") && name.ends_with("é…") && name.len() <= 103, "{name}");
    }
}
