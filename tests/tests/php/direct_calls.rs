//! Calls within libphp are bound directly where code may be written to, and stay as they are where it may not.

use std::fs;
use std::process::Command;

use tests::server::{program, project};
use tests::{Server, Setup};

const SAYS: &str = "<?php echo strrev(implode(',', array_map('strtoupper', ['a', 'b'])));";

/// The mappings of libphp's code in a worker: their rights, and KiB that are no longer the file's.
fn code(server: &Server) -> Vec<(String, u64)> {
    let pid: i32 = server.get("/pid.php").text().parse().expect("a process");
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("its mappings");
    let (mut found, mut is_code) = (Vec::new(), false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| !word.ends_with(':')) {
            is_code = words[1].contains('x') && words.last().is_some_and(|path| path.contains("/libphp"));
            if is_code {
                found.push((words[1].to_owned(), 0));
            }
        } else if is_code {
            if let ["Anonymous:", size, ..] = words[..] {
                found.last_mut().expect("a mapping").1 = size.parse().expect("a size");
            }
        }
    }
    found
}

fn application() -> Setup {
    Setup::empty().file("index.php", SAYS).file("pid.php", "<?php echo getmypid();")
}

#[test]
fn code_is_bound_and_read_only() {
    let server = application().start();
    assert_eq!(server.get("/").text(), "B,A");
    let found = code(&server);
    assert!(found.iter().all(|(rights, _)| rights == "r-xp"), "{found:?}");
    let bound: u64 = found.iter().map(|(_, anonymous)| anonymous).sum();
    assert_eq!(bound > 1000, cfg!(target_arch = "x86_64"), "{found:?}");
    assert!(!server.log().contains("bound directly"), "{}", server.log());
}

#[test]
fn code_that_may_not_be_written_to_stays_as_it_is() {
    let setup = application();
    let deny = setup.directory().join("deny");
    tests::peer::run_to_end(Command::new("gcc").arg("-o").arg(&deny).arg(project().join("tests/src/deny.c")));
    let server = setup.command([deny, "writable_code".into(), "13".into(), program()]).start();
    assert_eq!(server.get("/").text(), "B,A");
    let found = code(&server);
    assert!(!found.is_empty() && found.iter().all(|(rights, bound)| rights == "r-xp" && *bound == 0), "{found:?}");
    let log = server.log();
    let refused =
        log.contains("calls within libphp are not bound directly: its code cannot be written to: Permission denied");
    assert_eq!(refused, cfg!(target_arch = "x86_64"), "{log}");
}

/// Workers share the bound code, so a worker's limit of memory of its own does not count it.
#[test]
fn bound_code_is_no_memory_of_a_worker() {
    const SAYS: &str = "<?php $handle = function () {
            [, $all, $shared] = explode(' ', file_get_contents('/proc/self/statm'));
            echo getmypid(), ' ', ($all - $shared) * 4;
        };
        while (reprise_handle_request($handle)) {}";
    let worker = |limit: &str| {
        let setup = Setup::empty().file("index.php", SAYS);
        setup.application(&format!("workers = 1\n{limit}mode.\"index.php\" = \"worker\"")).start()
    };
    let said = |server: &Server| -> (i32, u64) {
        let text = server.get("/").text();
        let (process, size) = text.split_once(' ').expect("two numbers");
        (process.parse().expect("a process"), size.parse().expect("a size"))
    };
    let server = worker("");
    let most = (0..10).map(|_| said(&server).1).max().expect("a size");
    // Half of the code less than what statm says.
    let server = worker(&format!("max_memory = \"{}K\"\n", most - 1500));
    let (first, _) = said(&server);
    for _ in 0..10 {
        assert_eq!(said(&server).0, first, "another worker: {}", server.log());
    }
}
