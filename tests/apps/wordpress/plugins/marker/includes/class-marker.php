<?php
final class Marker
{
    const VERSION = '1.0';

    static function answer(string $what): void
    {
        switch ($what) {
            case 'version': header('Content-Type: text/plain'); header('X-Process: ' . getmypid()); echo 'Marker ', self::VERSION; break;
            case 'ticks': header('Content-Type: text/plain'); echo get_option('marker_ticks'); break;
            case 'stream': header('Content-Type: text/plain'); for ($i = 0; $i < 20000; $i++) { echo "line $i\n"; if ($i % 1000 === 0) { while (ob_get_level()) ob_end_flush(); flush(); } } break;
            case 'redirect': wp_safe_redirect(home_url('/page-1/')); break;
            case 'elsewhere': wp_safe_redirect('https://other.example/'); break;
            case 'denied': wp_die('Not for you', 'Denied', ['response' => 403]);
            case 'json': wp_send_json_success(['a' => ['b', 1]], 201);
            case 'fatal': marker_has_no_such_function();
            case 'throw': throw new RuntimeException('boom');
        }
    }
}
