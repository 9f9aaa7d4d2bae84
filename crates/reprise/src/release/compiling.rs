//! Has PHP compile the scripts of a release, at the path where nodes unpack it: opcache's files have that path in them. A process of its
//! own does that, in which a file system in memory lies there, so nothing of the machine is touched.

use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use release::fault::Fault;
use release::manifest::Manifest;
use release::tree::{self, Excludes, Source};
use release::unpack::CODE;
use serde::{Deserialize, Serialize};
use supervisor::os::user::{self, Identity};

use crate::exit::{Code, Failure};
use crate::installed::Php;
use crate::options::cpus;

/// What the process is to do.
#[derive(Serialize, Deserialize)]
struct Job {
    /// The nodes' directory of releases.
    base: PathBuf,
    /// The release's directory there.
    place: PathBuf,
    /// `reprise-php`.
    php: PathBuf,
    /// Where opcache writes.
    out: PathBuf,
    /// The files: where they lie, what they are called, when they were changed.
    files: Vec<(PathBuf, String, u64)>,
}

/// What has come of it.
#[derive(Serialize, Deserialize)]
struct Told {
    not_compiled: Vec<String>,
}

/// What opcache has made, in a directory that goes with it.
pub(super) struct Made {
    directory: PathBuf,
    /// What opcache calls the build of PHP; `None`: it has made nothing.
    pub(super) build: Option<String>,
    /// Scripts that do not compile by themselves.
    pub(super) not_compiled: Vec<String>,
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Made {
    /// The files.
    pub(super) fn collect(&self) -> Result<Vec<Source>, Fault> {
        let mut found = tree::collect(&self.directory.join("out"), &Excludes(Vec::new()), &mut |_| {})?;
        for one in &mut found {
            one.entry.executable = false;
        }
        Ok(found)
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Internal, "compiling", why).hint("--no-compile builds a release that nodes compile")
}

/// The user that PHP runs as, if this is root.
fn php_user() -> Result<Option<Identity>, Failure> {
    if user::is_root() { Identity::named("nobody").map(Some).map_err(failed) } else { Ok(None) }
}

/// Compiles the scripts of a release.
pub(super) fn compile(manifest: &Manifest, sources: &[Source], base: &Path, php: &Php) -> Result<Made, Failure> {
    let directory = std::env::temp_dir().join(format!("reprise-build-{}", std::process::id()));
    let made = Made { directory, build: None, not_compiled: Vec::new() };
    let _ = fs::remove_dir_all(&made.directory);
    let out = made.directory.join("out");
    let make = |path: &Path, mode| DirBuilder::new().mode(mode).create(path);
    make(&made.directory, 0o711).and_then(|()| make(&out, 0o700)).map_err(failed)?;
    if let Some(user) = php_user()? {
        std::os::unix::fs::chown(&out, Some(user.uid), Some(user.gid)).map_err(failed)?;
    }
    // Where the path cannot be made, what is above it is covered in the process that compiles.
    let _ = DirBuilder::new().recursive(true).mode(0o755).create(base);
    let job = Job {
        base: base.to_owned(),
        place: base.join(&manifest.application).join(&manifest.id).join(CODE),
        php: php.path.canonicalize().map_err(failed)?,
        out,
        files: sources.iter().map(|one| (one.from.clone(), one.entry.path.clone(), one.entry.modified)).collect(),
    };
    let told = ask(&job)?;
    let first = fs::read_dir(&job.out).map_err(failed)?.flatten().next();
    let build = first.map(|one| one.file_name().to_string_lossy().into_owned());
    Ok(Made { build, not_compiled: told.not_compiled, directory: std::mem::take(&mut { made }.directory) })
}

fn ask(job: &Job) -> Result<Told, Failure> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("reprise-release")
        .arg("release-compile")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let text = serde_json::to_vec(job).map_err(failed)?;
    let written = child.stdin.take().map_or(Ok(()), |mut to| to.write_all(&text));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed("the process that compiles has failed; its message is above"));
    }
    written.map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(failed)
}

