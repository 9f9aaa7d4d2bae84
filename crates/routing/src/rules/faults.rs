//! What is wrong with the rules of an application, beyond what does not compile: rules that contradict themselves, that never
//! match because of an earlier one, and that lead back to themselves.

use http::HeaderMap;

use super::pattern::{Budget, Pattern};
use super::rule::{Action, Exists, Match, Rule};
use super::table::{Asked, Ending, Files, Kind, Table};
use crate::target::is_clean;

/// What is wrong with a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the rule is written.
    pub place: String,
    /// What is wrong with it.
    pub why: String,
}

/// All faults of the rules of one application, which has these hosts (none: any).
pub fn find(rules: &[Rule], hosts: &[String]) -> Vec<Fault> {
    let fault = |rule: &Rule, why: String| Fault { place: rule.place.clone(), why };
    let table = match Table::new(rules) {
        Ok(table) => table,
        Err(why) => {
            let (place, why) = why.split_once(": ").unwrap_or(("routes", &why));
            return vec![Fault { place: place.to_owned(), why: why.to_owned() }];
        }
    };
    let mut faults = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let own = of_itself(rule, hosts).or_else(|| covered(&rules[..number], rule)).or_else(|| looping(&table, rule));
        faults.extend(own.map(|why| fault(rule, why)));
    }
    faults
}

/// What is wrong with a rule by itself.
fn of_itself(rule: &Rule, hosts: &[String]) -> Option<String> {
    let on = &rule.on;
    if rule.action.is_none() && rule.also == super::rule::Also::default() {
        return Some("the rule does nothing".to_owned());
    }
    if let Some(path) = on.path.iter().chain(&on.prefix).find(|path| !is_clean(path)) {
        return Some(format!(
            "never matches: no path is \"{path}\". Paths are compared decoded: they begin with /, and have no //, ., .. or %XX"
        ));
    }
    let fits_prefix = |path: &String| on.prefix.is_empty() || on.prefix.iter().any(|prefix| is_below(path, prefix));
    if !on.path.is_empty() && !on.path.iter().any(fits_prefix) {
        return Some("never matches: none of its paths is below one of its prefixes".to_owned());
    }
    let pattern = on.pattern.as_deref().and_then(|text| Pattern::new(text).ok());
    let fits_pattern = |path: &String| {
        pattern.as_ref().is_none_or(|pattern| pattern.is_in(path.as_bytes(), &Budget::new()) != Ok(false))
    };
    if !on.path.is_empty() && !on.path.iter().any(fits_pattern) {
        return Some("never matches: its pattern is in none of its paths".to_owned());
    }
    if let Some(text) = on.pattern.as_deref().filter(|text| begins_oddly(text)) {
        return Some(format!(
            "never matches: every path begins with /, and the pattern \"{text}\" begins with another byte"
        ));
    }
    if !on.address.is_empty() && on.address.iter().all(|one| on.not_address.contains(one)) {
        return Some("never matches: its addresses are those of not_address".to_owned());
    }
    let is_served = |host: &String| {
        hosts.is_empty()
            || hosts.iter().any(|known| known == host || is_host_below(known, host) || is_host_below(host, known))
    };
    if !on.host.is_empty() && !on.host.iter().any(is_served) {
        return Some(format!("never matches: the application has no host {}", on.host.join(" or ")));
    }
    if matches!(rule.action, Some(Action::Mount(_))) && on.prefix.len() != 1 {
        return Some("mount takes exactly one prefix".to_owned());
    }
    if let (Some(Action::Upstream(_)), Some(limits)) = (&rule.action, &rule.also.limits) {
        if let Some(name) = limits.of_php() {
            return Some(format!(
                "contradicts itself: {name} is a limit of PHP, and an upstream responds; it has connect_timeout, response_timeout, idle_timeout and connections"
            ));
        }
    }
    if rule.also.is_php_off && matches!(rule.action, Some(Action::Script(_))) {
        return Some("contradicts itself: php = false, and a script is to run".to_owned());
    }
    if let Some(Exists::Other(path)) =
        on.exists.as_ref().filter(|exists| matches!(exists, Exists::Other(path) if !is_clean(path)))
    {
        return Some(format!("never matches: no path is \"{path}\""));
    }
    None
}

/// Whether a pattern is anchored and its first byte is not a slash.
fn begins_oddly(pattern: &str) -> bool {
    let first = pattern.strip_prefix('^').and_then(|rest| rest.chars().next());
    // With an alternative the second one may fit.
    first.is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, '_' | '-' | '~'))
        && !pattern.contains('|')
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
}

fn is_host_below(known: &str, host: &str) -> bool {
    known.strip_prefix('*').is_some_and(|tail| host.len() > tail.len() && host.ends_with(tail))
}

/// An earlier rule that ends matching for everything that this one matches.
fn covered(earlier: &[Rule], rule: &Rule) -> Option<String> {
    let ends = |one: &&Rule| match &one.action {
        None => false,
        // It may lead to where this one matches, and may change nothing.
        Some(Action::Rewrite(_)) => false,
        Some(_) => one.is_preset == rule.is_preset && includes(&one.on, &rule.on),
    };
    earlier.iter().find(ends).map(|one| {
        let what = if rule.also.users.is_some() { "never asks for a password" } else { "never matches" };
        let action = one.action.as_ref().map_or("", Action::name);
        format!(
            "{what}: the rule at {} ({action}) ends matching for all that it matches; write it behind this one",
            one.place
        )
    })
}

