<?php
// The pages of tests/apps/plain for servers whose programs hand over requests: path -> [type, body].
require __DIR__ . '/bodies.php';

const TEXT = 'text/plain;charset=UTF-8';

function page(string $path): ?array
{
    return match ($path) {
        '/' => [TEXT, 'Hello World!'],
        '/json.php' => ['application/json', records()],
        '/blog.php' => [TEXT, drawn()],
        default => null,
    };
}
