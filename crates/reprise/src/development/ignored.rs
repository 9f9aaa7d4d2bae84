//! What lies in an application's tree and is no source: what editors, version control and the application itself write.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Directories, by their names.
const DIRECTORIES: [&str; 8] = [".git", ".hg", ".svn", ".idea", ".vscode", ".fleet", "node_modules", ".phpunit.cache"];
/// Directories that frameworks write to in each request, by the ends of their paths.
const WRITTEN: [&str; 8] = [
    "var/cache",
    "var/log",
    "var/sessions",
    "var/share",
    "storage/logs",
    "storage/framework",
    "wp-content/cache",
    "wp-content/upgrade",
];
/// Files, by the ends of their names: swap files and copies of editors, logs, databases with their journals.
const ENDS: [&str; 19] = [
    "~",
    ".swp",
    ".swo",
    ".swx",
    ".swpx",
    ".tmp",
    ".part",
    ".kate-swp",
    "___jb_tmp___",
    "___jb_old___",
    ".log",
    ".pid",
    ".sqlite",
    ".sqlite3",
    ".db",
    "-journal",
    "-wal",
    "-shm",
    ".mdb",
];

/// What is not followed.
#[derive(Default)]
pub struct Ignored {
    /// As the command line says.
    pub paths: Vec<PathBuf>,
}

impl Ignored {
    /// Whether a file or directory is not followed.
    pub fn is(&self, path: &Path, is_directory: bool) -> bool {
        let Some(name) = path.file_name().map(OsStr::to_string_lossy) else { return false };
        if self.paths.iter().any(|ignored| path.starts_with(ignored)) {
            return true;
        }
        if is_directory {
            return DIRECTORIES.contains(&&*name) || WRITTEN.iter().any(|end| path.ends_with(end));
        }
        // Emacs locks by `.#name` and saves as `#name#`; vim tries a directory with `4913`.
        let is_of_editor = name.starts_with(".#") || name.starts_with('#') && name.ends_with('#') || name == "4913";
        is_of_editor || ENDS.iter().any(|end| name.ends_with(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_followed_and_what_is_written_by_the_way_is_not() {
        let ignored = Ignored { paths: vec!["/app/public/uploads".into()] };
        for (path, is_directory, expected) in [
            ("/app/src/a.php", false, false),
            ("/app/.env", false, false),
            ("/app/templates/a.html.twig", false, false),
            ("/app/.a.php.swp", false, true),
            ("/app/a.php~", false, true),
            ("/app/.#a.php", false, true),
            ("/app/#a.php#", false, true),
            ("/app/4913", false, true),
            ("/app/data/app.sqlite-wal", false, true),
            ("/app/.git", true, true),
            ("/app/.git", false, false),
            ("/app/var/cache", true, true),
            ("/app/cache", true, false),
            ("/app/public/uploads", true, true),
            ("/app/public/uploads/a.php", false, true),
            ("/app/public/uploads2", true, false),
        ] {
            assert_eq!(ignored.is(Path::new(path), is_directory), expected, "{path}");
        }
    }
}
