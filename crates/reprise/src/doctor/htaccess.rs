//! Lines of .htaccess that nobody honours: Reprise reads none of these files. A denial is a finding if the front sends or runs a file that
//! Apache would not.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use http::HeaderMap;
use routing::explain::{self, Question};
use routing::settings::Application;
use supervisor::os::user;

use super::exposed::Users;
use super::findings::{Check, Finding, Place, Severity};
use super::tree::{Entry, Tree};
use crate::apache::asked::{Asked, Patterns, Scope};
use crate::apache::denied;
use crate::apache::directives::{Directive, in_force, parse};
use crate::apache::rewriting;

/// A longer file is not read.
const MOST_BYTES: u64 = 1 << 20;
/// Files that the front's routing is asked for.
const MOST_FILES: usize = 20_000;
/// Bit of a mode: the directory may be written to.
const WRITE: u32 = 2;
/// Endings of what pages load.
const ASSETS: [&str; 15] =
    ["css", "scss", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "woff", "woff2", "ttf"];
/// Names, without their endings, of texts that are published with an application.
const PUBLISHED: [&str; 8] =
    ["authors", "changelog", "changes", "contributing", "copying", "license", "news", "readme"];
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
    Upload,
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
            Kind::Upload => (
                "scripts are kept from running by .htaccess alone, in a directory that PHP's user can write to: whoever uploads a script runs it",
                "php = false in a rule for the path",
                Severity::Error,
            ),
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
pub fn judge(tree: &Tree, root: &Path, application: &Application, users: &Users<'_>) -> Vec<Finding> {
    let scopes = scopes(tree, root);
    let mut found = reached(tree, root, application, users, &scopes);
    for scope in &scopes {
        let directory = root.join(scope.directory.trim_start_matches('/'));
        let takes_uploads = takes_uploads(&directory, root, application, users);
        for (line, text, kind) in lines(&scope.directives) {
            let kind = if takes_uploads && denies_scripts(text) { Kind::Upload } else { kind };
            found.push((kind, false, Place::new(&scope.file, line, text)));
        }
    }
    let mut kinds: Vec<(Kind, bool)> = found.iter().map(|(kind, is_partial, _)| (*kind, *is_partial)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let finding = |(kind, is_partial): (Kind, bool)| {
        let places = found.iter().filter(|one| (one.0, one.1) == (kind, is_partial)).map(|one| one.2.clone());
        let (what, action, severity) = kind.what();
        let severity = if is_partial { Severity::Warning } else { severity };
        Finding::new(Check::Htaccess, what, action).but(severity).at(places)
    };
    kinds.into_iter().map(finding).collect()
}

/// The files below the root, the outer ones before the inner ones.
fn scopes(tree: &Tree, root: &Path) -> Vec<Scope> {
    let read = |entry: &Entry| {
        let whole = tree.whole(entry);
        let below = whole.strip_prefix(root).ok()?.parent()?;
        let text = std::fs::read(&whole).ok()?;
        let directory = match below.to_str()? {
            "" => String::new(),
            below => format!("/{below}"),
        };
        let directives = in_force(parse(&String::from_utf8_lossy(&text)));
        Some(Scope { file: entry.name(), directory, directives })
    };
    let is_one = |entry: &&Entry| !entry.is_directory && entry.path.ends_with(".htaccess") && entry.size <= MOST_BYTES;
    let mut scopes: Vec<Scope> = tree.entries.iter().filter(is_one).filter_map(read).collect();
    scopes.sort_by(|a, b| a.directory.cmp(&b.directory));
    scopes
}

/// Denials of what anybody gets or runs: for each directive that denies, one file. A file that shows what is in it is worse than a harmless one,
/// and than a script, of which only its output is seen. A password before a script is as bad.
fn reached(
    tree: &Tree,
    root: &Path,
    application: &Application,
    users: &Users<'_>,
    scopes: &[Scope],
) -> Vec<(Kind, bool, Place)> {
    let headers = HeaderMap::new();
    let host = application.hosts.first().map_or("localhost", String::as_str).trim_start_matches("*.");
    let mut found: BTreeMap<(&str, u32), (Kind, bool, Place)> = BTreeMap::new();
    let (mut left, patterns) = (MOST_FILES, Patterns::default());
    for entry in tree.entries.iter().filter(|entry| !entry.is_directory) {
        let whole = tree.whole(entry);
        let Some(target) = whole.strip_prefix(root).ok().and_then(Path::to_str).map(|path| format!("/{path}")) else {
            continue;
        };
        let is_on_way =
            |scope: &&Scope| target.strip_prefix(scope.directory.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let on_way: Vec<&Scope> = scopes.iter().filter(is_on_way).collect();
        let asked = Asked { patterns: &patterns, path: &target, file: &whole.to_string_lossy() };
        let Some(denial) = denied::denial(&on_way, &asked) else { continue };
        let key = (denial.scope.file.as_str(), denial.by.line);
        let is_harmless = is_harmless(&target);
        if left == 0 || found.get(&key).is_some_and(|(_, is_partial, _)| is_harmless || !is_partial) {
            continue;
        }
        left -= 1;
        let question = Question { target: &target, host, method: "GET", headers: &headers, address: None };
        let answer = explain::explain(application, &question);
        let runs = answer.script.as_deref() == Some(target.as_str());
        let is_reached = (answer.file.is_some() && users.can_send(&whole)) || (runs && users.can_run(&whole));
        if is_reached && answer.realms.is_empty() {
            let kind = match denial.kind {
                denied::Kind::Password => Kind::Password,
                denied::Kind::Denial => Kind::Denial,
            };
            let is_partial = is_harmless || (runs && kind == Kind::Denial);
            if is_partial && found.contains_key(&key) {
                continue;
            }
            let text = format!("{} ({target} is reached)", denial.by.text);
            found.insert(key, (kind, is_partial, Place::new(denial.scope.file.as_str(), denial.by.line, text)));
        }
    }
    found.into_values().collect()
}

/// Whether a file is one that pages load (styles, scripts of browsers, images, fonts), or a text that is published anyway.
fn is_harmless(target: &str) -> bool {
    let name = target.rsplit_once('/').map_or(target, |(_, name)| name);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    ASSETS.contains(&ending) || PUBLISHED.contains(&stem.to_ascii_lowercase().as_str())
}

/// Whether PHP's user can write scripts to a directory that would run.
fn takes_uploads(directory: &Path, root: &Path, application: &Application, users: &Users<'_>) -> bool {
    let rights = std::fs::metadata(directory).map(|found| (found.uid(), found.gid(), found.mode()));
    let is_writable = users.php.zip(rights.ok()).is_some_and(|(user, rights)| user::permits(user, rights, WRITE));
    let below = directory.strip_prefix(root).ok().and_then(Path::to_str).filter(|_| is_writable);
    below.is_some_and(|below| {
        let target = format!("/{below}/upload.php").replace("//", "/");
        let host = application.hosts.first().map_or("localhost", String::as_str).trim_start_matches("*.");
        let question = Question { target: &target, host, method: "GET", headers: &HeaderMap::new(), address: None };
        let answer = explain::explain(application, &question);
        let is_denied = answer.by.is_some() && answer.status.is_some();
        !answer.is_php_off && !is_denied && answer.realms.is_empty()
    })
}

/// Whether a line was to keep scripts from running.
fn denies_scripts(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    match words[..] {
        ["sethandler", handler, ..] => !handler.contains("php"),
        ["removehandler" | "removetype", ..] => true,
        ["php_flag" | "php_admin_flag", "engine", value, ..] => {
            matches!(value.trim_matches('"'), "off" | "0" | "false")
        }
        _ => false,
    }
}

/// The lines that matter besides denials of what GET asks for.
fn lines(directives: &[Directive]) -> Vec<(u32, &str, Kind)> {
    let mut found = Vec::new();
    let mut conditions: Vec<&Directive> = Vec::new();
    for one in directives {
        let has_get = one.arguments.iter().any(|method| method.eq_ignore_ascii_case("get"));
        let kind = match one.name.as_str() {
            "rewritecond" => {
                conditions.push(one);
                continue;
            }
            "rewriterule" => {
                let conditions = std::mem::take(&mut conditions);
                let is_denial = rewriting::denies(one);
                // Whether a denial is of a file that is there has been asked already. A front controller is the default here.
                if (is_denial && rewriting::is_known(&conditions)) || (!is_denial && is_controller(one)) {
                    continue;
                }
                Kind::Rewrite
            }
            "redirect" | "redirectmatch" if denied::denies_by_status(one) => continue,
            "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" => Kind::Redirect,
            "<limit" if !has_get => Kind::Methods,
            "<limitexcept" if has_get => Kind::Methods,
            "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => Kind::Php,
            "addhandler" | "sethandler" | "removehandler" | "removetype" | "action" => Kind::Handler,
            "header" | "requestheader" | "expiresactive" | "expiresbytype" | "expiresdefault" => Kind::Header,
            "errordocument" | "directoryindex" | "addtype" | "adddefaultcharset" | "forcetype" => Kind::Page,
            name if name.starts_with('<') => {
                found.extend(lines(&one.inside));
                continue;
            }
            _ => continue,
        };
        found.push((one.line, one.text.as_str(), kind));
    }
    found
}

fn is_controller(rule: &Directive) -> bool {
    let target = rule.argument(1);
    ["index.php", "/index.php", "-"].contains(&target.split('?').next().unwrap_or(""))
        || target.ends_with("/index.php")
        || target.ends_with("index.php/$1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let text = "# Deny from all\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n\
                    RewriteRule ^old$ /new [R]\nphp_value memory_limit 1G\nRequire all denied\nAuthType Basic\nHeader set X y\n<LimitExcept GET>\nDeny from all\n</LimitExcept>\nDeny from all\n\
                    RewriteCond %{HTTP_USER_AGENT} bad\nRewriteRule . - [F]\nRewriteRule ^conf/ - [F]\nRedirect gone /a\n<IfModule mod_php5.c>\nphp_flag a on\n</IfModule>";
        let directives = in_force(parse(text));
        let found: Vec<(u32, Kind)> = lines(&directives).into_iter().map(|(number, _, kind)| (number, kind)).collect();
        let expected =
            [(5, Kind::Rewrite), (6, Kind::Php), (9, Kind::Header), (10, Kind::Methods), (15, Kind::Rewrite)];
        assert_eq!(found, expected);
    }
}
