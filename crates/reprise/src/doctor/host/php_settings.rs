//! php.ini: the values that count, the lines that set them, and whether they fit the application.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::System;
use crate::doctor::findings::{Check, Finding, Place, Severity};
use crate::doctor::mending::Mending;
use crate::installed::Php;
use crate::options::Application;
use crate::php_ini;

/// PHP's own defaults.
const DEFAULTS: [(&str, &str); 7] = [
    ("opcache.enable", "1"),
    ("opcache.memory_consumption", "128"),
    ("opcache.interned_strings_buffer", "8"),
    ("opcache.max_accelerated_files", "10000"),
    ("opcache.jit_buffer_size", "0"),
    ("realpath_cache_size", "4096K"),
    ("memory_limit", "128M"),
];
/// Bytes of opcache's memory for a byte of source, as an estimate: comments take none, dense code takes more.
const COMPILED: u64 = 2;
/// Bytes of the realpath cache for a file: its own entry, and its share of those of directories.
const REALPATH: u64 = 200;

/// Settings, each with the place that sets it.
#[derive(Default)]
pub struct Tuned(BTreeMap<String, (String, Place)>);

/// Reads what sets PHP's settings for an application.
pub fn look(system: &System, application: &Application, php: Option<&Php>) -> Tuned {
    let mut all = BTreeMap::new();
    let own = php_ini::chosen(application).map(|(path, _)| path);
    if let Some(profile) = php.map(|php| PathBuf::from(&php.ini)).filter(|path| path.is_absolute()) {
        let profile = system.path(&profile.to_string_lossy());
        let main = own.unwrap_or_else(|| profile.join("php.ini"));
        let mut files = vec![main];
        let parts = std::fs::read_dir(profile.join("conf.d")).into_iter().flatten().flatten();
        let mut parts: Vec<PathBuf> =
            parts.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "ini")).collect();
        parts.sort();
        files.extend(parts);
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            for (number, line) in text.lines().enumerate() {
                if let Some((name, value)) = setting(line) {
                    all.insert(name.to_owned(), (value.to_owned(), Place::new(&file, number as u32 + 1, line.trim())));
                }
            }
        }
    }
    for (option, pairs) in [("ini", &application.ini), ("admin_ini", &application.admin_ini)] {
        for (name, value) in pairs {
            let place = super::of_option(application, &format!("{option}.{name}"), &format!("{name} = {value}"));
            all.insert(name.clone(), (value.clone(), place));
        }
    }
    Tuned(all)
}

/// Name and value of a line of php.ini.
fn setting(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with([';', '[', '#']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        Some(rest) => rest.split('"').next().unwrap_or(rest),
        None => value.split(';').next().unwrap_or(value).trim(),
    };
    Some((name.trim(), value))
}

impl Tuned {
    /// A value.
    pub fn get(&self, name: &str) -> &str {
        let default = DEFAULTS.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
        self.0.get(name).map_or(default, |(value, _)| value)
    }

    /// Where it is set.
    pub fn place(&self, name: &str) -> Place {
        match self.0.get(name) {
            Some((_, place)) => place.clone(),
            None => Place::new("php.ini", 0, format!("{name} = {} by default", self.get(name))),
        }
    }

    /// A number of bytes, as PHP writes it. -1 is any.
    pub fn bytes(&self, name: &str) -> u64 {
        let text = self.get(name).trim();
        if text.starts_with('-') {
            return u64::MAX >> 1;
        }
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..end].parse().unwrap_or(0);
        let shift = match text[end..].trim().chars().next().map(|unit| unit.to_ascii_uppercase()) {
            Some('K') => 10,
            Some('M') => 20,
            Some('G') => 30,
            _ => 0,
        };
        number.saturating_mul(1 << shift)
    }

    fn is_on(&self, name: &str) -> bool {
        !["", "0", "off", "no", "false", "none"].contains(&self.get(name).to_ascii_lowercase().as_str())
    }

    /// A number.
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }
}

/// What sets a value, in words and for the configuration file.
pub fn set(application: usize, name: &str, value: String) -> (String, Option<Mending>) {
    let mending = Mending {
        application,
        option: if name.contains('.') { format!("ini.\"{name}\"") } else { format!("ini.{name}") },
        value: format!("\"{value}\""),
    };
    (format!("{} = \"{value}\" in [[application]], or in php.ini {name} = {value}", mending.option), Some(mending))
}

