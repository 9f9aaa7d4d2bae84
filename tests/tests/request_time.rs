//! The time of a request, by whomever it is asked for: never that of the boot, nor that of an earlier request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tests::modes::modes;
use tests::{Setup, wait_until};

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time")
}

/// Waits until the clock shows another second.
fn next_second() {
    let second = now().as_secs();
    wait_until("another second", 2, || now().as_secs() > second);
}

/// APCu, `sapi_get_request_time()` and `$_SERVER` have the time of the request in each of three requests, though the boot,
/// the code between two requests and a hook have asked before.
#[test]
fn what_extensions_ask_for_is_the_time_of_the_request() {
    const SCRIPT: &str = "<?php
        $libphp = FFI::cdef('double sapi_get_request_time(void);');
        function ask(): int { global $libphp; $libphp->sapi_get_request_time(); apcu_store('asked', 1); return apcu_key_info('asked')['mtime']; }
        ask();
        if (function_exists('reprise_after_fork')) reprise_after_fork(ask(...));
        $handle = function () use ($libphp) {
            $time = $_SERVER['REQUEST_TIME_FLOAT'];
            echo json_encode([$libphp->sapi_get_request_time() === $time, ask() - (int) $time, $_SERVER['REQUEST_TIME'] - (int) $time, microtime(true) - $time < 5]);
        };\n";
    for (mode, end, configured) in modes() {
        let end = end.replace("{}", "{ ask(); }");
        let setup = Setup::empty()
            .file("index.php", format!("{SCRIPT}{end}"))
            .ini("ffi.enable", "1")
            .ini("apc.use_request_time", "1")
            .application("workers = 1\nkept_connections = 1");
        let server = configured.iter().fold(setup, |setup, line| setup.application(line)).start();
        for round in 0..3 {
            next_second();
            let answer = server.get(&format!("/?{round}")).text();
            assert_eq!(answer, "[true,0,0,true]", "{mode}, {configured:?}, {round}: {}", server.log());
        }
    }
}
