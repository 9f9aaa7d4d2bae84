//! Scripts that the configuration names: `front_controller` and the keys of `mode`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use front::routing::rule::Action;
use toml::de::DeValue;

use super::super::Mode;
use super::super::reader::Given;
use super::super::value::Value;
use super::Application;
use crate::exit::Failure;

/// What is wrong with a script's name, and a hint.
struct Wrong {
    why: String,
    hint: Option<String>,
}

fn look_at_name(script: &str) -> Result<(), Wrong> {
    match script.split('/').any(|segment| segment == "..") {
        true => Err(Wrong { why: format!("{script} is outside the root"), hint: None }),
        false => Ok(()),
    }
}

/// Looks for the script as the front will: a file below the root, or one that a symbolic link there leads to, as `follow`
/// allows.
fn look(root: &Path, follow: &[PathBuf], script: &str) -> Result<(), Wrong> {
    let wrong = |why, hint| Err(Wrong { why, hint });
    look_at_name(script)?;
    let Some(real) = root.join(script).canonicalize().ok().filter(|real| real.is_file()) else {
        return wrong(format!("{script} is not a file in {}", root.display()), None);
    };
    if std::iter::once(root).chain(follow.iter().map(PathBuf::as_path)).any(|allowed| real.starts_with(allowed)) {
        return Ok(());
    }
    let directory = real.parent().unwrap_or(&real).display();
    let hint = format!("follow = [\"{directory}\"] allows symbolic links to lead there");
    wrong(format!("{script} leads to {}, which is outside the root", real.display()), Some(hint))
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
        None => look(&application.root, &application.follow, script),
    };
    found.map_err(|Wrong { why, hint }| {
        let failure = given.file.fail(at, format!("{what} {why}"));
        hint.into_iter().fold(failure, Failure::hint)
    })
}

/// The option that names a script which the release of an application does not have, and why it has not.
pub fn missing(application: &Application) -> Option<(&'static str, String)> {
    let rule = |action: &Option<Action>| match action {
        Some(Action::Script(script) | Action::FrontController(script)) => Some(("route", script.clone())),
        _ => None,
    };
    let controller = application.front_controller.iter().map(|script| ("front_controller", script.clone()));
    let modes = application.mode.keys().map(|script| ("mode", script.clone()));
    let mut all = controller.chain(modes).chain(application.route.iter().filter_map(|one| rule(&one.action)));
    all.find_map(|(option, script)| {
        let looked = look(&application.root, &application.follow, script.trim_start_matches('/'));
        looked.err().map(|wrong| (option, wrong.why))
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
        process::plan::script_name(script.as_bytes())
            .map_err(|why| given.file.fail(at, format!("script {script:?}: {why}")))?;
        check(given, at, "script", application, &script[1..])?;
        let name = format!("{}.{key}", given.name);
        modes.insert(script, Mode::read(&given.part(&name, value))?);
    }
    Ok(modes)
}
