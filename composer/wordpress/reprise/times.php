<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** When a post was last changed and when one was last published: a feed asks for both, and one query answers both. */
final class FeedTimes
{
    public static function register(): void
    {
        add_filter('pre_get_lastpostmodified', [self::class, 'read'], PHP_INT_MAX, 3);
    }

    public static function read(mixed $answer, mixed $timezone, mixed $type): mixed
    {
        global $wpdb;
        if ([$answer, $timezone, $type] === [false, 'GMT', 'any'] && wp_cache_get('lastpostmodified:gmt', 'timeinfo') === false) {
            $types = implode("', '", array_map('esc_sql', get_post_types(['public' => true])));
            $times = $wpdb->get_row("SELECT MAX(post_modified_gmt) AS modified, MAX(post_date_gmt) AS date FROM $wpdb->posts WHERE post_status = 'publish' AND post_type IN ('$types')", ARRAY_A);
            foreach (array_filter($times ?? []) as $field => $time) {
                wp_cache_add("lastpost$field:gmt", $time, 'timeinfo');
            }
        }

        return $answer;
    }
}
