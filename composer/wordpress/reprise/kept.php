<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * What pages have left that were rendered before the snapshot, and what requests use of it:
 *
 * - what comes of the files of the theme, and of posts of the design: merged theme.json, styles made of it, headers of themes;
 * - posts of the design (templates, parts, global styles, menus of blocks), by the query that found them;
 * - the names of options that pages read one by one;
 * - what the texts of posts and templates were parsed to, which depends on the text alone.
 *
 * Each request asks once for all options, and for the sum of the design's posts: with another sum nothing that was kept of the
 * design is used, and a new boot is asked for.
 */
final class Kept
{
    /** So many options are read at once at most. */
    private const MOST_OPTIONS = 300;

    /** Hooks with their priorities, at which a request is asked what it has changed of that which styles and templates are made of: first before it uses them. */
    private const CHANGED = ['set_current_user' => PHP_INT_MAX, 'wp' => PHP_INT_MAX, 'template_redirect' => PHP_INT_MAX, 'wp_enqueue_scripts' => 9, 'rest_api_init' => PHP_INT_MAX, 'rest_request_before_callbacks' => PHP_INT_MAX, 'admin_init' => PHP_INT_MAX];

    private ?Page $page = null;

    /** @var array<string, array<string, mixed>> static properties as the boot had them */
    private array $before = [];

    /** @var array{string, string} names of the theme, and of the one whose child it is */
    private array $theme;

    /** @var list<mixed> who may change what queries find, and for whom, when that was last asked */
    private array $asked = [[], 0];

    /** @var list<mixed> what the boot has registered: features of the theme, types of blocks, styles of blocks */
    private array $registered = [];

    /** For functions of hooks that Filters knows by their names. */
    private static ?self $now = null;

    /** When the boot has rendered, in seconds of Unix time. */
    private int $made;

    public function __construct()
    {
        $this->made = time();
        $this->theme = [get_stylesheet(), get_template()];
    }

    public function add(Page $page): void
    {
        Texts::know($page->texts);
        if ($page->theme !== $this->theme) {
            $page->leaveDesign();
        }
        $now = $this->page;
        $this->page = $page;
        $page->options = array_slice(array_values(array_unique([...$now->options ?? [], ...$page->options])), 0, self::MOST_OPTIONS);
        if ($now?->sum !== $page->sum) {
            // Changed between two pages: the later one knows.
            return;
        }
        $page->posts += $now->posts;
        // Those of the page that has needed most: they belong together, as one says what blocks the others are made for.
        $isFuller = self::filled($page->statics) >= self::filled($now->statics);
        if ($page->saved === $now->saved) {
            $page->stylesheet ??= $now->stylesheet;
            foreach ($now->cache as $group => $values) {
                $page->cache[$group] = ($page->cache[$group] ?? []) + $values;
            }
        } elseif (!$isFuller) {
            [$page->cache, $page->stylesheet, $page->saved] = [$now->cache, $now->stylesheet, $now->saved];
        }
        if (!$isFuller) {
            [$page->statics, $page->variations] = [$now->statics, $now->variations];
        }
    }

    /** @param array<string, array<string, mixed>> $statics how many of them have a value; of an array, how many of its elements */
    private static function filled(array $statics): int
    {
        $count = static fn ($value) => $value === null ? 0 : 1 + (is_array($value) ? count(array_filter($value)) : 0);

        return array_sum(array_map(static fn (array $values) => array_sum(array_map($count, $values)), $statics));
    }

    /** In the boot, when all pages are rendered. */
    public function keep(): void
    {
        if ($this->page === null) {
            return;
        }
        foreach ($this->page->cache as $group => $values) {
            foreach ($values as $key => $value) {
                wp_cache_set($key, $value, $group);
            }
        }
        foreach ($this->page->statics as $class => $values) {
            foreach ($values as $name => $value) {
                $property = new \ReflectionProperty($class, $name);
                $this->before[$class][$name] = $property->getValue();
                $property->setValue(null, $value);
            }
        }
        $this->page->variations === [] || wp_register_block_style_variations_from_theme_json_partials($this->page->variations);
        class_exists(Design::class, false) && Design::link();
        self::$now = $this;
        $this->registered = $this->registered();
        add_filter('posts_pre_query', [self::class, 'answer'], PHP_INT_MAX, 2);
        add_filter('pre_get_block_templates', function ($templates, $query, $type) {
            return $templates ?? ($type === 'wp_template' ? $this->templates($query) : null);
        }, PHP_INT_MAX, 3);
        $this->watch();
    }

    /** A request that changes the design itself asks the database for it from then on. */
    private function watch(): void
    {
        foreach (['clean_post_cache', 'added_term_relationship', 'deleted_term_relationships'] as $change) {
            add_action($change, fn ($number, $post = null) => DesignPosts::has($post instanceof \WP_Post ? $post : $number) && $this->forget(), PHP_INT_MIN, 2);
        }
        foreach (['switch_theme', 'switch_blog'] as $change) {
            add_action($change, $this->forget(...), PHP_INT_MIN, 0);
        }
        foreach (self::CHANGED as $hook => $priority) {
            add_filter($hook, function ($value = null) {
                $isLate = doing_action('wp_enqueue_scripts') && self::isDesignSettled();
                $this->page !== null && !$isLate && $this->isChanged() && $this->forget();

                return $value;
            }, $priority);
        }
        // Not by `rest_api_init` alone: the boot may have made the server of this interface.
        add_action('rest_api_init', $this->beOfRest(...), PHP_INT_MAX, 0);
        add_action('parse_request', fn ($wp) => empty($wp->query_vars['rest_route']) || $this->beOfRest(), 9);
        add_action('wp_enqueue_scripts', fn () => isset($this->page->stylesheet) && wp_cache_add(Page::STYLESHEET, $this->page->stylesheet, 'theme_json'), 9, 0);
    }

