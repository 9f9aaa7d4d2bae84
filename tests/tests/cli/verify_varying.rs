//! `reprise verify`: what varies in classic mode by itself is no difference, and a leak among it is one all the same.

use std::fs;
use std::process::Output;

use tests::bridged::{self, HOST, LARAVEL_WARM, RUNTIME, SYMFONY_WARM};
use tests::{Server, Setup, wait_until};

/// Pages as applications have them: each varies from one request, session or second to the next.
const PAGES: &str = r#"
$kept = [];
$page = function () use (&$kept) {
    $draw = fn () => bin2hex(random_bytes(8));
    $do = $_GET['do'] ?? '';
    if (str_contains($do, 'token')) {
        session_start();
        $_SESSION['token'] ??= bin2hex(random_bytes(16));
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
    }
    $form = fn ($token) => "<form><input type=\"hidden\" name=\"_token\" value=\"$token\"></form>";
    switch ($do) {
        case 'token': echo $form($_SESSION['token']), '<p>visit ', $_SESSION['visits']; break;
        case 'base64-token': echo $form(base64_encode(md5($_SESSION['token'], true) . md5($_SESSION['token'] . 1, true))), 'thank you'; break;
        case 'nonce': $nonce = base64_encode(random_bytes(16)); header("Content-Security-Policy: script-src 'nonce-$nonce'"); echo "<script nonce=\"$nonce\">1</script>"; break;
        case 'times': echo date('D, d M Y H:i:s'), ' ', time(), ' ', microtime(true), ' ', intdiv(hrtime(true), 1000), ' ', date('c'), ' ', $_SERVER['REQUEST_TIME_FLOAT']; header('Expires: ' . gmdate('D, d M Y H:i:s', time() + 3600) . ' GMT'); break;
        case 'took': printf('took %.4f s, %.1f ms, %d us', $t = microtime(true) - $_SERVER['REQUEST_TIME_FLOAT'], $t * 1000, $t * 1e6); break;
        case 'memory': echo 'used ', memory_get_usage(), ' and ', number_format(memory_get_usage()), ' of ', round(memory_get_peak_usage() / 1048576, 2), ' MB, ', memory_get_peak_usage(true) >> 10, 'KB'; break;
        case 'links-token': $sid = session_name() . '=' . session_id(); echo "<a href=\"/a?$sid\">a</a> <a href=\"/b?$sid\">b</a>"; break;
        case 'first-token': echo isset($_COOKIE[session_name()]) ? 'welcome back' : '<p>please accept our cookies: <a href="?' . session_name() . '=' . session_id() . '">yes</a></p>'; break;
        case 'order': $list = ['apple', 'pear-2', 'plum', 'cherry-17', 'quince']; shuffle($list); echo '<ul><li>', implode('<li>', $list), '</ul>'; break;
        case 'dice': echo 'you threw ', random_int(1, 6), ', the coin says ', random_int(0, 1) ? 'heads' : 'tails'; break;
        case 'id': echo '<div id="', $draw(), '">', uniqid(), '</div>'; break;
        // What follows is wrong.
        case 'shared-token': echo $form($kept['token'] ??= $_SESSION['token']); break;
        case 'shared-base64-token': $kept['b'] ??= $_SESSION['token']; echo $form(base64_encode(md5($kept['b'], true) . md5($kept['b'] . 1, true))), 'thank you'; break;
        case 'others-token': $mine = $_SESSION['token']; echo $form($kept['last'] ?? $mine); $kept['last'] = $mine; break;
        case 'cookie-token': setcookie('XSRF-TOKEN', $kept['cookie'] ??= $_SESSION['token']); echo 'thank you'; break;
        case 'lost-token': echo $form(isset($kept['boot']) ? $draw() . $draw() : $_SESSION['token']); if (reprise_info()['mode'] != 'classic') $kept['boot'] = 1; break;
        case 'frozen-time': echo 'at ', $kept['time'] ??= time(); break;
        case 'frozen-microtime': echo 'at ', $kept['microtime'] ??= microtime(true); break;
        case 'frozen-clock': echo 'at ', $kept['clock'] ??= date('H:i:s'); break;
        case 'frozen-id': echo '<div id="', $kept['id'] ??= $draw(), '">'; break;
        case 'frozen-nonce': $nonce = $kept['nonce'] ??= $draw(); header("Content-Security-Policy: script-src 'nonce-$nonce'"); echo "<script nonce=\"$nonce\">1</script>"; break;
        case 'stale-id': $key = substr($_COOKIE['reprise_verify'] ?? '', 0, 4); echo '<div id="', $kept["id$key"] ??= $draw(), '">'; break;
        case 'shapes-frozen-id': echo '<div id="', $kept['id'] ??= $draw(), '">', str_repeat('<li>x</li>', random_int(1, 30)), '</div>'; break;
        case 'others-order': $list = ['apple', 'plum', 'cherry', substr($_COOKIE['reprise_verify'] ?? 'none', 0, 4) == 'anna' ? 'her99secret' : 'his77secret']; $list = $kept['list'] ??= $list; shuffle($list); echo implode('<li>', $list); break;
    }
    if (session_status() == PHP_SESSION_ACTIVE) session_write_close();
};
"#;

