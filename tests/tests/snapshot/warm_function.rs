//! `Reprise\warm()`: pages rendered in child processes of the boot, of which only values stay.

use tests::server::copy;
use tests::{Server, Setup, server::project};

/// Parts of pages are made once and kept in a static property. Each page does something that must not come into a snapshot.
const SCRIPT: &str = r#"<?php
foreach (['stubs', 'functions', 'Hooks', 'WarmUp', 'Warm'] as $file) { require_once __DIR__ . "/../composer/src/$file.php"; }
final class Parts {
    public static array $kept = [], $made = [], $seen = [];
    static function get(string $name): mixed { return self::$kept[$name] ?? (self::$made[$name] = "$name made by " . getmypid()); }
}
function page(string $path): void
{
    static $count = 0;
    $count++;
    Parts::$seen[] = $path;
    $_SESSION['of'] = $path;
    $GLOBALS['global'] = $path;
    ini_set('user_agent', $path);
    switch ($path) {
        case '/': Parts::get('menu'); break;
        case '/redirect': header('Location: /elsewhere', true, 302); Parts::get('redirect'); break;
        case '/cookie': setcookie('who', 'boot'); header('X-Of: boot'); Parts::get('cookie'); break;
        case '/exit': Parts::get('exit'); exit('bye');
        case '/throws': Parts::get('throws'); throw new Exception('a broken theme');
        case '/fatal': Parts::get('fatal'); eval('class Parts {}'); break;
        case '/slow': Parts::get('slow'); while (true) { usleep(1000); }
        case '/missing': Parts::get('missing'); http_response_code(404); break;
        case '/closure': Parts::$made['closure'] = fn () => 1; break;
        case '/dies': Parts::get('dies'); posix_kill(getmypid(), SIGKILL); break;
    }
    $of = ['count' => $count, 'seen' => Parts::$seen, 'kept' => Parts::$kept, 'agent' => ini_get('user_agent'), 'pid' => getmypid(), 'boot' => isset($_SERVER['REPRISE_BOOT'])];
    echo json_encode($of);
}
$before = static function (array $request): void { Parts::$seen[] = "before $request[path] " . $_SERVER['REQUEST_URI'] . json_encode($_COOKIE); };
$after = static fn (): array => ['seen ' . Parts::$seen[1] => Parts::$seen[0]] + Parts::$made;
foreach (Reprise\warm(fn ($request) => page($request['path']), $before, $after, seconds: 1) as $path => $values) { Parts::$kept += $values; }
Reprise\snapshot();
page($_SERVER['REQUEST_URI']);
"#;

fn start(setup: Setup) -> Server {
    copy(&project().join("composer"), &setup.directory().join("app/composer"));
    setup.start()
}

/// What pages return stays, what they do otherwise does not: statics, variables, settings, cookies, headers, statuses, ends.
#[test]
fn only_what_pages_return_is_in_the_snapshot() {
    let pages = [
        "\"/\"",
        "\"/redirect\"",
        "\"/cookie\"",
        "\"/exit\"",
        "{ path = \"/user\", headers = { Cookie = \"user=me\" } }",
        "\"/query?x\"",
        "{ path = \"/posted\", method = \"POST\" }",
    ];
    let setup = Setup::empty().file("index.php", SCRIPT).flag("--audit");
    let server =
        start(setup.application(&format!("mode.\"index.php\" = \"snapshot\"\nwarmup = [{}]", pages.join(", "))));
    let ask = || {
        let answer = server.get("/exits");
        assert_eq!((answer.status, answer.all("set-cookie").len(), answer.header("x-of")), (200, 0, None));
        serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap()
    };
    let (one, other) = (ask(), ask());
    assert_eq!(one["kept"], other["kept"]);
    let kept = one["kept"].as_object().unwrap();
    for (page, part) in [("/", "menu"), ("/redirect", "redirect"), ("/cookie", "cookie"), ("/exit", "exit")] {
        assert_eq!(kept[&format!("seen {page}")], format!("before {page} {page}[]"), "{one}");
        let made = kept[part].as_str().unwrap();
        assert!(made.starts_with(&format!("{part} made by ")) && !made.ends_with(&format!(" {}", one["pid"])), "{one}");
    }
    assert_eq!(kept.len(), 9, "a page of a user or by POST: {one}");
    assert_eq!((&one["count"], &one["seen"], &one["boot"]), (&1.into(), &serde_json::json!(["/exits"]), &false.into()));
    assert_eq!(one["agent"], "/exits");
    assert!(!server.log().contains("nothing is kept"), "{}", server.log());
}

