//! A framework's application as a release: in every mode its pages are those that it has in a directory.

use std::fs;
use std::process::Command;

use tests::amount;
use tests::bridged::{RUNTIME, SYMFONY_WARM, build_bridged};
use tests::closed_list::{EXPIRES, Pattern, decimal};
use tests::compare::{Build, Pair, Site};
use tests::peer::run_to_end;
use tests::yard::Yard;

use super::symfony::{CSRF, symfony};

/// What the application writes: sessions, uploads, and its database.
const WRITTEN: [&str; 3] = ["var/sessions", "var/uploads", "data"];

/// The application counts its responses since it was booted.
const SINCE_THE_BOOT: Pattern = Pattern {
    name: "responses since the boot, of a kept kernel",
    before: &["x-served-by-process: "],
    of: decimal,
    length: (1, 4),
    after: "",
};

/// Compiled, and unpacked where its user cannot write. The directory of which the release was made is gone.
#[test]
fn symfony_as_a_release_has_the_pages_of_its_directory() {
    let yard = Yard::new(None);
    let (place, application) = build_bridged("symfony");
    let directory = Build::new("symfony");
    let base = yard.path("base").to_str().unwrap().to_owned();
    let file = yard.push(&application, &["--release-dir", &base]);
    assert!(file.is_file());
    yard.activate_fine("latest");
    let data = yard.path("data");
    run_to_end(Command::new("cp").arg("-a").arg(application.join("data")).arg(&data));
    drop(place);
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        let mode = *mode;
        let writable = WRITTEN.map(|path| format!("\"{path}\"")).join(", ");
        let mut lines = format!("release_writable = [{writable}]\nenv.APP_RUNTIME = \"{RUNTIME}\"\n");
        if mode != "classic" {
            lines.push_str(&format!(
                "mode.\"index.php\" = \"{mode}\"\nenv.REPRISE_MODE = \"{mode}\"\nenv.REPRISE_WARMUP = \"{SYMFONY_WARM}\"\n"
            ));
        }
        let (setup, _) = yard.setup(mode, &format!("release_dir = \"{base}\""), &lines);
        let shared = setup.directory().join("shared/shop");
        fs::create_dir_all(&shared).unwrap();
        run_to_end(Command::new("cp").arg("-a").arg(&data).arg(&shared));
        let site = Site { ours: shared, theirs: directory.site().theirs };
        let patterns: &[Pattern] = if mode == "classic" { &[CSRF, EXPIRES] } else { &[CSRF, EXPIRES, SINCE_THE_BOOT] };
        let setup = std::cell::Cell::new(Some(setup));
        let pair = Pair::start(&site, "public", &[patterns], |_| setup.take().expect("one server"));
        let log = symfony(pair, &site, &format!("Symfony as a release, {mode}"));
        assert!(!log.contains("warm-up") && !log.contains("is not to be had"), "{log}");
        let word = match mode {
            "classic" => continue,
            "worker" => "worker mode",
            _ => "is booted, isolation",
        };
        assert!(log.contains(word), "{log}");
    }
}
