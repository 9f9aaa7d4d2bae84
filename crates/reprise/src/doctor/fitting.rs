//! Options that would fit the application better.

use super::findings::{Check, Finding, Place};
use super::host::of_option;
use super::mending::Mending;
use super::tree::Tree;
use crate::options::Application;
use crate::presets;

/// Frameworks whose presets have to be named, with what is in their trees.
const NAMED: [(&str, &[&str]); 2] =
    [("laravel", &["artisan", "bootstrap/app.php"]), ("symfony", &["bin/console", "config/bundles.php"])];

/// All findings.
pub fn judge(tree: &Tree, application: &Application) -> Vec<Finding> {
    let mut findings = Vec::new();
    let preset = application.preset.as_deref().filter(|name| !name.is_empty());
    let by_root = presets::of_root(&application.root).map(|preset| preset.name);
    let by_tree = NAMED.iter().find(|(_, signs)| signs.iter().all(|sign| tree.has(sign))).map(|(name, _)| *name);
    if let Some(fits) = by_root.or(by_tree).filter(|fits| preset != Some(*fits)) {
        let mending = Mending { application: 0, option: "preset".to_owned(), value: format!("\"{fits}\"") };
        let is_named = preset.map(|name| format!(", not {name}")).unwrap_or_default();
        let what = format!(
            "the tree says that this is {fits}{is_named}: its preset denies and rewrites what its makers document"
        );
        let action = format!("preset = \"{fits}\" in [[application]]");
        let place = of_option(application, "preset", preset.unwrap_or("no preset"));
        findings.push(Finding::new(Check::Preset, what, action).at([place]).mended_by(Some(mending)));
    }
    if !application.default_denials {
        let mending = Mending { application: 0, option: "default_denials".to_owned(), value: "true".to_owned() };
        let what = "default_denials is off: databases, dumps, keys and kept copies below the root are sent";
        let action = "leave it out, and let a rule send what shall be sent (allow = true)";
        let place: Place = of_option(application, "default_denials", "default_denials = false");
        findings.push(Finding::new(Check::Denials, what, action).at([place]).mended_by(Some(mending)));
    }
    findings
}
