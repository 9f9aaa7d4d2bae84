//! Rules: each action, over the real binaries.

use std::fs;

use tests::server::Directory;
use tests::{Response, Server, Setup};

/// Shows what PHP learns of a request.
const SHOW: &str =
    "<?php foreach (['SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_URI', 'REMOTE_USER'] as $name) {
    echo $_SERVER[$name] ?? '-', ' ';
} echo basename(dirname($_SERVER['SCRIPT_FILENAME'])), '/', basename(__FILE__);";

fn site() -> Setup {
    let mut setup = Setup::empty();
    for name in ["index.php", "blog.php", "api.php", "dir/index.php", "uploads/evil.php", "uploads/sub/index.php"] {
        setup = setup.file(name, SHOW);
    }
    for name in [
        "a.css",
        "uploads/cat.png",
        "data/secret.txt",
        "data/public.sql",
        "errors/404.html",
        "errors/down.html",
        "admin/a.txt",
    ] {
        setup = setup.file(name, format!("file {name}"));
    }
    setup
}

fn with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    server.client().request("GET", path, headers, b"")
}

fn location(answer: &Response) -> (u16, &str) {
    (answer.status, answer.header("location").unwrap_or("-"))
}

/// The actions that end matching: the first that fits decides.
#[test]
fn each_action_is_done() {
    let mounted = Directory::new();
    for (name, text) in [("lib.js", "library"), ("app.php", SHOW), ("dir/index.html", "index"), (".hidden", "x")] {
        let path = mounted.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let server = site()
        .route("path = \"/data/public.sql\"\nallow = true")
        .route("prefix = \"/data\"\ndeny = true")
        .route("path = [\"/gone\", \"/gone/too\"]\ndeny = 410")
        .route("prefix = \"/none\"\ndeny = 404")
        .route("prefix = \"/old\"\nredirect = \"/new/$rest\"\nstatus = 301")
        .route("pattern = '^/go/(?<site>[^/]+)$'\nredirect = \"https://${site}.example/?q=$query\"")
        .route("pattern = '^/wiki/(.+)$'\nrewrite = \"/index.php?title=$1&x=1\"")
        .route("pattern = '^/into/(.+)$'\nrewrite = \"/$1\"")
        .route("prefix = \"/api\"\nmethod = [\"GET\", \"POST\"]\nscript = \"api.php\"")
        .route("prefix = \"/blog\"\nfront_controller = \"blog.php\"")
        .route(&format!("prefix = \"/lib\"\nmount = \"{}\"", mounted.0.display()))
        .route("path = \"/only\"\naddress = \"10.0.0.0/8\"\ndeny = true")
        .route("path = \"/not\"\nnot_address = \"10.0.0.0/8\"\ndeny = true")
        .route("header = { \"X-Bot\" = \"~^bad\" }\ndeny = true")
        .route("pattern = '^/dir/.*\\.php$'\nmethod = \"DELETE\"\ndeny = true")
        .route("host = \"wrong.example\"\ndeny = true")
        .start();
    for (path, status, part) in [
        ("/data/secret.txt", 403, "denied"),
        ("/data/./%73ecret.txt", 403, "denied"),
        ("//data//secret.txt", 403, "denied"),
        ("/data/public.sql", 200, "file data/public.sql"),
        ("/database", 200, "/index.php - "),
        ("/gone", 410, "gone"),
        ("/gone/too", 410, "gone"),
        ("/none/x", 404, "not-found"),
        ("/wiki/A%20B&c?y", 200, "/index.php - title=A%20B%26c&x=1 /wiki/A%20B&c?y - "),
        ("/into/a.css", 200, "file a.css"),
        ("/into/data/secret.txt", 403, "denied"),
        ("/into/dir/index.php/info?q", 200, "/dir/index.php /info q /into/dir/index.php/info?q - dir/index.php"),
        ("/api/x?y", 200, "/api.php - y /api/x?y - public/api.php"),
        ("/blog/x", 200, "/blog.php - "),
        ("/blog/../a.css", 200, "file a.css"),
        ("/lib/lib.js", 200, "library"),
        ("/lib/dir/", 200, "index"),
        ("/lib/app.php/x?y", 200, "/lib/app.php /x y "),
        ("/lib/none", 404, "not-found"),
        ("/lib/.hidden", 404, "not-found"),
        ("/lib/../a.css", 200, "file a.css"),
        ("/only", 200, "/index.php"),
        ("/not", 403, "denied"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
    for (path, expected) in [
        ("/old/a/b?c", (301, "/new/a/b?c")),
        ("/old", (301, "/new/")),
        ("/go/a?b=c", (302, "https://a.example/?q=b=c")),
        ("/into/dir", (301, "/dir/")),
        ("/lib/dir?x", (301, "/lib/dir/?x")),
        ("/lib", (301, "/lib/")),
    ] {
        assert_eq!(location(&server.get(path)), expected, "{path}");
    }
    assert_eq!(with(&server, "/", &[("X-Bot", "badbot")]).status, 403);
    assert_eq!(with(&server, "/", &[("X-Bot", "goodbot")]).status, 200);
    assert_eq!(with(&server, "/", &[("Host", "wrong.example")]).status, 403);
    assert_eq!(server.client().request("PUT", "/api/x", &[], b"").text().split(' ').next(), Some("/index.php"));
    // The index of a directory has a path of its own.
    assert_eq!(server.client().request("DELETE", "/dir/", &[], b"").status, 403);
    assert_eq!(server.get("/dir/").status, 200);
    tests::wait_until("a line of the log", 10, || server.access_log().contains(" 410 "));
}

/// What accumulates: headers, expires, PHP off, error pages, maintenance.
#[test]
fn what_accumulates_is_added() {
    let server = site()
        .file("cached.php", "<?php header('Cache-Control: private'); header('X-Frame-Options: NONE'); echo 'x';")
        .route("headers = { \"X-Frame-Options\" = \"DENY\", \"X-Powered-By\" = \"\" }")
        .route("error_pages = { \"404\" = \"/errors/404.html\", \"403\" = \"/errors/none.html\" }")
        .route("prefix = \"/uploads\"\nphp = false\nheaders = { \"Content-Security-Policy\" = \"sandbox\" }")
        .route("pattern = '\\.(css|png)$'\nexpires = \"30d\"")
        .route("pattern = '\\.[0-9a-f]{8}\\.js$'\nexpires = \"immutable\"")
        .route("path = [\"/cached.php\", \"/\"]\nexpires = \"1h\"")
        .route("exists = \"/maintenance.on\"\nmaintenance = \"/errors/down.html\"")
        .route("prefix = \"/missing\"\ndeny = 404")
        .file("errors/none.html", "no")
        .file("app.0123abcd.js", "js")
        .start();
    for (path, status, text, cache) in [
        ("/a.css", 200, "file a.css", "max-age=2592000"),
        ("/uploads/cat.png", 200, "file uploads/cat.png", "max-age=2592000"),
        ("/app.0123abcd.js", 200, "js", "max-age=31536000, immutable"),
        ("/cached.php", 200, "x", "private"),
        ("/", 200, "/index.php -  / - public/index.php", "max-age=3600"),
        ("/uploads/evil.php", 403, "no", "-"),
        ("/uploads/evil.php/x.css", 403, "no", "-"),
        ("/uploads/sub/", 403, "no", "-"),
        ("/uploads/none", 200, "/index.php -  /uploads/none - public/index.php", "-"),
        ("/missing/x", 404, "file errors/404.html", "-"),
    ] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{path}");
        assert_eq!(answer.header("cache-control").unwrap_or("-"), cache, "{path}");
        assert_eq!((answer.all("x-frame-options"), answer.header("x-powered-by")), (vec!["DENY"], None), "{path}");
        assert_eq!(answer.header("content-security-policy").is_some(), path.starts_with("/uploads"), "{path}");
    }
    assert_eq!(server.client().request("HEAD", "/missing/x", &[], b"").header("content-length"), Some("20"));
    fs::write(server.root.join("maintenance.on"), "").expect("a file");
    let answer = server.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (503, "file errors/down.html"));
    assert_eq!((answer.header("retry-after"), answer.header("reprise-refused")), (Some("1"), Some("maintenance")));
    fs::remove_file(server.root.join("maintenance.on")).expect("a file");
    assert_eq!(server.get("/").status, 200);
}

/// Basic authentication: every kind of hash, for files and for what PHP runs, and for where a rewrite leads.
#[test]
fn a_password_is_asked_for() {
    let setup = site();
    // Made by password_hash(), openssl passwd -apr1 and htpasswd -s, all of "password".
    let file = setup.directory().join("users");
    fs::write(
        &file,
        "b:$2y$04$FEkwWZH6iDfq1MGgwZ3lM.F9163PkAVdvzyT6uxBgOtODBOyD10Vy\na:$apr1$TESTSALT$/qh1NeASK65KivtI8Dg4a0\ns:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
    )
    .expect("a file");
    let server = setup
        .route(&format!("prefix = \"/admin\"\nusers = \"{}\"\nrealm = \"The office\"", file.display()))
        .route("prefix = \"/way\"\nrewrite = \"/admin/$rest\"")
        .start();
    let basic = |text: &str| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
    };
    for path in ["/admin/a.txt", "/admin", "/admin/none", "/way/a.txt", "/x/../admin/a.txt", "/%61dmin/a.txt"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("reprise-refused")), (401, Some("unauthorized")), "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"The office\", charset=\"UTF-8\""), "{path}");
        for wrong in ["a:wrong", "nobody:password", "a:", ":", "a"] {
            assert_eq!(with(&server, path, &[("Authorization", &basic(wrong))]).status, 401, "{path} {wrong}");
        }
        for user in ["a", "b", "s"] {
            let answer = with(&server, path, &[("Authorization", &basic(&format!("{user}:password")))]);
            assert_eq!(answer.status, 200, "{path} {user}");
            let is_php = answer.text().starts_with('/');
            assert_eq!(is_php, answer.text().contains(&format!(" {user} ")), "{path} {user}: {}", answer.text());
        }
    }
    assert_eq!(server.get("/a.css").status, 200);
}

/// A reload changes rules; a client that asks all the while loses nothing, and each response is of one of both.
#[test]
fn a_reload_changes_rules_and_loses_nothing() {
    let server = site().route("prefix = \"/state\"\nredirect = \"/first\"").start();
    let port = server.port;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let rounds = tests::amount(2, 50);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut seen = std::collections::BTreeMap::<String, usize>::new();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let answer = tests::get(port, "/state");
                assert_eq!(answer.status, 302, "{}", answer.text());
                *seen.entry(answer.header("location").unwrap_or("-").to_owned()).or_default() += 1;
            }
            seen
        });
        for round in 0..rounds {
            let (from, to) = if round % 2 == 0 { ("/first", "/second") } else { ("/second", "/first") };
            server.reconfigure(from, to);
            let (went_well, said) = server.reload();
            assert!(went_well, "{said}");
            assert_eq!(server.get("/state").header("location"), Some(to));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let seen = asking.join().expect("the client");
        assert!(seen.keys().all(|to| to == "/first" || to == "/second"), "{seen:?}");
    });
}
