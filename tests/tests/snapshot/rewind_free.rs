//! Pages of PHP's heap that were free at the snapshot: requests work there, and no rewind copies them. What the boot left
//! in other pages is the snapshot's, and comes back.

use tests::snapshot::{Lane, both, rewind, scrubs_all, snapshot};
use tests::{process, wait_until};

/// Holes all over the heap: every second of many small blocks is free at the snapshot.
const HOLES: &str = r#"
for ($i = 0; $i < 40000; $i++) $blocks[$i] = str_repeat(chr(65 + $i % 26), 8 + $i % 300);
for ($i = 0; $i < 40000; $i += 2) unset($blocks[$i]);
function digest(): string { global $blocks; return md5(implode(',', $blocks)); }
$before = memory_get_usage();
$digest = digest();
"#;

const CASES: &str = r#"
case 'work': for ($i = 0; $i < 20000; $i++) $own[] = str_repeat(chr(97 + $i % 26), 8 + $i % 300); echo md5(implode(',', $own)), ' ', digest() === $digest ? 'whole' : 'changed'; break;
case 'usage': echo abs(memory_get_usage() - $before) < 100000 ? 'as before' : memory_get_usage() - $before, ' ', memory_get_peak_usage() >= memory_get_usage() ? 'below the peak' : 'above it'; break;
case 'extended': for ($i = 1; $i < 40000; $i += 2) $blocks[$i] .= str_repeat('+', 200); echo strlen(implode('', $blocks)); break;
case 'freed': $blocks = null; gc_mem_caches(); for ($i = 0; $i < 3000; $i++) $own[] = str_repeat('own', 700); echo count($own); break;
case 'pid': echo getmypid(); break;
"#;

/// Pages that each rewind put back, when the lane has learned which ones are written.
fn pages_per_request(lane: &Lane) -> u64 {
    let count = |lane: &Lane| lane.status(&["--json"]);
    lane.repeat("work", 60);
    let before = sum(&count(lane));
    lane.repeat("work", 40);
    let after = sum(&count(lane));
    (after.1 - before.1) / (after.0 - before.0)
}

/// Rewinds and pages of all lanes.
fn sum(status: &str) -> (u64, u64) {
    let all = |name: &str| -> u64 {
        let key = format!("\"{name}\":");
        let parts = status.split(&key).skip(1);
        parts
            .filter_map(|part| part.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok())
            .sum()
    };
    (all("fast") + all("scanned"), all("pages"))
}

/// Twenty thousand strings of a request lie on some eight hundred pages. A rewind copies none of them, unless it is to fill
/// them with zeroes; every string is right in either case, and so is the snapshot's memory around them.
#[test]
fn what_a_request_allocates_is_not_copied() {
    if scrubs_all() {
        return; // There is nothing to compare with.
    }
    let mut pages = Vec::new();
    for scrub in [false, true] {
        let setup = || snapshot(HOLES, CASES).application(&format!("scrub = {scrub}")).application("workers = 1");
        let found = std::sync::Mutex::new(0);
        rewind(setup, |lane| {
            assert!(lane.same("work", 10).ends_with("whole"));
            *found.lock().unwrap() = pages_per_request(lane);
        });
        pages.push(found.into_inner().unwrap());
    }
    if pages[0] > 0 {
        assert!(pages[0] + 500 < pages[1], "pages put back by each rewind, without and with scrub: {pages:?}");
    }
}

/// A worker that has nothing to do gives back what its requests have used, and goes on.
#[test]
fn an_idle_worker_shrinks() {
    for scrub in ["", "scrub = true"] {
        let setup = || if scrubs_all() { snapshot(HOLES, CASES) } else { snapshot(HOLES, CASES).application(scrub) };
        rewind(setup, |lane| {
            let memory = || -> u64 {
                let clones = lane.workers().into_iter().flat_map(process::children);
                clones.map(process::anonymous_kib).sum()
            };
            for _ in 0..2 {
                lane.repeat("work", 20);
                let busy = memory();
                wait_until("the worker that has worked gives back more than 2 MiB", 15, || memory() + 2048 < busy);
                assert!(lane.same("work", 4).ends_with("whole"));
            }
            assert_eq!(lane.recycled("idle"), 0, "the workers are the same");
        });
    }
}

