//! Runs suites of php-src, unmodified, against Reprise: `foreign [WORD…]`, where only tests with a
//! WORD in their path are run. See README.md.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`suite`] | which tests there are, which may fail, what came out |
//! | [`shard`] | one run-tests.php over a directory of tests |
//! | [`cgi`] | the php-cgi look-alike: this program again, under that name |
//! | [`instances`] | the instances of Reprise that the look-alike asks for |

#![forbid(unsafe_code)]

mod cgi;
mod instances;
mod shard;
mod suite;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use instances::Instances;
use shard::{Shard, Workplace};
use suite::{SUITES, Totals};
use tests::peer::php_version;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    if name.ends_with("/php-cgi") {
        return ExitCode::from(cgi::run(arguments) as u8);
    }
    let wanted: Vec<String> = arguments.collect();
    let source = fetch();
    let workplace = Workplace::new(&source);
    let environment = vec![
        ("TMPDIR", workplace.temporary()),
        ("TEST_PHP_EXECUTABLE", workplace.php()),
        ("TEST_PHP_EXECUTABLE_ESCAPED", workplace.php()),
    ];
    let instances = Instances::listen(&workplace.socket(), environment).expect("a socket");

    let tests: Vec<Vec<String>> = SUITES
        .iter()
        .map(|suite| suite.tests(&source).into_iter().filter(|test| is_wanted(test, &wanted)).collect())
        .collect();
    let shards = Mutex::new(Shard::split(&tests));
    let outcomes = Mutex::new(BTreeMap::new());
    let jobs = thread::available_parallelism().map_or(2, |number| number.get());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let next = || shards.lock().expect("no panic").pop();
                while let Some(shard) = next() {
                    let outcome = shard.run(&workplace);
                    outcomes.lock().expect("no panic").extend(outcome);
                }
            });
        }
    });
    let complaints = instances.end();
    for log in &complaints {
        println!("{log}\ncheck: failed web: an instance: see its log above");
    }

    let outcomes = outcomes.into_inner().expect("no panic");
    let mut lines = Vec::new();
    let mut failed = complaints.len();
    for (suite, tests) in SUITES.iter().zip(&tests) {
        let totals: Totals = suite.judge(tests, &outcomes, wanted.is_empty());
        failed += totals.failed;
        lines.push(totals.line(suite));
    }
    lines.iter().for_each(|line| println!("{line}"));
    ExitCode::from(u8::from(failed > 0))
}

fn is_wanted(test: &str, wanted: &[String]) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| test.contains(wanted.as_str()))
}

/// php-src as it was released.
fn fetch() -> PathBuf {
    let target = tests::server::project().join("target/foreign");
    let output =
        Command::new(suite::directory().join("fetch")).arg(php_version()).arg(target).stderr(Stdio::inherit()).output();
    let output = output.expect("tests/foreign/fetch");
    assert!(output.status.success(), "without php-src there are no suites to run");
    String::from_utf8_lossy(&output.stdout).trim().into()
}
