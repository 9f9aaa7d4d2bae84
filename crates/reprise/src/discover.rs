//! What `reprise serve DIR` finds by itself.

use std::path::{Path, PathBuf};

use crate::exit::{Code, Failure};

/// Directories tried below DIR, then DIR itself.
const CANDIDATES: [&str; 4] = ["public", "web", "htdocs", ""];
const INDEX: [&str; 2] = ["index.php", "index.html"];

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
    let candidates = CANDIDATES.iter().map(|name| directory.join(name));
    let found = candidates.into_iter().find(|root| INDEX.iter().any(|index| root.join(index).is_file()));
    found.ok_or_else(|| {
        Failure::new(Code::Usage, what(), "has no index.php or index.html in public, web, htdocs or itself")
            .hint("name the application's directory, or write a configuration file with its root")
    })
}

/// The front controller of a document root.
pub fn front_controller(root: &Path) -> Option<String> {
    root.join("index.php").is_file().then(|| "index.php".to_owned())
}
