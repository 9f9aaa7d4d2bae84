//! Paths that a script names by X-Accel-Redirect: they lie below the directory of their prefix.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use front::sent_file::placed;

/// A path as the header has it.
pub fn check(bytes: &[u8]) {
    let declared = [("/files/", "/srv/files"), ("/files/secret", "/srv/secret"), ("/a b/", "/srv/c")];
    let declared: BTreeMap<String, PathBuf> =
        declared.map(|(prefix, to)| (prefix.to_owned(), PathBuf::from(to))).into();
    let Ok((path, directory)) = placed(bytes, &declared) else { return };
    let below = path.strip_prefix(directory).expect("below its directory");
    assert!(below.components().all(|one| matches!(one, Component::Normal(_))), "{}", path.display());
    assert!(directory.starts_with(Path::new("/srv")));
}
