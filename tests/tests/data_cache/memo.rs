//! `reprise_memo()`: results of pure functions, found by a digest of all that they depend on.

use tests::{Server, Setup, wait_until};

/// `run()` notes each of its runs; what is done is `?do=`.
const CASES: &str = r#"
case 'memo': echo json_encode(reprise_memo('run', json_decode($_GET['of'], true), $_GET['version'] ?? null)); break;
case 'forgets': echo json_encode(reprise_memo('forgets', [])); break;
case 'dies': echo json_encode(reprise_memo('dies', [$_GET['of']])); break;
case 'throws': echo reprise_memo('throws', []); break;
case 'object': $a = reprise_memo('made', ['x']); $a->seen = ($a->seen ?? 0) + 1; echo json_encode($a); break;
case 'changes': $a = reprise_memo('run', [['x']]); $a[] = 'changed'; echo json_encode(count($a)); break;
case 'refused': $of = json_decode($_GET['of'], true) ?? [new stdClass()];
    echo reprise_memo(match ($_GET['what']) {
        'bound' => (new Methods())->bound(...), 'object' => [new Methods(), 'bound'], 'used' => function () use ($of) { return 1; }, 'closure' => static fn () => 1,
        'eval' => (static function () { eval('function evaluated() { return 1; }'); return 'evaluated'; })(),
        'static' => 'counts', 'magic' => ['Methods', 'anything'], 'none' => 'strlen',
    }, $of); break;
case 'methods': echo json_encode([reprise_memo('Methods::of', [1]), reprise_memo(['Child', 'of'], [1]), reprise_memo(Methods::of(...), [1]),
    reprise_memo(strrev(...), ['ab']), reprise_memo('strrev', ['cd'])]); break;
case 'store': echo json_encode(reprise_cache_store($_GET['key'], str_repeat($_GET['key'], (int) $_GET['size']))); break;
case 'fetch': echo json_encode(strlen((string) reprise_cache_fetch($_GET['key'], ''))); break;
case 'fill': for ($i = 0; $i < $_GET['count']; $i++) reprise_memo('large', [$i, (int) $_GET['size']]); echo 'filled'; break;
"#;
const FUNCTIONS: &str = r#"
function noted(mixed $what): void { file_put_contents(getenv('RUNS') . '/log', json_encode($what) . "\n", FILE_APPEND | LOCK_EX); }
function run(mixed ...$of): array { noted($of); return ['of', ...$of]; }
function forgets(): string { noted('forgets'); return 'for ' . ($_COOKIE['user'] ?? 'nobody'); }
function dies(string $of): string { if (!file_exists(getenv('RUNS') . '/died')) { touch(getenv('RUNS') . '/died'); posix_kill(getmypid(), SIGKILL); } noted($of); return "lived $of"; }
function throws(): string { noted('throws'); throw new RuntimeException('no'); }
function made(string $x): stdClass { noted('made'); return (object) ['x' => $x, 'list' => [1]]; }
function counts(): int { static $n = 0; return ++$n; }
function large(int $i, int $size): string { if ($size > 100_000) noted('large'); return str_repeat(chr(65 + $i % 26), $size); }
class Methods { public function bound() { return 1; } public static function of(int $i): string { noted(static::class); return static::class . $i; } public static function __callStatic($n, $a) { return $n; } }
class Child extends Methods {}
"#;

fn start(mode: &str, more: &str) -> Server {
    let body = format!(
        "try {{ switch ($_GET['do'] ?? '') {{\n{CASES}\n}} }} catch (Throwable $e) {{ echo get_class($e), ': ', $e->getMessage(); }}"
    );
    let script = match mode {
        "worker" => format!("<?php\n{FUNCTIONS}\nwhile (reprise_handle_request(function () {{ {body} }}));"),
        _ => format!("<?php\n{FUNCTIONS}\nreprise_snapshot();\n{body}"),
    };
    let setup = Setup::empty();
    let runs = setup.writable("runs");
    let options = format!("mode.\"index.php\" = \"{mode}\"\ncache_memory = 0\n{more}");
    setup.env("RUNS", &runs).file("index.php", script).application(&options).start()
}

