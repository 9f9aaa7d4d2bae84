//! What the kernel keeps for a process, and PHP can change: the next request finds it as it was, in every mode.

use tests::Setup;
use tests::snapshot::isolations;

/// All of it, as the process itself sees it.
const STATE: &str = r#"
function state(): string {
    $libc = FFI::cdef('int getpriority(int, unsigned);');
    $state = ['priority' => $libc->getpriority(0, 0), 'limits' => posix_getrlimit(), 'groups' => posix_getgroups()];
    foreach (['comm', 'oom_score_adj', 'timerslack_ns', 'coredump_filter', 'autogroup', 'personality'] as $name) {
        $state[$name] = @file_get_contents("/proc/self/$name");
    }
    $state['autogroup'] = preg_replace('~^\S+~', '', $state['autogroup']);
    foreach ([0, 1, 2] as $number) {
        preg_match('~flags:\s*\S+~', file_get_contents("/proc/self/fdinfo/$number"), $state["flags$number"]);
    }
    preg_match('~VmLck:.*~', file_get_contents('/proc/self/status'), $state['locked']);
    return json_encode($state);
}
"#;

#[rustfmt::skip]
const CHANGES: [(&str, &str); 19] = [
    ("comm", "file_put_contents('/proc/self/comm', 'spoiled');"),
    ("thread_comm", "file_put_contents('/proc/thread-self/comm', 'spoiled');"),
    ("oom_score_adj", "file_put_contents('/proc/self/oom_score_adj', '900');"),
    ("timerslack", "file_put_contents('/proc/self/timerslack_ns', '77777');"),
    ("coredump_filter", "file_put_contents('/proc/' . getmypid() . '/coredump_filter', '0x7f');"),
    ("autogroup", "@file_put_contents('/proc/self/autogroup', '7');"),
    ("by_link", "@symlink('/proc/self', getenv('PLACE') . '/self'); file_put_contents(getenv('PLACE') . '/self/comm', 'spoiled');"),
    ("by_directory", "chdir('/proc/self'); file_put_contents('comm', 'spoiled');"),
    ("limit", "posix_setrlimit(POSIX_RLIMIT_NOFILE, 1200, 1300);"),
    ("priority", "FFI::cdef('int setpriority(int, unsigned, int);')->setpriority(0, 0, 9);"),
    ("raw_priority", "FFI::cdef('long syscall(long, ...);')->syscall(PHP_OS_FAMILY === 'Linux' && php_uname('m') === 'x86_64' ? 141 : 140, 0, 0, 9);"),
    ("raw_limit", "$libc = FFI::cdef('long syscall(long, ...);'); $limit = FFI::new('unsigned long[2]'); $limit[0] = $limit[1] = 1250; $libc->syscall(php_uname('m') === 'x86_64' ? 160 : 164, 7, FFI::addr($limit[0]));"),
    ("personality", "FFI::cdef('int personality(unsigned long);')->personality(0x0040000);"),
    ("locked", "FFI::cdef('int mlockall(int);')->mlockall(2); $block = str_repeat('x', 3000000);"),
    ("named", "FFI::cdef('int prctl(int, ...);')->prctl(15, 'spoiled');"),
    ("priority_of_libc", "FFI::cdef('int setpriority(int, unsigned, int);', 'libc.so.6')->setpriority(0, 0, 9);"),
    ("name_of_libc", "FFI::cdef('int prctl(int, ...);', 'libc.so.6')->prctl(15, 'spoiled');"),
    ("limit_of_libc", "$limit = FFI::cdef('struct limit { unsigned long soft, hard; }; int setrlimit(int, struct limit *);', 'libc.so.6'); $value = $limit->new('struct limit'); $value->soft = $value->hard = 1250; $limit->setrlimit(7, FFI::addr($value));"),
    ("flags", "foreach (['php://stderr', 'php://stdin', 'php://stdout'] as $name) { stream_set_blocking(fopen($name, 'r+'), false); }
        $libc = FFI::cdef('int fcntl(int, int, ...); int ioctl(int, unsigned long, ...);'); foreach ([0, 1, 2] as $number) { $libc->fcntl($number, 4, 04000); $on = FFI::new('int'); $on->cdata = 1; $libc->ioctl($number, 0x5421, FFI::addr($on)); }
        if (state() !== $before) { echo 'other workers share ', state(); }"),
];

fn served_in(mode: &str, isolation: &str) -> Setup {
    let cases: String = CHANGES.iter().map(|(name, code)| format!("case '{name}': {code} break;\n")).collect();
    let body = format!("$before = state(); switch ($_GET['do']) {{ case 'state': echo $before; break;\n{cases} }}");
    let script = match mode {
        "snapshot" => format!("<?php {STATE} reprise_snapshot(); {body}"),
        "worker" => format!("<?php {STATE} while (reprise_handle_request(function () {{ {body} }})) {{}}"),
        _ => format!("<?php {STATE} {body}"),
    };
    let setup = Setup::empty()
        .file("index.php", script)
        .application(&format!("workers = 1\nisolation = \"{isolation}\"\nmode.\"index.php\" = \"{mode}\""))
        .ini("ffi.enable", "1");
    let place = setup.writable("place");
    setup.env("PLACE", &place)
}

/// Whatever a request changes of its process (priority, limits, name, groups …), the next request finds it unchanged, in
/// every mode.
#[test]
fn what_a_request_changes_of_its_process_is_not_the_next_ones() {
    let snapshots = isolations().iter().map(|isolation| ("snapshot", *isolation));
    for (mode, isolation) in [("classic", "auto"), ("worker", "auto")].into_iter().chain(snapshots) {
        let server = served_in(mode, isolation).start();
        let first = server.get("/?do=state");
        assert_eq!(first.status, 200, "{}", first.text());
        for (name, _) in CHANGES {
            let answer = server.get(&format!("/?do={name}"));
            assert_eq!((answer.status, answer.text().as_str()), (200, ""), "{mode}, {isolation}: {name}");
            for _ in 0..2 {
                assert_eq!(server.get("/?do=state").text(), first.text(), "{mode}, {isolation}: {name} was left");
            }
        }
        let log = server.log();
        assert!(
            isolation == "fork" || log.contains("recycled: attributes: "),
            "{mode}, {isolation}: it says why\n{log}"
        );
    }
}
