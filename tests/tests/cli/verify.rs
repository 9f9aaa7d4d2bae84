//! `reprise verify`: planted leaks are found in a worker script, and none where the same code runs from a snapshot.

use std::fs;
use std::process::{Command, Output};

use tests::bridged::{self, HOST};
use tests::server::{Directory, free_port, program};
use tests::{Server, Setup, wait_until};

/// Ten ways in which code that was written for one request keeps something of it.
const LEAKS: &str = r#"
class Service { public static ?Service $instance = null; public string $user = ''; static function instance(): self { return self::$instance ??= new self; } }
$container = []; $queue = []; $buffer = '';
$page = function () use (&$container, &$queue, &$buffer) {
    $mark = $_COOKIE['reprise_verify'] ?? ''; $is_anna = str_contains($mark, 'anna');
    header('X-Page: 1'); echo "<p>nonce ", bin2hex(random_bytes(8)), ' at ', microtime(true), "</p>\n";
    switch ($_GET['do'] ?? '') {
        case 'fine': echo 'you are ', $mark; break;
        case 'static': static $count = 0; echo 'count ', ++$count; break;
        case 'singleton': Service::instance()->user = Service::instance()->user ?: $mark; echo Service::instance()->user; break;
        case 'locale': if ($is_anna) setlocale(LC_ALL, 'C.UTF-8'); echo setlocale(LC_TIME, 0); break;
        case 'session': static $session = []; $session['user'] ??= $_SERVER['HTTP_X_REPRISE_VERIFY'] ?? ''; echo json_encode($session); break;
        case 'cookie': $queue[] = $mark; foreach (array_unique($queue) as $i => $value) setcookie("queued$i", $value); echo 'queued'; break;
        case 'container': $container['agent'] ??= $_SERVER['HTTP_USER_AGENT']; echo $container['agent']; break;
        case 'ini': static $agent = null; ini_set('user_agent', $_SERVER['HTTP_USER_AGENT']); $agent ??= ini_get('user_agent'); echo $agent; break;
        case 'env': static $env = null; putenv("VISITOR=$mark"); $env ??= getenv('VISITOR'); echo $env; break;
        case 'timezone': if ($is_anna) date_default_timezone_set('Asia/Tokyo'); echo date_default_timezone_get(); break;
        case 'buffer': ob_start(); echo "$mark;"; $buffer .= ob_get_clean(); echo $buffer; break;
        case 'missing': http_response_code(404); echo 'missing'; break;
        case 'broken': http_response_code(500); echo 'broken'; break;
        case 'busy': http_response_code(503); echo 'busy'; break;
        case 'form': echo 'hello ', $_POST['name'] ?? 'nobody'; break;
        case 'shapes': static $whose = null; $whose ??= $mark; echo implode('+', array_map(fn () => bin2hex(random_bytes(2)), range(1, random_int(1, 30)))), ' of ', $_GET['leak'] ?? 0 ? strlen($whose) . substr($whose, 0, 4) : 'nobody', ' and more'; break;
        case 'nothing': ob_end_clean(); echo bin2hex(random_bytes(random_int(4, 9))); break;
    }
};
"#;

const PLANTED: [&str; 10] =
    ["static", "singleton", "locale", "session", "cookie", "container", "ini", "env", "timezone", "buffer"];

