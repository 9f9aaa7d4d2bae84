<?php
// Everything PHP was told about the request. A multipart body is PHP's own to read, so php://input is empty for it.
$files = [];
foreach ($_FILES as $field => $f) {
    foreach ((array) $f['name'] as $i => $name) {
        $one = array_map(fn ($v) => is_array($v) ? $v[$i] : $v, $f);
        $files[] = ['field' => $field, 'name' => $name, 'type' => $one['type'], 'size' => $one['size'], 'error' => $one['error'],
            'sha1' => $one['error'] === UPLOAD_ERR_OK ? sha1_file($one['tmp_name']) : null];
    }
}
$body = file_get_contents('php://input');
header('Content-Type: application/json');
echo json_encode([
    'method' => $_SERVER['REQUEST_METHOD'], 'uri' => $_SERVER['REQUEST_URI'], 'query' => $_GET, 'post' => $_POST,
    'cookies' => $_COOKIE, 'files' => $files, 'headers' => getallheaders(),
    'body' => ['length' => strlen($body), 'sha1' => sha1($body)],
], JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_PRETTY_PRINT), "\n";
