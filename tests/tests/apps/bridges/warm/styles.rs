//! Styles and templates of blocks that are others for some visitors, or for requests of another kind than pages (mu-plugins/reprise/kept.php):
//! what each gets is what he gets in classic mode.

use std::fs;

use tests::bridged::{self, HOST, configure_wordpress};
use tests::peer::php_version;

use super::{CHANGE, block_theme, choose_theme, page, start};

/// Says in each kind of answer what its visitor's styles are. Users come with a cookie.
const SAID: &str = r#"<?php
add_filter('determine_current_user', static fn ($user) => isset($_COOKIE['as']) ? (int) $_COOKIE['as'] : $user, 99);
add_filter('show_admin_bar', '__return_false');
// First of all: in WordPress 6.1 it is the parts themselves that others are merged into.
$said = static fn () => 'SAID ' . implode(' ', array_map(static fn ($said) => md5(serialize($said)), [
    WP_Theme_JSON_Resolver::get_merged_data('theme')->get_raw_data(), WP_Theme_JSON_Resolver::get_merged_data()->get_raw_data(), wp_get_global_stylesheet(['styles', 'presets']), wp_get_global_stylesheet(),
])) . ' colours ' . implode(',', array_filter(['#123456', '#aabbcc', '#ddeeff'], static fn ($color) => str_contains(wp_get_global_stylesheet(['styles']), $color))) . ' SAID';
// By what WordPress 6.1 has merged before a page's own styles are known; a page asks for those of all.
$ofPage = static fn () => 'SAID ' . md5(wp_get_global_stylesheet()) . ' ' . md5(serialize(WP_Theme_JSON_Resolver::get_merged_data()->get_raw_data())) . ' colours '
    . implode(',', array_filter(['#123456', '#aabbcc', '#ddeeff'], static fn ($color) => str_contains(wp_get_global_stylesheet(['styles']), $color))) . ' SAID';
add_action('wp_footer', static fn () => print('<!-- ' . $ofPage() . ' -->'));
add_action('rss2_head', static fn () => print('<!-- ' . $ofPage() . ' -->'));
add_action('rest_api_init', static fn () => register_rest_route('odd', '/styles', ['permission_callback' => '__return_true', 'callback' => $said]));
"#;

