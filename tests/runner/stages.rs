//! The stages.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use tests::once::SHARED;
use tests::server::Directory;

use crate::build::{self, TestProgram, Wanted};
use crate::gate::Bounds;
use crate::group::interrupted;
use crate::harness::{self, Plan, begins};
use crate::platform::{Absent, Platform};
use crate::report::{Counts, Report};
use crate::selection::{
    ALONE, FULL_ONLY, JUDGES, MEASURING, NEEDING, NOT_SANITIZED, Needing, ON_ARM64, ON_KERNELS, ON_OTHER_PLATFORM,
    PACKAGES, SANITIZED, SMOKE, WITH_TWO_VERSIONS, check_names, limit_s,
};
use crate::{command, long, platform, times};

/// A stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// What can be checked without running anything.
    Style,
    /// Licences and sources of the libraries.
    Libraries,
    /// Tests beside the code, and what fuzzing has found before.
    Unit,
    /// The model checker, if what it checks has changed.
    Model,
    /// The model checker in any case.
    ModelAlways,
    /// The scripts of bench/, if they have changed.
    Bench,
    /// The scripts of bench/ in any case.
    BenchAlways,
    /// The real programs.
    BlackBox,
    /// All tests of the real programs, as much of each as usual.
    BlackBoxAll,
    /// All tests of the real programs, untrimmed.
    BlackBoxFull,
    /// Rewinds that fill free memory with zeroes.
    Scrubbed,
    /// Debian packages, in copies of bare Debians.
    Packages,
    /// Judges of TLS, and clients of other libraries.
    Judges,
    /// The suites of php-src.
    Foreign,
    /// The suites of php-src and the tests that reach the C part most, with AddressSanitizer.
    Sanitizers,
    /// All tests that reach the C part, with AddressSanitizer.
    SanitizersFull,
    /// What depends on PHP's version most, with that of another Debian release.
    OtherPlatform,
    /// All of it there.
    OtherPlatformFull,
    /// One server with two versions of PHP.
    TwoVersions,
    /// The same, untrimmed.
    TwoVersionsFull,
    /// Rewinds on the kernels of users, in an emulated machine.
    Kernels,
    /// The programs for arm64, on an emulated processor.
    Arm64,
    /// The programs as they are shipped.
    Release,
    /// Every fuzz target, for seconds.
    Fuzz,
    /// Every fuzz target, for an hour.
    FuzzLong,
    /// The long runs.
    Long,
    /// The long runs with audited requests.
    LongAudited,
    /// The same on the other platform.
    LongOtherPlatform,
}

use Stage::{
    Arm64, Bench, BenchAlways, BlackBox, BlackBoxAll, BlackBoxFull, Foreign, Fuzz, FuzzLong, Judges, Kernels,
    Libraries, Long, LongAudited, LongOtherPlatform, Model, ModelAlways, OtherPlatform, OtherPlatformFull, Packages,
    Release, Sanitizers, SanitizersFull, Scrubbed, Style, TwoVersions, TwoVersionsFull, Unit,
};

impl Stage {
    fn is_black_box(self) -> bool {
        matches!(self, BlackBox | BlackBoxAll | BlackBoxFull)
    }
}

/// Without an argument.
pub const DEFAULT: [Stage; 8] = [Style, Unit, Model, Bench, BlackBox, Sanitizers, OtherPlatform, TwoVersions];

/// With --full.
pub const FULL: [Stage; 17] = [
    Libraries,
    Style,
    Unit,
    ModelAlways,
    BenchAlways,
    BlackBoxFull,
    Scrubbed,
    Packages,
    Judges,
    Foreign,
    SanitizersFull,
    OtherPlatformFull,
    TwoVersionsFull,
    Kernels,
    Arm64,
    Release,
    Fuzz,
];

/// With --soak.
pub const SOAK: [Stage; 3] = [Long, LongOtherPlatform, FuzzLong];

/// Stages that measure nothing, and so run beside the black box.
const BESIDE: [Stage; 3] = [Style, Bench, BenchAlways];

