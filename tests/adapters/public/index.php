<?php

declare(strict_types=1);

ini_set('display_errors', '1');
error_reporting(E_ALL & ~E_DEPRECATED);
require __DIR__ . '/autoload.php';
$handle = require __DIR__ . '/suite.php';
match (getenv('MODE')) {
    'worker' => (static function () use ($handle): void { while (reprise_handle_request($handle)); })(),
    'snapshot' => (static function () use ($handle): void { reprise_snapshot(); $handle(); })(),
    default => $handle(),
};
