//! The data cache: values that all workers of an application share, computed once.

use std::collections::BTreeSet;
use std::thread;

use tests::snapshot::{both, is_sanitized, rewind, snapshot};
use tests::{Server, Setup, amount, process, wait_until};

/// By `?do=`; the rest of the query says with what.
const CASES: &str = r#"
case 'store': echo json_encode(reprise_cache_store($_GET['key'], json_decode($_GET['value'], true), (int)($_GET['ttl'] ?? 0), $_GET['tags'] ?? [])); break;
case 'fetch': echo json_encode(reprise_cache_fetch($_GET['key'], 'none')); break;
case 'delete': echo json_encode(reprise_cache_delete($_GET['key'])); break;
case 'invalidate': echo json_encode(reprise_cache_invalidate($_GET['tags'])); break;
case 'flush': echo json_encode(reprise_cache_flush()); break;
case 'count': echo reprise_cache_increment($_GET['key'], 1); break;
case 'pid': echo getmypid(); break;
case 'stats': echo json_encode(reprise_cache_stats()); break;
case 'compute': echo reprise_cache($_GET['key'], function (int &$ttl) {
        file_put_contents(getenv('RUNS') . '/log', getmypid() . "\n", FILE_APPEND | LOCK_EX);
        if (isset($_GET['dies']) && !file_exists(getenv('RUNS') . '/died')) { touch(getenv('RUNS') . '/died'); usleep(100000); posix_kill(getmypid(), SIGKILL); }
        if (isset($_GET['throws'])) throw new RuntimeException('no');
        if (isset($_GET['exits'])) exit('left');
        if (isset($_GET['own'])) return reprise_cache($_GET['key'], fn () => 'inner');
        if (isset($_GET['waits'])) for ($i = 0; $i < 4000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); }
        if (isset($_GET['forgets'])) $ttl = 0;
        usleep(1000 * (int)($_GET['ms'] ?? 0));
        return 'made ' . count(file(getenv('RUNS') . '/log'));
    }, (int)($_GET['ttl'] ?? 60), (int)($_GET['stale'] ?? 0), $_GET['tags'] ?? [], (float)($_GET['early'] ?? 0)); break;
"#;

fn runs(server: &Server) -> usize {
    std::fs::read_to_string(server.directory().join("runs/log")).unwrap_or_default().lines().count()
}

fn with_runs(setup: Setup) -> Setup {
    let runs = setup.writable("runs");
    setup.env("RUNS", &runs)
}

/// In classic mode.
fn classic(workers: usize, more: &str) -> Server {
    let script = format!(
        "<?php header('X-Mode: ' . reprise_info()['mode']);\ntry {{ switch ($_GET['do'] ?? '') {{\n{CASES}\n}} }} catch (Throwable $e) {{ echo get_class($e), ': ', $e->getMessage(); }}"
    );
    with_runs(Setup::empty())
        .file("index.php", script)
        .application(&format!("workers = {workers}\ncache_memory = 0\n{more}"))
        .start()
}

/// In a worker script.
fn looped(workers: usize) -> Server {
    let script = format!(
        "<?php\nwhile (reprise_handle_request(function () {{ try {{ switch ($_GET['do'] ?? '') {{\n{CASES}\n}} }} catch (Throwable $e) {{ echo get_class($e), ': ', $e->getMessage(); }} }}));"
    );
    with_runs(Setup::empty()).file("index.php", script).application(&format!("workers = {workers}")).start()
}

fn get(server: &Server, query: &str) -> String {
    let response = server.get(&format!("/?do={query}"));
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.text()
}

/// What any mode does: one worker stores, the others find it.
fn is_shared(server: &Server) {
    assert_eq!(get(server, "fetch&key=a"), "\"none\"");
    let value = r#"{"text":"x","list":[1,2.5,null,true],"deep":{"a":{"b":[]}},"7":"seven"}"#;
    assert_eq!(get(server, &format!("store&key=a&value={value}&tags[]=t&tags[]=u")), "true");
    let pids: BTreeSet<String> = (0..40)
        .map(|_| {
            assert_eq!(get(server, "fetch&key=a"), value);
            get(server, "pid")
        })
        .collect();
    assert!(!pids.is_empty());
    assert_eq!(get(server, "invalidate&tags[]=u"), "true");
    assert_eq!(get(server, "fetch&key=a"), "\"none\"");
    for number in 1..=20 {
        assert_eq!(get(server, "count&key=n"), number.to_string());
    }
    assert_eq!(get(server, "delete&key=n"), "true");
    assert_eq!(get(server, "delete&key=n"), "false");
    assert_eq!(get(server, "store&key=b&value=1"), "true");
    assert_eq!(get(server, "flush"), "true");
    assert_eq!(get(server, "fetch&key=b"), "\"none\"");
    // A number that PHP has is no other kind of number.
    assert_eq!(get(server, "store&key=c&value=1.0"), "true");
    assert_eq!(get(server, "count&key=c"), "");
}

