<?php
// The same cases in a loop that serves many requests.
$handler = function () {
    require __DIR__ . '/cases.php';
};
if (!function_exists('frankenphp_handle_request')) {
    $handler();
    return;
}
while (frankenphp_handle_request($handler)) {
}
