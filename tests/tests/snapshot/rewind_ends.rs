//! How a request ends: what it has forked, locked or opened ends with it, as in classic mode, and reaches nobody else.

use std::fs;

use tests::snapshot::{Lane, both, refused_by_both, snapshot, snapshot_script};
use tests::{Setup, process, wait_until};

/// `note('name')` tells that this process came by.
const NOTES: &str = r#"
function note(string $name): void { file_put_contents(getenv('PLACE') . "/$name", getmypid() . "\n", FILE_APPEND); }
class Noted { function __construct(public string $name) {} function __destruct() { note($this->name); } }
"#;

/// `forked(fn)` runs it in a child, and tells how that ended.
const FORKED: &str = r#"
$of_boot = new Noted('destructor_of_boot');
register_shutdown_function(fn () => note('shutdown_of_boot'));
function ended(int $child): string {
    pcntl_waitpid($child, $status);
    return "$child " . (pcntl_wifexited($status) ? 'exited ' . pcntl_wexitstatus($status) : 'killed by ' . pcntl_wtermsig($status));
}
"#;

/// Each answers with the child's process and how it ended.
const FORKING: &str = r#"
case 'exit': if (($child = pcntl_fork()) === 0) { echo 'child'; $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); exit(7); } echo ended($child); break;
case 'text': if (($child = pcntl_fork()) === 0) { $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); exit('child'); } echo ended($child); break;
case 'end': if (($child = pcntl_fork()) === 0) { echo 'child'; header('X-Child: 1'); http_response_code(500); $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); break; } echo ended($child); break;
case 'throws': if (($child = pcntl_fork()) === 0) { $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); throw new Exception('of a child'); } echo ended($child); break;
case 'flushes': if (($child = pcntl_fork()) === 0) { $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); echo 'child'; while (ob_get_level()) ob_end_flush(); flush(); exit(7); } echo ended($child); break;
case 'snapshot': if (($child = pcntl_fork()) === 0) { $own = new Noted('destructor'); register_shutdown_function(fn () => note('shutdown')); reprise_snapshot(); exit(7); } echo ended($child); break;
case 'late': register_shutdown_function(function () { if (($child = pcntl_fork()) === 0) { $GLOBALS['own'] = new Noted('destructor'); note('shutdown'); exit(7); } echo ended($child); }); break;
case 'session': session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; if (($child = pcntl_fork()) === 0) { $_SESSION['n'] = 9; exit(7); } echo ended($child); break;
case 'count': session_start(['read_and_close' => true]); echo $_SESSION['n']; break;
"#;

fn was_noted(lane: &Lane, name: &str, pid: &str) -> bool {
    let notes = fs::read_to_string(lane.directory().join("place").join(name)).unwrap_or_default();
    notes.lines().filter(|line| *line == pid).count() == 1
}

/// A child that PHP code forks runs to its own end, with all that belongs to it, and answers nothing.
#[test]
fn a_forked_child_ends_as_any_process() {
    let ways = [("exit", 7), ("text", 0), ("end", 0), ("throws", 255), ("flushes", 7), ("snapshot", 7), ("late", 7)];
    both(
        || snapshot(&format!("{NOTES}{FORKED}"), FORKING).ini("display_errors", "0"),
        |lane| {
            lane.expect(&["children"]);
            let mut client = lane.client();
            for round in 0..4 {
                for (what, status) in ways {
                    let answer = client.get(&format!("/?do={what}"));
                    let text = answer.text();
                    let (child, end) = text.split_once(' ').unwrap_or_else(|| panic!("{what}: {text}"));
                    assert_eq!((answer.status, end), (200, format!("exited {status}").as_str()), "{what}, {round}");
                    assert_eq!(answer.header("x-child"), None, "{what}, {round}");
                    for name in ["shutdown", "destructor", "shutdown_of_boot", "destructor_of_boot"] {
                        // The boot's shutdown function comes before the one that forks.
                        let runs = (what, name) != ("late", "shutdown_of_boot");
                        assert_eq!(was_noted(lane, name, child), runs, "{name} of {child}, {what}, {round}");
                    }
                    assert!(!process::is_alive(child.parse().unwrap()), "{what}, {round}");
                }
            }
        },
    );
}

/// What a child does to its copy of a session is overwritten by the request's own end, as under FPM.
#[test]
fn a_forked_childs_session_is_a_copy() {
    both(
        || snapshot(&format!("{NOTES}{FORKED} session_save_path(getenv('PLACE'));"), FORKING),
        |lane| {
            lane.expect(&["children"]);
            let mut client = lane.client();
            for round in 1..=8 {
                for visitor in ["one", "two"] {
                    let cookie = format!("PHPSESSID={visitor}{}", lane.isolation);
                    let headers = [("Cookie", cookie.as_str())];
                    let text = client.request("GET", "/?do=session", &headers, b"").text();
                    assert!(text.ends_with(" exited 7"), "{text}");
                    assert_eq!(client.request("GET", "/?do=count", &headers, b"").text(), round.to_string());
                }
            }
        },
    );
}

