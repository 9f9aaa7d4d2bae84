<?php
// One case of what PHP-FPM does, by ?c=…; tests/tests/php/sapi.rs compares its answers.
ini_set('session.gc_probability', 0);
switch ($_GET['c'] ?? '') {
    // headers
    case 'header-forms':
        header('X-One: 1'); header('x-one: 2'); header('X-Two: a'); header('X-Two: b', false); header('X-Three:no space');
        header('X-Empty:'); header('X-Gone: 1'); header_remove('x-gone'); header('X-Colon: a:b:c'); header("X-Tab:\tt");
        header('X-Utf8: ü'); echo json_encode(headers_list()); break;
    case 'header-injection': set_error_handler(fn ($n, $text) => print "$text\n"); header("X-A: 1\r\nX-B: 2"); header("X-C: 1\0"); echo 'end'; break;
    case 'header-status': header('HTTP/1.1 418 I am a teapot'); echo http_response_code(); break;
    case 'header-status-10': header('HTTP/1.0 404 Gone fishing'); echo http_response_code(); break;
    case 'header-status-line': header('Status: 503 Busy'); echo http_response_code(); break;
    case 'header-code': header('X-A: 1', true, 299); echo http_response_code(); break;
    case 'header-location': header('Location: /elsewhere'); echo http_response_code(); break;
    case 'header-location-201': http_response_code(201); header('Location: /made'); echo http_response_code(); break;
    case 'header-location-code': header('Location: /moved', true, 307); break;
    case 'header-auth': header('WWW-Authenticate: Basic realm="x"'); echo http_response_code(); break;
    case 'header-type': header('Content-Type: text/plain'); echo 'text'; break;
    case 'header-type-charset': header('Content-Type: text/css; charset=latin1'); echo 'css'; break;
    case 'header-type-none': ini_set('default_mimetype', ''); echo 'none'; break;
    case 'header-charset': ini_set('default_charset', 'iso-8859-1'); echo 'text'; break;
    case 'header-length': header('Content-Length: 4'); echo 'four'; break;
    case 'header-callback': header_register_callback(function () { header('X-Late: ' . http_response_code()); header_remove('X-Early'); }); header('X-Early: 1'); echo 'body'; break;
    case 'header-after-output': echo str_repeat('x', 9000); flush(); echo headers_sent($file, $line) ? basename($file) . 'sent' : 'unsent'; @header('X-Late: 1'); echo error_get_last()['message'] ?? ''; break;
    case 'header-replace-all': header_remove(); echo json_encode(headers_list()); break;
    case 'code-204': http_response_code(204); echo 'unseen'; break;
    case 'code-304': http_response_code(304); header('ETag: "x"'); break;
    case 'cookies':
        setcookie('a', 'b c'); setcookie('d', 'e', ['expires' => 2000000000, 'path' => '/x', 'domain' => 'site.test', 'secure' => true, 'httponly' => true, 'samesite' => 'Lax']);
        setrawcookie('raw', 'a%20b'); setcookie('gone', ''); echo json_encode($_COOKIE); break;
    case 'apache': header('X-A: 1'); $all = getallheaders(); ksort($all); echo json_encode([$all, function_exists('apache_response_headers') ? apache_response_headers()['X-A'] : '1']); break;
    // output
    case 'ob-callback': ob_start(fn ($text) => strtoupper($text)); echo 'shout'; break;
    case 'ob-nested': ob_start(fn ($t) => "[$t]"); ob_start(fn ($t) => "($t)"); echo 'in'; ob_end_flush(); echo 'out'; break;
    case 'ob-levels': echo json_encode([ob_get_level(), ini_get('output_buffering'), ini_get('implicit_flush'), array_map(fn ($s) => $s['name'], ob_get_status(true))]); break;
    case 'ob-clean': echo 'never'; ob_clean(); echo 'kept'; break;
    case 'ob-gzip': ob_start('ob_gzhandler'); echo str_repeat('gzip ', 500); break;
    case 'rewrite': output_add_rewrite_var('v', '1'); echo '<a href="/x">x</a><form><input></form>'; break;
    case 'exit-text': echo 'a'; exit('b');
    case 'exit-code': echo 'a'; exit(3);
    case 'exit-in-function': (function () { echo 'a'; exit; })();
    case 'shutdown': register_shutdown_function(function () { echo ' shutdown ', http_response_code(); register_shutdown_function(fn () => print ' again'); }); echo 'body'; exit;
    case 'destructor': $o = new class { function __destruct() { echo ' destructor'; } }; echo 'body'; break;
    case 'finish': header('X-A: 1'); echo 'seen'; var_dump(fastcgi_finish_request()); echo 'unseen'; break;
    case 'big': for ($i = 0; $i < 3000; $i++) { echo str_repeat(chr(65 + $i % 26), 997); } break;
    case 'flushes': for ($i = 0; $i < 5; $i++) { echo "part $i\n"; while (ob_get_level()) ob_end_flush(); flush(); } break;
    case 'binary': for ($i = 0; $i < 256; $i++) echo chr($i); break;
    case 'nothing': break;
    // errors
    case 'warning': ini_set('display_errors', '1'); ini_set('html_errors', $_GET['html'] ?? '1'); echo 'before'; echo $undefined; echo 'after'; break;
    case 'fatal': ini_set('display_errors', $_GET['show'] ?? '1'); echo 'before'; no_such_function(); break;
    case 'exception': ini_set('display_errors', '0'); throw new Exception('never shown');
    case 'exception-sent': ini_set('display_errors', '0'); echo str_repeat('x', 9000); flush(); throw new Exception('too late');
    case 'parse': ini_set('display_errors', '1'); try { eval('this is no php'); } catch (ParseError $e) { echo $e->getMessage(); } break;
    case 'handler': set_exception_handler(function ($e) { http_response_code(418); echo 'caught ', $e->getMessage(); }); throw new Exception('it');
    case 'last-error': @strlen(...[]) ?? 0; break;
    case 'error-last': @trigger_error('mine', E_USER_WARNING); echo json_encode(error_get_last()); error_clear_last(); echo json_encode(error_get_last()); break;
    case 'memory': ini_set('display_errors', '0'); ini_set('memory_limit', '8M'); echo 'x'; $a = str_repeat('x', 100 << 20); break;
    case 'time': ini_set('display_errors', '0'); set_time_limit(1); while (true);
    case 'prepend': ini_set('display_errors', '1'); ini_set('error_prepend_string', '<b>'); ini_set('error_append_string', '</b>'); echo $undefined; break;
    // input
    case 'input': echo json_encode([$_GET, $_POST, $_REQUEST, $_COOKIE, $_SERVER['argc'] ?? null, $_SERVER['argv'] ?? null]); break;
    case 'raw': echo file_get_contents('php://input'), '|', json_encode($_POST); break;
    case 'raw-twice': $in = fopen('php://input', 'r'); echo fread($in, 3), '|', stream_get_contents($in), '|', file_get_contents('php://input'); break;
    case 'files':
        $show = function ($v, $k) use (&$files) { $files[] = [$k, $k === 'tmp_name' ? is_uploaded_file($v) : $v]; };
        array_walk_recursive($_FILES, $show); $content = [];
        array_walk_recursive($_FILES, function ($v, $k) use (&$content) { if (is_string($v) && is_uploaded_file($v)) $content[] = md5_file($v) . ' ' . (substr(decoct(fileperms($v)), -3)); });
        echo json_encode([$_POST, $_FILES ? array_keys($_FILES) : null, $content, array_map(fn ($f) => array_diff_key($f, ['tmp_name' => 1]), $_FILES)]); break;
    case 'move': $to = sys_get_temp_dir() . '/moved' . bin2hex(random_bytes(6)); var_dump(move_uploaded_file($_FILES['f']['tmp_name'] ?? '', $to), @file_get_contents($to), is_uploaded_file($to), move_uploaded_file('/etc/passwd', $to)); @unlink($to); break;
    case 'auth': echo json_encode([$_SERVER['PHP_AUTH_USER'] ?? null, $_SERVER['PHP_AUTH_PW'] ?? null, $_SERVER['PHP_AUTH_DIGEST'] ?? null, $_SERVER['AUTH_TYPE'] ?? null, $_SERVER['REMOTE_USER'] ?? null, $_SERVER['HTTP_AUTHORIZATION'] ?? null]); break;
    case 'server': $own = ['HOME' => 1, 'USER' => 1, 'SERVER_SOFTWARE' => 1, 'REMOTE_PORT' => 1, 'REQUEST_ID' => 1, 'SERVER_PORT' => 1, 'REQUEST_TIME' => 1, 'REQUEST_TIME_FLOAT' => 1, 'DOCUMENT_ROOT' => 1]; $all = $_SERVER; unset($all['FRANKENPHP_WORKER']); ksort($all); echo json_encode([array_diff_key($all, $own), array_keys($all)]); break;
    case 'time-is-now': echo json_encode([abs($_SERVER['REQUEST_TIME'] - time()) < 3, is_float($_SERVER['REQUEST_TIME_FLOAT']), $_SERVER['REQUEST_TIME'] === (int) $_SERVER['REQUEST_TIME_FLOAT']]); break;
    case 'filter': echo json_encode([filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT), filter_input(INPUT_SERVER, 'REQUEST_METHOD'), filter_has_var(INPUT_COOKIE, 'k'), filter_input_array(INPUT_POST)]); break;
    case 'env': putenv('MINE=1'); echo json_encode([getenv('MINE'), getenv('REQUEST_METHOD'), getenv('QUERY_STRING'), isset($_ENV['MINE']), getenv('NO_SUCH')]); break;
    // the process
    case 'streams': echo json_encode([stream_get_contents(fopen('php://stdin', 'r')), defined('STDIN'), defined('STDERR'), fwrite(fopen('php://stdout', 'w'), 'to nobody'), PHP_SAPI, php_sapi_name(), ignore_user_abort(), connection_status(), connection_aborted()]); break;
    case 'stderr': echo fwrite(fopen('php://stderr', 'w'), "a line of the script's\n"); error_log('by error_log'); break;
    case 'cwd': echo getcwd() === dirname($_SERVER['SCRIPT_FILENAME']) ? 'own' : getcwd(), get_include_path(); register_shutdown_function(fn () => print getcwd() === dirname($_SERVER['SCRIPT_FILENAME']) ? 'own' : 'other'); break;
    case 'limits': echo json_encode([ini_get('max_execution_time'), ini_get('memory_limit'), set_time_limit(7), ini_get('max_execution_time'), ini_get('max_input_time'), ini_get('log_errors'), ini_get('display_errors'), ini_get('html_errors'), ini_get('register_argc_argv'), ini_get('variables_order')]); break;
    case 'functions': echo json_encode([function_exists('fastcgi_finish_request'), function_exists('apache_request_headers'), function_exists('getallheaders'), function_exists('cli_set_process_title'), function_exists('dl')]); break;
    case 'included': echo json_encode(array_map('basename', get_included_files()) + [9 => __LINE__]); break;
    case 'info': ob_start(); phpinfo(INFO_VARIABLES); $page = ob_get_clean(); echo preg_match_all('/\$_(SERVER|GET|COOKIE)\[/', $page) > 10 ? 'variables' : 'none'; break;
    // sessions
    case 'session':
        session_save_path($_GET['path'] ?? session_save_path()); if (isset($_GET['handler'])) ini_set('session.save_handler', $_GET['handler']);
        session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo json_encode([session_id(), $_SESSION['n'], session_status(), session_module_name()]); break;
    case 'session-headers': session_cache_limiter($_GET['limiter']); session_id('fixed'); session_start(); echo SID; break;
    case 'session-destroy': session_id($_GET['id']); session_start(); session_destroy(); echo json_encode($_SESSION); break;
    case 'session-regenerate': session_start(); $old = session_id(); session_regenerate_id(true); echo $old !== session_id() ? 'new' : 'old'; break;
    case 'session-strict': ini_set('session.use_strict_mode', '1'); session_start(); echo session_id() === ($_COOKIE[session_name()] ?? '') ? 'taken' : 'refused'; break;
    case 'session-progress': session_start(); echo json_encode([isset($_SESSION['upload_progress_job']), array_keys($_FILES)]); break;
    case 'session-own':
        session_set_save_handler(new class implements SessionHandlerInterface {
            function open($p, $n): bool { return true; } function close(): bool { return true; } function read($id): string|false { return 'k|s:5:"value";'; }
            function write($id, $d): bool { error_log("writes $d"); echo "writes $d"; return true; } function destroy($id): bool { return true; } function gc($l): int|false { return 0; }
        }, false);
        session_id('own'); session_start(); echo $_SESSION['k']; $_SESSION['l'] = 1; break;
    default: http_response_code(404); echo 'no such case';
}
