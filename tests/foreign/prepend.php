<?php
// What the dev server decides for itself, as a script that PHP runs before the one asked for: its router comes first, and
// if that returns false, the script or file that was asked for, or a page that there is none. sapi/cli/php_cli_server.c is
// the model, whose names stand here in brackets.

$_SERVER['SERVER_SOFTWARE'] = PHP_VERSION_ID < 80400 ? 'PHP ' . PHP_VERSION . ' Development Server' : 'PHP/' . PHP_VERSION . ' (Development Server)';
(function () {
    // Pages of the dev server [php_cli_server_send_error_page].
    $page = function (int $status, string $title, string $text): never {
        header('X-Dev-Server: page');
        if (PHP_VERSION_ID < 80400) {
            header_remove('X-Powered-By');
        }
        $page = "<!doctype html><html><head><title>$status $title</title><style></style>\n</head><body><h1>$title</h1><p>$text</p></body></html>";
        http_response_code($status);
        header('Content-Type: text/html; charset=UTF-8');
        header('Content-Length: ' . strlen($page));
        if ($status === 405) {
            header('Allow: GET, HEAD, POST');
        }
        exit($page);
    };
    // Those of its parser [php_http_parser.c].
    $methods = ['DELETE', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'CONNECT', 'OPTIONS', 'TRACE', 'COPY', 'LOCK', 'MKCALENDAR', 'MKCOL',
        'MOVE', 'PROPFIND', 'PROPPATCH', 'SEARCH', 'UNLOCK', 'REPORT', 'MKACTIVITY', 'CHECKOUT', 'MERGE', 'M-SEARCH', 'NOTIFY',
        'SUBSCRIBE', 'UNSUBSCRIBE'];
    if (!in_array($_SERVER['REQUEST_METHOD'], $methods, true)) {
        $page(501, 'Not Implemented', 'Request method not supported.');
    }

    $root = $_SERVER['DOCUMENT_ROOT'];
    $path = rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]);
    $is_there = is_file($root . $path) || isset($_SERVER['PATH_INFO']);
    // [php_cli_server_begin_send_static]
    $not_found = fn() => in_array($_SERVER['REQUEST_METHOD'], ['DELETE', 'PUT', 'PATCH'], true)
        ? $page(405, 'Method Not Allowed', 'Requested method not allowed.')
        : $page(404, 'Not Found', 'The requested resource <code class="url">' . htmlspecialchars($path) . '</code> was not found on this server.');
    $router = getenv('CLI_SERVER_ROUTER');
    if ($router !== '') {
        // [php_cli_server_dispatch_router] A router that never returns false can as well be the script that is run.
        $router = $root . '/' . $router;
        if ($_SERVER['SCRIPT_FILENAME'] !== $router || stripos(file_get_contents($router), 'return false') !== false) {
            $GLOBALS['cli_server'] = [$router, fn() => $is_there || $not_found()];
        }
        return;
    }
    // A path that is nothing is the path info of the nearest index.php; until 8.3 only if it has no extension
    // [php_cli_server_client_read_request, php_cli_server_request_translate_vpath].
    if (filesize($root . '/index.php') === 0 || (PHP_VERSION_ID < 80400 && !$is_there && str_contains(basename($path), '.'))) {
        $not_found();
    }
    if (!$is_there && $path !== '/') {
        $_SERVER['PATH_INFO'] = $path;
        $_SERVER['PHP_SELF'] = $_SERVER['SCRIPT_NAME'] . $path;
    }
})();
// The router's variables are global.
if (isset($cli_server)) {
    if ((include $cli_server[0]) !== false) {
        exit;
    }
    $cli_server[1]();
    unset($cli_server);
}