#[test]
fn values_are_shared_by_all_workers_in_classic_mode() {
    let server = classic(3, "");
    is_shared(&server);
}

#[test]
fn values_are_shared_by_all_workers_of_a_worker_script() {
    is_shared(&looped(3));
}

#[test]
fn values_are_shared_by_all_clones() {
    both(|| with_runs(snapshot("", CASES)), |lane| is_shared(lane));
}

/// Code that changes what it fetched changes its own copy.
#[test]
fn who_changes_a_value_changes_a_copy() {
    const CHANGES: &str = r#"
case 'change':
    reprise_cache_add('v', ['b' => [3, 1, 2], 'a' => 'text', 'o' => ['k' => ['deep' => 1]]]);
    $value = reprise_cache_fetch('v');
    sort($value['b']); $value['a'] .= '!'; $value['o']['k']['deep']++; $value['new'] = 1; unset($value['o']['x']);
    foreach ($value as &$each) { if (is_array($each)) $each[] = 9; } unset($each);
    ksort($value); array_walk_recursive($value, function (&$one) { $one = 'walked'; });
    $other = reprise_cache_fetch('v'); next($other); end($other); array_push($other['b'], 4); $GLOBALS['kept'] = &$other['a']; $GLOBALS['kept'] = 'global';
    preg_match_all('/./', reprise_cache_fetch('v')['a'], $found); echo count($found[0]);
    echo json_encode(reprise_cache_fetch('v')); break;
"#;
    const IS: &str = r#"4{"b":[3,1,2],"a":"text","o":{"k":{"deep":1}}}"#;
    both(|| snapshot("", CHANGES), |lane| (0..30).for_each(|_| assert_eq!(lane.get("/?do=change").text(), IS)));
    let script = format!("<?php switch ('change') {{ {CHANGES} }}");
    let server = Setup::empty().file("index.php", script).start();
    (0..30).for_each(|_| assert_eq!(server.get("/").text(), IS));
}

