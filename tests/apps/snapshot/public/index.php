<?php
// hello, from a snapshot. Where there is none (PHP-FPM) the call does nothing.
if (!function_exists('reprise_snapshot')) {
    function reprise_snapshot(): void {}
}
reprise_snapshot();
header('Content-Type: text/plain');
echo 'Hello World!';
