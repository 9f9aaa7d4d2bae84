//! What holds values of the data cache longer than it should, or writes to them.

use std::thread;

use tests::snapshot::{both, snapshot};
use tests::{Server, Setup, wait_until};

fn with_runs(setup: Setup) -> Setup {
    let runs = setup.writable("runs");
    setup.env("RUNS", &runs)
}

/// In classic mode.
fn classic(cases: &str, lines: &str) -> Server {
    let script = format!("<?php switch ($_GET['do'] ?? '') {{ {cases} }}");
    with_runs(Setup::empty()).file("index.php", script).application(lines).start()
}

/// In a worker script.
fn looped(cases: &str, lines: &str) -> Server {
    let script =
        format!("<?php while (reprise_handle_request(function () {{ switch ($_GET['do'] ?? '') {{ {cases} }} }}));");
    with_runs(Setup::empty()).file("index.php", script).application(lines).start()
}

/// opcache counts references to the path of a script that it keeps under another path, whether the string is interned or not.
#[test]
fn scripts_are_included_by_paths_from_the_cache() {
    const PATHS: &str = r#"
case 'paths':
    $own = getenv('RUNS') . '/' . getmypid() . random_int(0, PHP_INT_MAX);
    mkdir($own); symlink($own, "$own.link");
    $names = ['required', 'once', 'compiled', 'valid', 'resolved'];
    foreach ($names as $name) { file_put_contents("$own/$name.php", "<?php return '$name';"); touch("$own/$name.php", time() - 100); }
    reprise_cache_store($own, array_combine($names, array_map(fn ($name) => "$own.link/$name.php", $names)));
    $paths = reprise_cache_fetch($own);
    echo require $paths['required'], ' ', include_once $paths['once'], ' ', opcache_compile_file($paths['compiled']) ? 'compiled' : '', ' ', require "$own/valid.php", require $paths['valid'], ' ';
    require "$own/resolved.php"; echo require_once $paths['resolved'], ' ';
    set_include_path($paths['required'] . ':' . get_include_path()); ini_set('include_path', $paths['valid']); opcache_is_script_cached($paths['once']);
    echo opcache_invalidate($paths['required'], true) ? 'gone' : '', ' ', require $paths['required']; break;
"#;
    const IS: &str = "required once compiled validvalid 1 gone required";
    let server = classic(PATHS, "workers = 1");
    (0..5).for_each(|_| assert_eq!(server.get("/?do=paths").text(), IS));
    both(|| with_runs(snapshot("", PATHS)), |lane| (0..5).for_each(|_| assert_eq!(lane.get("/?do=paths").text(), IS)));
}

/// Code that runs while an object is unserialized gets other values, and fills the cache.
#[test]
fn a_value_stays_while_it_is_unserialized() {
    const LATE: &str = r#"
case 'late':
    $is = [unserialize('O:4:"Late":1:{s:1:"a";i:1;}')];
    for ($i = 0; $i < 2000; $i++) $is[] = "the string with the number $i";
    /* The request before may still hold all memory for a moment. */
    for ($i = 0; $i < 2000 && !reprise_cache_store('late', $is); $i++) usleep(1000);
    reprise_cache_store('other', 1);
    $runs = 0;
    spl_autoload_register($load = function () use (&$runs) {
        $runs++; reprise_cache_fetch('other'); reprise_cache_delete('late');
        for ($i = 0; $i < 1500; $i++) reprise_cache_store("f$i", str_repeat(chr(65 + $i % 26), 3000));
    });
    $got = reprise_cache_fetch('late'); spl_autoload_unregister($load);
    array_shift($is); if (is_array($got)) array_shift($got);
    echo $runs > 0 && $got === $is ? 'whole' : 'changed'; break;
"#;
    for server in [classic(LATE, "data_cache_memory = \"1M\""), looped(LATE, "data_cache_memory = \"1M\"")] {
        (0..5).for_each(|_| assert_eq!(server.get("/?do=late").text(), "whole"));
    }
}

/// A value whose class does not want to be unserialized any more does not stand in the way of the next.
#[test]
fn a_value_that_cannot_be_read_is_computed_anew() {
    const POISON: &str = r#"
case 'poison':
    class Poison { public $a = 1; function __unserialize(array $data): void { if (isset($_GET['throws'])) throw new LogicException('not me'); } }
    $made = 0;
    $value = reprise_cache('p', function () use (&$made) { $made++; return isset($_GET['throws']) ? 'text' : new Poison; });
    echo $made, is_object($value) ? get_class($value) : $value; break;
"#;
    let server = classic(POISON, "workers = 1");
    assert_eq!(server.get("/?do=poison").text(), "1Poison");
    assert_eq!(server.get("/?do=poison").text(), "0Poison");
    assert_eq!(server.get("/?do=poison&throws").text(), "1text");
    assert_eq!(server.get("/?do=poison&throws").text(), "0text");
    wait_until("the log says why", 10, || {
        server.log().contains("cannot be read, and is computed anew: LogicException: not me")
    });
}

/// What a computation holds back while it runs: nothing that it got as a copy.
#[test]
fn a_worker_script_that_computes_holds_no_memory() {
    const COMPUTES: &str = r#"
case 'compute':
    echo reprise_cache('slow', function () { touch(getenv('RUNS') . '/began'); for ($i = 0; $i < 4000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); } return 'made'; }); break;
case 'fill': for ($i = 0; $i < 3000; $i++) reprise_cache_store("f$i", str_repeat(chr(65 + $i % 26), 3000)); echo json_encode(reprise_cache_stats()['refused']); break;
"#;
    let server = looped(COMPUTES, "workers = 2\ndata_cache_memory = \"1M\"");
    thread::scope(|scope| {
        let slow = scope.spawn(|| server.get("/?do=compute").text());
        let runs = server.directory().join("runs");
        wait_until("it computes", 10, || runs.join("began").exists());
        let refused = server.get("/?do=fill").text();
        std::fs::write(runs.join("go"), "").unwrap();
        assert_eq!(refused, "0");
        assert_eq!(slow.join().unwrap(), "made");
    });
}

/// A boot is no request: what it has locked is free when it has come to its snapshot.
#[test]
fn locks_of_a_boot_end_with_it() {
    both(
        || {
            snapshot(
                "reprise_cache_lock('boot', 1000);",
                "case 'lock': echo json_encode(reprise_cache_lock('boot', 1000)); break;\n",
            )
        },
        |lane| assert_eq!(lane.get("/?do=lock").text(), "true"),
    );
}

/// Nobody reaps a child that a request has left. Its locks end with it all the same.
#[test]
fn locks_of_children_end_with_them() {
    const CHILDREN: &str = r#"
case 'fork':
    if (pcntl_fork() === 0) { reprise_cache_lock('child', 1000); touch(getenv('RUNS') . '/locked'); for ($i = 0; $i < 4000 && !file_exists(getenv('RUNS') . '/go'); $i++) { usleep(2500); clearstatcache(); } posix_kill(getmypid(), SIGKILL); }
    break;
case 'lock': echo json_encode(reprise_cache_lock('child', 0.01)); break;
"#;
    let server = classic(CHILDREN, "workers = 2");
    server.get("/?do=fork");
    let runs = server.directory().join("runs");
    wait_until("it is locked", 10, || runs.join("locked").exists());
    assert_eq!(server.get("/?do=lock").text(), "false");
    std::fs::write(runs.join("go"), "").unwrap();
    wait_until("it is free", 10, || server.get("/?do=lock").text() == "true");
}
