//! The suites of PSR-6 and PSR-16, of Symfony and of Laravel, inside Reprise: what does not pass is listed with its reason.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use tests::client::get;
use tests::peer::php_version;
use tests::server::project;
use tests::{Server, Setup, amount};

use super::text;

/// The sources of the suites, fetched once.
fn suites() -> PathBuf {
    let place = project().join("target/suites");
    let status =
        Command::new(project().join("tests/adapters/fetch")).arg(&place).status().expect("tests/adapters/fetch");
    assert!(status.success());
    place
}

fn start(mode: &str) -> Server {
    let setup = Setup::root(&project().join("tests/adapters/public"));
    let setup = setup.env("SUITES", &suites().display().to_string()).env("MODE", mode);
    let setup = setup.env("PACKAGE", &project().join("composer").display().to_string());
    let setup = setup.ini("include_path", "/usr/share/php").ini("zend.assertions", "1").ini("max_execution_time", "0");
    // Laravel's suites empty the cache.
    setup.application(&format!("workers = 1\nmode.\"index.php\" = \"{mode}\"")).start()
}

/// `expected`: what a test comes out with, by its name.
fn expected() -> BTreeMap<String, String> {
    let listed = text("expected");
    let lines = listed.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (word, rest) = line.split_once(' ').expect("a word");
            let (name, why) = rest.split_once(": ").expect("a reason");
            assert!(!why.is_empty(), "{line}");
            (name.to_owned(), word.to_owned())
        })
        .collect()
}

/// Runs test cases; how many. What is not expected is a failure, as is what is listed and passes.
fn run(server: &Server, query: &str) -> usize {
    let answer = get(server.port, &format!("/?case={query}"));
    let text = answer.text();
    let expected = expected();
    let mut wrong = vec![];
    let mut count = 0;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !["passes", "fails", "skips"].contains(&word) {
            continue;
        }
        count += 1;
        let name = rest.split(": ").next().unwrap_or(rest);
        if expected.get(name).map_or("passes", String::as_str) != word {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{query}:\n{}", wrong.join("\n"));
    assert!(text.trim_end().lines().last().is_some_and(|line| line.starts_with(&format!("tests {count}, "))), "{text}");
    count
}

/// `./test --full`, with Debian 12's packages: it has the suites.
#[test]
fn the_frameworks_own_suites_pass() {
    if amount(0, 1) == 0 || php_version() != "8.2" {
        return;
    }
    let server = start("classic");
    for (case, least) in [("psr", 300), ("symfony", 400), ("laravel", 60)] {
        let count = run(&server, case);
        println!("{case}: {count} tests");
        assert!(count >= least, "{case}: {count}");
    }
    // Those that take no time, in the other modes.
    for mode in ["snapshot", "worker"] {
        let server = start(mode);
        let count = run(&server, "laravel")
            + run(&server, "symfony&only=Tag|Get|Save|Delete|Clear|Invalid")
            + run(&server, "psr&only=Save|Set|Delete|Multiple|Data");
        println!("{mode}: {count} tests");
        assert!(count >= 300, "{mode}: {count}");
    }
}
