//! Memory after a request: nothing of another's in it, nothing of the snapshot's missing, and no more of it than before.

use std::fs;

use tests::snapshot::{HAZARDS, Lane, both, snapshot, with_hazards};
use tests::status::sum;
use tests::{Setup, amount, process, wait_until};

fn hazards(boot: &str, cases: &str) -> Setup {
    with_hazards(snapshot(&format!("{HAZARDS}{boot}"), cases))
}

/// B1: the C library trusts fresh memory of the break to be zero.
#[test]
fn calloc_hands_out_zeros() {
    // Freed once, a block of that size comes from the break, not from a mapping.
    let boot = "$libc->free($libc->malloc(8 << 20)); $libc->free($libc->malloc(16 << 20));";
    let cases = "case 'calloc': foreach ([600000, 100000, 30000, 600000, 5000000, 200] as $size) echo $hazards->calloc_is_zero($size, 0x53); break;\ncase 'malloc': foreach ([600000, 100000, 30000, 1000, 6000000] as $size) echo $hazards->malloc_finds($size, 0x53); break;\ncase 'break': $libc->memset($libc->sbrk(300000), 0x53, 300000); echo 'ok'; break;\n";
    both(
        || hazards(boot, cases),
        |lane| {
            let mut client = lane.client();
            for _ in 0..40 {
                assert_eq!(client.get("/?do=calloc").text(), "111111", "{}", lane.isolation);
                assert_eq!(client.get("/?do=malloc").text(), "00000", "{}", lane.isolation);
                assert_eq!(client.get("/?do=break").text(), "ok");
            }
        },
    );
}

