//! A tree that changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let path = std::env::temp_dir().join(format!("reprise-watched-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("src")).unwrap();
        fs::write(path.join("src/a.php"), "a").unwrap();
        Tree(path.canonicalize().unwrap())
    }

    fn watch(&self) -> Watched {
        let ignored = Ignored { paths: vec![self.0.join("uploads")] };
        Watched::new(&self.0, ignored, SystemTime::now() + Duration::from_secs(10)).unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), "x").unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What an act changes: nothing, something, something that PHP may miss; and whether pages are to be loaded again.
fn told(watched: &mut Watched, act: impl FnOnce()) -> (&'static str, bool) {
    let before = watched.look();
    act();
    let after = watched.look();
    let word = match (after.count > before.count, after.whole > before.whole) {
        (false, _) => "nothing",
        (true, false) => "a file",
        (true, true) => "all",
    };
    (word, after.page > before.page)
}

fn set_time(path: &Path, ago: u64) {
    let time = SystemTime::now() - Duration::from_secs(ago);
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).unwrap();
}

#[test]
fn changes_are_told_for_what_they_are() {
    let tree = Tree::new("changes");
    tree.write("elsewhere.php");
    tree.write("uploads/x.php");
    let mut watched = tree.watch();
    let mut is = |act: &dyn Fn(), expected: &str, page: bool, what: &str| {
        assert_eq!(told(&mut watched, act), (expected, page), "{what}");
    };
    is(&|| (), "nothing", false, "nothing");
    is(&|| tree.write("src/a.php"), "a file", true, "in place");
    is(&|| fs::remove_file(tree.at("src/a.php")).unwrap(), "a file", true, "removed");
    is(&|| tree.write("src/b.css"), "a file", false, "a stylesheet");
    is(&|| tree.write("src/b.css.php"), "a file", true, "no stylesheet");
    is(&|| tree.write("src/c.log"), "nothing", false, "a log");
    is(&|| tree.write("uploads/y.php"), "nothing", false, "ignored");
    is(&|| set_time(&tree.at("elsewhere.php"), 100), "all", true, "older than it was");
    is(&|| fs::rename(tree.at("elsewhere.php"), tree.at("src/d.php")).unwrap(), "all", true, "old, by a rename");
    is(&|| tree.write(".user.ini"), "all", true, "settings of a directory");
    is(&|| fs::create_dir(tree.at("empty")).unwrap(), "a file", true, "an empty directory");
    is(&|| tree.write("empty/e.php"), "a file", true, "in a new directory");
    is(&|| tree.write("new/deep/f.php"), "all", true, "a directory with something in it");
    is(&|| tree.write("new/deep/f.php"), "a file", true, "in that one");
    is(&|| fs::rename(tree.at("new"), tree.at("moved")).unwrap(), "all", true, "a directory moved");
    is(&|| tree.write("moved/deep/f.php"), "a file", true, "in the moved one");
    is(&|| fs::remove_dir_all(tree.at("moved")).unwrap(), "all", true, "a directory removed");
    is(&|| tree.write("index.php"), "all", true, "a front controller that was not there");
    is(&|| tree.write("index.php"), "a file", true, "a front controller that was");
}

#[test]
fn links_are_followed_and_loops_end() {
    let tree = Tree::new("links");
    let other = Tree::new("links-elsewhere");
    symlink(".", tree.at("loop")).unwrap();
    symlink("..", tree.at("src/up")).unwrap();
    symlink("/", tree.at("all")).unwrap();
    symlink("nowhere", tree.at("broken")).unwrap();
    symlink(other.at("src"), tree.at("library")).unwrap();
    other.write("settings/a.yaml");
    other.write("settings/b.yaml");
    symlink(other.at("settings/a.yaml"), tree.at("settings.yaml")).unwrap();
    let mut watched = tree.watch();
    assert!(watched.places.len() < 8, "{}", watched.places.len());
    assert_eq!(told(&mut watched, || other.write("src/a.php")), ("a file", true));
    assert_eq!(told(&mut watched, || other.write("settings/a.yaml")), ("a file", true));
    assert_eq!(told(&mut watched, || other.write("settings/b.yaml")), ("nothing", false));
    let switch = || {
        symlink(other.at("settings"), tree.at("next")).unwrap();
        fs::rename(tree.at("next"), tree.at("library")).unwrap();
    };
    assert_eq!(told(&mut watched, switch), ("all", true));
    assert_eq!(told(&mut watched, || other.write("settings/b.yaml")), ("a file", true));
    // A file in the place of a link to it: PHP may still know where the link led.
    let replace = || {
        fs::remove_file(tree.at("settings.yaml")).unwrap();
        tree.write("settings.yaml");
    };
    assert_eq!(told(&mut watched, replace), ("all", true));
}

#[test]
fn the_directory_may_go_and_come_back() {
    let tree = Tree::new("gone");
    let mut watched = tree.watch();
    let beside = tree.0.with_extension("beside");
    assert_eq!(told(&mut watched, || fs::rename(&tree.0, &beside).unwrap()), ("all", true));
    assert_eq!(told(&mut watched, || ()), ("nothing", false));
    assert_eq!(told(&mut watched, || fs::rename(&beside, &tree.0).unwrap()), ("all", true));
    assert_eq!(told(&mut watched, || tree.write("src/a.php")), ("a file", true));
}

#[test]
fn what_changed_before_the_watch_counts() {
    let tree = Tree::new("before");
    let since = |ago: i64| {
        let time = SystemTime::now() - Duration::from_secs(u64::try_from(ago).unwrap_or_default());
        Watched::new(&tree.0, Ignored::default(), time).unwrap().look().whole
    };
    assert_eq!(since(100), 1);
    assert_eq!(tree.watch().look().count, 0);
}

#[test]
fn more_events_than_the_kernel_keeps_count_as_everything() {
    let tree = Tree::new("overflow");
    let mut watched = tree.watch();
    let limit: usize = setting("max_queued_events").parse().unwrap();
    // Equal events one after the other are one event.
    let flood = || {
        let files = ["src/a.php", "src/b.php"].map(|name| fs::File::create(tree.at(name)).unwrap());
        for turn in 0..=limit {
            files[turn % 2].set_modified(SystemTime::now()).unwrap();
        }
        fs::create_dir(tree.at("lost")).unwrap();
    };
    assert_eq!(told(&mut watched, flood), ("all", true));
    assert_eq!(told(&mut watched, || tree.write("lost/a.php")), ("a file", true));
}
