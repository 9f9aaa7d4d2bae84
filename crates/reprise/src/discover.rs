//! What `reprise serve DIR` finds out by itself.

use std::io::Read;
use std::path::{Path, PathBuf};

use ipc::control::MAX_LANES;
use supervisor::os::files;
use supervisor::os::user::Identity;

use routing::route::INDEX;

use crate::exit::{Code, Failure};
use crate::options::{Application, Mode};

/// Directories below DIR that are tried before DIR itself.
const CANDIDATES: [&str; 4] = ["public", "web", "htdocs", ""];

/// The document root of an application's directory.
pub fn document_root(directory: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("directory {}", directory.display());
    let metadata = std::fs::metadata(directory).map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::PermissionDenied { Code::Permission } else { Code::Usage };
        Failure::new(code, what(), error)
    })?;
    if !metadata.is_dir() {
        return Err(Failure::new(Code::Usage, what(), "is not a directory").hint("name the directory the file is in"));
    }
    let candidates = || CANDIDATES.iter().map(|name| directory.join(name));
    let found = candidates().find(|root| has_index(root, &INDEX));
    // Scripts that run by their own names need no index.
    found.or_else(|| candidates().find(|root| has_scripts(root))).ok_or_else(|| {
        let odd = candidates().find_map(|root| Some((root.join(INDEX[0]), files::oddity(&root.join(INDEX[0]))?)));
        if let Some((path, oddity)) = odd {
            let why = format!("{} is {oddity}, not a regular file", path.display());
            return Failure::new(Code::Usage, what(), why).hint("put a script there");
        }
        let why = "has no index.php or index.html in public, web, htdocs or itself, and no other script there";
        Failure::new(Code::Usage, what(), why)
            .hint("name the application's directory, or write a configuration file with its root")
    })
}

/// The files whose presence decides which of the directories below DIR is the document root, and what its front controller is.
pub fn decisive(directory: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    CANDIDATES.iter().flat_map(move |name| INDEX.iter().map(move |index| directory.join(name).join(index)))
}

/// Whether a document root has a page for its own path.
pub fn has_index(root: &Path, names: &[impl AsRef<Path>]) -> bool {
    names.iter().any(|index| root.join(index).is_file())
}

/// Limits of the search for scripts: levels of directories, and files in all.
const SCRIPT_DEPTH: usize = 3;
const SCRIPT_LOOKS: usize = 10_000;

/// Whether there is a script in a directory, or in one a few levels below it. Links are not followed.
fn has_scripts(root: &Path) -> bool {
    let mut looks = SCRIPT_LOOKS;
    let mut level = vec![root.to_owned()];
    for _ in 0..SCRIPT_DEPTH {
        let mut below = Vec::new();
        for entry in level.iter().filter_map(|path| path.read_dir().ok()).flatten().flatten() {
            let Some(left) = looks.checked_sub(1) else { return false };
            looks = left;
            let (name, kind) = (entry.file_name(), entry.file_type());
            let is_script = name.to_string_lossy().ends_with(".php");
            if is_script && kind.as_ref().is_ok_and(std::fs::FileType::is_file) {
                return true;
            }
            if kind.is_ok_and(|kind| kind.is_dir()) && !name.to_string_lossy().starts_with('.') {
                below.push(entry.path());
            }
        }
        level = below;
    }
    false
}

/// The front controller of a document root.
pub fn front_controller(root: &Path) -> Option<String> {
    root.join("index.php").is_file().then(|| "index.php".to_owned())
}

/// Bytes of a script that are looked at.
const LOOKED_AT: u64 = 1 << 20;
const SNAPSHOT: &[u8] = b"reprise_snapshot";
/// Both names of the function: code may have been written for either interface.
const LOOPS: [&[u8]; 2] = [b"reprise_handle_request", b"frankenphp_handle_request"];
/// A variable that exists in worker scripts only. A script that looks for it has its loop in another file, and reaches it
/// only if it is tried as a worker script.
const LOOP_VARIABLE: &[u8] = b"FRANKENPHP_WORKER";

/// A script that is booted before the server is ready.
pub struct Entry {
    /// Its name, such as `/index.php`.
    pub script: String,
    /// Whether the configuration asks for it, so that the server does not start without it.
    pub is_required: bool,
    /// Whether it runs in worker mode; else it takes a snapshot.
    pub is_worker_mode: bool,
}

/// The entries of an application: the scripts that its configuration names, and its front controller if its text asks for
/// it. The text is read with the rights of the application's user, so that a link cannot lead to a file that this user may
/// not read.
pub fn entries(application: &Application, user: Option<&Identity>) -> Result<Vec<Entry>, Failure> {
    let index = application.root.join(INDEX[0]);
    if let Some(oddity) =
        files::oddity(&index).filter(|_| application.front_controller.is_none() && application.is_controller_found)
    {
        let why = format!("{} is {oddity}, not a regular file", index.display());
        return Err(Failure::new(Code::Configuration, format!("application '{}'", application.name), why)
            .hint("put a script there, or front_controller = \"\" if the application has none"));
    }
    let wanted = application.mode.iter().filter_map(|(script, mode)| {
        let is_worker_mode = match mode {
            Mode::Snapshot => false,
            Mode::Worker => true,
            Mode::Auto | Mode::Classic => return None,
        };
        Some(Entry { script: script.clone(), is_required: true, is_worker_mode })
    });
    let controller = application.front_controller.as_ref().map(|script| format!("/{script}"));
    let controller = controller.filter(|script| matches!(application.mode.get(script), None | Some(Mode::Auto)));
    let mut found = None;
    if let Some(script) = controller {
        let path = application.root.join(&script[1..]);
        let failed = |error| Failure::new(Code::Permission, format!("application '{}'", application.name), error);
        let asks = supervisor::os::sys::as_user(user, || asks_for(&path)).map_err(failed)?;
        found = asks.map(|is_worker_mode| Entry { script, is_required: false, is_worker_mode });
    }
    // The front controller comes first: nearly all requests are for it.
    let entries: Vec<Entry> = found.into_iter().chain(wanted).collect();
    if entries.len() >= MAX_LANES {
        let lanes = MAX_LANES - 1;
        let why = format!(
            "'{}' has more scripts to boot than the {lanes} lanes that an application may have",
            application.name
        );
        return Err(
            Failure::new(Code::Configuration, "mode", why).hint("mode.\"NAME.php\" = \"auto\" for some of them")
        );
    }
    Ok(entries)
}

/// Whether a script's text names one of the functions for a loop, or for a snapshot. If it cannot be read here, the script
/// can still call the function when it runs.
fn asks_for(path: &Path) -> Option<bool> {
    let mut text = Vec::new();
    files::open_regular(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut text)).ok()?;
    let names = |name: &[u8]| text.windows(name.len()).any(|window| window == name);
    // Code that names both uses the loop only where there are no snapshots.
    if names(SNAPSHOT) {
        return Some(false);
    }
    LOOPS.iter().chain([&LOOP_VARIABLE]).any(|name| names(name)).then_some(true)
}