const FINE: [&str; 11] =
    ["token", "base64-token", "nonce", "times", "took", "memory", "links-token", "first-token", "order", "dice", "id"];
const WRONG: [&str; 13] = [
    "shared-token",
    "shared-base64-token",
    "others-token",
    "cookie-token",
    "lost-token",
    "frozen-time",
    "frozen-microtime",
    "frozen-clock",
    "frozen-id",
    "frozen-nonce",
    "stale-id",
    "shapes-frozen-id",
    "others-order",
];

fn verify(server: &Server, pages: &[&str]) -> (Output, serde_json::Value) {
    let urls = pages.iter().map(|what| format!("http://127.0.0.1:{}/?do={what}", server.port));
    let output = server.output(&["verify", "--json"].map(str::to_owned).into_iter().chain(urls).collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output, value)
}

/// A worker script's server, with a lane that has booted.
fn worker(script: &str) -> Server {
    let setup = Setup::empty().file("index.php", format!("<?php {PAGES} {script}"));
    let server = setup.application("workers = 1\nmode.\"index.php\" = \"worker\"").start();
    wait_until("the script's lane", 30, || server.log().contains("is booted"));
    server
}

/// Of each page what was found there.
fn assert_none(found: &serde_json::Value) {
    for page in found["pages"].as_array().unwrap() {
        let none = |what: &str| page[what].as_array().is_some_and(Vec::is_empty);
        assert!(none("differences") && none("leaks"), "{page:#}");
    }
}