/// PHP is not told of the free slots that the snapshot has taken out of use.
#[test]
fn usage_of_memory_is_as_before() {
    both(|| snapshot(HOLES, CASES), |lane| assert_eq!(lane.same("usage", 10), "as before below the peak"));
}

/// What the boot has used and freed again is there for requests, within `memory_limit`.
#[test]
fn memory_that_the_boot_has_freed_is_free() {
    const BOOT: &str =
        "for ($i = 0; $i < 200000; $i++) $used[] = str_repeat('x', 200); unset($used); $kept = [1, 2, 3];";
    const CASES: &str =
        "case 'use': for ($i = 0; $i < 200000; $i++) $used[] = str_repeat('y', 300); echo count($used); break;";
    both(|| snapshot(BOOT, CASES).ini("memory_limit", "96M"), |lane| assert_eq!(lane.same("use", 4), "200000"));
}

/// What requests need beyond the heap of the boot: within `memory_limit` and not counted before it is used, right when it
/// grows, shrinks and exceeds the room that the snapshot has for it, and each time as if it were new.
#[test]
fn memory_beyond_the_boot_is_as_under_php_fpm() {
    const BOOT: &str = r"
function sum(): string { return md5(implode(',', $GLOBALS['own'])); }
file_put_contents(getenv('PLACE') . '/short', str_repeat('short', 1000));
";
    const CASES: &str = r#"
case 'chunks': for ($i = 0; $i < 60000; $i++) $own[] = str_repeat(chr(97 + $i % 26), 300); echo sum(); break;
case 'grown': $all = ''; for ($i = 0; strlen($all) < 9 << 20; $i++) { $all .= str_repeat("$i,", 1000); $own[$i % 50] = "$i"; } echo md5($all), sum(); break;
case 'both': $one = $two = ''; for ($i = 0; $i < 90; $i++) { $one .= str_repeat('1', 70000); $two .= str_repeat('2', 90000); } $one[0] = $two[0]; echo md5($one), md5($two); break;
case 'shrunk': for ($i = 0; $i < 20; $i++) { $own[] = fread(fopen(getenv('PLACE') . '/short', 'r'), 5 << 20); $own[] = str_repeat('x', 3 << 20); } echo count($own), sum(); break;
case 'beyond': for ($i = 0; $i < 90; $i++) $own[] = str_repeat(chr(97 + $i % 26), 700000); unset($own[3]); $own[] = implode(',', range(0, 200000)); echo count($own), sum(); break;
case 'block': echo strlen(str_repeat('x', 150 << 20)); break;
case 'excess': register_shutdown_function(function () { echo str_starts_with(error_get_last()['message'] ?? '', 'Allowed memory size of 209715200 bytes') ? 'refused' : 'not refused'; }); $own = str_repeat('x', 200 << 20); break;
case 'counted': echo memory_get_usage(true) < memory_get_usage() + (4 << 20) ? 'what is used' : memory_get_usage(true); break;
"#;
    let setup = || snapshot(BOOT, CASES).ini("memory_limit", "200M").ini("display_errors", "0");
    both(setup, |lane| {
        let mut first = std::collections::BTreeMap::new();
        for what in ["chunks", "grown", "both", "shrunk", "beyond"].repeat(4) {
            let said = lane.text(what);
            assert!(said.len() >= 32, "{what}: {said}");
            assert_eq!(first.entry(what).or_insert_with(|| said.clone()), &said, "{what}");
            assert_eq!(lane.text("counted"), "what is used", "after {what}");
        }
        assert_eq!(lane.text("block"), (150 << 20).to_string());
        let excess = lane.get("/?do=excess");
        assert_eq!((excess.status, excess.text().as_str()), (500, "refused"));
        assert_eq!(lane.text("chunks"), first["chunks"]);
    });
}

