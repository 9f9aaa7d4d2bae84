//! What a request changes in the process is the snapshot's again in the next: the engine's state, the libraries', the
//! kernel's.

use tests::snapshot::{Lane, both, snapshot};
use tests::spoiled::{Row, boot, cases, row};

/// Each row is asked many times, and all rows after each other; every answer is the expected one.
fn check(rows: &[Row]) {
    both(
        || snapshot(&boot(rows), &cases(rows)),
        |lane| {
            let mut wrong = Vec::new();
            let mut ask = |lane: &Lane, row: &Row, times: usize| {
                let answers = lane.repeat(row.name, times);
                if let Some(number) = answers.iter().position(|answer| answer != row.expected) {
                    wrong.push(format!("{}: answer {number} was {:?}", row.name, answers[number]));
                }
            };
            rows.iter().for_each(|row| ask(lane, row, 10));
            (0..2).for_each(|_| rows.iter().for_each(|row| ask(lane, row, 1)));
            rows.iter().rev().for_each(|row| ask(lane, row, 2));
            assert!(wrong.is_empty(), "{}: {wrong:#?}", lane.isolation);
        },
    );
}

/// Settings that a request changes are the snapshot's again in the next.
#[test]
fn settings() {
    check(&[
        row("ini", "ini_set('precision', '9');", "echo 1 / 3;", "ini_set('precision', '3');", "0.333333333"),
        row(
            "ini_restored",
            "ini_set('serialize_precision', '5');",
            "echo ini_get('serialize_precision');",
            "ini_restore('serialize_precision');",
            "5",
        ),
        row(
            "memory_limit",
            "ini_set('memory_limit', '200M');",
            "echo ini_get('memory_limit');",
            "ini_set('memory_limit', '-1');",
            "200M",
        ),
        row(
            "errors",
            "error_reporting(E_ALL & ~E_NOTICE);",
            "echo error_reporting() & ~2048;",
            "error_reporting(0);",
            "30711",
        ),
        row(
            "include_path",
            "set_include_path('/usr/share');",
            "echo get_include_path();",
            "set_include_path('/nowhere');",
            "/usr/share",
        ),
        row(
            "environment",
            "putenv('BOOT=one'); putenv('GOES=x');",
            "echo getenv('BOOT'), getenv('GOES'), getenv('NEW') === false ? '-' : '!';",
            "putenv('BOOT=' . str_repeat('two', 3000)); putenv('GOES'); putenv('NEW=1');",
            "onex-",
        ),
        row(
            "locale",
            "setlocale(LC_ALL, 'C.UTF-8');",
            "echo setlocale(LC_ALL, 0);",
            "setlocale(LC_ALL, 'C');",
            "C.UTF-8",
        ),
        row("intl", "Locale::setDefault('de_DE');", "echo Locale::getDefault();", "Locale::setDefault('fr');", "de_DE"),
        row(
            "time_zone",
            "date_default_timezone_set('Asia/Tokyo');",
            "echo date('H T', 0);",
            "date_default_timezone_set('America/Lima');",
            "09 JST",
        ),
        row(
            "mb_encoding",
            "mb_internal_encoding('ISO-8859-1'); mb_substitute_character(63); mb_detect_order(['ASCII', 'UTF-8']);",
            "echo mb_internal_encoding(), mb_substitute_character(), mb_strlen('ü'), implode(mb_detect_order());",
            "mb_internal_encoding('UTF-8'); mb_substitute_character('none'); mb_detect_order(['UTF-16']);",
            "ISO-8859-1632ASCIIUTF-8",
        ),
        row(
            "mb_search",
            "mb_ereg_search_init('boot text', 't');",
            "echo mb_ereg_search_getpos(), implode(mb_ereg_search_pos()), json_encode(mb_ereg_search_getregs());",
            "mb_ereg_search_init('another text', 'x'); mb_ereg_search(); mb_ereg('(a)(b)', 'ab', $found);",
            "031[\"t\"]",
        ),
        row(
            "intl_error",
            "",
            "echo intl_get_error_code();",
            "transliterator_create('none'); intl_is_failure(intl_get_error_code()) || exit('!');",
            "0",
        ),
        row(
            "session",
            "session_name('BOOT'); session_save_path(getenv('PLACE'));",
            "echo session_name(), session_status(), session_save_path() === getenv('PLACE') ? 'y' : 'n';",
            "session_name('OTHER'); session_save_path('/nowhere'); session_cache_limiter('public');",
            "BOOT1y",
        ),
        row(
            "mysqli",
            "mysqli_report(MYSQLI_REPORT_OFF);",
            "echo (new mysqli_driver)->report_mode;",
            "mysqli_report(MYSQLI_REPORT_ALL);",
            "0",
        ),
        row("collector", "gc_disable();", "echo json_encode(gc_enabled());", "gc_enable();", "false"),
        row("abort", "ignore_user_abort(true);", "echo ignore_user_abort();", "ignore_user_abort(false);", "1"),
        row(
            "libxml",
            "libxml_use_internal_errors(true);",
            "echo count(libxml_get_errors()), json_encode(libxml_use_internal_errors());",
            "simplexml_load_string('<broken'); libxml_use_internal_errors(false);",
            "0true",
        ),
    ]);
}

