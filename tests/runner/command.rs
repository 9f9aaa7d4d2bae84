//! A stage that is another program. It counts in lines "check: ok WHAT" and "check: failed WHAT", or in a last line "N passed, N
//! failed"; one that counts nothing is one check by itself.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tests::server::project;

use crate::group::Group;
use crate::report::Counts;

/// Runs it, shows what it prints, and counts. What belongs to a check is shown together: another stage may run at the same time.
pub fn run(command: &mut Command) -> Counts {
    let name = command.get_program().to_string_lossy().into_owned();
    let group = Group::start(command.current_dir(project()).stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut group = match group {
        Ok(group) => group,
        Err(error) => {
            println!("{name}: {error}");
            return Counts::FAILED;
        }
    };
    let (mut counts, mut said) = (Counts::default(), String::new());
    let output = group.child.stdout.take().expect("its output is a pipe");
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        said.push_str(&line);
        said.push('\n');
        if line.starts_with("check: ok ") {
            counts.passed += 1;
        } else if line.starts_with("check: failed ") {
            counts.failed += 1;
        } else if let Some((passed, failed)) = summary(&line) {
            counts.passed += passed;
            counts.failed += failed;
        } else if is_report(&line) {
            // What a runner prints as it goes.
            print!("{}", std::mem::take(&mut said));
        }
        if line.starts_with("check: ") {
            print!("{}", std::mem::take(&mut said));
        }
    }
    print!("{said}");
    let is_success = match group.finish() {
        Ok((status, processor)) => {
            counts.processor = processor;
            status.success()
        }
        Err(error) => {
            println!("{name}: {error}");
            false
        }
    };
    match (is_success, counts.passed, counts.failed) {
        (true, 0, 0) => counts.passed = 1,
        // A program that fails without counting anything has still failed.
        (false, _, 0) => counts.failed = 1,
        _ => {}
    }
    counts
}

/// The last line of a run of another runner.
fn summary(line: &str) -> Option<(usize, usize)> {
    let (counts, _) = line.split_once("; left out: ").unwrap_or((line, ""));
    let (passed, failed) = counts.strip_suffix(" failed")?.split_once(" passed, ")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

/// The line of a test, as [`crate::harness`] prints it.
fn is_report(line: &str) -> bool {
    let word = line.trim_start();
    word.len() < line.len() && (word.starts_with("ok ") || word.starts_with("FAILED "))
}
