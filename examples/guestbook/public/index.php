<?php
declare(strict_types=1);

// The front controller: every path that is not a file in public/ arrives here, with the original path in REQUEST_URI.

namespace Guestbook;

foreach (['view', 'Response', 'Book', 'Picture', 'Session', 'Pages'] as $part) {
    require __DIR__ . "/../src/$part.php";
}

$path = rawurldecode(explode('?', $_SERVER['REQUEST_URI'] ?? '/', 2)[0]);
$method = $_SERVER['REQUEST_METHOD'] ?? 'GET';

try {
    $pages = new Pages(getenv('GUESTBOOK_DATA') ?: dirname(__DIR__) . '/data');
    $response = match (true) {
        $path === '/' && $method === 'POST' => $pages->sign($_POST, $_FILES),
        !in_array($method, ['GET', 'HEAD'], true) => $pages->methodNotAllowed($path === '/' ? 'GET, HEAD, POST' : 'GET, HEAD'),
        $path === '/' => $pages->home($_GET['page'] ?? '1'),
        $path === '/about' => $pages->about(),
        $path === '/feed' => $pages->feed(),
        preg_match('~^/entry/(\d{1,9})$~D', $path, $match) === 1 => $pages->entry((int) $match[1]),
        preg_match('~^/picture/(\d{1,9})$~D', $path, $match) === 1 => $pages->picture((int) $match[1]),
        default => $pages->notFound(),
    };
} catch (\Throwable $error) {
    error_log((string) $error);
    $response = Response::message(500, 'That did not work', 'Something broke on our side. The error log says what.');
}
$response->send();
