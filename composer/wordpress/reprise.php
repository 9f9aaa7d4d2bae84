<?php
/*
Plugin Name: Reprise
Description: Serves the site from a snapshot of the booted WordPress and marks pages for the cache of responses, where the server is Reprise. Does nothing elsewhere.
License: MIT

To be copied to wp-content/mu-plugins with the directory `reprise` that is beside it. It needs nothing else of the package.
*/

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

if (!is_file(__DIR__ . '/reprise/snapshot.php')) {
    function_exists('reprise_snapshot') && error_log('Reprise: no snapshot is taken, and no page is cached, because ' . __DIR__ . '/reprise is missing: copy that directory, too.');

    return;
}
require __DIR__ . '/reprise/snapshot.php';
require __DIR__ . '/reprise/scripts.php';
require __DIR__ . '/reprise/address.php';
require __DIR__ . '/reprise/cache.php';

Cache::register();
Snapshot::register();
