//! Memory that is shared on purpose is never rewound: APCu's and opcache's.

use std::fs;
use std::time::{Duration, SystemTime};

use tests::snapshot::{both, snapshot};
use tests::{Setup, wait_until};

const APCU: &str = r#"
case 'inc': for ($i = 0; $i < 500; $i++) apcu_inc('count'); echo 'ok'; break;
case 'cas': for ($i = 0; $i < 100; $i++) { do { $old = apcu_fetch('cas'); } while (!apcu_cas('cas', $old, $old + 1)); } echo 'ok'; break;
case 'entry': echo apcu_entry('made' . $_GET['key'], function () { file_put_contents(getenv('PLACE') . '/made' . $_GET['key'], getmypid() . "\n", FILE_APPEND); usleep(30000); return ['made', getmypid()]; })[0]; break;
case 'boot': echo apcu_fetch('boot'), apcu_fetch('count') !== false ? 'y' : 'n'; break;
case 'get': echo json_encode(apcu_fetch($_GET['key'])); break;
case 'churn': for ($i = 0; $i < 300; $i++) { apcu_store('k' . $i % 50, str_repeat(chr(65 + $i % 26), 500 + $i)); $got = apcu_fetch('k' . ($i * 7) % 50); if ($got !== false && strspn($got, $got[0]) !== strlen($got)) echo 'torn'; if ($i % 9 === 0) apcu_delete('k' . $i % 50); } foreach (new APCUIterator('/^k1/') as $entry) { $entry['value']; } echo 'ok'; break;
case 'stored': apcu_store('object', new ArrayObject([1, ['deep' => str_repeat('x', 5000)]])); echo apcu_fetch('object')[1]['deep'] === str_repeat('x', 5000) ? 'same' : 'other'; break;
case 'die': apcu_store('died', 1); posix_kill(getmypid(), SIGKILL);
"#;

fn apcu() -> Setup {
    snapshot(
        "apcu_clear_cache(); apcu_store('boot', 'of the boot'); apcu_store('count', 0); apcu_store('cas', 0);",
        APCU,
    )
    .ini("apc.enabled", "1")
}

/// So many clients at once, each so many requests of `?do=WHAT`.
fn crowd(port: u16, clients: usize, requests: usize, what: &str, expected: &str) {
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = tests::Client::new(port);
                for _ in 0..requests {
                    let answer = client.get(&format!("/?do={what}"));
                    assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{what}");
                }
            });
        }
    });
}

/// A lock that is rewound, or clones that take each other for one, lose counts.
#[test]
fn apcu_counts_every_one() {
    both(
        || apcu().application("workers = 4"),
        |lane| {
            crowd(lane.port, 6, 25, "inc", "ok");
            assert_eq!(lane.text("get&key=count"), "75000", "{}", lane.isolation);
            crowd(lane.port, 6, 10, "cas", "ok");
            assert_eq!(lane.text("get&key=cas"), "6000", "{}", lane.isolation);
            assert_eq!(lane.same("boot", 10), "of the booty");
            crowd(lane.port, 4, 20, "churn", "ok");
            crowd(lane.port, 4, 20, "stored", "same");
        },
    );
}

/// A generator under APCu's lock runs once, and in one clone only.
#[test]
fn two_clones_contend_for_an_entry() {
    both(apcu, |lane| {
        for key in 0..8 {
            assert_eq!(lane.pair(&format!("entry&key={key}")), ["made", "made"]);
            let made = fs::read_to_string(lane.directory().join(format!("place/made{key}"))).unwrap();
            assert_eq!(made.lines().count(), 1, "{}: made twice, by {made}", lane.isolation);
        }
    });
}

/// APCu's memory is shared by all clones, and outlives a crashed one.
#[test]
fn apcu_outlives_a_clone() {
    both(apcu, |lane| {
        lane.expect(&["crash"]);
        assert_eq!(lane.get("/?do=die").status, 502);
        assert_eq!(lane.text("get&key=died"), "1");
        assert_eq!(lane.text("boot"), "of the booty");
        crowd(lane.port, 3, 10, "inc", "ok");
        assert_eq!(lane.text("get&key=count"), "15000");
    });
}

const OPCACHE: &str = r#"
case 'include': echo include getenv('PLACE') . '/' . $_GET['file']; break;
case 'cached': echo json_encode([opcache_is_script_cached(getenv('PLACE') . '/' . $_GET['file']), isset(opcache_get_status()['scripts'][getenv('PLACE') . '/' . $_GET['file']])]); break;
case 'hits': echo opcache_get_status()['scripts'][getenv('PLACE') . '/' . $_GET['file']]['hits']; break;
case 'entry': echo json_encode([opcache_get_status(false)['opcache_enabled'], opcache_get_status(false)['restart_pending']]); break;
case 'reset': echo json_encode(opcache_reset()); break;
case 'invalidate': echo json_encode(opcache_invalidate(getenv('PLACE') . '/' . $_GET['file'], true)); break;
case 'compile': echo json_encode(opcache_compile_file(getenv('PLACE') . '/' . $_GET['file'])); break;
"#;

