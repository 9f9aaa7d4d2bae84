//! Thousands of requests of all kinds, every rewind of them audited. REPRISE_REQUESTS makes them more.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tests::snapshot::{Lane, both, requests, scrubs_all, snapshot_script};
use tests::{Client, Setup, amount, process};

/// Answers that depend on the request alone. `$n` is a number of it.
const CASES: &str = r#"
case 'text': echo strrev(str_repeat("text $n ", 50)), ucwords("a b $n"), wordwrap(str_repeat('word ', $n % 50), 30); break;
case 'array': $list = range(0, $n % 4000); usort($list, fn ($a, $b) => ($a * 7919) % 101 <=> ($b * 7919) % 101 ?: $a <=> $b); echo md5(implode(',', array_filter($list, fn ($v) => $v % 3))); break;
case 'json': $data = []; for ($i = 0; $i < $n % 300; $i++) $data["k$i"] = ['v' => $i, 'l' => range(0, $i % 7)]; echo md5(json_encode(json_decode(json_encode($data), true), JSON_PRETTY_PRINT)), md5(serialize(unserialize(serialize($data)))); break;
case 'regex': echo preg_replace_callback('/(\d+)x(?<name>[a-z]+)' . $n % 40 . '?/u', fn ($m) => $m[1] * 2 . strtoupper($m['name']), "12xabc 7xdeü {$n}xend"), preg_match_all('/\bw\w+/', "we were $n was", $found), count($found[0]); break;
case 'date': echo (new DateTime('2024-02-28', new DateTimeZone(['Europe/Vienna', 'Asia/Tokyo', 'America/Lima'][$n % 3])))->modify("+$n hours")->format(DATE_ATOM); break;
case 'class': $name = 'Made' . $n % 30; eval("class $name { static \$count = 0; public \$list = []; function __get(\$p) { return \$p . ++self::\$count; } }"); $object = new $name; echo $object->a, $object->b, $name::$count; break;
case 'include': echo include 'part' . $n % 8 . '.php'; break;
case 'generator': $generate = function () use ($n) { for ($i = 0; $i < $n % 100; $i++) $got = yield $i => $i * $n; return $n; }; $g = $generate(); foreach ($g as $value) $last = $value; echo $last ?? '-', $g->getReturn(); break;
case 'exception': try { (function () use ($n) { throw new RuntimeException("thrown $n", $n); })(); } catch (Exception $e) { echo $e->getMessage(), $e->getLine() > 0, $e->getCode(); } finally { echo 'f'; } break;
case 'dom': $dom = new DOMDocument; $dom->loadXML('<r>' . str_repeat("<i n='$n'>x</i>", $n % 60 + 1) . '</r>'); echo (new DOMXPath($dom))->evaluate('count(//i)'), md5($dom->saveXML()); break;
case 'image': $image = imagecreatetruecolor(60, 40); imagefilledrectangle($image, 0, 0, $n % 60, 30, $n * 7919 % 0xffffff); ob_start(); imagepng($image); echo md5(ob_get_clean()); break;
case 'hash': echo hash('sha256', "n$n"), md5(gzcompress(str_repeat("data $n", 100))), crc32("c$n"), bin2hex(openssl_encrypt("text $n", 'aes-128-cbc', 'key', 0, '0123456789abcdef')); break;
case 'intl': echo (new NumberFormatter(['de_DE', 'en_US', 'fr_FR'][$n % 3], NumberFormatter::DECIMAL))->format($n * 1.5), Normalizer::normalize("u\u{308}"), mb_convert_case("straße $n", MB_CASE_UPPER), iconv('UTF-8', 'ISO-8859-1', "ü$n"); break;
case 'buffer': ob_start(fn ($t) => strtoupper($t)); echo "buffer $n"; ob_start(); echo 'inner'; ob_end_flush(); ob_end_flush(); break;
case 'statics': function counted() { static $c = 0; return ++$c; } echo counted(), counted(), ++$count, ++Boot::$count, count(Boot::$list); Boot::$list[] = $n; $config["key$n"] = $n; echo count($config); break;
case 'settings': echo ini_get('precision'), date_default_timezone_get(), setlocale(LC_ALL, 0), mb_internal_encoding(), getcwd() === $directory, umask(), getenv('OF_REQUEST') === false; ini_set('precision', 3 + $n % 9); date_default_timezone_set('Asia/Tokyo'); setlocale(LC_ALL, 'C.UTF-8'); mb_internal_encoding('ASCII'); chdir('/tmp'); umask($n % 64); putenv("OF_REQUEST=$n"); break;
case 'files': $name = tempnam(getenv('PLACE'), 'mixed'); file_put_contents($name, str_repeat("line $n\n", $n % 400)); $file = fopen($name, 'r+'); fseek($file, 5); echo md5(fread($file, 900)), filesize($name), count(file($name)); unlink($name); break;
case 'sqlite': $base = new PDO('sqlite::memory:'); $base->exec('create table t (a, b)'); $insert = $base->prepare('insert into t values (?, ?)'); for ($i = 0; $i < 20; $i++) $insert->execute([$i, $i * $n]); echo $base->query('select sum(b) from t')->fetchColumn(); break;
case 'fiber': $fiber = new Fiber(function ($a) use ($n) { $b = Fiber::suspend($a * 2); return $b + $n; }); echo $fiber->start($n), $fiber->resume(5), $fiber->getReturn(); $left = new Fiber(fn () => Fiber::suspend(1)); $left->start(); break;
case 'large': $block = str_repeat(chr(65 + $n % 26), 1500000 + $n); $more = array_fill(0, 40000, [$n]); echo strlen($block), md5($block), count($more); break;
case 'exit': register_shutdown_function(function () use ($n) { echo " shut $n"; }); ob_start(); echo "exit $n"; exit;
case 'error': echo "before $n"; undefined_function($n);
case 'cycle': for ($i = 0; $i < 200; $i++) { $a = new stdClass; $b = new ArrayObject([$a]); $a->b = $b; } echo gc_collect_cycles() > 0, $n; break;
case 'exec': if ($n % 10 === 0) { exec("echo child $n", $out); echo $out[0]; } break;
"#;

