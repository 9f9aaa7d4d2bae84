//! Scripts that the configuration names: `front_controller` and the keys of `mode`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::file::{File, Item};
use super::{Application, Mode};
use crate::exit::Failure;

/// What is wrong with a script's name, and what would help.
struct Wrong {
    why: String,
    hint: Option<String>,
}

/// Looks where the front will: a file below the root, or one that a symbolic link in it leads to, as `follow` allows.
fn look(root: &Path, follow: &[PathBuf], script: &str) -> Result<(), Wrong> {
    let wrong = |why, hint| Err(Wrong { why, hint });
    if script.split('/').any(|segment| segment == "..") {
        return wrong(format!("{script} is outside the root"), None);
    }
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

impl File<'_> {
    fn script(&self, at: usize, what: &str, application: &Application, script: &str) -> Result<(), Failure> {
        look(&application.root, &application.follow, script).map_err(|Wrong { why, hint }| {
            let failure = self.fail(at, format!("{what} {why}"));
            hint.into_iter().fold(failure, Failure::hint)
        })
    }

    /// The front controller's path below the root; empty: there is none.
    pub(super) fn front_controller(
        &self,
        name: &str,
        item: &Item<'_>,
        application: &Application,
    ) -> Result<Option<String>, Failure> {
        let script = self.text(name, item)?;
        let script = script.trim_start_matches('/');
        if script.is_empty() {
            return Ok(None);
        }
        self.script(item.span().start, "front controller", application, script)?;
        Ok(Some(script.to_owned()))
    }

    /// Modes by script, which may be written with or without its first slash.
    pub(super) fn modes(
        &self,
        name: &str,
        item: &Item<'_>,
        application: &Application,
    ) -> Result<BTreeMap<String, Mode>, Failure> {
        const WORDS: [(&str, Mode); 4] =
            [("auto", Mode::Auto), ("classic", Mode::Classic), ("snapshot", Mode::Snapshot), ("worker", Mode::Worker)];
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong(item, name, crate::options::Kind::Table));
        };
        let mut modes = BTreeMap::new();
        for (key, value) in table.iter() {
            let at = key.span().start;
            let script = format!("/{}", key.get_ref().trim_start_matches('/'));
            if let DeValue::Table(_) = value.get_ref() {
                let failure = self.fail(at, format!("'{}' holds a table", key.get_ref()));
                return Err(failure.hint("quote names with dots: mode.\"index.php\" = \"snapshot\""));
            }
            process::plan::script_name(script.as_bytes())
                .map_err(|why| self.fail(at, format!("script {script:?}: {why}")))?;
            self.script(at, "script", application, &script[1..])?;
            modes.insert(script, self.word(&format!("{name}.{}", key.get_ref()), value, &WORDS)?);
        }
        Ok(modes)
    }
}
