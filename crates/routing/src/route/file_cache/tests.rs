//! What is kept, and what must not be sent from it.

use super::*;
use crate::route::Kind;
use crate::route::look::look;
use crate::settings::Application;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

const LIMITS: FileCacheLimits =
    FileCacheLimits { files: 3, memory: 1 << 20, body: 1000, time: Duration::from_secs(3600) };

struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A root with some files that are settled, and an empty cache with these limits.
fn site(limits: FileCacheLimits) -> (Tree, Application) {
    let name = format!("reprise-cache-{}-{:?}", std::process::id(), std::thread::current().id());
    let root = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("www")).unwrap();
    let root = root.canonicalize().unwrap();
    for name in ["a", "b", "c", "d"] {
        std::fs::write(root.join("www").join(name), format!("this is {name}")).unwrap();
    }
    std::fs::write(root.join("www/large"), [b'x'; 1001]).unwrap();
    tend(limits, true, Instant::now());
    let site = Application { root: root.join("www"), default_denials: true, ..Application::default() };
    settle(&root.join("www/large"));
    (Tree(root), site)
}

/// Waits until a file counts as settled.
fn settle(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_settled(&rustix::fs::stat(path).unwrap(), SystemTime::now()) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The file at a path, and whether it was kept.
fn ask(site: &Application, path: &str) -> Option<(Arc<Found>, bool)> {
    let wanted = site.root.join(&path[1..]);
    let before = CACHE.with_borrow(|cache| cache.kept.get(&wanted).map(|kept| kept.found.clone()));
    match look(&Terms::of(site), path.as_bytes()) {
        Kind::File(found) => {
            let is_hit = before.is_some_and(|before| Arc::ptr_eq(&before, &found));
            Some((found, is_hit))
        }
        _ => None,
    }
}

fn text(found: &Found) -> String {
    let mut bytes = vec![0; found.size as usize];
    found.file.read_exact_at(&mut bytes, 0).unwrap();
    if let Some(body) = &found.body {
        assert_eq!(body[..], bytes[..]);
    }
    String::from_utf8(bytes).unwrap()
}

fn is_hit(site: &Application, path: &str) -> bool {
    ask(site, path).unwrap().1
}

fn held() -> (usize, u64) {
    CACHE.with_borrow(|cache| (cache.kept.len(), cache.bytes))
}

#[test]
fn files_are_kept_and_changes_are_seen_at_once() {
    let (_tree, site) = site(FileCacheLimits { files: 100, ..LIMITS });
    let at = |name: &str| site.root.join(name);
    assert!(!is_hit(&site, "/a") && is_hit(&site, "/a"));
    assert!(ask(&site, "/a").unwrap().0.body.is_some());
    assert!(!is_hit(&site, "/large") && is_hit(&site, "/large"));
    assert!(ask(&site, "/large").unwrap().0.body.is_none());
    // Written in place, with the same size.
    std::fs::write(at("a"), "THIS IS A").unwrap();
    for _ in 0..3 {
        let (found, is_hit) = ask(&site, "/a").unwrap();
        assert!(!is_hit, "a file that has just changed is kept");
        assert_eq!(text(&found), "THIS IS A");
    }
    // Replaced by another, with the same size and modification time.
    assert!(!is_hit(&site, "/b") && is_hit(&site, "/b"));
    let modified = std::fs::metadata(at("b")).unwrap().modified().unwrap();
    std::fs::write(at("new"), "THIS IS B").unwrap();
    std::fs::File::options().write(true).open(at("new")).unwrap().set_modified(modified).unwrap();
    std::fs::rename(at("new"), at("b")).unwrap();
    assert_eq!(text(&ask(&site, "/b").unwrap().0), "THIS IS B");
    // Gone, closed, or a directory.
    for (name, change) in [
        ("c", Box::new(|path: &Path| std::fs::remove_file(path).unwrap()) as Box<dyn Fn(&Path)>),
        (
            "d",
            Box::new(|path: &Path| {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            }),
        ),
    ] {
        let path = format!("/{name}");
        assert!(!is_hit(&site, &path) && is_hit(&site, &path));
        change(&at(name));
        assert!(ask(&site, &path).is_none(), "{name}");
    }
    // Permissions are asked of the kernel again.
    let (of_large, mut mode) = (at("large"), std::fs::metadata(at("large")).unwrap().permissions());
    assert!(is_hit(&site, "/large"));
    mode.set_mode(0o600);
    std::fs::set_permissions(of_large, mode).unwrap();
    assert!(!is_hit(&site, "/large"));
}

#[test]
fn a_link_in_the_place_of_a_file_is_judged_as_one() {
    let (tree, mut site) = site(LIMITS);
    site.links = Links::Inside;
    std::fs::write(tree.0.join("secret"), "this is s").unwrap();
    assert!(!is_hit(&site, "/a") && is_hit(&site, "/a"));
    std::fs::remove_file(site.root.join("a")).unwrap();
    symlink("../secret", site.root.join("a")).unwrap();
    assert!(ask(&site, "/a").is_none());
    assert!(!is_hit(&site, "/b") && is_hit(&site, "/b"));
    std::fs::hard_link(site.root.join("b"), tree.0.join("b")).unwrap();
    assert!(ask(&site, "/b").is_some_and(|(_, is_hit)| !is_hit), "one more name changes a file's times");
}

#[test]
fn what_is_decided_on_other_terms_is_not_believed() {
    let (tree, mut site) = site(LIMITS);
    std::fs::rename(site.root.join("a"), site.root.join("a.sqlite")).unwrap();
    site.default_denials = false;
    settle(&site.root.join("a.sqlite"));
    assert!(!is_hit(&site, "/a.sqlite") && is_hit(&site, "/a.sqlite"));
    site.default_denials = true;
    assert!(ask(&site, "/a.sqlite").is_none());
    // After a reload.
    assert!(!is_hit(&site, "/b") && is_hit(&site, "/b"));
    site.generation += 1;
    assert!(!is_hit(&site, "/b") && is_hit(&site, "/b"));
    // Another directory may be followed no longer.
    let shared = tree.0.join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("x"), "x").unwrap();
    symlink("../shared", site.root.join("assets")).unwrap();
    settle(&shared.join("x"));
    site.links = Links::Inside;
    site.follow = vec![shared];
    assert!(!is_hit(&site, "/assets/x") && is_hit(&site, "/assets/x"));
    site.follow.clear();
    assert!(ask(&site, "/assets/x").is_none());
    site.links = Links::Owner;
    assert!(!is_hit(&site, "/assets/x") && is_hit(&site, "/assets/x"));
    site.links = Links::Inside;
    assert!(ask(&site, "/assets/x").is_none());
}

