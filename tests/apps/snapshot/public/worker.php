<?php
// hello, in a loop. Where there is none (PHP-FPM) it runs once.
$hello = function () {
    header('Content-Type: text/plain');
    echo 'Hello World!';
};
if (!function_exists('reprise_handle_request')) {
    $hello();
    return;
}
while (reprise_handle_request($hello)) {
}
