//! Frameworks with their bridges: the connections that the warm-up has used, each worker opens once. Pages are those without that.

use tests::bridged::{self, HOST, LARAVEL_WARM, RUNTIME, SYMFONY_WARM, build_bridged_on, build_wordpress};
use tests::peer::Database;
use tests::server::free_port;
use tests::{Response, Server, Setup, amount, wait_until};

/// Sessions of the database's user, by their numbers.
fn sessions(database: &Database) -> Vec<String> {
    let all = database.rows("", "select id from information_schema.processlist where user = 'app' order by id");
    all.lines().map(str::to_owned).collect()
}

/// A page without what is drawn anew for each response.
fn text(response: &Response) -> String {
    let text = response.text();
    match text.split_once("name=\"csrf-token\" content=\"") {
        Some((before, rest)) => format!("{before}{}", rest.get(40..).unwrap_or_default()),
        None => text,
    }
}

/// With one worker that keeps its connection, pages are those of one that does not; all are made by one session of the database.
fn keeps(database: &Database, setup: impl Fn() -> Setup, paths: &[&str]) {
    let server = |kept: usize| -> Server {
        setup().application("workers = 1").application(&format!("kept_connections = {kept}")).start()
    };
    let (kept, own) = (server(1), server(0));
    let pages = |server: &Server| -> Vec<String> {
        paths.iter().map(|path| text(&server.client().request("GET", path, &[("Host", HOST)], b""))).collect()
    };
    let expected = pages(&own);
    let is_found = |path: &&str| own.client().request("GET", path, &[("Host", HOST)], b"").status == 200;
    assert!(paths.iter().all(is_found), "{}", own.log());
    // The first requests teach the snapshot their regular expressions, and workers end for that.
    (0..amount(8, 20)).for_each(|_| assert_eq!(pages(&kept), expected, "{}", kept.log()));
    // A page that is made by chance, as when Laravel looks for old sessions, teaches it more later.
    let is_by_one_session = || {
        wait_until("requests' own sessions have ended", 10, || sessions(database).len() == 1);
        let before = sessions(database);
        (0..5).for_each(|_| assert_eq!(pages(&kept), expected, "{}", kept.log()));
        sessions(database) == before
    };
    assert!((0..3).any(|_| is_by_one_session()), "{}\n{}", kept.status(&[]), kept.log());
    assert!(!kept.log().contains("is not kept"), "{}", kept.log());
}

/// WordPress' own class for its database.
#[test]
fn wordpress_keeps_its_connection() {
    let (database, _place, application) = build_wordpress();
    let root = application.join("htdocs");
    let setup = || {
        Setup::root(&root)
            .application("mode.\"index.php\" = \"snapshot\"")
            .application("warmup = [\"/\", \"/post-42/\"]")
    };
    keeps(&database, setup, &["/", "/post-42/", "/?s=post", "/feed/"]);
}

/// Doctrine's connections, and Laravel's.
#[test]
fn symfony_and_laravel_keep_their_connections() {
    let port = free_port();
    let tcp = ["--skip-networking=0".to_owned(), "--bind-address=127.0.0.1".to_owned(), format!("--port={port}")];
    let database = Database::start_with(&tcp.each_ref().map(String::as_str));
    let password = database.environment().into_iter().find(|(name, _)| *name == "WP_DB_PASSWORD").unwrap().1;
    let url = format!("mysql://app:{password}@127.0.0.1:{port}");
    for (name, warm) in [("symfony", SYMFONY_WARM), ("laravel", LARAVEL_WARM)].into_iter().take(amount(1, 2)) {
        let (_place, application) = build_bridged_on(&url, name);
        let setup = || {
            let setup = bridged::bridged(&application.join("public"), "snapshot", warm).env("BLOG_URL", &url);
            if name == "symfony" { setup.env("APP_RUNTIME", RUNTIME) } else { setup }
        };
        keeps(&database, setup, &["/", "/post/5", "/api/posts"]);
    }
}