/// Variables, static ones and objects that a request changes are the snapshot's again in the next.
#[test]
fn variables() {
    check(&[
        row(
            "static",
            "function counted() { static $n = 0; return ++$n; } counted(); counted();",
            "echo counted();",
            "counted();",
            "3",
        ),
        row(
            "class",
            "#[AllowDynamicProperties] class Holder { static $n = 5; static $list = ['boot']; public $own = 1; } $holder = new Holder;",
            "echo Holder::$n++, count(Holder::$list), $holder->own;",
            "Holder::$list[] = new Holder; $holder->own = str_repeat('x', 5000); $holder->more = $holder;",
            "511",
        ),
        row(
            "array",
            "$config = array_fill(0, 20000, 'value'); $nested = ['a' => ['b' => ['c' => 1]]];",
            "echo count($config), $config[777], json_encode($nested);",
            "for ($i = 0; $i < 20000; $i += 7) $config[$i] = \"changed $i\"; $nested['a']['b']['c'] = &$config; unset($config[777]);",
            "20000value{\"a\":{\"b\":{\"c\":1}}}",
        ),
        row(
            "global",
            "$known = 'boot'; $gone = 1;",
            "echo $known, $gone, isset($fresh) ? '!' : '-', isset($GLOBALS['deep']) ? '!' : '-';",
            "$known = 'request'; unset($gone); $fresh = 1; (function () { $GLOBALS['deep'] = 1; })();",
            "boot1--",
        ),
        row(
            "constant",
            "define('BOOTED', 1);",
            "echo BOOTED, json_encode(defined('PER_REQUEST'));",
            "define('PER_REQUEST', 1);",
            "1false",
        ),
        row(
            "declared",
            "",
            "echo json_encode([class_exists('Late', false), function_exists('late'), enum_exists('Card', false)]);",
            "eval('class Late { const A = 1; static $s = [1]; } function late() {} enum Card: string { case A = \"a\"; } interface I {} trait T {}');",
            "[false,false,false]",
        ),
        row(
            "closure",
            "$closure = (function () { $n = 10; return function () use (&$n) { return $n++; }; })();",
            "echo $closure();",
            "$closure(); $closure = null;",
            "10",
        ),
        row(
            "generator",
            "$generator = (function () { for ($i = 0; ; $i++) yield $i; })(); $generator->current(); $generator->next();",
            "echo $generator->current();",
            "for ($i = 0; $i < 50; $i++) $generator->next();",
            "1",
        ),
        row(
            "weak",
            "$key = new stdClass; $map = new WeakMap; $map[$key] = 'held'; $reference = WeakReference::create($key);",
            "echo count($map), $map[$key], json_encode($reference->get() === $key);",
            "unset($key); gc_collect_cycles();",
            "1heldtrue",
        ),
        row(
            "handlers",
            "set_error_handler(fn () => print('boot')); spl_autoload_register(fn ($class) => print('load ')); set_exception_handler(fn () => 1);",
            "class_exists('Nobody'); echo $undefined; echo count(spl_autoload_functions());",
            "set_error_handler(null); restore_error_handler(); spl_autoload_register(fn () => 1); set_exception_handler(null);",
            "load boot1",
        ),
        row(
            "streams",
            "stream_context_set_default(['http' => ['user_agent' => 'boot']]); class W {} stream_wrapper_register('boot', 'W');",
            "echo json_encode([in_array('boot', stream_get_wrappers()), in_array('mine', stream_get_wrappers()), in_array('http', stream_get_wrappers())]), stream_context_get_options(stream_context_get_default())['http']['user_agent'];",
            "stream_wrapper_unregister('http'); stream_wrapper_unregister('boot'); stream_wrapper_register('mine', 'W'); stream_context_set_default(['http' => ['user_agent' => 'mine']]);",
            "[true,false,true]boot",
        ),
    ]);
}

