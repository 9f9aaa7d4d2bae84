<?php
/*
Plugin Name: Reprise: pages rendered before the snapshot
Description: Renders the pages of Reprise's option `warmup` before the snapshot, so that requests find what those pages have read of files and of the design. Needs reprise.php beside it, and does nothing without it.
License: MIT
*/

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * A page is rendered in a child process of the boot, as a request of a visitor who is nobody. The child runs on to the end of the
 * page and ends; what the page has left in variables, statics and hooks goes with it. What is listed here comes back as values, and
 * becomes a part of the snapshot:
 *
 * - what comes of the files of the theme, and of posts of the design: merged theme.json, styles made of it, headers of themes;
 * - posts of the design (templates, parts, global styles, menus of blocks), by the query that found them;
 * - the names of options that pages read one by one;
 * - what the texts of posts and templates were parsed to, which depends on the text alone.
 *
 * Each request asks once for all options, and for the sum of the design's posts: with another sum nothing that was kept of the
 * design is used, and a new boot is asked for.
 */
final class Warm
{
    /** Posts that are a part of the design. */
    private const DESIGN = ['wp_template', 'wp_template_part', 'wp_global_styles', 'wp_navigation', 'wp_block', 'wp_font_family', 'wp_font_face'];

    /** Groups of the object cache that are kept: none of them knows a visitor. */
    private const GROUPS = ['theme_json', 'themes'];

    /** Static properties that are kept; all of the class if none is named. */
    private const STATICS = [
        'WP_Theme_JSON_Resolver' => [],
        'WP_Theme_JSON' => ['blocks_metadata'],
        'WP_Duotone' => ['global_styles_block_names', 'global_styles_presets'],
    ];

    /** With these filters plugins change what styles are made of (the last: the post of the editor's), and may ask who the visitor is. */
    private const FILTERS = ['wp_theme_json_data_default', 'wp_theme_json_data_blocks', 'wp_theme_json_data_theme', 'wp_theme_json_data_user', 'posts_results'];

    /** Those groups and classes that hold what such filters have returned, or what was made of it. */
    private const STYLES = ['theme_json', 'WP_Theme_JSON_Resolver', 'WP_Duotone'];

    /** Hooks with their priorities, at which a request is asked whether it has added such a filter: before it uses styles. */
    private const FILTERED = ['template_redirect' => PHP_INT_MAX, 'wp_enqueue_scripts' => PHP_INT_MIN, 'rest_api_init' => PHP_INT_MAX, 'admin_init' => PHP_INT_MAX];

    /** So many options are read at once at most, and the time that a page has, in seconds. */
    private const MOST_OPTIONS = 300;
    private const SECONDS = 30;

    /** What a child gives when the sum cannot be asked for. */
    private const NO_SUM = '';

    /** The sum of the design's posts that the kept ones are of. */
    private string $sum = self::NO_SUM;

    /** @var array<string, list<object>> rows of posts by the query that found them */
    private array $posts = [];

    /** @var list<\WP_Block_Template> all templates of the theme, from its files; none if some are in the database */
    private array $templates = [];

    /** @var array<string, array<int|string, mixed>> by group */
    private array $cache = [];

    /** @var array<string, array<string, mixed>> by class */
    private array $statics = [];

    /** @var list<array<string, mixed>> styles of blocks in the theme's files: WordPress registers them when it reads the theme's part, which requests find */
    private array $variations = [];

    /** @var array<string, string> what texts were parsed to */
    private array $texts = [];

    /** @var array<string, array<string, mixed>> what the boot had there */
    private array $before = [];

    private int $status = 200;

    /** @var list<string> */
    private array $options = [];

    /** In a child, what its page has left; null in the boot. */
    private static ?self $recorded = null;

    /** When the boot has rendered, in seconds of Unix time. */
    private int $made;

    /** @param list<array{path: string, host: string}> $requests */
    private function __construct(private readonly array $requests = [])
    {
        $this->made = time();
    }

    /** While the boot still has its connection. */
    public static function prepare(): ?self
    {
        // An object cache that others share keeps the like, and forgets it when it changes.
        $requests = wp_using_ext_object_cache() ? [] : self::requests();
        if ($requests !== [] && !(function_exists('pcntl_fork') && function_exists('posix_kill'))) {
            reprise_log('no page is rendered before the snapshot: PHP has no pcntl, or no posix', LOG_NOTICE);
            $requests = [];
        }

        return $requests === [] ? null : new self($requests);
    }

    /**
     * Renders the pages, when what the boot holds of its own is forgotten. It returns false in the boot, and true in each child, where
     * the page is still to be rendered.
     *
     * @param callable(): void $begin what a request does first
     */
    public function render(callable $begin): bool
    {
        foreach ($this->requests as $request) {
            $said = self::inChild();
            if ($said === null) {
                self::beVisitor($request);
                $begin();
                self::record();

                return true;
            }
            $this->add($request['path'], $said);
        }
        $this->keep();

        return false;
    }

