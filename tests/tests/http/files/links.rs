//! Symbolic links that lead out of the root: those that frameworks and distributions make are followed, and none shows what its maker
//! could not read or what the target's own name would not.

use std::os::unix::fs::{chown, lchown};
use std::process::Command;

use nix::unistd::User;
use tests::peer::Fpm;
use tests::process::needs_root;
use tests::wait_for;

use super::*;

/// The number of PHP's user.
fn www() -> u32 {
    User::from_name("www-data").expect("users").expect("www-data").uid.as_raw()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn link(target: impl AsRef<Path>, at: PathBuf, owner: u32) {
    needs_root();
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(target, &at).unwrap();
    lchown(&at, Some(owner), None).unwrap();
}

const CONTROLLER: &str = "<?php if (function_exists('reprise_snapshot')) reprise_snapshot();
    echo 'controller ', basename(__FILE__), ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'];";
const RUN: &str = "<?php echo 'ran ', basename(__FILE__), ' ', $_SERVER['SCRIPT_NAME'];";
const LOOP: &str = "<?php $serve = fn () => print('looped ' . basename(__FILE__));
    if (!function_exists('reprise_handle_request')) return $serve();
    while (reprise_handle_request($serve));";

/// Laravel's storage:link, Symfony's assets:install --symlink, and Debian's packages, files and scripts, in all modes: as nginx and PHP-FPM.
#[test]
fn links_of_frameworks_and_distributions_are_followed() {
    needs_root();
    let debian = Directory::new();
    for (name, text) in [
        ("javascript/prototype/prototype.js", "prototype"),
        ("javascript/prototype/style.css", "style"),
        ("site/front.php", CONTROLLER),
        ("site/run.php", RUN),
        ("site/loop.php", LOOP),
        ("site/tool.php", RUN),
        ("site/theme/index.html", "theme"),
    ] {
        write(&debian.0.join(name), text);
    }
    let setup = Setup::empty().application("mode.\"index.php\" = \"snapshot\"\nmode.\"loop.php\" = \"worker\"");
    let (app, root) = (setup.directory().join("app"), setup.document_root().to_owned());
    write(&app.join("storage/app/public/avatar.txt"), "avatar");
    for path in ["storage", "storage/app", "storage/app/public", "storage/app/public/avatar.txt"] {
        chown(app.join(path), Some(www()), None).unwrap();
    }
    write(&app.join("vendor/acme/site/Resources/public/app.js"), "bundle");
    write(&app.join("data/media/a.txt"), "media");
    chown(app.join("data/media"), Some(www()), None).unwrap();
    link("../storage/app/public", root.join("storage"), www());
    link("../../vendor/acme/site/Resources/public/", root.join("bundles/acme"), 0);
    link(app.join("data/media"), root.join("media"), 0);
    link(debian.0.join("javascript/prototype"), root.join("prototype"), 0);
    link("prototype/prototype.js", root.join("by-two.js"), 0);
    link(debian.0.join("site/front.php"), root.join("index.php"), 0);
    link(debian.0.join("site/loop.php"), root.join("loop.php"), 0);
    link(debian.0.join("site/run.php"), root.join("sub/start.php"), 0);
    link(debian.0.join("site"), root.join("w"), 0);
    link("nowhere", root.join("gone.txt"), www());
    let peer = Fpm::start(&root);
    let server = setup.start();
    let mut theirs = Client::new(peer.port);
    let mut ours = server.client();
    for (path, expected) in [
        ("/storage/avatar.txt", "avatar"),
        ("/storage/none.txt", "controller front.php /index.php /storage/none.txt"),
        ("/bundles/acme/app.js", "bundle"),
        ("/media/a.txt", "media"),
        ("/prototype/prototype.js", "prototype"),
        ("/prototype/style.css", "style"),
        ("/by-two.js", "prototype"),
        ("/w/theme/", "theme"),
        ("/", "controller front.php /index.php /"),
        ("/any", "controller front.php /index.php /any"),
        ("/gone.txt", "controller front.php /index.php /gone.txt"),
        ("/loop.php", "looped loop.php"),
        ("/sub/start.php", "ran run.php /sub/start.php"),
        ("/w/tool.php", "ran tool.php /w/tool.php"),
    ] {
        let (our, their) = (ours.get(path), theirs.get(path));
        assert_eq!((our.status, our.text().as_str()), (200, expected), "{path}");
        assert_eq!((our.status, our.text()), (their.status, their.text()), "{path}");
    }
    assert!(!server.log().contains("not followed"), "{}", server.log());
}

/// What PHP's user links to, and what it can put in the place of root's target, is refused, and so is what has a name that is never
/// sent. The front controller does not get it. Each link is named once in the log, and by `route` and `check`.
#[test]
fn links_that_prove_nothing_are_refused_by_name() {
    needs_root();
    let setup = Setup::empty().file("index.php", "<?php echo 'controller';").file("a.txt", "static");
    let (app, root) = (setup.directory().join("app"), setup.document_root().to_owned());
    for name in
        ["secret.txt", "config.php", ".env", "private/list.txt", ".git/HEAD", "dump.sql", "lib/x.inc", "lib/.htpasswd"]
    {
        write(&app.join(name), SECRET);
    }
    write(&app.join("drop/a.txt"), SECRET);
    for path in ["drop", "drop/a.txt"] {
        chown(app.join(path), Some(www()), None).unwrap();
    }
    for (target, name, owner) in [
        ("../secret.txt", "secret.txt", www()),
        ("secret.txt", "twice.txt", 0),
        ("/etc/passwd", "passwd", www()),
        ("../private", "private", www()),
        ("/proc/self/environ", "environ", www()),
        ("../drop/a.txt", "drop.txt", 0),
        ("../config.php", "config.txt", 0),
        ("../.env", "env.txt", 0),
        ("../.git", "git", 0),
        ("../dump.sql", "dump.txt", 0),
        ("../lib", "lib", 0),
    ] {
        link(target, root.join(name), owner);
    }
    let server = setup.start();
    let mut client = server.client();
    let is_named = |word: &str| {
        let is_of = |line: &&str| line.contains("not followed (403): ") && line.contains(word);
        server.log().lines().filter(is_of).count()
    };
    for (path, word) in [
        ("/secret.txt", "link"),
        ("/secret.txt", "link"),
        ("/twice.txt", "link"),
        ("/passwd", "link"),
        ("/private/list.txt", "link"),
        ("/private/", "link"),
        ("/private", "link"),
        ("/environ", "link"),
        ("/drop.txt", "link"),
        ("/config.txt", "link"),
        ("/env.txt", "link"),
        ("/git/HEAD", "link"),
        ("/dump.txt", "denied"),
    ] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.header("reprise-refused")), (403, Some(word)), "{path}");
        assert!(!answer.text().contains("TOP-SECRET"), "{path}");
    }
    // A file that is never sent, by its own name, below a link that is followed.
    for path in ["/lib/x.inc", "/lib/.htpasswd", "/private/none"] {
        assert_eq!(client.get(path).text(), "controller", "{path}");
    }
    assert_eq!(client.get("/a.txt").text(), "static");
    wait_for("lines of the log", 10, || (is_named("/git leads to") > 0).then_some(()));
    for name in ["/secret.txt leads to", "/private leads to", "/drop.txt leads to", "/config.txt leads to"] {
        assert_eq!(is_named(name), 1, "{name}: {}", server.log());
    }
    let config = server.directory().join("reprise.toml").display().to_string();
    let said = |arguments: &[&str]| {
        let output = Command::new(tests::server::program()).args(arguments).args(["--config", &config]).output();
        String::from_utf8_lossy(&output.expect("reprise").stdout).into_owned()
    };
    let route = said(&["route", "/private/list.txt"]);
    assert!(route.contains("403 link: the symbolic link ") && route.contains("chown -h 0"), "{route}");
    let check = said(&["check"]);
    let expected = "config.txt, drop.txt, env.txt and 6 more are symbolic links that the front does not follow: requests for them get \
        403; `reprise route /config.txt` says why";
    assert!(check.contains(expected), "{check}");
}

