<?php
// Tries to reach processes (?pids=NAME:PID,…) and things (?things=WHO) that may be another's. Answers with what worked.
require __DIR__ . '/libc.php';

/** Whether one of these files can be read, or written. */
function opens(string $mode, string ...$paths): bool
{
    foreach ($paths as $path) {
        $file = @fopen($path, $mode);
        if ($file !== false && ($mode !== 'rb' || (string) @fread($file, 64) !== '')) {
            return true;
        }
    }
    return false;
}

/** An address that is the same in a child of this process, and what stands there. */
$own = FFI::new('char[16]', false, true);
FFI::memcpy($own, 'sixteen letters.', 16);
$address = FFI::cast('size_t', FFI::addr($own))->cdata;
$vectors = function () use ($libc, $own, $address): array {
    $buffer = FFI::new('char[16]', false, true);
    $pair = [$libc->new('iovec'), $libc->new('iovec')];
    $pair[0]->base = FFI::cast('void *', FFI::addr($buffer));
    $pair[1]->base = FFI::cast('void *', $address);
    $pair[0]->length = $pair[1]->length = 16;
    return [FFI::addr($pair[0]), FFI::addr($pair[1]), $pair];
};
/** Calls what needs a descriptor of the process itself. */
$with_pidfd = function (int $pid, callable $use) use ($libc): bool {
    $pidfd = $libc->syscall(434, $pid, 0);
    if ($pidfd < 0) {
        return false;
    }
    $result = $use($pidfd);
    $libc->close($pidfd);
    return $result;
};
$numbers = [...range(0, 40), ...range(1000, 1040)];

$on_processes = [
    'read memory' => function (int $pid) use ($address): bool {
        $file = @fopen("/proc/$pid/mem", 'rb');
        return $file && @fseek($file, $address) === 0 && (string) @fread($file, 16) !== '';
    },
    'open memory for writing' => fn (int $pid) => opens('r+b', "/proc/$pid/mem"),
    'process_vm_readv' => fn (int $pid) => $libc->process_vm_readv($pid, ($v = $vectors())[0], 1, $v[1], 1, 0) === 16,
    'process_vm_writev' => fn (int $pid) => $libc->process_vm_writev($pid, ($v = $vectors())[0], 1, $v[1], 1, 0) === 16,
    'ptrace' => fn (int $pid) => $libc->ptrace(0x4206, $pid, 0, 0) === 0,
    'environment' => fn (int $pid) => opens('rb', "/proc/$pid/environ"),
    'auxiliary vector' => fn (int $pid) => opens('rb', "/proc/$pid/auxv"),
    'mappings' => fn (int $pid) => opens('rb', "/proc/$pid/maps", "/proc/$pid/smaps"),
    'page map' => fn (int $pid) => opens('rb', "/proc/$pid/pagemap"),
    'counters of reads and writes' => fn (int $pid) => opens('rb', "/proc/$pid/io"),
    'system call' => fn (int $pid) => opens('rb', "/proc/$pid/syscall"),
    'list of descriptors' => fn (int $pid) => (bool) @scandir("/proc/$pid/fd"),
    'a descriptor by its path' => fn (int $pid) => opens('c', ...array_map(fn ($n) => "/proc/$pid/fd/$n", $numbers)),
    'pidfd_getfd' => fn (int $pid) => $with_pidfd($pid, fn ($pidfd) => (bool) array_filter($numbers, fn ($n) => $libc->syscall(438, $pidfd, $n, 0) >= 0)),
    'mapped files' => fn (int $pid) => (bool) @scandir("/proc/$pid/map_files"),
    'working directory' => fn (int $pid) => @readlink("/proc/$pid/cwd") !== false,
    'root directory' => fn (int $pid) => @is_dir("/proc/$pid/root/etc"),
    'executable' => fn (int $pid) => @readlink("/proc/$pid/exe") !== false,
    'namespace' => fn (int $pid) => @readlink("/proc/$pid/ns/mnt") !== false,
    'robust list' => fn (int $pid) => $libc->syscall(274, $pid, $address & ~7, $address & ~7) === 0,
    'soft-dirty bits' => fn (int $pid) => opens('ab', "/proc/$pid/clear_refs"),
    'OOM score' => fn (int $pid) => opens('ab', "/proc/$pid/oom_score_adj"),
    // Ignored by whoever does not wait for it.
    'signal' => fn (int $pid) => posix_kill($pid, SIGURG),
    'signal by pidfd' => fn (int $pid) => $with_pidfd($pid, fn ($pidfd) => $libc->syscall(424, $pidfd, SIGURG, null, 0) === 0),
    'nice value' => fn (int $pid) => $libc->setpriority(0, $pid, 5) === 0,
    'affinity' => function (int $pid) use ($libc): bool {
        $all = FFI::new('long[16]');
        FFI::memset($all, 0xff, FFI::sizeof($all));
        return $libc->sched_setaffinity($pid, FFI::sizeof($all), FFI::addr($all)) === 0;
    },
    'scheduler' => function (int $pid) use ($libc): bool {
        $priority = FFI::new('int');
        return $libc->sched_setscheduler($pid, 3, FFI::addr($priority)) === 0;
    },
    'limits' => function (int $pid) use ($libc): bool {
        $limit = FFI::new('long[2]');
        return $libc->prlimit($pid, 7, null, FFI::addr($limit)) === 0;
    },
    'priority of input and output' => fn (int $pid) => $libc->syscall(251, 1, $pid, 3 << 13) === 0,
    'as root of a user namespace' => function (int $pid) use ($libc): bool {
        $user = posix_getuid();
        $child = pcntl_fork();
        if ($child === 0) {
            // Where that is forbidden, as oneself.
            if ($libc->unshare(0x10000000) === 0) {
                @file_put_contents('/proc/self/uid_map', "0 $user 1");
            }
            $libc->_exit(opens('rb', "/proc/$pid/environ") || @scandir("/proc/$pid/fd") || opens('r+b', "/proc/$pid/mem") ? 1 : 0);
        }
        pcntl_waitpid($child, $status);
        return pcntl_wexitstatus($status) === 1;
    },
];

