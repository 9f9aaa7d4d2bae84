//! Signals and timers of a worker's process: what a request leaves of them meets no other request, in every mode.

use tests::Setup;
use tests::modes::modes;

/// What the kernel keeps of them, as the process itself sees it.
const STATE: &str = r#"
$libc = FFI::cdef('typedef struct { long every, every_us, in, in_us; } timer; int getitimer(int, timer *); int setitimer(int, const timer *, timer *);
    int timer_create(int, void *, size_t *); typedef struct { size_t at; int flags; size_t size; } stack; int sigaltstack(const stack *, stack *); long syscall(long, ...);');
function state(): string {
    global $libc;
    preg_match_all('~^(Sig(?:Blk|Ign|Cgt|Pnd)|ShdPnd):\s*(\S+)~m', file_get_contents('/proc/self/status'), $found);
    $state = array_combine($found[1], $found[2]);
    foreach (['real', 'virtual', 'prof'] as $which => $name) {
        $timer = $libc->new('timer');
        $libc->getitimer($which, FFI::addr($timer));
        $state[$name] = $timer->in + $timer->in_us > 0;
    }
    $stack = $libc->new('stack');
    $libc->sigaltstack(null, FFI::addr($stack));
    return json_encode($state + ['stack' => $stack->flags, 'timers' => file_get_contents('/proc/self/timers')]);
}
function start(int $which): void {
    global $libc;
    $timer = $libc->new('timer');
    $timer->in = $timer->every = 100;
    $libc->setitimer($which, FFI::addr($timer), null);
}
"#;

#[rustfmt::skip]
const LEFT: [(&str, &str); 14] = [
    ("alarm", "pcntl_alarm(100);"),
    ("alarm_and_exit", "pcntl_alarm(100); exit;"),
    ("alarm_and_fatal_error", "pcntl_alarm(100); nowhere();"),
    ("alarm_at_the_end", "register_shutdown_function(fn () => pcntl_alarm(100));"),
    ("interval_real", "start(0);"),
    ("interval_virtual", "start(1);"),
    ("interval_prof", "start(2);"),
    ("timer_create", "$timer = FFI::new('size_t'); $libc->timer_create(1, null, FFI::addr($timer));"),
    ("blocked", "pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGUSR1, SIGPROF, SIGALRM, 40]);"),
    ("blocked_and_pending", "pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1]); posix_kill(getmypid(), SIGUSR1);"),
    ("ignored", "pcntl_signal(SIGTERM, SIG_IGN); pcntl_signal(SIGQUIT, SIG_IGN);"),
    ("handled", "pcntl_signal(SIGALRM, function () {}); pcntl_signal(SIGCHLD, function () {}); pcntl_async_signals(true);"),
    ("stack", "$stack = $libc->new('stack'); $stack->at = FFI::cast('size_t', FFI::addr($kept = FFI::new('char[65536]', false, true)))->cdata; $stack->size = 65536; $libc->sigaltstack(FFI::addr($stack), null);"),
    ("raw", "$set = FFI::new('size_t'); $set->cdata = 1 << 9; $libc->syscall(php_uname('m') === 'x86_64' ? 14 : 135, 0, FFI::addr($set), null, 8);"),
];

fn served(end: &str, configured: &[String]) -> Setup {
    let cases: String = LEFT.iter().map(|(name, code)| format!("case '{name}': {code} break;\n")).collect();
    let script = format!(
        "<?php {STATE} $handle = function () {{ global $libc; switch ($_GET['do']) {{ case 'state': echo state(); break;
        case 'alarm_soon': pcntl_alarm(1); break;
        case 'burn': $until = hrtime(true) + 1200000000; while (hrtime(true) < $until); echo 'burnt'; break;\n{cases} }} }};\n{end}"
    );
    let setup = Setup::empty().file("index.php", script).ini("ffi.enable", "1").ini("display_errors", "0");
    configured.iter().fold(setup, |setup, line| setup.application(line)).application("workers = 1")
}

/// An alarm, a timer, a blocked or ignored signal that a request leaves behind is not there for the next one.
#[test]
fn signals_and_timers_of_a_request_are_not_the_next_ones() {
    for (mode, end, configured) in modes() {
        let server = served(end, &configured).start();
        let state = || server.get("/?do=state").text();
        let first = state();
        assert!(first.contains("SigBlk"), "{mode}: {first}");
        let wrong: Vec<String> = LEFT
            .iter()
            .filter_map(|(name, _)| {
                let answer = server.get(&format!("/?do={name}"));
                let is_expected = answer.status == if name.ends_with("error") { 500 } else { 200 };
                let now = state();
                (!is_expected || now != first).then(|| format!("{name}: {} {now}", answer.status))
            })
            .collect();
        assert!(wrong.is_empty(), "{mode}, {configured:?}: at first {first}\n{wrong:#?}\n{}", server.log());
        let recycled = server.log().contains("recycled: timers");
        assert!(recycled || configured.iter().any(|line| line.contains("fork")), "{mode}: {}", server.log());
    }
}

/// A request takes longer than an alarm that the one before has left.
#[test]
fn an_alarm_of_one_request_does_not_end_another() {
    for (mode, end, configured) in modes().into_iter().take(2) {
        let server = served(end, &configured).start();
        assert_eq!(server.get("/?do=alarm_soon").status, 200, "{mode}");
        let next = server.get("/?do=burn");
        assert_eq!((next.status, next.text().as_str()), (200, "burnt"), "{mode}: {}", server.log());
    }
}

/// Handlers, mask and alarm of a worker script's boot are those of its loop, whatever a request does to them.
#[test]
fn signals_of_a_worker_scripts_boot_stay() {
    let script = "<?php pcntl_signal(SIGUSR1, function () { echo 'of the boot'; }); pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2]); pcntl_alarm(300);
        function look(): void { posix_kill(getmypid(), SIGUSR1); pcntl_signal_dispatch(); pcntl_sigprocmask(SIG_BLOCK, [], $blocked);
            echo json_encode([$blocked === [SIGUSR2], pcntl_async_signals(), pcntl_signal_get_handler(SIGALRM), pcntl_alarm(300) > 200]); }
        while (reprise_handle_request(function () { if (isset($_GET['change'])) {
            pcntl_async_signals(true); foreach ([SIGUSR1, SIGALRM] as $number) pcntl_signal($number, function () { echo 'of a request'; });
            pcntl_sigprocmask(SIG_SETMASK, [SIGTERM]); } else look(); })) {}";
    let server =
        Setup::empty().file("index.php", script).application("workers = 1\nmode.\"index.php\" = \"worker\"").start();
    for round in 0..2 {
        assert_eq!(server.get("/").text(), "of the boot[true,false,0,true]", "{round}: {}", server.log());
        assert_eq!(server.get("/?change").status, 200);
    }
    assert!(!server.log().contains("recycled"), "{}", server.log());
}
