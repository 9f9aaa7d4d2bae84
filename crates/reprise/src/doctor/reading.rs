//! Has each installed PHP read the scripts of a tree (read.php, tokens.php): several files a process, one process per processor. Nothing of the
//! application is executed, no php.ini is read, and PHP never runs as root.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use supervisor::os::programs::PhpVersion;
use supervisor::os::user::{self, Identity};

use super::progress::Progress;
use crate::exit::{Code, Failure};
use crate::options;

/// What PHP executes.
const READ: &str = include_str!("read.php");
const TOKENS: &str = include_str!("tokens.php");
const FORMS: &str = include_str!("forms.php");
const GUARDED: &str = include_str!("guarded.php");
const MISSING: &str = include_str!("missing.php");
/// Files of one process, and their bytes: compiled scripts stay in its opcache.
const MOST_FILES: usize = 800;
const MOST_BYTES: u64 = 24 << 20;
/// A PHP that says nothing for so long is killed. It has two minutes of processor time for a file.
const PATIENCE: Duration = Duration::from_secs(180);
/// The first line of a PHP that has all that read.php needs.
const READY: &[u8] = b"ready";
/// Files that met a function of another file and get a process of their own.
const MOST_ALONE: usize = 64;

/// The command line of a PHP.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Its executable.
    pub program: PathBuf,
    /// Its minor version.
    pub version: PhpVersion,
    /// Its release.
    pub release: String,
}

/// What read.php says of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Told {
    /// Line and text of what does not compile.
    pub error: Option<(u32, String)>,
    /// Line and text of what the compiler calls deprecated.
    pub deprecated: Vec<(u32, String)>,
    /// Why it cannot be read.
    pub unreadable: Option<String>,
    /// Whether there is no PHP in it.
    pub is_text: bool,
    /// Whether it has zero bytes.
    pub is_binary: bool,
    /// Why PHP ended while it read the file.
    pub ended: Option<String>,
    /// Kind, name, line and the versions that the code asks for around it.
    pub uses: Vec<(String, String, u32, Vec<u32>)>,
    /// What, line, whether it is in a function, and detail.
    pub facts: Vec<(String, u32, u8, String)>,
    /// Functions (`f`), classes (`c`), constants (`k`), beginnings of constants whose names are computed (`p`) and variables of older PHPs (`v`)
    /// that the file declares.
    pub declared: Vec<(String, String)>,
    /// Kind, name and line of what PHP does not have.
    pub missing: Vec<(String, String, u32)>,
    /// What the file asks for, in lower case: `function_exists('…')`; of an extension `ext-…`.
    pub asked: Vec<String>,
}

/// A script to be read.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its whole path.
    pub path: PathBuf,
    /// Its length.
    pub size: u64,
}

/// Names that matter in tokens.
pub struct Names {
    /// Those that versions of PHP have changed.
    pub changed: Value,
    /// All that the application's PHP has, by kind; null if that is unknown.
    pub has: Value,
}

/// What is wanted of the scripts.
pub struct Wanted<'a> {
    /// Whether their tokens are looked at, with these names.
    pub names: Option<&'a Names>,
    /// The user that PHP runs as.
    pub user: Option<&'a Identity>,
}

/// The command lines of PHP that are installed, one for each minor version, the newest first.
pub fn installed() -> Vec<Reader> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<Reader> = Vec::new();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        let names = (0..=9).rev().map(|minor| format!("php8.{minor}")).chain(["php".to_owned()]);
        for program in names.map(|name| directory.join(name)).filter(|program| program.is_file()) {
            let Some(reader) = ask(&program) else { continue };
            if found.iter().all(|one| one.version != reader.version) {
                found.push(reader);
            }
        }
    }
    found.sort_by_key(|reader| std::cmp::Reverse(reader.version));
    found
}

