//! Lines of .htaccess that nobody honours: Reprise reads none of these files.

use std::path::Path;

use front::explain::{self, Question};
use front::settings::Application;
use http::HeaderMap;

use super::findings::{Check, Finding, Place, Severity};
use super::tree::Tree;

/// A longer file is not read.
const MOST_BYTES: u64 = 1 << 20;
/// Endings of what pages load.
const ASSETS: [&str; 15] =
    ["css", "scss", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "woff", "woff2", "ttf"];

/// Kinds of lines, with what does the same here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Password,
    Denial,
    Methods,
    Rewrite,
    Redirect,
    Php,
    Handler,
    Header,
    Page,
}

impl Kind {
    fn what(self) -> (&'static str, &'static str, Severity) {
        match self {
            Kind::Password => (
                "a password is asked for by .htaccess alone",
                "users = \"FILE\" in a rule for the path",
                Severity::Error,
            ),
            Kind::Denial => (
                "access is denied by .htaccess alone",
                "deny = true in a rule for the path, or move the files out of the root",
                Severity::Error,
            ),
            Kind::Methods => {
                ("limits of methods are not honoured", "a rule with method and deny = true", Severity::Notice)
            }
            Kind::Rewrite => {
                ("rules of mod_rewrite are not honoured", "a rule with rewrite, redirect or script", Severity::Warning)
            }
            Kind::Redirect => ("redirects are not honoured", "a rule with redirect", Severity::Warning),
            Kind::Php => (
                "settings of PHP are not honoured",
                "ini or admin_ini in the configuration, or a .user.ini",
                Severity::Warning,
            ),
            Kind::Handler => {
                ("handlers are not honoured", "a rule with php = false, or with script", Severity::Warning)
            }
            Kind::Header => ("headers are not honoured", "a rule with headers", Severity::Notice),
            Kind::Page => (
                "pages and types are not honoured",
                "index in the configuration; error pages are the application's",
                Severity::Notice,
            ),
        }
    }
}