const LOCKS: &str = r#"
case 'exclusive': echo json_encode(flock($file, LOCK_EX | LOCK_NB)); break;
case 'shared': echo json_encode(flock($file, LOCK_SH | LOCK_NB)); break;
case 'exit': echo json_encode(flock($file, LOCK_EX | LOCK_NB)); exit;
case 'object': echo json_encode($object->flock(LOCK_EX | LOCK_NB)); break;
case 'shutdown': register_shutdown_function(function () { global $file; echo json_encode(flock($file, LOCK_EX | LOCK_NB)); }); break;
case 'try': $own = fopen($name, 'r'); for ($i = 0; $i < 500 && !($got = flock($own, LOCK_EX | LOCK_NB)); $i++) usleep(10000); echo json_encode($got); break;
case 'same': for ($i = 0; $i < 500 && !($got = flock($file, LOCK_EX | LOCK_NB)); $i++) usleep(10000); flock($file, LOCK_UN); echo json_encode($got); break;
"#;

/// The file stays open, as the boot left it; the lock does not stay.
#[test]
fn a_lock_on_a_file_of_the_boot_ends_with_the_request() {
    let boot = "touch($name = getenv('PLACE') . '/locked'); $file = fopen($name, 'r'); $object = new SplFileObject($name, 'r');";
    both(
        || snapshot(boot, LOCKS),
        |lane| {
            for round in 0..4 {
                for what in ["exclusive", "shared", "exit", "object", "shutdown"] {
                    assert_eq!(lane.text(what), "true", "{what}, {round}");
                    // Both clones: the one that has taken it, and the other.
                    assert_eq!(lane.pair("try"), ["true", "true"], "after {what}, {round}");
                    assert_eq!(lane.pair("same"), ["true", "true"], "after {what}, {round}");
                }
            }
        },
    );
}

/// As many times as there are requests, and by two clones in turn. The kernel counts the users of a semaphore.
#[test]
fn semaphores_of_requests_are_released() {
    const CASES: &str = r#"
case 'left': $left = sem_get(ftok(getenv('PLACE') . '/key', 's')); echo json_encode(sem_acquire($left, true)); break;
case 'twice': $left = sem_get(ftok(getenv('PLACE') . '/key', 's')); $other = sem_get(ftok(getenv('PLACE') . '/key', 's')); echo json_encode(sem_acquire($other, true)); unset($left); break;
case 'wait': $left = sem_get(ftok(getenv('PLACE') . '/key', 's')); echo json_encode(sem_acquire($left)); usleep(2000); break;
case 'remove': sem_remove(sem_get(ftok(getenv('PLACE') . '/key', 's'))); echo 'removed'; break;
"#;
    both(
        || snapshot("touch(getenv('PLACE') . '/key');", CASES),
        |lane| {
            for _ in 0..5 {
                assert_eq!(lane.same("left", 20), "true");
                assert_eq!(lane.same("twice", 20), "true");
                assert_eq!(lane.pair("wait"), ["true", "true"]);
            }
            assert_eq!(lane.text("remove"), "removed");
        },
    );
}

/// What a stream wrapper of the application's own is told: it was written to, flushed and closed.
#[test]
fn a_stream_of_the_applications_own_is_closed() {
    const WRAPPER: &str = r#"
class Kept {
    public $context; private string $name; private string $data = '';
    function stream_open($path, $mode, $options, &$opened) { $this->name = substr($path, 7); $this->data = $mode === 'r' ? 'of the boot' : ''; return true; }
    function stream_read($count) { $part = substr($this->data, 0, $count); $this->data = substr($this->data, $count); return $part; }
    function stream_eof() { return $this->data === ''; }
    function stream_write($data) { $this->data .= $data; return strlen($data); }
    function stream_flush() { return true; }
    function stream_stat() { return []; }
    function url_stat($path, $flags) { return []; }
    function stream_close() { note('closed-' . $this->name); file_put_contents(getenv('PLACE') . "/data-$this->name", $this->data); }
}
stream_wrapper_register('kept', 'Kept');
$read = fopen('kept://boot', 'r'); $letter = fread($read, 1);
"#;
    const CASES: &str = r#"
case 'global': $left = fopen('kept://' . $_GET['n'], 'w'); fwrite($left, "text $_GET[n]"); echo getmypid(); break;
case 'exit': function keep($stream) { static $kept; $kept = $stream; } keep(fopen('kept://' . $_GET['n'], 'a')); echo getmypid(); exit(fwrite((new ReflectionFunction('keep'))->getStaticVariables()['kept'], "text $_GET[n]") ? 0 : 1);
case 'persistent': $object = new SplFileObject('kept://' . $_GET['n'], 'w'); $object->fwrite("text $_GET[n]"); $object = [$object]; $object[] = &$object; echo getmypid(); break;
case 'read': echo $letter, fread($read, 100); break;
"#;
    let index = || snapshot(&format!("{NOTES}{WRAPPER}"), CASES);
    both(index, |lane| {
        let mut client = lane.client();
        for round in 0..6 {
            for what in ["global", "exit", "persistent"] {
                let name = format!("{what}{round}");
                let pid = client.get(&format!("/?do={what}&n={name}")).text();
                let file = |kind: &str| {
                    let path = lane.directory().join(format!("place/{kind}-{name}"));
                    fs::read_to_string(path).unwrap_or_default()
                };
                assert_eq!(file("closed"), format!("{pid}\n"), "{name}");
                assert_eq!(file("data"), format!("text {name}"));
                // One that is only read may be open at the snapshot.
                assert_eq!(client.get("/?do=read").text(), "of the boot", "{name}");
            }
        }
    });
}

