//! Presets: what usual configurations of nginx for an application deny and rewrite, as rules (presets/*.toml). An application
//! gets the preset that its tree says it is, unless `preset` names another one or none.

use std::path::Path;

use routing::rules::rule::{Action, Rule};
use toml::de::DeTable;

use crate::exit::{Code, Failure};
use crate::options::{File, read_rules};

/// A preset.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    text: &'static str,
    /// Paths below the root that are there if the application is this one. Empty: the preset has to be named.
    signs: &'static [&'static str],
}

macro_rules! presets {
    ($($name:literal: $signs:expr;)*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("presets/", $name, ".toml")), signs: &$signs }),*]
    };
}

/// All presets; the first whose signs are all there is taken.
pub const ALL: &[Preset] = presets! {
    "wordpress": ["wp-includes/version.php", "wp-load.php", "wp-login.php"];
    "mediawiki": ["includes/Defines.php", "load.php", "api.php", "thumb.php"];
    "dokuwiki": ["doku.php", "lib/exe/fetch.php", "inc/init.php"];
    "nextcloud": ["version.php", "status.php", "remote.php", "ocs/v2.php"];
    "drupal": ["core/lib/Drupal.php", "core/includes/bootstrap.inc"];
    "phpmyadmin": ["libraries/vendor_config.php", "index.php", "themes"];
    "roundcube": ["program/include/iniset.php", "program/js/app.js"];
    "kanboard": ["app/constants.php", "app/common.php", "jsonrpc.php"];
    "mybb": ["inc/class_core.php", "showthread.php", "forumdisplay.php"];
    "shaarli": ["shaarli_version.php", "application/bookmark"];
    // Their roots hold what is published and nothing else, and perhaps further scripts on purpose: these two have to be named.
    "laravel": [];
    "symfony": [];
};

/// The preset of that name.
pub fn named(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The preset that a document root says it is.
pub fn of_root(root: &Path) -> Option<&'static Preset> {
    ALL.iter()
        .filter(|preset| !preset.signs.is_empty())
        .find(|preset| preset.signs.iter().all(|sign| root.join(sign).exists()))
}

impl Preset {
    /// Its rules.
    pub fn rules(&self) -> Result<Vec<Rule>, Failure> {
        let path = Path::new("preset").join(self.name);
        let file = File { path: &path, base: Path::new(""), text: self.text, main: None };
        let table = self.table()?;
        let item = table.get("route").ok_or_else(|| self.failed("has no rules"))?;
        read_rules(&file, item)
    }

    /// Paths below which its build tools write files with a fingerprint in their names.
    pub fn fingerprinted(&self) -> Result<Vec<String>, Failure> {
        let table = self.table()?;
        let Some(item) = table.get("fingerprinted") else { return Ok(Vec::new()) };
        let paths = item.get_ref().as_array().into_iter().flatten();
        let texts = paths.map(|path| path.get_ref().as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(|| self.failed("fingerprinted: no texts"))
    }

    fn table(&self) -> Result<DeTable<'static>, Failure> {
        Ok(DeTable::parse(self.text).map_err(|error| self.failed(error))?.into_inner())
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(Code::Internal, format!("preset {}", self.name), why)
    }
}

/// What rules deny, in a line.
pub fn denials(rules: &[Rule]) -> String {
    let denied = rules.iter().filter(|rule| matches!(rule.action, Some(Action::Deny(_))) || rule.also.is_php_off);
    let shown = denied.map(|rule| match rule.also.is_php_off {
        true => format!("scripts below {}", rule.on.prefix.join(" ")),
        false => {
            rule.on.pattern.clone().unwrap_or_else(|| [rule.on.prefix.clone(), rule.on.path.clone()].concat().join(" "))
        }
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PRESETS;
    use routing::rules::faults;

    #[test]
    fn the_option_knows_all_presets() {
        let names: Vec<&str> = ALL.iter().map(|preset| preset.name).collect();
        assert!(names.len() == PRESETS.len() && PRESETS.iter().all(|name| named(name).is_some()), "{names:?}");
    }

    #[test]
    fn all_presets_are_rules_without_faults() {
        for preset in ALL {
            let rules = preset.rules().unwrap_or_else(|failure| panic!("{}: {failure}", preset.name));
            assert!(rules.iter().all(|rule| rule.is_preset), "{}", preset.name);
            assert_eq!(faults::find(&rules, &[]), [], "{}", preset.name);
            assert!(!denials(&rules).is_empty(), "{}", preset.name);
            let paths = preset.fingerprinted().unwrap_or_else(|failure| panic!("{}: {failure}", preset.name));
            assert_eq!(!paths.is_empty(), ["symfony", "laravel"].contains(&preset.name), "{}", preset.name);
        }
    }
}
