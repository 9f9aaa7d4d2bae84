//! Names of applications whose `name` is not written: from the path of the root as it is written, so that another release behind a symbolic
//! link is the same application.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::options::{Application, Config};
use crate::phars;

/// Directories that say nothing about the application in them: document roots, and links to the release in use.
const WITHOUT_MEANING: [&str; 8] = ["public", "public_html", "web", "htdocs", "httpdocs", "current", "live", "latest"];
/// What lies directly below a directory of that name is one release of several.
const RELEASES: &str = "releases";

/// A path without `.` and `..`, beginning at the working directory as the shell names it. Links are not followed.
pub fn absolute(path: &Path) -> PathBuf {
    let mut absolute = if path.is_absolute() { PathBuf::new() } else { working_directory() };
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = absolute.pop(),
            other => absolute.push(other),
        }
    }
    absolute
}

/// The working directory: by its links, if PWD names it.
fn working_directory() -> PathBuf {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let named = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    named.filter(|path| of(path).is_some_and(|id| Some(id) == of(Path::new(".")))).unwrap_or_else(|| {
        // A directory that is gone has no name.
        std::env::current_dir().unwrap_or_default()
    })
}

/// The names of a path that tell applications apart, the last one first.
fn telling(path: &Path) -> Vec<String> {
    let mut before = None;
    let mut names = Vec::new();
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        let is_release = before.replace(name) == Some(OsStr::new(RELEASES));
        if is_release {
            names.pop();
        } else if !WITHOUT_MEANING.iter().any(|word| name == *word) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.reverse();
    names
}

/// The names that an application may get, the preferred one first: the last that tells, the same with the one before, and so on.
fn candidates(application: &Application) -> Vec<String> {
    let written = absolute(&application.written_root);
    let names = match application.root.phar() {
        None => telling(&written),
        Some(_) => telling(&phars::file_of(&written).with_extension("")),
    };
    let joined = |count: usize| names[..count].iter().rev().map(String::as_str).collect::<Vec<_>>().join("/");
    let mut all: Vec<String> = (1..=names.len()).map(joined).collect();
    if all.is_empty() {
        all.push("app".to_owned());
    }
    all
}

/// Names the applications that have no name. Those that would have one name get more of their paths, or a number if they have one path.
pub fn settle(config: &mut Config) {
    let mut unnamed: Vec<&mut Application> = config.applications.iter_mut().filter(|one| one.name.is_empty()).collect();
    let wanted: Vec<Vec<String>> = unnamed.iter().map(|one| candidates(one)).collect();
    let mut depths = vec![0; wanted.len()];
    loop {
        let is_told_by_more = |at: &usize| {
            let name = &wanted[*at][depths[*at]];
            let mut alike = (0..wanted.len()).filter(|other| wanted[*other][depths[*other]] == *name);
            depths[*at] + 1 < wanted[*at].len() && alike.any(|other| wanted[other].last() != wanted[*at].last())
        };
        let growing: Vec<usize> = (0..wanted.len()).filter(is_told_by_more).collect();
        if growing.is_empty() {
            break;
        }
        growing.into_iter().for_each(|at| depths[at] += 1);
    }
    let mut taken = HashSet::new();
    for (application, (wanted, depth)) in unnamed.iter_mut().zip(wanted.iter().zip(depths)) {
        let name = &wanted[depth];
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        application.name = free.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::root::Root;

    fn names(roots: &[(&str, &str)]) -> Vec<String> {
        let application = |(name, root): &(&str, &str)| Application {
            name: (*name).to_owned(),
            written_root: PathBuf::from(root),
            root: Root::directory(PathBuf::from("/resolved")),
            ..Application::defaults()
        };
        let mut config = Config { applications: roots.iter().map(application).collect(), ..Config::defaults() };
        settle(&mut config);
        config.applications.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn names_come_from_the_path_as_it_is_written() {
        for (root, name) in [
            ("/srv/shop", "shop"),
            ("/srv/shop/public", "shop"),
            ("/srv/shop/current/public/", "shop"),
            ("/srv/shop/live/web", "shop"),
            ("/srv/shop/releases/20260101/public", "shop"),
            ("/srv/shop/releases/current/htdocs", "shop"),
            ("/home/anna/public_html", "anna"),
            ("/srv/shop/./x/../public", "shop"),
            ("/var/www/html", "html"),
            ("/", "app"),
            ("/public", "app"),
        ] {
            assert_eq!(names(&[("", root)]), [name], "{root}");
        }
    }

    #[test]
    fn names_are_told_apart_by_more_of_the_path() {
        let all = names(&[("", "/srv/a/site/public"), ("", "/srv/b/site/public"), ("", "/srv/blog")]);
        assert_eq!(all, ["a/site", "b/site", "blog"]);
        assert_eq!(names(&[("", "/site"), ("", "/srv/site")]), ["site", "srv/site"]);
        assert_eq!(names(&[("", "/srv/site"), ("", "/srv/site/public")]), ["site", "site-2"]);
        assert_eq!(names(&[("", "/a/site"), ("", "/a/site"), ("", "/b/site")]), ["a/site", "a/site-2", "b/site"]);
        // Whoever writes a name is told that another application has it.
        assert_eq!(names(&[("site", "/x"), ("", "/srv/a/site")]), ["site", "site"]);
        assert_eq!(
            names(&[("", "/a/x/site"), ("", "/b/x/site"), ("", "/c/y/site")]),
            ["a/x/site", "b/x/site", "y/site"]
        );
    }
}
