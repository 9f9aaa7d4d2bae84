<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * The cache of responses: pages that are the same for all visitors whom WordPress does not know say so, and changes purge what
 * shows them. Tags are `post-ID`, `term-ID`, `author-ID`, `home`, `feed`; `list-TYPE` of what lists posts of a type, `comments` of
 * what lists comments of all posts.
 */
final class Cache
{
    /** Visitors who have one of them neither get a page that was made for many nor make one. */
    private const COOKIES = ['wordpress_logged_in_*', 'wordpress_sec_*', 'wordpress_rec_*', 'wp-postpass_*', 'comment_author_*',
        'woocommerce_items_in_cart', 'woocommerce_cart_hash', 'wp_woocommerce_session_*'];

    /** What is asked for with one of these is somebody's own, or does something. */
    private const OWN = ['preview', 'customize_changeset_uuid', 'unapproved', 'moderation-hash', 'wc-ajax', 'add-to-cart', 'remove_item', 'undo_item'];

    /** Posts that are part of the design: a change may be seen on every page. */
    private const DESIGN = ['wp_template', 'wp_template_part', 'wp_global_styles', 'wp_navigation', 'wp_block', 'nav_menu_item', 'custom_css'];

    /** Options that may be seen on every page, beside those that make a new boot. */
    private const OPTIONS = '/^(blogname|blogdescription|show_on_front|page_on_front|page_for_posts|posts_per_page|sticky_posts|(date|time)_format'
        . '|default_comment_status|comment_.*|thread_comments.*|page_comments|comments_per_page|show_avatars|avatar_.*|theme_mods_.*|site_icon|blog_public)$/';

    /** Beyond so many tags everything is purged, and a page is not kept. */
    private const MOST_TAGS = 500;

    /** @var array<string, true> what the page that is made shows */
    private static array $shown = [];

    /** @var array<string, true> what is to be purged */
    private static array $purged = [];

    private static bool $purgesAll = false;

    /** The page looks at the visitor's browser. */
    private static bool $isOwn = false;

    private static bool $isCollected = false;

    public static function register(): void
    {
        // The package's stubs for other servers have the functions too.
        if (!function_exists('reprise_cache_purge') || !function_exists('reprise_info') || reprise_info()['mode'] === 'none') {
            return;
        }
        add_action('template_redirect', [self::class, 'begin'], PHP_INT_MAX);
        add_filter('wp_is_mobile', static function ($isMobile) {
            self::$isOwn = true;

            return $isMobile;
        });
        self::watchPosts();
        self::watchComments();
        self::watchAll();
        // Who is redirected sees what he has changed.
        add_filter('wp_redirect', static function ($location) {
            self::purge();

            return $location;
        }, PHP_INT_MAX);
        add_action('shutdown', [self::class, 'end'], PHP_INT_MIN);
        add_action('shutdown', [self::class, 'purge'], PHP_INT_MAX - 1);
    }

    /** Behind all that redirects. The page is collected, because what it is made of may still say that it is not for others. */
    public static function begin(): void
    {
        if (!self::mayBeShared()) {
            return;
        }
        self::noteQuery($GLOBALS['wp_query']);
        // Not all queries have filters, but all have this action.
        add_action('pre_get_posts', [self::class, 'noteTypes'], PHP_INT_MAX);
        add_filter('the_posts', [self::class, 'notePosts'], PHP_INT_MAX);
        add_filter('get_pages', static function ($pages) {
            self::$shown['list-page'] = true;

            return $pages;
        }, PHP_INT_MAX);
        add_filter('the_comments', static function ($comments, $query) {
            if (!$query->query_vars['post_id']) {
                self::$shown['comments'] = true;
            }

            return $comments;
        }, PHP_INT_MAX, 2);
        self::$isCollected = ob_start();
    }

    /** Before WordPress sends what was collected. */
    public static function end(): void
    {
        self::purge();
        if (self::$isCollected && !headers_sent() && self::isShared()) {
            self::mark();
        }
    }