fn verify(server: &Server, arguments: &[String]) -> (Output, serde_json::Value) {
    let output = server.output(&[&["verify".to_owned(), "--json".to_owned()], arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output, value)
}

fn pages(server: &Server) -> Vec<String> {
    let all = PLANTED.iter().chain(&["fine", "missing"]);
    all.map(|what| format!("http://127.0.0.1:{}/?do={what}", server.port)).collect()
}

/// `reprise verify` finds all ten leaks that are planted in a worker script.
#[test]
fn ten_planted_leaks_are_found_in_a_worker_script() {
    let script = format!("<?php {LEAKS} while (reprise_handle_request($page)) {{}}");
    let start = || {
        let server = Setup::empty().file("index.php", &script).application("workers = 1").start();
        wait_until("the script's lane", 30, || {
            server.get("/");
            server.log().contains("is booted")
        });
        server
    };
    let server = start();
    let (output, found) = verify(&server, &pages(&server));
    assert_eq!(output.status.code(), Some(2), "{found}");
    for (number, page) in found["pages"].as_array().unwrap().iter().enumerate() {
        let is_bad =
            !page["leaks"].as_array().unwrap().is_empty() || !page["differences"].as_array().unwrap().is_empty();
        assert_eq!(is_bad, number < PLANTED.len(), "{page}");
    }
    assert_eq!(found["bad"], 10);
    // In words, for people.
    let server = start();
    let output = server.output(&["verify", &pages(&server)[1], &pages(&server)[10]]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("LEAK ") && text.contains("otto sees anna's cookie"), "{text}");
    assert!(
        text.contains("alike ")
            && text.contains("masked ")
            && text.contains("2 pages, 96 responses, 1 with differences or leaks"),
        "{text}"
    );
}

/// `reprise verify` finds none of the planted leaks from a snapshot.
#[test]
fn none_is_found_where_each_request_starts_from_the_same_memory() {
    for isolation in tests::snapshot::isolations() {
        let script = format!("<?php {LEAKS} reprise_snapshot(); $page();");
        let setup = Setup::empty().file("index.php", script).application(&format!("isolation = \"{isolation}\""));
        let server = setup.flag("--audit").start();
        let (output, found) = verify(&server, &pages(&server));
        assert_eq!((output.status.code(), &found["bad"]), (Some(0), &0.into()), "{isolation}: {found}");
    }
}

/// `reprise verify` reads pages, methods and forms from a file.
#[test]
fn pages_come_from_files_with_methods_and_forms() {
    let script = format!("<?php {LEAKS} reprise_snapshot(); $page();");
    let server = Setup::empty().file("index.php", script).start();
    let directory = Directory::new();
    let list = directory.0.join("pages.txt");
    let base = format!("http://127.0.0.1:{}", server.port);
    fs::write(&list, format!("# pages\n{base}/?do=fine\n\nPOST {base}/?do=form name=anna&x=1\nHEAD {base}/\n"))
        .unwrap();
    let (output, found) = verify(&server, &[list.display().to_string(), "--rounds".into(), "2".into()]);
    assert_eq!((output.status.code(), found["pages"].as_array().unwrap().len()), (Some(0), 3), "{found}");
    assert!(server.access_log().is_empty() || !server.access_log().contains("reprise-mode"));
}

/// `{visitor}` in a form becomes the visitor's name.
#[test]
fn forms_may_say_who_sends_them() {
    let script =
        format!("<?php {LEAKS} reprise_snapshot(); $page(); error_log('posted by ' . ($_POST['name'] ?? '-'));");
    let server = Setup::empty().file("index.php", script).start();
    let directory = Directory::new();
    let list = directory.0.join("pages.txt");
    fs::write(&list, format!("POST http://127.0.0.1:{}/?do=form name={{visitor}}&x=1\n", server.port)).unwrap();
    let (output, found) = verify(&server, &[list.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{found}");
    for name in ["anna", "otto"] {
        assert!(server.log().contains(&format!("posted by {name}")), "{}", server.log());
    }
}

/// Pages that classic mode never gives twice in the same shape are compared where they agree; where they never do, that is said.
#[test]
fn pages_of_many_shapes_are_compared_too() {
    let script = format!("<?php {LEAKS} while (reprise_handle_request($page)) {{}}");
    let setup = Setup::empty().file("index.php", script);
    let server = setup.application("workers = 1\nmode.\"index.php\" = \"worker\"").start();
    let url = |what: &str| format!("http://127.0.0.1:{}/?do={what}", server.port);
    let (output, found) = verify(&server, &[url("shapes")]);
    assert_eq!((output.status.code(), &found["bad"]), (Some(0), &0.into()), "{found}");
    assert_eq!(found["pages"][0]["blind"], false, "{found}");
    let (output, found) = verify(&server, &[url("shapes&leak=1")]);
    assert_eq!((output.status.code(), &found["bad"]), (Some(2), &1.into()), "{found}");
    let output = server.output(&["verify", &url("nothing")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("UNKNOWN ") && text.contains("not checked: what pages do not show"), "{text}");
}

/// If every page ran in classic mode, `reprise verify` fails: there was nothing to compare.
#[test]
fn nothing_is_alike_that_ran_in_classic_mode_alone() {
    let script = format!("<?php {LEAKS} reprise_snapshot(); $page();");
    let setup = Setup::empty().file("index.php", script);
    let server = setup.application("classic_paths = [\"/classic\"]").start();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}?do=fine", server.port);
    let output = server.output(&["verify", &url("/classic/x")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("every page ran in classic mode"), "{text}");
    let output = server.output(&["verify", &url("/classic/x"), &url("/")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("CLASSIC ") && text.contains("alike "), "{text}");
    // Pages of an error say nothing about the page; one that is not found is a page.
    for (what, status) in [("broken", "500"), ("busy", "503")] {
        let page = format!("http://127.0.0.1:{}/?do={what}", server.port);
        let output = server.output(&["verify", &page]);
        let text = String::from_utf8_lossy(&output.stdout);
        let is_told = text.contains(&format!("every response is {status}")) && text.contains("1 of errors alone");
        assert!(output.status.code() == Some(2) && is_told && !text.contains("alike "), "{text}");
    }
    let output = server.output(&["verify", &format!("http://127.0.0.1:{}/?do=missing", server.port)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    fs::write(server.directory().join("app/public/a.txt"), "static").unwrap();
    let output = server.output(&["verify", &url("/a.txt")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("does not say in which mode"), "{text}");
    // PHP and clients elsewhere have nothing of it.
    assert_eq!(server.get("/").header("reprise-mode"), None);
}

/// A version of PHP that the server runs already, or that is not there, is refused, and so is a server without a configuration file.
#[test]
fn versions_that_cannot_be_compared_are_refused() {
    let server = Setup::empty().file("index.php", "<?= PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;").start();
    let (page, version) = (format!("http://127.0.0.1:{}/", server.port), server.get("/").text());
    let refused = |version: &str| {
        let output = server.output(&["verify", "--php", version, &page]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = refused(&version);
    assert!(code == Some(64) && said.contains(&format!("the server runs PHP {version} already")), "{said}");
    let (code, said) = refused("7.4");
    assert!(code == Some(78) && said.contains("--php: PHP 7.4 is not installed for Reprise; PHP "), "{code:?} {said}");
    let (code, said) = refused("eight");
    assert!(code == Some(64) && said.contains("'eight'"), "{code:?} {said}");
}

/// What looks at the request while WordPress boots differs; its paths are left to classic mode.
#[test]
fn pages_of_wordpress_that_differ_are_found_and_can_be_excluded() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let plugin =
        "<?php $GLOBALS['kind'] = str_contains($_SERVER['REQUEST_URI'], 'page-1') ? 'a special page' : 'a usual one';
        add_action('wp_footer', function () { echo $GLOBALS['kind']; });";
    fs::write(root.join("wp-content/mu-plugins/kind.php"), plugin).unwrap();
    for (paths, code) in [("", 2), ("classic_paths = [\"/page-1\"]", 0)] {
        let setup = Setup::root(&root).application("mode.\"index.php\" = \"snapshot\"");
        let server = setup.application(paths).start();
        let pages = ["/", "/post-5/", "/page-1/"].map(|path| format!("http://127.0.0.1:{}{path}", server.port));
        let (output, found) = verify(&server, &[&pages[..], &["--host".to_owned(), HOST.to_owned()]].concat());
        assert_eq!(output.status.code(), Some(code), "{paths}: {found}");
        let list = found["pages"].as_array().unwrap();
        assert_eq!(list[2]["classic"], code == 0, "{found}");
        assert_eq!(list[2]["differences"].as_array().unwrap().is_empty(), code == 0, "{found}");
        assert!(list[..2].iter().all(|page| page["differences"].as_array().unwrap().is_empty()), "{found}");
    }
}

/// A page that cannot be requested is named, with the exit code of the mistake.
#[test]
fn what_cannot_be_asked_is_named() {
    let server = Setup::empty().file("index.php", "<?php echo 1;").start();
    let dead = format!("http://127.0.0.1:{}/", free_port());
    for (arguments, code, words) in [
        (vec![dead.as_str()], 1, vec!["127.0.0.1", "refused"]),
        (vec!["https://127.0.0.1/"], 64, vec!["only http://"]),
        (vec!["/no/such/file"], 64, vec!["/no/such/file", "a page begins with http://"]),
        (vec!["http://"], 64, vec!["http://"]),
        (vec![], 64, vec!["URL|FILE"]),
        (vec!["http://127.0.0.1/", "--rounds", "1"], 64, vec!["--rounds"]),
    ] {
        let output = server.output(&[&["verify"], &arguments[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{word} in {text}"));
    }
}

/// Only who has the token chooses the mode, on this machine, and PHP never hears of it.
#[test]
fn the_mode_is_chosen_by_a_token_on_this_machine_alone() {
    let script =
        "<?php reprise_snapshot(); echo reprise_info()['mode'], isset($_SERVER['HTTP_REPRISE_MODE']) ? ' seen' : '';";
    let server = Setup::empty().file("index.php", script).server("proxies = [\"127.0.0.1\"]").start();
    let token = server.token();
    let (classic, other) = (format!("classic {token}"), format!("other {token}"));
    let mut client = server.client();
    assert_eq!(client.get("/").text(), "snapshot");
    let chosen = client.request("GET", "/", &[("Reprise-Mode", &classic)], b"");
    assert_eq!((chosen.text().as_str(), chosen.header("reprise-mode")), ("classic", Some("classic")));
    let behind = [("Reprise-Mode", classic.as_str()), ("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(client.request("GET", "/", &behind, b"").text(), "snapshot");
    for mode in ["classic", "own", &other] {
        let page = client.request("GET", "/", &[("Reprise-Mode", mode)], b"");
        assert_eq!((page.text().as_str(), page.header("reprise-mode")), ("snapshot", None), "{mode}");
    }
}

/// Without the control socket there is no token, and `reprise verify` says so, and what to do.
#[test]
fn without_the_control_socket_it_says_what_to_do() {
    let server = Setup::empty().file("index.php", "<?php reprise_snapshot(); echo 1;").start();
    let page = format!("http://127.0.0.1:{}/", server.port);
    let elsewhere = Directory::new();
    let output = Command::new(program()).args(["verify", &page, "--state-dir"]).arg(&elsewhere.0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in ["is the server running", "on the server's machine", "token of its control socket"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    // The token of another server is of no use.
    let other = Setup::empty().file("index.php", "<?php echo 1;").start();
    let output = other.output(&["verify", &page]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("another server than the one whose token"), "{text}");
    assert_eq!(server.output(&["verify", &page]).status.code(), Some(0));
}