/// `follow` allows a link whoever owns it, and `links` forbids what owners would allow.
#[test]
fn options_widen_and_close_where_links_lead() {
    let outside = Directory::new();
    write(&outside.0.join("media/a.txt"), "media");
    write(&outside.0.join("other/a.txt"), "other");
    let setup = |lines: &str| {
        let setup = plain().file("inner/a.txt", "inner").application(lines);
        for (name, owner) in [("media", www()), ("other", 0)] {
            link(outside.0.join(name), setup.document_root().join(name), owner);
        }
        link("inner", setup.document_root().join("inside"), www());
        setup
    };
    let follow = format!("follow = [\"{}\"]", outside.0.join("media").display());
    for (lines, media, other) in [
        ("", 403, 200),
        ("links = \"inside\"", 403, 403),
        (follow.as_str(), 200, 200),
        (&*format!("{follow}\nlinks = \"inside\""), 200, 403),
        ("follow = [\"/\"]\nlinks = \"inside\"", 200, 200),
    ] {
        let server = setup(lines).start();
        let status = |path: &str| server.get(path).status;
        assert_eq!(
            (status("/media/a.txt"), status("/other/a.txt"), status("/inside/a.txt")),
            (media, other, 200),
            "{lines}"
        );
    }
}

/// A link that is replaced all the time never shows what it may not lead to.
#[test]
fn links_that_change_show_nothing_more() {
    let setup = plain();
    let (app, root) = (setup.directory().join("app"), setup.document_root().to_owned());
    write(&app.join("own/a.txt"), "own");
    write(&app.join("secret/a.txt"), SECRET);
    for path in ["own", "own/a.txt"] {
        chown(app.join(path), Some(www()), None).unwrap();
    }
    link("../own", root.join("d"), www());
    let server = setup.server("file_cache_time = \"0s\"").start();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut seen = [0, 0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let to = if number % 2 == 0 { "../secret" } else { "../own" };
                link(to, root.join("next"), www());
                fs::rename(root.join("next"), root.join("d")).unwrap();
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut client = server.client();
        for _ in 0..2000 {
            let answer = client.get("/d/a.txt");
            match answer.status {
                200 => assert_eq!(answer.text(), "own"),
                status => assert!(matches!(status, 403 | 404), "{status}"),
            }
            seen[usize::from(answer.status == 200)] += 1;
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
