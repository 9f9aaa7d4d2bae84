//! The other platform: another Debian release with another version of PHP. Its root directory is made of its packages
//! (`scripts/root`), and tests run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::server::{program, project};

use crate::build::{self, TestProgram};
use crate::command;
use crate::report::{Counts, Report};
use crate::times;

/// Which release is the other one, by the release that this machine runs. What this machine builds has to run there, so the other
/// release's C library must not be older.
const OTHER: [(&str, &str, &str); 1] = [("bookworm", "trixie", "8.4")];

/// The root directory of the other release.
pub struct Platform {
    root: PathBuf,
    release: &'static str,
    php: &'static str,
}

impl Platform {
    /// The other platform, its root directory made if need be. The error says why its tests are left out, or what failed.
    pub fn other() -> Result<Platform, Absent> {
        let (release, php) = Platform::possible().map_err(Absent::LeftOut)?;
        Ok(Platform { root: make_root(release, php)?, release, php })
    }

    /// Release and PHP of the other platform that this machine can have, without making anything. The error says why there is none.
    pub fn possible() -> Result<(&'static str, &'static str), String> {
        let own = own_release();
        let Some(&(_, release, php)) = OTHER.iter().find(|(known, ..)| *known == own) else {
            return Err(format!("no other platform is known to one that runs Debian '{own}'"));
        };
        match tests::process::is_root() {
            true => Ok((release, php)),
            false => Err(format!("Debian {release} with PHP {php} is entered by chroot, which needs root")),
        }
    }

    /// The same with this platform's PHP below /opt.
    pub fn with_two_versions() -> Result<Platform, Absent> {
        let other = Platform::other()?;
        Ok(Platform { root: make_root(other.release, "both")?, ..other })
    }

    /// Makes what the tests on the other platform need. Returns the processor time of the build.
    pub fn prepare() -> Result<Duration, Absent> {
        Platform::other()?.build().map_err(Absent::Failed)
    }

    /// Where the other platform's programs are built.
    fn target(&self) -> PathBuf {
        project().join(format!("target/php{}", self.php))
    }