/// All by their names.
const NAMES: [(&str, Stage); 28] = [
    ("style", Style),
    ("libraries", Libraries),
    ("unit tests", Unit),
    ("model checker", Model),
    ("model checker, always", ModelAlways),
    ("bench", Bench),
    ("bench, always", BenchAlways),
    ("black box", BlackBox),
    ("black box, all", BlackBoxAll),
    ("black box, full", BlackBoxFull),
    ("rewinds, scrubbed", Scrubbed),
    ("packages", Packages),
    ("judges", Judges),
    ("foreign suites", Foreign),
    ("sanitizers", Sanitizers),
    ("sanitizers, full", SanitizersFull),
    ("other platform", OtherPlatform),
    ("other platform, full", OtherPlatformFull),
    ("two versions of PHP", TwoVersions),
    ("two versions of PHP, full", TwoVersionsFull),
    ("kernels", Kernels),
    ("arm64", Arm64),
    ("release", Release),
    ("fuzz", Fuzz),
    ("fuzz, long", FuzzLong),
    ("long runs", Long),
    ("long runs, audited", LongAudited),
    ("long runs, other platform", LongOtherPlatform),
];

/// What tests that do more in `--full` read (`tests::amount`).
const UNTRIMMED: &str = "REPRISE_FULL";

/// With which the C part is built.
const SANITIZERS: &str = "address,undefined";

/// The stages that run on the other platform: each test, but not for as long as on this one.
const FULL_ON_OTHER_PLATFORM: [&str; 4] = ["unit tests", "black box, all", "foreign suites", "sanitizers, full"];

/// The names of all stages.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Stages by their names; the error is the name that none has.
pub fn by_name<'a>(names: &[&'a str]) -> Result<Vec<Stage>, &'a str> {
    let find = |name: &&'a str| NAMES.iter().find(|(known, _)| known == name).map(|(_, stage)| *stage).ok_or(*name);
    names.iter().map(find).collect()
}

/// Runs stages one after the other, but for those that run beside the black box. Without the programs none is begun.
pub fn run(stages: &[Stage], report: &Report) {
    let Some(programs) = build(&Wanted::AllTests, report) else { return };
    if !report.stage("names", || check_names(&programs)) {
        return;
    }
    let is_beside = |stage: &Stage| BESIDE.contains(stage) && stages.iter().any(|stage| stage.is_black_box());
    let (beside, others): (Vec<Stage>, Vec<Stage>) = stages.iter().partition(|stage| is_beside(stage));
    for stage in others {
        if stage.is_black_box() {
            run_with(stage, &beside, stages, &programs, report);
        } else {
            run_one(stage, &programs, report, &|| {});
        }
    }
}

/// The tests of the black box wait so often that there is time for stages beside them, and for building what comes next.
fn run_with(black_box: Stage, beside: &[Stage], all: &[Stage], programs: &[TestProgram], report: &Report) {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for &stage in beside {
                run_one(stage, programs, report, &|| {});
            }
            // A stage that needs what could not be made tries again, and fails.
            let spent = |processor| Counts { processor, ..Counts::default() };
            if all.iter().any(|stage| [Sanitizers, SanitizersFull].contains(stage)) {
                report.build("build with sanitizers", || {
                    build::build_sanitized(SANITIZERS)
                        .map_or_else(|_| Counts::default(), |(_, processor)| spent(processor))
                });
            }
            if all.contains(&OtherPlatform) {
                report.build("build for the other platform", || {
                    Platform::prepare().map_or_else(|_| Counts::default(), spent)
                });
            }
            if all.contains(&TwoVersions) {
                report.build("root directory of two versions", || {
                    let _ = Platform::with_two_versions();
                    Counts::default()
                });
            }
            drop(done);
        });
        let quiet = || {
            // Nothing is sent: the end of the other thread is an error here.
            let _ = waits.recv();
        };
        run_one(black_box, programs, report, &quiet);
    });
}

