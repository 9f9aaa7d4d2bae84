//! opcache's sizes against what a running server measured.

use std::collections::BTreeMap;
use std::path::Path;

use control::status::{Opcache, Stage};
use control::which::Which;

use super::php_settings::{Tuned, set};
use crate::admin;
use crate::doctor::findings::{Check, Finding, Place};

/// The part of what there is that may be taken, in percent. Beyond it the next release of the application does not fit.
const MAY_BE_TAKEN: u64 = 90;

/// What the server of a configuration file says of the opcache of each application, by its name. Nothing, if none runs.
pub fn ask(config: Option<&Path>) -> BTreeMap<String, Opcache> {
    let which = |config: &Path| Which { config: Some(config.to_owned()), name: None, state_dir: None };
    let Some(status) = config.and_then(|config| admin::look(&which(config)).ok()) else { return BTreeMap::new() };
    let serving = |(name, generations): (String, Vec<control::status::Generation>)| {
        let serves = generations.into_iter().find(|generation| matches!(generation.stage, Stage::Serving))?;
        Some((name, serves.opcache.filter(|opcache| opcache.memory > 0)?))
    };
    status.applications.into_iter().filter_map(serving).collect()
}

/// In words.
pub fn described(opcache: &Opcache) -> String {
    format!(
        "{} scripts in {} of {} MB, {} of {} paths, names and texts in {} of {} KB",
        opcache.scripts,
        opcache.used.div_ceil(1 << 20),
        opcache.memory >> 20,
        opcache.keys,
        opcache.most_keys,
        opcache.strings >> 10,
        opcache.strings_memory >> 10
    )
}

/// What is nearly full. A setting that was raised since is left alone: the server has not read it yet.
pub fn judge(tuned: &Tuned, application: usize, opcache: &Opcache) -> Vec<Finding> {
    let (used, memory) = (opcache.used + opcache.wasted, opcache.memory);
    let wanted = |taken: u64, step: u64| (taken.saturating_mul(3) / 2).next_multiple_of(step).max(step);
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    [
        ("opcache.memory_consumption", used, memory, 1 << 20, wanted(megabytes(used), 64), "memory"),
        ("opcache.max_accelerated_files", opcache.keys, opcache.most_keys, 1, wanted(opcache.keys, 1000), "paths"),
        (
            "opcache.interned_strings_buffer",
            opcache.strings,
            opcache.strings_memory,
            1 << 20,
            wanted(megabytes(opcache.strings), 8),
            "memory for names and texts",
        ),
    ]
    .into_iter()
    .filter(|(name, taken, there, unit, ..)| {
        let is_raised = tuned.number(name).saturating_mul(*unit) > there.saturating_add(*unit);
        *there > 0 && taken.saturating_mul(100) > there.saturating_mul(MAY_BE_TAKEN) && !is_raised
    })
    .map(|(name, taken, there, _, value, of)| {
        let percent = (taken * 100 / there).min(100);
        let (action, mending) = set(application, name, value.to_string());
        let what = format!("opcache has used {percent} % of its {of}, as the running server measured");
        let measured = Place::new("reprise status", 0, described(opcache));
        Finding::new(Check::Opcache, what, action).at([tuned.place(name), measured]).mended_by(mending)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(taken: [u64; 3]) -> Vec<String> {
        let opcache = Opcache {
            used: taken[0] << 20,
            memory: 128 << 20,
            keys: taken[1],
            most_keys: 16229,
            strings: taken[2] << 20,
            strings_memory: 8 << 20,
            ..Opcache::default()
        };
        judge(&Tuned::default(), 0, &opcache).into_iter().map(|found| found.action).collect()
    }

    #[test]
    fn what_is_nearly_full_is_found() {
        assert_eq!(of([100, 14000, 7]), Vec::<String>::new());
        assert!(of([120, 0, 0])[0].contains("opcache.memory_consumption = 192"));
        assert!(of([0, 16000, 0])[0].contains("opcache.max_accelerated_files = 24000"));
        assert!(of([0, 0, 8])[0].contains("opcache.interned_strings_buffer = 16"));
        assert_eq!(of([128, 16229, 8]).len(), 3);
    }
}
