//! A process serves without end: whatever its requests do, they leave no memory and no resource behind.

use tests::{Client, Server, Setup, amount, client};

/// What a request does, and what it brings.
struct Case {
    name: &'static str,
    code: &'static str,
    brings: Brings,
}

enum Brings {
    Nothing,
    Form,
    Json,
    Files,
}

use Brings::{Files, Form, Json, Nothing};

const fn case(name: &'static str, brings: Brings, code: &'static str) -> Case {
    Case { name, code, brings }
}

const CASES: &[Case] = &[
    case("nothing", Nothing, ""),
    case("form", Form, "strlen($_POST['a']);"),
    case("form_unread", Form, ""),
    case("json", Json, "json_decode(file_get_contents('php://input'));"),
    case("json_unread", Json, ""),
    case("input_without_body", Nothing, "file_get_contents('php://input');"),
    case(
        "input_twice",
        Json,
        "$a = fopen('php://input', 'r'); $b = fopen('php://input', 'r'); fread($a, 5); fread($b, 9);",
    ),
    case("input_kept", Json, "$GLOBALS['kept'] = fopen('php://input', 'r'); fread($GLOBALS['kept'], 5);"),
    case(
        "input_filtered",
        Json,
        "stream_get_contents(fopen('php://filter/read=string.toupper/resource=php://input', 'r'));",
    ),
    case("files", Files, "move_uploaded_file($_FILES['f']['tmp_name'], '/dev/null');"),
    case("files_unread", Files, ""),
    case(
        "cookies_and_headers",
        Nothing,
        "setcookie('a', 'b'); header('X-A: b'); header_register_callback(fn () => 1); http_response_code(203);",
    ),
    case("session", Nothing, "session_start(); $_SESSION['a'] = range(1, 50); session_write_close();"),
    case("exit", Form, "$held = [new ArrayObject([1]), fopen('php://temp', 'w')]; exit;"),
    case("exit_in_buffers", Nothing, "ob_start(fn ($text) => strtoupper($text)); ob_start(); echo 'x'; exit;"),
    case("exception", Form, "throw new Exception(str_repeat('x', 500));"),
    case("error", Nothing, "ini_set('display_errors', '0'); echo $nowhere; trigger_error('x', E_USER_WARNING);"),
    case("type_error", Json, "strlen([]);"),
    case("cycle", Nothing, "$a = new stdClass; $a->a = $a; $a->b = fopen('php://memory', 'w');"),
    case(
        "generator",
        Nothing,
        "$g = (function () { $f = fopen('php://temp', 'w'); try { yield 1; } finally { fclose($f); } })(); foreach ($g as $one) break;",
    ),
    case(
        "fiber",
        Nothing,
        "$f = new Fiber(function () { $s = fopen('php://temp', 'w'); Fiber::suspend($s); }); $f->start();",
    ),
    case(
        "handlers",
        Nothing,
        "set_error_handler(fn () => true); set_exception_handler(fn () => 1); register_shutdown_function(fn () => 1); spl_object_id(new ArrayObject);",
    ),
    case(
        "settings",
        Nothing,
        "ini_set('precision', '5'); ini_set('user_agent', 'x'); ini_set('include_path', '/tmp'); date_default_timezone_set('Asia/Tokyo'); setlocale(LC_ALL, 'C.UTF-8'); mb_internal_encoding('ISO-8859-1');",
    ),
    case(
        "environment",
        Nothing,
        "putenv('A=' . str_repeat('x', 100)); putenv('PATH'); $_ENV['B'] = $_SERVER['B'] = 'x';",
    ),
    case(
        "functions",
        Nothing,
        "strtok('a b c', ' '); umask(0); mt_srand(3); mt_rand(); clearstatcache(); stat('/tmp'); json_decode('{'); preg_match('/a/', 'a'); register_tick_function(fn () => 1); chdir('/tmp');",
    ),
    case("rewriting", Nothing, "output_add_rewrite_var('a', 'b'); echo '<a href=\"x.php\">x</a>';"),
    case(
        "context",
        Nothing,
        "stream_context_set_default(['http' => ['method' => 'POST']]); stream_context_create(['ssl' => ['a' => 'b']]);",
    ),
    case("wrappers", Nothing, "stream_wrapper_register('own', 'ArrayObject'); stream_wrapper_unregister('http');"),
    case(
        "filters",
        Nothing,
        "$f = fopen('php://temp', 'w+'); stream_filter_append($f, 'string.rot13'); fwrite($f, 'x'); $g = popen('true', 'r'); fgets($g);",
    ),
    case("sockets", Nothing, "[$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); fwrite($a, 'x');"),
    case(
        "xml",
        Nothing,
        "libxml_use_internal_errors(true); simplexml_load_string('<a><b>'); (new DOMDocument)->loadXML('<a/>');",
    ),
    case("pdo", Nothing, "$p = new PDO('sqlite::memory:'); $p->exec('create table t(a)'); $p->beginTransaction();"),
    case(
        "curl",
        Nothing,
        "$c = curl_init('http://127.0.0.1:1/'); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); curl_exec($c);",
    ),
    case("intl", Nothing, "(new NumberFormatter('de', 1))->format(1.5); (new Collator('de'))->compare('a', 'b');"),
    case("openssl", Nothing, "openssl_digest('x', 'sha256'); openssl_random_pseudo_bytes(9); openssl_x509_read('x');"),
    case("gd", Nothing, "$i = imagecreate(9, 9); imagefilledrectangle($i, 1, 1, 3, 3, 1);"),
    case(
        "mbstring",
        Nothing,
        "mb_convert_encoding('x', 'UTF-16'); mb_ereg('(a)', 'a'); mb_language('ja'); mb_substitute_character(63); mb_http_output('UTF-8');",
    ),
    case("eval", Nothing, "eval('return 1;'); Closure::bind(fn () => 1, null); hash_update(hash_init('md5'), 'x');"),
    case("compressed", Nothing, "ini_set('zlib.output_compression', '1'); echo str_repeat('x', 5000);"),
    case("authorization", Nothing, "$_SERVER['PHP_AUTH_USER'];"),
    case("flushed", Nothing, "echo 'x'; flush(); echo 'y'; fastcgi_finish_request();"),
    case("large", Nothing, "echo str_repeat('x', 300000);"),
];

