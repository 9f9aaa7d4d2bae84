//! The committed corpus of each fuzz target, once through. `scripts/fuzz --minimise` makes it anew.

use std::fs;
use std::path::{Path, PathBuf};

use fuzz_checks::CHECKS;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("corpus")
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn replay(name: &str) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a check of that name");
    let inputs = entries(&corpus().join(name));
    assert!(inputs.len() >= 5, "{name} has {} inputs", inputs.len());
    for input in inputs {
        // What it panics with does not say which input that was.
        println!("{}", input.display());
        check(&fs::read(&input).expect("an input"));
    }
}

#[test]
fn connection() {
    replay("connection");
}

#[test]
fn control() {
    replay("control");
}

#[test]
fn country_file() {
    replay("country_file");
}

#[test]
fn forwarded() {
    replay("forwarded");
}

#[test]
fn framing() {
    replay("framing");
}

#[test]
fn log() {
    replay("log");
}

#[test]
fn phar() {
    replay("phar");
}

#[test]
fn proxy_header() {
    replay("proxy_header");
}

#[test]
fn response() {
    replay("response");
}

#[test]
fn slab() {
    replay("slab");
}

#[test]
fn target() {
    replay("target");
}

#[test]
fn certificate() {
    replay("certificate");
}

#[test]
fn htpasswd() {
    replay("htpasswd");
}

#[test]
fn http2_frames() {
    replay("http2_frames");
}

#[test]
fn rules() {
    replay("rules");
}

#[test]
fn sent_file() {
    replay("sent_file");
}

#[test]
fn authorization() {
    replay("authorization");
}

#[test]
fn cache_control() {
    replay("cache_control");
}

#[test]
fn purge() {
    replay("purge");
}

#[test]
fn range() {
    replay("range");
}

#[test]
fn ticket() {
    replay("ticket");
}

#[test]
fn upstream_response() {
    replay("upstream_response");
}

#[test]
fn each_corpus_has_a_check() {
    let names: Vec<String> = entries(&corpus())
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let checks: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, checks);
}
