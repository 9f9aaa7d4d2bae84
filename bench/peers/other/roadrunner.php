<?php
// The worker of RoadRunner; `php roadrunner.php check` says whether its package is there.
$autoload = getenv('RR_AUTOLOAD') ?: '';
if (!is_file($autoload)) {
    fwrite(STDERR, "RR_AUTOLOAD ('$autoload') does not name the autoload.php of a directory with spiral/roadrunner-http\n");
    exit(1);
}
require $autoload;
if (!class_exists(Spiral\RoadRunner\Http\HttpWorker::class)) {
    fwrite(STDERR, "spiral/roadrunner-http is not in $autoload\n");
    exit(1);
}
if (($argv[1] ?? '') === 'check') {
    exit(0);
}
require __DIR__ . '/pages.php';
$http = new Spiral\RoadRunner\Http\HttpWorker(Spiral\RoadRunner\Worker::create());
while ($request = $http->waitRequest()) {
    $page = page(parse_url($request->uri, PHP_URL_PATH));
    $page === null ? $http->respond(404, 'no such page') : $http->respond(200, $page[1], ['Content-Type' => [$page[0]]]);
}
