//! Processes that use the data cache are killed at any moment: no lock and no lease outlives them, and no value is wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tests::snapshot::{best_isolation, snapshot};
use tests::{Server, Setup, amount, process, wait_until};

/// `?do=die` forks children that work, and kills each after some microseconds: nobody but this process learns of their deaths.
const WORK: &str = r#"
case 'work': echo work((int)$_GET['seed'], 200); break;
case 'die':
    mt_srand((int)$_GET['seed']); $wrong = ''; $parent = getmypid();
    for ($i = 0; $i < 20; $i++) {
        $children = [];
        foreach ([1, 2] as $n) { $seed = mt_rand(); if (($pid = pcntl_fork()) === 0) { $is = work($seed, 100000, $parent); file_put_contents(getenv('RUNS') . '/wrong', "$is\n", FILE_APPEND); posix_kill(getmypid(), SIGKILL); } $children[] = $pid; }
        usleep(mt_rand(0, 3000));
        foreach ($children as $pid) { posix_kill($pid, SIGKILL); pcntl_waitpid($pid, $status); }
        file_put_contents(getenv('RUNS') . '/kills', 'kk', FILE_APPEND);
        $wrong .= work(mt_rand(), 5);
    }
    echo $wrong === str_repeat('right', 20) ? 'right' : $wrong; break;
case 'hold': reprise_cache_lock('held', 1000); file_put_contents(getenv('RUNS') . '/held', getmypid()); for ($i = 0; $i < 4000; $i++) usleep(2500); break;
case 'take': for ($i = 0; $i < 2000 && !reprise_cache_lock('held', 1000); $i++) usleep(1000); echo $i; break;
case 'after':
    $slow = [];
    for ($i = 0; $i <= 30; $i++) {
        $began = hrtime(true);
        for ($n = 0; $n < 5000 && !reprise_cache_lock("l$i", 1000); $n++) usleep(1000);
        if (!right(reprise_cache("k$i", 'make', 60))) $slow[] = "k$i is wrong";
        $took = (hrtime(true) - $began) / 1e6;
        $most = max($most ?? 0, $took);
        if ($took > 10000) $slow[] = "$i took $took ms";
    }
    file_put_contents(getenv('RUNS') . '/most', round($most));
    echo $slow ? json_encode($slow) : 'free'; break;
case 'stats': echo json_encode(reprise_cache_stats()); break;
"#;

const FUNCTIONS: &str = r#"
function make() { $n = mt_rand(); return ['n' => $n, 'list' => array_fill(0, mt_rand(1, 400), "v$n"), 'more' => ['deep' => ["v$n"]]]; }
function right($value): bool {
    if ($value === null) return true;
    if (!is_array($value) || !isset($value['n'], $value['list'], $value['more']['deep'])) return false;
    foreach ($value['list'] as $one) if ($one !== "v$value[n]") return false;
    return $value['more']['deep'] === ["v$value[n]"];
}
function work(int $seed, int $steps, int $parent = 0): string {
    mt_srand($seed);
    for ($i = 0; $i < $steps; $i++) {
        // Nobody else ends it then.
        if ($parent && posix_getppid() !== $parent) posix_kill(getmypid(), SIGKILL);
        $k = mt_rand(0, 30);
        $value = null;
        switch (mt_rand(0, 8)) {
            case 0: case 1: case 2: $value = reprise_cache_fetch("k$k"); break;
            case 3: case 4: reprise_cache_store("k$k", make(), 0, ["t$k"]); break;
            case 5: $value = reprise_cache("k$k", 'make', 60, 1); break;
            case 6: if (reprise_cache_lock("l$k", 100)) reprise_cache_unlock("l$k"); break;
            case 7: mt_rand(0, 1) ? reprise_cache_delete("k$k") : reprise_cache_invalidate(["t$k"]); break;
            case 8: if (!is_int(reprise_cache_increment('count')) && mt_rand(0, 9) === 0) reprise_cache_delete('count'); break;
        }
        if (!right($value)) return "wrong at step $i of $seed: " . substr(serialize($value), 0, 300);
    }
    return 'right';
}
"#;