    /** Posts of the design, if the query is one that was kept and asks for nothing else. */
    public static function answer($posts, $query)
    {
        return $posts ?? ($query->get('no_found_rows') ? self::$now->page?->posts[$query->request] ?? null : null);
    }

    /** @return list<mixed> with styles of blocks, where the theme's are registered: WordPress does that when it reads the theme's part */
    private function registered(): array
    {
        $isRead = isset($this->page->statics['WP_Theme_JSON_Resolver']['theme']) && class_exists('WP_Block_Styles_Registry', false);

        return [...Page::registered(), $isRead ? \WP_Block_Styles_Registry::get_instance()->get_all_registered() : []];
    }

    /** Whether for this request styles or templates are made of something else than for the page that was rendered. */
    private function isChanged(): bool
    {
        if ([get_stylesheet(), get_template()] !== $this->theme || $this->registered() !== $this->registered) {
            return true;
        }
        if (!$this->page->hasStyles() || Filters::changeStyles()) {
            return $this->page->hasStyles();
        }
        $asked = [Filters::ofQueries(), get_current_user_id()];
        $mayDiffer = $asked[0] !== [] && $asked !== $this->asked;
        $this->asked = $asked;

        return $mayDiffer && Page::savedStyles() !== $this->page->saved;
    }

    /** A theme of blocks has rendered them before it asks for scripts and styles, if it is the theme that makes the page. */
    private static function isDesignSettled(): bool
    {
        $isOfTheme = did_action('template_redirect') && !doing_action('template_redirect');

        return (wp_is_block_theme() && $isOfTheme) || (class_exists(Design::class, false) && Design::isSettled());
    }

    /** The parts into which WordPress merges have the editor's styles in them already, and a request of the REST interface may ask for the theme's alone. */
    private function beOfRest(): void
    {
        if (!(class_exists(Design::class, false) && Design::makesNew())) {
            $this->forget();
        }
    }

    /**
     * Templates of a theme by their names, as the page that is shown asks for them; null for other questions.
     *
     * @param array<string, mixed> $query
     * @return ?list<\WP_Block_Template>
     */
    private function templates(array $query): ?array
    {
        $all = $this->page->templates ?? [];
        $slugs = $query['slug__in'] ?? null;
        $theme = $query['theme'] ?? get_stylesheet();
        $isOrdinary = $all !== [] && is_array($slugs) && array_diff_key($query, ['slug__in' => 1, 'theme' => 1]) === [] && $theme === $all[0]->theme;
        if (!$isOrdinary || Filters::changeTemplates() || Page::templatesOfPlugins() != $this->page->ofPlugins) {
            return null;
        }
        $found = array_values(array_filter($all, static fn ($template) => in_array($template->slug, $slugs, true)));

        return array_map(static fn ($template) => clone $template, $found);
    }

    /** In each request, with its connection. */
    public function begin(): void
    {
        global $wpdb;
        if ($this->page === null || $this->readOptions($wpdb) === $this->page->sum) {
            return;
        }
        $this->forget();
        Snapshot::renewIfOld($this->made);
    }

    /** All options that pages ask for, and the sum of the design's posts, in one query. */
    private function readOptions(\wpdb $wpdb): string
    {
        $loaded = function_exists('wp_autoload_values_to_autoload') ? wp_autoload_values_to_autoload() : ['yes'];
        $in = static fn (array $texts) => "'" . implode("', '", array_map('esc_sql', $texts)) . "'";
        $select = "SELECT option_name, option_value, 0 AS kind FROM $wpdb->options WHERE autoload IN ({$in($loaded)}) UNION ALL "
            . ($this->page->options === [] ? '' : "SELECT option_name, option_value, 1 FROM $wpdb->options WHERE option_name IN ({$in($this->page->options)}) UNION ALL ")
            . 'SELECT \'\', (' . DesignPosts::sumQuery($wpdb) . '), 2';
        $suppress = $wpdb->suppress_errors();
        $rows = $wpdb->get_results($select) ?: [];
        $wpdb->suppress_errors($suppress);
        $kinds = [[], [], []];
        foreach ($rows as $row) {
            $kinds[$row->kind][$row->option_name] = $row->option_value;
        }
        [$all, $single, $sum] = $kinds;
        if ($all !== []) {
            wp_cache_add('alloptions', apply_filters('pre_cache_alloptions', $all), 'options');
            foreach (array_diff_key($single, $all) as $name => $value) {
                wp_cache_add($name, $value, 'options');
            }
            // The database takes upper and lower case for the same, the cache does not.
            $found = array_change_key_case($all + $single);
            $missing = array_filter($this->page->options, static fn ($name) => !isset($found[strtolower($name)]));
            wp_cache_add('notoptions', array_fill_keys($missing, true), 'options');
        }

        return (string) ($sum[''] ?? DesignPosts::NO_SUM);
    }

    private function forget(): void
    {
        if ($this->page === null) {
            return;
        }
        foreach ($this->page->cache as $group => $values) {
            foreach (array_keys($values) as $key) {
                wp_cache_delete($key, $group);
            }
        }
        $this->page = null;
        foreach ($this->before as $class => $values) {
            foreach ($values as $name => $value) {
                (new \ReflectionProperty($class, $name))->setValue(null, $value);
            }
        }
        // What the request has made itself stays.
        if ($this->before !== [] && method_exists('WP_Theme_JSON_Resolver', 'clean_cached_data')) {
            \WP_Theme_JSON_Resolver::clean_cached_data();
        }
    }
}
