//! `verify_on_reload`: pages are compared with classic mode before visitors come, and what differs stays in classic mode.

use std::fs;

use nix::sys::signal::Signal;
use tests::bridged::{self, HOST};
use tests::server::program;
use tests::{Client, Server, Setup, process, wait_for, wait_until};

/// Renders a page in its boot. A plugin with function statics keeps what the first page had, and the name of the first user.
const SHOP: &str = r#"<?php
function title(string $path): string { static $kept = null; return $kept ??= $path; }
function welcome(): string { static $kept = null; return $kept ??= $_COOKIE['user'] ?? 'guest'; }
function page(string $path): void
{
    if (isset($_GET['mode'])) { echo reprise_info()['mode']; return; }
    echo '<p>', bin2hex(random_bytes(4)), "</p>\n";
    switch ($path) {
        case '/alike': echo 'alike for ', $_COOKIE['user'] ?? 'guest', ', ', $_SERVER['HTTP_X_SITE'] ?? 'no site'; break;
        case '/title': echo 'title of ', title($path); break;
        case '/users': echo 'welcome ', welcome(); break;
        case '/slow': if (($_SERVER['HTTP_USER_AGENT'] ?? '') !== 'reprise-warmup') { while (is_file(__DIR__ . '/gate')) { usleep(10000); clearstatcache(); } } echo 'slow'; break;
        case '/broken': if (reprise_info()['mode'] === 'classic') { http_response_code(500); } echo 'broken'; break;
        case '/login':
            if ($_SERVER['REQUEST_METHOD'] === 'POST') {
                $is_right = ($_POST['token'] ?? '') === 'a "token"' && ($_POST['password'] ?? '') === 'se cret';
                if (!$is_right) { http_response_code(403); echo 'no'; break; }
                setcookie('user', $_POST['name']);
                header('Location: /', true, 302);
                break;
            }
            echo '<form><input name=name><input type="hidden" name="token" value="a &quot;token&quot;"></form>';
    }
}
if (isset($_SERVER['REPRISE_BOOT'])) { title('/booted'); welcome(); }
reprise_snapshot();
page(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
"#;

const USERS: &str = r#"verify_users = ["POST /login name=anna&password=se+cret", "$VERIFY_OTTO"]"#;

fn shop(pages: &str) -> Setup {
    Setup::empty()
        .file("index.php", SHOP)
        .application(&format!("warmup = [{pages}]\nverify_on_reload = true"))
        .command(["env".into(), "VERIFY_OTTO=POST /login name=otto&password=se+cret".into(), program()])
}

fn mode(server: &Server, path: &str) -> String {
    server.get(&format!("{path}?mode")).text()
}

/// The child that compares.
fn comparing(server: &Server) -> Option<i32> {
    server.processes().into_iter().find(|pid| process::name(*pid).as_deref() == Some("reprise-verify"))
}

/// Waits until the child that compared before the server was ready is gone: it tells its verdict, and then it ends.
fn wait_until_none_compares(server: &Server) {
    wait_until("no comparison", 30, || comparing(server).is_none());
}

fn verdicts(server: &Server) -> usize {
    server.log().matches("pages are as in classic mode").count()
}

/// A page that differs for guests stays in classic mode from the start, and says what differs; others have the snapshot. A reload compares anew.
#[test]
fn what_differs_stays_in_classic_mode() {
    let server =
        shop(r#""/alike", "/title", "/users", { path = "/alike?x", headers = { Cookie = "user=me" } }"#).start();
    let log = server.log();
    assert!(log.contains("'app': /title stays in classic mode: "), "{log}");
    assert!(log.contains("in classic mode 'title of /title'") || log.contains("/title'"), "{log}");
    assert!(log.contains("2 of 3 pages are as in classic mode, for guests"), "{log}");
    // The verdict came before the server was ready.
    assert!(log.find("2 of 3 pages") < log.find("ready after"), "{log}");
    for (path, expected) in
        [("/alike", "snapshot"), ("/title", "classic"), ("/users", "snapshot"), ("/title/x", "snapshot")]
    {
        assert_eq!(mode(&server, path), expected, "{path}");
    }
    assert!(server.get("/title").text().ends_with("title of /title"));
    // The plugin is mended, and another is not.
    let mended = SHOP
        .replace("return $kept ??= $path", "return $path")
        .replace("echo 'alike for '", "echo welcome(), title($path), ' for '");
    fs::write(server.directory().join("app/public/index.php"), &mended).unwrap();
    let mended = server.reload();
    assert!(mended.0, "{}", mended.1);
    assert_eq!(verdicts(&server), 2, "{}", server.log());
    for path in ["/alike", "/title", "/users"] {
        assert_eq!(mode(&server, path), "snapshot", "{path}: {}", server.log());
    }
    assert!(!server.access_log().contains("reprise-mode") && !server.access_log().contains("/login"));
}

/// What only those who have logged in see is compared as two users, who log in by a form with a hidden token.
#[test]
fn two_users_are_compared_too() {
    let pages = r#""/alike", { path = "/users", headers = { X-Site = "shop" } }"#;
    let server = shop(pages).application(USERS).start();
    let log = server.log();
    assert!(
        log.contains("'app': /users stays in classic mode: ") && log.contains("(as a user who has logged in)"),
        "{log}"
    );
    assert!(log.contains("1 of 2 pages are as in classic mode, for guests and two users"), "{log}");
    assert!(!log.contains("se+cret") && !log.contains("se cret"), "{log}");
    assert_eq!((mode(&server, "/alike"), mode(&server, "/users")), ("snapshot".into(), "classic".into()));
    let anna = [("cookie", "user=anna")];
    let mut client = server.client();
    assert!(client.request("GET", "/users", &anna, b"").text().ends_with("welcome anna"));
}

/// A page that cannot be compared stays in classic mode: the login is refused, a page fails in one mode alone.
#[test]
fn what_cannot_be_compared_stays_in_classic_mode() {
    let users = USERS.replace("anna&password=se+cret", "anna&password=wrong");
    let server = shop(r#""/alike", "/users""#).application(&users).start();
    let log = server.log();
    for path in ["/alike", "/users"] {
        let words = format!(
            "'app': {path} stays in classic mode: the comparison with classic mode has failed: POST /login: the answer is 403"
        );
        assert!(log.contains(&words), "{words}: {log}");
        assert_eq!(mode(&server, path), "classic");
    }
    assert!(log.contains("0 of 2 pages"), "{log}");
    let server = shop(r#""/alike", "/broken""#).start();
    assert!(server.log().contains("'app': /broken stays in classic mode: "), "{}", server.log());
    assert_eq!((mode(&server, "/alike"), mode(&server, "/broken")), ("snapshot".into(), "classic".into()));
}

/// The front is killed before, while and after pages are compared: each front knows what stays in classic mode.
#[test]
fn a_front_that_dies_meanwhile_begins_the_comparison_again() {
    let mut server = shop(r#""/title", "/slow", "/alike""#).start();
    let gate = server.directory().join("app/public/gate");
    let kill_front = |server: &Server| {
        let front = server.front().unwrap();
        process::kill(front, Signal::SIGKILL);
        wait_until("another front", 30, || server.front().is_some_and(|pid| pid != front));
    };
    kill_front(&server);
    assert_eq!((mode(&server, "/title"), mode(&server, "/alike")), ("classic".into(), "snapshot".into()));
    wait_until_none_compares(&server);
    // The comparison waits at the gate; the warm-up does not.
    fs::write(&gate, "").unwrap();
    let reloading = std::thread::scope(|scope| {
        let reloading = scope.spawn(|| server.reload());
        let child = wait_for("the comparison", 30, || comparing(&server));
        kill_front(&server);
        wait_until("another comparison", 30, || comparing(&server).is_some_and(|pid| pid != child));
        fs::remove_file(&gate).unwrap();
        reloading.join().unwrap()
    });
    assert!(reloading.0, "{}", reloading.1);
    assert_eq!((mode(&server, "/title"), mode(&server, "/alike")), ("classic".into(), "snapshot".into()));
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(30), 0);
}

/// The child that compares is killed: nothing is known of the pages, and they stay in classic mode.
#[test]
fn a_comparison_that_is_killed_leaves_pages_in_classic_mode() {
    let server = shop(r#""/slow", "/alike""#).start();
    assert_eq!(mode(&server, "/alike"), "snapshot");
    wait_until_none_compares(&server);
    let gate = server.directory().join("app/public/gate");
    fs::write(&gate, "").unwrap();
    let reloading = std::thread::scope(|scope| {
        let reloading = scope.spawn(|| server.reload());
        let child = wait_for("the comparison", 30, || comparing(&server));
        process::kill(child, Signal::SIGKILL);
        wait_until("its end", 30, || !process::is_alive(child));
        fs::remove_file(&gate).unwrap();
        reloading.join().unwrap()
    });
    assert!(reloading.0, "{}", reloading.1);
    assert!(
        server.log().contains("/alike stays in classic mode: the comparison with classic mode has failed"),
        "{}",
        server.log()
    );
    assert_eq!(mode(&server, "/alike"), "classic");
    assert_eq!(Client::new(server.port).get("/alike").status, 200);
}

/// Impossible users are refused, and no password is shown.
#[test]
fn users_that_make_no_sense_are_refused_in_words() {
    for (users, words) in [
        (r#"["POST /login name=a&password=hush"]"#, "names two users, not 1"),
        (r#"["POST /login name=a&password=hush", "hush"]"#, "POST /path name=anna&password=secret"),
        (
            r#"["POST /login name=a&password=hush", "$NO_SUCH_USER"]"#,
            "$NO_SUCH_USER, which the server's environment does not have",
        ),
        (r#""POST /login name=a&password=hush""#, "verify_users"),
    ] {
        let mut server = shop(r#""/alike""#).application(&format!("verify_users = {users}")).launch();
        assert_eq!(server.wait(20), 78, "{}", server.log());
        assert!(server.log().contains("verify_users") && server.log().contains(words), "{words}: {}", server.log());
        assert!(!server.log().contains("hush"), "{}", server.log());
    }
}

/// Pages that WordPress' boot has rendered are alike for guests and two authors; one where a plugin keeps who was there at `init` is not.
#[test]
fn a_plugin_of_wordpress_that_keeps_the_user_is_found() {
    let (_database, _place, application) = bridged::build_wordpress();
    bridged::add_authors(["anna", "otto"], &application);
    let root = application.join("htdocs");
    let plugin = "<?php add_action('init', function () { $GLOBALS['who'] = wp_get_current_user()->user_login; });
        add_action('wp_footer', fn () => is_front_page() ? print('welcome ' . $GLOBALS['who']) : 0);";
    let page = |path: &str| format!("{{ path = \"{path}\", headers = {{ Host = \"{HOST}\" }} }}");
    let start = || {
        Setup::root(&root)
            .application("mode.\"index.php\" = \"snapshot\"\nverify_on_reload = true")
            .application(&format!("warmup = [{}, {}, {}]", page("/"), page("/post-5/"), page("/feed/")))
            .application("verify_users = [\"POST /wp-login.php log=anna&pwd=anna+pw\", \"POST /wp-login.php log=otto&pwd=otto+pw\"]")
            .start()
    };
    let server = start();
    assert!(server.log().contains("3 of 3 pages are as in classic mode, for guests and two users"), "{}", server.log());
    drop(server);
    fs::write(root.join("wp-content/mu-plugins/who.php"), plugin).unwrap();
    let server = start();
    let log = server.log();
    assert!(log.contains("/ stays in classic mode: ") && log.contains("(as a user who has logged in)"), "{log}");
    assert!(log.contains("2 of 3 pages are as in classic mode, for guests and two users"), "{log}");
}
