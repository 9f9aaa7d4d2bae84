<?php
// Says what it has been told, and by whom. LEAK plants what must not be: that one visitor sees another ("head", "body"), or
// nothing of its own ("silent").
use Psr\Http\Message\{ResponseInterface as Response, ServerRequestInterface as Request};

return function (Slim\App $app, callable $session): void {
    $app->map(['GET', 'POST'], '/mark/{what}', function (Request $q, Response $r, array $a) {
        static $last = 'none';
        $cookies = $q->getCookieParams();
        $_SESSION['mark'] ??= $cookies['mark'] ?? null;
        $file = $q->getUploadedFiles()['file'] ?? null;
        $told = [
            'user' => $_SESSION['user'] ?? 'nobody', 'get' => $q->getQueryParams()['q'] ?? null, 'post' => $q->getParsedBody()['field'] ?? null,
            'cookie' => $cookies['mark'] ?? null, 'header' => $q->getHeaderLine('X-Mark'), 'session' => $_SESSION['mark'],
            'file' => $file?->getClientFilename(), 'content' => $file ? (string) $file->getStream() : null, 'mode' => reprise_info()['mode'],
        ];
        $leak = getenv('LEAK');
        if ($leak === 'body') $told['last'] = $last;
        if ($leak === 'head') $r = $r->withHeader('X-Last', $last);
        if ($leak === 'silent') $told['get'] = '';
        $last = $told['cookie'];
        $r = $r->withHeader('X-Told', $told['get'])->withHeader('X-Worker', (string) getmypid());
        if ($a['what'] === 'error') throw new RuntimeException("boom $told[get]");
        if ($a['what'] === 'redirect') return $r->withStatus(302)->withHeader('Location', "/mark/page?q=$told[get]");
        if ($a['what'] === 'stream') return $r->withBody(new App\Made((function () use ($told) { foreach ($told as $name => $value) yield json_encode([$name => $value]) . "\n"; })()));
        $r->getBody()->write(json_encode($told));
        return $r->withHeader('Content-Type', 'application/json')->withHeader('Set-Cookie', "seen=$told[get]; Path=/");
    })->add($session);
    // An event, more when the file is there; a note when this has ended.
    $app->get('/events', function (Request $q, Response $r) {
        ['file' => $file, 'last' => $last] = $q->getQueryParams();
        $made = function () use ($file, $last) {
            register_shutdown_function(fn () => file_put_contents("$file.ended", connection_aborted()));
            yield "data: first\n\n";
            while (!file_exists($file)) { usleep(2000); clearstatcache(); }
            for ($i = 1; $i <= $last; $i++) { usleep(500); yield "data: next $i\n\n"; }
        };
        return $r->withHeader('Content-Type', 'text/event-stream')->withBody(new App\Made($made()));
    });
};