#[test]
fn the_time_and_the_limits_hold() {
    let (_tree, site) = site(LIMITS);
    for (name, count) in [("/a", 1), ("/b", 2), ("/c", 3), ("/d", 3)] {
        assert!(!is_hit(&site, name));
        assert_eq!(held().0, count);
    }
    assert!(!is_hit(&site, "/a"), "the oldest made room");
    let each = 9 + OVERHEAD;
    assert_eq!(held(), (3, 3 * each));
    // Overdue ones are dropped though nobody asks.
    let later = Instant::now() + LIMITS.time;
    tend(LIMITS, false, later);
    assert_eq!(held(), (0, 0));
    // Two fit; what can never fit is not kept.
    tend(FileCacheLimits { memory: 2 * each + 1, ..LIMITS }, false, Instant::now());
    for name in ["/a", "/b", "/c"] {
        assert!(!is_hit(&site, name));
    }
    assert_eq!(held(), (2, 2 * each));
    tend(FileCacheLimits { memory: 100, ..LIMITS }, false, Instant::now());
    assert!(!is_hit(&site, "/a") && !is_hit(&site, "/a"));
    // A reload.
    tend(LIMITS, false, Instant::now());
    assert!(!is_hit(&site, "/a") && is_hit(&site, "/a"));
    tend(LIMITS, true, Instant::now());
    assert_eq!(held(), (0, 0));
    for off in [FileCacheLimits { files: 0, ..LIMITS }, FileCacheLimits { time: Duration::ZERO, ..LIMITS }] {
        tend(off, false, Instant::now());
        assert!(!is_hit(&site, "/a") && !is_hit(&site, "/a"));
    }
}