/// A boot gets a copy: what it read stays, whatever happens to the value.
#[test]
fn what_a_boot_has_read_stays() {
    let boot = "reprise_cache_store('early', ['of' => ['the' => 'boot']]); $held = reprise_cache_fetch('early');";
    let cases = "case 'held': echo json_encode($held); break;\ncase 'fill': for ($i = 0; $i < 3000; $i++) reprise_cache_store(\"f$i\", str_repeat(chr(65 + $i % 26), 3000)); echo 'filled'; break;\n";
    both(
        || snapshot(boot, cases).application("data_cache_memory = \"1M\""),
        |lane| {
            for _ in 0..6 {
                assert_eq!(lane.get("/?do=fill").text(), "filled");
                assert_eq!(lane.get("/?do=held").text(), r#"{"of":{"the":"boot"}}"#);
            }
        },
    );
}

/// 200 cold workers ask at once.
#[test]
fn a_crowd_has_a_value_computed_once() {
    let crowd = amount(40, 500);
    let server = classic(crowd, "queue = 600\ndata_cache_wait = \"60s\"");
    let texts: Vec<String> = thread::scope(|scope| {
        let asked: Vec<_> = (0..crowd).map(|_| scope.spawn(|| get(&server, "compute&key=crowd&ms=300"))).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| text == "made 1"), "{texts:?}");
    assert_eq!(runs(&server), 1);
    assert!(get(&server, "stats").contains("\"computed\":1,"));
}

#[test]
fn a_computation_that_dies_is_taken_over_at_once() {
    for server in [classic(4, ""), looped(4)] {
        let first = thread::scope(|scope| {
            let dying = scope.spawn(|| server.get("/?do=compute&key=k&dies").status);
            wait_until("it computes", 10, || runs(&server) == 1);
            let began = std::time::Instant::now();
            let text = get(&server, "compute&key=k");
            assert!(began.elapsed() < tests::seconds(3), "{:?}", began.elapsed());
            assert!(dying.join().unwrap() >= 500);
            text
        });
        assert_eq!(first, "made 2");
        assert_eq!(get(&server, "compute&key=k"), "made 2");
    }
}

#[test]
fn what_a_computation_may_do() {
    for server in [classic(3, ""), looped(3)] {
        for _ in 0..3 {
            assert_eq!(get(&server, "compute&key=throws&throws"), "RuntimeException: no");
        }
        assert_eq!(runs(&server), 3, "an exception stores nothing, and frees the lease");
        assert_eq!(get(&server, "compute&key=throws"), "made 4");
        assert_eq!(get(&server, "compute&key=exits&exits"), "left");
        assert_eq!(get(&server, "compute&key=exits"), "made 6");
        let own = get(&server, "compute&key=own&own");
        assert!(own.contains("asks for its own value"), "{own}");
        assert_eq!(get(&server, "compute&key=forgets&forgets"), "made 8");
        assert_eq!(get(&server, "compute&key=forgets&forgets"), "made 9");
    }
}

/// Stale values are given at once; one request computes after its response.
#[test]
fn a_stale_value_is_renewed_after_the_response() {
    for server in [classic(3, ""), looped(3)] {
        assert_eq!(get(&server, "compute&key=s&ttl=1&stale=60"), "made 1");
        wait_until("it is stale", 10, || {
            let text = get(&server, "compute&key=s&ttl=1&stale=60&ms=400");
            assert!(text == "made 1" || runs(&server) > 1, "{text}");
            runs(&server) > 1
        });
        assert_eq!(
            get(&server, "compute&key=s&ttl=1&stale=60&ms=400"),
            "made 1",
            "one computes, the others get the old value"
        );
        wait_until("it is renewed", 10, || get(&server, "compute&key=s&ttl=60&stale=60") == "made 2");
    }
}

/// A leader that began before an invalidation, a removal or a flush does not store.
#[test]
fn what_was_computed_from_old_facts_is_not_stored() {
    for change in ["invalidate&tags[]=t", "delete&key=k", "flush", "store&key=k&value=\"new\""] {
        let server = classic(3, "");
        thread::scope(|scope| {
            let slow = scope.spawn(|| get(&server, "compute&key=k&waits&tags[]=t"));
            wait_until("it computes", 10, || runs(&server) == 1);
            get(&server, change);
            std::fs::write(server.directory().join("runs/go"), "").unwrap();
            assert_eq!(slow.join().unwrap(), "made 1", "who asked before the change gets what was computed");
        });
        let after = get(&server, "compute&key=k&tags[]=t");
        assert_eq!(after, if change.starts_with("store") { "new" } else { "made 2" }, "{change}");
    }
}

#[test]
fn a_lock_ends_with_its_request_and_its_process() {
    const LOCKS: &str = r#"<?php
    $got = reprise_cache_lock('l', 60);
    if (isset($_GET['dies'])) posix_kill(getmypid(), SIGKILL);
    if (isset($_GET['hold'])) { touch(getenv('RUNS') . '/held'); for ($i = 0; $i < 4000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); } }
    if (isset($_GET['fatal'])) undefined_function();
    echo json_encode([$got, reprise_cache_lock('l'), reprise_cache_lock('other'), reprise_cache_unlock('nobodys')]);
    if (isset($_GET['unlock'])) echo json_encode([reprise_cache_unlock('l'), reprise_cache_unlock('l'), reprise_cache_lock('l')]);
    "#;
    let server = with_runs(Setup::empty()).file("index.php", LOCKS).application("workers = 3").start();
    let free = "[true,false,true,false]";
    assert_eq!(server.get("/").text(), free);
    assert_eq!(server.get("/?unlock").text(), format!("{free}[true,false,true]"));
    for end in ["dies", "fatal"] {
        assert!(server.get(&format!("/?{end}")).status >= 500);
        // Whoever has the whole response finds the lock free, on whichever worker.
        for _ in 0..100 {
            assert_eq!(server.get("/").text(), free, "after {end}");
        }
    }
    thread::scope(|scope| {
        let holder = scope.spawn(|| server.get("/?hold").text());
        wait_until("it is held", 10, || server.directory().join("runs/held").exists());
        assert_eq!(server.get("/").text(), "[false,false,true,false]");
        std::fs::write(server.directory().join("runs/go"), "").unwrap();
        assert_eq!(holder.join().unwrap(), free);
    });
    assert_eq!(server.get("/").text(), free);
}

