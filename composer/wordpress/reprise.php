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
require __DIR__ . '/reprise/address.php';
require __DIR__ . '/reprise/cache.php';

Cache::register();

// Parts of earlier versions, which have the same classes.
foreach (['reprise-warm.php', 'reprise-classes.php'] as $name) {
    if (is_file(__DIR__ . "/$name")) {
        function_exists('reprise_snapshot') && error_log('Reprise: no snapshot is taken, because ' . __DIR__ . "/$name is of an earlier version: delete it.");

        return;
    }
}

// Elsewhere these classes are not even declared: what another version of WordPress has changed in its own can be an error in a boot alone.
if (isset($_SERVER['REPRISE_BOOT']) && function_exists('reprise_replace_class')) {
    foreach (['posts', 'filters', 'page', 'kept', 'warm', 'texts', 'times'] as $name) {
        require __DIR__ . "/reprise/$name.php";
    }
    FeedTimes::register();
    foreach (['WP_Theme_JSON_Resolver' => 'design', 'WP_Scripts' => 'scripts', 'WP_Block_Parser' => 'parser'] as $class => $name) {
        class_exists($class, false) && require __DIR__ . "/reprise/$name.php";
    }
}

Snapshot::register();
