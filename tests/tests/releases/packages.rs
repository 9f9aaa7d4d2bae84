//! Debian packages: what is in them, and how they are installed, upgraded and removed in roots of Debian releases, as root.
//!
//! `small` belongs to the default run. The other tests need roots and a mirror, and run with `--full` alone.

mod chart;
mod image;
mod install;
mod manager;
mod place;
mod repository;
mod small;

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::server::{program, project};

/// Runs a program to its end; what it has printed. A failure ends the test.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{said}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// scripts/package, with the programs under test unless the flags name others; the packages.
fn package(output: &Path, flags: &[&str]) -> Vec<PathBuf> {
    let mut command = Command::new("scripts/package");
    command.current_dir(project()).arg("--output").arg(output).args(["--maintainer", "Reprise <reprise@example.org>"]);
    if !flags.contains(&"--programs") {
        command.arg("--programs").arg(program().with_file_name(""));
    }
    run(command.args(flags)).lines().map(PathBuf::from).collect()
}
