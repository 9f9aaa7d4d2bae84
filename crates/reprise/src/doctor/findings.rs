//! What the doctor finds: the closed list of checks, and findings as data.

use std::path::Path;

use serde::Serialize;

use super::mending::Mending;

/// Places that are kept of a finding. More are counted.
pub const MOST_PLACES: usize = 200;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It fails, or is open to strangers.
    Error,
    /// It will fail, or costs much.
    Warning,
    /// Worth knowing.
    Notice,
}

impl Severity {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        }
    }
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// Versions of PHP.
    Version,
    /// State that worker scripts and snapshots keep.
    Worker,
    /// Files, rights and extensions.
    Deployment,
    /// The machine.
    Host,
}

impl Area {
    /// All, in the order of the report.
    pub const ALL: [Area; 4] = [Area::Version, Area::Worker, Area::Deployment, Area::Host];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Area::Version => "version",
            Area::Worker => "worker",
            Area::Deployment => "deployment",
            Area::Host => "host",
        }
    }
}

/// The other columns of a check.
pub struct Row {
    /// Its name, such as `version.syntax`.
    pub id: &'static str,
    /// What it looks at.
    pub area: Area,
    /// The worst that it says.
    pub severity: Severity,
    /// Where the documentation tells more.
    pub link: &'static str,
    /// What it finds.
    pub text: &'static str,
}

macro_rules! checks {
    ($($check:ident: $id:literal, $area:ident, $severity:ident, $link:literal, $text:literal;)*) => {
        /// One check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each row has a text")]
        pub enum Check { $($check),* }

        impl Check {
            /// All, in the order of the report.
            pub const ALL: &[Check] = &[$(Check::$check),*];

            /// The other columns.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Check::$check => &Row { id: $id, area: Area::$area, severity: Severity::$severity, link: $link, text: $text }),*
                }
            }
        }
    };
}