/// Runs the black-box tests whose names contain one of these. Names that begin as those of tests with two versions of PHP are for
/// these.
pub fn run_named(names: &[&str], report: &Report) {
    let Some(programs) = build(&Wanted::BlackBox, report) else { return };
    let module = |word: &str| word.trim_end_matches(':').to_owned();
    let is_two = |name: &str| WITH_TWO_VERSIONS.iter().any(|word| name.starts_with(&module(word)));
    let (two, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_two(name));
    if !two.is_empty() {
        report.stage("two versions of PHP", || two_versions(&programs, &two, &[], report));
    }
    if !others.is_empty() {
        let selects =
            |name: &str| others.iter().any(|wanted| name.contains(wanted)) && !begins(&WITH_TWO_VERSIONS, name);
        report.stage("black box", || black_box(&programs, vec![], &selects, report, &|| {}));
    }
}

/// Runs the tests of a black box that was built before whose names begin so.
pub fn run_built(programs: &[TestProgram], names: &[&str], report: &Report) {
    let is_full = std::env::var_os(UNTRIMMED).is_some();
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted));
    let selects = |name: &str| is_meant(name) && (is_full || !begins(&FULL_ONLY, name));
    report.stage("black box", || black_box(programs, vec![], &selects, report, &|| {}));
}

/// Runs the black-box tests whose names begin so on another kernel.
pub fn run_on_kernel(version: &str, names: &[&str], report: &Report) {
    let Some(programs) = build(&Wanted::BlackBox, report) else { return };
    report.stage("kernel", || platform::kernel(version, &programs, names));
}

fn build(wanted: &Wanted, report: &Report) -> Option<Vec<TestProgram>> {
    let mut programs = None;
    report.build("build", || match build::build(wanted) {
        Ok(built) => {
            programs = Some(built.programs);
            print!("{}", built.warnings.concat());
            let failed = usize::from(!built.warnings.is_empty());
            Counts { passed: 1 - failed, failed, processor: built.processor }
        }
        Err(why) => {
            println!("{why}");
            Counts::FAILED
        }
    });
    programs
}

/// Runs a stage, unless the run is over. `quiet` waits for what runs beside it.
fn run_one(stage: Stage, programs: &[TestProgram], report: &Report, quiet: &dyn Fn()) {
    if interrupted().is_none() {
        let name = NAMES.iter().find(|(_, known)| *known == stage).map_or("", |(name, _)| *name);
        report.stage(name, || count(stage, programs, report, quiet));
    }
}

