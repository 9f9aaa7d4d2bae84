//! Phars that applications are served from. What serves has copies of its own, so that nothing which happens to the file reaches it. This
//! part notices what happened: a file that was overwritten in place is reported, since that is no way to replace it, and with `watch` a
//! new file asks for a reload.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::logs::own::log;
use crate::os::files::Seen;
use crate::settings::service::Phar;
use crate::supervisor::Supervisor;

/// Where the phars of applications lie now, and as what. One that cannot be seen is missing here.
pub(crate) type FoundPhars = BTreeMap<String, (PathBuf, Seen)>;

/// Looks where a phar lies now, in a child.
pub(crate) fn look(phar: &Phar) -> Option<(PathBuf, Seen)> {
    let path = phar.watched.as_ref().unwrap_or(&phar.file).canonicalize().ok()?;
    let seen = Seen::of(&path.metadata().ok()?);
    Some((path, seen))
}

/// What follows from a look.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// Other bytes in the same file.
    Overwritten,
    /// Another file; the application asks for a reload then.
    Replaced,
}

/// What was found of each application's phar, and said, last.
#[derive(Default)]
pub(crate) struct Phars {
    said: BTreeMap<String, (PathBuf, Seen)>,
}

impl Phars {
    /// What is to be said of an application's phar: each change once.
    fn judge(&mut self, name: &str, phar: &Phar, found: &(PathBuf, Seen)) -> Vec<Finding> {
        let (path, seen) = found;
        if (path, seen) == (&phar.file, &phar.seen) {
            self.said.remove(name);
            return Vec::new();
        }
        let is_overwritten = *path == phar.file && seen.is_same_file(&phar.seen);
        if self.said.insert(name.to_owned(), found.clone()).as_ref() == Some(found) {
            return Vec::new();
        }
        let overwritten = is_overwritten.then_some(Finding::Overwritten);
        let replaced = phar.watched.is_some().then_some(Finding::Replaced);
        overwritten.into_iter().chain(replaced).collect()
    }
}

impl Supervisor {
    /// Says what has become of phars, and asks for reloads.
    pub(crate) fn phars_found(&mut self, found: &FoundPhars) {
        let current = self.reload.current().iter();
        let applications: Vec<_> =
            current.filter_map(|id| Some(self.generations.get(*id)?.application.clone())).collect();
        for application in applications {
            let name = &application.name;
            let (Some(phar), Some(one)) = (&application.phar, found.get(name)) else { continue };
            for finding in self.phars.judge(name, phar, one) {
                let file = phar.file.display();
                match finding {
                    Finding::Overwritten => log(
                        "error",
                        format_args!(
                            "application '{name}': {file} was overwritten in place while it serves. The server goes on with the bytes that it \
                             has checked. Write the new phar beside the old one and rename it, then reprise reload"
                        ),
                    ),
                    Finding::Replaced => {
                        let why = format!("application '{name}': {} is another phar now", one.0.display());
                        self.reload(|reload, _| reload.request_all(&why, None));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_change_of_a_phar_is_said_once() {
        let directory = std::env::temp_dir().join(format!("reprise-phars-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        let file = directory.join("app.phar");
        fs::write(&file, "one").unwrap();
        let seen = Seen::of(&file.metadata().unwrap());
        let mut phar =
            Phar { file: file.clone(), scripts: "phar://x".into(), stub: None, copy: 0, seen, watched: None };
        let mut phars = Phars::default();
        let mut judged = |phar: &Phar| phars.judge("app", phar, &look(phar).unwrap());
        assert_eq!(judged(&phar), []);
        fs::write(&file, "longer").unwrap();
        assert_eq!(judged(&phar), [Finding::Overwritten]);
        assert_eq!(judged(&phar), [], "once");
        fs::write(directory.join("new"), "third").unwrap();
        fs::rename(directory.join("new"), &file).unwrap();
        assert_eq!(judged(&phar), [], "a rename is how phars are replaced; nobody has asked for a reload");
        phar.watched = Some(file.clone());
        fs::write(&file, "fourth one").unwrap();
        assert_eq!(judged(&phar), [Finding::Replaced]);
        assert_eq!(judged(&phar), []);
        fs::remove_file(&file).unwrap();
        assert!(look(&phar).is_none(), "what is gone may be about to come again");
        fs::remove_dir_all(&directory).unwrap();
    }
}
