<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** Posts that are a part of the design, in the database. */
final class DesignPosts
{
    private const TYPES = ['wp_template', 'wp_template_part', 'wp_global_styles', 'wp_navigation', 'wp_block', 'wp_font_family', 'wp_font_face'];

    /** What a row has that pages may show. */
    private const COLUMNS = ['ID', 'post_author', 'post_date', 'post_date_gmt', 'post_content', 'post_title', 'post_excerpt', 'post_status', 'comment_status', 'ping_status',
        'post_password', 'post_name', 'post_modified', 'post_modified_gmt', 'post_content_filtered', 'post_parent', 'guid', 'menu_order', 'post_type', 'post_mime_type'];

    /** In the place of a sum that the database did not tell. */
    public const NO_SUM = '';

    public static function has(mixed $post): bool
    {
        return in_array(get_post($post)->post_type ?? '', self::TYPES, true);
    }

    /** Whether a query finds such posts alone, and the same ones each time. */
    public static function areAsked(\WP_Query $query): bool
    {
        $types = (array) $query->get('post_type');
        // Whole rows ('all' since WordPress 7.0). The number of all that are found is not kept, and chance decides anew.
        $isSettled = in_array($query->get('fields'), ['', 'all'], true) && $query->get('no_found_rows') && stripos($query->request, 'RAND(') === false;

        return $types !== [] && array_diff($types, self::TYPES) === [] && $isSettled;
    }

    public static function sum(\wpdb $wpdb): string
    {
        $suppress = $wpdb->suppress_errors();
        $sum = $wpdb->get_var(self::sumQuery($wpdb));
        $wpdb->suppress_errors($suppress);

        return (string) ($sum ?? self::NO_SUM);
    }

    /** Of all that these posts say, and of the themes and areas that they are of. */
    public static function sumQuery(\wpdb $wpdb): string
    {
        $types = "'" . implode("', '", self::TYPES) . "'";
        $row = "CRC32(CONCAT_WS('|', " . implode(', ', self::COLUMNS) . ", term_taxonomy_id))";

        return "SELECT CONCAT_WS('-', COUNT(*), BIT_XOR($row), SUM($row)) FROM $wpdb->posts LEFT JOIN $wpdb->term_relationships ON object_id = ID WHERE post_type IN ($types)";
    }
}