/// A theme without templates of blocks: its pages ask for the design when they ask for styles, and not before.
const THEME: [(&str, &str); 3] = [
    ("style.css", "/*\nTheme Name: Odd\n*/"),
    ("theme.json", r##"{"version": 2, "styles": {"color": {"text": "#ddeeff"}}}"##),
    ("index.php", "<!doctype html><html><head><?php wp_head(); ?></head><body><?php wp_footer(); ?></body></html>"),
];

/// A filter that comes when a theme of blocks has rendered them.
const LATE: &str = r#"add_action('wp_enqueue_scripts', static fn () => is_user_logged_in() && add_filter('wp_theme_json_data_user', static fn ($data) => new WP_Theme_JSON_Data(['version' => 2, 'styles' => ['color' => ['background' => '#aabbcc']]], 'custom')), 5);"#;

/// What a plugin does, with the path whose styles are others for users then; none: the same for all.
const PLUGINS: [(&str, &str, &str); 17] = [
    ("nothing", "", ""),
    ("hides what an editor has saved from its query", "/", "add_action('pre_get_posts', static fn ($query) => is_user_logged_in() && $query->get('post_type') === 'wp_global_styles' && $query->set('post_status', 'draft'));"),
    ("hides it from what was found", "/post-5/", "add_filter('the_posts', static fn ($posts, $query) => is_user_logged_in() && $query->get('post_type') === 'wp_global_styles' ? [] : $posts, 10, 2);"),
    ("another theme, whose functions are not loaded", "/", "add_action('wp_loaded', static function () { foreach (['stylesheet', 'template'] as $name) { is_user_logged_in() && add_filter($name, static fn () => 'odd'); } });"),
    ("another file of the theme", "/", "add_filter('theme_file_path', static fn ($path, $file) => $file === 'theme.json' && is_user_logged_in() ? __DIR__ . '/odd.json' : $path, 10, 2);"),
    ("late, in a page of a theme without blocks", "/", "LATE"),
    ("too late, in a page of blocks", "", "LATE"),
    ("late, in a request of the REST interface", "/wp-json/odd/styles", "add_filter('rest_request_before_callbacks', static function ($response) { is_user_logged_in() && add_filter('wp_theme_json_data_user', static fn ($data) => new WP_Theme_JSON_Data(['version' => 2, 'styles' => ['color' => ['background' => '#aabbcc']]], 'custom')); return $response; });"),
    ("by whom it takes the visitor for, late", "/wp-json/odd/styles", "add_filter('rest_pre_dispatch', static function ($result) { wp_set_current_user(is_user_logged_in() ? 0 : 1); return $result; });
        add_filter('the_posts', static fn ($posts, $query) => is_user_logged_in() && $query->get('post_type') === 'wp_global_styles' ? [] : $posts, 10, 2);"),
    ("answers the query of what an editor has saved", "/", "add_filter('posts_pre_query', static fn ($posts, $query) => is_user_logged_in() && $query->get('post_type') === 'wp_global_styles' ? [] : $posts, 10, 2);"),
    ("leaves out nodes of styles", "/", "add_filter('wp_theme_json_get_style_nodes', static fn ($nodes) => is_user_logged_in() ? array_slice($nodes, 0, 1) : $nodes);"),
    ("another theme, on one page", "", "add_action('wp', static function () { foreach (['stylesheet', 'template'] as $name) { is_single() && add_filter($name, static fn () => 'odd'); } });"),
    ("another user, for a while, on one page", "", "add_action('template_redirect', static function () { if (!is_single()) return; $before = get_current_user_id(); wp_set_current_user(1); foreach ([1, 2, 3] as $time) WP_Theme_JSON_Resolver::get_merged_data(); wp_set_current_user($before); });
        add_filter('the_posts', static fn ($posts, $query) => is_user_logged_in() && $query->get('post_type') === 'wp_global_styles' ? [] : $posts, 10, 2);"),
    ("a page of its own, where others redirect", "/post-5/", "add_action('wp', static fn () => is_user_logged_in() && add_filter('wp_theme_json_data_user', static fn ($data) => new WP_Theme_JSON_Data(['version' => 2, 'styles' => ['color' => ['background' => '#aabbcc']]], 'custom')));
        add_action('template_redirect', static function () { if (!is_single()) return; echo '<!doctype html><html><head>'; wp_head(); echo '</head><body>', do_blocks('<!-- wp:group --><div class=\"wp-block-group\">of its own</div><!-- /wp:group -->'); wp_footer(); exit; });"),
    ("a server of the REST interface in the boot", "", "add_action('init', 'rest_get_server', 99);"),
    ("a feature of the theme, on one page", "", "add_action('wp', static fn () => is_single() && add_theme_support('disable-layout-styles'));"),
    ("asks early for the stylesheet, on one page", "", "add_action('wp', static fn () => is_single() && wp_get_global_stylesheet());"),
];

fn said(text: &str) -> String {
    text.split("SAID").nth(1).unwrap_or_else(|| panic!("nothing is said: {text}")).to_owned()
}

#[test]
fn styles_are_those_of_the_visitor_and_of_the_kind_of_request() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let plugins = root.join("wp-content/mu-plugins");
    // Or else WordPress 6.1 shows the styles of whoever came first to all, for a minute: it keeps them in a transient.
    configure_wordpress(
        &application,
        "define('WP_DEBUG', false);",
        "define('WP_DEBUG', true); define('WP_DEBUG_DISPLAY', false);",
    );
    fs::write(root.join("change.php"), CHANGE).unwrap();
    fs::write(plugins.join("odd.json"), r##"{"version": 2, "styles": {"color": {"text": "#aabbcc"}}}"##).unwrap();
    choose_theme(block_theme(), &application);
    for (name, text) in THEME {
        let path = root.join("wp-content/themes/odd").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let classic = start(&root, "classic", "");
    assert!(page(&classic, "/change.php?do=styles").starts_with("200"));
    for (what, differs, plugin) in PLUGINS {
        fs::write(plugins.join("odd.php"), format!("{SAID}{plugin}").replace("LATE", LATE)).unwrap();
        choose_theme(if what.ends_with("without blocks") { "odd" } else { block_theme() }, &application);
        // Where one page is odd, the boot knows no other.
        let warmup = if what.ends_with("on one page") { "/post-5/" } else { "/ /post-5/ /feed/ /wp-json/odd/styles" };
        let [classic, snapshot] =
            ["classic", "snapshot"].map(|mode| start(&root, mode, &format!("env.REPRISE_WARMUP = \"{warmup}\"")));
        // WordPress 6.1 merges the one theme into the other, by how often it was asked before.
        let mixes = what == "another theme, on one page" && php_version() == "8.2";
        for path in
            ["/", "/post-5/", "/feed/", "/wp-json/odd/styles"].into_iter().filter(|path| !mixes || *path != "/post-5/")
        {
            let mut of = Vec::new();
            for cookie in ["", "as=1", ""] {
                let [expected, ours] = [&classic, &snapshot].map(|server| {
                    said(&server.client().request("GET", path, &[("Host", HOST), ("Cookie", cookie)], b"").text())
                });
                assert_eq!(ours, expected, "{what}: {path} of '{cookie}'");
                of.push(expected);
            }
            assert_eq!(of[0], of[2], "{what}: {path}");
            // WordPress 6.1 finds theme.json without that filter.
            let is_read = php_version() != "8.2" || what != "another file of the theme";
            assert!(
                path != differs || !is_read || of[0] != of[1],
                "{what}: {path} is the same for guests and users: {}",
                of[0]
            );
            assert!(what != "nothing" || of[0].contains("#123456"), "{path}: {}", of[0]);
        }
    }
}

/// A template that a plugin registers for users (WordPress 6.7 and later).
const REGISTERS: &str = r#"<?php
add_filter('determine_current_user', static fn ($user) => isset($_COOKIE['as']) ? (int) $_COOKIE['as'] : $user, 99);
add_filter('show_admin_bar', '__return_false');
add_action('init', static fn () => function_exists('register_block_template') && register_block_template('odd//page', ['content' => 'for all <!-- wp:post-content /-->']));
add_action('wp', static fn () => is_user_logged_in() && function_exists('register_block_template') && register_block_template('odd//single-post', ['content' => 'for users <!-- wp:post-content /-->']));
"#;

#[test]
fn templates_that_are_registered_for_some_are_not_for_others() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    choose_theme(block_theme(), &application);
    fs::write(root.join("wp-content/mu-plugins/odd.php"), REGISTERS).unwrap();
    let servers =
        ["classic", "snapshot"].map(|mode| start(&root, mode, "env.REPRISE_WARMUP = \"/ /post-5/ /page-1/\""));
    for (path, cookie) in [("/post-5/", ""), ("/post-5/", "as=1"), ("/post-5/", ""), ("/page-1/", "as=1")] {
        let [expected, ours] = [0, 1].map(|server| {
            let response = servers[server].client().request("GET", path, &[("Host", HOST), ("Cookie", cookie)], b"");
            ["for users", "for all", "<body"].map(|what| response.text().matches(what).count())
        });
        assert_eq!(ours, expected, "{path} of '{cookie}'");
        assert_eq!(expected[0] > 0, php_version() != "8.2" && cookie == "as=1" && path == "/post-5/");
        assert!(expected[2] == 1, "{path}");
    }
}
