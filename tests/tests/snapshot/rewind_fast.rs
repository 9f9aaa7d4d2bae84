//! What applications do in each request does not keep rewinds from being fast, once the hot pages and patterns are learned.

use std::cell::Cell;

use tests::snapshot::{Lane, rewind, snapshot};
use tests::status::sum;
use tests::{Setup, wait_until};

/// Of so many requests: how many rewinds were fast, in percent.
fn share(lane: &Lane, what: &str, times: usize) -> u64 {
    let counted = |lane: &Lane| {
        let status = lane.status(&["--json"]);
        [sum(&status, "fast"), sum(&status, "scanned")]
    };
    let before = counted(lane);
    let first = lane.same(what, times);
    assert!(!first.is_empty(), "{what} answers nothing");
    wait_until("all requests are rewound", 10, || {
        counted(lane).iter().sum::<u64>() >= before.iter().sum::<u64>() + times as u64
    });
    let [fast, scanned] = counted(lane);
    100 * (fast - before[0]) / (fast - before[0] + scanned - before[1])
}

/// One clone answers: it learns its hot pages in the first requests.
fn fast(boot: &str, cases: &str, configure: impl Fn(Setup) -> Setup, ready: impl Fn(&Lane)) {
    rewind(
        || configure(snapshot(boot, cases).application("workers = 1")),
        |lane| {
            lane.same("it", 40);
            ready(lane);
            lane.same("it", 100);
            let share = share(lane, "it", 200);
            assert!(share >= 95, "{share} % of the rewinds are fast");
        },
    );
}

/// The clone has left for a snapshot with what its requests have needed.
fn learned(lane: &Lane) {
    wait_until("the clone has left for the newer snapshot", 20, || {
        lane.same("it", 4);
        lane.recycled("learned") >= 1
    });
}

/// A database with a write-ahead log: each connection maps the file of its index.
#[test]
fn with_a_connection_to_sqlite() {
    let boot = "$file = getenv('PLACE') . '/base.sqlite'; (new PDO(\"sqlite:$file\"))->exec('pragma journal_mode=wal; create table t (n); insert into t values (7)');";
    let cases = "case 'it': $base = new PDO(\"sqlite:$file\"); $base->exec('begin; update t set n = 7; commit'); echo $base->query('select n from t')->fetchColumn(); break;\n";
    fast(boot, cases, |setup| setup, |_| {});
}

/// Each connection keeps what it reads in libc's heap, up to 2,000 KiB, which the boot has not used.
#[test]
fn with_a_connection_to_sqlite_that_reads_much() {
    let cases = "case 'it': $base = new PDO(\"sqlite:$file\"); $base->exec('create table if not exists t (n)'); if (!$base->query('select 1 from t')->fetch()) $base->exec('with recursive c(x) as (select 1 union all select x + 1 from c limit 1500) insert into t select zeroblob(1000) from c'); echo $base->query('select sum(length(n)) from t')->fetchColumn(); break;\n";
    fast("$file = getenv('PLACE') . '/base.sqlite';", cases, |setup| setup, |_| {});
}

/// ZendMM's chunks, and a block of more than a chunk, beyond what the boot has used.
#[test]
fn with_memory_beyond_the_boot() {
    let cases = "case 'it': for ($i = 0; $i < 40000; $i++) $own[] = str_repeat('x', 300); $own[] = str_repeat('y', 5 << 20); echo count($own); break;\n";
    fast("", cases, |setup| setup, |_| {});
}

/// PHP keeps patterns apart by the locale for which it has compiled them: those of the boot's locale are learned.
#[test]
fn with_patterns_of_a_locale() {
    let cases = r#"case 'it': for ($i = $sum = 0; $i < 60; $i++) $sum += preg_match("~^(?<word>w{$i}x|[a-f]{0,$i}9)+$~i", "w{$i}xaa9"); echo $sum, setlocale(LC_ALL, 0); break;
"#;
    fast("setlocale(LC_ALL, 'C.UTF-8', 'C.utf8') or exit;", cases, |setup| setup, learned);
}

/// A locale that requests set, and PHP sets back: its files stay mapped once it is learned.
#[test]
fn with_a_locale_of_the_requests() {
    let cases =
        "case 'it': echo setlocale(LC_ALL, 'C.utf8'), ctype_alpha('a') ? 'y' : 'n', setlocale(LC_ALL, 0); break;\n";
    fast("setlocale(LC_ALL, 0);", cases, |setup| setup, learned);
}

/// The fewest microseconds that a first call of OpenSSL takes in a request.
fn first_call_us(boot: &str) -> u64 {
    let cases = "case 'it': $began = hrtime(true); openssl_encrypt('x', 'des-ede3-cbc', str_repeat('k', 24), 1, str_repeat('i', 8)); echo intdiv(hrtime(true) - $began, 1000); break;\n";
    let least = Cell::new(u64::MAX);
    rewind(
        || snapshot(boot, cases).application("workers = 1"),
        |lane| {
            least.set(lane.repeat("it", 40).iter().map(|text| text.parse().expect("a number")).min().expect("a time"))
        },
    );
    least.get()
}

/// OpenSSL makes what it needs before the snapshot, whether or not the boot has used it. Each request took a millisecond for that.
#[test]
fn openssl_is_ready() {
    let [used, unused] =
        ["openssl_encrypt('x', 'des-ede3-cbc', str_repeat('k', 24), 1, str_repeat('i', 8));", ""].map(first_call_us);
    assert!(unused < used * 3 + 100, "{unused} µs, and {used} µs where the boot has used it");
}