fn count(stage: Stage, programs: &[TestProgram], report: &Report, quiet: &dyn Fn()) -> Counts {
    let is_here = |name: &str| ![&WITH_TWO_VERSIONS, &JUDGES, &MEASURING].iter().any(|words| begins(*words, name));
    match stage {
        Style => command::run(Command::new("scripts/style").arg("--linted")),
        Libraries => command::run(Command::new("scripts/deny").arg("--install")),
        Model => command::run(&mut Command::new("scripts/model")),
        ModelAlways => command::run(Command::new("scripts/model").arg("--always")),
        Bench => bench(programs, vec![], false),
        BenchAlways => bench(programs, full(), true),
        Foreign => foreign(None),
        Fuzz => command::run(Command::new("scripts/fuzz").arg(long::knob("FUZZ_SECONDS", "10"))),
        FuzzLong => command::run(Command::new("scripts/fuzz").arg(long::knob("FUZZ_SECONDS", "3600"))),
        Unit => unit(programs, report),
        BlackBox => {
            let is_other_possible = Platform::possible().is_ok();
            let is_there = |name: &str| begins(&ON_OTHER_PLATFORM, name) && is_other_possible;
            let is_once = |name: &str| !begins(&SANITIZED, name) && !is_there(name);
            let selects = |name: &str| !begins(&FULL_ONLY, name) && is_here(name) && is_once(name);
            black_box(programs, vec![], &selects, report, quiet)
        }
        BlackBoxAll => black_box(programs, vec![], &|name| !begins(&PACKAGES, name) && is_here(name), report, quiet),
        BlackBoxFull => black_box(programs, full(), &|name| !begins(&PACKAGES, name) && is_here(name), report, quiet),
        Scrubbed => {
            let environment = vec![("REPRISE_ISOLATION", "rewind".to_owned()), ("REPRISE_SCRUB", "1".to_owned())];
            black_box(programs, environment, &|name| name.starts_with("rewind"), report, quiet)
        }
        Packages => black_box(programs, full(), &|name| begins(&PACKAGES, name), report, quiet),
        Judges => black_box(programs, full(), &|name| begins(&JUDGES, name), report, quiet),
        Sanitizers => {
            sanitized(programs, vec![], &|name| begins(&SANITIZED, name) && !begins(&FULL_ONLY, name), report)
        }
        SanitizersFull => sanitized(programs, vec![], &|name| !begins(&NOT_SANITIZED, name) && is_here(name), report),
        TwoVersions => two_versions(programs, &WITH_TWO_VERSIONS, &[], report),
        TwoVersionsFull => two_versions(programs, &WITH_TWO_VERSIONS, &full(), report),
        OtherPlatform => {
            let run = |platform: &Platform| platform.run_tests(programs, &ON_OTHER_PLATFORM, report);
            other_platform(Platform::other(), report, &run)
        }
        OtherPlatformFull => other_platform(Platform::other(), report, &|platform| {
            platform.check_rust().and(platform.run_stages(&FULL_ON_OTHER_PLATFORM))
        }),
        Kernels => platform::KERNELS
            .iter()
            .fold(Counts::default(), |counts, version| counts.and(platform::kernel(version, programs, &ON_KERNELS))),
        Arm64 => platform::arm64(programs, &ON_ARM64),
        Release => release(programs, report),
        Long => long::run(programs, report),
        LongAudited => long::run_audited(programs, report),
        LongOtherPlatform => {
            other_platform(Platform::other(), report, &|platform| platform.run_stages(&["long runs, audited"]))
        }
    }
}