/// Debian's php.ini buffers output: that is the one level.
#[test]
fn errors() {
    check(&[row(
        "last_errors",
        "",
        "echo json_encode([error_get_last(), json_last_error(), preg_last_error(), openssl_error_string(), ob_get_level()]);",
        "@trigger_error('x'); json_decode('{'); preg_match('/(?:\\D+|<\\d+>)*[!?]/', str_repeat('foobar ', 5000)); @openssl_pkey_get_public('rubbish'); ob_start(); ob_start();",
        "[null,0,0,false,1]",
    )]);
}

/// Objects whose memory is a library's, not PHP's.
#[test]
fn objects_of_libraries() {
    check(&[
        row(
            "dom",
            "$dom = new DOMDocument; $dom->loadXML('<a><b/></a>'); $simple = simplexml_load_string('<r><x>1</x></r>');",
            "echo $dom->saveXML($dom->documentElement), $simple->x;",
            "for ($i = 0; $i < 500; $i++) $dom->documentElement->appendChild($dom->createElement('c', str_repeat('y', 99))); $dom->documentElement->removeChild($dom->documentElement->firstChild); $simple->x = 'changed';",
            "<a><b/></a>1",
        ),
        row(
            "gmp",
            "$big = gmp_init('123456789012345678901234567890');",
            "echo $big;",
            "gmp_setbit($big, 5000);",
            "123456789012345678901234567890",
        ),
        row(
            "image",
            "$image = imagecreatetruecolor(300, 300); imagesetpixel($image, 5, 5, 0x123456);",
            "echo dechex(imagecolorat($image, 5, 5)), imagecolorat($image, 200, 200);",
            "imagefilledrectangle($image, 0, 0, 299, 299, 0xffffff); unset($image);",
            "1234560",
        ),
        row(
            "hash",
            "$hash = hash_init('sha256'); hash_update($hash, 'boot');",
            "echo substr(hash_final(hash_copy($hash)), 0, 8);",
            "hash_update($hash, 'request'); hash_final($hash);",
            "4509beb0",
        ),
        row(
            "zlib",
            "$deflate = deflate_init(ZLIB_ENCODING_RAW); deflate_add($deflate, 'boot', ZLIB_NO_FLUSH);",
            "echo bin2hex(gzinflate(deflate_add($deflate, '!', ZLIB_FINISH)));",
            "",
            "626f6f7421",
        ),
        row(
            "collator",
            "$collator = new Collator('sv_SE'); $format = new NumberFormatter('de_DE', NumberFormatter::DECIMAL);",
            "echo $collator->compare('z', 'ö'), $format->format(1234.5);",
            "$collator->setStrength(Collator::PRIMARY); $collator->setAttribute(Collator::NUMERIC_COLLATION, Collator::ON); $format->setAttribute(NumberFormatter::MIN_FRACTION_DIGITS, 5); $format = null;",
            "-11.234,5",
        ),
        row(
            "memory_stream",
            "$memory = fopen('php://memory', 'w+'); fwrite($memory, \"one\\ntwo\\n\"); rewind($memory); fgets($memory);",
            "echo fgets($memory);",
            "fwrite($memory, str_repeat('more', 9999)); rewind($memory); ftruncate($memory, 1); fclose($memory);",
            "two\n",
        ),
        row(
            "curl",
            "$curl = curl_init('file:///etc/hostname'); curl_setopt($curl, CURLOPT_USERAGENT, 'boot');",
            "echo curl_getinfo($curl, CURLINFO_EFFECTIVE_URL);",
            "curl_setopt($curl, CURLOPT_URL, 'file:///etc/passwd'); curl_setopt($curl, CURLOPT_RETURNTRANSFER, 1); curl_exec($curl); curl_reset($curl); unset($curl);",
            "file:///etc/hostname",
        ),
        row(
            "xml_reader",
            "$reader = XMLReader::XML('<a><b/><c/></a>'); $reader->read(); $reader->read(); $parser = xml_parser_create(); xml_parse($parser, '<a><b>');",
            "echo $reader->name, xml_get_current_byte_index($parser);",
            "$reader->read(); $reader->close(); xml_parse($parser, '</b></a>', true); unset($parser);",
            "b6",
        ),
        row(
            "ffi",
            "$ffi = FFI::cdef('int gai_cancel(void *);', 'libanl.so.1'); $data = FFI::new('int[100]', true, true); $data[7] = 7;",
            "echo $data[7], $ffi->gai_cancel(null) !== 0;",
            "$data[7] = 8; $own = FFI::new('int[50000]', false, true); unset($ffi, $data);",
            "71",
        ),
        row(
            "date",
            "$date = new DateTime('2020-02-02'); $calendar = IntlCalendar::createInstance('UTC', 'en'); $calendar->set(2020, 1, 2);",
            "echo $date->format('Y-m-d'), $calendar->get(IntlCalendar::FIELD_YEAR);",
            "$date->modify('+3 years'); $calendar->add(IntlCalendar::FIELD_YEAR, 7);",
            "2020-02-022020",
        ),
        row(
            "spl",
            "$heap = new SplMinHeap; foreach ([3, 1, 2] as $n) $heap->insert($n); $fixed = SplFixedArray::fromArray([1, 2, 3]); $storage = new SplObjectStorage; $storage[$heap] = 'h';",
            "echo count($heap), $heap->top(), $fixed[2], count($storage);",
            "$heap->extract(); $fixed->setSize(90000); $fixed[2] = 9; $storage->detach($heap);",
            "3131",
        ),
    ]);
}