/// The processes of the workers that answer.
fn pids(lane: &Lane) -> Vec<i32> {
    let mut pids: Vec<i32> = (0..3).flat_map(|_| lane.pair("pid")).map(|pid| pid.parse().unwrap()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Of workers: process, mapped size and anonymous memory in KiB, number of mappings.
fn sizes(pids: &[i32]) -> Vec<(i32, u64, u64, usize)> {
    let number = |text: Option<String>| text.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let size = |pid: i32| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_or(0, |maps| maps.lines().count());
        (pid, number(process::status(pid, "VmSize")), process::anonymous_kib(pid), maps)
    };
    pids.iter().copied().map(size).collect()
}

const PID: &str = "case 'pid': echo getmypid(); break;\n";

/// After forty more requests of each kind a worker is no larger than after twenty, at the latest when it has been idle for
/// a second: then it gives free memory back, which it may have done before the first look and not yet before the second.
/// Under fork there is nothing to grow.
fn stays_as_large(lane: &Lane, kinds: &[&str]) {
    for kind in kinds {
        let first = lane.same(kind, if lane.rewinds() { amount(12, 20) } else { 6 });
        if !lane.rewinds() {
            continue;
        }
        let workers = pids(lane);
        let before = sizes(&workers);
        lane.repeat(kind, amount(20, 40)).iter().for_each(|answer| assert_eq!(answer, &first, "{kind}"));
        assert_eq!((workers.len(), &pids(lane)), (2, &workers), "{kind}: the two workers are the same");
        wait_until(&format!("{kind}: the workers are as large as before: {before:?}"), 10, || {
            before.iter().zip(sizes(&workers)).all(|(old, new)| {
                let grown = (new.1 as i64 - old.1 as i64, new.2 as i64 - old.2 as i64, new.3 as i64 - old.3 as i64);
                grown.0 < 4096 && grown.1 < 2048 && grown.2 <= 4
            })
        });
    }
}

/// B7: chunks that PHP's memory manager adds.
#[test]
fn forty_thousand_arrays_leave_nothing() {
    let cases = "case 'arrays': $list = []; for ($i = 0; $i < 40000; $i++) $list[] = [$i]; echo count($list); break;\ncase 'strings': for ($i = 0; $i < 30; $i++) $kept[] = str_repeat('x', 1 << 20); echo count($kept); break;\n";
    both(
        || snapshot("$held = range(1, 50);", &format!("{cases}{PID}")),
        |lane| stays_as_large(lane, &["arrays", "strings"]),
    );
}

/// B8: what libraries map and keep.
#[test]
fn what_libraries_map_leaves_nothing() {
    const CASES: &str = r#"
case 'iconv': foreach (['ISO-2022-JP', 'EUC-JP', 'BIG5', 'KOI8-R', 'UTF-16', 'CP1252', 'EUC-KR'] as $to) echo bin2hex(@iconv('UTF-8', "$to//TRANSLIT", 'aü')); break;
case 'zones': foreach (['Asia/Tokyo', 'Europe/Vienna', 'America/Lima', 'Africa/Cairo', 'Australia/Perth', 'Asia/Tehran'] as $zone) echo (new DateTime('@0'))->setTimezone(new DateTimeZone($zone))->format('H:i '); break;
case 'font': $image = imagecreatetruecolor(200, 60); imagettftext($image, 20, 0, 5, 40, 0xffffff, '/usr/share/wordpress/wp-includes/fonts/dashicons.ttf', "\u{f120}\u{f319}"); ob_start(); imagepng($image); echo md5(ob_get_clean()); break;
case 'patterns': for ($i = 1; $i < 60; $i++) echo preg_match("/^(a|b)+[x-z]{1,$i}(?<n>\\d+|foo$i)*$/u", "abxyz1foo$i"); break;
case 'intl': foreach (['de', 'ja', 'ar', 'th'] as $locale) echo (new NumberFormatter($locale, NumberFormatter::SPELLOUT))->format(21), (new IntlDateFormatter($locale, 0, 0, 'UTC'))->format(0), transliterator_transliterate('Any-Latin', 'ж'); break;
case 'dom': $dom = new DOMDocument; $dom->loadHTML('<p>' . str_repeat('<b>x</b>', 500)); $xsl = new XSLTProcessor; $style = new DOMDocument; $style->loadXML('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><r><xsl:value-of select="count(//b)"/></r></xsl:template></xsl:stylesheet>'); $xsl->importStylesheet($style); echo $xsl->transformToXml($dom); break;
case 'curl': $curl = curl_init('http://localhost:1/'); curl_setopt($curl, CURLOPT_RETURNTRANSFER, 1); curl_exec($curl); echo curl_errno($curl); $multi = curl_multi_init(); curl_multi_add_handle($multi, curl_init('http://localhost:1/')); do { curl_multi_exec($multi, $active); if ($active) curl_multi_select($multi, 0.2); } while ($active); echo curl_multi_info_read($multi)['result']; break;
case 'resolver': echo gethostbyname('localhost'), count(gethostbynamel('localhost')); break;
case 'library': echo get_debug_type(FFI::cdef('int gai_cancel(void *);', 'libanl.so.1')); break;
case 'malloc': for ($i = 0; $i < 500; $i++) $libc->memset($libc->malloc(500 + $i * 7), 1, 400); echo 'ok'; break;
case 'mmap': $at = $libc->mmap(0, 8 << 20, 3, 0x22, -1, 0); $libc->memset($at, 1, 8 << 20); $file = $libc->open(__FILE__, 0); $libc->mmap(0, 4096, 1, 2, $file, 0); $libc->mmap(0, 1 << 20, 3, 0x21, -1, 0); echo 'ok'; break;
case 'image': $image = imagecreatetruecolor(1000, 800); imagefilledellipse($image, 500, 400, 300, 300, 0x123456); $kept = imagescale($image, 300); echo imagecolorat($kept, 150, 120); break;
case 'eval': for ($i = 0; $i < 50; $i++) eval("class C$i { function f() { return $i; } }"); echo (new C7)->f(); break;
"#;
    both(
        || hazards("", &format!("{CASES}{PID}")).ini("memory_limit", "512M"),
        |lane| {
            // A thread of the resolver that has not ended yet is a thread.
            lane.expect(&["threads"]);
            let kinds: Vec<&str> =
                CASES.lines().filter_map(|line| line.strip_prefix("case '")?.split('\'').next()).collect();
            assert_eq!(kinds.len(), 13);
            stays_as_large(lane, &kinds);
        },
    );
}

/// B6: memory that the snapshot had is there again, with its contents, whatever a request did with it.
#[test]
fn blocks_of_the_snapshot_come_back() {
    const BOOT: &str = r#"
$huge = str_repeat('huge', 2 << 20); $fixed = new SplFixedArray(1000000); $fixed[999999] = 'last';
$list = []; for ($i = 0; $i < 40000; $i++) $list[] = [$i, "text $i"];
$packed = range(0, 300000);
function digest(): string { global $huge, $fixed, $list, $packed; return md5($huge) . strlen($huge) . $fixed[999999] . count($list) . $list[39999][1] . $packed[300000] . md5(serialize($list)); }
"#;
    const CASES: &str = r#"
case 'seen': echo digest(); break;
case 'freed': echo digest(); unset($huge, $fixed, $list, $packed); gc_mem_caches(); break;
case 'replaced': echo digest(); unset($huge); $huge = str_repeat('mine', 2 << 20); $other = new SplFixedArray(1000000); $fixed = null; $next = new SplFixedArray(1000000); break;
case 'grown': echo digest(); $huge .= str_repeat('more', 2 << 20); $fixed->setSize(3000000); $list[] = $huge; break;
case 'shrunk': echo digest(); $fixed->setSize(10); $huge = substr($huge, 0, 1 << 20); array_splice($packed, 100); break;
case 'written': echo digest(); for ($i = 0; $i < 8 << 20; $i += 4096) $huge[$i] = '!'; foreach ($list as &$entry) $entry[1] = 'mine'; break;
case 'shuffled': echo digest(); for ($i = 0; $i < 40000; $i += 2) unset($list[$i]); for ($i = 0; $i < 50; $i++) $own[] = str_repeat('own', 500000); $huge = null; break;
"#;
    both(
        || snapshot(BOOT, CASES).ini("memory_limit", "1G"),
        |lane| {
            let first = lane.same("seen", 5);
            let kinds = ["freed", "replaced", "grown", "shrunk", "written", "shuffled"];
            for round in 0..amount(1, 4) {
                for kind in kinds {
                    assert_eq!(lane.text(kind), first, "{kind} in round {round} of {}", lane.isolation);
                }
                assert_eq!(lane.same("seen", 3), first, "{}", lane.isolation);
            }
            for kind in kinds {
                assert_eq!(lane.same(kind, amount(2, 6)), first, "{kind} of {}", lane.isolation);
            }
        },
    );
}

/// A fiber that the snapshot holds can be resumed or finished in each request anew.
#[test]
fn a_fiber_of_the_snapshot_can_be_finished_each_time() {
    const BOOT: &str = "$fiber = new Fiber(function ($n) { $local = str_repeat('f', 100); while (true) { $got = Fiber::suspend($local . $n++); if ($got === 'end') return 'ended'; } }); $fiber->start(1); $waiting = new Fiber(fn () => 'waited');";
    const CASES: &str = r#"
case 'resumed': echo $fiber->resume('on'), $fiber->resume('on'); break;
case 'finished': $fiber->resume('end'); echo $fiber->getReturn(); break;
case 'dropped': echo $fiber->resume('on'); unset($fiber); gc_collect_cycles(); break;
case 'started': $waiting->start(); echo $waiting->getReturn(); break;
case 'many': $fiber->resume('end'); for ($i = 0; $i < 20; $i++) { $own[$i] = new Fiber(fn () => Fiber::suspend($i)); echo $own[$i]->start(); } break;
"#;
    both(
        || snapshot(BOOT, CASES),
        |lane| {
            let expected: Vec<String> =
                ["resumed", "finished", "dropped", "started", "many"].iter().map(|kind| lane.same(kind, 15)).collect();
            assert!(expected[0].ends_with('3') && expected[1] == "ended" && expected[3] == "waited", "{expected:?}");
            for _ in 0..4 {
                for (kind, answer) in ["resumed", "finished", "dropped", "started", "many"].iter().zip(&expected) {
                    assert_eq!(&lane.text(kind), answer, "{kind} of {}", lane.isolation);
                }
            }
        },
    );
}

/// Requests that use much memory or deep stacks leave none of it to the next.
#[test]
fn large_and_deep_requests_leave_nothing() {
    const CASES: &str = r#"
case 'deep': function down($n) { return $n === 0 ? 0 : 1 + down($n - 1); } echo down(50000); break;
case 'deep_c': function nest($n) { return $n === 0 ? 0 : 1 + array_map('nest', [$n - 1])[0]; } echo nest(2000); break;
case 'wide': $fixed = new SplFixedArray(18000000); $fixed[17999999] = 1; echo count($fixed); break;
case 'json': echo strlen(json_encode(json_decode(str_repeat('[', 400) . str_repeat(']', 400)))); break;
case 'classes': require_once 'classes.php'; echo (new K40)->f(); break;
case 'hot': for ($i = 0, $sum = 0; $i < 300000; $i++) $sum = ($sum * 31 + $i) % 1000003; echo $sum; break;
"#;
    let classes: String = (1..=40)
        .map(|n| {
            format!("class K{n} extends K{} {{ static $s{n} = [{n}]; function f{n}() {{ return {n}; }} }}\n", n - 1)
        })
        .collect();
    let classes = format!("<?php class K0 {{ function f() {{ return static::$s40[0] . self::class; }} }}\n{classes}");
    for jit in &["tracing", "disable"][..amount(1, 2)] {
        both(
            || {
                let setup = snapshot("$held = 1;", &format!("{CASES}{PID}")).file("classes.php", &classes);
                setup.ini("memory_limit", "1G").ini("opcache.jit", jit).ini("opcache.jit_buffer_size", "32M")
            },
            |lane| {
                for (kind, answer) in
                    [("deep", "50000"), ("deep_c", "2000"), ("wide", "18000000"), ("json", "800"), ("classes", "40K0")]
                {
                    assert_eq!(lane.same(kind, amount(3, 12)), answer, "{kind} with JIT {jit}");
                }
                lane.same("hot", 20);
                lane.pair("hot");
                if lane.rewinds() {
                    for (pid, size, anonymous, _) in sizes(&pids(lane)) {
                        assert!(size < 792 << 10 && anonymous < 60 << 10, "{pid}: {size} {anonymous}");
                    }
                }
            },
        );
    }
}

/// A snapshot of a gigabyte works, or is refused and says so.
#[test]
fn a_gigabyte_at_the_snapshot() {
    const BOOT: &str = "for ($i = 0; $i < 64; $i++) $blocks[] = str_repeat(chr(65 + $i % 26), 16 << 20);";
    const CASES: &str = "case 'seen': echo count($blocks), $blocks[63][9999999], $blocks[0][0]; $blocks[5][77] = '!'; unset($blocks[7]); break;\n";
    both(
        || snapshot(BOOT, CASES).ini("memory_limit", "-1"),
        |lane| assert_eq!(lane.same("seen", amount(3, 6)), "64LA"),
    );
}

/// Patterns that requests compile again and again are part of a later snapshot, and rewinds are fast from then on. What one
/// request alone has made of its input is kept by nobody.
#[test]
fn patterns_are_learned() {
    let cases = r#"case 'often': for ($i = $sum = 0; $i < 60; $i++) $sum += preg_match("~^(?<word>w{$i}x|[a-f]{0,$i}9)+$~i", "w{$i}xaa9", $found); echo $sum, $found['word']; break;
case 'once': echo preg_match('/mark' . $_GET['side'] . str_repeat('z', 20) . '|x/', 'x'); break;
case 'find': $maps = file('/proc/self/maps'); $count = 0; $mem = fopen('/proc/self/mem', 'r'); $mark = 'mark' . implode('', ['a', 'b']) . str_repeat('z', 20);
    foreach ($maps as $line) if (str_contains($line, '/dev/zero') && preg_match('/^([0-9a-f]+)-([0-9a-f]+) rw-s/', $line, $at) && hexdec($at[2]) - hexdec($at[1]) < 1 << 20) {
        fseek($mem, hexdec($at[1])); $text = stream_get_contents($mem, hexdec($at[2]) - hexdec($at[1])); $count += str_contains($text, 'w7x') * 100 + str_contains($text, $mark); } echo $count; break;
"#;
    both(
        || snapshot("preg_match('/of the boot/', '');", cases),
        |lane| {
            assert_eq!(lane.get("/?do=once&side=ab").text(), "1");
            let answer = lane.same("often", 10);
            assert_eq!(
                (answer.as_str(), lane.text("find").as_str()),
                ("58aa9", "100"),
                "noted, but for what came once"
            );
            assert_eq!(lane.same("often", 60), answer);
            if lane.rewinds() {
                wait_until("both clones have left for the newer snapshot", 20, || {
                    lane.pair("often");
                    lane.recycled("learned") >= 2
                });
                assert_eq!(lane.same("often", 100), answer);
                // Of both clones: whoever is free answers.
                let fast = |lane: &Lane| sum(&lane.status(&["--json"]), "fast");
                let before = fast(lane);
                assert_eq!(lane.same("often", 100), answer);
                let after = fast(lane);
                assert!(after > before + 30, "{before} {after}");
            }
        },
    );
}