    /** @return list<array{path: string, host: string}> those of the warm-up requests, and of REPRISE_WARMUP, that a visitor who is nobody could have made of this host */
    private static function requests(): array
    {
        $perHost = (reprise_info()['hosts'] ?? []) !== [];
        $home = (array) parse_url(home_url());
        $own = $perHost ? (string) $_SERVER['HTTP_HOST'] : ($home['host'] ?? '') . (isset($home['port']) ? ":$home[port]" : '');
        $asked = reprise_warmup_requests();
        $paths = (string) ($_SERVER['REPRISE_WARMUP'] ?? (getenv('REPRISE_WARMUP') ?: ''));
        foreach (preg_split('/\s+/', $paths, -1, PREG_SPLIT_NO_EMPTY) ?: [] as $path) {
            $asked[] = ['method' => 'GET', 'path' => $path, 'headers' => []];
        }
        $requests = [];
        foreach ($asked as $request) {
            $headers = array_change_key_case($request['headers']);
            $host = $headers['host'] ?? $own;
            $isNobody = $request['method'] === 'GET' && !isset($headers['cookie']) && !isset($headers['authorization']) && !str_contains($request['path'], '?');
            if ($isNobody && ($host === $own || !$perHost)) {
                $requests["$host$request[path]"] = ['path' => $request['path'], 'host' => $host];
            }
        }

        return array_values($requests);
    }

    /** What a child says at its end; an empty text if it says nothing. In the child: null. */
    private static function inChild(): ?string
    {
        $ends = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $process = $ends === false ? -1 : pcntl_fork();
        if ($process === -1) {
            return '';
        }
        if ($process === 0) {
            fclose($ends[0]);
            register_shutdown_function(static function () use ($ends): void {
                try {
                    fwrite($ends[1], self::recorded());
                } finally {
                    // Nothing of the boot is ended here.
                    posix_kill(getmypid(), SIGKILL);
                }
            });

            return null;
        }
        fclose($ends[1]);
        $said = self::read($ends[0], hrtime(true) + self::seconds() * 1_000_000_000);
        fclose($ends[0]);
        posix_kill($process, SIGKILL);
        pcntl_waitpid($process, $status);

        return $said;
    }

    private static function seconds(): int
    {
        return max(1, (int) apply_filters('reprise_warm_seconds', self::SECONDS));
    }

    /** @param resource $end */
    private static function read($end, int $deadline): string
    {
        $said = '';
        stream_set_blocking($end, false);
        while (!feof($end) && ($left = $deadline - hrtime(true)) > 0) {
            [$readable, $none, $others] = [[$end], null, null];
            if (stream_select($readable, $none, $others, intdiv($left, 1_000_000_000), intdiv($left % 1_000_000_000, 1000)) > 0) {
                $said .= (string) fread($end, 1 << 16);
            }
        }

        return feof($end) ? $said : '';
    }

    /** @param array{path: string, host: string} $request */
    private static function beVisitor(array $request): void
    {
        $_SERVER['REQUEST_METHOD'] = 'GET';
        $_SERVER['HTTP_HOST'] = $request['host'];
        $_SERVER['REQUEST_URI'] = $request['path'];
        $_SERVER['QUERY_STRING'] = '';
        [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST] = [[], [], [], [], []];
        unset($_SERVER['PATH_INFO'], $_SERVER['REPRISE_BOOT']);
    }

