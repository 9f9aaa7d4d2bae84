<?php
// What wordpress.org would say: there is a newer Marker. Its archive is a local file.
add_filter('site_transient_update_plugins', function ($found) {
    $archive = dirname(ABSPATH) . '/marker-1.2.zip';
    if (is_file($archive)) {
        $found = is_object($found) ? $found : new stdClass();
        $found->response['marker/marker.php'] = (object) ['slug' => 'marker', 'plugin' => 'marker/marker.php', 'new_version' => '1.2', 'package' => $archive];
    }
    return $found;
});
