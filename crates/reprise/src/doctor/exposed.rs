//! What strangers reach: files that no site wants sent, by asking the front's own routing for each, and scripts that show or change
//! what nobody should.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use http::HeaderMap;
use routing::explain::{self, Question, source};
use routing::settings::Application;
use supervisor::os::user::{self, Identity};

use super::findings::{Check, Finding, Place, Severity, counted, is_test};
use super::reading::Told;
use super::secrets::Secret;
use super::tree::Tree;

/// Names that no site wants sent, with why. An ending begins with a dot.
const ENDINGS: [(&str, &str); 34] = [
    (".sql", "a dump of a database"),
    (".dump", "a dump of a database"),
    (".sqlite", "a database"),
    (".sqlite3", "a database"),
    (".db", "a database"),
    (".bak", "a kept copy"),
    (".backup", "a kept copy"),
    (".old", "a kept copy"),
    (".orig", "a kept copy"),
    (".save", "a kept copy"),
    (".swp", "a kept copy"),
    (".swo", "a kept copy"),
    ("~", "a kept copy"),
    (".tar", "an archive"),
    (".tar.gz", "an archive"),
    (".tgz", "an archive"),
    (".tar.bz2", "an archive"),
    (".tar.xz", "an archive"),
    (".7z", "an archive"),
    (".rar", "an archive"),
    (".key", "a private key"),
    (".pem", "a private key"),
    (".p12", "a private key"),
    (".pfx", "a private key"),
    (".log", "a log"),
    (".ini", "settings"),
    (".conf", "settings"),
    (".cfg", "settings"),
    (".env", "settings"),
    (".twig", "a template"),
    (".sh", "a shell script"),
    (".htpasswd", "passwords"),
    (".DS_Store", "a list of files"),
    (".yml", "settings"),
];
const NAMES: [(&str, &str); 14] = [
    ("composer.json", "versions of libraries"),
    ("composer.lock", "versions of libraries"),
    ("auth.json", "tokens"),
    ("package.json", "versions of libraries"),
    ("package-lock.json", "versions of libraries"),
    ("yarn.lock", "versions of libraries"),
    ("dockerfile", "settings"),
    ("docker-compose.yml", "settings"),
    ("makefile", "settings"),
    ("vagrantfile", "settings"),
    ("phpunit.xml", "settings"),
    ("phpunit.xml.dist", "settings"),
    ("id_rsa", "a private key"),
    ("error_log", "a log"),
];
/// What is only clutter, in any tree of a library. It is no secret.
const HARMLESS: [&str; 7] =
    ["settings", "versions of libraries", "a template", "a shell script", "an archive", "a list of files", "a log"];
/// Scripts by their names that are made for who owns the server.
const TOOLS: [&str; 4] = ["adminer.php", "phpminiadmin.php", "c99.php", "opcache-gui.php"];

/// Who sends files and who runs scripts. `None`: whoever asks.
pub struct Users<'a> {
    /// The front's user.
    pub front: Option<&'a Identity>,
    /// PHP's user.
    pub php: Option<&'a Identity>,
}

impl Users<'_> {
    /// Whether the front can read a file.
    pub fn can_send(&self, file: &Path) -> bool {
        self.front.is_none_or(|user| user::obstacle(user, file).is_none())
    }

    /// Whether PHP can read a script.
    pub fn can_run(&self, script: &Path) -> bool {
        self.php.is_none_or(|user| user::obstacle(user, script).is_none())
    }
}

