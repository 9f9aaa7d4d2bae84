//! Which path leads to which file or script.

use super::*;
use std::os::unix::fs::symlink;

fn application(root: &Path, hosts: &[&str]) -> Application {
    Application {
        name: "test".into(),
        root: root.canonicalize().unwrap(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        workers: 1,
        min_workers: 1,
        default_denials: true,
        ..Application::default()
    }
}

fn tree(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("reprise-route-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("www/sub")).unwrap();
    std::fs::create_dir_all(root.join("www/.git")).unwrap();
    std::fs::create_dir_all(root.join("shared")).unwrap();
    for file in ["www/index.php", "www/a.txt", "www/.git/config", "www/sub/index.html", "shared/b.css", "secret"] {
        std::fs::write(root.join(file), "x").unwrap();
    }
    symlink("../secret", root.join("www/out.txt")).unwrap();
    symlink("index.php", root.join("www/source.txt")).unwrap();
    symlink(".git/config", root.join("www/config.txt")).unwrap();
    symlink("../shared", root.join("www/assets")).unwrap();
    symlink("../secret", root.join("www/secret.php")).unwrap();
    symlink("a.txt", root.join("www/text.php")).unwrap();
    for directory in ["own", "bare"] {
        std::fs::create_dir_all(root.join("www").join(directory)).unwrap();
    }
    std::fs::write(root.join("www/own/index.php"), "x").unwrap();
    root
}

fn kind(application: &Application, path: &str) -> &'static str {
    match decide(&Terms::of(application), path.as_bytes()) {
        Route::Ping | Route::Status => "monitoring",
        Route::File(_) => "file",
        Route::Script(_) => "script",
        Route::Directory(_) => "directory",
        Route::Nobody => "nobody",
        Route::Closed => "closed",
        Route::Denied => "denied",
        Route::Link(_) => "link",
        Route::Source => "source",
    }
}

#[test]
fn nothing_outside_hidden_or_source_is_served() {
    let root = tree("safe");
    let mut site = application(&root.join("www"), &[]);
    for (path, expected) in [
        ("/a.txt", "file"),
        ("/index.php", "script"),
        ("/index.php/x", "script"),
        ("/", "script"),
        ("/sub", "directory"),
        ("/sub/", "file"),
        ("/a.txt/", "nobody"),
        ("/out.txt", "file"),
        ("/source.txt", "nobody"),
        ("/config.txt", "nobody"),
        ("/.git/config", "nobody"),
        ("/secret.php", "nobody"),
        ("/text.php", "nobody"),
        ("/own", "directory"),
        ("/bare", "nobody"),
        ("/assets/b.css", "file"),
        ("/assets", "nobody"),
        ("/assets/none", "nobody"),
        ("/none.php", "nobody"),
        ("/index.PHP", "nobody"),
    ] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.links = Links::Inside;
    for (path, expected) in
        [("/out.txt", "link"), ("/assets/b.css", "link"), ("/assets/none", "nobody"), ("/a.txt", "file")]
    {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.follow.push(root.join("shared").canonicalize().unwrap());
    assert_eq!((kind(&site, "/assets/b.css"), kind(&site, "/out.txt")), ("file", "link"));
    site.links = Links::Owner;
    site.front_controller = Some("index.php".into());
    assert_eq!(kind(&site, "/anything/else"), "script");
    for (path, expected) in [("/own", "directory"), ("/bare", "script"), ("/sub/", "file")] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    std::fs::remove_dir_all(&root).unwrap();
}

/// What a link names is judged by its own name and what lies below, wherever that is.
#[test]
fn links_show_nothing_that_its_own_name_would_not() {
    let root = tree("linked");
    let mut site = application(&root.join("www"), &[]);
    for file in [
        "app/config.php",
        "app/.env",
        "app/.git/config",
        "app/dump.sql",
        "app/pub/.env",
        "app/pub/a.inc",
        "app/pub/run.php",
    ] {
        std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        std::fs::write(root.join(file), "x").unwrap();
    }
    std::fs::create_dir_all(root.join(".shared/files")).unwrap();
    std::fs::write(root.join(".shared/files/a.txt"), "x").unwrap();
    for (target, name) in [
        ("../app/config.php", "config.txt2"),
        ("../app/.env", "env.txt"),
        ("../app/.git", "git"),
        ("../app/dump.sql", "dump.txt"),
        ("../app/pub", "pub"),
        ("../.shared/files", "files"),
        ("pub", "again"),
        ("../.now/pub/run.php", "way.php"),
        ("../.now/.env", "way.txt"),
        ("../app/config.php", "config.php"),
        ("nowhere", "dangling"),
        ("/", "all"),
        ("..", "above"),
        ("loop", "loop"),
        ("../link.php", "text.txt"),
    ] {
        symlink(target, root.join("www").join(name)).unwrap();
    }
    symlink("secret", root.join("link.php")).unwrap();
    symlink("app", root.join(".now")).unwrap();
    for (path, expected) in [
        ("/config.txt2", "link"),
        ("/env.txt", "link"),
        ("/git/config", "link"),
        ("/dump.txt", "denied"),
        ("/pub/.env", "nobody"),
        ("/pub/a.inc", "nobody"),
        ("/pub/run.php", "script"),
        ("/again/run.php/x", "script"),
        ("/config.php", "script"),
        ("/way.php", "script"),
        ("/way.txt", "link"),
        ("/files/a.txt", "file"),
        ("/dangling", "nobody"),
        ("/loop", "nobody"),
        ("/all/etc/passwd", "file"),
        ("/above/secret", "file"),
        ("/text.txt", "link"),
    ] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.default_denials = false;
    assert_eq!(kind(&site, "/dump.txt"), "file");
    std::fs::remove_dir_all(&root).unwrap();
}

/// Who owns link, target and directory decides.
#[test]
fn links_are_followed_by_their_owners() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
    let root = tree("owned");
    assert_eq!(std::fs::metadata(&root).unwrap().uid(), 0, "run the tests as root");
    let site = Application { php_user: 33, ..application(&root.join("www"), &[]) };
    symlink(".", root.join("way")).unwrap();
    let rows = [
        // Owners of link, target and directory; the directory's mode.
        (0, 0, 0, 0o755, "file"),
        (33, 33, 33, 0o755, "file"),
        (34, 34, 33, 0o777, "file"),
        (0, 33, 0, 0o755, "file"),
        (0, 34, 34, 0o755, "file"),
        (0, 33, 33, 0o755, "link"),
        (0, 34, 34, 0o775, "link"),
        (0, 34, 34, 0o757, "link"),
        (33, 0, 0, 0o755, "link"),
        (33, 34, 33, 0o755, "link"),
        (34, 33, 33, 0o755, "link"),
    ];
    for (number, (link, target, directory, mode, expected)) in rows.into_iter().enumerate() {
        let place = root.join(format!("place{number}"));
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("a.txt"), "x").unwrap();
        std::fs::create_dir(place.join("d")).unwrap();
        std::fs::write(place.join("d/b.txt"), "x").unwrap();
        for name in ["a.txt", "d"] {
            chown(place.join(name), Some(target), None).unwrap();
            let at = root.join("www").join(format!("{number}-{name}"));
            symlink(place.join(name), &at).unwrap();
            lchown(&at, Some(link), None).unwrap();
            // The first link inside is root's.
            symlink(format!("{number}-{name}"), root.join("www").join(format!("by-{number}-{name}"))).unwrap();
            // Its way leads by a link of root's.
            let at = root.join("www").join(format!("on-{number}-{name}"));
            symlink(root.join(format!("way/place{number}")).join(name), &at).unwrap();
            lchown(&at, Some(link), None).unwrap();
        }
        chown(&place, Some(directory), None).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        for path in ["a.txt", "d/b.txt"] {
            for by in ["", "by-", "on-"] {
                assert_eq!(kind(&site, &format!("/{by}{number}-{path}")), expected, "{by}{number}-{path}");
            }
        }
    }
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn default_denials_concern_files_that_are_there() {
    let root = tree("denied");
    let mut site = application(&root.join("www"), &[]);
    for file in [
        "data/db.sqlite",
        "backup.sql",
        "vendor/autoload.php",
        "vendor/composer/installed.json",
        "vendor/a/run.php",
        "vendor/a/index.php",
        "vendor/a/b.css",
        "lib/vendor/a.txt",
        ".well-known/keys.pem",
    ] {
        let path = root.join("www").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    symlink("data/db.sqlite", root.join("www/innocent.txt")).unwrap();
    for (path, expected) in [
        ("/data/db.sqlite", "denied"),
        ("/data/none.sqlite", "nobody"),
        ("/data/db.sqlite/", "nobody"),
        ("/backup.sql", "denied"),
        ("/innocent.txt", "denied"),
        ("/vendor/autoload.php", "denied"),
        ("/vendor/composer/installed.json", "denied"),
        ("/vendor/a/run.php/info", "denied"),
        ("/vendor/a/", "denied"),
        ("/vendor/a/b.css", "file"),
        ("/vendor/", "nobody"),
        ("/vendor/none", "nobody"),
        ("/lib/vendor/a.txt", "file"),
        ("/.well-known/keys.pem", "file"),
    ] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.front_controller = Some("index.php".into());
    for (path, expected) in [
        ("/data/db.sqlite", "denied"),
        ("/data/none.sqlite", "script"),
        ("/vendor/none", "script"),
        ("/vendor", "script"),
    ] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.default_denials = false;
    for path in ["/data/db.sqlite", "/innocent.txt", "/vendor/composer/installed.json"] {
        assert_eq!(kind(&site, path), "file", "{path}");
    }
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn scripts_are_believed_for_a_second_and_what_is_missing_never() {
    let root = tree("believed");
    let file = |name: &str| root.join("www").join(name);
    let mut site = application(&root.join("www"), &[]);
    let began = Instant::now();
    let named =
        |site: &Application, path: &str, ms| match route(site, path.as_bytes(), began + Duration::from_millis(ms)) {
            Route::Script(script) => script.text().unwrap_or_default().to_owned(),
            Route::File(_) => "a file".to_owned(),
            _ => "nobody".to_owned(),
        };
    for name in ["one.php", "two.php"] {
        std::fs::write(file(name), "x").unwrap();
    }
    for path in ["/one.php", "/two.php/info"] {
        assert_eq!(named(&site, path, 0), path[..8], "{path}");
    }
    for name in ["one.php", "two.php"] {
        std::fs::remove_file(file(name)).unwrap();
    }
    for path in ["/one.php", "/two.php/info"] {
        assert_eq!((named(&site, path, 999), named(&site, path, 1000)), (path[..8].to_owned(), "nobody".to_owned()));
    }
    site.generation += 1;
    assert_eq!(named(&site, "/one.php", 0), "nobody", "another generation may have other files");

    site.front_controller = Some("index.php".into());
    for path in ["/late.txt", "/", "/index.php"] {
        assert_eq!(named(&site, path, 0), "/index.php", "{path}");
    }
    std::fs::write(file("late.txt"), "x").unwrap();
    std::fs::remove_file(file("index.php")).unwrap();
    site.front_controller = None;
    assert_eq!(named(&site, "/late.txt", 0), "a file");
    assert_eq!((named(&site, "/", 0), named(&site, "/index.php", 0)), ("/index.php".into(), "/index.php".into()));
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn monitoring_has_its_paths() {
    let site =
        Application { ping_path: Some("/ping".into()), status_path: Some("/status".into()), ..Application::default() };
    let now = Instant::now();
    assert!(matches!(route(&site, b"/ping", now), Route::Ping));
    assert!(matches!(route(&site, b"/status", now), Route::Status));
    assert!(matches!(route(&site, b"/.none", now), Route::Nobody));
}

#[test]
fn hosts_choose_the_application() {
    let root = std::env::temp_dir();
    let all = [
        application(&root, &["a.example"]),
        application(&root, &["*.example"]),
        application(&root, &["*.b.example"]),
        application(&root, &[]),
    ];
    let of = [("a.example", 0), ("x.example", 1), ("x.b.example", 2), ("other", 3), ("example", 3)];
    for (host, expected) in of.into_iter().chain([(".example", 3), ("something.else", 3)]) {
        assert_eq!(super::application(&all, host).map(|(number, _)| number), Some(expected), "{host}");
    }
    assert!(super::application(&all[..1], "other").is_none());
}
