//! The faults: what the request does, and what has to follow.

/// How the request is made.
#[derive(Clone, Copy, PartialEq)]
pub enum Ask {
    /// A GET, of a path that has the time for it, as those below but for two.
    Get,
    /// A GET that runs over `request_timeout`.
    Over,
    /// A GET of a path with a `soft_timeout`.
    Soft,
    /// A form with a file.
    Upload,
    /// A GET whose answer is a gibibyte.
    Gibibyte,
    /// The same, and nothing of it is read.
    Unread,
    /// A GET, then two that wait for what it has left, until the service helps itself.
    Lock,
}

/// What happens to the worker that had the request, outside of fork isolation, where it ends in any case.
#[derive(Clone, Copy, PartialEq)]
pub enum Worker {
    /// It serves on.
    Stays,
    /// Another takes its place.
    Goes,
    /// It serves on but in these modes.
    GoesIn(&'static [&'static str]),
}

/// A fault.
pub struct Fault {
    /// What it is, as the documentation has it.
    pub name: &'static str,
    /// How it is asked for.
    pub ask: Ask,
    /// PHP, run before by a request of its own.
    pub prepare: &'static str,
    /// PHP. `$libc` and `$place` are there.
    pub code: &'static str,
    /// PHP, run afterwards by a request of its own.
    pub tidy: &'static str,
    /// Expected status.
    pub status: u16,
    /// Expected in the body, or the word of the refusal.
    pub answer: &'static str,
    /// Expected in the log, in each mode.
    pub log: &'static str,
    /// What happens to the worker.
    pub worker: Worker,
}

const fn fault(name: &'static str, code: &'static str, expected: (u16, &'static str, &'static str, Worker)) -> Fault {
    let (status, answer, log, worker) = expected;
    let ask = if status == 504 { Ask::Over } else { Ask::Get };
    Fault { name, ask, prepare: "", code, tidy: "", status, answer, log, worker }
}

use Worker::{Goes, GoesIn, Stays};

const DIED: &str = "worker-died";
const OVER: &str = "request-timeout";

/// What a fatal error ends, or exit(): a worker script for one.
const LOOP: Worker = GoesIn(&["worker"]);