fn served_in(mode: &str) -> Server {
    let cases: String = CASES.iter().map(|case| format!("case '{}': {} break;\n", case.name, case.code)).collect();
    let script = format!(
        "<?php $c = FFI::cdef('struct mallinfo2 {{ size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost; }}; struct mallinfo2 mallinfo2(void);');
        $handler = function () use ($c) {{ switch ($_GET['do']) {{
        case 'measure': unset($GLOBALS['kept']); gc_collect_cycles(); $m = $c->mallinfo2(); echo getmypid(), ' ', count(get_resources()), ' ', memory_get_usage(), ' ', $m->uordblks + $m->hblkhd; break;
        {cases} }} }};
        while (reprise_handle_request($handler, survives_exit: true)) {{ gc_collect_cycles(); }}"
    );
    let setup = Setup::empty().file("index.php", script);
    let sessions = setup.writable("sessions");
    setup
        .application(&format!("workers = 1\nmode.\"index.php\" = \"{mode}\""))
        .ini("ffi.enable", "1")
        .ini("display_errors", "0")
        // It remembers the names of temporary files too, to its limit.
        .ini("realpath_cache_size", "0")
        .ini("session.save_path", &sessions)
        // mallinfo2() counts as used what glibc keeps freed for the thread. That fills up over thousands of requests, by which
        // sizes happen to be freed together: 200 to 1,200 bytes a turn with SQLite, and none without. So it keeps nothing.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .start()
}

fn ask(client: &mut Client, case: &Case, round: usize) {
    let path = format!("/?do={}", case.name);
    let credentials = [("Authorization", "Basic YW5uYTpzZWNyZXQ="), ("Cookie", "a=b; c=d")];
    let answer = match case.brings {
        Nothing => client.request("GET", &path, &credentials, b""),
        Form => client.post_form(&path, &credentials, &[("a", &"x".repeat(round % 7 * 3000)), ("b[]", "2")]),
        Json => client.request(
            "POST",
            &path,
            &[("Content-Type", "application/json")],
            &b"[1, 2, 3]".repeat(round % 5 * 900),
        ),
        Files => {
            let content = b"x".repeat(round % 3 * 20_000);
            let (kind, body) = client::multipart(&[("a", "b")], &[("f", "f.txt", "text/plain", &content)]);
            client.request("POST", &path, &[("Content-Type", &kind)], &body)
        }
    };
    let expected = match case.name {
        "exception" | "type_error" => 500,
        "cookies_and_headers" => 203,
        _ => 200,
    };
    assert_eq!(answer.status, expected, "{}: {}", case.name, answer.text());
}

/// The process, its resources, bytes of PHP's memory, bytes of the library's.
fn measure(client: &mut Client) -> [i64; 4] {
    let text = client.get("/?do=measure").text();
    let numbers: Vec<i64> = text.split(' ').map(|number| number.parse().unwrap_or_else(|_| panic!("{text}"))).collect();
    numbers.try_into().expect("four numbers")
}

/// Whether it leaves something, and how much there was after each turn.
fn leak(client: &mut Client, case: &Case) -> Option<Vec<[i64; 4]>> {
    (0..70).for_each(|round| ask(client, case, round));
    let mut counts = vec![measure(client)];
    // Caches fill up, and do not grow thereafter.
    let is_leak = (0..3).all(|turn| {
        (0..amount(40, 350)).for_each(|round| ask(client, case, round));
        counts.push(measure(client));
        counts[turn] != counts[turn + 1]
    });
    is_leak.then_some(counts)
}

/// No case of the table makes a process grow, in worker and in classic mode.
#[test]
fn no_request_leaves_memory_or_resources() {
    for mode in ["worker", "classic"] {
        let server = served_in(mode);
        let mut client = Client::new(server.port);
        let leaks: Vec<_> = CASES.iter().filter_map(|case| Some((case.name, leak(&mut client, case)?))).collect();
        assert!(leaks.is_empty(), "{mode}: {leaks:#?}");
    }
}
