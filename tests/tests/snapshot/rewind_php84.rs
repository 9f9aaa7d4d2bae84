//! What is new in PHP 8.4, and of 8.3 the limit of the stack: each thing is made by the boot, used by requests, and as the boot
//! left it for the next request. `tests/runner` leaves these tests out where PHP is older. Every rewind is audited.

use tests::snapshot::{Lane, both, requests, rewind, snapshot, snapshot_script};
use tests::{Setup, amount};

/// What the boot makes. The classic script makes the same anew for each request.
const BOOT: &str = r#"
class Lazy { public string $name = 'of the class'; public array $list = []; function __construct(public int $number = 0) { $this->list = range(1, 50); } function __toString() { return "{$this->name} {$this->number}"; } }
class Hooked {
    private int $reads = 0; public array $written = [];
    public string $full { get { $this->reads++; return "$this->first $this->last $this->reads"; } set (string $value) { [$this->first, $this->last] = explode(' ', $value); $this->written[] = $value; } }
    public string $loud = 'quiet' { get => strtoupper($this->loud); set => strtolower($value); }
    function __construct(public string $first = 'Ada', public string $last = 'Lovelace') {}
}
class Guarded { public private(set) int $count = 0; public protected(set) array $log = []; function add(string $what) { $this->count++; $this->log[] = $what; return $this; } }
$class = new ReflectionClass(Lazy::class);
$made = 0;
$ghost = $class->newLazyGhost(function (Lazy $object) use (&$made) { $made++; $object->__construct(7); $object->name = 'ghost'; });
$proxy = $class->newLazyProxy(function () use (&$made) { $made++; $object = new Lazy(8); $object->name = 'proxy'; return $object; });
$partly = $class->newLazyGhost(function (Lazy $object) { $object->__construct(9); });
$class->getProperty('name')->setRawValueWithoutLazyInitialization($partly, 'set by the boot');
$ready = $class->newLazyGhost(function (Lazy $object) { $object->__construct(10); }); $class->initializeLazyObject($ready);
$reset = new Lazy(11);
$hooked = new Hooked; $hooked->full = 'Grace Hopper'; $before = $hooked->full;
$guarded = (new Guarded)->add('boot');
$engines = ['mt' => new Random\Engine\Mt19937(42), 'pcg' => new Random\Engine\PcgOneseq128XslRr64(42), 'xo' => new Random\Engine\Xoshiro256StarStar(42)];
$randomizers = array_map(fn ($engine) => new Random\Randomizer($engine), $engines);
foreach ($randomizers as $randomizer) $randomizer->getInt(0, 1000);
function sum(int $n): int { $sum = 0; for ($i = 0; $i < $n; $i++) { $sum += ($i * $i) % 7; if ($sum > 1000000) $sum -= 1000000; } return $sum; }
function mixed_sum(array $values) { $sum = 0; foreach ($values as $value) $sum += is_string($value) ? strlen($value) : $value * 2; return $sum; }
sum(300); mixed_sum([1, 'two', 3.5]);
"#;

