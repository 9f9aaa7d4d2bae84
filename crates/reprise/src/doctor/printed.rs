//! The report: for people, grouped by what was looked at, and as JSON.

use std::fmt::Write;
use std::io::IsTerminal;

use control::status::Opcache;
use serde::Serialize;

use super::findings::{Area, Finding, Severity};
use super::host;

/// Places that are shown of a finding.
const SHOWN: usize = 5;

/// What was looked at of an application.
#[derive(Debug, Serialize)]
pub struct Looked {
    /// Its name.
    pub application: String,
    /// The directory that paths are relative to.
    pub tree: String,
    /// The PHP that runs it.
    pub php: Option<String>,
    /// The user that runs it.
    pub user: Option<String>,
    /// Its scripts.
    pub scripts: usize,
    /// Its files.
    pub files: usize,
    /// Those that are `.htaccess`.
    pub htaccess: usize,
    /// PHPs that have compiled them.
    pub compiled_by: Vec<String>,
    /// What the running server says of its opcache, if one runs with this configuration file.
    pub opcache: Option<Opcache>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// A check that has passed.
#[derive(Debug, Serialize)]
pub struct Passed {
    /// Which check.
    pub id: &'static str,
    /// What it looks at.
    #[serde(skip)]
    pub area: Area,
    /// What it has seen.
    pub value: String,
}

/// Everything that the doctor says.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of Reprise.
    pub reprise: &'static str,
    /// The areas that were looked at.
    pub areas: Vec<Area>,
    /// Each application.
    pub applications: Vec<Looked>,
    /// Versions of PHP that are not installed: syntax is unchecked for them.
    pub unchecked: Vec<String>,
    /// What was found, the worst of each area first.
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub passed: Vec<Passed>,
    /// Lines that `--fix` has written.
    pub fixed: Vec<String>,
}

impl Report {
    /// How many findings are as bad.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The report as JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        for severity in [Severity::Error, Severity::Warning, Severity::Notice] {
            value[format!("{}s", severity.word())] = self.count(severity).into();
        }
        serde_json::to_string_pretty(&value)
    }

    /// The report for people; with the checks that found nothing if they ask for them.
    pub fn text(&self, is_verbose: bool) -> String {
        let paint = Paint {
            is_on: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
        };
        self.painted(&paint, is_verbose)
    }

    fn painted(&self, paint: &Paint, is_verbose: bool) -> String {
        let mut text = format!("Reprise {}\n", self.reprise);
        for one in &self.applications {
            let _ = writeln!(text, "  {:<13} {}", "application", one.application);
            let mut line = |name: &str, value: &str| {
                let _ = writeln!(text, "  {name:<13} {value}");
            };
            line("tree", &one.tree);
            let user = one.user.as_ref().map(|user| format!(", as user {user}")).unwrap_or_default();
            line("PHP", &format!("{}{user}", one.php.as_deref().unwrap_or("none that runs it")));
            if self.areas.iter().any(|area| *area != Area::Host) {
                let by = if one.compiled_by.is_empty() { "no PHP".to_owned() } else { one.compiled_by.join(", ") };
                line("scripts", &format!("{}, compiled by {by}", one.scripts));
            }
            one.opcache.iter().for_each(|opcache| line("opcache", &host::described(opcache)));
            one.left_out.iter().for_each(|why| line("left out", why));
        }
        if !self.unchecked.is_empty() {
            let _ = writeln!(
                text,
                "  {:<13} PHP {}: not installed, so nothing was compiled by them; the tables of what they changed were used",
                "unchecked",
                self.unchecked.join(", ")
            );
        }
        for area in &self.areas {
            let of_area: Vec<&Finding> = self.findings.iter().filter(|finding| finding.area() == *area).collect();
            let _ = writeln!(text, "\n{}", paint.bold(area.word()));
            if of_area.is_empty() {
                text.push_str("  nothing found\n");
            }
            of_area.iter().for_each(|finding| one(&mut text, finding, paint));
            for passed in self.passed.iter().filter(|passed| is_verbose && passed.area == *area) {
                let _ = writeln!(text, "  passed  {}  {}", passed.id, passed.value);
            }
        }
        for line in &self.fixed {
            let _ = writeln!(text, "\nfixed: {line}");
        }
        let counted = |severity: Severity| {
            let count = self.count(severity);
            format!("{count} {}{}", severity.word(), if count == 1 { "" } else { "s" })
        };
        let _ = writeln!(
            text,
            "\n{}, {}, {}",
            counted(Severity::Error),
            counted(Severity::Warning),
            counted(Severity::Notice)
        );
        text
    }
}

/// One finding.
fn one(text: &mut String, finding: &Finding, paint: &Paint) {
    let word = paint.severity(finding.severity);
    let _ = writeln!(text, "  {word} {}  {}", finding.id, finding.what);
    for place in finding.evidence.iter().take(SHOWN) {
        let line = if place.line > 0 { format!(":{}", place.line) } else { String::new() };
        let _ = writeln!(text, "            {}{line}  {}", place.file, place.text);
    }
    let more = finding.evidence.len().saturating_sub(SHOWN) + finding.more;
    if more > 0 {
        let _ = writeln!(
            text,
            "            and {more} more (--json has {})",
            if finding.more == 0 { "them" } else { "the first of them" }
        );
    }
    let _ = writeln!(text, "          do: {}", finding.action);
    if finding.fix.is_some() {
        let _ = writeln!(text, "          --fix does it");
    }
    let _ = writeln!(text, "          see: {}", finding.link);
}

/// Colours, on a terminal.
struct Paint {
    is_on: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn severity(&self, severity: Severity) -> String {
        let code = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "33",
            Severity::Notice => "36",
        };
        self.with(code, &format!("{:<7}", severity.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::findings::{Check, Place};

    #[test]
    fn a_report_names_places_and_what_to_do() {
        let places = (1..=7).map(|line| Place::new("a.php", line, "each"));
        let finding = Finding::new(Check::Removed, "PHP 8.0 has removed each", "use foreach").at(places);
        let report = Report {
            reprise: "1.0",
            areas: vec![Area::Version],
            applications: Vec::new(),
            unchecked: vec!["8.4".to_owned()],
            findings: vec![finding],
            passed: Vec::new(),
            fixed: Vec::new(),
        };
        let text = report.painted(&Paint { is_on: false }, false);
        for part in [
            "error   version.removed  PHP 8.0",
            "a.php:5  each",
            "and 2 more",
            "do: use foreach",
            "1 error, 0 warnings",
            "PHP 8.4: not installed",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains('\u{1b}') && report.painted(&Paint { is_on: true }, false).contains("\u{1b}[1;31merror")
        );
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!((json["errors"].as_u64(), json["findings"][0]["evidence"][2]["line"].as_u64()), (Some(1), Some(3)));
    }
}