/// In this order: two that run over `request_timeout` within ten seconds make a new generation, in which all workers are new.
/// So those come last.
pub const FAULTS: [Fault; 24] = [
    fault("`exit(3)`", "echo 'left'; exit(3);", (200, "left", "", LOOP)),
    fault("uncaught exception", "throw new Exception('nobody catches it');", (500, "", "Uncaught Exception: nobody catches it", Stays)),
    fault(
        "more memory than `memory_limit`",
        "for ($all = [];;) $all[] = str_repeat('x', 1 << 20);",
        (500, "", "Allowed memory size of 134217728 bytes exhausted", LOOP),
    ),
    fault(
        "more memory than the system has",
        "ini_set('memory_limit', '-1'); str_repeat('x', 1 << 46);",
        (502, DIED, "exited with code 1", Goes),
    ),
    fault(
        "deep recursion in PHP",
        "$down = function () use (&$down) { return $down() + 1; }; $down();",
        (500, "", "Allowed memory size of 134217728 bytes exhausted", LOOP),
    ),
    Fault {
        ask: Ask::Soft,
        ..fault("endless loop, `soft_timeout`", "for (;;);", (500, "", "ran over its soft_timeout", LOOP))
    },
    fault(
        "descriptors used up",
        "for ($all = []; $one = @fopen('/dev/null', 'r'); $all[] = $one); echo count($all) > 900 ? 'many' : 'few', error_get_last()['message'];",
        (200, "Too many open files", "", Stays),
    ),
    Fault {
        ask: Ask::Upload,
        prepare: "$file = fopen(\"$place/disk/fill\", 'w'); foreach ([1 << 16, 1] as $size) while (@fwrite($file, str_repeat('x', $size)) === $size); echo 'full';",
        tidy: "unlink(\"$place/disk/fill\");",
        ..fault(
            "full disk: an upload, a session, a file, the access log",
            "session_id('full'); session_start(); $_SESSION['x'] = str_repeat('x', 1 << 17); $session = session_write_close();
             echo json_encode([$_FILES['f']['error'], @file_put_contents(\"$place/disk/more\", str_repeat('x', 1 << 17))]);",
            (200, "[7,false]", "No space left on device", Stays),
        )
    },
    Fault {
        ask: Ask::Gibibyte,
        ..fault("1 GiB of output", "for ($i = 0, $part = str_repeat('x', 1 << 20); $i < 1024; $i++) echo $part;", (200, "", "", Stays))
    },
    Fault {
        ask: Ask::Unread,
        ..fault(
            "1 GiB of output, and the client takes none",
            "for ($i = 0, $part = str_repeat('x', 1 << 20); $i < 1024; $i++) echo $part;",
            (200, "", "", LOOP),
        )
    },
    // Children that end make room for others: on a busy machine the bomb would never be over if children did not stop forking.
    fault(
        "fork bomb, `rlimit_processes`",
        "$me = getmypid(); $until = hrtime(true) + 1e9; while (@pcntl_fork() !== -1 && (getmypid() === $me || hrtime(true) < $until)); if (getmypid() !== $me) { sleep(1); posix_kill(getmypid(), SIGKILL); }
         echo pcntl_strerror(pcntl_get_last_error());",
        (200, "Resource temporarily unavailable", "", GoesIn(&["snapshot"])),
    ),
    fault(
        "all descriptors closed",
        "for ($i = 3; $i < 3000; $i++) $libc->close($i); echo 'closed';",
        (200, "closed", "", GoesIn(&["classic", "worker"])),
    ),
    fault("SIGSEGV", "FFI::string(FFI::cast('char *', 8), 4);", (502, DIED, "was killed by SIGSEGV", Goes)),
    fault("`abort()`", "$libc->abort();", (502, DIED, "was killed by SIGABRT", Goes)),
    fault("SIGKILL", "posix_kill(getmypid(), SIGKILL);", (502, DIED, "was killed by SIGKILL", Goes)),
    fault("deep recursion in C", "ini_set('memory_limit', '-1'); $down = function () use (&$down) { array_map($down, [1]); }; $down();", (502, DIED, "was killed by SIGSEGV", Goes)),
    fault("`_exit(3)`", "$libc->_exit(3);", (502, DIED, "exited with code 3", Goes)),
    fault("`_exit(0)`", "$libc->_exit(0);", (502, DIED, "", Goes)),
    fault("half an answer, then SIGSEGV", "header('Content-Length: 100'); echo 'half'; while (ob_get_level()) ob_end_flush(); flush(); while (!file_exists(\"$place/begun\")) { usleep(1000); clearstatcache(); } FFI::string(FFI::cast('char *', 8), 4);", (200, "cut off", "was killed by SIGSEGV", Goes)),
    Fault {
        ask: Ask::Lock,
        ..fault(
            "SIGKILL while it holds APCu's lock",
            "if (isset($_GET['after'])) { var_dump(apcu_fetch('x')); return; } apcu_entry('x', fn () => posix_kill(getmypid(), SIGKILL));",
            (502, DIED, "perhaps a lock is never released", Goes),
        )
    },
    fault("endless loop in PHP", "for (;;);", (504, OVER, "was killed by SIGKILL", Goes)),
    fault("endless loop in C", "hash_pbkdf2('sha256', 'x', 'y', 2000000000);", (504, OVER, "was killed by SIGKILL", Goes)),
    fault("a name server that never answers", "gethostbyname('never.example');", (504, OVER, "was killed by SIGKILL", Goes)),
    fault(
        "`flock()` on a file that another has locked",
        "flock(fopen(\"$place/locked\", 'r'), LOCK_EX);",
        (504, OVER, "was killed by SIGKILL", Goes),
    ),
];