/// All findings. `all` is of the scripts in their order, `secrets` of files by their names.
pub fn judge(
    tree: &Tree,
    root: &Path,
    application: &Application,
    users: &Users<'_>,
    names: &[String],
    all: &[Told],
    secrets: &HashMap<String, Secret>,
) -> Vec<Finding> {
    let host = application.hosts.first().map_or("localhost", String::as_str).trim_start_matches("*.");
    let headers = HeaderMap::new();
    let ask = |path: &Path| {
        let target = target(path.strip_prefix(root).ok()?)?;
        let question = Question { target: &target, host, method: "GET", headers: &headers, address: None };
        let answer = explain::explain(application, &question);
        Some((target, answer))
    };
    let (mut secret, mut clutter, mut hidden, mut unsent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for entry in tree.entries.iter().filter(|entry| !entry.is_directory && !entry.is_script()) {
        let name = entry.name();
        let whole = tree.whole(entry);
        let is_source =
            whole.starts_with(root) && File::open(&whole).is_ok_and(|file| source::is_in(&file, entry.size));
        let by_content = secrets.get(&name).map(|secret| secret.what.as_str());
        let why = by_content.or_else(|| unwanted(&name)).or_else(|| is_source.then_some("PHP's source"));
        let Some((why, (target, answer))) = why.zip(ask(&whole)) else { continue };
        if answer.is_source {
            let is_sent_elsewhere = format!("PHP's source, which another server sends at {target}");
            unsent.push(Place::new(&name, 0, is_sent_elsewhere));
        }
        if answer.file.is_none() || !answer.realms.is_empty() || !users.can_send(&whole) {
            continue;
        }
        let is_harmless = HARMLESS.contains(&why) && !is_risky(&name, why);
        let list = if is_harmless { &mut clutter } else { &mut secret };
        let line = secrets.get(&name).map_or(0, |secret| secret.line);
        list.push(Place::new(&name, line, format!("{why}, sent at {target}")));
    }
    for directory in tree.entries.iter().filter(|entry| entry.is_directory && entry.path.ends_with(".git")) {
        // Hidden files are never sent. This asks all the same.
        let head = tree.whole(directory).join("HEAD");
        if ask(&head).is_some_and(|(_, answer)| answer.file.is_some()) {
            hidden.push(Place::new(directory.name(), 0, "the history of the code"));
        }
    }
    secret.extend(hidden);
    let mut findings = Vec::new();
    let action = "move them out of the document root, or deny them by a rule: [[application.route]] with deny";
    if !secret.is_empty() {
        let what = format!("anybody gets {} that no site wants sent", counted(secret.len(), "file"));
        findings.push(Finding::new(Check::Reachable, what, action).at(secret));
    }
    if !clutter.is_empty() {
        let what = format!("anybody gets {} that say how the application is made", counted(clutter.len(), "file"));
        findings.push(Finding::new(Check::Reachable, what, action).but(Severity::Notice).at(clutter));
    }
    if !unsent.is_empty() {
        let what = format!(
            "{} of PHP's source without an ending of PHP: the front does not send them",
            counted(unsent.len(), "file")
        );
        let action = "nothing has to be done here; a rule with allow = true sends what is meant to be read";
        findings.push(Finding::new(Check::Reachable, what, action).but(Severity::Notice).at(unsent));
    }
    let mut shown = Vec::new();
    for (name, told) in names.iter().zip(all).filter(|(name, _)| !is_test(name)) {
        let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        // Behind a condition of who asks, or in a function that the file does not call, it is no fact (guarded.php).
        let shows = told.facts.iter().find(|(what, _, _, detail)| what == "call" && detail == "phpinfo");
        let shows = shows.filter(|(_, line, ..)| !may_end_before(told, *line, names, all));
        if shows.is_none() && !TOOLS.contains(&file.as_str()) {
            continue;
        }
        let Some((target, answer)) = ask(&tree.base.join(name)) else { continue };
        if answer.script.is_some_and(|script| script == target) && answer.realms.is_empty() {
            let text = if shows.is_some() { "phpinfo()" } else { "a tool by its name" };
            shown.push(Place::new(name, shows.map_or(0, |(_, line, _, _)| *line), format!("{text}, runs at {target}")));
        }
    }
    if !shown.is_empty() {
        let what = format!("anybody can run {} that show or change what nobody should", counted(shown.len(), "script"));
        findings.push(
            Finding::new(Check::Shown, what, "remove them, or guard them with a password (users in a rule)").at(shown),
        );
    }
    findings
}

/// Whether a script includes, above a line, a script of the tree that can end the request: one that asks for a login does.
fn may_end_before(told: &Told, line: u32, names: &[String], all: &[Told]) -> bool {
    let included = told.facts.iter().filter(|(what, at, scope, _)| what == "include" && *at < line && *scope == 0);
    let ends = |file: &str| {
        let is_it = |name: &String| name.rsplit('/').next() == file.rsplit('/').next();
        names.iter().zip(all).any(|(name, told)| is_it(name) && told.facts.iter().any(|(what, ..)| what == "exit"))
    };
    included.into_iter().any(|(_, _, _, file)| ends(file))
}

/// Why nobody wants a file of that name sent.
fn unwanted(name: &str) -> Option<&'static str> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let lower = file.to_ascii_lowercase();
    let named = NAMES.iter().find(|(known, _)| *known == lower).map(|(_, why)| *why);
    let compressed =
        lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zip")).filter(|stem| stem.ends_with(".sql"));
    let lower = compressed.unwrap_or(&lower);
    let is_backup = lower.ends_with(".zip")
        && ["backup", "dump", "site", "www", "htdocs", "html"].iter().any(|word| lower.contains(word));
    named.or_else(|| is_backup.then_some("an archive")).or_else(|| {
        ENDINGS.iter().find(|(ending, _)| lower.ends_with(&ending.to_ascii_lowercase())).map(|(_, why)| *why)
    })
}

/// Whether something that is mostly clutter is a secret here: at the top of the root, or by its name.
fn is_risky(name: &str, why: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let file = lower.rsplit('/').next().unwrap_or(&lower);
    match why {
        "an archive" => {
            !lower.contains("vendor/")
                && ["backup", "dump", "www", "htdocs", "site"].iter().any(|word| file.contains(word))
        }
        "settings" => {
            ["password", "secret", "database", "credentials"].iter().any(|word| file.contains(word))
                || file.ends_with(".env")
        }
        _ => false,
    }
}

/// The target of a request for a file below the root.
fn target(path: &Path) -> Option<String> {
    let mut target = String::new();
    for part in path {
        target.push('/');
        for byte in part.to_str()?.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => target.push(char::from(byte)),
                byte => target.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_nobody_wants_sent() {
        for name in [
            "a/dump.sql",
            "dump.sql.gz",
            "site-backup.zip",
            "x.php.bak",
            "config.php~",
            "prod.ENV",
            "composer.lock",
            "sub/debug.log",
        ] {
            assert!(unwanted(name).is_some(), "{name}");
        }
        for name in ["style.css", "logo.png", "robots.txt", "wordpress.zip", "readme.html", "app.js"] {
            assert_eq!(unwanted(name), None, "{name}");
        }
    }

    #[test]
    fn targets_are_escaped() {
        assert_eq!(target(Path::new("a b/ä%.sql")).as_deref(), Some("/a%20b/%C3%A4%25.sql"));
    }
}