/// Answers that depend on the request and on the boot alone. `$n` is a number of the request.
const CASES: &str = r#"
case 'ghost': echo $class->isUninitializedLazyObject($ghost) ? 'lazy ' : 'made ', $made, ' '; echo $ghost->number + $n, $ghost, count($ghost->list), $made, $class->isUninitializedLazyObject($ghost) ? 'lazy' : 'made'; $ghost->name = "left by $n"; $ghost->list[] = $n; break;
case 'proxy': echo $class->isUninitializedLazyObject($proxy) ? 'lazy ' : 'made ', $made, ' '; $proxy->number += $n; echo $proxy, $made, get_class($class->initializeLazyObject($proxy)); $proxy->name = str_repeat("left $n ", 50); break;
case 'partly': echo $class->isUninitializedLazyObject($partly) ? 'lazy ' : 'made ', $partly->name; if ($n % 2) echo ' ', $partly->number, ' ', $partly->name; break;
case 'reset': echo $reset->number; $class->resetAsLazyGhost($reset, function (Lazy $object) use ($n) { $object->__construct($n); }); echo $class->isUninitializedLazyObject($reset) ? 'lazy ' : 'made ', $n % 3 ? $reset->number : 'left lazy'; break;
case 'ready': echo $class->isUninitializedLazyObject($ready) ? 'lazy ' : 'made ', $ready->number, count($ready->list); array_push($ready->list, ...range(1, $n % 40 + 1)); break;
case 'fails': $thrown = $class->newLazyGhost(function () use ($n) { throw new RuntimeException("init $n"); }); try { echo $thrown->number; } catch (RuntimeException $e) { echo $e->getMessage(), $class->isUninitializedLazyObject($thrown) ? ' lazy again' : ''; } break;
case 'copies': $copy = clone $ghost; $copy->number += $n; echo $copy->number, $class->isUninitializedLazyObject($ghost) ? 'lazy' : 'made', serialize($proxy) === serialize($proxy) ? 'same' : 'other', json_encode($partly); break;
case 'hooks': echo $hooked->full, $hooked->loud, count($hooked->written); $hooked->full = "Visitor $n"; $hooked->loud = "LOUD $n"; echo $hooked->full, $hooked->loud, count($hooked->written), json_encode(get_object_vars($hooked)); break;
case 'reference': try { $reference = &$hooked->loud; echo 'referenced'; } catch (Error $e) { echo $e->getMessage(); } break;
case 'visibility': echo $guarded->count, count($guarded->log); try { $guarded->count = $n; echo 'written'; } catch (Error $e) { echo $e->getMessage(); } try { $guarded->log[] = 'x'; echo 'written'; } catch (Error $e) { echo $e->getMessage(); } echo $guarded->add("request $n")->count, $guarded->log[1] === "request $n" ? 'own' : 'foreign'; break;
case 'random': foreach ($randomizers as $kind => $randomizer) echo $kind, $randomizer->getInt(0, 1 << 30), $randomizer->getFloat(0, 1), bin2hex($randomizer->getBytes(4)), $randomizer->getBytesFromString('abcdef', 5), implode($randomizer->shuffleArray([1, 2, 3, 4])); break;
case 'seeded': mt_srand($n); echo mt_rand(), rand(), implode(array_rand(range(0, 99), 3)), str_shuffle('abcdefgh'); mt_srand($n, MT_RAND_PHP); echo mt_rand(1, 1000); break;
case 'engines': $copy = clone $engines['xo']; $copy->jump(); echo bin2hex($copy->generate()), md5(serialize($engines)); unserialize(serialize($engines))['mt']->generate(); break;
case 'frameless': include 'frameless.php'; break;
case 'shadowed': if ($n % 2) include 'shadow.php'; include 'frameless.php'; break;
case 'hot': echo sum(2000 + $n), mixed_sum([...range(1, 200), "text $n", 1.5]); for ($i = 0; $i < 300; $i++) $hooked->loud = "L$i"; echo $hooked->loud; break;
case 'types': echo mixed_sum(array_fill(0, 300, $n % 3 ? "s$n" : $n)), mixed_sum(array_fill(0, 300, $n * 0.5)); break;
case 'new': echo array_find([1, 5, $n], fn ($v) => $v > 3), json_encode(array_any([$n], fn ($v) => $v % 2)), mb_trim("\u{3000}x$n\u{3000}"), mb_ucfirst("ü$n"), new DateTime('@0')->modify("+$n days")->format('c'); break;
case 'dom': $dom = Dom\HTMLDocument::createFromString("<!doctype html><p class=a>one<p class='a b'>two $n", LIBXML_NOERROR); echo $dom->querySelectorAll('p.a')->length, $dom->querySelector('.b')->textContent; break;
"#;

/// Calls of functions that PHP 8.4 compiles without a frame, looked up in the namespace first.
const FRAMELESS: &str = r"<?php
namespace Some;
for ($i = 0; $i < 40; $i++) $all = implode(',', [in_array($n, [1, 2, $n], true), str_contains('needle', 'eed'), substr(trim(' text '), 1, 2), strpos('abc', 'c'), min($n, 9), max($i, 3), is_array([$i]), preg_match('/x/', 'x'), str_replace('a', 'b', 'aa'), dirname('/a/b')]);
echo $all;";

/// What a request may put before them.
const SHADOW: &str =
    r"<?php namespace Some; function in_array() { return 'own'; } function trim($s) { return 'shadow'; }";

fn kinds() -> Vec<&'static str> {
    CASES.lines().filter_map(|line| line.strip_prefix("case '")?.split('\'').next()).collect()
}

fn setup() -> Setup {
    let cases = CASES.replacen(
        "\ncase 'ghost'",
        "\ndefault: $n = (int) ($_GET['n'] ?? 0); switch ($_GET['do'] ?? '') {\ncase 'ghost'",
        1,
    );
    let index = format!("<?php\n{BOOT}\nreprise_snapshot();\nrequire 'after.php';\n");
    snapshot_script(&index, &format!("{cases}\n}}\n"))
        .file("classic.php", format!("<?php\n{BOOT}\nrequire 'after.php';\n"))
        .file("frameless.php", FRAMELESS)
        .file("shadow.php", SHADOW)
        .ini("display_errors", "1")
}