const BOOT: &str = "class Boot { static $count = 0; static $list = []; } $count = 0; $config = array_fill(0, 5000, 'value'); $directory = getcwd(); $text = []; for ($i = 0; $i < 2000; $i++) $text[] = \"text $i\";";

fn kinds() -> Vec<&'static str> {
    CASES.lines().filter_map(|line| line.strip_prefix("case '")?.split('\'').next()).collect()
}

fn setup() -> Setup {
    let cases = CASES.replacen(
        "\ncase 'text'",
        "\ndefault: $n = (int) ($_GET['n'] ?? 0); switch ($_GET['do'] ?? '') {\ncase 'text'",
        1,
    );
    let after = format!("{cases}\n}}\n");
    let index = format!("<?php\n{BOOT}\nreprise_snapshot();\nrequire 'after.php';\n");
    let classic = format!("<?php\n{BOOT}\nrequire 'after.php';\n");
    let setup = snapshot_script(&index, &after).file("classic.php", classic).ini("display_errors", "0");
    (0..8).fold(setup, |setup, n| {
        let part = format!("<?php if (!class_exists('P{n}', false)) {{ class P{n} {{ const A = ['x' => {n}]; }} }} return json_encode(P{n}::A) . __LINE__;");
        setup.file(&format!("part{n}.php"), part)
    })
}

/// With the JIT that `REPRISE_JIT` names (disable, function, tracing), if it names one.
fn with_jit(setup: Setup) -> Setup {
    match std::env::var("REPRISE_JIT") {
        Ok(jit) => setup.ini("opcache.jit", &jit).ini("opcache.jit_buffer_size", "64M"),
        Err(_) => setup,
    }
}

/// Says how many of the lane's rewinds copied nothing but hot pages.
fn print_fast_share(lane: &Lane) {
    let status: Value = serde_json::from_str(&lane.status(&["--json"])).expect("the status is JSON");
    let workers = status["applications"]["app"][0]["lanes"].as_array().expect("lanes").iter();
    let workers = workers.flat_map(|lane| lane["workers"].as_array().expect("workers"));
    let (fast, all) = workers.fold((0, 0), |(fast, all), worker| {
        let count = |name: &str| worker["rewinds"][name].as_u64().unwrap_or(0);
        (fast + count("fast"), all + count("fast") + count("scanned"))
    });
    println!("{fast} of {all} rewinds fast");
}

