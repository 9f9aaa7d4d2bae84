//! Applications on which nothing is wrong: those of Debian and the test applications have no finding of level error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tests::bridged::build;
use tests::peer::run_to_end;
use tests::server::project;

use super::report_of;

const CODE: [&str; 6] = ["--only", "version", "--only", "worker", "--only", "deployment"];

#[track_caller]
fn is_clean(name: &str, directory: &Path) -> Duration {
    let began = Instant::now();
    let report = report_of(directory, &CODE);
    let took = began.elapsed();
    let errors: Vec<_> = report.findings().iter().filter(|finding| finding["severity"] == "error").collect();
    assert!(errors.is_empty() && report.code == 0, "{name}: {errors:#?}");
    let scripts = report.json["applications"][0]["scripts"].as_u64().unwrap_or(0);
    let notices = report.ids("notice").len();
    println!("{name}: {scripts} scripts in {took:?}, {} warnings, {notices} notices", report.ids("warning").len());
    assert!(scripts > 0, "{name}");
    took
}

#[test]
fn test_applications_have_no_errors() {
    for name in &["slim", "symfony", "laravel"][..tests::amount(1, 3)] {
        let (_directory, application) = build(name);
        is_clean(name, &application);
    }
}

/// WordPress of Debian: a thousand scripts, on two processors that others use too.
#[test]
fn wordpress_has_no_errors_and_takes_seconds() {
    let installed = Path::new("/usr/share/wordpress");
    let current = PathBuf::from(std::env::var_os("REPRISE_APPS").unwrap_or("/opt/reprise-apps".into()));
    let current = current.join("usr/share/wordpress");
    let tree = if installed.is_dir() { installed } else { current.as_path() };
    let took = is_clean("wordpress", tree);
    assert!(took < tests::seconds(10), "{took:?}");
}

/// Kanboard, and in the full run Roundcube and others, whose packages are downloaded once.
#[test]
fn applications_of_debian_have_no_errors() {
    let roots = [
        ("kanboard", "usr/share/kanboard"),
        ("roundcube", "var/lib/roundcube"),
        ("mediawiki", "var/lib/mediawiki"),
        ("dokuwiki", "usr/share/dokuwiki"),
        ("phpmyadmin", "usr/share/phpmyadmin"),
        ("shaarli", "usr/share/shaarli"),
    ];
    let place = std::env::var_os("REPRISE_UNPACKED").map_or("/var/cache/reprise/unpacked".into(), PathBuf::from);
    for (name, root) in roots.iter().take(tests::amount(1, roots.len())) {
        run_to_end(Command::new(project().join("tests/apps/unpack.sh")).arg(&place).arg(name));
        is_clean(name, &place.join(name).join(root));
    }
}