/// The responses of the lane are those of a fresh process.
fn compare(lane: &Lane, total: usize) {
    let mut client = lane.client();
    let questions: Vec<String> =
        kinds().iter().flat_map(|kind| (0..6).map(move |n| format!("?do={kind}&n={}", n * 31 + n))).collect();
    let expected: Vec<String> = questions
        .iter()
        .map(|question| {
            let answer = client.get(&format!("/classic.php{question}"));
            let text = answer.text();
            assert!(answer.status == 200 && !text.is_empty() && !text.contains("Fatal"), "{question}: {text}");
            text
        })
        .collect();
    for number in 0..total {
        // A prime step, so that each kind follows each.
        let at = (number * 7919) % questions.len();
        let answer = client.get(&format!("/{}", questions[at]));
        assert_eq!(answer.text(), expected[at], "{}, request {number} of {}", questions[at], lane.isolation);
    }
}

fn with_jit(mode: &str) -> Setup {
    setup().ini("opcache.jit", mode).ini("opcache.jit_buffer_size", "32M").ini("opcache.jit_hot_func", "20")
}

fn amount_of(lane: &Lane) -> usize {
    if lane.rewinds() { requests(amount(400, 1500)) } else { amount(150, 400) }
}

/// Without the JIT.
#[test]
fn what_is_new_in_php_8_4_without_the_jit() {
    both(|| with_jit("disable"), |lane| compare(lane, amount_of(lane)));
}

/// Functions are compiled when they are loaded.
#[test]
fn what_is_new_in_php_8_4_with_the_jit_for_functions() {
    both(|| with_jit("function"), |lane| compare(lane, amount_of(lane)));
}

/// Traces are compiled while they run, in the boot and in requests.
#[test]
fn what_is_new_in_php_8_4_with_the_jit_for_traces() {
    both(|| with_jit("tracing"), |lane| compare(lane, amount_of(lane)));
}

/// A request's initialisation of a ghost and of a proxy is gone with the request: their initialisers run in each anew.
#[test]
fn a_lazy_object_of_the_boot_is_lazy_in_each_request() {
    let cases =
        "case 'use': $lazy = [$class->isUninitializedLazyObject($ghost), $class->isUninitializedLazyObject($proxy)];
        echo json_encode($lazy), $made, $ghost, $proxy, $made; break;";
    rewind(
        || snapshot(BOOT, cases),
        |lane| {
            let mut client = lane.client();
            for _ in 0..50 {
                assert_eq!(client.get("/?do=use").text(), "[true,true]0ghost 7proxy 82");
            }
        },
    );
}

/// A stack that is used up is an Error, in a clone and in a fiber, and no end of a worker. The next request is served as ever.
#[test]
fn a_stack_that_is_used_up_is_an_error_in_a_clone_and_in_a_fiber() {
    let boot = "function deep($n) { return array_map('deep', [$n + 1]); }
        function told(callable $run) { try { $run(); return 'no end'; } catch (Error $e) { return strtok($e->getMessage(), '('); } }
        $kept = new Fiber(function () { $run = Fiber::suspend(); return told($run); });";
    let cases = "case 'stack': echo told(fn () => deep(0)); break;
        case 'fiber': $fiber = new Fiber(fn () => told(fn () => deep(0))); $fiber->start(); echo $fiber->getReturn(); break;
        case 'kept': $kept->start(); $kept->resume(fn () => deep(0)); echo $kept->getReturn(); break;
        case 'uncaught': deep(0); break;
        case 'destructor': $o = new class { function __destruct() { echo told(fn () => deep(0)); } }; unset($o); break;
        case 'fine': echo array_sum(array_map(fn ($v) => $v * 2, range(1, 100))); break;";
    both(
        || snapshot(boot, cases).ini("memory_limit", "512M").ini("display_errors", "0"),
        |lane| {
            let mut client = lane.client();
            for _ in 0..amount(3, 10) {
                for case in ["stack", "fiber", "kept", "destructor"] {
                    let answer = client.get(&format!("/?do={case}"));
                    assert!(answer.text().starts_with("Maximum call stack size of "), "{case}: {}", answer.text());
                    assert_eq!(client.get("/?do=fine").text(), "10100", "after {case}");
                }
                assert_eq!(client.get("/?do=uncaught").status, 500);
                assert_eq!(client.get("/?do=fine").text(), "10100", "after an Error that nobody catches");
            }
        },
    );
}