/// The answers of the lane are those of classic mode, byte for byte.
fn compare(lane: &Lane, total: usize) {
    let kinds = kinds();
    let mut reference = HashMap::new();
    let mut client = lane.client();
    for kind in &kinds {
        for n in 0..12 {
            let n = n * 97 + n;
            let answer = client.get(&format!("/classic.php?do={kind}&n={n}"));
            assert_eq!(answer.status, if *kind == "error" { 500 } else { 200 }, "{kind} {n}: {}", answer.text());
            reference.insert((*kind, n), answer.text());
        }
    }
    let mut questions: Vec<_> = reference.keys().copied().collect();
    questions.sort_unstable();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client: Client = lane.client();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return;
                    }
                    // A prime step, so that each kind follows each.
                    let (kind, n) = questions[(number * 7919) % questions.len()];
                    let answer = client.get(&format!("/?do={kind}&n={n}"));
                    assert_eq!(
                        answer.text(),
                        reference[&(kind, n)],
                        "{kind} {n}, request {number} of {}",
                        lane.isolation
                    );
                }
            });
        }
    });
}

/// Thousands of mixed requests give the same responses as a fresh process, and each rewind is audited.
#[test]
fn thousands_of_audited_requests() {
    assert_eq!(kinds().len(), 24);
    both(
        || with_jit(setup()),
        |lane| {
            compare(lane, if lane.rewinds() { requests(amount(400, 2600)) } else { amount(150, 700) });
            print_fast_share(lane);
        },
    );
}

/// Leaves a visitor's mark wherever a request can, and says which marks it finds.
const MARKS: &str = r#"
default:
    $own = $_COOKIE['visitor']; $mark = "marker-of-$own-$n";
    $found = [getenv('MARK'), ini_get('user_agent'), Boot::$list, $held->mark ?? null, Holder::mark(), error_get_last(), session_id(), get_include_path(),
        $GLOBALS['mark_left'] ?? null, defined('MARK') ? MARK : null, stream_context_get_options(stream_context_get_default()), json_encode($_SERVER), json_encode($_POST), file_get_contents('php://input'),
        ob_get_contents(), headers_list(), http_response_code(), libxml_get_errors(), posix_getpid() > 0, apache_response_headers(), array_keys(get_defined_vars())];
    if (SCANS && $n % 16 === 0) {
        // Everything it could read of its own memory, but for the stack below the frame that is running.
        $others = 0; $mem = fopen('/proc/self/mem', 'rb'); stream_set_read_buffer($mem, 0);
        foreach (file('/proc/self/maps') as $line) {
            if (!preg_match('~^([0-9a-f]+)-([0-9a-f]+) rw-p .*?(\[heap\])?$~', trim($line), $m) || str_contains($line, '[stack]') || str_contains($line, 'reprise')) continue;
            $from = hexdec($m[1]); $to = hexdec($m[2]);
            if ($to - $from > 64 << 20 || @fseek($mem, $from) !== 0) continue;
            $bytes = (string) @fread($mem, $to - $from);
            preg_match_all('/marker-of-([a-z]+)-/', $bytes, $marks);
            foreach ($marks[1] as $whose) $others += $whose !== $own;
            unset($bytes, $marks);
        }
        $found[] = "others=$others";
        $scanned = $others;
    }
    echo json_encode($found, JSON_PARTIAL_OUTPUT_ON_ERROR), ' own ', $mark, isset($scanned) ? " others=$scanned" : '';
    putenv("MARK=$mark"); ini_set('user_agent', $mark); Boot::$list[] = $mark; $held->mark = $mark; Holder::mark($mark); $GLOBALS['mark_left'] = $mark; define('MARK', $mark);
    set_include_path("/$mark"); @trigger_error($mark); stream_context_set_default(['http' => ['user_agent' => $mark]]); header("X-Mark: $mark"); setcookie('mark', $mark);
    libxml_use_internal_errors(true); simplexml_load_string("<$mark"); $GLOBALS['closure'] = function () use ($mark) { return $mark; }; register_shutdown_function($GLOBALS['closure']);
    $spread = array_fill(0, 3000, $mark . 'x'); $large = str_repeat($mark, 20000); $dom = new DOMDocument; $dom->appendChild($dom->createElement('a', $large)); preg_match("/$mark/", $large); openssl_encrypt($large, 'aes-128-cbc', $mark, 0, '0123456789abcdef');
    if ($n % 5 === 0) exit;
    if ($n % 7 === 0) throw new Exception($mark);
    ob_start(); echo '';
"#;

