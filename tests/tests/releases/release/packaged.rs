//! What a Debian package of the server has for releases, and the rights that its unit leaves.

use std::fs;
use std::process::Command;

use tests::Setup;
use tests::server::{program, project};

use tests::yard::{Node, Yard};

fn read(path: &str) -> String {
    fs::read_to_string(project().join("packaging").join(path)).unwrap()
}

/// The mount unit is for the directory that the server takes, its file is named as systemd wants, and the user exists.
#[test]
fn the_package_has_the_directory_and_the_user() {
    let yard = Yard::new(None);
    let options = Command::new(program()).args(["check", "--options"]).output().unwrap();
    let options = String::from_utf8(options.stdout).unwrap();
    let unit = read("run-reprise_releases.mount");
    let place = unit.lines().find_map(|line| line.strip_prefix("Where=")).unwrap();
    assert!(options.contains(place), "release_dir is {place}: {options}");
    let build = yard.fine(&["build", "--help"]);
    assert!(build.contains(&format!("[default: {place}]")), "{build}");
    let name = Command::new("systemd-escape").args(["--path", "--suffix=mount", place]).output().unwrap();
    assert_eq!(String::from_utf8(name.stdout).unwrap().trim(), "run-reprise_releases.mount");
    // The user is made with the package and goes with it, and so does the directory.
    assert!(options.contains("reprise-release"), "{options}");
    assert!(
        read("debian/reprise.postinst")
            .contains("adduser --system --group --quiet --no-create-home --home /nonexistent reprise-release\n")
    );
    let purge = read("debian/reprise.postrm");
    assert!(purge.contains(" reprise-release;") && purge.contains(&format!(" {place}\n")), "{purge}");
    // Without these the processes could not become that user, or the directories not be given to it.
    let service = read("reprise.service");
    let kept = service.lines().find(|line| line.starts_with("CapabilityBoundingSet=")).unwrap();
    for right in ["CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_READ_SEARCH", "CAP_KILL"] {
        assert!(kept.contains(right), "{kept}");
    }
}

/// A node under the unit's restrictions takes a release, switches, goes back, and starts again without its pool.
#[test]
fn a_node_works_under_the_units_restrictions() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let (setup, admin) = yard.setup("one", "", "release_writable = [\"public/uploads\"]");
    let confined = |setup: Setup| {
        let unit = project().join("packaging/reprise.service");
        setup.command(["python3".into(), project().join("tests/confine.py"), unit, program()])
    };
    let node = Node { server: confined(setup).start(), admin };
    assert!(node.serves("1") && node.is_ready(), "{}", node.server.log());
    yard.await_nodes(1);
    yard.push_version("2");
    yard.activate_fine("latest");
    assert!(node.serves("2"));
    yard.rollback();
    assert!(node.serves("1"));
    assert!(!node.server.log().contains("not confined"), "{}", node.server.log());
}