checks! {
    NoPhp: "version.no-php", Version, Error, "docs/guides/php-versions.md", "no PHP that could run or read the application";
    Syntax: "version.syntax", Version, Error, "docs/guides/doctor.md#version", "a file that an installed PHP does not compile; a warning if it is not the PHP that runs the application";
    Unread: "version.unread", Version, Warning, "docs/guides/doctor.md#version", "a file that could not be checked: too large, or PHP ended while it read the file";
    Removed: "version.removed", Version, Error, "docs/guides/doctor.md#version", "a function, class, constant or form of the language that PHP has removed, since 5.4; a warning if a later PHP has";
    Added: "version.added", Version, Error, "docs/guides/doctor.md#version", "one that only a later PHP has";
    Missing: "version.missing", Version, Error, "docs/guides/doctor.md#version", "a function, class or constant that neither PHP nor the tree has; a warning if an extension has it, or a file that the tree lacks may";
    Deprecated: "version.deprecated", Version, Notice, "docs/guides/doctor.md#version", "one that is deprecated, or a deprecated form of the language";
    CompilerSays: "version.compiler", Version, Notice, "docs/guides/doctor.md#version", "another deprecation that an installed PHP names when it compiles a file";

    Exit: "worker.exit", Worker, Warning, "docs/guides/worker.md#exit", "exit or die: ends a worker script, which then boots again";
    Statics: "worker.static", Worker, Warning, "docs/guides/worker.md#what-is-reset-between-requests", "static variables of functions, which a worker script keeps";
    StaticProperties: "worker.static-property", Worker, Warning, "docs/guides/worker.md#what-is-reset-between-requests", "static properties that functions write, which a worker script keeps";
    Globals: "worker.global", Worker, Warning, "docs/guides/worker.md#what-is-reset-between-requests", "global variables in functions, which a worker script keeps";
    Handlers: "worker.handler", Worker, Warning, "docs/guides/worker.md#what-is-reset-between-requests", "handlers and settings that code sets, never puts back, and that stay in a worker script";
    Held: "snapshot.held", Worker, Warning, "docs/guides/snapshot.md#what-is-refused-at-the-call", "what a snapshot refuses, opened before reprise_snapshot() or while a file is included";
    Random: "snapshot.random", Worker, Warning, "docs/guides/snapshot.md", "a random engine made or seeded before reprise_snapshot(): each request would draw the same numbers";
    Captured: "snapshot.captured", Worker, Warning, "docs/guides/snapshot.md#what-a-boot-must-not-keep", "time, client or cookies of the boot's own request, kept in a constant or variable: all visitors would get them";

    Users: "deployment.user", Deployment, Error, "docs/guides/from-php-fpm.md", "a user that does not reach the application's files";
    Lock: "deployment.lock", Deployment, Warning, "docs/guides/doctor.md#deployment", "a composer.lock that cannot be read, or another state of vendor/ than it says";
    Platform: "deployment.php", Deployment, Error, "docs/guides/php-versions.md", "a version of PHP that a package does not allow";
    Extension: "deployment.extension", Deployment, Error, "docs/guides/php-versions.md", "an extension that a package requires and PHP lacks";
    Closed: "deployment.closed", Deployment, Error, "docs/guides/doctor.md#deployment", "a script that the application's user cannot read, or a directory that the front cannot enter";
    Writable: "deployment.writable", Deployment, Warning, "docs/guides/doctor.md#deployment", "code that the application's user, or everybody, can change";
    Secret: "deployment.secret", Deployment, Warning, "docs/guides/doctor.md#deployment", "a file with a password, a key, a dump or a database that every user of the machine can read";
    Links: "deployment.links", Deployment, Warning, "docs/guides/routing.md#symbolic-links", "a symbolic link out of the root that the front does not follow";
    Reachable: "deployment.reachable", Deployment, Error, "docs/guides/routing.md#default-denials", "a file that the front would send to anybody, and that no site wants sent";
    Shown: "deployment.phpinfo", Deployment, Warning, "docs/guides/routing.md#rules", "a script that anybody can run and that shows or changes what nobody should";
    Htaccess: "deployment.htaccess", Deployment, Error, "docs/guides/routing.md#rules", "a line of .htaccess that nobody honours; an error if it was to keep strangers out";
    Preset: "deployment.preset", Deployment, Notice, "docs/guides/routing.md#presets", "a preset that would fit and is not used";
    Denials: "deployment.denials", Deployment, Warning, "docs/guides/routing.md#default-denials", "default_denials = false";

    Rewind: "host.rewind", Host, Warning, "docs/guides/snapshot.md", "a kernel, or who guards it, that does not let Reprise rewind";
    Opcache: "host.opcache", Host, Warning, "docs/guides/doctor.md#host", "an opcache that is off, too small for the application, or nearly full in the running server";
    Jit: "host.jit", Host, Notice, "docs/measurements/comparisons.md", "the JIT";
    RealpathCache: "host.realpath-cache", Host, Notice, "docs/guides/doctor.md#host", "a realpath cache that is too small for the application";
    Memory: "host.memory", Host, Warning, "docs/operations/limits.md", "more memory for workers than there is";
    Swappiness: "host.swappiness", Host, Notice, "docs/guides/doctor.md#host", "a kernel that swaps early";
    HugePages: "host.huge-pages", Host, Notice, "docs/guides/doctor.md#host", "transparent huge pages everywhere";
    Backlog: "host.somaxconn", Host, Warning, "docs/guides/doctor.md#host", "a short queue of new connections";
    Files: "host.open-files", Host, Warning, "docs/operations/limits.md", "a low limit of open files";
    Atime: "host.noatime", Host, Notice, "docs/guides/doctor.md#host", "a file system that writes when files are read";
    Tmpfs: "host.tmpfs", Host, Notice, "docs/guides/doctor.md#host", "state or sessions on a disk";
    Time: "host.time", Host, Warning, "docs/guides/doctor.md#host", "a clock that nothing sets";
    Services: "host.services", Host, Notice, "docs/guides/doctor.md#host", "programs that take memory and ports and that Reprise makes needless";
    Port: "host.port", Host, Warning, "docs/guides/doctor.md#host", "an address to listen on that another program has";
}

/// Evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file. One of the application is below its tree, any other has its whole path.
    pub file: String,
    /// The line; 0 if the whole file is meant.
    pub line: u32,
    /// What is there.
    pub text: String,
}

