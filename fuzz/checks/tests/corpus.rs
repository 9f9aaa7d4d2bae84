//! The committed corpus of each fuzz target, once through: `fuzz/corpus.txt`. `scripts/fuzz --minimise` makes it anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fuzz_checks::CHECKS;

/// Targets and inputs, in the order of the file.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("corpus.txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line: &str| {
        let (target, input) = line.split_once(' ').expect("a target and an input");
        (target.to_owned(), BASE64_STANDARD.decode(input).expect("base64"))
    };
    text.lines().map(line).collect()
}

fn replay(name: &str) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a check of that name");
    let all = corpus();
    let inputs = all.iter().enumerate().filter(|(_, (target, _))| target == name);
    assert!(inputs.clone().count() >= 5, "{name} has {} inputs", inputs.count());
    for (number, (_, input)) in inputs {
        // What it panics with does not say which input that was.
        println!("corpus.txt:{}", number + 1);
        check(input);
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*

        #[test]
        fn each_check_has_a_corpus_and_a_test() {
            let checks: BTreeSet<String> = CHECKS.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(corpus().into_iter().map(|(target, _)| target).collect::<BTreeSet<_>>(), checks);
            assert_eq!([$(stringify!($name)),*].map(str::to_owned).into_iter().collect::<BTreeSet<_>>(), checks);
        }
    };
}

replayed! {
    authorization cache_control certificate connection control country_file forwarded framing htpasswd http2_frames log nodes phar proxy_header purge range
    release response rules sent_file slab target ticket upstream_response
}