    private static function mayBeShared(): bool
    {
        return $_SERVER['REQUEST_METHOD'] === 'GET'
            && !is_user_logged_in()
            && !isset($_SERVER['HTTP_AUTHORIZATION']) && !isset($_SERVER['PHP_AUTH_USER'])
            && !array_intersect_key($_GET, array_flip(self::OWN))
            && !is_search() && !is_404() && !is_preview() && !is_customize_preview() && !is_robots() && !is_favicon() && !is_trackback()
            && !(is_singular() && post_password_required())
            && !(function_exists('is_cart') && (is_cart() || is_checkout() || is_account_page()));
    }

    /** What could not be known before the page was made. */
    private static function isShared(): bool
    {
        $error = error_get_last()['type'] ?? 0;
        $isWhole = http_response_code() === 200 && !($error & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR));
        // A session's visitor is known by a cookie, which the response sets for new ones alone.
        $isAnonymous = !self::$isOwn && session_id() === '' && !is_user_logged_in();
        $isForbidden = (defined('DONOTCACHEPAGE') && DONOTCACHEPAGE)
            || preg_grep('/^(cache-control:.*\b(no-store|no-cache|private)|set-cookie:)/i', headers_list()) !== [];

        return (bool) apply_filters('reprise_cache_is_page_shared', $isWhole && $isAnonymous && !$isForbidden);
    }

    private static function mark(): void
    {
        // Nonces have to be valid for as long as a page is kept, and for a while beyond: 10 hours of 24.
        $most = intdiv((int) apply_filters('nonce_life', DAY_IN_SECONDS, -1) * 5, 12);
        $seconds = min($most, (int) apply_filters('reprise_cache_seconds', $most));
        $tags = array_unique((array) apply_filters('reprise_cache_tags', array_keys(self::$shown)));
        if ($seconds <= 0 || count($tags) > self::MOST_TAGS) {
            return;
        }
        // wp-config.php may give them names of its own.
        $renamed = preg_grep('/^wordpress_/', [LOGGED_IN_COOKIE, AUTH_COOKIE, SECURE_AUTH_COOKIE], PREG_GREP_INVERT);
        $cookies = (array) apply_filters('reprise_cache_cookies', [...self::COOKIES, ...$renamed]);
        header("Reprise-Cache-Control: max-age=$seconds, stale-while-revalidate=60");
        header('Reprise-Cache-Cookies: ' . implode(', ', $cookies));
        header('Reprise-Cache-Tag: ' . implode(', ', [...array_map([self::class, 'inSite'], $tags), self::inSite('site')]));
    }

    /** What the page is of, by its URL. */
    private static function noteQuery(\WP_Query $query): void
    {
        self::notePosts($query->posts ?? []);
        $object = $query->get_queried_object();
        foreach (['home' => is_home() || is_front_page(), 'feed' => is_feed(), 'comments' => is_comment_feed()] as $tag => $is) {
            if ($is) {
                self::$shown[$tag] = true;
            }
        }
        if ($object instanceof \WP_Term) {
            self::$shown["term-$object->term_id"] = true;
        } elseif ($object instanceof \WP_User) {
            self::$shown["author-$object->ID"] = true;
        } elseif (!is_singular() && !is_home()) {
            // By date, of a type, of several terms.
            self::noteTypes($query);
        }
    }

    public static function noteTypes(\WP_Query $query): void
    {
        foreach ((array) ($query->get('post_type') ?: 'post') as $type) {
            self::$shown["list-$type"] = true;
        }
    }

    /** @param mixed $posts as a query has them: posts, or their numbers; returned as they are */
    public static function notePosts($posts)
    {
        foreach (is_array($posts) ? $posts : [] as $post) {
            $number = (int) (is_object($post) ? ($post->ID ?? 0) : $post);
            self::$shown["post-$number"] = true;
        }

        return $posts;
    }

    /** Sites of a network have posts of the same numbers. */
    private static function inSite(string $tag): string
    {
        return is_multisite() ? 'site-' . get_current_blog_id() . "-$tag" : $tag;
    }

    private static function note(string ...$tags): void
    {
        foreach ($tags as $tag) {
            self::$purged[self::inSite($tag)] = true;
        }
    }

    public static function purge(): void
    {
        if (self::$purgesAll || count(self::$purged) > self::MOST_TAGS) {
            reprise_cache_purge(all: true);
        } elseif (self::$purged !== []) {
            reprise_cache_purge(tags: array_map('strval', array_keys(self::$purged)));
        }
        self::$purged = [];
        self::$purgesAll = false;
    }

    private static function watchPosts(): void
    {
        add_action('clean_post_cache', static function ($number, $post): void {
            if (in_array($post->post_type ?? '', self::DESIGN, true)) {
                self::note('site');
            } elseif (!in_array($post->post_type ?? '', ['revision', 'customize_changeset', 'oembed_cache'], true)) {
                self::note("post-$number");
            }
        }, 10, 2);
        add_action('transition_post_status', static function ($new, $old, $post): void {
            if ($new === 'publish' || $old === 'publish') {
                self::notePlaces($post);
            }
        }, 10, 3);
        add_action('before_delete_post', static function ($number, $post = null): void {
            if (($post->post_status ?? '') === 'publish') {
                self::notePlaces($post);
            }
        }, 10, 2);
        add_action('post_updated', static function ($number, $after, $before): void {
            self::note("author-$before->post_author");
        }, 10, 3);
        add_action('set_object_terms', static function ($number, $terms, $now, $taxonomy, $append, $before): void {
            if (get_post_status($number) !== 'publish') {
                return;
            }
            foreach (array_diff([...$before, ...$now], array_intersect($before, $now)) as $changed) {
                $term = get_term_by('term_taxonomy_id', (int) $changed);
                self::note("post-$number", ...($term ? ["term-$term->term_id"] : []));
            }
        }, 10, 6);
    }

    /** Where a published post is listed. */
    private static function notePlaces(\WP_Post $post): void
    {
        global $wpdb;
        if (!is_post_type_viewable($post->post_type)) {
            return;
        }
        self::note("post-$post->ID", 'home', 'feed', "author-$post->post_author", "list-$post->post_type", 'list-any');
        // The posts before and behind it link to it.
        foreach (['< %s ORDER BY post_date DESC', '> %s ORDER BY post_date'] as $beside) {
            $sql = "SELECT ID FROM $wpdb->posts WHERE post_type = %s AND post_status = 'publish' AND post_date $beside LIMIT 1";
            self::note('post-' . (int) $wpdb->get_var($wpdb->prepare($sql, $post->post_type, $post->post_date)));
        }
        foreach (get_object_taxonomies($post->post_type) as $taxonomy) {
            foreach ((array) wp_get_object_terms($post->ID, $taxonomy, ['fields' => 'ids']) as $term) {
                if (is_numeric($term)) {
                    self::note("term-$term", ...array_map(static fn ($above) => "term-$above", get_ancestors((int) $term, $taxonomy, 'taxonomy')));
                }
            }
        }
    }

    private static function watchComments(): void
    {
        add_action('comment_post', static function ($number, $approved): void {
            self::noteComment(get_comment($number), $approved === 1);
        }, 10, 2);
        add_action('edit_comment', static function ($number): void {
            self::noteComment(get_comment($number), true);
        });
        add_action('transition_comment_status', static function ($new, $old, $comment): void {
            self::noteComment($comment, $new === 'approved' || $old === 'approved');
        }, 10, 3);
    }

    private static function noteComment(?\WP_Comment $comment, bool $isSeen): void
    {
        if ($comment !== null && $isSeen) {
            self::note("post-$comment->comment_post_ID", 'feed', 'comments');
        }
    }

    /** What may be seen on every page: names of terms and authors, menus, widgets, design, settings, code. */
    private static function watchAll(): void
    {
        $ofSite = ['edited_term', 'delete_term', 'wp_update_nav_menu', 'customize_save_after', 'update_option_sidebars_widgets'];
        foreach ($ofSite as $change) {
            add_action($change, static fn () => self::note('site'), 10, 0);
        }
        foreach (['switch_theme', 'upgrader_process_complete', 'activated_plugin', 'deactivated_plugin'] as $change) {
            add_action($change, static function (): void {
                self::$purgesAll = true;
            }, 10, 0);
        }
        foreach (['updated_option', 'added_option', 'deleted_option'] as $change) {
            add_action($change, static function ($option): void {
                if (preg_match(self::OPTIONS, (string) $option) || Snapshot::isOfBoot((string) $option)) {
                    self::note('site');
                }
            });
        }
        add_action('profile_update', static function ($number, $before): void {
            if (get_userdata($number)->display_name !== $before->display_name && count_user_posts($number) > 0) {
                self::note('site');
            }
        }, 10, 2);
    }
}
