<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** What plugins and themes change of the design by filters, and may change for some visitors alone: that is not kept for all. */
final class Filters
{
    /** With these they change what styles are made of, or which are made. */
    private const STYLES = ['wp_theme_json_data_default', 'wp_theme_json_data_blocks', 'wp_theme_json_data_theme', 'wp_theme_json_data_user', 'wp_theme_json_get_style_nodes',
        'theme_file_path', 'posts_results'];

    /** With these they change what a query finds. */
    private const QUERIES = ['posts_pre_query', 'parse_query', 'pre_get_posts', 'parse_tax_query', 'posts_search', 'posts_search_orderby', 'posts_where', 'posts_join',
        'posts_where_paged', 'posts_groupby', 'posts_join_paged', 'posts_orderby', 'posts_distinct', 'post_limits', 'posts_fields', 'posts_clauses', 'posts_where_request', 'posts_groupby_request', 'posts_join_request', 'posts_orderby_request',
        'posts_distinct_request', 'posts_fields_request', 'post_limits_request', 'posts_clauses_request', 'posts_request', 'posts_request_ids', 'split_the_query', 'posts_selection',
        'the_posts'];

    /** What WordPress and Reprise have there themselves. */
    private const OWN = ['_close_comments_for_old_posts', 'wp_filter_out_block_nodes', Cache::class . '::noteTypes', Cache::class . '::notePosts',
        Page::class . '::noteQuery', Page::class . '::notePosts', Kept::class . '::answer'];

    /** With these they change templates; `hooked_block_` goes on with the name of a block. */
    private const TEMPLATES = ['get_block_templates', 'hooked_block_types', 'hooked_block'];

    /** Whether templates are changed that a page has asked for, or blocks hooked into them: by what is asked, or by who asks. */
    public static function changeTemplates(): bool
    {
        $hooked = function_exists('get_hooked_blocks') ? array_map('array_values', array_values(get_hooked_blocks())) : [];

        return array_filter([...self::TEMPLATES, ...preg_filter('/^/', 'hooked_block_', array_merge([], ...array_merge([], ...$hooked)))], 'has_filter') !== [];
    }

    public static function changeStyles(): bool
    {
        return self::of(self::STYLES) !== [];
    }

    /** @return list<string> functions that may have a query find something else for another visitor */
    public static function ofQueries(): array
    {
        return self::of(self::QUERIES);
    }

    /** @param list<string> $hooks @return list<string> functions there that are not WordPress' or Reprise's own */
    private static function of(array $hooks): array
    {
        global $wp_filter;
        $names = [];
        foreach ($hooks as $hook) {
            isset($wp_filter[$hook]) && array_push($names, ...array_map('array_keys', array_values($wp_filter[$hook]->callbacks)));
        }

        return array_values(array_diff(array_merge([], ...$names), self::OWN));
    }
}
