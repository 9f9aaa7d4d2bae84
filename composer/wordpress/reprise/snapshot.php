<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * The snapshot is taken when WordPress has loaded, before anything else that waits for that: what plugins do on wp_loaded
 * (forms, carts, WordPress' own cron) runs per request.
 */
final class Snapshot
{
    /** What is kept of a network's sites that makes one of them the one that a request is for, and how it is. */
    private const SITE = ['domain', 'path', 'public', 'archived', 'mature', 'spam', 'deleted', 'lang_id'];

    /** What the boot has loaded by these options cannot be exchanged: a page is made by all of them as the boot was, or by none. */
    private const HELD = ['active_plugins' => '', 'template' => '', 'stylesheet' => '', 'siteurl' => '', 'home' => '', 'permalink_structure' => '',
        'category_base' => '', 'tag_base' => '', 'rewrite_rules' => '', 'WPLANG' => ''];

    /** @param array<string, string> $held @param ?\Closure(): void $browser what WordPress does at its start to tell browsers apart */
    private function __construct(private readonly ?\Closure $browser, private readonly array $held, private readonly int $site, private readonly int $made)
    {
    }

    /** What the boot makes something of; the rest each request reads anew. */
    private const OPTIONS = '/^(active_plugins|active_sitewide_plugins|template|stylesheet|siteurl|home|permalink_structure|(category|tag)_base|rewrite_rules'
        . '|sidebars_widgets|widget_.*|WPLANG|timezone_string|gmt_offset|.*user_roles)$/';

    public static function register(): void
    {
        if (!function_exists('reprise_snapshot')) {
            return;
        }
        self::watch();
        // The admin's pages, wp-login.php and the like are scripts of their own, and run as ever.
        if (realpath($_SERVER['SCRIPT_FILENAME']) === realpath(ABSPATH . 'index.php')) {
            add_action('wp_loaded', [self::class, 'take'], PHP_INT_MIN);
        }
    }

    /** A change of code, or of what the boot has made of options, is seen by a new boot: opcache_reset() asks for one. */
    private static function watch(): void
    {
        foreach (['upgrader_process_complete', 'activated_plugin', 'deactivated_plugin', 'switch_theme', 'wp_insert_site', 'wp_delete_site'] as $change) {
            add_action($change, [self::class, 'renew']);
        }
        add_action('wp_update_site', static function ($site, $before): void {
            foreach (self::SITE as $column) {
                if ($site->$column !== $before->$column) {
                    self::renew();
                }
            }
        }, 10, 2);
        $options = ['updated_option', 'added_option', 'deleted_option', 'update_site_option', 'add_site_option', 'delete_site_option'];
        foreach ($options as $change) {
            add_action($change, static function ($option): void {
                if (self::isOfBoot((string) $option)) {
                    self::renew();
                }
            });
        }
    }

    public static function isOfBoot(string $option): bool
    {
        return preg_match(self::OPTIONS, $option) === 1;
    }

    /** At the end of the request, when all of the change is there. */
    public static function renew(): void
    {
        if (!has_action('shutdown', 'opcache_reset')) {
            add_action('shutdown', 'opcache_reset', PHP_INT_MAX, 0);
        }
    }

    /** For a change from elsewhere: one from here has asked for a boot. A young boot is left alone, because something may change with each request. */
    public static function renewIfOld(int $made): void
    {
        abs(time() - $made) >= 60 && self::renew();
    }

    public static function take(): void
    {
        // One snapshot for all requests if nothing says which hosts there are.
        $perHost = (reprise_info()['hosts'] ?? []) !== [];
        if (is_multisite() && !($perHost && self::isAloneAtItsHost())) {
            return;
        }
        if (!isset($_SERVER['REPRISE_BOOT'])) {
            // A request that runs without a snapshot: the call is how the server finds the script.
            reprise_snapshot($perHost);

            return;
        }
        if (!$perHost && ($names = Address::ofRequest()) !== []) {
            reprise_log("no snapshot is taken: the request's host is in " . implode(', ', $names) . ". A snapshot would have that of its boot, $_SERVER[HTTP_HOST], for all visitors. "
                . 'hint: name the hosts in the configuration of the server (hosts = ["blog.example.org"]), or set a fixed address', LOG_WARNING);

            return;
        }
        $snapshot = new self(self::browserDetection(), array_intersect_key(wp_load_alloptions(), self::HELD), get_current_blog_id(), time());
        $scripts = Scripts::ofBoot();
        $snapshot->before();
        reprise_snapshot($perHost);
        $snapshot->after();
        $scripts?->renew();
    }

    /**
     * A network's sites are told apart by the request, before WordPress has loaded. A snapshot is of one host: its requests have
     * to be for one site, whatever their path; and it must be WordPress that tells, not a sunrise.php.
     */
    private static function isAloneAtItsHost(): bool
    {
        $site = get_site();

        return $site->path === '/' && !defined('SUNRISE') && count(get_sites(['domain' => $site->domain, 'number' => 2])) === 1;
    }

    private function before(): void
    {
        global $wpdb;
        do_action('reprise_before_snapshot');
        // Options and posts are read anew by each request.
        if (function_exists('wp_cache_supports') && wp_cache_supports('flush_runtime')) {
            wp_cache_flush_runtime(); // what an object cache keeps for other requests stays
        } else {
            wp_cache_flush();
        }
        if (method_exists('WP_Theme_JSON_Resolver', 'clean_cached_data')) {
            \WP_Theme_JSON_Resolver::clean_cached_data();
        }
        $wpdb->close();
        function_exists('reprise_after_fork') && reprise_after_fork(static fn () => $wpdb->db_connect(false));
    }

    /** What wp-settings.php does with the request on its way to wp_loaded, in its order. */
    private function after(): void
    {
        global $wpdb, $current_user;
        wp_fix_server_vars();
        timer_start();
        $wpdb->ready || $wpdb->db_connect();
        // What changes options has to find them as they are; and what an object cache keeps is for other requests, too.
        if (in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true) && !wp_using_ext_object_cache()) {
            add_filter('pre_cache_alloptions', $this->asBooted(...), PHP_INT_MAX);
        }
        $this->browser && ($this->browser)();
        wp_magic_quotes();
        sanitize_comment_cookies();
        $current_user = null;
        wp_get_current_user();
        _show_post_preview();
        do_action('reprise_after_restore');
    }

    /** @param array<string, string> $options until a new boot serves, pages are those of before, and not the new theme's with the code of the old */
    private function asBooted(array $options): array
    {
        $now = array_intersect_key($options, self::HELD);
        if (get_current_blog_id() !== $this->site || $now == $this->held) {
            return $options;
        }
        self::renewIfOld($this->made);

        return array_replace($options, array_intersect_key(self::HELD, $now), $this->held);
    }

    /** wp-includes/vars.php but its functions, which cannot be declared twice. Compiled here, not by each request. */
    private static function browserDetection(): ?\Closure
    {
        $tokens = class_exists(\PhpToken::class) ? \PhpToken::tokenize((string) file_get_contents(ABSPATH . WPINC . '/vars.php')) : [];

        return $tokens === [] ? null : eval('return static function (): void { ' . self::withoutFunctions($tokens) . ' };');
    }

    /** @param list<\PhpToken> $tokens */
    private static function withoutFunctions(array $tokens): string
    {
        [$kept, $depth, $isFunction] = ['', 0, false];
        foreach ($tokens as $at => $token) {
            // A function with a name: those without are values.
            $isFunction = $isFunction || $depth === 0 && $token->is(T_FUNCTION) && ($tokens[$at + 2] ?? null)?->is(T_STRING);
            $kept .= $isFunction || $token->is([T_OPEN_TAG, T_CLOSE_TAG]) ? '' : $token->text;
            $depth += (int) $token->is(['{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES]) - (int) ($token->text === '}');
            $isFunction = $isFunction && !($depth === 0 && $token->text === '}');
        }

        return $kept;
    }
}