#[test]
fn bad_input_is_refused_in_words() {
    const BAD: &str = r#"<?php
    enum Suit: string { case Hearts = 'h'; }
    function says(callable $what) { try { return json_encode($what()); } catch (Throwable $e) { return get_class($e) . ': ' . $e->getMessage(); } }
    $self = [1]; $self['self'] = &$self; $deep = []; for ($i = 0; $i < 600; $i++) $deep = [$deep]; $x = 1; $refs = [&$x, &$x];
    foreach ([
        fn () => reprise_cache_store('', 1), fn () => reprise_cache_store(str_repeat('k', 1025), 1), fn () => reprise_cache_store("\0\xff\n/..", "\0\xff"),
        fn () => bin2hex(reprise_cache_fetch("\0\xff\n/..")), fn () => reprise_cache_store('k', fopen('php://memory', 'r')),
        fn () => reprise_cache_store('k', [1, [fopen('php://memory', 'r')]]), fn () => reprise_cache_store('k', fn () => 1), fn () => reprise_cache_store('k', $deep),
        fn () => reprise_cache_store('self', $self), fn () => reprise_cache_fetch('self')['self']['self'][0],
        fn () => reprise_cache_store('refs', $refs), function () { $got = reprise_cache_fetch('refs'); $got[0] = 2; return $got; },
        fn () => reprise_cache_store('nan', [NAN, INF, -0.0, PHP_INT_MIN, null]), fn () => array_map('strval', reprise_cache_fetch('nan')),
        function () { $holes = [1, 2, 3, 4]; unset($holes[1], $holes[2]); reprise_cache_store('holes', $holes); $got = reprise_cache_fetch('holes'); $got[] = 5; return $got; },
        function () { $holes = ['a' => 1, 'b' => 2, 'c' => 3]; unset($holes['b']); reprise_cache_store('h', $holes); $got = reprise_cache_fetch('h'); $got['b'] = 9; return $got; },
        fn () => [reprise_cache_store('big', 1), reprise_cache_store('big', str_repeat('x', 60 << 20)), reprise_cache_fetch('big')],
        fn () => reprise_cache_store_many(['k' => 1], -1), fn () => reprise_cache_store_many(['k' => 1], 0, ['']), fn () => reprise_cache_store('k', 1, -1), fn () => reprise_cache_store('k', 1, 0, ['']),
        fn () => reprise_cache_store('k', 1, 0, [1]), fn () => reprise_cache_store('k', 1, 0, array_fill(0, 65, 't')), fn () => reprise_cache('k', fn () => 1, early: NAN),
        fn () => reprise_cache_lock('l', 0.0), fn () => reprise_cache_lock('l', NAN), fn () => reprise_cache_fetch_many(['12', 'holes', 'zz'], 'no'),
        fn () => reprise_cache_store_many(['12' => 'twelve', 'y' => 2]), fn () => reprise_cache_fetch_many(['12', 'y']), fn () => reprise_cache_delete_many(['12', 'y']),
        fn () => reprise_cache_store('enum', Suit::Hearts), fn () => reprise_cache_fetch('enum') === Suit::Hearts, fn () => reprise_cache_store('k', [Suit::Hearts]),
        fn () => reprise_cache_fetch('k')[0] === Suit::Hearts, fn () => reprise_cache_store('k', 'old'), fn () => reprise_cache_store('k', 'new', only_if: 'other'),
        fn () => reprise_cache_store('k', 'new', only_if: 'old'), fn () => reprise_cache_delete('k', 'old'), fn () => reprise_cache_delete('k', 'new'),
    ] as $what) echo says($what), "\n";
    "#;
    let server = Setup::empty().file("index.php", BAD).ini("memory_limit", "256M").start();
    let key = "must be 1 to 1024 bytes long";
    let wanted = [
        format!("ValueError: reprise_cache_store(): Argument #1 ($key) {key}"),
        format!("ValueError: reprise_cache_store(): Argument #1 ($key) {key}"),
        "true".to_owned(),
        "\"00ff\"".to_owned(),
        "ValueError: a resource cannot be stored in the data cache".to_owned(),
        "ValueError: a resource cannot be stored in the data cache".to_owned(),
        "Exception: Serialization of 'Closure' is not allowed".to_owned(),
        "ValueError: an array that is nested deeper than 512 levels cannot be stored in the data cache".to_owned(),
        "true".to_owned(),
        "1".to_owned(),
        "true".to_owned(),
        "[2,2]".to_owned(),
        "true".to_owned(),
        r#"["NAN","INF","-0","-9223372036854775808",""]"#.to_owned(),
        r#"{"0":1,"3":4,"4":5}"#.to_owned(),
        r#"{"a":1,"c":3,"b":9}"#.to_owned(),
        "[true,false,null]".to_owned(),
        "ValueError: reprise_cache_store_many(): Argument #2 ($ttl) must be 0 to 1000000000 seconds".to_owned(),
        "ValueError: reprise_cache_store_many(): Argument #3 ($tags) must have strings of 1 to 1024 bytes".to_owned(),
        "ValueError: reprise_cache_store(): Argument #3 ($ttl) must be 0 to 1000000000 seconds".to_owned(),
        "ValueError: reprise_cache_store(): Argument #4 ($tags) must have strings of 1 to 1024 bytes".to_owned(),
        "ValueError: reprise_cache_store(): Argument #4 ($tags) must have strings of 1 to 1024 bytes".to_owned(),
        "ValueError: reprise_cache_store(): Argument #4 ($tags) must have at most 64 tags".to_owned(),
        "ValueError: reprise_cache(): Argument #6 ($early) must be between 0 and 1000".to_owned(),
        "ValueError: reprise_cache_lock(): Argument #2 ($lease) must be more than 0 and at most 1000000000 seconds"
            .to_owned(),
        "ValueError: reprise_cache_lock(): Argument #2 ($lease) must be more than 0 and at most 1000000000 seconds"
            .to_owned(),
        r#"{"12":"no","holes":{"0":1,"3":4},"zz":"no"}"#.to_owned(),
        "true".to_owned(),
        r#"{"12":"twelve","y":2}"#.to_owned(),
        "true".to_owned(),
        "true".to_owned(),
        "true".to_owned(),
        "true".to_owned(),
        "true".to_owned(),
        "true".to_owned(),
        "false".to_owned(),
        "true".to_owned(),
        "false".to_owned(),
        "true".to_owned(),
    ];
    for _ in 0..3 {
        let text = server.get("/").text();
        for (number, (is, wanted)) in text.lines().zip(&wanted).enumerate() {
            assert_eq!(is, wanted, "line {number} of\n{text}");
        }
        assert_eq!(text.lines().count(), wanted.len(), "{text}");
    }
}

