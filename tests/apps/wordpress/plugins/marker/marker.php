<?php
/*
Plugin Name: Marker
Description: Shows its version in each page's footer, and answers in ways that no page of WordPress does.
Version: 1.0
*/
require_once __DIR__ . '/includes/class-marker.php';

register_activation_hook(__FILE__, function () {
    update_option('marker_ticks', 0);
    wp_schedule_event(time() - 60, 'hourly', 'marker_tick');
});
register_deactivation_hook(__FILE__, function () {
    wp_clear_scheduled_hook('marker_tick');
    delete_option('marker_ticks');
});
add_action('marker_tick', fn () => update_option('marker_ticks', get_option('marker_ticks') + 1));
add_action('wp_footer', fn () => print('<p>Marker ' . Marker::VERSION . '</p>'));
add_action('rest_api_init', fn () => register_rest_route('marker/v1', '/version', ['callback' => fn () => ['version' => Marker::VERSION], 'permission_callback' => '__return_true']));
add_action('init', function () {
    if (isset($_GET['marker'])) { Marker::answer($_GET['marker']); exit; }
});
