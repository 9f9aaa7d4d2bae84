//! Versions of PHP: what does not compile, what is gone, what is not there yet, what is deprecated.

use std::collections::{BTreeMap, BTreeSet};

use supervisor::os::programs::PhpVersion;

use super::changes::{Change, Changes, What, instead, named, number};
use super::findings::{Check, Finding, Place, Severity, counted, is_foreign, is_test};
use super::reading::{Reader, Told};
use super::symbols::{Asked, Declared, Symbols};

/// What PHPs have said of all scripts, in their order.
pub struct Spoken {
    /// The PHP.
    pub reader: Reader,
    /// Its answers.
    pub told: Vec<Told>,
}

/// What is known of the application.
pub struct Facts<'a> {
    /// The paths of the scripts below the tree.
    pub names: &'a [String],
    /// What each installed PHP says. The first has looked at tokens.
    pub spoken: &'a [Spoken],
    /// The version that runs the application, if that is known.
    pub runs: Option<PhpVersion>,
    /// What that PHP has, with the application's settings.
    pub symbols: Option<&'a Symbols>,
}

/// All findings about versions.
pub fn judge(facts: &Facts<'_>, changes: &Changes) -> Vec<Finding> {
    let mut findings = Vec::new();
    for spoken in facts.spoken {
        findings.extend(compiled(facts, spoken));
    }
    findings.extend(deprecated(facts));
    if let Some(first) = facts.spoken.first() {
        findings.extend(used(facts, &first.told, changes));
    }
    findings
}

