//! What Cargo builds: everything that is tested, in one profile and one command, so that each library is compiled once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::server::project;

use crate::group::Group;

/// The profile of all that is tested: debug assertions and overflow checks, little optimisation (Cargo.toml).
pub const PROFILE: &str = "tests";

/// Clippy as a compiler, as `cargo clippy` runs it: looking at all libraries again by `cargo clippy` takes 300 s of processor time in a new
/// checkout. All builds of this profile have it, so that what one has compiled another finds.
const LINTER: &str = "clippy-driver";

/// The package whose test programs start the real programs.
const BLACK_BOX: &str = "tests/";

/// A program that holds tests.
pub struct TestProgram {
    /// The executable.
    pub path: PathBuf,
    /// Where Cargo would run it: its package.
    pub directory: PathBuf,
    /// The package and, for an integration test, the target.
    pub name: String,
}

impl TestProgram {
    /// A part of the black box, which was built before.
    pub fn black_box(path: PathBuf) -> TestProgram {
        TestProgram { path, directory: project().join(BLACK_BOX), name: BLACK_BOX.to_owned() }
    }

    /// Whether it starts the real programs.
    pub fn is_black_box(&self) -> bool {
        self.name.starts_with(BLACK_BOX)
    }
}

/// What is built beside the programs.
pub enum Wanted {
    /// The unit tests and the black box.
    AllTests,
    /// The black box.
    BlackBox,
}

/// What a build made.
pub struct Built {
    /// The programs with tests.
    pub programs: Vec<TestProgram>,
    /// What the compiler, or clippy, warns of. Each is text for people.
    pub warnings: Vec<String>,
    /// The processor time.
    pub processor: Duration,
}

/// Builds the programs and the tests.
pub fn build(wanted: &Wanted) -> Result<Built, String> {
    let mut cargo = cargo();
    cargo.args(["build", "--profile", PROFILE, "--workspace", "--bins", "--message-format=json"]);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", LINTER);
    match wanted {
        Wanted::AllTests => cargo.args(["--tests", "--examples"]),
        Wanted::BlackBox => cargo.args(subjects()?.iter().flat_map(|subject| ["--test", subject])),
    };
    let (status, said, processor) = finish(cargo.stdout(Stdio::piped()))?;
    let warnings: Vec<String> = said.lines().filter_map(warning).collect();
    if !status.success() {
        return Err(format!("{}cargo build: {status}", warnings.concat()));
    }
    Ok(Built { programs: said.lines().filter_map(test_program).collect(), warnings, processor })
}

/// The programs of the black box: Cargo makes one of each directory.
fn subjects() -> Result<Vec<String>, String> {
    let place = project().join("tests/tests");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    let entries = std::fs::read_dir(&place).map_err(failed)?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Where Cargo builds: another directory than the usual one on another platform.
pub fn target() -> PathBuf {
    project().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Builds reprise-php with sanitizers, beside copies of the other programs, and returns their directory and
/// the processor time.
pub fn build_sanitized(sanitizers: &str) -> Result<(PathBuf, Duration), String> {
    let place = target().join("sanitized");
    let mut cargo = cargo();
    cargo
        .args(["build", "--profile", PROFILE, "--package", "reprise-php", "--target-dir"])
        .arg(&place)
        .env("REPRISE_SANITIZE", sanitizers);
    let (_, processor) = run(&mut cargo).map_err(|error| format!("with {sanitizers}: {error}"))?;
    let programs = place.join(PROFILE);
    copy_programs(&programs)?;
    Ok((programs, processor))
}

/// Copies the programs that know nothing of PHP to a directory with another reprise-php.
pub fn copy_programs(directory: &Path) -> Result<(), String> {
    for program in ["reprise", "reprise-bench"] {
        let built = tests::server::program().with_file_name(program);
        std::fs::copy(built, directory.join(program)).map_err(|error| format!("{program}: {error}"))?;
    }
    Ok(())
}

/// Builds what is shipped, as the README says. Returns the processor time.
pub fn build_release() -> Result<Duration, String> {
    run(cargo().args(["build", "--release"])).map(|(_, processor)| processor)
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(project()).stdin(Stdio::null());
    command
}

/// Runs Cargo, which must succeed. Returns what it prints into a pipe, and the processor time.
pub fn run(cargo: &mut Command) -> Result<(String, Duration), String> {
    match finish(cargo)? {
        (status, said, processor) if status.success() => Ok((said, processor)),
        (status, ..) => Err(format!("cargo build: {status}")),
    }
}

/// Runs Cargo to its end. Returns its status too.
fn finish(cargo: &mut Command) -> Result<(ExitStatus, String, Duration), String> {
    let failed = |error: std::io::Error| format!("cargo: {error}");
    let mut group = Group::start(cargo).map_err(failed)?;
    let mut said = Vec::new();
    if let Some(mut output) = group.child.stdout.take() {
        output.read_to_end(&mut said).map_err(failed)?;
    }
    let (status, processor) = group.finish().map_err(failed)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned(), processor))
}

/// A line of what Cargo says: a message of the compiler.
fn warning(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    Some(message["message"]["rendered"].as_str()?.to_owned())
}

/// A line of what Cargo says: an artifact with tests that can be run.
fn test_program(line: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = directory.file_name()?.to_string_lossy().into_owned();
    let name = match message["target"]["name"].as_str()? {
        target if target == package => package,
        target => format!("{package}/{target}"),
    };
    Some(TestProgram { path, directory, name })
}