/// Whether the settings fit an application with so many scripts, of so many bytes. `has_measured`: a running server has said what most of these
/// take in its opcache, so there is nothing to estimate.
pub fn judge(
    tuned: &Tuned,
    application: usize,
    (scripts, bytes): (usize, u64),
    extensions: Option<&BTreeSet<String>>,
    php: &Php,
    has_measured: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let set = |name: &str, value: String| set(application, name, value);
    if extensions.is_some_and(|all| !all.contains("zend opcache")) {
        let what = format!("PHP {} has no opcache: every request compiles its scripts", php.version);
        let action = format!("apt-get install php{}-opcache", php.minor);
        findings.push(Finding::new(Check::Opcache, what, action).at([Place::new(
            &php.ini,
            0,
            "no zend_extension = opcache",
        )]));
    } else if !tuned.is_on("opcache.enable") {
        let (action, mending) = set("opcache.enable", "1".to_owned());
        let what = "opcache is off: every request compiles its scripts";
        findings
            .push(Finding::new(Check::Opcache, what, action).at([tuned.place("opcache.enable")]).mended_by(mending));
    }
    let files = tuned.number("opcache.max_accelerated_files");
    if (scripts as u64) > files {
        let (action, mending) =
            set("opcache.max_accelerated_files", (scripts as u64 * 5 / 4).next_multiple_of(1000).to_string());
        let what = format!("opcache keeps {files} scripts, and the application has {scripts}");
        let place = tuned.place("opcache.max_accelerated_files");
        findings.push(Finding::new(Check::Opcache, what, action).at([place]).mended_by(mending));
    }
    let memory = tuned.number("opcache.memory_consumption") << 20;
    let needed = bytes * COMPILED;
    if needed > memory && !has_measured {
        let (action, mending) = set("opcache.memory_consumption", (needed >> 20).next_multiple_of(64).to_string());
        let what = format!("opcache has {} MB, and all scripts compiled take some {} MB", memory >> 20, needed >> 20);
        let severity = if bytes > memory { Severity::Warning } else { Severity::Notice };
        let place = tuned.place("opcache.memory_consumption");
        findings.push(Finding::new(Check::Opcache, what, action).but(severity).at([place]).mended_by(mending));
    }
    let strings = tuned.number("opcache.interned_strings_buffer");
    // An estimate, too: names and texts repeat from script to script.
    let wanted = (scripts as u64 / 500).max(4);
    if strings < wanted && !has_measured {
        let (action, mending) = set("opcache.interned_strings_buffer", wanted.next_multiple_of(8).to_string());
        let what = format!("opcache has {strings} MB for names and texts, and {scripts} scripts take some {wanted} MB");
        let place = tuned.place("opcache.interned_strings_buffer");
        findings.push(Finding::new(Check::Opcache, what, action).but(Severity::Notice).at([place]).mended_by(mending));
    }
    let paths = tuned.bytes("realpath_cache_size");
    if scripts as u64 * REALPATH > paths {
        let kilobytes = ((scripts as u64 * REALPATH * 2) >> 10).next_multiple_of(1024);
        let (action, mending) = set("realpath_cache_size", format!("{kilobytes}K"));
        let what = format!(
            "the realpath cache has {} KB, and the paths of {scripts} scripts take some {} KB",
            paths >> 10,
            (scripts as u64 * REALPATH) >> 10
        );
        findings.push(
            Finding::new(Check::RealpathCache, what, action)
                .at([tuned.place("realpath_cache_size")])
                .mended_by(mending),
        );
    }
    findings.extend(jit(tuned));
    findings
}

/// A JIT that is asked for and has no memory, or has memory and is off.
fn jit(tuned: &Tuned) -> Option<Finding> {
    let buffer = tuned.bytes("opcache.jit_buffer_size");
    let is_written = tuned.0.contains_key("opcache.jit");
    let mode = tuned.get("opcache.jit").to_ascii_lowercase();
    let is_off = ["disable", "off", "0", "no"].contains(&mode.as_str());
    let (what, place) = match (is_written, is_off, buffer) {
        (true, false, 0) => (
            "opcache.jit asks for the JIT, and opcache.jit_buffer_size gives it no memory, so it is off",
            "opcache.jit",
        ),
        (true, true, 1..) => (
            "opcache.jit_buffer_size reserves memory for a JIT that opcache.jit switches off",
            "opcache.jit_buffer_size",
        ),
        _ => return None,
    };
    let action = "opcache.jit_buffer_size = 64M and opcache.jit = tracing, or leave both out";
    Some(Finding::new(Check::Jit, what, action).at([tuned.place(place)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(pairs: &[(&str, &str)]) -> Tuned {
        let pair = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), ((*value).to_owned(), Place::new("php.ini", 1, *value)))
        };
        Tuned(pairs.iter().map(pair).collect())
    }

    #[test]
    fn lines_of_php_ini_are_read() {
        assert_eq!(setting("memory_limit = 1G ; much"), Some(("memory_limit", "1G")));
        assert_eq!(setting("a=\"x;y\""), Some(("a", "x;y")));
        assert_eq!(setting("; a = b"), None);
        assert_eq!(setting("[opcache]"), None);
    }

    #[test]
    fn sizes_are_phps() {
        let all = tuned(&[("memory_limit", "-1"), ("a", "64M"), ("b", "2k"), ("c", "17")]);
        assert!(all.bytes("memory_limit") > 1 << 60);
        assert_eq!((all.bytes("a"), all.bytes("b"), all.bytes("c")), (64 << 20, 2 << 10, 17));
        assert_eq!(all.bytes("realpath_cache_size"), 4 << 20, "its default");
    }

    #[test]
    fn a_jit_without_memory_is_told_of() {
        assert!(jit(&tuned(&[])).is_none());
        assert!(jit(&tuned(&[("opcache.jit", "tracing")])).is_some());
        assert!(jit(&tuned(&[("opcache.jit", "tracing"), ("opcache.jit_buffer_size", "64M")])).is_none());
        assert!(jit(&tuned(&[("opcache.jit", "off"), ("opcache.jit_buffer_size", "64M")])).is_some());
    }
}