/// Values outlive a reload; those of another size do not.
#[test]
fn values_outlive_a_reload() {
    let server = classic(2, "data_cache_memory = \"8M\"");
    assert_eq!(get(&server, "store&key=a&value=[1,{\"b\":\"c\"}]"), "true");
    server.reload();
    assert_eq!(get(&server, "fetch&key=a"), r#"[1,{"b":"c"}]"#);
    server.reconfigure("data_cache_memory = \"8M\"", "data_cache_memory = \"4M\"");
    server.reload();
    assert_eq!(get(&server, "fetch&key=a"), "\"none\"");
    server.reconfigure("data_cache_memory = \"4M\"", "data_cache_memory = 0");
    server.reload();
    assert_eq!(get(&server, "store&key=a&value=1"), "false");
    assert_eq!(get(&server, "fetch&key=a"), "\"none\"");
    assert_eq!(get(&server, "compute&key=a"), "made 1");
    assert_eq!(get(&server, "compute&key=a"), "made 2");
    assert_eq!(get(&server, "stats"), "[]");
}

/// A child that a request has forked goes on with the values that its parent had, whatever comes in their place.
#[test]
fn a_forked_child_keeps_what_its_parent_had() {
    const FORKS: &str = r#"
case 'fork':
    reprise_cache_store('held', $list = array_fill(0, 200, 'held by a child'));
    $held = reprise_cache_fetch('held');
    if (pcntl_fork() === 0) {
        touch(getenv('RUNS') . '/forked');
        for ($i = 0; $i < 8000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); }
        file_put_contents(getenv('RUNS') . '/is', $held === $list && reprise_cache_fetch('of the child', 'no') === 'no' ? 'whole' : 'changed');
        posix_kill(getmypid(), SIGKILL);
    }
    echo 'parent'; break;
case 'fill': for ($i = 0; $i < 1000; $i++) reprise_cache_store("f$i", str_repeat(chr(65 + $i % 26), 3000)); echo json_encode(reprise_cache_stats()['refused']); break;
"#;
    let script = format!("<?php switch ($_GET['do'] ?? '') {{ {FORKS} }}");
    let server = with_runs(Setup::empty())
        .file("index.php", script)
        .application("workers = 2\ndata_cache_memory = \"1M\"")
        .start();
    assert_eq!(get(&server, "fork"), "parent");
    let runs = server.directory().join("runs");
    wait_until("the child runs", 10, || runs.join("forked").exists());
    for _ in 0..6 {
        get(&server, "fill");
    }
    let refused: u64 = get(&server, "fill").parse().unwrap();
    assert!(refused > 0, "its memory is not used again");
    std::fs::write(runs.join("go"), "").unwrap();
    wait_until("the child has looked", 10, || runs.join("is").exists());
    wait_until("it has written", 10, || !std::fs::read(runs.join("is")).unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(runs.join("is")).unwrap(), "whole");
    wait_until("memory is free again when it is dead", 10, || {
        let before: u64 = get(&server, "fill").parse().unwrap();
        get(&server, "fill").parse::<u64>().unwrap() == before
    });
}