/// Directory, umask, signals and other state of the kernel are the snapshot's again in the next request.
#[test]
fn what_the_kernel_keeps() {
    const STATUS: &str =
        "foreach (preg_grep('/^(Sig(Blk|Ign|Cgt)|Umask)/', file('/proc/self/status')) as $line) echo trim($line);";
    check(&[
        row("directory", "chdir('/usr');", "echo getcwd();", "chdir('/tmp');", "/usr"),
        row(
            "directory_gone",
            "",
            "echo getcwd();",
            "@mkdir($gone = getenv('PLACE') . '/gone' . getmypid()); chdir($gone); rmdir($gone);",
            "/usr",
        ),
        row(
            "umask",
            "umask(027);",
            "$made = getenv('PLACE') . '/made' . getmypid(); touch($made); clearstatcache(); printf('%o', fileperms($made) & 0777); unlink($made);",
            "umask(0);",
            "640",
        ),
        row(
            "handlers",
            "pcntl_signal(SIGUSR2, SIG_IGN);",
            "echo json_encode([pcntl_signal_get_handler(SIGUSR1), pcntl_signal_get_handler(SIGUSR2), pcntl_async_signals()]);",
            "pcntl_async_signals(true); pcntl_signal(SIGUSR1, fn () => print('hit')); pcntl_signal(SIGUSR2, SIG_DFL); posix_kill(getmypid(), SIGUSR1);",
            "[0,1,false]hit",
        ),
    ]);
    both(
        || {
            snapshot(
                "",
                &format!(
                    "case 'status': {STATUS}\npcntl_async_signals(true); pcntl_signal(SIGUSR1, fn () => 1); pcntl_signal(SIGUSR2, SIG_IGN); pcntl_signal(SIGCHLD, fn () => 1); pcntl_sigprocmask(SIG_BLOCK, [SIGHUP, SIGUSR1]); umask(0); break;\n"
                ),
            )
        },
        |lane| {
            let status = lane.same("status", 40);
            assert!(status.contains("SigCgt"), "{status}");
        },
    );
}

