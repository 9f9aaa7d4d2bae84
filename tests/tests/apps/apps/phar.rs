//! A library in a phar, with its autoloader: opcache holds what is in it, as under PHP-FPM, in every mode.

use std::collections::BTreeMap;
use std::process::Command;

use tests::peer::{Fpm, run_to_end};
use tests::snapshot::isolations;
use tests::{Client, Setup};

/// So that the phar, just built, is cached without waiting until it is two seconds old.
const AT_ONCE: (&str, &str) = ("opcache.file_update_protection", "0");

/// The files in the phar.
const FILES: [&str; 3] = ["src/Farewell.php", "src/Greeter.php", "src/Words/Greeting.php"];

fn setup() -> Setup {
    let setup = Setup::app("phar").ini(AT_ONCE.0, AT_ONCE.1);
    let place = setup.document_root().parent().expect("a directory");
    run_to_end(Command::new("php").args(["-d", "phar.readonly=0"]).arg(place.join("build.php")).arg(place));
    setup
}

/// What the library said, and the hits of its files.
fn ask(client: &mut Client, path: &str) -> (String, BTreeMap<String, u64>) {
    let answer = client.get(path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let mut lines = text.lines();
    let said = [lines.next(), lines.next()].map(|line| line.expect("a line")).join("\n");
    let hits = lines.map(|line| line.rsplit_once(' ').expect("name and hits"));
    (said, hits.map(|(name, hits)| (name.to_owned(), hits.parse().expect("hits"))).collect())
}

fn said(time: u32) -> String {
    format!("Hello you for the {time}. time, says Greeter.php\nGood bye, says src")
}

/// opcache caches the files inside a phar, and counts the same hits as under PHP-FPM, in every mode.
#[test]
fn a_phar_is_cached_by_opcache_as_under_fpm() {
    let setup = setup();
    let fpm = Fpm::with(setup.document_root(), &[AT_ONCE]);
    let reprise = setup.start();
    let (mut ours, mut theirs) = (reprise.client(), Client::new(fpm.port));
    for visit in 0..5 {
        let (text, scripts) = ask(&mut ours, "/");
        assert_eq!(text, said(1));
        assert_eq!(scripts.len(), 4, "{scripts:?}");
        assert!(FILES.iter().all(|file| scripts[&format!("phar:///library.phar/{file}")] == visit), "{scripts:?}");
        assert_eq!((text, scripts), ask(&mut theirs, "/"), "as under PHP-FPM");
    }
}

/// Loaded before the snapshot, but for one class; and all of it by each request.
#[test]
fn a_phar_is_cached_by_opcache_in_a_snapshot() {
    for isolation in isolations() {
        for (entry, time, loaded_by_requests) in [("boot.php", 2, &FILES[..1]), ("request.php", 1, &FILES[..])] {
            let reprise = setup()
                .application(&format!("front_controller = \"{entry}\""))
                .application(&format!("isolation = \"{isolation}\""))
                .application(&format!("mode.\"{entry}\" = \"snapshot\""))
                .flag("--audit")
                .start();
            let mut client = reprise.client();
            let what = format!("{entry} under {isolation}");
            let (text, first) = ask(&mut client, "/a-page");
            assert_eq!(text, said(time), "{what}");
            for visit in 1..6 {
                let (text, scripts) = ask(&mut client, "/a-page");
                assert_eq!(text, said(time), "{what}");
                for file in FILES {
                    let name = format!("phar:///library.phar/{file}");
                    let rise = if loaded_by_requests.contains(&file) { visit } else { 0 };
                    assert_eq!(scripts[&name], first[&name] + rise, "{what}: {name}: {first:?}, {scripts:?}");
                }
            }
            let log = reprise.log();
            assert!(log.contains(&format!("/{entry} is booted, isolation {isolation}")), "{log}");
            assert!(!log.contains("recycled"), "{what}: {log}");
        }
    }
}
