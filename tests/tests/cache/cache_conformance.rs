//! http-cache-tests judges the cache: in front of the suite's own origin, an upstream, and of the same origin as a PHP application.

use std::process::Command;

use tests::server::{program, project};

/// The rules of RFC 9111 that the suite requires, and of the optimal ones all but those that `bench/conformance_report.py` gives a reason for.
#[test]
fn all_that_is_required_is_there() {
    let programs = program().parent().expect("a directory").to_owned();
    let mut command = Command::new("python3");
    command.arg(project().join("bench/cache-conformance")).args(["reprise", "reprise-php", "--check"]);
    let output = command.env("REPRISE_PROGRAMS", programs).output().expect("python3");
    let shown = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&shown);
    assert!(output.status.success(), "{text}");
    // 165 tests are required. What fails is only known of PHP, and what says nothing is known of both.
    for counts in ["reprise required 157 / 0 / 8,", "reprise-php required 157 / 1 / 7,"] {
        assert!(text.contains(counts), "{text}");
    }
}
