<?php
// php install.php   (database must exist and be empty)
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '127.0.0.1'; $_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1'; $_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = '/wp-admin/install.php'; $_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/wp-admin/install.php';
require __DIR__ . '/htdocs/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . WPINC . '/class-wpdb.php';
function wp_new_blog_notification($a, $b, $c, $d) {}
$r = wp_install('Test Blog', 'admin', 'admin@example.org', true, '', 'admin-test-pw', 'en_US');
echo "wp_install: user {$r['user_id']}\n";
