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

    /** Whether a query finds such posts alone, as whole rows ('all' since WordPress 7.0), and tells nobody how many there are. */
    public static function areAsked(\WP_Query $query): bool
    {
        $types = (array) $query->get('post_type');

        return $types !== [] && array_diff($types, self::TYPES) === [] && in_array($query->get('fields'), ['', 'all'], true) && $query->get('no_found_rows');
    }

    /** Whether the answer depends on nothing but what the sum is of: not on other tables, on the time, or on chance. */
    public static function areSettled(string $query): bool
    {
        global $wpdb;
        [$posts, $terms] = [preg_quote($wpdb->posts, '/'), preg_quote($wpdb->term_relationships, '/')];
        $isPlain = preg_match("/^\s*SELECT\s+(?:DISTINCT\s+)?$posts\.\*\s+FROM\s+$posts\s+(?:(?:LEFT|INNER)\s+JOIN\s+$terms\s+(?:AS\s+\w+\s+)?ON\s*\([^()]*\)\s*)*WHERE\b(.*)$/is", $query, $found) === 1;
        // FIELD() is the order of a list.
        $others = '/\bSELECT\b|\bUNION\b|\bcomment_count\b|\bCURRENT_|\bLOCALTIME|\bUTC_|@|\b(?!(?:IN|AND|OR|NOT|FIELD)\s*\()\w+\s*\(/i';

        return $isPlain && preg_match($others, $found[1]) === 0;
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
