//! Faults planted in the rewind are found. The build with `REPRISE_SANITIZE=undefined-trap` takes them from
//! `REPRISE_PLANT`; every other build ignores that, and goes on without a word.

use tests::snapshot::{sanitizers, snapshot};
use tests::wait_until;

const CASES: &str = "case 'write': $written = str_repeat('w', 100000); echo strlen($written); break;";

/// The worker that has the fault ends, and the log says how. Its answer was complete before.
fn is_found(fault: &str, words: &[&str]) {
    let server = snapshot("", CASES)
        .application("isolation = \"rewind\"")
        .application("workers = 1")
        .flag("--audit")
        .env("REPRISE_PLANT", fault)
        .start();
    if sanitizers() == "undefined-trap" {
        wait_until(&format!("{fault} is found: {words:?}"), 20, || {
            server.get("/?do=write");
            let log = server.log();
            words.iter().all(|word| log.contains(word))
        });
        return;
    }
    for _ in 0..20 {
        let response = server.get("/?do=write");
        assert_eq!((response.status, response.text().as_str()), (200, "100000"), "{fault}");
    }
    let log = server.log();
    assert!(!log.contains("was killed by") && !log.contains("recycled"), "{fault}: {log}");
}

/// The compiler's own checks: an index past `snapshot.hot`, whose bounds it knows, and a signed number that overflows.
#[test]
fn undefined_behaviour_traps() {
    is_found("index-past-hot", &["was killed by SIGILL"]);
    is_found("overflow", &["was killed by SIGILL"]);
}

/// Our checks of what lies behind a pointer, whose bounds the compiler does not know.
#[test]
fn accesses_behind_pointers_are_checked() {
    is_found("index-past-hits", &["was killed by SIGILL"]);
    is_found("copy-past-region", &["was killed by SIGILL"]);
}

/// A page that is copied past its region, past all checks, has damaged its neighbour: the audit sees that. Behind the
/// edge of Reprise's own memory is a page that nobody may write to.
#[test]
fn a_stray_page_is_found_by_audit_or_guard() {
    is_found("stray-page", &["recycled: audit", "memory differs from the snapshot"]);
    is_found("stray-guard", &["was killed by SIGSEGV"]);
}