    /** In the child, with its connection: nothing that the page writes to the database stays, no job is begun, no mail is sent. */
    private static function record(): void
    {
        global $wpdb;
        self::$recorded = new self();
        $wpdb->query('START TRANSACTION');
        self::$recorded->sum = self::design($wpdb);
        class_exists(Texts::class, false) && Texts::begin();
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
            if (isset($asked[$query]) && self::isOfDesign($query)) {
                self::$recorded->posts[$asked[$query]] = array_map(static fn ($post) => (object) get_object_vars($post), $posts);
            }

            return $posts;
        }, PHP_INT_MIN, 2);
    }

    private static function isOfDesign(\WP_Query $query): bool
    {
        $types = (array) $query->get('post_type');

        // The number of all that are found is not kept, and chance decides anew.
        $isSettled = $query->get('fields') === '' && $query->get('no_found_rows') && stripos($query->request, 'RAND(') === false;

        return $types !== [] && array_diff($types, self::DESIGN) === [] && $isSettled;
    }

    /** In the child, at the end of the page. */
    private static function recorded(): string
    {
        global $wp_object_cache, $wpdb;
        $failed = (error_get_last()['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
        if (self::$recorded === null || $failed) {
            return '';
        }
        $now = self::$recorded;
        // The one that records, or else it is taken for a plugin's.
        remove_all_filters('posts_results', PHP_INT_MIN);
        $now->status = (int) http_response_code();
        $now->texts = class_exists(Texts::class, false) ? Texts::learned() : [];
        if (function_exists('get_block_templates') && wp_is_block_theme() && !self::areFiltered()) {
            // Those that an editor has saved are found by a query, which plugins change for whom they want.
            $saved = $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts WHERE post_type = 'wp_template'");
            $now->templates = $saved === '0' ? get_block_templates() : [];
        }
        $groups = $wp_object_cache->cache ?? [];
        $options = $groups['options'] ?? [];
        $asked = array_keys(array_diff_key($options, ['alloptions' => 1, 'notoptions' => 1]) + (array) ($options['notoptions'] ?? []));
        // Others may be found by a name that looks alike to the database.
        $now->options = preg_grep('/^[\x21-\x7e]{1,191}$/', array_map('strval', $asked));
        $left = self::areStylesFiltered() ? array_flip(self::STYLES) : [];
        $now->cache = array_diff_key(array_intersect_key($groups, array_flip(self::GROUPS)), $left);
        foreach (array_diff_key(self::STATICS, $left) as $class => $names) {
            if (class_exists($class, false)) {
                $all = (new \ReflectionClass($class))->getStaticProperties();
                $now->statics[$class] = $names === [] ? $all : array_intersect_key($all, array_flip($names));
            }
        }
        if (isset($now->statics['WP_Theme_JSON_Resolver']['theme']) && function_exists('wp_register_block_style_variations_from_theme_json_partials')) {
            $now->variations = \WP_Theme_JSON_Resolver::get_style_variations('block');
        }
        // What the page has written to the design is rolled back: nothing that was read since may stay.
        if (self::design($wpdb) !== $now->sum) {
            [$now->posts, $now->templates, $now->cache, $now->statics, $now->variations] = [[], [], [], [], []];
        }

        return serialize($now);
    }

    private function add(string $path, string $said): void
    {
        $page = $said === '' ? false : unserialize($said);
        if (!$page instanceof self || $page->sum === self::NO_SUM) {
            $why = $page instanceof self ? 'the database has no sum of its design' : 'it has failed, or took longer than ' . self::seconds() . ' s';
            reprise_log("nothing is kept of the page $path, which was to be rendered before the snapshot: $why", LOG_WARNING);

            return;
        }
        if ($page->status !== 200) {
            reprise_log("the page $path, rendered before the snapshot, answers $page->status", LOG_NOTICE);
        }
        if ($this->sum !== $page->sum) {
            // Changed between two pages: the later one knows.
            [$this->posts, $this->cache, $this->statics] = [[], [], []];
        }
        $this->sum = $page->sum;
        $this->templates = $page->templates;
        class_exists(Texts::class, false) && Texts::know($page->texts);
        $this->posts = $page->posts + $this->posts;
        foreach ($page->cache as $group => $values) {
            $this->cache[$group] = $values + ($this->cache[$group] ?? []);
        }
        // Those of the page that has needed most: they belong together, as one says what blocks the others are made for.
        if (self::filled($page->statics) >= self::filled($this->statics)) {
            [$this->statics, $this->variations] = [$page->statics, $page->variations];
        }
        $this->options = array_slice(array_values(array_unique([...$this->options, ...$page->options])), 0, self::MOST_OPTIONS);
    }

    /** @param array<string, array<string, mixed>> $statics how many of them have a value; of an array, how many of its elements */
    private static function filled(array $statics): int
    {
        $count = static fn ($value) => $value === null ? 0 : 1 + (is_array($value) ? count(array_filter($value)) : 0);

        return array_sum(array_map(static fn (array $values) => array_sum(array_map($count, $values)), $statics));
    }

    private function keep(): void
    {
        foreach ($this->cache as $group => $values) {
            foreach ($values as $key => $value) {
                wp_cache_set($key, $value, $group);
            }
        }
        foreach ($this->statics as $class => $values) {
            foreach ($values as $name => $value) {
                $property = new \ReflectionProperty($class, $name);
                $this->before[$class][$name] = $property->getValue();
                $property->setValue(null, $value);
            }
        }
        $this->variations === [] || wp_register_block_style_variations_from_theme_json_partials($this->variations);
        class_exists(Design::class, false) && Design::link();
        add_filter('posts_pre_query', function ($posts, $query) {
            return $posts ?? $this->posts[$query->request] ?? null;
        }, PHP_INT_MAX, 2);
        $this->watch();
        add_filter('pre_get_block_templates', function ($templates, $query, $type) {
            return $templates ?? ($type === 'wp_template' ? $this->named($query) : null);
        }, PHP_INT_MAX, 3);
    }

    /** A request that changes the design itself asks the database for it from then on. */
    private function watch(): void
    {
        $isOfDesign = static fn ($post) => in_array(get_post($post)->post_type ?? '', self::DESIGN, true);
        add_action('clean_post_cache', function ($number, $post) use ($isOfDesign): void {
            $isOfDesign($post) && $this->forget();
        }, PHP_INT_MIN, 2);
        foreach (['added_term_relationship', 'deleted_term_relationships'] as $change) {
            add_action($change, function ($number) use ($isOfDesign): void {
                $isOfDesign($number) && $this->forget();
            }, PHP_INT_MIN);
        }
        foreach (['switch_theme', 'switch_blog'] as $change) {
            add_action($change, $this->forget(...), PHP_INT_MIN, 0);
        }
        if (array_intersect_key($this->cache + $this->statics, array_flip(self::STYLES)) !== []) {
            foreach (self::FILTERED as $hook => $priority) {
                add_action($hook, fn () => self::areStylesFiltered() && $this->forget(), $priority, 0);
            }
        }
    }

    /**
     * Templates of a theme by their names, as the page that is shown asks for them; null for other questions.
     *
     * @param array<string, mixed> $query
     * @return ?list<\WP_Block_Template>
     */
    private function named(array $query): ?array
    {
        $slugs = $query['slug__in'] ?? null;
        $theme = $query['theme'] ?? get_stylesheet();
        if ($this->templates === [] || !is_array($slugs) || array_diff_key($query, ['slug__in' => 1, 'theme' => 1]) !== [] || self::areFiltered() || $theme !== $this->templates[0]->theme) {
            return null;
        }
        $found = array_values(array_filter($this->templates, static fn ($template) => in_array($template->slug, $slugs, true)));

        return array_map(static fn ($template) => clone $template, $found);
    }

    /** Whether a plugin changes the templates that a page has asked for, or hooks blocks into them: by what is asked, or by who asks. */
    private static function areFiltered(): bool
    {
        $hooked = function_exists('get_hooked_blocks') ? array_map('array_values', array_values(get_hooked_blocks())) : [];
        $filters = ['get_block_templates', 'hooked_block_types', 'hooked_block', ...preg_filter('/^/', 'hooked_block_', array_merge([], ...array_merge([], ...$hooked)))];

        return array_filter($filters, 'has_filter') !== [];
    }

    private static function areStylesFiltered(): bool
    {
        return array_filter(self::FILTERS, 'has_filter') !== [];
    }

    /** In each request, with its connection. */
    public function begin(): void
    {
        global $wpdb;
        if ($this->sum === self::NO_SUM || $this->readOptions($wpdb) === $this->sum) {
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
            . ($this->options === [] ? '' : "SELECT option_name, option_value, 1 FROM $wpdb->options WHERE option_name IN ({$in($this->options)}) UNION ALL ")
            . "SELECT '', ({$this->sumOf($wpdb)}), 2";
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
            $missing = array_filter($this->options, static fn ($name) => !isset($found[strtolower($name)]));
            wp_cache_add('notoptions', array_fill_keys($missing, true), 'options');
        }

        return (string) ($sum[''] ?? self::NO_SUM);
    }

    private static function design(\wpdb $wpdb): string
    {
        $suppress = $wpdb->suppress_errors();
        $sum = $wpdb->get_var(self::sumOf($wpdb));
        $wpdb->suppress_errors($suppress);

        return (string) $sum;
    }

    /** Of all that the design's posts say, and of the themes and areas that they are of. */
    private static function sumOf(\wpdb $wpdb): string
    {
        $types = "'" . implode("', '", self::DESIGN) . "'";
        $row = "CRC32(CONCAT_WS('|', ID, post_type, post_status, post_name, post_parent, menu_order, post_date, post_modified_gmt, post_title, post_content, term_taxonomy_id))";

        return "SELECT CONCAT_WS('-', COUNT(*), BIT_XOR($row), SUM($row)) FROM $wpdb->posts LEFT JOIN $wpdb->term_relationships ON object_id = ID WHERE post_type IN ($types)";
    }

    private function forget(): void
    {
        [$this->posts, $this->templates] = [[], []];
        foreach ($this->cache as $group => $values) {
            foreach (array_keys($values) as $key) {
                wp_cache_delete($key, $group);
            }
        }
        foreach ($this->before as $class => $values) {
            foreach ($values as $name => $value) {
                (new \ReflectionProperty($class, $name))->setValue(null, $value);
            }
        }
        if (method_exists('WP_Theme_JSON_Resolver', 'clean_cached_data')) {
            \WP_Theme_JSON_Resolver::clean_cached_data();
        }
    }
}
