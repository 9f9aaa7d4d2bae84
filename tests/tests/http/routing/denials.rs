//! Default denials: what no site wants sent is not sent, under any spelling of its path.

use std::os::unix::fs::symlink;

use tests::client::Response;
use tests::disguises::disguises;
use tests::{Server, Setup};

/// Stands in every file that must not be sent, and is printed by every script that must not run.
const SECRET: &str = "SECRET-OF-THIS-SITE";

/// One or more of each row of the table.
const DENIED: [&str; 27] = [
    "data/db.sqlite",
    "data/db.sqlite-wal",
    "data/db.sqlite3-journal",
    "Shop.DB",
    "backup.sql",
    "backup.sql.gz",
    "site.SQL.tar.gz",
    "dump.mysqldump",
    "composer.json",
    "composer.lock",
    "lib/Composer.json",
    "auth.json",
    "CVS/Root",
    "a/_darcs/format",
    "server.key",
    "cert.pem",
    "id_rsa",
    "store.p12",
    "index.html.bak",
    "page.html~",
    "#page.html#",
    "config.old",
    "web.config",
    "docker-compose.yml",
    "wp-content/debug.log",
    "vendor/composer/installed.json",
    "vendor/phpunit/eval-stdin.php",
];

fn site(front_controller: bool) -> Setup {
    let mut setup = Setup::empty().file("home.html", "home");
    if front_controller {
        setup = setup.file("index.php", "<?php http_response_code(404); echo 'controller';");
    }
    for name in DENIED {
        let text = if name.ends_with(".php") { format!("<?php echo '{SECRET}';") } else { SECRET.to_owned() };
        setup = setup.file(name, text);
    }
    setup = setup
        .file("vendor/autoload.php", format!("<?php echo '{SECRET}';"))
        .file("vendor/a/index.html", SECRET)
        .file("vendor/a/README", SECRET)
        .file("vendor/a/style.css", "style")
        .file("js/vendor/a.txt", "script")
        .file("composer.js", "script")
        .file("keys/public.txt", "key")
        .file(".well-known/keys.pem", "published")
        .file(".well-known/acme-challenge/token", "token");
    symlink("data/db.sqlite", setup.document_root().join("innocent.txt")).expect("a link");
    symlink("data", setup.document_root().join("assets")).expect("a link");
    setup
}

/// Sends the target as it is.
fn ask(server: &Server, target: &[u8]) -> Response {
    let mut client = server.client();
    client
        .send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat())
        .expect("a connection");
    client.read(false).unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(target)))
}

/// A file that a default denial names gets 403 and says why; what sites publish is sent.
#[test]
fn what_no_site_wants_sent_is_denied() {
    for front_controller in [false, true] {
        let server = site(front_controller).start();
        let more = ["innocent.txt", "assets/db.sqlite", "vendor/autoload.php", "vendor/a/", "vendor/a/README"];
        for name in DENIED.iter().chain(&more) {
            let answer = ask(&server, format!("/{}", name.replace('#', "%23")).as_bytes());
            assert_eq!((answer.status, answer.header("reprise-refused")), (403, Some("denied")), "{name}");
        }
        for (path, text) in [
            ("/home.html", "home"),
            ("/vendor/a/style.css", "style"),
            ("/js/vendor/a.txt", "script"),
            ("/composer.js", "script"),
            ("/keys/public.txt", "key"),
            ("/.well-known/keys.pem", "published"),
            ("/.well-known/acme-challenge/token", "token"),
        ] {
            let answer = server.get(path);
            assert_eq!((answer.status, answer.text().as_str()), (200, text), "{path}");
        }
        // What is not there is nobody's, or the front controller's.
        for path in ["/none.sql", "/vendor/none", "/data/", "/shop.sqlite/orders"] {
            let answer = server.get(path);
            assert_eq!(answer.status, 404, "{path}");
            assert_eq!(answer.text() == "controller", front_controller, "{path}");
        }
    }
}

/// 4,000 spellings of these paths, with and without a front controller, get nothing of them.
#[test]
fn no_spelling_of_a_path_gets_past_a_default_denial() {
    for front_controller in [false, true] {
        let server = site(front_controller).start();
        let (mut asked, mut client, mut wrong) = (0, server.client(), Vec::new());
        let others = ["vendor/autoload.php", "vendor/a/", "vendor/a/index.html", "innocent.txt", "assets/db.sqlite"];
        let names: Vec<&str> = DENIED.iter().copied().chain(others).collect();
        // The default run takes each spelling with every fifth name.
        let step = tests::amount(5, 1);
        for (number, name) in names.iter().enumerate() {
            let cases = [(*name).to_owned(), name.to_ascii_uppercase(), name.to_ascii_lowercase()];
            let spelled = cases.iter().flat_map(|name| disguises(name)).enumerate();
            for (_, target) in spelled.filter(|(turn, _)| (turn + number) % step == 0) {
                asked += 1;
                client.send(&[b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).expect("a connection");
                let answer = client.read(false).unwrap_or_else(|error| panic!("{target:?}: {error}"));
                if answer.text().contains(SECRET) || !matches!(answer.status, 301 | 400 | 403 | 404) {
                    // Some spellings lead to another file.
                    if answer.text() != "home" {
                        wrong.push(format!("{} for {}", answer.status, String::from_utf8_lossy(&target)));
                    }
                }
                if answer.header("connection") == Some("close") {
                    client = server.client();
                }
            }
        }
        assert!(asked > 3000, "{asked}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// `default_denials = false` lifts them, and a reload changes that. Hidden files and source stay.
#[test]
fn default_denials_can_be_lifted() {
    let server =
        site(false).file(".env", SECRET).file("a.php.bak", SECRET).application("default_denials = true").start();
    assert_eq!(server.get("/data/db.sqlite").status, 403);
    server.reconfigure("default_denials = true", "default_denials = false");
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    for path in ["/data/db.sqlite", "/composer.json", "/vendor/a/README"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, SECRET), "{path}");
    }
    for path in ["/.env", "/a.php.bak"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}