/// The scripts of bench/ by their own tests, and what measures in the black box, if nothing of that is what the last good run left.
fn bench(programs: &[TestProgram], environment: Vec<(&'static str, String)>, is_always: bool) -> Counts {
    const RUN: &str = r#"python3 -m unittest discover -s bench/tests && "$0" --built "$@""#;
    let runner = tests::server::program().with_file_name("runner");
    let mut command = Command::new("scripts/checked");
    command.args(is_always.then_some("--always")).args(["bench/tests/bench.checked", "bench", "crates/bench"]);
    command.args(["tests/tests/cli/measuring.rs", "--", "bash", "-c", RUN]);
    command.arg(&runner).arg(platform::black_box(programs)).args(MEASURING);
    command::run(command.env("REPRISE_PROGRAMS", runner.with_file_name("")).envs(environment))
}

/// The environment of a full run.
fn full() -> Vec<(&'static str, String)> {
    vec![(UNTRIMMED, "1".to_owned())]
}

/// How many tests run at once. `REPRISE_TEST_THREADS` says another number.
fn bounds() -> Bounds {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let wanted = std::env::var("REPRISE_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    wanted.map_or(Bounds { least: processors, most: 4 * processors }, |wanted| Bounds { least: wanted, most: wanted })
}

fn unit(programs: &[TestProgram], report: &Report) -> Counts {
    let units: Vec<&TestProgram> = programs.iter().filter(|program| !program.is_black_box()).collect();
    let bounds = bounds();
    let costs = &times::known();
    let plan = Plan { bounds, environment: vec![], selects: &|_| true, alone: &[], costs, limit_s: &limit_s };
    let (counts, ran) = harness::run(&units, &plan, &|| {});
    report.keep(ran);
    counts
}

/// Runs tests of the black box.
fn black_box(
    programs: &[TestProgram],
    mut environment: Vec<(&'static str, String)>,
    selects: &(dyn Fn(&str) -> bool + Sync),
    report: &Report,
    quiet: &dyn Fn(),
) -> Counts {
    let programs: Vec<&TestProgram> = programs.iter().filter(|program| program.is_black_box()).collect();
    let absent: Vec<(&Needing, AtomicUsize)> =
        NEEDING.iter().filter(|needing| !(needing.is_here)()).map(|needing| (needing, AtomicUsize::new(0))).collect();
    let selects = |name: &str| {
        let why = absent.iter().find(|(needing, _)| begins(needing.names, name)).filter(|_| selects(name));
        if let Some((_, count)) = why {
            count.fetch_add(1, Ordering::Relaxed);
        }
        selects(name) && why.is_none()
    };
    // Applications are built once for all tests of the stage.
    let applications = Directory::new();
    environment.push((SHARED, applications.0.display().to_string()));
    let costs = &times::known();
    let plan = Plan { bounds: bounds(), environment, selects: &selects, alone: &ALONE, costs, limit_s: &limit_s };
    let (counts, ran) = harness::run(&programs, &plan, quiet);
    report.keep(ran);
    for (needing, count) in absent {
        let is_elsewhere = needing.is_of_other_platform && Platform::possible().is_ok();
        match count.into_inner() {
            0 => {}
            _ if is_elsewhere => {}
            count => report.leave_out(format!("{count} tests of {}: {}", needing.what, needing.names.join(", "))),
        }
    }
    counts
}

fn foreign(programs: Option<&Path>) -> Counts {
    let mut command = Command::new(tests::server::program().with_file_name("foreign"));
    command::run(command.envs(programs.map(|programs| ("REPRISE_PROGRAMS", programs))))
}

/// The C part with AddressSanitizer and UndefinedBehaviorSanitizer, under the suites of php-src and these tests.
fn sanitized(
    programs: &[TestProgram],
    mut environment: Vec<(&'static str, String)>,
    selects: &(dyn Fn(&str) -> bool + Sync),
    report: &Report,
) -> Counts {
    let (directory, processor) = match build::build_sanitized(SANITIZERS) {
        Ok(built) => built,
        Err(why) => {
            println!("{why}");
            return Counts::FAILED;
        }
    };
    environment.push(("REPRISE_PROGRAMS", directory.display().to_string()));
    std::thread::scope(|scope| {
        let suites = scope.spawn(|| foreign(Some(&directory)));
        let tests = black_box(programs, environment, selects, report, &|| {});
        let suites = suites.join().unwrap_or(Counts::FAILED);
        tests.and(suites).and(Counts { processor, ..Counts::default() })
    })
}

/// What needs two versions of PHP.
fn two_versions(
    programs: &[TestProgram],
    names: &[&str],
    environment: &[(&'static str, String)],
    report: &Report,
) -> Counts {
    let run = |platform: &Platform| platform.run_tests_of_both(programs, names, environment, report);
    other_platform(Platform::with_two_versions(), report, &run)
}

/// The other platform, or why it is left out.
fn other_platform(platform: Result<Platform, Absent>, report: &Report, run: &dyn Fn(&Platform) -> Counts) -> Counts {
    match platform {
        Ok(platform) => run(&platform),
        Err(Absent::LeftOut(why)) => {
            report.leave_out(why);
            Counts::default()
        }
        Err(Absent::Failed(why)) => {
            println!("{why}");
            Counts::FAILED
        }
    }
}

/// What is shipped starts, answers in each mode, and reloads.
fn release(programs: &[TestProgram], report: &Report) -> Counts {
    let processor = match build::build_release() {
        Ok(processor) => processor,
        Err(why) => {
            println!("{why}");
            return Counts::FAILED;
        }
    };
    let directory = build::target().join("release");
    let environment = vec![("REPRISE_PROGRAMS", directory.display().to_string())];
    let selects = |name: &str| begins(&SMOKE, name);
    black_box(programs, environment, &selects, report, &|| {}).and(Counts { processor, ..Counts::default() })
}