fn opcache(setting: &str, value: &str) -> Setup {
    snapshot("", OPCACHE).ini(setting, value).ini("realpath_cache_ttl", "0")
}

/// A file that PHP may read, with a time of its last change that lies so many seconds back.
fn write(lane: &tests::snapshot::Lane, name: &str, text: &str, seconds_ago: u64) {
    let path = lane.directory().join("place").join(name);
    fs::write(&path, text).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds_ago);
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}

/// opcache keeps no file that changed within two seconds before its request; that time is not the boot's.
#[test]
fn a_file_made_after_the_boot_is_cached() {
    both(
        || opcache("opcache.validate_timestamps", "1"),
        |lane| {
            assert_eq!(lane.text("entry"), "[true,false]");
            write(lane, "new.php", "<?php return 'new';", 0);
            // Changed after the boot, and more than two seconds ago: true only by the real time.
            wait_until("it is cached", 15, || {
                assert_eq!(lane.text("include&file=new.php"), "new");
                lane.text("cached&file=new.php") == "[true,true]"
            });
            let hits = |lane: &tests::snapshot::Lane| lane.text("hits&file=new.php").parse::<u32>().unwrap();
            let before = hits(lane);
            lane.repeat("include&file=new.php", 10);
            assert!(hits(lane) >= before + 10, "{} {}", before, hits(lane));
        },
    );
}

/// opcache notices a file that changes after the snapshot, as in classic mode.
#[test]
fn a_file_changed_after_the_snapshot_is_noticed() {
    both(
        || opcache("opcache.revalidate_freq", "0"),
        |lane| {
            for round in 0..6 {
                // Old enough to be cached, and each time another time.
                write(lane, "changes.php", &format!("<?php return 'version {round}';"), 1000 - round * 10);
                for _ in 0..4 {
                    assert_eq!(lane.text("include&file=changes.php"), format!("version {round}"), "{}", lane.isolation);
                }
                assert_eq!(lane.text("cached&file=changes.php"), "[true,true]");
            }
        },
    );
}

/// With Debian's two seconds between looks, it takes no longer than those.
#[test]
fn it_is_noticed_in_time() {
    both(
        || opcache("opcache.revalidate_freq", "2"),
        |lane| {
            write(lane, "changes.php", "<?php return 'old';", 1000);
            lane.repeat("include&file=changes.php", 4);
            write(lane, "changes.php", "<?php return 'new';", 500);
            wait_until("the change is noticed", 6, || lane.text("include&file=changes.php") == "new");
            assert_eq!(lane.same("include&file=changes.php", 10), "new");
        },
    );
}

/// Clones cache, share and invalidate scripts in opcache as other workers do.
#[test]
fn opcache_works_for_clones_as_for_others() {
    both(
        || opcache("opcache.validate_timestamps", "0"),
        |lane| {
            for round in 0..30 {
                let name = format!("many{round}.php");
                write(lane, &name, &format!("<?php class M{round} {{ const N = {round}; }} return M{round}::N;"), 100);
                assert_eq!(lane.text(&format!("include&file={name}")), round.to_string());
                assert_eq!(lane.pair(&format!("include&file={name}")), [round.to_string(), round.to_string()]);
            }
            assert_eq!(lane.text("invalidate&file=many3.php"), "true");
            write(lane, "many3.php", "<?php return 'again';", 50);
            assert_eq!(lane.text("include&file=many3.php"), "again");
            assert_eq!(lane.text("compile&file=many4.php"), "true");
        },
    );
}

/// A restart would wipe the memory under all clones: it is no restart but a new generation, or nothing.
#[test]
fn a_reset_kills_nobody() {
    both(
        || opcache("opcache.force_restart_timeout", "1").file("reset.php", "<?php opcache_reset(); echo 'reset';"),
        |lane| {
            write(lane, "kept.php", "<?php return 'kept';", 1000);
            for _ in 0..4 {
                lane.text("reset");
                lane.get("/reset.php");
                for _ in 0..10 {
                    assert_eq!(lane.text("include&file=kept.php"), "kept");
                }
            }
            // Longer than the time after which opcache kills who keeps it from restarting.
            let since = SystemTime::now();
            wait_until("the time is over", 10, || {
                assert_eq!(lane.text("include&file=kept.php"), "kept");
                assert_eq!(lane.get("/reset.php").status, 200);
                since.elapsed().unwrap() > Duration::from_millis(2500)
            });
            assert!(!lane.log().contains("Attempting to kill locker"), "{}", lane.log());
        },
    );
}
