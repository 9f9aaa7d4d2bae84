//! Worker scripts: what the script builds stays, what belongs to a request does not.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::Signal;
use tests::snapshot::Info;
use tests::{Client, Server, Setup, process, wait_for, wait_until};

/// In a process that goes on after exit(), so that what a request leaves is seen. `boot` runs once, `cases` (`case 'name': …; break;`) by `?do=name` for each request.
fn looped(boot: &str, cases: &str) -> Setup {
    let script = format!(
        "<?php\n{boot}\n$handled = 0;\n$handler = function () use (&$handled, &$kept) {{ $handled++;
        if (isset($_GET['info'])) {{ foreach (reprise_info() as $k => $v) foreach (is_array($v) ? $v : ['' => $v] as $n => $w) echo $k, $n === '' ? '' : \".$n\", '=', $w, \"\\n\"; return; }}
        switch ($_GET['do'] ?? '') {{\ncase 'handled': echo $handled; break;\ncase 'pid': echo getmypid(); break;\n{cases}\n}} }};
        while (frankenphp_handle_request($handler, survives_exit: true)) {{}}\nif (getenv('PLACE')) file_put_contents(getenv('PLACE') . '/ended', getmypid() . \"\\n\", FILE_APPEND);\n"
    );
    let setup = Setup::empty().file("index.php", script).application("workers = 1");
    let place = setup.writable("place");
    setup.env("PLACE", &place).ini("display_errors", "0")
}

fn text(server: &Server, what: &str) -> String {
    let answer = server.get(&format!("/?do={what}"));
    assert_eq!(answer.status, 200, "{what}: {}", server.log());
    answer.text()
}

fn info(server: &Server) -> Info {
    Info::parse(&server.get("/?info=1").text())
}

/// One process of a worker script serves many requests, and what the script has built stays.
#[test]
fn a_process_serves_one_request_after_the_other() {
    let server = looped("$kept = [];", "case 'keep': $kept[] = $_GET['n']; echo count($kept); break;").start();
    assert_eq!(info(&server).text("mode"), "worker");
    let pid = text(&server, "pid");
    for n in 1..=50 {
        assert_eq!(text(&server, &format!("keep&n={n}")), n.to_string());
    }
    assert_eq!(text(&server, "pid"), pid);
    assert_eq!(text(&server, "handled"), "54");
}

/// Marks of a visitor everywhere a request can leave some; what the next one sees is searched for the other's.
const MARKS: &str = r#"
case 'mark':
    $mark = $_GET['mark'];
    $seen = [$_GET, $_POST, $_COOKIE, $_REQUEST, $_SERVER, $_ENV, $_FILES, $_SESSION ?? null, session_id(), getenv(), ini_get_all(null, false), headers_list(),
        ob_get_level(), error_get_last(), http_response_code(), file_get_contents('php://input'), locale_get_default(), ignore_user_abort(), getcwd(), connection_status()];
    // Left behind on purpose.
    putenv("MARK=$mark"); putenv("LANG=$mark"); $_SERVER['LEFT'] = $_ENV['LEFT'] = $_GET['LEFT'] = $_SESSION_LEFT = $mark;
    ini_set('user_agent', $mark); ini_set('session.name', "N$mark"); session_id("id$mark"); session_save_path(getenv('PLACE')); @session_start(); $_SESSION['mark'] = $mark;
    header("X-Mark: $mark"); setcookie('mark', $mark); http_response_code(202); @trigger_error($mark, E_USER_NOTICE); ignore_user_abort(true);
    ob_start(); ob_start(fn ($text) => $text . "<!-- $mark -->"); register_shutdown_function(fn () => print " bye $mark"); set_error_handler(fn () => print $mark); set_exception_handler(fn () => print $mark);
    define("C$mark", 1);
    echo json_encode($seen);
    if ($mark[0] === 'x') exit;
    break;
"#;

/// No input, output, header or setting of a request reaches the next one in worker mode.
#[test]
fn nothing_of_a_request_is_left_for_the_next() {
    let server = looped("", MARKS).application("mode.\"index.php\" = \"worker\"").start();
    let rounds: usize = std::env::var("REPRISE_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let mut client = server.client();
    let mut before = String::new();
    for round in 0..rounds {
        let mark = format!("{}{round}q", if round % 3 == 0 { "x" } else { "m" });
        let body = format!("post={mark}");
        let cookie = format!("c={mark}");
        let headers = [
            ("Cookie", cookie.as_str()),
            ("X-Own", &mark),
            ("Authorization", "Basic dTpw"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let answer = client.request("POST", &format!("/{mark}?do=mark&mark={mark}"), &headers, body.as_bytes());
        let (text, own) = (answer.text(), format!("{:?}", answer.headers));
        assert_eq!((answer.status, answer.header("x-mark")), (202, Some(mark.as_str())), "{text}");
        assert!(
            text.contains(&format!("\"c\":\"{mark}\"")) && text.ends_with(&format!(" bye {mark}<!-- {mark} -->")),
            "{text}"
        );
        if !before.is_empty() {
            assert!(!text.contains(&before) && !own.contains(&before), "{before} in {own}\n{text}");
        }
        before = mark;
        if round % 7 == 0 {
            // Without any of it.
            let bare = client.get("/?do=mark&mark=bare");
            assert!(!bare.text().contains(&before) && !bare.text().contains("PHP_AUTH_USER"), "{}", bare.text());
            before = "bare".to_owned();
        }
    }
    assert_eq!(info(&server).number("recycles.bailout"), 0);
}

/// Each of a hundred clients at once sees only its own data in worker mode.
#[test]
fn a_hundred_at_once_see_themselves_alone() {
    let cases = "case 'own': usleep(random_int(0, 3000)); echo json_encode([$_GET['v'], $_COOKIE['v'], $_SERVER['HTTP_X_V'], $_POST['v'] ?? $_GET['v'], getenv('QUERY_STRING')]); break;";
    let server = looped("", cases).application("").start();
    std::thread::scope(|scope| {
        for visitor in 0..100 {
            let port = server.port;
            scope.spawn(move || {
                let mut client = Client::new(port);
                for _ in 0..10 {
                    let (v, cookie) = (format!("v{visitor}z"), format!("v=v{visitor}z"));
                    let answer = client.request(
                        "POST",
                        &format!("/?do=own&v={v}"),
                        &[("Cookie", &cookie), ("X-V", &v), ("Content-Type", "application/x-www-form-urlencoded")],
                        format!("v={v}").as_bytes(),
                    );
                    assert_eq!(answer.text(), format!("[\"{v}\",\"{v}\",\"{v}\",\"{v}\",\"do=own&v={v}\"]"));
                }
            });
        }
    });
}

/// Settings, handlers and variables of the boot hold in each request, whatever the request before has changed.
#[test]
fn what_the_boot_has_set_is_there_in_every_request() {
    let boot = "$_SERVER['APP'] = $_ENV['APP'] = 'shop'; putenv('APP=shop'); ini_set('precision', '7'); date_default_timezone_set('Asia/Tokyo'); ini_set('session.cookie_lifetime', '99');
        spl_autoload_register(fn ($class) => eval(\"class $class { const N = 5; }\"));
        set_error_handler(fn ($n, $text) => print \"handled $text\");
        class Store implements SessionHandlerInterface { public array $data = []; function open($p, $n): bool { return true; } function close(): bool { return true; } function read($id): string|false { return $this->data[$id] ?? ''; } function write($id, $d): bool { $this->data[$id] = $d; return true; } function destroy($id): bool { return true; } function gc($l): int|false { return 0; } }
        session_set_save_handler($store = new Store, false); register_shutdown_function(fn () => file_put_contents(getenv('PLACE') . '/shutdown', 'of boot'));";
    let cases = "case 'all': if (isset($_GET['change'])) { ini_set('precision', '3'); putenv('APP=changed'); date_default_timezone_set('UTC'); $_SERVER['APP'] = 'changed'; }
        echo json_encode([$_SERVER['APP'], $_ENV['APP'] ?? null, getenv('APP'), ini_get('precision'), Own::N, isset($_SERVER['REPRISE_BOOT']), $_SERVER['FRANKENPHP_WORKER'], ini_get('session.cookie_lifetime')]); break;
        case 'session': session_id($_GET['id']); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n']; break;
        case 'error': echo $undefined; break;";
    let mut server = looped(boot, cases).start();
    let expected = "[\"shop\",\"shop\",\"shop\",\"7\",5,false,\"1\",\"99\"]";
    for round in 0..5 {
        assert_eq!(text(&server, "all"), expected, "{round}");
        assert_eq!(text(&server, "error"), "handled Undefined variable $undefined", "{round}");
        server.get("/?do=all&change=1");
        assert_eq!(
            (text(&server, "session&id=anna"), text(&server, "session&id=otto")),
            ((round + 1).to_string(), (round + 1).to_string())
        );
    }
    // Shutdown functions of the boot are the script's own: they run when it ends, and so does what stands behind its loop.
    let place = server.directory().join("place");
    fs::remove_file(place.join("shutdown")).unwrap();
    fs::remove_file(place.join("ended")).unwrap();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0, "{}", server.log());
    assert!(place.join("shutdown").exists() && place.join("ended").exists());
}

/// Each way to end a request gives the response that classic mode gives, and the next request is served.
#[test]
fn a_request_may_end_in_any_way() {
    let cases = "case 'exit': echo 'a'; exit('b'); case 'exit_code': exit(3); case 'die_in_shutdown': register_shutdown_function(function () { echo 's'; exit; }); echo 'a'; break;
        case 'throw': throw new Exception('x'); case 'buffered': ob_start(); echo 'never'; ob_start(); echo 'shown'; exit;
        case 'finish': echo 'early'; fastcgi_finish_request(); file_put_contents(getenv('PLACE') . '/late', 'x'); break;
        case 'nested': try { reprise_handle_request(fn () => 1); } catch (Error $e) { echo $e->getMessage(); } break;
        case 'generator': $g = (function () { try { yield 1; } finally { echo 'finally'; } })(); $g->current(); echo 'a '; break;
        case 'destructor': $o = new class { function __destruct() { echo 'destructor'; } }; echo 'a '; break;
        case 'fork': if (pcntl_fork() === 0) { echo 'child'; exit(7); } pcntl_wait($status); echo pcntl_wexitstatus($status); break;
        case 'fork_return': if (pcntl_fork() === 0) { echo 'child'; return; } pcntl_wait($status); echo pcntl_wexitstatus($status); break;
        case 'stream': for ($i = 0; $i < 5; $i++) { echo \"part $i \"; while (ob_get_level()) ob_end_flush(); flush(); } break;
        case 'headers': for ($i = 0; $i < 200; $i++) header(\"X-H$i: \" . str_repeat('h', 41000)); echo 'x'; break;";
    let server = looped("", cases).start();
    let pid = text(&server, "pid");
    for round in 0..4 {
        for (what, status, expected) in [
            ("exit", 200, "ab"),
            ("exit_code", 200, ""),
            ("die_in_shutdown", 200, "as"),
            ("throw", 500, ""),
            ("buffered", 200, "nevershown"),
            ("finish", 200, "early"),
            ("nested", 200, "reprise_handle_request() was called by a request"),
            ("generator", 200, "a finally"),
            ("destructor", 200, "a destructor"),
            ("fork", 200, "7"),
            ("fork_return", 200, "0"),
            ("stream", 200, "part 0 part 1 part 2 part 3 part 4 "),
            ("headers", 500, "x"),
        ] {
            let answer = server.get(&format!("/?do={what}"));
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (status, expected),
                "{what}, {round}\n{}",
                server.log()
            );
        }
    }
    assert_eq!(text(&server, "pid"), pid, "none of them costs the worker: {}", server.log());
    assert!(server.directory().join("place/late").exists());
}

/// A fatal error costs its own request, and a fresh worker follows.
#[test]
fn a_fatal_error_costs_its_request_and_gives_a_fresh_worker() {
    let cases = "case 'memory': ini_set('memory_limit', '8M'); $a = str_repeat('x', 100 << 20); break; case 'time': set_time_limit(1); while (true); case 'recursion': ini_set('memory_limit', '64M'); $f = function () use (&$f) { return $f() + 1; }; $f(); break;
        case 'error': register_shutdown_function(fn () => print 'shutdown'); trigger_error('fatal', E_USER_ERROR); break; case 'crash': posix_kill(getmypid(), SIGSEGV); break;";
    let server = looped("", cases).start();
    let mut pids = HashSet::from([text(&server, "pid")]);
    for (what, status, body) in
        [("memory", 500, ""), ("time", 500, ""), ("recursion", 500, ""), ("error", 500, "shutdown"), ("crash", 502, "")]
    {
        let answer = server.get(&format!("/?do={what}"));
        assert_eq!(answer.status, status, "{what}");
        assert!(status == 502 || answer.text() == body, "{what}: {}", answer.text());
        assert_eq!(text(&server, "handled"), "1", "{what}: a fresh one");
        assert!(pids.insert(text(&server, "pid")), "{what}");
    }
    assert_eq!(info(&server).number("recycles.bailout"), 4);
    assert!(server.log().contains("recycled: bailout"), "{}", server.log());
}

/// A worker of a worker script ends after about `max_requests` requests.
#[test]
fn workers_are_replaced_after_their_requests() {
    let server = looped("", "").application("max_requests = 20").start();
    let mut counts = Vec::new();
    let mut last = (String::new(), 0);
    for _ in 0..200 {
        let pid = text(&server, "pid");
        if pid == last.0 {
            last.1 += 1;
        } else {
            counts.push(last.1);
            last = (pid, 1);
        }
    }
    let whole = &counts[1..];
    assert!(whole.len() >= 7 && whole.iter().all(|count| (18..=22).contains(count)), "{counts:?}");
    assert!(whole.iter().collect::<HashSet<_>>().len() > 1, "not all at once: {counts:?}");
    wait_until("it is counted", 5, || info(&server).number("recycles.requests") >= 7);
}

/// A script that fails before its loop is served in classic mode, and the log says why.
#[test]
fn a_script_that_does_not_get_to_its_loop_takes_no_traffic() {
    let failing = |boot: &str| {
        Setup::empty()
            .file("index.php", format!("<?php {boot} frankenphp_handle_request(fn () => print 'handled');"))
            .ini("display_errors", "0")
    };
    for (boot, words) in [
        (
            "if (isset($_SERVER['REPRISE_BOOT'])) throw new Exception('not today');",
            vec!["cannot be booted", "not today"],
        ),
        ("if (isset($_SERVER['REPRISE_BOOT'])) exit;", vec!["ended without calling reprise_handle_request"]),
        (
            "if (isset($_SERVER['REPRISE_BOOT'])) frankenphp_handle_request('no_such_function');",
            vec!["a valid callback", "cannot be booted"],
        ),
    ] {
        let server = failing(boot).start();
        for word in words {
            wait_until(word, 10, || server.log().contains(word));
        }
        // In classic mode the callable runs for the one request there is.
        assert_eq!(server.get("/").text(), "handled", "{boot}");
    }
    let mut late = failing("if (isset($_SERVER['REPRISE_BOOT'])) while (true) usleep(1000);")
        .application("boot_timeout = \"1s\"\nmode.\"index.php\" = \"worker\"")
        .launch();
    assert_eq!(late.wait(20), 70, "{}", late.log());
    assert!(late.log().contains("took longer than 1s"), "{}", late.log());
}

/// In classic mode `reprise_handle_request()` runs its callable once.
#[test]
fn in_classic_mode_the_callable_runs_once_for_its_request() {
    let script = "<?php $n = 0; do { $again = reprise_handle_request(function () use (&$n) { $n++; echo 'handled ', $_GET['v']; }); $n .= $again ? 'again' : ''; } while ($again); echo ' ', $n, reprise_handle_request(fn () => print 'twice') ? 't' : 'f', reprise_info()['mode'];";
    let server = Setup::empty().file("index.php", script).application("mode.\"index.php\" = \"classic\"").start();
    for v in 0..5 {
        assert_eq!(server.get(&format!("/?v={v}")).text(), format!("handled {v} 1fclassic"));
    }
}

/// A script that calls the loop in classic mode gets a lane in worker mode.
#[test]
fn a_worker_script_is_found_when_it_runs() {
    let script =
        "<?php $n = 0; while (reprise_handle_request(function () use (&$n) { echo reprise_info()['mode'], ++$n; })) {}";
    let server = Setup::empty().file("index.php", "<?php").file("api.php", script).application("workers = 1").start();
    assert_eq!(server.get("/api.php").text(), "classic1");
    wait_until("it has a lane", 10, || server.get("/api.php").text().starts_with("worker"));
    let n: u32 = server.get("/api.php").text().trim_start_matches("worker").parse().unwrap();
    assert_eq!(server.get("/api.php").text(), format!("worker{}", n + 1));
    assert!(server.log().contains("api.php is a worker script; requests run in classic mode until it is booted"));
}

/// A worker that is killed, or has closed its own descriptors, is replaced.
#[test]
fn a_killed_worker_and_a_broken_one_are_replaced() {
    let cases = "case 'close': for ($i = 0; $i < 2000; $i++) { $close->close($i); } echo 'x'; break; case 'wait': usleep(20000); echo 'waited'; break;";
    let server = looped(
        "$close = FFI::cdef('int close(int);'); $GLOBALS['close'] = $close;",
        &cases.replace("$close->", "$GLOBALS['close']->"),
    )
    .ini("ffi.enable", "1")
    .start();
    for _ in 0..3 {
        let pid: i32 = text(&server, "pid").parse().unwrap();
        process::kill(pid, Signal::SIGKILL);
        let next = wait_for("another one", 10, || Some(text(&server, "pid")).filter(|next| *next != pid.to_string()));
        assert_ne!(next, pid.to_string());
    }
    // Its way to the front is closed with the rest: nobody hangs, and the next request is served.
    let _ = Client::new(server.port).try_request("GET", "/?do=close", &[], b"");
    assert_eq!(text(&server, "wait"), "waited");
}

/// Each of these once reached the next request, or ended the worker's trust in itself too late.
#[test]
fn what_comes_after_the_callable_is_the_requests_too() {
    let boot = "ini_set('precision', '9'); set_time_limit(20); $GLOBALS['store'] = [];";
    let cases = r#"
case 'precision': echo json_encode([ini_get('precision'), ini_set('precision', '5'), ini_get('precision'), ini_get('max_execution_time'), set_time_limit(7), ini_get('max_execution_time')]); break;
case 'ini_restore': ini_restore('precision'); echo ini_get('precision'); break;
case 'destructor': $_SERVER['o'] = $_GET['o'] = new class { function __destruct() { header('Location: http://evil/'); setcookie('sid', 'alice'); echo ' by destructor'; exit; } }; echo 'own'; break;
case 'session_object': session_id('obj'); session_save_path(getenv('PLACE')); session_start(); $_SESSION['o'] = new class implements Serializable { function serialize() { return ''; } function unserialize($s) {} function __serialize(): array { return []; } function __unserialize(array $a): void {} function __destruct() { throw new Exception('late'); } }; echo 'own'; break;
case 'header_callback': header_register_callback(function () { exit; }); http_response_code(204); break;
case 'input': $GLOBALS['in'] = fopen('php://input', 'r'); echo fread($GLOBALS['in'], 3); break;
case 'old_input': try { echo is_resource($GLOBALS['in'] ?? null) ? fread($GLOBALS['in'], 100) : 'closed'; } catch (TypeError) { echo 'closed'; } break;
case 'seed': mt_srand(5); strtok('SECRET of one', ' '); stream_context_set_default(['http' => ['header' => 'X: secret']]); echo mt_rand(); break;
case 'unseeded': echo json_encode([mt_rand(), @strtok(' '), stream_context_get_options(stream_context_get_default())]); break;
case 'memory_used': echo intdiv(memory_get_peak_usage(), 1 << 20); break;
case 'big': $x = str_repeat('x', 50 << 20); echo strlen($x); break;
case 'save_handler': ini_set('session.save_handler', 'files'); echo ini_get('session.save_handler'); break;
"#;
    let server = looped(boot, cases).start();
    let pid = text(&server, "pid");
    let mut randoms = HashSet::new();
    for round in 0..5 {
        assert_eq!(text(&server, "precision"), r#"["9","9","5","20",true,"7"]"#, "{round}");
        text(&server, "ini_restore");
        let answer = server.get("/?do=destructor");
        assert_eq!(
            (answer.status, answer.text().as_str(), answer.header("location")),
            (302, "own by destructor", Some("http://evil/")),
            "{round}"
        );
        let next = server.get("/?do=handled");
        assert_eq!((next.status, next.header("location"), next.header("set-cookie")), (200, None, None), "{round}");
        server.get("/?do=session_object");
        assert_eq!(server.get("/?do=header_callback").status, 204);
        let mut client = server.client();
        assert_eq!(
            client.request("POST", "/?do=input", &[("Content-Type", "text/plain")], b"first body").text(),
            "fir"
        );
        assert_eq!(
            client.request("POST", "/?do=old_input", &[("Content-Type", "text/plain")], b"of another").text(),
            "closed",
            "{round}"
        );
        assert_eq!(text(&server, "seed"), "476726705", "{round}");
        let after: serde_json::Value = serde_json::from_str(&text(&server, "unseeded")).unwrap();
        assert!(
            randoms.insert(after[0].to_string()) && after[1] == false && after[2] == serde_json::json!([]),
            "{after}"
        );
        text(&server, "big");
        assert!(text(&server, "memory_used").parse::<u32>().unwrap() < 20, "{round}");
        assert_eq!(text(&server, "save_handler"), "files");
    }
    assert_eq!(text(&server, "pid"), pid, "{}", server.log());
    assert!(!server.log().contains("cannot be set by ini_set"), "{}", server.log());
}

/// A worker that a request has damaged after its callable had returned serves no other.
#[test]
fn memory_exhausted_at_the_end_costs_its_own_request() {
    let cases = r#"
case 'shutdown': ini_set('memory_limit', '32M'); register_shutdown_function(function () { $a = str_repeat('x', 100 << 20); }); echo 'own'; break;
case 'buffer': ini_set('memory_limit', '32M'); ob_start(function ($text) { $a = str_repeat('x', 100 << 20); return $text; }); echo 'own'; break;
case 'handler': ini_set('memory_limit', '32M'); set_exception_handler(function () { $a = str_repeat('x', 100 << 20); }); throw new Exception('x');
case 'order': file_put_contents(getenv('PLACE') . '/orders', 'o', FILE_APPEND); echo 'ordered'; break;
"#;
    let server = looped("", cases).start();
    let mut orders = 0;
    for round in 0..3 {
        for what in ["shutdown", "buffer", "handler"] {
            server.get(&format!("/?do={what}"));
            let order = server.client().request("POST", "/?do=order", &[], b"");
            orders += 1;
            assert_eq!((order.status, order.text().as_str()), (200, "ordered"), "{what}, {round}");
            assert_eq!(fs::read_to_string(server.directory().join("place/orders")).unwrap().len(), orders, "{what}");
        }
    }
    wait_until("each was counted", 5, || info(&server).number("recycles.bailout") == 9);
}

/// PHP's warnings about a request's input do not reach the boot's error handler, and bodies that break off end no worker.
#[test]
fn a_request_that_php_complains_about_is_not_the_applications_to_refuse() {
    let boot = "set_error_handler(function ($n, $text) { throw new ErrorException($text); });";
    let server = looped(boot, "case 'ok': echo 'ok'; break;").start();
    let pid = text(&server, "pid");
    for (kind, body) in [
        ("multipart/form-data", "x=1".to_owned()),
        ("application/x-www-form-urlencoded", (0..1200).map(|n| format!("v{n}=1&")).collect()),
    ] {
        let answer = server.client().request("POST", "/?do=ok", &[("Content-Type", kind)], body.as_bytes());
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{kind}: {}", server.log());
    }
    // Bodies that break off cost nobody a boot.
    use std::io::Write;
    for _ in 0..20 {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(b"POST /?do=ok HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 40000\r\n\r\n").unwrap();
        stream.write_all(&[b'x'; 20000]).unwrap();
    }
    wait_until("all are over", 20, || text(&server, "ok") == "ok");
    assert_eq!(text(&server, "pid"), pid, "{}", server.log());
}

/// Output buffers and output between two requests reach no response.
#[test]
fn between_two_requests_the_script_may_use_buffers() {
    let script = "<?php $n = 0; $page = function () use (&$n) { ob_start(); echo 'page ', ++$n, ' ', getmypid(); ob_end_flush(); };
        register_shutdown_function(fn () => error_log('shutdown of boot'));
        while (reprise_handle_request($page)) { ob_start(); echo 'between'; ob_end_clean(); echo 'lost'; flush(); $kept[] = ob_get_level(); }
        register_shutdown_function(fn () => error_log('shutdown behind the loop'));";
    let mut server = Setup::empty().file("index.php", script).application("workers = 1").start();
    let first = server.get("/").text();
    let pid = first.trim_start_matches("page 1 ").to_owned();
    for n in 2..30 {
        assert_eq!(server.get("/").text(), format!("page {n} {pid}"));
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0);
    let log = server.log();
    assert!(log.matches("shutdown of boot").count() >= 2 && log.contains("shutdown behind the loop"), "{log}");
}

/// A database that goes away after the trial: requests run in classic mode, where each fails or not by itself, until the
/// script gets to its loop again.
#[test]
fn a_script_that_boots_no_more_is_served_in_classic_mode_until_it_does() {
    let boot = "if (isset($_SERVER['REPRISE_BOOT']) && file_exists(getenv('PLACE') . '/away')) { throw new Exception('the database is away'); }";
    let server = looped(boot, "case 'mode': echo reprise_info()['mode']; break;");
    let server = server.application("queue_timeout = \"2s\"").start();
    assert_eq!(text(&server, "mode"), "worker");
    let away = server.directory().join("place/away");
    fs::write(&away, "").unwrap();
    process::kill(text(&server, "pid").parse().unwrap(), Signal::SIGKILL);
    // What was queued for it before that is known waits for its time and is answered 503; nothing after it does.
    wait_until("classic mode serves", 20, || {
        let answer = server.get("/?do=mode");
        assert!(answer.status == 200 || answer.header("reprise-refused") == Some("queue-timeout"), "{answer:?}");
        answer.text() == "classic"
    });
    (0..20).for_each(|_| assert_eq!(text(&server, "mode"), "classic"));
    assert!(server.log().contains("the database is away"), "{}", server.log());
    fs::remove_file(&away).unwrap();
    wait_until("the loop serves again", 60, || text(&server, "mode") == "worker");
}

/// A fatal error ends the script too, but the script's own end is no part of the answer; a child ends as any process.
#[test]
fn the_scripts_end_is_not_in_the_answer_of_its_last_request() {
    let boot = "function note(string $what): void { file_put_contents(getenv('PLACE') . \"/$what\", getmypid() . \"\\n\", FILE_APPEND); }
        register_shutdown_function(function () { echo ' END OF THE SCRIPT'; note('boot'); });";
    let cases = "case 'fatal': register_shutdown_function(function () { echo 'own end'; note('own'); }); ini_set('memory_limit', '8M'); $a = str_repeat('x', 100 << 20); break;
        case 'bare': ini_set('memory_limit', '8M'); $a = str_repeat('x', 100 << 20); break;
        case 'finished': echo 'early'; register_shutdown_function(fn () => note('late')); fastcgi_finish_request(); ini_set('memory_limit', '8M'); $a = str_repeat('x', 100 << 20); break;
        case 'child': register_shutdown_function(fn () => note('child')); if (($pid = pcntl_fork()) === 0) { $o = new class { function __destruct() { note('destructor'); } }; return; } pcntl_waitpid($pid, $status); echo $pid, ' ', pcntl_wexitstatus($status); break;";
    let server = looped(boot, cases).start();
    let notes = |name: &str| fs::read_to_string(server.directory().join("place").join(name)).unwrap_or_default();
    for (what, status, body) in [("fatal", 500, "own end"), ("bare", 500, ""), ("finished", 200, "early")] {
        let pid = text(&server, "pid");
        let answer = server.get(&format!("/?do={what}"));
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{what}");
        wait_until("the script's own functions run as well", 5, || notes("boot").contains(&format!("{pid}\n")));
        assert_eq!(notes("own").contains(&format!("{pid}\n")), what == "fatal", "{what}");
        assert_eq!(notes("late").contains(&format!("{pid}\n")), what == "finished", "{what}");
    }
    let (pid, child) = (text(&server, "pid"), text(&server, "child"));
    let (child, status) = child.split_once(' ').unwrap();
    assert_eq!(status, "0");
    assert!(notes("child").contains(child) && notes("destructor").contains(child), "{child}");
    assert_eq!(text(&server, "pid"), pid);
}