fn get(server: &Server, query: &str) -> String {
    server.get(&format!("/?do={query}")).text()
}

fn of(server: &Server, value: &str) -> String {
    let coded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
    get(server, &format!("memo&of={coded}"))
}

fn runs(server: &Server) -> usize {
    std::fs::read_to_string(server.directory().join("runs/log")).unwrap_or_default().lines().count()
}

/// One run for each list of arguments, whichever worker asks, in each mode. Lists that only look alike are others.
#[test]
fn a_function_runs_once_for_its_arguments() {
    let alike = [
        r#"["ab","c"]"#,
        r#"["a","bc"]"#,
        r#"["abc"]"#,
        r#"["abc",""]"#,
        r#"["abc",null]"#,
        r#"["abc",false]"#,
        r#"["abc",0]"#,
        r#"["abc","0"]"#,
        r#"["abc",0.5]"#,
        r#"[["abc"]]"#,
        r#"[["abc"],[]]"#,
        r#"[[["abc"]]]"#,
        r#"[{"0":"abc","2":1}]"#,
        r#"[{"abc":1}]"#,
        r#"[["abc",1]]"#,
        r#"[true]"#,
        r#"[1]"#,
        r#"["1"]"#,
        r#"[{"a":1,"b":2}]"#,
        r#"[{"b":2,"a":1}]"#,
        "[]",
    ];
    for mode in ["classic", "snapshot", "worker"] {
        let server = start(mode, "");
        for _ in 0..3 {
            for list in alike {
                let result = of(&server, list);
                assert_eq!(
                    result,
                    if list == "[]" { r#"["of"]"#.to_owned() } else { format!(r#"["of",{}"#, &list[1..]) },
                    "{mode}"
                );
            }
        }
        assert_eq!(runs(&server), alike.len(), "{mode}");
        assert_eq!(get(&server, "methods"), r#"["Methods1","Child1","Methods1","ba","dc"]"#);
        assert_eq!(get(&server, "methods"), r#"["Methods1","Child1","Methods1","ba","dc"]"#);
        assert_eq!(runs(&server), alike.len() + 2, "{mode}: once by each class");
        // What a request does to a result is its own.
        assert_eq!([get(&server, "changes"), get(&server, "changes")], ["3", "3"]);
        let object = r#"{"x":"x","list":[1],"seen":1}"#;
        assert_eq!([get(&server, "object"), get(&server, "object")], [object, object]);
    }
}

/// What is no pure function by its form is refused, and so is what no key can be made of.
#[test]
fn what_cannot_be_pure_is_refused() {
    let server = start("snapshot", "");
    let refused = |what: &str, of: &str| get(&server, &format!("refused&what={what}&of={of}"));
    let form = "ValueError: reprise_memo(): Argument #1 ($function) must be a pure function: ";
    for (what, why) in [
        ("bound", "it has an object"),
        ("object", "it has an object"),
        ("used", "it is a closure, which has no name"),
        ("closure", "it is a closure, which has no name"),
        ("static", "it has static variables"),
        ("eval", "it is declared by eval(), whose code may be another each time"),
        ("magic", "it is called by __call() or __callStatic()"),
    ] {
        assert_eq!(refused(what, "[]"), format!("{form}{why}; pass what the result depends on in the array"), "{what}");
    }
    let list = "must have null, booleans, numbers, strings, and arrays of such, and has stdClass";
    assert_eq!(refused("none", "no"), format!("TypeError: reprise_memo(): Argument #2 ($arguments) {list}"));
    assert_eq!(refused("none", "{\"a\":1}"), "ValueError: reprise_memo(): Argument #2 ($arguments) must be a list");
    let deep = format!("{}{}", "[".repeat(66), "]".repeat(66));
    assert!(refused("none", &deep).contains("at most 64 arrays within each other"));
    // An exception is the caller's, each time.
    assert_eq!([get(&server, "throws"), get(&server, "throws")], ["RuntimeException: no", "RuntimeException: no"]);
    assert_eq!(runs(&server), 2);
}

/// A function that reads its visitor is not pure: all get what the first one was told, as the documentation says.
#[test]
fn a_function_that_forgets_its_visitor_tells_all_the_same() {
    let server = start("snapshot", "");
    let ask =
        |user: &str| server.client().request("GET", "/?do=forgets", &[("Cookie", &format!("user={user}"))], b"").text();
    assert_eq!([ask("anna"), ask("bert")], ["\"for anna\"", "\"for anna\""]);
    // Where the visitor is an argument, each has his own.
    assert_eq!([of(&server, "[\"anna\"]"), of(&server, "[\"bert\"]")], ["[\"of\",\"anna\"]", "[\"of\",\"bert\"]"]);
}

/// Without a version results end at a reload; with one they live as long as the file stays as it is.
#[test]
fn results_live_as_long_as_their_code() {
    let server = start("snapshot", "");
    let ask = |version: &str| get(&server, &format!("memo&of=[1]{version}"));
    let reload = || {
        let (done, said) = server.reload();
        assert!(done, "{said}");
    };
    (0..2).for_each(|_| assert_eq!(ask(""), "[\"of\",1]"));
    (0..2).for_each(|_| assert_eq!(ask("&version=7"), "[\"of\",1]"));
    assert_eq!(runs(&server), 2);
    reload();
    assert_eq!(ask("&version=7"), "[\"of\",1]");
    assert_eq!(runs(&server), 2, "the version is the same, and so is the file");
    assert_eq!(ask(""), "[\"of\",1]");
    assert_eq!(runs(&server), 3, "another generation");
    assert_eq!(ask("&version=8"), "[\"of\",1]");
    assert_eq!(runs(&server), 4, "another version");
    let script = server.directory().join("app/public/index.php");
    let text = std::fs::read_to_string(&script).unwrap().replace("return ['of', ...$of]", "return ['by', ...$of]");
    std::fs::write(&script, text).unwrap();
    // The snapshot has the code of before, which must not be kept as the new file's.
    (0..2).for_each(|_| assert_eq!(ask("&version=8"), "[\"of\",1]"));
    assert_eq!(runs(&server), 6, "not kept any more");
    reload();
    (0..2).for_each(|_| assert_eq!(ask("&version=8"), "[\"by\",1]", "another file"));
    assert_eq!(runs(&server), 7);
}

/// A worker that is killed while it computes leaves nothing: the next one computes, and keeps the result.
#[test]
fn a_worker_that_dies_in_the_middle_leaves_nothing() {
    let server = start("snapshot", "");
    assert_eq!(server.get("/?do=dies&of=x").status, 502);
    wait_until("another worker computes it", 10, || get(&server, "dies&of=x") == "\"lived x\"");
    let before = runs(&server);
    assert_eq!(get(&server, "dies&of=x"), "\"lived x\"");
    assert_eq!((before, runs(&server)), (1, 1));
}

/// Nothing that the application has stored leaves for results, and a full cache only costs them.
#[test]
fn results_displace_nothing() {
    let server = start("classic", "data_cache_memory = \"4M\"");
    for number in 0..40 {
        assert_eq!(get(&server, &format!("store&key=own{number}&size=5000")), "true");
    }
    assert_eq!(get(&server, "fill&count=3000&size=4000"), "filled");
    for number in 0..40 {
        let size = 5000 * format!("own{number}").len();
        assert_eq!(get(&server, &format!("fetch&key=own{number}")), size.to_string(), "own{number}");
    }
    // Larger than a part of the cache: computed each time.
    (0..2).for_each(|_| assert_eq!(get(&server, "fill&count=2&size=200000"), "filled"));
    assert_eq!(runs(&server), 4);
    // Without a cache it is the function alone.
    let none = start("classic", "data_cache_memory = 0");
    assert_eq!([of(&none, "[1]"), of(&none, "[1]")], ["[\"of\",1]", "[\"of\",1]"]);
    assert_eq!(runs(&none), 2);
}