    /// A command in the other platform's root directory, whose programs are in `target`.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(project().join("scripts/root"));
        command
            .arg("enter")
            .arg(&self.root)
            .arg(program)
            .current_dir(project())
            .env("CARGO_TARGET_DIR", self.target())
            .env_remove("REPRISE_PROGRAMS");
        command
    }

    /// Builds reprise-php for the other platform, and runs the tests of the black box whose names begin so with it and with the
    /// other programs of this platform.
    pub fn run_tests(&self, programs: &[TestProgram], names: &[&str], report: &Report) -> Counts {
        let directory = self.target().join(build::PROFILE);
        match self.build().and_then(|processor| build::copy_programs(&directory).map(|()| processor)) {
            Ok(processor) => {
                // Isolation by fork has nothing that depends on PHP's version.
                let rewinds = [("REPRISE_ISOLATION", "rewind".to_owned())];
                self.run_with(&directory, programs, names, &rewinds, report)
                    .and(Counts { processor, ..Counts::default() })
            }
            Err(why) => failed(&why),
        }
    }

    /// The same with a reprise-php of each platform, whose names say their versions.
    pub fn run_tests_of_both(
        &self,
        programs: &[TestProgram],
        names: &[&str],
        environment: &[(&'static str, String)],
        report: &Report,
    ) -> Counts {
        let directory = self.target().join("both");
        match self.build().and_then(|processor| self.copy_both(&directory).map(|()| processor)) {
            Ok(processor) => self
                .run_with(&directory, programs, names, environment, report)
                .and(Counts { processor, ..Counts::default() }),
            Err(why) => failed(&why),
        }
    }

    /// Builds reprise-php for the other platform. Returns the processor time.
    fn build(&self) -> Result<Duration, String> {
        let mut cargo = self.command(Path::new("cargo"));
        cargo.args(["build", "--offline", "--profile", build::PROFILE, "--package", "reprise-php"]);
        build::run(&mut cargo).map(|(_, processor)| processor).map_err(|why| format!("with PHP {}: {why}", self.php))
    }

    fn copy_both(&self, directory: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        std::fs::create_dir_all(directory).map_err(failed)?;
        build::copy_programs(directory)?;
        let own = program().with_file_name("reprise-php");
        let said = Command::new(&own).arg("--version").output().map_err(failed)?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let release =
            text.lines().find_map(|line| line.strip_prefix("php ")).and_then(|release| release.rsplit_once('.'));
        let (version, _) = release.ok_or_else(|| format!("{} says no version: {text}", own.display()))?;
        let other = self.target().join(build::PROFILE).join("reprise-php");
        for (from, version) in [(own, version), (other, self.php)] {
            std::fs::copy(from, directory.join(format!("reprise-php{version}"))).map_err(failed)?;
        }
        Ok(())
    }

    fn run_with(
        &self,
        directory: &Path,
        programs: &[TestProgram],
        names: &[&str],
        environment: &[(&'static str, String)],
        report: &Report,
    ) -> Counts {
        let runner = program().with_file_name("runner");
        let mut command = self.command(&runner);
        command.arg("--built").arg(black_box(programs)).args(names);
        let counts = command::run(command.env("REPRISE_PROGRAMS", directory).envs(environment.iter().cloned()));
        report.keep_costs(times::of_built(&self.target()), &format!("PHP {}", self.php));
        counts
    }

    /// The oldest Rust that Reprise is built with, which is that release's own, accepts all of it.
    pub fn check_rust(&self) -> Counts {
        let mut cargo = self.command(Path::new("/usr/bin/cargo"));
        cargo.args(["check", "--offline", "--quiet", "--workspace", "--all-targets"]);
        cargo.env("PATH", "/usr/bin:/bin").env("CARGO_TARGET_DIR", self.target().join("oldest-rust"));
        command::run(&mut cargo)
    }

    /// Runs stages as `./test` does on a machine of that platform: everything is built there.
    pub fn run_stages(&self, stages: &[&str]) -> Counts {
        let mut command = self.command(&project().join("test"));
        command::run(command.arg("--stage").args(stages))
    }
}

/// The programs of the black box, as `runner --built` takes them: with colons between them.
pub fn black_box(programs: &[TestProgram]) -> std::ffi::OsString {
    let paths = programs.iter().filter(|program| program.is_black_box()).map(|program| &program.path);
    std::env::join_paths(paths).expect("Cargo's names have no colon")
}

/// Has `scripts/root` make a root directory, or find it.
fn make_root(release: &str, what: &str) -> Result<PathBuf, Absent> {
    let failed = |why: String| Absent::Failed(format!("scripts/root make {release} {what}: {why}"));
    let output = Command::new(project().join("scripts/root"))
        .args(["make", release, what])
        .current_dir(project())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Why there is no other platform.
pub enum Absent {
    /// It cannot be there; the run says so and goes on.
    LeftOut(String),
    /// It should be there.
    Failed(String),
}

fn failed(why: &str) -> Counts {
    println!("{why}");
    Counts::FAILED
}

/// The code name of the Debian release that runs this; empty if its os-release names none.
fn own_release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// The kernels of users: Debian 12's own, Debian 13's, and the newest that Debian has.
pub const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// Runs the tests of the black box whose names begin so on another kernel, which `scripts/kernel` boots in an emulated machine. There
/// everything takes about ten times as long.
pub fn kernel(version: &str, programs: &[TestProgram], names: &[&str]) -> Counts {
    let programs_of_this_machine = program().with_file_name("");
    let mut command = Command::new(project().join("scripts/kernel"));
    command.args(["run", version]).arg(program().with_file_name("runner")).arg("--built").arg(black_box(programs));
    command::run(
        command
            .args(names)
            .env("REPRISE_PROGRAMS", programs_of_this_machine)
            .env("REPRISE_PATIENCE", "10")
            .env("REPRISE_WAY", "soft-dirty")
            .env("REPRISE_TEST_THREADS", "2"),
    )
}

/// Runs the tests of the black box whose names begin so with programs for arm64, which `scripts/cross` builds.
pub fn arm64(programs: &[TestProgram], names: &[&str]) -> Counts {
    let mut command = Command::new(project().join("scripts/cross"));
    command.arg("test").arg(program().with_file_name("runner")).arg(black_box(programs));
    command::run(command.args(names))
}
