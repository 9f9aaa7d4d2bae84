//! A suite: its tests, its list of expected failures, and what came out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::peer::php_version;

/// A suite of php-src.
pub struct Suite {
    /// Its name in what is printed; NAME-PHP.expected is the list.
    pub name: &'static str,
    /// How many tests there are, by the version of PHP. A runner that finds other tests tests something else.
    counts: [(&'static str, usize); 2],
    find: fn(&Path) -> Vec<String>,
}

/// The suites.
pub const SUITES: [Suite; 2] = [
    Suite { name: "web", counts: [("8.2", 245), ("8.4", 264)], find: find_web },
    Suite { name: "cli-server", counts: [("8.2", 51), ("8.4", 53)], find: find_cli_server },
];

/// Sections that make run-tests.php take php-cgi.
const WEB_SECTIONS: &str = "^--(GET|POST|GZIP_POST|DEFLATE_POST|POST_RAW|PUT|COOKIE|EXPECTHEADERS|CGI)--";

fn find_web(source: &Path) -> Vec<String> {
    grep(source, WEB_SECTIONS, ".")
}

/// All that start the dev server by the file that is replaced, whatever they are called.
fn find_cli_server(source: &Path) -> Vec<String> {
    grep(source, "php_cli_server\\.inc", "sapi/cli/tests")
}

fn grep(source: &Path, pattern: &str, below: &str) -> Vec<String> {
    let output = Command::new("grep")
        .args(["-rlE", "--include=*.phpt", pattern, below])
        .current_dir(source)
        .stderr(Stdio::inherit())
        .output()
        .expect("grep");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files: Vec<String> = text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect();
    files.sort_unstable();
    files
}

/// What a list says of a test.
struct Expected {
    results: &'static [&'static str],
    reason: String,
}

/// How lines of a list begin, and which words of run-tests.php they stand for. A test without a line has to pass.
const KINDS: [(&str, &[&str]); 4] = [
    ("fails ", &["FAILED"]),
    // By its own XFAIL section.
    ("xfails ", &["XFAILED"]),
    ("skips ", &["SKIPPED"]),
    // It looks at the machine, and may pass as well.
    ("may skip ", &["SKIPPED", "PASSED"]),
];

/// What became of a test.
pub struct Outcome {
    /// run-tests.php's word: PASSED, FAILED, SKIPPED, BORKED, WARNED.
    pub result: String,
    /// What it said of that: a reason, a diff.
    pub said: String,
}

/// How many came out how.
#[derive(Default, Debug)]
pub struct Totals {
    passed: usize,
    expected: usize,
    skipped: usize,
    /// Whether anything was not as it has to be.
    pub failed: usize,
}

impl Suite {
    /// Its tests, by their paths in php-src.
    pub fn tests(&self, source: &Path) -> Vec<String> {
        (self.find)(source)
    }

    /// Compares what came out with the list; prints a line for each test.
    pub fn judge(&self, tests: &[String], outcomes: &BTreeMap<String, Outcome>, is_whole: bool) -> Totals {
        let mut expected = self.expected();
        let mut totals = Totals::default();
        let mut fail = |test: &str, why: &str| {
            println!("check: failed {}: {test}: {why}", self.name);
            totals.failed += 1;
        };
        let count = self.counts.iter().find(|(php, _)| *php == php_version()).map_or(0, |(_, count)| *count);
        if is_whole && tests.len() != count {
            fail("all", &format!("{} tests were found, not {count}", tests.len()));
        }
        let (mut passed, mut as_listed, mut skipped) = (0, 0, 0);
        for test in tests {
            let Some(outcome) = outcomes.get(test) else {
                fail(test, "run-tests.php says nothing of it");
                continue;
            };
            let (result, listed) = (outcome.result.as_str(), expected.remove(test));
            let is_listed = listed.as_ref().is_some_and(|listed| listed.results.contains(&result));
            match (result, listed) {
                ("PASSED", Some(_)) if !is_listed => fail(test, "passes; take it off the list, which may only shrink"),
                ("PASSED", _) => {
                    println!("check: ok {}: {test}", self.name);
                    passed += 1;
                }
                (_, Some(listed)) if is_listed => {
                    // Whoever asks for a single one wants to see it.
                    if !is_whole {
                        println!("{}", outcome.said);
                    }
                    println!("{} as expected: {}: {test}: {}", result.to_lowercase(), self.name, listed.reason);
                    *(if result == "SKIPPED" { &mut skipped } else { &mut as_listed }) += 1;
                }
                _ => {
                    println!("{}", outcome.said);
                    fail(test, result);
                }
            }
        }
        if is_whole {
            expected.keys().for_each(|test| fail(test, "is on the list, but there is no such test"));
        }
        Totals { passed, expected: as_listed, skipped, ..totals }
    }

    /// Lines "KIND PATH: REASON".
    fn expected(&self) -> BTreeMap<String, Expected> {
        let path = directory().join(format!("{}-{}.expected", self.name, php_version()));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            let (results, line) =
                KINDS.iter().find_map(|(kind, results)| Some((*results, line.strip_prefix(kind)?)))?;
            let (test, reason) = line.split_once(": ")?;
            Some((test.to_owned(), Expected { results, reason: reason.to_owned() }))
        };
        lines.map(|line| parse(line).unwrap_or_else(|| panic!("{}: what is this? {line}", path.display()))).collect()
    }
}

impl Totals {
    /// For the end of the output.
    pub fn line(&self, suite: &Suite) -> String {
        let Totals { passed, expected, skipped, failed } = self;
        format!("{}: {passed} passed, {expected} expected failures, {skipped} skipped, {failed} wrong", suite.name)
    }
}

/// Where this program's own files are.
pub fn directory() -> PathBuf {
    tests::server::project().join("tests/foreign")
}