/// Whether everything that `narrow` matches is matched by `wide` too, as far as that can be seen.
fn includes(wide: &Match, narrow: &Match) -> bool {
    let of_path = |path: &String| {
        (wide.path.is_empty() || wide.path.contains(path))
            && (wide.prefix.is_empty() || wide.prefix.iter().any(|prefix| is_below(path, prefix)))
    };
    let paths = match (narrow.path.is_empty(), narrow.prefix.is_empty()) {
        (false, _) => narrow.path.iter().all(of_path),
        (true, false) => wide.path.is_empty() && narrow.prefix.iter().all(of_path),
        (true, true) => {
            wide.path.is_empty() && (wide.prefix.is_empty() || wide.prefix.iter().any(|prefix| prefix == "/"))
        }
    };
    let within = |wide: &[String], narrow: &[String]| {
        wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|one| wide.contains(one)))
    };
    paths
        && (wide.pattern.is_none() || wide.pattern == narrow.pattern)
        && within(&wide.host, &narrow.host)
        && within(&wide.method, &narrow.method)
        && (wide.address.is_empty()
            || (!narrow.address.is_empty() && narrow.address.iter().all(|one| wide.address.contains(one))))
        && wide.not_address.iter().all(|one| narrow.not_address.contains(one))
        && wide.header.iter().all(|one| narrow.header.get(one.0) == Some(one.1))
        && (wide.exists.is_none() || wide.exists == narrow.exists)
}

/// Whether each path is a file, or none is.
struct All(Kind);

impl Files for All {
    fn look(&self, _: &[u8]) -> Kind {
        self.0
    }
}

/// Whether a rewrite leads back to where it began, or a redirect to where the same redirect follows: for a path that the rule
/// matches, whatever exists.
fn looping(table: &Table, rule: &Rule) -> Option<String> {
    let is_rewrite = matches!(rule.action, Some(Action::Rewrite(_)));
    if !is_rewrite && !matches!(rule.action, Some(Action::Redirect(..))) {
        return None;
    }
    let loops = |path: &str| {
        [Kind::File, Kind::Directory, Kind::Nothing].into_iter().filter(|kind| is_possible(rule, *kind)).all(|kind| {
            if is_rewrite {
                rewrites_for_ever(table, rule, path, kind)
            } else {
                redirects_for_ever(table, rule, path, kind)
            }
        })
    };
    samples(rule).iter().find(|path| loops(path)).map(|path| {
        let what = if is_rewrite { "rewrites without end" } else { "redirects without end" };
        format!("{what}: {path} leads back to this rule; exists = \"nothing\", or a pattern that leaves out where it leads, ends that")
    })
}

fn is_possible(rule: &Rule, kind: Kind) -> bool {
    match rule.on.exists {
        Some(Exists::File) => kind == Kind::File,
        Some(Exists::Directory) => kind == Kind::Directory,
        Some(Exists::Any) => kind != Kind::Nothing,
        // What the rule leads to exists as a rule: such rules are how front controllers are written.
        Some(Exists::Nothing) => false,
        _ => true,
    }
}

/// Paths that a rule may match.
fn samples(rule: &Rule) -> Vec<String> {
    let on = &rule.on;
    if matches!(on.exists, Some(Exists::Nothing)) {
        return Vec::new();
    }
    let mut all = on.path.clone();
    all.extend(on.prefix.iter().flat_map(|prefix| {
        let prefix = prefix.trim_end_matches('/');
        [format!("{prefix}/"), format!("{prefix}/a"), format!("{prefix}/a.html"), format!("{prefix}/a/b")]
    }));
    all.extend(
        ["/", "/a", "/a/b", "/a.html", "/a.php", "/index.php", "/img/a.png", "/2024/05/a", "/user/1"]
            .map(str::to_owned),
    );
    all
}

fn asked<'a>(rule: &'a Rule, path: &'a [u8], headers: &'a HeaderMap) -> Asked<'a> {
    let address = rule.on.address.iter().find_map(|network| match network {
        crate::network::Network::Ip(address, _) => Some(*address),
        crate::network::Network::Unix => None,
    });
    Asked {
        path,
        query: b"",
        host: rule.on.host.first().map_or("a.example", |host| host.trim_start_matches('*').trim_start_matches('.')),
        method: rule.on.method.first().map_or("GET", String::as_str),
        headers,
        address,
    }
}

/// Whether the path is decided by this rule at the first look, with headers that it wants: only such a sample says something.
fn is_first(table: &Table, rule: &Rule, asked: &Asked<'_>, kind: Kind) -> bool {
    let mut first = None;
    let _ = table.decide_with(asked, &All(kind), &mut |step| {
        if first.is_none() && step.fits && step.did.is_some() {
            first = Some(step.rule.place.clone());
        }
    });
    first.as_deref() == Some(rule.place.as_str())
}

fn rewrites_for_ever(table: &Table, rule: &Rule, path: &str, kind: Kind) -> bool {
    let headers = HeaderMap::new();
    let asked = asked(rule, path.as_bytes(), &headers);
    rule.on.header.is_empty()
        && is_first(table, rule, &asked, kind)
        && table.decide(&asked, &All(kind)).ending == Ending::Rewrites
}

fn redirects_for_ever(table: &Table, rule: &Rule, path: &str, kind: Kind) -> bool {
    let headers = HeaderMap::new();
    if !rule.on.header.is_empty() {
        return false;
    }
    let mut path = path.to_owned();
    for _ in 0..3 {
        let asked = asked(rule, path.as_bytes(), &headers);
        let verdict = table.decide(&asked, &All(kind));
        let is_same = verdict.by.is_some_and(|by| by.place == rule.place);
        let Ending::Redirect(_, location) = verdict.ending else { return false };
        let Ok(location) = String::from_utf8(location) else { return false };
        // Another host or scheme is another rule's, unless the rule says so of all.
        if !is_same || !location.starts_with('/') || location.contains(['?', '%']) {
            return false;
        }
        path = location;
    }
    true
}