/// Asks a PHP for its release, without any php.ini. As root this is done by nobody.
fn ask(program: &Path) -> Option<Reader> {
    let mut command = Command::new(program);
    command
        .args(["-n", "-r", "echo PHP_VERSION;"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    if user::is_root() {
        let nobody = Identity::named("nobody").ok()?;
        command.uid(nobody.uid).gid(nobody.gid);
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    let release = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(Reader { program: program.to_owned(), version: PhpVersion::of_release(&release)?, release })
}

/// Has a PHP read all scripts. What it says, in their order.
pub fn read(
    reader: &Reader,
    scripts: &[Script],
    wanted: &Wanted<'_>,
    progress: &Progress,
) -> Result<Vec<Told>, Failure> {
    let mut told: Vec<Told> = read_once(reader, scripts, MOST_FILES, wanted.names, wanted, progress)?;
    // Some versions of opcache declare what they compile. A function that two files declare is then an error of the second alone.
    for is_last in [false, true] {
        let again: Vec<usize> = (0..told.len()).filter(|at| met_another(&told[*at], &scripts[*at])).collect();
        let (few, rest) = again.split_at(again.len().min(MOST_ALONE));
        if !is_last && rest.is_empty() {
            continue;
        }
        let chosen = if is_last { few } else { &again };
        let most = if is_last { 1 } else { MOST_FILES };
        let list: Vec<Script> = chosen.iter().map(|at| scripts[*at].clone()).collect();
        for (at, answer) in chosen.iter().zip(read_once(reader, &list, most, None, wanted, progress)?) {
            (told[*at].error, told[*at].deprecated) = (answer.error, answer.deprecated);
        }
        // Of what is still left only the syntax is known, and that is right: it was compiled up to the other's function.
        if is_last {
            rest.iter().for_each(|at| told[*at].error = None);
        }
    }
    Ok(told)
}

/// Whether a file does not compile only because another file declares the same.
fn met_another(told: &Told, script: &Script) -> bool {
    let Some((_, text)) = &told.error else { return false };
    let other = text.split_once("(previously declared in ").filter(|_| text.starts_with("Cannot redeclare"));
    other.is_some_and(|(_, place)| !place.starts_with(&format!("{}:", script.path.display())))
}

fn read_once(
    reader: &Reader,
    scripts: &[Script],
    most: usize,
    names: Option<&Names>,
    wanted: &Wanted<'_>,
    progress: &Progress,
) -> Result<Vec<Told>, Failure> {
    let parts = parts(scripts, most);
    let settings = match names {
        None => json!({ "compile": true, "look": false }),
        Some(names) => json!({ "compile": true, "look": true, "names": names.changed, "has": names.has }),
    }
    .to_string();
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let all: Mutex<Vec<(usize, Vec<Told>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options::cpus().min(parts.len()) {
            scope.spawn(|| {
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let read = read_part(reader, &scripts[part.clone()], &settings, wanted.user, progress);
                    match read {
                        Ok(told) => lock(&all).push((part.start, told)),
                        Err(why) => {
                            next.store(parts.len(), Ordering::Relaxed);
                            lock(&failure).get_or_insert(why);
                        }
                    }
                }
            });
        }
    });
    if let Some(failure) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(failure);
    }
    let mut all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    all.sort_by_key(|(start, _)| *start);
    Ok(all.into_iter().flat_map(|(_, told)| told).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Parts of the list for one process each.
fn parts(scripts: &[Script], most: usize) -> Vec<std::ops::Range<usize>> {
    let (mut parts, mut start, mut bytes) = (Vec::new(), 0, 0);
    // Each processor has something to do.
    let most = most.min(scripts.len().div_ceil(options::cpus()).max(1));
    for (at, script) in scripts.iter().enumerate() {
        bytes += script.size;
        if at + 1 - start >= most || bytes >= MOST_BYTES {
            parts.push(start..at + 1);
            (start, bytes) = (at + 1, 0);
        }
    }
    parts.push(start..scripts.len());
    parts.retain(|part| !part.is_empty());
    parts
}

/// One part. A process that ends early is followed by another one, behind the file at which it ended.
fn read_part(
    reader: &Reader,
    scripts: &[Script],
    settings: &str,
    user: Option<&Identity>,
    progress: &Progress,
) -> Result<Vec<Told>, Failure> {
    let failed = |why: String| {
        Failure::new(Code::NotBooted, reader.program.display().to_string(), why)
            .hint(format!("apt-get install php{0}-cli php{0}-common php{0}-opcache", reader.version))
    };
    let mut told = Vec::with_capacity(scripts.len());
    while told.len() < scripts.len() {
        let rest = &scripts[told.len()..];
        let mut child = start(reader, user).map_err(|error| failed(error.to_string()))?;
        let (mut is_ready, input) = (false, child.stdin.take());
        let output = child.stdout.take().map(BufReader::new);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut list = settings.as_bytes().to_vec();
                list.push(0);
                for script in rest {
                    list.extend_from_slice(script.path.as_os_str().as_encoded_bytes());
                    list.push(0);
                }
                // A process that has ended takes no more: its exit tells.
                let _ = input.map(|mut input| input.write_all(&list));
            });
            let (heard, answers) = mpsc::channel::<()>();
            let group = Pid::from_child(&child);
            scope.spawn(move || {
                loop {
                    match answers.recv_timeout(PATIENCE) {
                        Ok(()) => {}
                        Err(RecvTimeoutError::Timeout) => _ = kill_process_group(group, Signal::KILL),
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            });
            let mut lines = output.into_iter().flat_map(|output| output.split(b'\n')).map_while(Result::ok);
            is_ready = lines.next().is_some_and(|line| line == READY);
            for answer in lines.map_while(|line| serde_json::from_slice::<Told>(&line).ok()).take(rest.len()) {
                told.push(answer);
                progress.step();
                let _ = heard.send(());
            }
            drop(heard);
        });
        let (status, words) = end(child).map_err(|error| failed(error.to_string()))?;
        if told.len() < scripts.len() {
            if !is_ready {
                return Err(failed(if words.is_empty() { format!("it ended with {status}") } else { words }));
            }
            told.push(Told { ended: Some(reason(status, &words)), ..Told::default() });
            progress.step();
        }
    }
    Ok(told)
}

