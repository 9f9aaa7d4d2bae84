<?php
// php swoole.php PORT WORKERS LOG
require __DIR__ . '/pages.php';
[, $port, $workers, $log] = $argv;
$server = new Swoole\Http\Server('127.0.0.1', (int) $port, SWOOLE_PROCESS);
$server->set(['worker_num' => (int) $workers, 'log_file' => $log, 'backlog' => 4096, 'enable_coroutine' => false, 'http_compression' => false]);
$server->on('request', function ($request, $response) {
    [$type, $body] = page($request->server['request_uri']) ?? [null, null];
    if ($type === null) {
        $response->status(404);
        $response->end('no such page');
        return;
    }
    $response->header('Content-Type', $type);
    $response->end($body);
});
$server->start();