/// Pages that use the cache have fast rewinds, too, once their pages are there.
#[test]
fn rewinds_stay_fast() {
    let cases = "case 'it': reprise_cache_add('big', array_fill(0, 5000, 'some text')); echo count(reprise_cache_fetch('big')), reprise_cache('made', fn () => 'x', 1), strlen(json_encode(reprise_cache_fetch_many(['a', 'b', 'big']))); if (random_int(0, 9) === 0) reprise_cache_store('often' . random_int(0, 9), str_repeat('x', 5000)); break;\n";
    rewind(
        || snapshot("", cases).application("workers = 1"),
        |lane| {
            for _ in 0..200 {
                lane.get("/?do=it");
            }
            let counted = || {
                let status = lane.status(&["--json"]);
                [tests::status::sum(&status, "fast"), tests::status::sum(&status, "scanned")]
            };
            let before = counted();
            for _ in 0..200 {
                lane.get("/?do=it");
            }
            wait_until("all are rewound", 10, || counted().iter().sum::<u64>() >= before.iter().sum::<u64>() + 200);
            let after = counted();
            assert!(after[0] - before[0] >= 190, "{before:?} {after:?}");
        },
    );
}

/// All workers together hold a value once: what of the segment is theirs, each page divided by those who have it, is its size once.
#[test]
fn many_workers_hold_one_copy() {
    // Two hundred with AddressSanitizer have no room on the machine.
    let workers = if is_sanitized() { 20 } else { amount(20, 200) };
    let script = "<?php reprise_cache_add('big', array_map(fn ($i) => \"row $i\" . str_repeat('x', 900), range(1, 4000))); $big = reprise_cache_fetch('big'); $sum = 0; foreach ($big as $row) $sum += strlen($row); touch(getenv('RUNS') . '/' . getmypid()); for ($i = 0; $i < 4000 && count(scandir(getenv('RUNS'))) < (int)$_GET['all'] + 2; $i++) { usleep(5000); clearstatcache(); } echo $sum;";
    let server = with_runs(Setup::empty())
        .file("index.php", script)
        .application(&format!("workers = {workers}\ncache_memory = 0"))
        .start();
    get(&server, "&all=0");
    thread::scope(|scope| {
        let asked: Vec<_> = (0..workers).map(|_| scope.spawn(|| get(&server, &format!("&all={workers}")))).collect();
        let sums: BTreeSet<String> = asked.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(sums.len(), 1, "{sums:?}");
    });
    let shared = |pid: &i32| process::share_of(*pid, "reprise-data");
    let all: u64 = server.workers().iter().map(shared).sum();
    assert!((3_600..12_000).contains(&all), "{all} KiB of {workers} workers");
}