const TICKS: &str = r#"declare(ticks=1);
$counts = false;
function tick() { global $counts; if ($counts) echo 'tick '; }
"#;

const TICKING: &str = r#"
case 'runs': register_tick_function('tick'); $counts = true; $a = 1; $counts = false; break;
case 'shutdown': register_tick_function('tick'); register_shutdown_function(function () { global $counts; $counts = true; echo 'shutdown '; $a = 1; $b = 2; }); break;
case 'exit': register_tick_function('tick'); register_shutdown_function(function () { global $counts; $counts = true; echo 'shutdown '; $a = 1; $b = 2; }); exit;
case 'destructor': class Late { function __destruct() { global $counts; $counts = true; echo 'destructor '; $a = 1; $b = 2; } } register_tick_function('tick'); $late = new Late; break;
case 'none': $counts = true; echo 'none '; $a = 1; break;
"#;

/// Tick functions, the boot's and the request's, run as often as in classic mode: not when the script is over.
#[test]
fn tick_functions_end_before_shutdown_functions() {
    for more in ["", "register_tick_function('tick');"] {
        let setup = || snapshot(&format!("{TICKS}{more}"), TICKING);
        let classic = setup().application("mode.\"index.php\" = \"classic\"").start();
        both(setup, |lane| {
            for _ in 0..4 {
                for what in ["runs", "shutdown", "exit", "destructor", "none"] {
                    let expected = classic.get(&format!("/?do={what}")).text();
                    assert_eq!(lane.text(what), expected, "{what}, {more}");
                }
            }
            assert!(lane.text("runs").starts_with("tick "));
            assert_eq!(lane.text("shutdown"), "shutdown ");
        });
    }
}

/// The handlers are the boot's. (PHP itself unblocks signals that have one when it takes it away at the end of a request;
/// what is blocked here has none.) What one request sent itself and did not handle is nobody's.
const SIGNALS: &str = r#"
pcntl_async_signals(true);
$hits = 0;
foreach ([SIGUSR1, SIGUSR2, SIGALRM] as $signal) pcntl_signal($signal, function () { global $hits; $hits++; });
$data = str_repeat('of the boot', 1000);
"#;

const SIGNALLING: &str = r#"
case 'seen': pcntl_signal_dispatch(); echo $hits, count(preg_grep('/^(SigBlk|ShdPnd|SigPnd):\s*0*[1-9a-f]/', file('/proc/self/status'))), strlen($data); break;
case 'burn': $until = hrtime(true) + 1200000000; while (hrtime(true) < $until); echo $hits; break;
case 'parent': echo posix_getppid(); break;
case 'who': echo getmypid(); break;
case 'handled': posix_kill(getmypid(), SIGUSR1); posix_kill(getmypid(), SIGUSR2); echo $hits; break;
case 'blocked': pcntl_sigprocmask(SIG_BLOCK, [SIGIO, SIGRTMIN + 5]); posix_kill(getmypid(), SIGIO); posix_kill(getmypid(), SIGRTMIN + 5); echo $hits; break;
case 'late': pcntl_async_signals(false); register_shutdown_function(fn () => posix_kill(getmypid(), SIGUSR1)); echo $hits; break;
case 'alarm': pcntl_alarm(1); echo $hits; break;
case 'ignored': pcntl_signal(SIGUSR1, SIG_IGN); pcntl_signal(SIGUSR2, SIG_DFL); pcntl_signal(SIGCHLD, fn () => $hits++); posix_kill(getmypid(), SIGUSR1); echo $hits; break;
case 'die': posix_kill(getmypid(), SIGKILL); sleep(10);
"#;

