//! The Composer package: with a bridge, in worker mode and from a snapshot, an application's pages are those it has in
//! classic mode without the package, for two visitors who take turns, and nothing of one is seen by the other.

mod address;
mod changes;
mod front_controller;
mod hosts;
mod pair;
mod reload;
mod scripts;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pair::{Drawn, Pair, plain};
use tests::bridged::{
    self, HOST, LARAVEL_LINES, LARAVEL_WARM, RUNTIME, SLIM, SLIM_WARM, SYMFONY_WARM, build, build_bridged, change, php,
    require_package, served_in,
};
use tests::client::multipart;
use tests::compare::between;
use tests::peer::php_version;
use tests::server::project;
use tests::{Server, Setup, amount, wait_until};

/// The visitors' marks. Neither is part of the other or of any page.
const ANNA: &str = "annax7391";
const BERT: &str = "bertq2846";

const FORM: [(&str, &str); 1] = [("Content-Type", "application/x-www-form-urlencoded")];

/// The application with its bridge, in `mode`, audited.
fn bridged(root: &Path, mode: &str, warm_up: &str) -> Setup {
    let setup = bridged::bridged(root, mode, warm_up);
    if mode == "snapshot" { setup.flag("--audit") } else { setup }
}

/// Slim's pages through the bridge, in every mode, are those without it, and two visitors stay apart.
#[test]
fn slim_with_its_bridge_answers_as_without() {
    let (_place, application) = build_bridged("slim");
    let root = application.join("public");
    for mode in ["snapshot", "worker", "classic"] {
        let mut pair = Pair::start(bridged(&root, mode, SLIM_WARM), plain(&root), &[]);
        let mut visitors = [(pair.visitor(ANNA), ANNA, BERT), (pair.visitor(BERT), BERT, ANNA)];
        for round in 0..amount(2, 12) {
            for (who, mark, other) in &mut visitors {
                for path in ["/", "/post/5", "/api/posts", "/hello", "/section3/x/y", "/error", "/post/999", "/nowhere"]
                {
                    pair.same(who, other, path, |visitor| visitor.get(path));
                }
                let own = format!("/hello/{mark}{round}");
                pair.same(who, other, &own, |visitor| visitor.get(&own));
                let body = format!("a={mark}&b%5B%5D={round}");
                let echo = pair.same(who, other, "POST /echo", |visitor| {
                    visitor.request("POST", &format!("/echo?q={mark}"), &FORM, body.as_bytes())
                });
                assert!(echo.text().contains(&format!("\"parsed\":{{\"a\":\"{mark}\"")), "{}", echo.text());
                pair.same(who, other, "HEAD /", |visitor| visitor.request("HEAD", "/", &[], b""));
                pair.same(who, other, "DELETE /hello", |visitor| visitor.request("DELETE", "/hello", &[], b""));
            }
        }
        if mode != "classic" {
            served_in(&pair.bridged, mode);
        }
        println!("slim, {mode}: {} answers are the same", pair.compared);
    }
}

/// A PSR-15 handler, with nothing of a framework but the messages.
const HANDLER: &str = r#"<?php
namespace Psr\Http\Server {
    interface RequestHandlerInterface { public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface; }
}
namespace {
    require __DIR__ . '/../vendor/autoload.php';
    $handler = new class implements Psr\Http\Server\RequestHandlerInterface {
        public array $seen = [];
        public function handle(Psr\Http\Message\ServerRequestInterface $request): Psr\Http\Message\ResponseInterface
        {
            $this->seen[] = $request->getMethod() . ' ' . $request->getUri()->getPath() . ' ' . $request->getHeaderLine('X-Warm') . ' ' . ($request->getCookieParams()['mark'] ?? '');
            $response = (new Slim\Psr7\Response(201))->withHeader('X-Two', ['a', 'b'])->withAddedHeader('Set-Cookie', 'a=1')->withAddedHeader('Set-Cookie', 'b=2');
            $response->getBody()->write(json_encode(['seen' => $this->seen, 'hooks' => $GLOBALS['hooks'], 'server' => array_intersect_key($_SERVER, ['REPRISE_BOOT' => 1, 'HTTP_X_WARM' => 1]), 'get' => $_GET, 'mode' => reprise_info()['mode']]));
            return $response;
        }
    };
    $hooks = [];
    Reprise\beforeSnapshot(function () { $GLOBALS['hooks'][] = 'before'; });
    Reprise\afterRestore(function () { $GLOBALS['hooks'][] = 'after ' . $_SERVER['REQUEST_URI']; });
    Reprise\Psr\run($handler, [Slim\Psr7\Factory\ServerRequestFactory::class, 'createFromGlobals']);
}
"#;

