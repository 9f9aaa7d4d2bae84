<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** What a page has left that was rendered before the snapshot: a value that the process which has rendered it gives to the boot. */
final class Page
{
    /** Groups of the object cache that are kept: none of them knows a visitor. */
    private const GROUPS = ['theme_json', 'themes'];

    /** Static properties that are kept; all of the class if none is named. */
    private const STATICS = [
        'WP_Theme_JSON_Resolver' => [],
        'WP_Theme_JSON' => ['blocks_metadata'],
        'WP_Duotone' => ['global_styles_block_names', 'global_styles_presets'],
    ];

    /** Those groups and classes that hold what filters of styles have returned, or what was made of it. */
    private const STYLES = ['theme_json', 'WP_Theme_JSON_Resolver', 'WP_Duotone'];

    /** The sum of the design's posts that the kept ones are of. */
    public string $sum;

    /** @var array<string, list<object>> rows of the design's posts by the query that found them */
    public array $posts = [];

    /** The styles that an editor has saved, as JSON; null: none. */
    public ?string $saved = null;

    /** @var list<\WP_Block_Template> all templates of the theme, from its files; none if some are in the database */
    public array $templates = [];

    /** @var array<string, \WP_Block_Template> those among them that plugins have registered, by name */
    public array $registered = [];

    /** @var array<string, array<int|string, mixed>> by group */
    public array $cache = [];

    /** @var array<string, array<string, mixed>> by class */
    public array $statics = [];

    /** @var list<array<string, mixed>> styles of blocks in the theme's files: WordPress registers them when it reads the theme's part, which requests find */
    public array $variations = [];

    /** @var array<string, string> what texts were parsed to */
    public array $texts = [];

    /** @var list<string> names of options that the page has read one by one */
    public array $options = [];

    public int $status;

    /** In the process that renders a page; null elsewhere. */
    private static ?self $now = null;

    /** With the connection of the page. Nothing that it writes to the database stays, no job is begun, no mail is sent. */
    public static function begin(): void
    {
        global $wpdb;
        self::$now = new self();
        $wpdb->query('START TRANSACTION');
        self::$now->sum = DesignPosts::sum($wpdb);
        Texts::begin();
        add_filter('pre_get_ready_cron_jobs', '__return_empty_array', PHP_INT_MAX);
        add_filter('pre_wp_mail', '__return_true', PHP_INT_MAX);
        $asked = new \WeakMap();
        // WordPress asks for their numbers first where it can, and then has another query here than there.
        add_filter('posts_pre_query', static function ($posts, $query) use ($asked) {
            $asked[$query] = $posts === null ? $query->request : null;

            return $posts;
        }, PHP_INT_MAX, 2);
        // As the database has them: what plugins make of them may be for one visitor.
        add_filter('posts_results', static function ($posts, $query) use ($asked) {
            if (isset($asked[$query]) && DesignPosts::areAsked($query)) {
                self::$now->posts[$asked[$query]] = array_map(static fn ($post) => (object) get_object_vars($post), $posts);
            }

            return $posts;
        }, PHP_INT_MIN, 2);
    }

    /** At the end of the page: an empty text if it has failed. */
    public static function end(): string
    {
        global $wpdb;
        $failed = (error_get_last()['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
        if (self::$now === null || $failed) {
            return '';
        }
        // The one that records, or else it is taken for a plugin's.
        remove_all_filters('posts_results', PHP_INT_MIN);
        self::$now->status = (int) http_response_code();
        self::$now->texts = Texts::learned();
        self::$now->noteTemplates($wpdb);
        self::$now->noteValues();
        // What the page has written to the design is rolled back: nothing that was read since may stay. Nor may what it has made for a user whom it took its visitor for.
        if (DesignPosts::sum($wpdb) !== self::$now->sum || get_current_user_id() !== 0) {
            [self::$now->posts, self::$now->templates, self::$now->cache, self::$now->statics, self::$now->variations] = [[], [], [], [], []];
        }

        return serialize(self::$now);
    }

    private function noteTemplates(\wpdb $wpdb): void
    {
        if (function_exists('get_block_templates') && wp_is_block_theme() && !Filters::changeTemplates()) {
            // Those that an editor has saved are found by a query, which plugins change for whom they want.
            $saved = $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts WHERE post_type = 'wp_template'");
            $this->templates = $saved === '0' ? get_block_templates() : [];
            $this->registered = self::registeredTemplates();
        }
    }

    /** @return array<string, \WP_Block_Template> */
    public static function registeredTemplates(): array
    {
        return class_exists('WP_Block_Templates_Registry', false) ? \WP_Block_Templates_Registry::get_instance()->get_all_registered() : [];
    }

    /** Those that an editor has saved, as this visitor has them; null: none. */
    public static function savedStyles(): ?string
    {
        $read = ['WP_Theme_JSON_Resolver', 'get_user_data_from_wp_global_styles'];

        return is_callable($read) ? $read(wp_get_theme())['post_content'] ?? null : null;
    }

    /** Whether anything is kept of what filters of styles may change. */
    public function hasStyles(): bool
    {
        return array_intersect_key($this->cache + $this->statics, array_flip(self::STYLES)) !== [];
    }

    private function noteValues(): void
    {
        global $wp_object_cache;
        $groups = $wp_object_cache->cache ?? [];
        $options = $groups['options'] ?? [];
        $asked = array_keys(array_diff_key($options, ['alloptions' => 1, 'notoptions' => 1]) + (array) ($options['notoptions'] ?? []));
        // Others may be found by a name that looks alike to the database.
        $this->options = preg_grep('/^[\x21-\x7e]{1,191}$/', array_map('strval', $asked));
        $this->saved = self::savedStyles();
        $left = Filters::changeStyles() ? array_flip(self::STYLES) : [];
        $this->cache = array_diff_key(array_intersect_key($groups, array_flip(self::GROUPS)), $left);
        // It is another in a feed and for the REST interface.
        $isOfPage = !is_feed() && !(defined('REST_REQUEST') && REST_REQUEST);
        if (isset($this->cache['theme_json']['wp_get_global_stylesheet']) && (!$isOfPage || self::hasAddresses())) {
            unset($this->cache['theme_json']['wp_get_global_stylesheet']);
        }
        foreach (array_diff_key(self::STATICS, $left) as $class => $names) {
            if (class_exists($class, false)) {
                $all = (new \ReflectionClass($class))->getStaticProperties();
                $this->statics[$class] = $names === [] ? $all : array_intersect_key($all, array_flip($names));
            }
        }
        if (isset($this->statics['WP_Theme_JSON_Resolver']['theme']) && function_exists('wp_register_block_style_variations_from_theme_json_partials')) {
            $this->variations = \WP_Theme_JSON_Resolver::get_style_variations('block');
        }
    }

    /** Whether the styles name files of the theme by addresses, which are others by https. */
    private static function hasAddresses(): bool
    {
        return method_exists('WP_Theme_JSON_Resolver', 'get_resolved_theme_uris')
            && \WP_Theme_JSON_Resolver::get_resolved_theme_uris(\WP_Theme_JSON_Resolver::get_merged_data()) !== [];
    }
}
