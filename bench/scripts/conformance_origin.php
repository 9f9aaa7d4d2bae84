<?php
// The origin of http-cache-tests (server/handle-*.mjs there) as a PHP application: /config/UUID takes the requests of a test, /test/UUID answers
// as they say and notes what it was asked, /state/UUID tells that. What all workers know of a test is in two files of ORIGIN_STATE.

const NO_BODY = [204, 304];
const DATES = ['date', 'expires', 'last-modified', 'if-modified-since', 'if-unmodified-since'];

function refuse(int $status, string $text): never
{
    http_response_code($status);
    header('Content-Type: text/plain');
    exit("$text\n");
}

/** The value of the last header with that name. */
function value_of(array $headers, string $wanted): ?string
{
    $found = null;
    foreach ($headers as $header) {
        if (strcasecmp($header[0], $wanted) === 0) {
            $found = (string)$header[1];
        }
    }
    return $found;
}

/** A header as the test means it: dates are seconds from now, locations are below the URL. */
function meant(array $header, array $config, int $now): array
{
    $name = strtolower($header[0]);
    if (in_array($name, DATES, true) && is_int($header[1])) {
        $format = in_array($name, $config['rfc850date'] ?? [], true) ? 'l, d-M-y H:i:s' : 'D, d M Y H:i:s';
        $header[1] = gmdate($format, $now + $header[1]) . ' GMT';
    }
    if (in_array($name, ['location', 'content-location'], true) && ($config['magic_locations'] ?? false)) {
        $header[1] = $_SERVER['REQUEST_URI'] . ($header[1] === '' ? '' : "/$header[1]");
    }
    $device = strstr($_SERVER['HTTP_SURROGATE_CAPABILITY'] ?? '', '=', true);
    if ($name === 'surrogate-control' && $device !== false) {
        $header[1] = str_replace('CAPABILITY_TARGET', $device, $header[1]);
    }
    return $header;
}

ini_set('default_charset', '');
[, $what, $uuid] = explode('/', parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) + ['', '', ''];
if (!preg_match('/^[0-9a-f-]+$/', $uuid)) {
    refuse(404, 'no such path');
}
$file = getenv('ORIGIN_STATE') . "/$uuid";
if ($what === 'config') {
    if ($_SERVER['REQUEST_METHOD'] !== 'PUT') {
        refuse(405, 'PUT is meant');
    }
    file_put_contents("$file.config", file_get_contents('php://input'));
    refuse(201, 'OK');
}
if ($what === 'state') {
    header('Content-Type: text/plain');
    is_file("$file.state") ? readfile("$file.state") : refuse(404, 'no state');
    exit;
}
if ($what !== 'test' || !is_file("$file.config")) {
    refuse(409, 'no such test');
}

$requests = json_decode(file_get_contents("$file.config"), true);
$lock = fopen("$file.state", 'c+');
flock($lock, LOCK_EX);
$state = json_decode(stream_get_contents($lock), true) ?? [];
$asked = array_change_key_case(getallheaders());
$number = count($state) + 1;
$client_number = (int)($asked['req-num'] ?? 0);
$index = ($client_number ?: $number) - 1;
$config = $requests[$index] ?? refuse(409, 'no such request');
$before = $requests[$index - 1]['response_headers'] ?? [];
$now = time();

$status = $config['response_status'][0] ?? 200;
if (str_ends_with($config['expected_type'] ?? '', 'validated')) {
    $modified = value_of($before, 'Last-Modified');
    $etag = value_of($before, 'ETag');
    $is_known = ($modified !== null && ($asked['if-modified-since'] ?? null) === $modified)
        || ($etag !== null && ($asked['if-none-match'] ?? null) === $etag);
    $status = $is_known ? 304 : 999;
}
$told = [];
foreach ($config['response_headers'] ?? [] as $at => $header) {
    $header = meant($header, $config, $now);
    // The next request compares with what was sent, not with what was meant.
    $requests[$index]['response_headers'][$at][1] = $header[1];
    header("$header[0]: $header[1]", false);
    if (count($header) < 3 || $header[2] === true) {
        $told[$header[0]][] = (string)$header[1];
    }
}
file_put_contents("$file.config", json_encode($requests));
$state[] = [
    'request_num' => $client_number,
    'request_method' => $_SERVER['REQUEST_METHOD'],
    'request_headers' => $asked,
    'response_headers' => array_map(fn($name, $values) => [$name, implode(', ', $values)], array_keys($told), $told),
];
rewind($lock);
ftruncate($lock, 0);
fwrite($lock, json_encode($state));
fclose($lock);
if ($config['disconnect'] ?? false) {
    posix_kill(getmypid(), SIGKILL);
}

http_response_code($status);
header("Server-Base-Url: $_SERVER[REQUEST_URI]");
header("Server-Request-Count: $number");
header("Client-Request-Count: $client_number");
header('Server-Now: ' . $now * 1000);
header('Capability-Seen: ' . ($asked['surrogate-capability'] ?? ''));
header('Request-Numbers: ' . implode(' ', array_column($state, 'request_num')));
if (!isset($told['Content-Type']) && value_of($config['response_headers'] ?? [], 'Content-Type') === null) {
    header('Content-Type: text/plain');
}
if (!in_array($status, NO_BODY, true)) {
    $body = $config['response_body'] ?? $uuid;
    // A length that is wrong would not leave the server; the origin of the suite sends so many bytes that count.
    $length = value_of($config['response_headers'] ?? [], 'Content-Length');
    echo $length === null ? $body : substr($body, 0, (int)$length);
}