/// What a PHP does not compile, or only with a deprecation.
fn compiled(facts: &Facts<'_>, spoken: &Spoken) -> Vec<Finding> {
    let version = spoken.reader.version;
    let runs = facts.runs.is_none_or(|runs| runs == version);
    let (mut wrong, mut wrong_tests, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    // PHP's source under another name may be a template of code.
    let is_script = |name: &str| name.rsplit('.').next().is_some_and(|ending| ending.eq_ignore_ascii_case("php"));
    for (name, told) in facts.names.iter().zip(&spoken.told) {
        if let Some((line, text)) = &told.error {
            let text = if told.is_binary { format!("{text} (the file has zero bytes)") } else { text.clone() };
            if text.starts_with("Allowed memory size") || text.starts_with("Maximum execution time") {
                unread.push(Place::new(name, 0, text));
                continue;
            }
            let list = if is_test(name) || !is_script(name) { &mut wrong_tests } else { &mut wrong };
            list.push(Place::new(name, *line, text));
        }
        if let Some(why) = &told.ended {
            unread.push(Place::new(name, 0, why.clone()));
        }
    }
    let mut findings = Vec::new();
    let release = &spoken.reader.release;
    let action = "correct the lines; php -l FILE checks one";
    if !wrong.is_empty() {
        let what = format!("PHP {release} does not compile {}", counted(wrong.len(), "file"));
        let severity = if runs { Severity::Error } else { Severity::Warning };
        findings.push(Finding::new(Check::Syntax, what, action).but(severity).at(wrong));
    }
    if !wrong_tests.is_empty() {
        let what = format!(
            "PHP {release} does not compile {} of tests, or under other names than .php",
            counted(wrong_tests.len(), "file")
        );
        let action = "nothing, if they are wrong on purpose or templates of code; do not deploy tests";
        findings.push(Finding::new(Check::Syntax, what, action).but(Severity::Notice).at(wrong_tests));
    }
    if !unread.is_empty() {
        let what = format!("PHP {release} could not read {} to the end", counted(unread.len(), "file"));
        findings.push(Finding::new(Check::Unread, what, "look at the files").at(unread));
    }
    findings
}

/// What compilers call deprecated besides: what several versions say is said once.
fn deprecated(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found: BTreeMap<String, (BTreeSet<PhpVersion>, Vec<Place>)> = BTreeMap::new();
    for spoken in facts.spoken {
        for (name, told) in facts.names.iter().zip(&spoken.told) {
            for (line, text) in told.deprecated.iter().filter(|(_, text)| !is_in_tables(text)) {
                // Later versions say of which function.
                let text = text.split_once("(): ").map_or(text.as_str(), |(_, text)| text);
                let (versions, places) = found.entry(general(text)).or_default();
                versions.insert(spoken.reader.version);
                if places.iter().all(|known| known.file != *name || known.line != *line) {
                    places.push(Place::new(name, *line, text));
                }
            }
        }
    }
    let finding = |(text, (versions, places)): (String, (BTreeSet<PhpVersion>, Vec<Place>))| {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        let what = format!("deprecated, as PHP {} says: {text}", versions.join(", "));
        let action = "change the lines before a later PHP refuses them";
        Finding::new(Check::CompilerSays, what, action).at(places)
    };
    found.into_iter().map(finding).collect()
}

/// Whether the tables say the same: the tokens have been counted there already.
fn is_in_tables(text: &str) -> bool {
    text.starts_with("Using ${")
        || text.contains("Implicitly marking parameter")
        || text.starts_with("Non-canonical cast")
        || text.starts_with("The backtick")
}

/// The text up to the first name.
fn general(text: &str) -> String {
    let words = text.split(' ').take_while(|word| !word.contains(['$', '(', '\\', '\'', ':']));
    let known = words.collect::<Vec<_>>().join(" ");
    if known.is_empty() { text.to_owned() } else { format!("{known} …") }
}

/// Everything the tables know of, by what the code uses.
fn used(facts: &Facts<'_>, told: &[Told], changes: &Changes) -> Vec<Finding> {
    // A name that the tree declares is a polyfill, or the application's own.
    let own = Declared::by(facts.names, told);
    let mut found: BTreeMap<(What, u16, String, bool), Vec<Place>> = BTreeMap::new();
    for (name, told) in facts.names.iter().zip(told) {
        for (kind, used, line, guards) in &told.uses {
            if own.has(kind, used) {
                continue;
            }
            for change in changes.of(kind, used).iter().filter(|change| !is_guarded(change, guards)) {
                // An extension may still have it, and code that asks for one name of an extension has asked for all.
                let is_removed = change.what == What::Removed;
                let family = change.name.strip_suffix('*').map(str::to_ascii_lowercase);
                let is_there = facts.symbols.is_some_and(|symbols| symbols.has(kind, used));
                if is_removed && (is_there || Asked::by([told]).covers(used, family.as_deref())) {
                    continue;
                }
                // An extension that any script asks for is optional.
                let is_asked = |family: &String| own.asked.covers(used, Some(family));
                // A library that runs with PHP 8 at all has another way beside what PHP 7 had removed.
                let has_other = is_removed && change.version < 800 && is_foreign(name);
                let is_optional = is_test(name) || has_other || (is_removed && family.as_ref().is_some_and(is_asked));
                let text = match kind.as_str() {
                    "method" => format!("->{used}()"),
                    _ if change.name.ends_with('*') => used.clone(),
                    _ => change.name.clone(),
                };
                let key = (change.what, change.version, change.name.clone(), is_optional);
                found.entry(key).or_default().push(Place::new(name, *line, text));
            }
        }
    }
    let runs = facts.runs.map(number);
    let mut findings = Vec::new();
    for ((what, version, name, is_optional), places) in found {
        let severity = match (what, runs) {
            // Without a PHP that runs it, nothing is known to fail.
            (What::Removed, Some(runs)) if version <= runs => Severity::Error,
            (What::Removed, _) => Severity::Warning,
            (What::Added, Some(runs)) if version > runs => Severity::Error,
            (What::Added, _) => continue,
            (What::Deprecated, _) => Severity::Notice,
        };
        let severity = if is_optional { Severity::Notice } else { severity };
        findings.push(of_change(what, version, &name, runs).but(severity).at(places));
    }
    findings
}

fn of_change(what: What, version: u16, name: &str, runs: Option<u16>) -> Finding {
    let version = named(version);
    let (check, text) = match what {
        What::Removed => (Check::Removed, format!("PHP {version} has removed {name}")),
        What::Added => {
            let runs = runs.map(|runs| format!(", and PHP {} runs this", named(runs))).unwrap_or_default();
            (Check::Added, format!("{name} is there since PHP {version}{runs}"))
        }
        What::Deprecated => (Check::Deprecated, format!("PHP {version} deprecates {name}")),
    };
    let action = instead(name).map_or_else(
        || match what {
            What::Added => format!("run it with PHP {version} or later (php = \"{version}\"), or ask function_exists(), class_exists() or defined() before"),
            What::Removed => "replace it, or ask for it before: function_exists(), class_exists(), PHP_VERSION_ID".to_owned(),
            What::Deprecated => "replace it before a later PHP removes it".to_owned(),
        },
        str::to_owned,
    );
    Finding::new(check, text, action)
}

/// Whether the code asks for the version before: code for PHP before 8.0 cannot meet what 8.1 has removed, and code for 8.4 has
/// what 8.3 added. Where it asks for a version before 7, it is not this that it asks for.
fn is_guarded(change: &Change, guards: &[u32]) -> bool {
    let version = u32::from(change.version);
    guards.iter().any(|guard| match change.what {
        What::Added => *guard >= version,
        What::Removed | What::Deprecated => (700..=version).contains(guard),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(what: What, minor: u16) -> Change {
        Change { version: 800 + minor, what, name: "x".to_owned() }
    }

    #[test]
    fn versions_that_code_asks_for_are_guards() {
        assert!(is_guarded(&change(What::Added, 4), &[804]));
        assert!(is_guarded(&change(What::Added, 4), &[805]));
        assert!(!is_guarded(&change(What::Added, 4), &[803]));
        assert!(!is_guarded(&change(What::Added, 4), &[]));
        assert!(is_guarded(&change(What::Removed, 0), &[800]));
        assert!(is_guarded(&change(What::Deprecated, 5), &[800]));
        assert!(!is_guarded(&change(What::Removed, 0), &[804]));
        assert!(!is_guarded(&change(What::Removed, 0), &[503]));
    }

    #[test]
    fn later_versions_are_later() {
        let number = |text: &str| number(text.parse().unwrap());
        assert!(number("8.10") > number("8.4") && number("9.0") > number("8.10"));
        assert_eq!((named(810), named(704)), ("8.10".to_owned(), "7.4".to_owned()));
    }
}