/// Blocks of the snapshot that requests extend and free, beside work in free pages.
#[test]
fn blocks_of_the_snapshot_stay_whole() {
    both(
        || snapshot(HOLES, CASES).ini("memory_limit", "512M"),
        |lane| {
            for _ in 0..12 {
                for (what, expected) in [("extended", ""), ("work", "whole"), ("freed", "3000"), ("work", "whole")] {
                    let said = lane.text(what);
                    assert!(said.ends_with(expected) && !said.is_empty(), "{what}: {said}");
                }
            }
        },
    );
}

/// Destructors and files at the end of a request: of objects that the boot made, that a request made, and that a request
/// made after it had freed objects of the boot.
#[test]
fn objects_end_as_under_php_fpm() {
    const BOOT: &str = r#"
class Plain { public $one = 1; }
class Ends { public function __construct(public string $name) {} public function __destruct() { echo " -$this->name"; } }
$first = new Ends('boot1'); $plain = []; for ($i = 0; $i < 300; $i++) $plain[] = new ArrayObject([$i]); $second = new Ends('boot2');
$hidden = new class { public $list; }; $hidden->list = [new Ends('boot3')];
for ($i = 0; $i < 10; $i++) { $gone[] = new stdClass; } unset($gone); $alike = [new Plain, new Plain];
$place = getenv('PLACE');
"#;
    const CASES: &str = r#"
case 'none': echo 'none'; break;
case 'own': $own = new Ends('own'); $hidden->mine = new Ends('held'); echo 'own'; break;
case 'reused': unset($plain[7], $plain[200]); $hidden->a = new Ends('a'); $hidden->b = new Ends('b'); echo count($plain); break;
case 'replaced': $id = spl_object_id($alike[1]); unset($alike[1]); $hidden->a = new Ends('a'); echo spl_object_id($hidden->a) === $id ? 'replaced' : 'another handle'; break;
case 'many': for ($i = 0; $i < 200; $i++) unset($plain[$i]); $hidden->a = new Ends('a'); echo count($plain); break;
case 'freed': unset($first); $hidden->a = new Ends('a'); echo ' freed'; break;
case 'zip': unset($plain[7]); $zip = new ZipArchive; $zip->open("$place/archive.zip", ZipArchive::CREATE | ZipArchive::OVERWRITE); $zip->addFromString('name', 'text'); $hidden->zip = $zip; unset($zip); echo 'zip'; break;
case 'zipped': $zip = new ZipArchive; echo $zip->open("$place/archive.zip") === true ? $zip->getFromName('name') : 'none'; break;
case 'generator': $hidden->generator = (function () { try { yield 1; } finally { echo ' -finally'; } })(); $hidden->generator->current(); echo 'generator'; break;
case 'more': $hidden->maker = new class($hidden) { public function __construct(public $to) {} public function __destruct() { $this->to->late = new Ends('late'); echo ' -maker'; } }; echo 'more'; break;
case 'fatal': unset($plain[3]); $hidden->a = new Ends('a'); echo 'fatal'; nothing_such(); break;
"#;
    const EXPECTED: [(&str, &str); 11] = [
        ("none", "none -boot1 -boot2 -boot3"),
        ("own", "own -own -boot1 -boot2 -boot3 -held"),
        ("reused", "298 -boot1 -b -a -boot2 -boot3"),
        ("replaced", "replaced -boot1 -boot2 -boot3 -a"),
        ("many", "100 -boot1 -a -boot2 -boot3"),
        ("freed", " -boot1 freed -a -boot2 -boot3"),
        ("zip", "zip -boot1 -boot2 -boot3"),
        ("zipped", "text -boot1 -boot2 -boot3"),
        ("generator", "generator -boot1 -boot2 -boot3 -finally"),
        ("more", "more -boot1 -boot2 -boot3 -maker -late"),
        ("none", "none -boot1 -boot2 -boot3"),
    ];
    both(
        || snapshot(BOOT, CASES).ini("display_errors", "0"),
        |lane| {
            for _ in 0..3 {
                for (what, expected) in EXPECTED {
                    let said = lane.text(what);
                    assert_eq!(said, expected, "{what}");
                }
                assert_eq!(lane.get("/?do=fatal").status, 500);
            }
        },
    );
}