/// A signal that a request left pending hits no later one.
#[test]
fn a_pending_signal_hits_nobody() {
    both(
        || {
            snapshot(
                "",
                "case 'left': pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1]); posix_kill(getmypid(), SIGUSR1); echo 'left'; break;\ncase '': echo 'fine'; break;\n",
            )
        },
        |lane| {
            // The worker may go; a request may not go with it.
            lane.expect(&["crash", "attributes"]);
            for _ in 0..5 {
                assert_eq!(lane.text("left"), "left");
                assert!(lane.repeat("", 6).iter().all(|text| text == "fine"));
            }
        },
    );
}

/// What cannot be put back takes the worker with it.
#[test]
fn limits_priorities_and_sessions() {
    const SEEN: &str = "echo json_encode([posix_getrlimit(), $os->getpriority(0, 0), posix_getsid(0) === getmypid(), posix_getpgid(0) === getmypid()]);";
    let cases: String = [
        ("limit", "posix_setrlimit(POSIX_RLIMIT_NOFILE, 200, 200);"),
        ("limit_of_cpu", "posix_setrlimit(POSIX_RLIMIT_CPU, 500, 500);"),
        ("limit_of_files", "posix_setrlimit(POSIX_RLIMIT_FSIZE, 1 << 20, 1 << 20);"),
        ("priority", "proc_nice(3);"),
        ("session", "if (posix_getsid(0) !== getmypid()) posix_setsid();"),
        ("group", "posix_setpgid(0, 0);"),
        ("nothing", ""),
    ]
    .iter()
    .map(|(name, spoil)| format!("case '{name}': {SEEN} {spoil} break;\n"))
    .collect();
    both(
        || snapshot("$os = FFI::cdef('int getpriority(int, unsigned);');", &cases),
        |lane| {
            lane.expect(&["attributes"]);
            let first = lane.text("nothing");
            assert!(first.contains("soft openfiles"), "{first}");
            for name in ["limit", "limit_of_cpu", "limit_of_files", "priority", "session", "group"] {
                for round in 0..4 {
                    assert_eq!(lane.text(name), first, "{name} in round {round} of {}", lane.isolation);
                }
                assert!(lane.repeat("nothing", 4).iter().all(|text| *text == first), "after {name}");
            }
        },
    );
}

/// Not stale: what the boot knew of files, and the time.
#[test]
fn the_time_and_the_files_are_the_requests() {
    const BOOT: &str =
        "$file = getenv('PLACE') . '/grows'; file_put_contents($file, 'x'); $booted = time(); $size = filesize($file);";
    const CASES: &str = r#"
case 'size': echo $size, ' ', filesize($file), ' '; file_put_contents($file, 'x', FILE_APPEND); break;
case 'time': echo json_encode([abs($_SERVER['REQUEST_TIME'] - time()) <= 1, abs($_SERVER['REQUEST_TIME_FLOAT'] - microtime(true)) < 1,
    abs(date_create()->getTimestamp() - time()) <= 1, time() > $booted]); break;
"#;
    both(
        || snapshot(BOOT, CASES),
        |lane| {
            let sizes = lane.repeat("size", 10);
            let expected: Vec<String> = (1..=10).map(|size| format!("1 {size} ")).collect();
            assert_eq!(sizes, expected, "{}", lane.isolation);
            tests::wait_until("the boot is more than a second ago", 5, || lane.text("time") == "[true,true,true,true]");
        },
    );
}

/// What is used of memory at the beginning of a request does not depend on those before.
#[test]
fn memory_in_use_is_the_snapshots() {
    both(
        || {
            snapshot(
                "$held = range(1, 1000);",
                "case 'use': echo memory_get_usage(), ' ', count(get_resources()), ' ', spl_object_id(new stdClass), ' ', count(get_included_files()), ' ', count(get_defined_vars()); $big = str_repeat('x', 3000000); $list = range(1, 50000); fopen('php://temp', 'r'); break;\n",
            )
        },
        |lane| {
            lane.same("use", 40);
        },
    );
}
