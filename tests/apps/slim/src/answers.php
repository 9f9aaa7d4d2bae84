<?php
// Answers that are more than a page.
use Psr\Http\Message\{ResponseInterface as Response, ServerRequestInterface as Request};

return function (Slim\App $app, callable $json): void {
    $c = $app->getContainer();
    $app->get('/away/{status:30[12378]}', fn (Request $q, Response $r, array $a) => $r->withStatus((int) $a['status'])->withHeader('Location', 'https://other.example/a?b=c#d'));
    $app->get('/files/{name:[\w.-]+}', function (Request $q, Response $r, array $a) {
        $file = dirname(__DIR__) . "/data/uploads/$a[name]";
        if (!is_file($file)) return $r->withStatus(404);
        return $r->withHeader('Content-Type', 'application/octet-stream')->withHeader('Content-Disposition', "attachment; filename=\"$a[name]\"")->withBody(new Slim\Psr7\Stream(fopen($file, 'rb')));
    });
    $app->get('/stream', function (Request $q, Response $r) {
        // Slim sends a body in pieces of responseChunkSize; this one has no size it could announce.
        $pipe = popen('seq 1 100000', 'r');
        return $r->withHeader('Content-Type', 'text/plain')->withBody(new Slim\Psr7\Stream($pipe));
    });
    $app->get('/report', function (Request $q, Response $r) use ($c) {
        $out = fopen('php://temp', 'w+');
        foreach ($c['db']->query('SELECT id, title, body FROM post ORDER BY id', PDO::FETCH_NUM) as $row) fputcsv($out, $row);
        rewind($out);
        return $r->withHeader('Content-Type', 'text/csv')->withBody(new Slim\Psr7\Stream($out));
    });
    $app->get('/flush', function (Request $q, Response $r) {
        header('Content-Type: text/plain'); header('X-Own: of PHP');
        for ($i = 0; $i < 5; $i++) { echo "chunk $i\n"; while (ob_get_level()) ob_end_flush(); flush(); }
        exit;
    });
    $app->map(['GET', 'DELETE'], '/nothing', fn (Request $q, Response $r) => $r->withStatus(204));
    $app->get('/cookies', fn (Request $q, Response $r) => $r->withAddedHeader('Set-Cookie', 'a=1; Path=/; HttpOnly')->withAddedHeader('Set-Cookie', 'b=2; Path=/; Max-Age=60')->withAddedHeader('Set-Cookie', 'c=; Path=/; Max-Age=0'));
    $app->get('/cached', function (Request $q, Response $r) {
        $r = $r->withHeader('ETag', '"v1"')->withHeader('Cache-Control', 'public, max-age=60');
        if ($q->getHeaderLine('If-None-Match') === '"v1"') return $r->withStatus(304);
        $r->getBody()->write('worth keeping');
        return $r;
    });
    $app->get('/teapot', fn (Request $q, Response $r) => $json($r, ['short' => 'stout'], 418));
    $app->get('/reason', fn (Request $q, Response $r) => $r->withStatus(404, 'Gone fishing'));
    $app->get('/error/type', fn (Request $q, Response $r) => strlen());
    $app->get('/error/memory', function (Request $q, Response $r) { ini_set('memory_limit', '8M'); return str_repeat('x', 100_000_000); });
    $app->get('/protected', function (Request $q, Response $r) {
        $server = $q->getServerParams();
        if (($server['PHP_AUTH_USER'] ?? '') !== 'u' || ($server['PHP_AUTH_PW'] ?? '') !== 'p') return $r->withStatus(401)->withHeader('WWW-Authenticate', 'Basic realm="slim"');
        $r->getBody()->write('let in');
        return $r;
    });
};
