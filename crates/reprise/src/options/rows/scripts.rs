//! Scripts that the configuration names: `front_controller` and the keys of `mode`.

use std::collections::BTreeMap;
use std::path::Path;

use routing::explain::{self, Refused};
use routing::rules::rule::Action;
use toml::de::DeValue;

use super::super::Mode;
use super::super::reader::Given;
use super::super::value::Value;
use super::Application;
use crate::exit::Failure;

fn look_at_name(script: &str) -> Result<(), String> {
    match script.split('/').any(|segment| segment == "..") {
        true => Err(format!("{script} is outside the root")),
        false => Ok(()),
    }
}

/// Looks for a script: a file below the root, or one that a symbolic link there leads to. Whether the link is followed depends on all
/// options: [`refused`].
fn look(root: &Path, script: &str) -> Result<(), String> {
    look_at_name(script)?;
    match root.join(script).is_file() {
        true => Ok(()),
        false => Err(format!("{script} is not a file in {}", root.display())),
    }
}

pub(super) fn check(
    given: &Given<'_, '_>,
    at: usize,
    what: &str,
    application: &Application,
    script: &str,
) -> Result<(), Failure> {
    // What a release has is known when it is unpacked: `missing`.
    let found = match application.release_pool {
        Some(_) => look_at_name(script),
        None => look(&application.root, script),
    };
    found.map_err(|why| given.file.fail(at, format!("{what} {why}")))
}

/// The scripts that options name, each with its option.
fn named(application: &Application) -> impl Iterator<Item = (&'static str, &str)> {
    let controller = application.front_controller.iter().map(|script| ("front_controller", script.as_str()));
    let modes = application.mode.keys().map(|script| ("mode", script.as_str()));
    let rules = application.route.iter().filter_map(|rule| match &rule.action {
        Some(Action::Script(script) | Action::FrontController(script)) => Some(("route", script.as_str())),
        _ => None,
    });
    controller.chain(modes).chain(rules)
}

/// The option that names a script which the release of an application does not have, and why it has not.
pub fn missing(application: &Application) -> Option<(&'static str, String)> {
    named(application).find_map(|(option, script)| {
        let looked = look(&application.root, script.trim_start_matches('/'));
        looked.err().map(|why| (option, why))
    })
}

/// The option that names a script to which a symbolic link leads that the front does not follow, and what the front says of it.
pub fn refused(application: &Application, front: &routing::settings::Application) -> Option<(&'static str, Refused)> {
    named(application).find_map(|(option, script)| {
        let path = format!("/{}", script.trim_start_matches('/'));
        Some((option, explain::refused_link(front, &path)?))
    })
}

/// The front controller's path below the root; empty: there is none.
pub(super) fn front_controller(given: &Given<'_, '_>, application: &Application) -> Result<Option<String>, Failure> {
    let script = String::read(given)?;
    let script = script.trim_start_matches('/');
    if script.is_empty() {
        return Ok(None);
    }
    check(given, given.item.span().start, "front controller", application, script)?;
    Ok(Some(script.to_owned()))
}

/// Modes by script, which may be written with or without its first slash.
pub(super) fn modes(given: &Given<'_, '_>, application: &Application) -> Result<BTreeMap<String, Mode>, Failure> {
    let mut modes = BTreeMap::new();
    for (key, value) in given.table()?.iter() {
        let (at, key) = (key.span().start, key.get_ref());
        let script = format!("/{}", key.trim_start_matches('/'));
        if let DeValue::Table(_) = value.get_ref() {
            let failure = given.file.fail(at, format!("'{key}' holds a table"));
            return Err(failure.hint("quote names with dots: mode.\"index.php\" = \"snapshot\""));
        }
        supervisor::plan::script_name(script.as_bytes())
            .map_err(|why| given.file.fail(at, format!("script {script:?}: {why}")))?;
        check(given, at, "script", application, &script[1..])?;
        let name = format!("{}.{key}", given.name);
        modes.insert(script, Mode::read(&given.part(&name, value))?);
    }
    Ok(modes)
}
