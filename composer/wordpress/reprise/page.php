<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** What a page has left that was rendered before the snapshot: a value that the process which has rendered it gives to the boot. */
final class Page
{
    /** The key of the group theme_json whose value is for pages alone. */
    public const STYLESHEET = 'wp_get_global_stylesheet';

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
    public array $ofPlugins = [];

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

    /** Of a page's styles, as WordPress asks for it when it enqueues them; null: not known. */
    public ?string $stylesheet = null;

    /** @var array{string, string} names of the theme, and of the one whose child it is */
    public array $theme;

    public int $status;

    private bool $isOfNobody = true;

    private bool $hasStylesheet = false;

    /** In the process that renders a page; null elsewhere. */
    private static ?self $now = null;

    /** @var array{array<string, mixed>, list<string>} */
    private static array $registered;

    /** @var \WeakMap<\WP_Query, ?string> queries for posts that are kept */
    private static \WeakMap $asked;

    /** With the connection of the page. Nothing that it writes to the database stays, no job is begun, no mail is sent. */
    public static function begin(): void
    {
        global $wpdb;
        self::$now = new self();
        self::$asked = new \WeakMap();
        self::$registered = self::registered();
        $wpdb->query('START TRANSACTION');
        self::$now->sum = DesignPosts::sum($wpdb);
        Texts::begin();
        add_filter('pre_get_ready_cron_jobs', '__return_empty_array', PHP_INT_MAX);
        add_filter('pre_wp_mail', '__return_true', PHP_INT_MAX);
        add_filter('posts_pre_query', [self::class, 'noteQuery'], PHP_INT_MAX, 2);
        add_filter('posts_results', [self::class, 'notePosts'], PHP_INT_MIN, 2);
        add_action('set_current_user', static fn () => self::$now->isOfNobody = self::$now->isOfNobody && get_current_user_id() === 0);
        // What asks earlier has another one: WordPress leaves blocks out of it from then on.
        add_action('wp_enqueue_scripts', static fn () => self::$now->hasStylesheet = wp_cache_get(self::STYLESHEET, 'theme_json') === false, 9);
    }

    /** WordPress asks for the posts' numbers first where it can, and then has another query at the results than here. */
    public static function noteQuery($posts, $query)
    {
        self::$asked[$query] = $posts === null && DesignPosts::areAsked($query) && DesignPosts::areSettled($query->request) ? $query->request : null;

        return $posts;
    }

    /** As the database has them: what plugins have made of them may be for one visitor. */
    public static function notePosts($posts, $query)
    {
        global $wpdb;
        if (isset(self::$asked[$query])) {
            self::$now->posts[self::$asked[$query]] = array_map(static fn ($row) => sanitize_post($row, 'raw'), $wpdb->get_results(self::$asked[$query]) ?: []);
        }

        return $posts;
    }

    /** At the end of the page: an empty text if it has failed. */
    public static function end(): string
    {
        global $wpdb;
        $failed = (error_get_last()['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
        if (self::$now === null || $failed) {
            return '';
        }
        self::$now->status = (int) http_response_code();
        self::$now->theme = [get_stylesheet(), get_template()];
        self::$now->texts = Texts::learned();
        self::$now->noteTemplates($wpdb);
        self::$now->noteValues();
        // What the page has written to the design is rolled back. What it has made for a user, or with features and blocks of its own, is not for others.
        $isForAll = self::$now->isOfNobody && get_current_user_id() === 0 && self::registered() === self::$registered;
        if (!$isForAll || DesignPosts::sum($wpdb) !== self::$now->sum) {
            self::$now->leaveDesign();
        }

        return serialize(self::$now);
    }

    /** Keeps what does not depend on the design. */
    public function leaveDesign(): void
    {
        [$this->posts, $this->templates, $this->cache, $this->statics, $this->variations, $this->stylesheet] = [[], [], [], [], [], null];
    }

    /** @return array{array<string, mixed>, list<string>} features of the theme, and names of types of blocks */
    public static function registered(): array
    {
        return [$GLOBALS['_wp_theme_features'] ?? [], array_keys(\WP_Block_Type_Registry::get_instance()->get_all_registered())];
    }

    private function noteTemplates(\wpdb $wpdb): void
    {
        if (function_exists('get_block_templates') && wp_is_block_theme() && !Filters::changeTemplates() && !has_filter('pre_get_block_templates')) {
            // Those that an editor has saved are found by a query, which plugins change for whom they want.
            $saved = $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts WHERE post_type = 'wp_template'");
            $this->templates = $saved === '0' ? get_block_templates() : [];
            $this->ofPlugins = self::templatesOfPlugins();
        }
    }

    /** @return array<string, \WP_Block_Template> */
    public static function templatesOfPlugins(): array
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

    /** @param array<int|string, mixed> $values of a group of the object cache, which in a network has the number of the site before each key */
    private static function ofSite(array $values): array
    {
        if (!is_multisite()) {
            return $values;
        }
        $prefix = get_current_blog_id() . ':';
        $own = array_filter($values, static fn ($key) => str_starts_with((string) $key, $prefix), ARRAY_FILTER_USE_KEY);

        return array_combine(array_map(static fn ($key) => substr((string) $key, strlen($prefix)), array_keys($own)), $own);
    }

    private function noteValues(): void
    {
        global $wp_object_cache;
        $groups = $wp_object_cache->cache ?? [];
        $options = self::ofSite($groups['options'] ?? []);
        $asked = array_keys(array_diff_key($options, ['alloptions' => 1, 'notoptions' => 1]) + (array) ($options['notoptions'] ?? []));
        // Others may be found by a name that looks alike to the database.
        $this->options = preg_grep('/^[\x21-\x7e]{1,191}$/', array_map('strval', $asked));
        $this->saved = self::savedStyles();
        $left = Filters::changeStyles() ? array_flip(self::STYLES) : [];
        $this->cache = array_map(self::ofSite(...), array_diff_key(array_intersect_key($groups, array_flip(self::GROUPS)), $left));
        if ($this->hasStylesheet && isset($this->cache['theme_json'][self::STYLESHEET]) && !self::hasAddresses()) {
            $this->stylesheet = $this->cache['theme_json'][self::STYLESHEET];
        }
        unset($this->cache['theme_json'][self::STYLESHEET]);
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
