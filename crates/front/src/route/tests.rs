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
        ("/out.txt", "nobody"),
        ("/source.txt", "nobody"),
        ("/config.txt", "nobody"),
        ("/.git/config", "nobody"),
        ("/secret.php", "nobody"),
        ("/text.php", "nobody"),
        ("/own", "directory"),
        ("/bare", "nobody"),
        ("/assets/b.css", "nobody"),
        ("/none.php", "nobody"),
        ("/index.PHP", "nobody"),
    ] {
        assert_eq!(kind(&site, path), expected, "{path}");
    }
    site.follow.push(root.join("shared").canonicalize().unwrap());
    assert_eq!(kind(&site, "/assets/b.css"), "file");
    site.front_controller = Some("index.php".into());
    assert_eq!(kind(&site, "/anything/else"), "script");
    for (path, expected) in [("/own", "directory"), ("/bare", "script"), ("/sub/", "file")] {
        assert_eq!(kind(&site, path), expected, "{path}");
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