fn signals() -> Setup {
    snapshot(SIGNALS, SIGNALLING)
}

/// Signal handlers, masks and alarms of a request do not exist in the next.
#[test]
fn signals_of_one_request_reach_no_other() {
    both(
        || signals().application("workers = 1"),
        |lane| {
            for round in 0..6 {
                for (what, answer) in [("handled", "2"), ("blocked", "0"), ("late", "0"), ("ignored", "0")] {
                    assert_eq!(lane.text(what), answer, "{what}, {round}");
                    assert_eq!(lane.text("seen"), "0011000", "after {what}, {round} of {}", lane.isolation);
                }
            }
            assert_eq!(lane.text("alarm"), "0");
            assert_eq!(lane.text("burn"), "0", "an alarm of an earlier request");
        },
    );
}

/// Handlers would run there too, and what they write would be in every clone that is made from then on.
#[test]
fn signals_to_a_template_are_in_no_clone() {
    use nix::sys::signal::Signal::{SIGALRM, SIGUSR1, SIGUSR2};
    both(
        || signals().application("workers = 1"),
        |lane| {
            lane.expect(&["crash"]);
            let template: i32 = lane.text("parent").parse().unwrap();
            for signal in [SIGUSR1, SIGUSR2, SIGALRM, SIGUSR1] {
                process::kill(template, signal);
                let before = lane.text("who");
                assert_eq!(lane.get("/?do=die").status, 502);
                wait_until("another clone answers", 10, || {
                    let answer = lane.get("/?do=who");
                    answer.status == 200 && answer.text() != before
                });
                assert_eq!(lane.same("seen", 3), "0011000", "{signal}, {}", lane.isolation);
            }
            assert_eq!(lane.text("parent"), template.to_string(), "another template");
        },
    );
}

/// Cycles are collected before the snapshot, and free slots sorted: destructors run once in all, others of the boot run at
/// the end of each request, and nothing that lives is touched.
#[test]
fn the_boots_garbage_is_nobodys() {
    const BOOT: &str = r#"
class Node { public $self; public function __construct(public string $name) { $this->self = $this; } function __destruct() { note($this->name); } }
for ($i = 0; $i < 20; $i++) { new Node('garbage'); }
// Free slots between ones in use, of every size.
$kept = [];
for ($size = 1; $size < 3000; $size += 7) { $strewn = []; for ($i = 0; $i < 20; $i++) $strewn[] = str_repeat(chr(65 + $i), $size); $kept[] = $strewn[$size % 20]; }
unset($strewn);
$sum = md5(implode($kept));
$plain = []; for ($i = 0; $i < 500; $i++) $plain[] = (object) ['i' => $i];
$held = new Node('held');
"#;
    const CASES: &str = r#"
case 'sum': $own = []; for ($i = 1; $i < 3000; $i += 3) $own[] = str_repeat('x', $i); echo $sum === md5(implode($kept)) && array_sum(array_map(fn ($o) => $o->i, $plain)) === 124750 ? 'same' : 'CHANGED'; $plain = $kept = null; break;
"#;
    both(
        || snapshot(&format!("{NOTES}{BOOT}"), CASES),
        |lane| {
            let noted = |name: &str| {
                fs::read_to_string(lane.directory().join("place").join(name)).unwrap_or_default().lines().count()
            };
            assert_eq!(noted("garbage"), 20, "the boot's");
            let before = noted("held");
            for round in 1..=50 {
                assert_eq!(lane.text("sum"), "same", "{round}");
                wait_until("the destructor has run", 5, || noted("held") == before + round);
            }
            assert_eq!(noted("garbage"), 20, "no request's");
        },
    );
}

/// An exception of a destructor that the collection calls is the boot's, as one of any other collection would be.
#[test]
fn a_destructor_that_throws_before_the_snapshot_is_the_boots() {
    const BOOT: &str = "class Bad { public $self; function __construct() { $this->self = $this; } function __destruct() { if (isset($_SERVER['REPRISE_BOOT'])) throw new Exception('thrown by garbage'); } }
new Bad;";
    for caught in [false, true] {
        if caught {
            let script = format!(
                "<?php {BOOT} try {{ reprise_snapshot(); }} catch (Exception $e) {{ $was = $e->getMessage(); reprise_snapshot(); }} echo $was ?? 'not thrown';"
            );
            let server = snapshot_script(&script, "").start();
            assert_eq!(server.get("/").text(), "thrown by garbage");
        } else {
            refused_by_both(BOOT, &["thrown by garbage"]);
        }
    }
}
