<?php
// What the library says, and what opcache holds of it: one line per file, with its hits.
header('Content-Type: text/plain');
echo (new Library\Greeter)->greet('you'), "\n", new Library\Farewell, "\n";
$scripts = array_filter(opcache_get_status()['scripts'], fn (string $name): bool => str_contains($name, '.phar'), ARRAY_FILTER_USE_KEY);
ksort($scripts);
foreach ($scripts as $name => $script) { echo str_replace(dirname(__DIR__), '', $name), ' ', $script['hits'], "\n"; }