impl Place {
    /// A line of a file.
    pub fn new(file: impl AsRef<Path>, line: u32, text: impl Into<String>) -> Place {
        let text: String = text.into();
        let text = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(300).collect();
        Place { file: file.as_ref().to_string_lossy().into_owned(), line, text }
    }
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Which check.
    pub id: &'static str,
    /// How bad it is here.
    pub severity: Severity,
    /// In a sentence.
    pub what: String,
    /// Where.
    pub evidence: Vec<Place>,
    /// Further places.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
    /// What to do.
    pub action: String,
    /// More about it.
    pub link: &'static str,
    /// What `--fix` does about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Mending>,
    #[serde(skip)]
    pub(super) check: Check,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Finding {
    /// A finding as bad as the check can be.
    pub fn new(check: Check, what: impl Into<String>, action: impl Into<String>) -> Finding {
        let row = check.row();
        Finding {
            id: row.id,
            severity: row.severity,
            what: what.into(),
            evidence: Vec::new(),
            more: 0,
            action: action.into(),
            link: row.link,
            fix: None,
            check,
        }
    }

    /// The same, less bad.
    pub fn but(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// Evidence: those of other people's code come last.
    pub fn at(mut self, places: impl IntoIterator<Item = Place>) -> Finding {
        self.evidence.extend(places);
        self.evidence.sort_by(|a, b| (is_foreign(&a.file), a).cmp(&(is_foreign(&b.file), b)));
        self.evidence.dedup();
        self.more += self.evidence.len().saturating_sub(MOST_PLACES);
        self.evidence.truncate(MOST_PLACES);
        self
    }

    /// What `--fix` does.
    pub fn mended_by(mut self, mending: Option<Mending>) -> Finding {
        self.fix = mending;
        self
    }

    /// What it looks at.
    pub fn area(&self) -> Area {
        self.check.row().area
    }
}

/// A number of things: `1 file`, `2 files`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = what.strip_suffix('y').map_or_else(|| format!("{what}s"), |stem| format!("{stem}ies"));
    if count == 1 { format!("1 {what}") } else { format!("{count} {plural}") }
}

/// Whether a file below the tree is a library's.
pub fn is_foreign(file: &str) -> bool {
    file.split('/').any(|part| part == "vendor")
}

/// Whether a file is made to be wrong, or is never run by visitors: tests and what they use, and examples for readers (Drupal's `.api.php`).
pub fn is_test(file: &str) -> bool {
    const NAMES: [&str; 8] = ["test", "tests", "fixture", "fixtures", "_fixtures", "__fixtures__", "testdata", "stubs"];
    file.ends_with(".api.php")
        || file.rsplit_once('/').is_some_and(|(directories, _)| {
            directories.split('/').any(|part| NAMES.contains(&part.to_ascii_lowercase().as_str()))
        })
}

/// The table of checks, as docs/guides/doctor.md has it.
pub fn reference() -> String {
    let mut text = String::from("| id | at worst | finds |\n|---|---|---|\n");
    for check in Check::ALL {
        let row = check.row();
        text.push_str(&format!("| `{}` | {} | {} |\n", row.id, row.severity.word(), row.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_comes_before_that_of_libraries() {
        let place = |file: &str| Place::new(file, 1, "");
        let finding = Finding::new(Check::Exit, "", "").at(["vendor/a.php", "z.php", "b.php", "z.php"].map(place));
        let files: Vec<&str> = finding.evidence.iter().map(|place| place.file.as_str()).collect();
        assert_eq!(files, ["b.php", "z.php", "vendor/a.php"]);
    }

    #[test]
    fn places_have_a_limit() {
        let places = (0..MOST_PLACES as u32 + 7).map(|line| Place::new("a.php", line, "\u{1b}[31m"));
        let finding = Finding::new(Check::Exit, "", "").at(places);
        assert_eq!((finding.evidence.len(), finding.more), (MOST_PLACES, 7));
        assert_eq!(finding.evidence[0].text, " [31m", "no control characters reach a terminal");
    }

    #[test]
    fn tests_are_known_by_their_directories() {
        assert!(is_test("vendor/a/Tests/x.php") && is_test("tests/x.php"));
        assert!(!is_test("test.php") && !is_test("src/contest/x.php"));
    }
}