fn reason(status: ExitStatus, words: &str) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("PHP was ended by signal {signal}"),
        (None, Some(code)) => format!("PHP ended with exit code {code}"),
        (None, None) => "PHP ended".to_owned(),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}

fn start(reader: &Reader, user: Option<&Identity>) -> std::io::Result<Child> {
    let mut command = Command::new(&reader.program);
    command.arg("-n");
    for setting in [
        // Into read.php's own buffer.
        "display_errors=1",
        "html_errors=0",
        "display_startup_errors=0",
        "log_errors=0",
        "error_reporting=-1",
        "short_open_tag=0",
        "memory_limit=1G",
        // Of processor time.
        "max_execution_time=120",
        "extension=tokenizer",
        "zend_extension=opcache",
        "opcache.enable=1",
        "opcache.enable_cli=1",
        "opcache.memory_consumption=400",
        "opcache.interned_strings_buffer=32",
        "opcache.max_accelerated_files=4000",
        "opcache.optimization_level=0",
        "opcache.file_update_protection=0",
        "opcache.jit=disable",
        "opcache.jit_buffer_size=0",
    ] {
        command.args(["-d", setting]);
    }
    command
        .arg("-r")
        .arg([FORMS, MISSING, GUARDED, TOKENS, READ].map(|part| part.strip_prefix("<?php").unwrap_or(part)).concat());
    command.env_clear().current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    // What it starts ends with it, if it hangs.
    command.process_group(0);
    command.spawn()
}

/// Waits for a process. How it ended, and the last of what it said.
fn end(mut child: Child) -> std::io::Result<(ExitStatus, String)> {
    // It writes little there, so its pipe is not full.
    let mut words = Vec::new();
    let _ = child.stderr.take().map(|stderr| stderr.take(1 << 16).read_to_end(&mut words));
    let status = child.wait()?;
    let words = String::from_utf8_lossy(&words).lines().last().unwrap_or("").trim().to_owned();
    Ok((status, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(size: u64) -> Script {
        Script { path: "/srv/a.php".into(), size }
    }

    #[test]
    fn parts_cover_all_scripts_once() {
        for count in [0, 1, 2, 3, 799, 800, 801, 5000] {
            let parts = parts(&vec![script(10); count], MOST_FILES);
            let covered: Vec<usize> = parts.iter().cloned().flatten().collect();
            assert_eq!(covered, (0..count).collect::<Vec<_>>());
        }
        assert_eq!(parts(&vec![script(MOST_BYTES); 3], MOST_FILES).len(), 3);
    }

    #[test]
    fn what_another_file_declares_is_no_error() {
        let told = |text: &str| Told { error: Some((1, text.to_owned())), ..Told::default() };
        assert!(met_another(&told("Cannot redeclare f() (previously declared in /srv/b.php:3)"), &script(1)));
        assert!(!met_another(&told("Cannot redeclare f() (previously declared in /srv/a.php:3)"), &script(1)));
        assert!(!met_another(&told("Cannot redeclare strlen()"), &script(1)));
    }
}