fn with_runs(setup: Setup) -> Setup {
    let runs = setup.writable("runs");
    setup.env("RUNS", &runs).application("workers = 4\ndata_cache_memory = \"1M\"")
}

fn classic() -> Server {
    let script = format!("<?php {FUNCTIONS} switch ($_GET['do'] ?? '') {{ {WORK} }}");
    with_runs(Setup::empty()).file("index.php", script).start()
}

fn get(server: &Server, query: &str) -> Option<String> {
    let response = server.get(&format!("/?do={query}"));
    (response.status == 200).then(|| response.text())
}

/// Asks until a worker that is not killed meanwhile has answered.
fn sure(server: &Server, query: &str) -> String {
    let mut text = None;
    wait_until("a worker answers", 20, || {
        text = get(server, query);
        text.is_some()
    });
    text.unwrap()
}

/// Children of requests die all the time; workers do, too, and now and then the process that forks them, until so many are dead.
fn die(server: &Server, wanted: usize) {
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (workers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let children = || std::fs::metadata(server.directory().join("runs/kills")).map_or(0, |file| file.len() as usize);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let what = if number % 3 == 0 { "work" } else { "die" };
                    match get(server, &format!("{what}&seed={number}")).as_deref() {
                        Some("right") | None => {}
                        Some(other) => {
                            eprintln!("{number}: {other}");
                            wrong.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(7);
        while children() + workers.load(Ordering::Relaxed) < wanted {
            thread::sleep(Duration::from_millis(random.u64(1..150)));
            if random.u8(..40) == 0 {
                if let Some(prototype) = server.prototype() {
                    process::kill(prototype, Signal::SIGKILL);
                }
            } else if let Some(worker) = random.choice(server.workers()) {
                process::kill(worker, Signal::SIGKILL);
                workers.fetch_add(1, Ordering::Relaxed);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.into_inner(), 0);
    let said = std::fs::read_to_string(server.directory().join("runs/wrong")).unwrap_or_default();
    assert!(!said.contains("wrong"), "{said}");
    assert_eq!(sure(server, "after"), "free");
    // A lock of the dead would be held for a hundred seconds and more. How soon each was free is told, and depends on what else runs.
    let most = std::fs::read_to_string(server.directory().join("runs/most")).unwrap_or_default();
    let (children, workers, stats) = (children(), workers.into_inner(), sure(server, "stats"));
    println!("{children} children and {workers} workers killed, all locks and leases taken within {most} ms: {stats}");
    let crashes = server.log().lines().filter(|line| line.contains("SIGSEGV") || line.contains("SIGBUS")).count();
    assert_eq!(crashes, 0, "{}", server.log());
}

#[test]
fn deaths_of_classic_workers_their_children_and_their_forker() {
    die(&classic(), amount(240, 10_000));
}

#[test]
fn deaths_of_clones_and_their_children() {
    let server =
        with_runs(snapshot(FUNCTIONS, WORK)).application(&format!("isolation = \"{}\"", best_isolation())).start();
    die(&server, amount(160, 5_000));
}

/// From a worker's death until another has its lock.
#[test]
fn a_lock_of_a_killed_worker_is_free_at_once() {
    let server = classic();
    let mut times = BTreeMap::new();
    for _ in 0..amount(15, 300) {
        thread::scope(|scope| {
            let holder = scope.spawn(|| server.get("/?do=hold"));
            let mut pid = None;
            wait_until("it is locked", 10, || {
                pid = server.workers().into_iter().find(|pid| {
                    std::fs::read_to_string(server.directory().join("runs/held"))
                        .is_ok_and(|held| held.trim() == pid.to_string())
                });
                pid.is_some()
            });
            let pid = pid.unwrap();
            process::kill(pid, Signal::SIGKILL);
            let began = Instant::now();
            sure(&server, "take");
            let took = began.elapsed();
            *times.entry(took.as_millis()).or_insert(0) += 1;
            assert!(took < tests::seconds(5), "{took:?}");
            let _ = holder.join();
            std::fs::remove_file(server.directory().join("runs/held")).unwrap();
        });
    }
    println!("milliseconds until a lock is free: {times:?}");
}