/// All findings.
pub fn judge(tree: &Tree, root: &Path, application: &Application) -> Vec<Finding> {
    let mut found: Vec<(Kind, bool, Place)> = Vec::new();
    for entry in tree.entries.iter().filter(|entry| !entry.is_directory && entry.path.ends_with(".htaccess")) {
        let whole = tree.whole(entry);
        let is_below = whole.starts_with(root);
        if entry.size > MOST_BYTES || !is_below {
            continue;
        }
        let Ok(text) = std::fs::read(&whole) else { continue };
        let text = String::from_utf8_lossy(&text);
        let directory = whole.parent().unwrap_or(root);
        let reached = reached(tree, directory, root, application);
        for (number, line, kind) in lines(&text) {
            let is_open = match kind {
                // What the front does not send or run needs no denial.
                Kind::Denial | Kind::Password => reached.is_some(),
                _ => true,
            };
            if is_open {
                let more = match (kind, &reached) {
                    (Kind::Denial | Kind::Password, Some((target, _))) => format!("{line} ({target} is reached)"),
                    _ => line.to_owned(),
                };
                // A denial of some files may be of what is not there, and what pages load is no secret.
                let is_more = reached.as_ref().is_some_and(|(_, is_more)| *is_more);
                let is_partial = kind == Kind::Denial && (text.contains("<Files") || !is_more);
                found.push((kind, is_partial, Place::new(entry.name(), number, more)));
            }
        }
    }
    let mut findings = Vec::new();
    let mut kinds: Vec<(Kind, bool)> = found.iter().map(|(kind, is_partial, _)| (*kind, *is_partial)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for (kind, is_partial) in kinds {
        let places: Vec<Place> =
            found.iter().filter(|one| (one.0, one.1) == (kind, is_partial)).map(|one| one.2.clone()).collect();
        let (what, action, severity) = kind.what();
        let severity = if is_partial { Severity::Warning } else { severity };
        findings.push(Finding::new(Check::Htaccess, what, action).but(severity).at(places));
    }
    findings
}

/// A file of a directory that anybody gets or runs, and whether it is more than what pages load: styles, scripts of browsers, images, fonts.
fn reached(tree: &Tree, directory: &Path, root: &Path, application: &Application) -> Option<(String, bool)> {
    let headers = HeaderMap::new();
    let host = application.hosts.first().map_or("localhost", String::as_str).trim_start_matches("*.");
    let inside = tree.entries.iter().filter(|entry| !entry.is_directory && tree.whole(entry).starts_with(directory));
    let mut found = None;
    for entry in inside.take(500) {
        let whole = tree.whole(entry);
        let Some(target) = whole.strip_prefix(root).ok().and_then(Path::to_str).map(|path| format!("/{path}")) else {
            continue;
        };
        let question = Question { target: &target, host, method: "GET", headers: &headers, address: None };
        let answer = explain::explain(application, &question);
        let runs = answer.script.as_deref() == Some(target.as_str());
        if (answer.file.is_some() || runs) && answer.realms.is_empty() {
            let is_more = !target.rsplit_once('.').is_some_and(|(_, ending)| ASSETS.contains(&ending));
            if is_more {
                return Some((target, true));
            }
            found.get_or_insert((target, false));
        }
    }
    found
}

/// The lines that matter, with their numbers.
fn lines(text: &str) -> Vec<(u32, &str, Kind)> {
    let mut found = Vec::new();
    // A front controller is the default here, so its rules are honoured in another way.
    let is_controller = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(2).is_some_and(|target| {
            ["index.php", "/index.php", "-"].contains(&target.split('?').next().unwrap_or(""))
                || target.ends_with("/index.php")
                || target.ends_with("index.php/$1")
        })
    };
    let mut is_of_methods = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let lower = line.to_ascii_lowercase();
        let word = lower.split_whitespace().next().unwrap_or("");
        if lower.starts_with("<limit") || lower.starts_with("</limit") {
            is_of_methods = !lower.starts_with("</");
        }
        let kind = match word {
            "require" | "deny" if is_of_methods => Kind::Methods,
            "authtype" | "authuserfile" | "authbasicprovider" => Kind::Password,
            "require" if lower.contains("valid-user") || lower.starts_with("require user") => Kind::Password,
            "require" if lower.contains("denied") => Kind::Denial,
            "deny" if lower.contains("all") => Kind::Denial,
            "rewritecond" => {
                continue;
            }
            "rewriterule" if is_controller(line) && !lower.contains("[f") && !lower.contains(",f") => continue,
            "rewriterule" => Kind::Rewrite,
            "redirect" | "redirectmatch" | "redirectpermanent" => Kind::Redirect,
            "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => Kind::Php,
            "addhandler" | "sethandler" | "removehandler" | "action" => Kind::Handler,
            "header" | "requestheader" | "expiresactive" | "expiresbytype" | "expiresdefault" => Kind::Header,
            "errordocument" | "directoryindex" | "addtype" | "adddefaultcharset" | "forcetype" => Kind::Page,
            _ => continue,
        };
        found.push((number as u32 + 1, line, kind));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let text = "# Deny from all\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n\
                    RewriteRule ^old$ /new [R]\nphp_value memory_limit 1G\nRequire all denied\nAuthType Basic\nHeader set X y\n<LimitExcept GET>\nDeny from all\n</LimitExcept>\nDeny from all";
        let found: Vec<(u32, Kind)> = lines(text).into_iter().map(|(number, _, kind)| (number, kind)).collect();
        let expected = [
            (5, Kind::Rewrite),
            (6, Kind::Php),
            (7, Kind::Denial),
            (8, Kind::Password),
            (9, Kind::Header),
            (11, Kind::Methods),
            (13, Kind::Denial),
        ];
        assert_eq!(found, expected);
    }
}