/// A page that fails gives nothing, and the log says why; the others stay.
#[test]
fn pages_that_fail_give_nothing() {
    let bad = [
        ("/throws", "it has thrown Exception: a broken theme"),
        ("/fatal", "it has failed: Cannot declare class Parts"),
        ("/slow", "it took longer than 1 s"),
        ("/missing", "its status is 404"),
        ("/closure", "Serialization of 'Closure' is not allowed"),
        ("/dies", "it has failed"),
    ];
    let list: Vec<String> = bad.iter().map(|(path, _)| format!("\"{path}\"")).collect();
    let setup = Setup::empty().file("index.php", SCRIPT).env("REPRISE_WARMUP", &list.join(" ").replace('"', ""));
    let server = start(setup.application("mode.\"index.php\" = \"snapshot\"\nwarmup = [\"/\"]"));
    for (path, why) in bad {
        let words = format!("nothing is kept of the page {path}, which was to be rendered before the snapshot: ");
        let log = server.log();
        let line = log.lines().find(|line| line.contains(&words)).unwrap_or_else(|| panic!("{path}: {log}"));
        assert!(line.contains(why), "{line}");
    }
    let kept: serde_json::Value = serde_json::from_str(&server.get("/x").text()).unwrap();
    assert_eq!(kept["kept"].as_object().unwrap().len(), 2, "{kept}");
}

/// Classes are loaded when a page needs one; each page says which it has found loaded, and which it has loaded itself.
const LOADING: &str = r#"<?php
foreach (['stubs', 'functions', 'Hooks', 'WarmUp', 'Warm'] as $file) { require_once __DIR__ . "/../composer/src/$file.php"; }
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Page')) { $GLOBALS['loaded'][] = $class; eval("class $class extends Base$class {}"); }
    if (str_starts_with($class, 'Base')) { $GLOBALS['loaded'][] = $class; eval("abstract class $class { public int \$made = 0; }"); }
});
$loaded = [];
$isChild = Reprise\preload(static fn (array $request): bool => $request['path'] !== '/other', '/Main');
if (!$isChild) { Reprise\snapshot(); }
$name = 'Page' . trim($_SERVER['REQUEST_URI'], '/');
$page = new $name();
$anonymous = new class extends PageLazy {};
echo json_encode(['loaded' => $loaded, 'made' => ++$page->made, 'boot' => isset($_SERVER['REPRISE_BOOT'])]);
if ($name === 'PageBroken') { http_response_code(500); }
"#;

/// The boot loads what the pages' classes are, and nothing else of the pages stays.
#[test]
fn classes_of_pages_are_loaded_by_the_boot() {
    let loaded = |warmup: &str, path: &str| {
        let setup = Setup::empty().file("index.php", LOADING).flag("--audit");
        let server =
            start(setup.application(&format!("mode.\"index.php\" = \"snapshot\"\nwarmup_failure = \"log\"\n{warmup}")));
        let answers = [server.get(path).text(), server.get(path).text()];
        assert_eq!(answers[0], answers[1]);
        (answers[0].clone(), server.log())
    };
    let of_boot = r#"["PageMain","BasePageMain","PageLazy","BasePageLazy"]"#;
    let (answer, log) = loaded("", "/Main");
    assert_eq!(answer, format!(r#"{{"loaded":{of_boot},"made":1,"boot":false}}"#), "{log}");
    let (answer, log) = loaded("warmup = [\"/Lazy\", \"/Broken\", \"/other\"]", "/Lazy");
    assert_eq!(answer, r#"{"loaded":["PageLazy","BasePageLazy"],"made":1,"boot":false}"#, "{log}");
    assert!(
        log.contains(
            "nothing is kept of the page /Broken, which was to be rendered before the snapshot: its status is 500"
        ),
        "{log}"
    );
}