/// Private memory of the lane's workers together, in KiB.
fn anonymous(lane: &Lane) -> u64 {
    let workers = lane.workers();
    let clones = workers.iter().flat_map(|&template| process::children(template));
    clones.map(process::anonymous_kib).sum()
}

/// No mark of one visitor is in another's response.
#[test]
fn two_visitors_never_see_each_other() {
    visitors_see_their_own(false, amount(240, 1200));
}

/// With `scrub` no mark of one visitor is anywhere in the memory of a clone that runs another's request.
#[test]
fn two_visitors_find_nothing_in_scrubbed_memory() {
    visitors_see_their_own(true, amount(80, 1200));
}

fn visitors_see_their_own(scrub: bool, total: usize) {
    let cases = MARKS.replacen("\ndefault:", "\ndefault: $n = (int) ($_GET['n'] ?? 0);", 1);
    let boot = format!(
        "{BOOT} #[AllowDynamicProperties] class Held {{}} class Holder {{ static function mark($new = null) {{ static $mark; $old = $mark; $mark = $new ?? $mark; return $old; }} }} $held = new Held;"
    );
    let index = format!("<?php\nconst SCANS = {scrub};\n{boot}\nreprise_snapshot();\nrequire 'after.php';\n");
    both(
        || {
            let setup = snapshot_script(&index, &cases).ini("display_errors", "0").ini("log_errors", "0");
            if scrub && !scrubs_all() { setup.application("scrub = true") } else { setup }
        },
        |lane| {
            let total = if lane.rewinds() { requests(total) } else { total / 3 };
            let memory = Mutex::new(Vec::new());
            let weigh = |lane: &Lane| memory.lock().unwrap().push(anonymous(lane));
            let lane: &Lane = lane;
            let visitors = ["alice", "bob", "carol", "dave"];
            // A worker keeps what its largest request has needed: each has had one before the first weighing. No number comes twice, because
            // patterns that requests repeat are learned for the next snapshot.
            std::thread::scope(|scope| {
                for (number, own) in visitors.iter().enumerate() {
                    scope.spawn(move || {
                        let mut client = lane.client();
                        for n in (number..32).step_by(visitors.len()) {
                            let cookie = format!("visitor={own}");
                            client.request("GET", &format!("/?n={}", 160_000 + 16 * n), &[("Cookie", &cookie)], b"");
                        }
                    });
                }
            });
            let visit = |begin: usize| {
                std::thread::scope(|scope| {
                    for (number, own) in visitors.iter().enumerate() {
                        let weigh = &weigh;
                        scope.spawn(move || {
                            let mut client = lane.client();
                            for n in (begin + number..begin + total).step_by(visitors.len()) {
                                // Numbers of the first visitor, who alone looks at memory: no such request runs meanwhile.
                                if n - begin == total / 8 * 4 || n - begin == total / 16 * 12 {
                                    weigh(lane);
                                }
                                let cookie = format!("visitor={own}");
                                let headers = [
                                    ("Cookie", cookie.as_str()),
                                    ("X-Secret", &format!("secret-of-{own}")),
                                    ("Content-Type", "text/plain"),
                                ];
                                let body = format!("body-of-{own} ").repeat(n % 300);
                                let answer = client.request("POST", &format!("/?n={n}"), &headers, body.as_bytes());
                                let all = format!("{:?} {}", answer.headers, answer.text());
                                assert!(
                                    answer.text().contains(&format!(" own marker-of-{own}-{n}")),
                                    "{own} {n}: {} {all}",
                                    answer.status
                                );
                                for other in visitors.iter().filter(|other| *other != own) {
                                    assert!(
                                        !all.contains(&format!("-of-{other}")),
                                        "{own} sees {other} in request {n} of {}: {all}",
                                        lane.isolation
                                    );
                                }
                                assert!(
                                    !all.contains("others=") || all.contains(" others=0"),
                                    "{own} could find others in request {n} of {}",
                                    lane.isolation
                                );
                            }
                        });
                    }
                });
            };
            // One of a worker's largest requests may come late. What leaks grows each time.
            let mut rounds = 0;
            loop {
                visit(rounds * 1_000_000);
                rounds += 1;
                let memory = std::mem::take(&mut *memory.lock().unwrap());
                println!("{total} requests, private memory of the workers: {memory:?} KiB");
                if !lane.rewinds() || memory[1] <= memory[0] + 4096 {
                    break;
                }
                assert!(rounds < 3, "private memory of the workers grows: {memory:?} KiB");
            }
        },
    );
}
