<?php
// The pages of ../plain as functions, and the loop that serves one. Where there is no loop (PHP-FPM) it is served once.
require __DIR__ . '/bodies.php';

function json(): void
{
    header('Content-Type: application/json');
    echo records();
}

function blog(): void
{
    header('Content-Type: text/plain');
    echo drawn();
}

function serve(callable $page): void
{
    if (!function_exists('reprise_handle_request')) {
        $page();
        return;
    }
    while (reprise_handle_request($page)) {
    }
}