$on_things = [
    'read a file' => fn (string $who) => opens('rb', "$place/$who/secret"),
    'append to a file' => fn (string $who) => opens('ab', "$place/$who/secret"),
    'list a directory' => fn (string $who) => (bool) @scandir("$place/$who"),
    'make a file' => fn (string $who) => opens('wb', "$place/$who/new"),
    'make a link' => fn (string $who) => @link("$place/$who/secret", "$place/$who/link" . getmypid()) && unlink("$place/$who/link" . getmypid()),
    'include a script' => fn (string $who) => @include "$place/$who/script.php",
    'compile a script' => fn (string $who) => @opcache_compile_file("$place/$who/script.php"),
    'find a script in opcache' => fn (string $who) => opcache_is_script_cached("$place/$who/script.php"),
    'list it in opcache' => fn (string $who) => isset(opcache_get_status()['scripts']["$place/$who/script.php"]),
    'APCu' => fn (string $who) => apcu_fetch("$who-secret") !== false,
    "APCu's list" => fn (string $who) => in_array("$who-secret", array_column(apcu_cache_info()['cache_list'], 'info'), true),
    'session' => function (string $who): bool {
        session_id($who . 'visitor');
        return @session_start() && isset($_SESSION['secret']);
    },
    "session's file" => fn (string $who) => opens('rb', session_save_path() . "/sess_{$who}visitor"),
    'System V memory' => fn (string $who) => (bool) @shmop_open($key($who), 'a', 0, 0),
    'System V queue' => fn (string $who) => ($queue = @msg_get_queue($key($who))) && @msg_receive($queue, 0, $type, 100, $message, true, MSG_IPC_NOWAIT) && msg_send($queue, 1, $message),
    'System V semaphore' => fn (string $who) => ($semaphore = @sem_get($key($who))) && @sem_acquire($semaphore, true) && sem_release($semaphore),
    'POSIX memory' => fn (string $who) => $libc->shm_open($shared($who), 2, 0) >= 0,
    'its file in /dev/shm' => fn (string $who) => opens('r+b', '/dev/shm' . $shared($who)),
    'POSIX queue' => fn (string $who) => $libc->mq_open($shared($who), 2) >= 0,
    'unix socket' => fn (string $who) => (bool) @stream_socket_client("unix://$place/$who/socket"),
];

/** What nobody may, whose ever application it is. */
$on_reprise = [
    'admin socket' => fn () => (bool) @stream_socket_client('unix://' . dirname($place) . '/state/admin.sock'),
    'state directory' => fn () => (bool) @scandir(dirname($place) . '/state'),
    'read the log by its pipe' => fn () => ($file = $libc->open('/proc/self/fd/2', 04000, 0)) >= 0,
    'an inherited descriptor' => function () use ($libc, $numbers): bool {
        // Sockets to the supervisor, the lifeline, slabs.
        foreach ($numbers as $number) {
            if ($number > 2 && preg_match('/slab|settings/', (string) @readlink("/proc/self/fd/$number"))) {
                return true;
            }
        }
        return false;
    },
    'an abstract socket' => fn () => (bool) preg_match('/@.*reprise/', file_get_contents('/proc/net/unix')),
];

$worked = [];
foreach (array_filter(explode(',', $_GET['pids'] ?? '')) as $target) {
    [$name, $pid] = explode(':', $target);
    foreach ($on_processes as $what => $try) {
        if ($try((int) $pid)) {
            $worked[] = "$what: $name";
        }
    }
}
foreach (array_filter([$_GET['things'] ?? '']) as $who) {
    foreach ($on_things as $what => $try) {
        if ($try($who)) {
            $worked[] = "$what: things";
        }
    }
}
foreach ($on_reprise as $what => $try) {
    if ($try()) {
        $worked[] = "$what: reprise";
    }
}
echo json_encode(['mode' => reprise_info()['mode'], 'worked' => $worked,
    'tried' => ['process' => array_keys($on_processes), 'things' => array_keys($on_things)]]);