/// The hidden subcommand `release-compile`.
pub fn run() -> Result<Code, Failure> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(failed)?;
    let job: Job = serde_json::from_slice(&text).map_err(failed)?;
    let over = job.base.ancestors().find(|path| path.is_dir()).filter(|path| path.parent().is_some());
    let over =
        over.ok_or_else(|| failed(format!("{} cannot be covered: nothing of it is there", job.base.display())))?;
    supervisor::os::namespace::cover(over)
        .map_err(|error| failed(format!("{}: no file system can be put there: {error}", over.display())))?;
    for (from, path, modified) in &job.files {
        copy(from, &job.place.join(path), *modified).map_err(|error| failed(format!("{}: {error}", from.display())))?;
    }
    let scripts: Vec<&String> =
        job.files.iter().map(|(_, path, _)| path).filter(|path| path.ends_with(".php")).collect();
    let part = scripts.len().div_ceil(cpus().max(1)).max(1);
    let user = php_user()?;
    let not_compiled = std::thread::scope(|scope| {
        let threads: Vec<_> =
            scripts.chunks(part).map(|chunk| scope.spawn(|| compile_part(&job, chunk, user.as_ref()))).collect();
        threads
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(failed("a thread has ended"))))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let told = Told { not_compiled: not_compiled.concat() };
    serde_json::to_writer(std::io::stdout(), &told).map_err(failed)?;
    Ok(Code::Success)
}

/// A copy with the time of the release, which opcache compares.
fn copy(from: &Path, to: &Path, modified: u64) -> std::io::Result<()> {
    to.parent().map_or(Ok(()), |above| DirBuilder::new().recursive(true).mode(0o755).create(above))?;
    let mut file = File::create(to)?;
    std::io::copy(&mut File::open(from)?, &mut file)?;
    file.set_permissions(Permissions::from_mode(0o444))?;
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified)))
}

/// One PHP after the other: a file at which one ends is left out, and another goes on behind it.
fn compile_part(job: &Job, scripts: &[&String], user: Option<&Identity>) -> Result<Vec<String>, Failure> {
    let (mut not_compiled, mut rest) = (Vec::new(), scripts);
    while !rest.is_empty() {
        let answers = compile_once(job, rest, user)?;
        let bad = answers.iter().zip(rest).filter(|(is_compiled, _)| !**is_compiled);
        not_compiled.extend(bad.map(|(_, path)| (*path).clone()));
        if let Some(ended_at) = rest.get(answers.len()) {
            if answers.is_empty() && rest.len() == scripts.len() && !is_startable(job, user) {
                return Err(failed("reprise-php does not start; its message is above"));
            }
            not_compiled.push((*ended_at).clone());
        }
        rest = rest.get(answers.len() + 1..).unwrap_or_default();
    }
    Ok(not_compiled)
}

fn is_startable(job: &Job, user: Option<&Identity>) -> bool {
    command(job, user).stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn command(job: &Job, user: Option<&Identity>) -> Command {
    let mut command = Command::new(&job.php);
    command.arg("--compile").arg(&job.out).current_dir("/");
    for name in supervisor::os::notify::VARIABLES {
        command.env_remove(name);
    }
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

fn compile_once(job: &Job, scripts: &[&String], user: Option<&Identity>) -> Result<Vec<bool>, Failure> {
    let mut child = command(job, user).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("a pipe is missing"));
    };
    let list: String = scripts.iter().map(|path| format!("{}\n", job.place.join(path).display())).collect();
    let answers = std::thread::scope(|scope| {
        // A PHP that has ended reads nothing.
        scope.spawn(move || drop(to.write_all(list.as_bytes())));
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.filter(|line| ["ok", "no"].contains(&line.as_str())).map(|line| line == "ok").collect()
    });
    child.wait().map_err(failed)?;
    Ok(answers)
}
