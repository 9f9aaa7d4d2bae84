<?php
// Where the database is: WP_DB_* of the environment (a pool's env[...] lines, [application.env]), each falling back to
// wp-db.php, which setup.sh writes beside the document root; so no environment is needed. WP_DB_HOST may be host,
// host:port or localhost:/path/of/the/socket.
(static function (): void {
    $file = dirname(__DIR__) . '/wp-db.php';
    $written = is_file($file) ? require $file : [];
    foreach (['HOST', 'USER', 'PASSWORD', 'NAME'] as $key) {
        $value = getenv("WP_DB_$key");
        define("DB_$key", $value !== false ? $value : ($written[$key] ?? ''));
    }
})();
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
// Fixed, so that two servers of one installation know each other's cookies.
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $key) {
    define("{$key}_KEY", "test key $key");
    define("{$key}_SALT", "test salt $key");
}
define('WP_CONTENT_DIR', __DIR__ . '/wp-content');
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_AUTO_UPDATE_CORE', false);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('FS_METHOD', 'direct');
define('WP_DEBUG', false);
// The same installation answers on any host and port.
if (isset($_SERVER['HTTP_HOST'])) {
    define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST']);
    define('WP_SITEURL', 'http://' . $_SERVER['HTTP_HOST']);
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