/// Tokens, times and memory figures that vary in classic mode, too, are no differences.
#[test]
fn tokens_of_sessions_times_and_memory_are_no_differences() {
    let mut servers = vec![worker("while (reprise_handle_request($page)) {}")];
    for isolation in tests::snapshot::isolations() {
        let setup = Setup::empty().file("index.php", format!("<?php {PAGES} reprise_snapshot(); $page();"));
        servers.push(setup.application(&format!("isolation = \"{isolation}\"")).start());
    }
    // Classic against classic.
    servers.push(Setup::empty().file("index.php", format!("<?php {PAGES} $page();")).start());
    for (number, server) in servers.iter().enumerate() {
        let (output, found) = verify(server, &FINE);
        assert_none(&found);
        let code = if number + 1 == servers.len() { 1 } else { 0 };
        if code == 1 {
            continue;
        }
        assert_eq!(output.status.code(), Some(code), "{found:#}");
        // Nothing is masked in silence, and what is unsure is said.
        let masks = |page: usize| {
            let all = found["pages"][page]["masked"].as_array().unwrap().iter();
            all.filter(|mask| mask["what"] == "body").collect::<Vec<_>>()
        };
        let kinds = |page: usize| masks(page).iter().map(|mask| mask["kind"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!((kinds(0), masks(0)[0]["sure"].as_bool()), (vec!["session"], Some(true)), "{found:#}");
        assert!(masks(0)[0]["place"].as_str().unwrap().contains("_token"), "{found:#}");
        assert!(kinds(3).contains(&"time"), "{found:#}");
        assert!(masks(9).iter().all(|mask| mask["sure"] == false), "{found:#}");
        assert_eq!(kinds(10)[0], "drawn", "{found:#}");
    }
}

/// Leaks are found in parts of a page that vary in classic mode.
#[test]
fn leaks_are_found_where_classic_mode_varies() {
    let server = worker("while (reprise_handle_request($page)) {}");
    let (output, found) = verify(&server, &WRONG);
    assert_eq!(output.status.code(), Some(2), "{found:#}");
    for page in found["pages"].as_array().unwrap() {
        let some = |what: &str| page[what].as_array().is_some_and(|list| !list.is_empty());
        assert!(some("differences") || some("leaks"), "{page:#}");
    }
    let leak = |page: usize| found["pages"][page]["leaks"].to_string();
    assert!(leak(0).contains("anna and otto are given the same"), "{}", leak(0));
    assert!(leak(8).contains("which classic mode draws for each request"), "{}", leak(8));
}

/// What a boot has drawn or noted is in each request's memory.
#[test]
fn values_frozen_by_a_snapshot_are_found() {
    let frozen = "$kept = ['token' => bin2hex(random_bytes(16)), 'time' => time(), 'clock' => date('H:i:s'), 'id' => bin2hex(random_bytes(8)),
        'microtime' => microtime(true), 'nonce' => bin2hex(random_bytes(8))];";
    let pages = [
        "shared-token",
        "frozen-time",
        "frozen-microtime",
        "frozen-clock",
        "frozen-id",
        "frozen-nonce",
        "shapes-frozen-id",
    ];
    for isolation in tests::snapshot::isolations() {
        let script = format!("<?php {PAGES} {frozen} reprise_snapshot(); $page();");
        let server =
            Setup::empty().file("index.php", script).application(&format!("isolation = \"{isolation}\"")).start();
        let (_, found) = verify(&server, &pages);
        assert_eq!(found["bad"], pages.len(), "{isolation}: {found:#}");
    }
}

/// Applications from Debian's packages, with the sessions and tokens that they have.
fn pages_do_not_differ(setup: Setup, paths: &[&str]) -> usize {
    let server = setup.start();
    let urls = paths.iter().map(|path| format!("http://127.0.0.1:{}{path}", server.port));
    let flags = ["verify", "--json", "--host", HOST].map(str::to_owned);
    let output = server.output(&flags.into_iter().chain(urls).collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}{}", String::from_utf8_lossy(&output.stderr), server.log()));
    assert_none(&found);
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    found["pages"].as_array().unwrap().iter().map(|page| page["masked"].as_array().unwrap().len()).sum()
}

/// `reprise verify` finds no difference in Symfony's pages with tokens.
#[test]
fn pages_of_symfony_with_tokens_do_not_differ() {
    let (_place, application) = bridged::build_bridged("symfony");
    // It counts the requests of a process in a header, which is a difference indeed.
    let counting = application.join("src/EventSubscriber/TimingSubscriber.php");
    let text = fs::read_to_string(&counting).unwrap();
    fs::write(&counting, text.replace("(string) $this->counter->hit()", "'1'")).unwrap();
    for mode in ["snapshot", "worker"] {
        let setup = bridged::bridged(&application.join("public"), mode, SYMFONY_WARM).env("APP_RUNTIME", RUNTIME);
        let masked = pages_do_not_differ(setup, &["/", "/login", "/post/5", "/session", "/files", "/hello"]);
        assert!(masked > 0, "{mode}: the forms have tokens");
    }
}

/// `reprise verify` finds no difference in Laravel's pages with tokens.
#[test]
fn pages_of_laravel_with_tokens_do_not_differ() {
    let (_place, application) = bridged::build_bridged("laravel");
    for mode in ["snapshot", "worker"] {
        let setup = bridged::bridged(&application.join("public"), mode, LARAVEL_WARM);
        let pages = ["/", "/login", "/contact", "/session", "/files", "/account/login", "/api/posts"];
        assert!(pages_do_not_differ(setup, &pages) > 0, "{mode}: the forms have tokens");
    }
}

/// `reprise verify` finds no difference in WordPress' pages.
#[test]
fn pages_of_wordpress_do_not_differ() {
    let (_database, _place, application) = bridged::build_wordpress();
    let setup = Setup::root(&application.join("htdocs")).application("mode.\"index.php\" = \"snapshot\"");
    pages_do_not_differ(setup, &["/", "/post-5/", "/page-1/", "/feed/", "/?s=post", "/nowhere/"]);
}