/// A PSR-15 handler has its warm-up requests behind it, and its hooks run around the snapshot.
#[test]
fn a_psr_15_handler_is_warm_and_its_hooks_run() {
    let (_place, application) = build("slim");
    require_package(&application);
    let root = application.join("public");
    change(&root, |_| HANDLER.to_owned());
    for (mode, hooks) in [("snapshot", r#"["before","after \/one?a=1"]"#), ("worker", "[]"), ("classic", "[]")] {
        let listed = r#"warmup = [{ path = "/w1?x=2", headers = { X-Warm = "yes" } }]"#;
        let server = bridged(&root, mode, "/w2").application("workers = 1").application(listed).start();
        let answer = server.get("/one?a=1");
        // The boot's own, and what the server asks for when it has booted, which only a worker remembers.
        let warm = match mode {
            "classic" => "",
            "worker" => r#""GET \/w1 yes ","GET \/w2  ","GET \/w1 yes ","#,
            _ => r#""GET \/w1 yes ","GET \/w2  ","#,
        };
        let body = format!(
            r#"{{"seen":[{warm}"GET \/one  "],"hooks":{hooks},"server":[],"get":{{"a":"1"}},"mode":"{mode}"}}"#
        );
        assert_eq!((answer.status, answer.text()), (201, body), "{mode}");
        assert_eq!((answer.all("x-two"), answer.all("set-cookie")), (vec!["a", "b"], vec!["a=1", "b=2"]), "{mode}");
    }
}

/// Without a line in the configuration: the first request makes the call, and is answered in classic mode.
#[test]
fn the_server_finds_what_calls_through_the_package() {
    let (_place, application) = build("slim");
    require_package(&application);
    let root = application.join("public");
    change(&root, |_| HANDLER.to_owned());
    for mode in ["snapshot", "worker"] {
        let server = Setup::root(&root).env("REPRISE_MODE", mode).start();
        assert!(server.get("/").text().contains("\"mode\":\"classic\""));
        let found = format!("\"mode\":\"{mode}\"");
        wait_until("the script is booted", 30, || server.get("/").text().contains(&found));
    }
}

/// What the tests above have added to the applications is what the page tells to add.
#[test]
fn the_documentation_has_these_lines() {
    let page = fs::read_to_string(project().join("docs/guides/frameworks.md")).unwrap();
    let runtime = format!("env.APP_RUNTIME = '{}'", RUNTIME.replace(r"\\", r"\"));
    for lines in [SLIM, LARAVEL_LINES, &runtime] {
        assert!(page.contains(lines), "{lines}");
    }
}

/// The token of the login form, and the session's id where a page shows its cookies.
const SYMFONY: [Drawn; 3] = [
    Drawn { before: "name=\"_csrf_token\" value=\"", after: "\"" },
    Drawn { before: "\"PHPSESSID\":\"", after: "\"" },
    Drawn { before: "PHPSESSID=", after: "\"" },
];

/// Symfony's pages through the runtime, in every mode, are those without it, and two visitors stay apart.
#[test]
fn symfony_with_its_runtime_answers_as_without() {
    let (_place, application) = build_bridged("symfony");
    let root = application.join("public");
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        let setup = bridged(&root, mode, SYMFONY_WARM).env("APP_RUNTIME", RUNTIME);
        symfony(Pair::start(setup, plain(&root), &SYMFONY), mode);
    }
}

/// The runtime, under the other isolation, beside a front controller that was booted and warmed by hand.
#[test]
fn symfony_s_runtime_answers_as_a_snapshot_by_hand() {
    let (_place, application) = build_bridged("symfony");
    let root = application.join("public");
    let setup = bridged(&root, "snapshot", SYMFONY_WARM).env("APP_RUNTIME", RUNTIME);
    let setup = setup.application("isolation = \"fork\"");
    let by_hand = Setup::root(&root)
        .application("front_controller = \"snapshot.php\"")
        .application("mode.\"snapshot.php\" = \"snapshot\"");
    symfony(Pair::start(setup, by_hand, &SYMFONY), "snapshot");
}

/// All kinds of pages, logged in as two users in turn.
fn symfony(mut pair: Pair, mode: &str) {
    let served = |server: &Server| -> u32 {
        server.get("/hello").header("x-served-by-process").and_then(|count| count.parse().ok()).expect("a number")
    };
    if mode == "snapshot" {
        let first = served(&pair.bridged);
        assert!(first > 8 && served(&pair.bridged) == first, "behind the same warm-up, each time: {first}");
    }
    for round in 0..amount(1, 4) {
        let mut visitors =
            [(pair.visitor(ANNA), ANNA, BERT, "editor", "admin"), (pair.visitor(BERT), BERT, ANNA, "admin", "editor")];
        let pages =
            ["/", "/post/5", "/api/posts", "/hello", "/stream", "/cookie", "/error/500", "/error/404", "/login"];
        for path in pages {
            for (who, _, other, ..) in &mut visitors {
                pair.same(who, other, path, |visitor| visitor.get(path));
            }
        }
        for (who, mark, other, ..) in &mut visitors {
            let closed = pair.same(who, other, "/admin without a login", |visitor| visitor.get("/admin"));
            assert_eq!(closed.header("location"), Some("http://blog.test:8080/login"));
            let own = format!("/nowhere/{mark}{round}");
            assert_eq!(pair.same(who, other, &own, |visitor| visitor.get(&own)).status, 404);
        }
        for password in ["wrong", ""] {
            for (who, _, other, name, foreign) in &mut visitors {
                let password = if password.is_empty() { *name } else { password };
                let answer = pair.same(who, other, "a login", |visitor| {
                    let page = visitor.get("/login").text();
                    let token = between(&page, SYMFONY[0].before, "\"");
                    visitor.post_form("/login", &[("_username", name), ("_password", password), ("_csrf_token", token)])
                });
                assert_eq!(answer.status, 302);
                let next = if password == *name { "/admin" } else { "/login" };
                assert!(answer.header("location").is_some_and(|place| place.ends_with(next)), "{:?}", answer.headers);
                let page = pair.same(who, other, next, |visitor| visitor.get(next)).text();
                assert!(page.contains(*name) && !page.contains(&format!("Admin {foreign}")), "{page}");
            }
        }
        for visit in 1..=3 {
            for (who, mark, other, name, _) in &mut visitors {
                let page = pair.same(who, other, "/session", |visitor| visitor.get("/session"));
                assert_eq!(page.text(), format!("visits {visit}"));
                let admin = pair.same(who, other, "/admin", |visitor| visitor.get("/admin"));
                assert!(admin.text().contains(&format!("Admin {name}")), "{}", admin.text());
                let body = format!("own={mark}");
                let echo = pair.same(who, other, "POST /api/echo", |visitor| {
                    visitor.request("POST", &format!("/api/echo?q={mark}"), &FORM, body.as_bytes())
                });
                assert!(echo.text().contains(&format!("\"post\":{{\"own\":\"{mark}\"}}")), "{}", echo.text());
                let (kind, upload) = multipart(&[("title", mark)], &[("file", mark, "text/plain", &[b'x'; 20_000])]);
                let echo = pair.same(who, other, "upload to /api/echo", |visitor| {
                    visitor.request("POST", "/api/echo", &[("Content-Type", &kind)], &upload)
                });
                assert!(echo.text().contains(&format!("[\"{mark}\",20000]")), "{}", echo.text());
                for path in ["/main", "/exit"] {
                    pair.same(who, other, path, |visitor| visitor.get(path));
                }
            }
        }
        for (who, _, other, ..) in &mut visitors {
            pair.same(who, other, "/logout", |visitor| visitor.get("/logout"));
            assert_eq!(pair.same(who, other, "/admin after it", |visitor| visitor.get("/admin")).status, 302);
        }
    }
    if mode != "classic" {
        served_in(&pair.bridged, mode);
        assert!(!pair.bridged.log().contains("recycled"), "the kernel is booted anew: {}", pair.bridged.log());
    }
    println!("symfony, {mode}: {} answers are the same", pair.compared);
}

/// What a visitor's session and cookies are, where a page shows them.
const LARAVEL: [Drawn; 3] = [
    Drawn { before: "<input type=\"hidden\" name=\"_token\" value=\"", after: "\"" },
    Drawn { before: "<meta name=\"csrf-token\" content=\"", after: "\"" },
    Drawn { before: "XSRF-TOKEN=", after: "\"" },
];
/// Laravel's pages through the bridge, in every mode, are those without it, with and without cached routes and
/// configuration.
#[test]
fn laravel_with_its_bridge_answers_as_without() {
    let (_place, application) = build_bridged("laravel");
    let root = application.join("public");
    for (mode, rounds) in [("snapshot", 2), ("worker", 2), ("classic", amount(1, 2))] {
        laravel(&root, mode, rounds);
    }
    // Routes and configuration that are not from the cache: routes keep their controllers.
    for name in ["routes-v7.php", "config.php"] {
        fs::remove_file(application.join("bootstrap/cache").join(name)).unwrap();
    }
    for mode in ["snapshot", "worker"] {
        laravel(&root, mode, amount(1, 2));
    }
}

/// All kinds of pages, logged in as two users in turn.
fn laravel(root: &Path, mode: &str, rounds: usize) {
    let mut pair = Pair::start(bridged(root, mode, LARAVEL_WARM), plain(root), &LARAVEL);
    for round in 0..rounds {
        let mut visitors =
            [(pair.visitor(ANNA), ANNA, BERT, "Editor", "Admin"), (pair.visitor(BERT), BERT, ANNA, "Admin", "Editor")];
        let pages =
            ["/", "/post/5", "/api/posts", "/hello", "/post/999", "/api/posts/999", "/?page=2", "/error", "/login"];
        for path in pages {
            for (who, _, other, ..) in &mut visitors {
                pair.same(who, other, path, |visitor| visitor.get(path));
            }
        }
        for (who, _, other, ..) in &mut visitors {
            let closed = pair.same(who, other, "/account without a login", |visitor| visitor.get("/account"));
            assert_eq!(closed.header("location"), Some("http://blog.test:8080/login"));
            let refused = pair.same(who, other, "POST without a token", |visitor| {
                visitor.post_form("/account/login", &[("name", "a")])
            });
            assert_eq!(refused.status, 419);
        }
        for right in [false, true] {
            for (who, mark, other, name, foreign) in &mut visitors {
                let (name, password) = if right { (*name, name.to_lowercase()) } else { (*mark, "wrong".to_owned()) };
                let answer = pair.same(who, other, "a login", |visitor| {
                    let page = visitor.get("/account/login").text();
                    let token = between(&page, LARAVEL[0].before, "\"");
                    visitor.post_form("/account/login", &[("name", name), ("password", &password), ("_token", token)])
                });
                assert_eq!(answer.status, 302);
                let next = if right { "/account" } else { "/account/login" };
                assert!(answer.header("location").is_some_and(|place| place.ends_with(next)), "{:?}", answer.headers);
                let page = pair.same(who, other, next, |visitor| visitor.get(next)).text();
                let seen = if right { format!("welcome {name}") } else { format!("no user {name} with") };
                assert!(page.contains(&seen) && !page.contains(&format!(" {foreign} ")), "{page}");
            }
        }
        for visit in 1..=3 {
            for (who, mark, other, name, foreign) in &mut visitors {
                let page = pair.same(who, other, "/session", |visitor| visitor.get("/session"));
                assert_eq!(page.text(), format!("visits {visit}"));
                let path = format!("/account?asked={mark}{round}");
                let page = pair.same(who, other, &path, |visitor| visitor.get(&path)).text();
                let account = format!("Account of {name},  asked {mark}{round}: , nothing shared");
                assert!(page.contains(&account) && !page.contains(*foreign), "{page}");
                for path in [
                    format!("/search?q={mark}"),
                    format!("/nowhere/{mark}"),
                    format!("/changed/{mark}"),
                    format!("/exit/{mark}"),
                    "/account/login".to_owned(),
                ] {
                    pair.same(who, other, &path, |visitor| visitor.get(&path));
                }
                let (body, path) = (format!("name={mark}&empty="), format!("/echo?q={mark}"));
                let echo = pair
                    .same(who, other, "POST /echo", |visitor| visitor.request("POST", &path, &FORM, body.as_bytes()));
                assert!(echo.text().contains(&format!("\"name\":\"{mark}\"")), "{}", echo.text());
                pair.same(who, other, "HEAD /", |visitor| visitor.request("HEAD", "/", &[], b""));
            }
        }
        for (who, _, other, ..) in &mut visitors {
            let bye = pair.same(who, other, "a logout", |visitor| {
                let page = visitor.get("/account").text();
                let token = between(&page, LARAVEL[0].before, "\"").to_owned();
                visitor.post_form("/account/logout", &[("_token", &token)])
            });
            assert_eq!(bye.status, 302);
            assert_eq!(pair.same(who, other, "/account after it", |visitor| visitor.get("/account")).status, 302);
        }
    }
    if mode != "classic" {
        served_in(&pair.bridged, mode);
    }
    println!("laravel, {mode}: {} answers are the same", pair.compared);
}

/// What WordPress has made of the request, at the end of each page.
const SHOW: &str = r#"<?php
add_action('wp_footer', function () {
    global $is_chrome, $is_iphone, $PHP_SELF, $pagenow;
    echo '<!-- ', json_encode([$is_chrome, $is_iphone, $PHP_SELF, $pagenow, $_GET, $_POST, array_diff_key($_COOKIE, ['x' => 1]), $_REQUEST, $_SERVER['REQUEST_URI'], $_SERVER['HTTP_X_QUOTE'] ?? null, isset($_SERVER['REPRISE_BOOT']),
        wp_get_current_user()->user_login, current_user_can('edit_posts'), has_filter('content_save_pre', 'wp_filter_post_kses'), get_option('blogname'), $GLOBALS['loaded'] ?? null]), ' --><!-- nonce ', wp_create_nonce('wp_rest'), ' -->';
});
add_action('wp_loaded', function () { $GLOBALS['loaded'] = $_GET['loaded'] ?? 'without'; });
"#;

/// WordPress' pages with the plugin are those without it, for two editors and two themes.
#[test]
fn wordpress_with_the_plugin_answers_as_without() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/show.php"), SHOW).unwrap();
    let hash = bridged::add_authors([ANNA, BERT], &application);
    let [first, second] = themes();
    for (theme, rounds) in [(first, 2), (second, amount(1, 2))] {
        php(&format!("$argv[1] = '{theme}'; require 'theme.php';"), &application);
        wordpress(&root, &hash, theme, rounds);
    }
}

/// Themes that WordPress has: a block theme and a classic one, or two block themes where there is no classic one any more.
fn themes() -> [&'static str; 2] {
    if php_version() == "8.2" {
        ["twentytwentythree", "twentytwentyone"]
    } else {
        ["twentytwentyfive", "twentytwentyfour"]
    }
}

/// What the boot has made something of is changed in the admin's part, which runs in classic mode.
#[test]
fn wordpress_boots_anew_after_a_change() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let change = "<?php require 'wp-load.php'; require_once ABSPATH . 'wp-admin/includes/plugin.php'; fastcgi_finish_request();
        match ($_GET['do']) { 'theme' => switch_theme($_GET['what']), 'on' => activate_plugin($_GET['what']), 'off' => deactivate_plugins($_GET['what']),
            'update' => file_put_contents(WP_PLUGIN_DIR . '/' . $_GET['what'], str_replace('one', 'two', file_get_contents(WP_PLUGIN_DIR . '/' . $_GET['what']))) && do_action('upgrader_process_complete', null, ['action' => 'update', 'type' => 'plugin']) };";
    let plugin =
        "<?php\n/* Plugin Name: Shown */\nadd_action('wp_footer', function () { echo '<!-- plugin one -->'; });\n";
    fs::create_dir_all(root.join("wp-content/plugins")).unwrap();
    fs::write(root.join("wp-content/plugins/shown.php"), plugin).unwrap();
    fs::set_permissions(root.join("wp-content/plugins/shown.php"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::write(root.join("change.php"), change).unwrap();
    let mode = "<?php add_action('wp_footer', function () { echo '<!-- ', reprise_info()['mode'], ' -->'; });";
    fs::write(root.join("wp-content/mu-plugins/mode.php"), mode).unwrap();
    let [first, second] = themes();
    php(&format!("$argv[1] = '{first}'; require 'theme.php';"), &application);
    let server = Setup::root(&root)
        .application(
            "mode.\"index.php\" = \"snapshot\"\nwarmup = [{ path = \"/\", headers = { Host = \"blog.test:8080\" } }]",
        )
        .start();
    let in_theme = format!("themes/{second}/");
    let changes: [(&str, &str, &str, bool); 4] = [
        ("theme", second, &in_theme, true),
        ("on", "shown.php", "<!-- plugin one -->", true),
        ("update", "shown.php", "<!-- plugin two -->", true),
        ("off", "shown.php", "<!-- plugin ", false),
    ];
    for ((what, name, words, comes), generation) in changes.into_iter().zip(2..) {
        let page = || server.client().request("GET", "/", &[("Host", HOST)], b"").text();
        let before = page();
        assert!(before.contains("<!-- snapshot -->") && before.contains(words) != comes, "{what}: {before}");
        let path = format!("/change.php?do={what}&what={name}");
        let answer = server.client().request("GET", &path, &[("Host", HOST)], b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        // A page of WordPress is dear: it is asked for when there is something to see.
        let booted = format!("reloaded: app generation {generation}");
        wait_until("a boot", 30, || server.log().contains(&booted));
        wait_until("a snapshot with the change", 30, || {
            let text = page();
            text.contains("<!-- snapshot -->") && text.contains(words) == comes
        });
    }
}

/// Pages of the front, by authors and readers in turn.
fn wordpress(root: &Path, hash: &str, theme: &str, rounds: usize) {
    let mode = |mode: &str| Setup::root(root).application(&format!("mode.\"index.php\" = \"{mode}\""));
    let warm = mode("snapshot").application("env.REPRISE_WARMUP = \"/ /post-5/ /page-1/ /feed/\"");
    let mut pair = Pair::start(warm.flag("--audit"), mode("classic"), &[]);
    let mut authors = [(pair.visitor(ANNA), ANNA, BERT), (pair.visitor(BERT), BERT, ANNA)];
    for (who, mark, _) in &mut authors {
        let [ours, theirs] = who;
        ours.get("/wp-login.php");
        let form = [("log", *mark), ("pwd", &format!("{mark} pw")), ("testcookie", "1")];
        let welcome = ours.post_form("/wp-login.php", &form);
        assert_eq!(welcome.status, 302, "{}", welcome.text());
        // One session in both servers, so that nonces are the same.
        theirs.cookies = ours.cookies.clone();
    }
    let mut readers = [(pair.visitor(ANNA), ANNA, BERT), (pair.visitor(BERT), BERT, ANNA)];
    for (who, mark, _) in &mut readers {
        for visitor in who {
            visitor.cookies.insert(format!("comment_author_{hash}"), format!("{mark}%20O%27Hara"));
        }
    }
    let pages =
        ["/", "/post-5/", "/page-1/", "/feed/", "/wp-json/wp/v2/posts?per_page=3", "/nowhere/", "/post-5", "/?p=5"];
    for round in 0..rounds {
        for path in pages {
            for (who, mark, other) in authors.iter_mut().chain(&mut readers) {
                let path = if path.contains('?') { path.to_owned() } else { format!("{path}?loaded={mark}{round}%27") };
                pair.same(who, other, &path, |visitor| visitor.get(&path));
            }
        }
        for (who, mark, other) in authors.iter_mut().chain(&mut readers) {
            let search = format!("/?s=lorem&mine={mark}%22%27");
            let agent = ["Mozilla/5.0 Chrome/1", "Mozilla/5.0 Mobile Safari/1"][round];
            let page = pair.same(who, other, &search, |visitor| {
                visitor.request("GET", &search, &[("User-Agent", agent), ("X-Quote", "it's")], b"")
            });
            assert!(page.text().contains(&format!("\"mine\":\"{mark}\\\\\\\"\\\\'\"")), "{}", page.text());
            let body = format!("field={mark}%27");
            pair.same(who, other, "POST /", |visitor| visitor.request("POST", "/", &FORM, body.as_bytes()));
            pair.same(who, other, "who am I", |visitor| visitor.get("/wp-json/wp/v2/users/me"));
        }
        for (who, mark, other) in &mut authors {
            let page = pair.same(who, other, "the admin bar", |visitor| visitor.get("/post-6/")).text();
            let nonce = between(&page, "<!-- nonce ", " -->");
            let text = format!(r#"{{"title":"A draft","content":"{mark} writes","status":"draft"}}"#);
            let mut send = |nonce| {
                let headers = [("Content-Type", "application/json"), ("X-WP-Nonce", nonce)];
                who[0].request("POST", "/wp-json/wp/v2/posts", &headers, text.as_bytes())
            };
            assert_eq!(send("0123456789").status, 403, "a wrong nonce");
            let stored = send(nonce);
            assert_eq!(stored.status, 201, "{}", stored.text());
            let draft = format!("/wp-json/wp/v2/posts/{}?context=edit", between(&stored.text(), "\"id\":", ","));
            let seen = pair
                .same(who, other, "a draft", |visitor| visitor.request("GET", &draft, &[("X-WP-Nonce", nonce)], b""));
            assert!(seen.status == 200 && seen.text().contains(*mark), "{}", seen.text());
            assert!(page.contains("wp-admin-bar-my-account") && page.contains(&format!("\"{mark}\",true")), "{page}");
        }
        for (who, mark, other) in &mut readers {
            let page = pair.same(who, other, "the comment form", |visitor| visitor.get("/post-6/")).text();
            assert!(page.contains(&format!("value=\"{mark} O&#039;Hara\"")), "{page}");
        }
    }
    served_in(&pair.bridged, "snapshot");
    let log = pair.bridged.log();
    assert!(!log.contains("rendered before the snapshot"), "{log}");
    println!("wordpress, {theme}: {} answers are the same", pair.compared);
}
