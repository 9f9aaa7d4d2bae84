//! WordPress' pages that are rendered before the snapshot: requests find what they have read, no visitor finds what they have left,
//! and no change is missed.

mod design;
mod files;
mod queries;
mod scripts;
mod styles;
mod texts;
mod times;
mod visitors;

use std::fs;
use std::path::Path;
use std::time::Instant;

use tests::bridged::{self, HOST, php, served_in};
use tests::peer::php_version;
use tests::server::Server;
use tests::{Setup, wait_until};

/// How many queries a page has needed, and what another page could have left.
const COUNTED: &str = r#"<?php
// WordPress asks for them for each template that it makes of a file.
add_filter('default_template_types', function ($types) { $GLOBALS['templates_made'] = ($GLOBALS['templates_made'] ?? 0) + 1; return $types; });
add_action('wp_footer', function () {
    static $pages = 0;
    echo '<!-- ', ++$pages, ' pages, mode ', reprise_info()['mode'], ', queries ', $GLOBALS['wpdb']->num_queries, ' templates ', $GLOBALS['templates_made'], ' of ', $GLOBALS['wp_query']->query_vars_hash, ' -->';
}, PHP_INT_MAX);
// An editor saves a template by a request that runs from the snapshot, and is shown what he has saved.
add_action('template_redirect', function () {
    if (!isset($_GET['edit'])) return;
    $content = fn () => get_block_templates(['slug__in' => ['index']])[0]->content;
    $before = $content();
    $id = wp_insert_post(['post_type' => 'wp_template', 'post_name' => 'index', 'post_title' => 'index', 'post_status' => 'publish', 'post_content' => 'edited ' . $_GET['edit']]);
    wp_set_object_terms($id, get_stylesheet(), 'wp_theme');
    exit(reprise_info()['mode'] . ': ' . (str_contains($before, 'edited') ? 'there already' : 'not yet') . ', then ' . $content());
});
"#;

/// What somebody does to the site, by name.
const CHANGE: &str = r##"<?php
require 'wp-load.php';
$template = function (string $content, string $slug = 'index', string $type = 'wp_template'): void {
    $there = get_posts(['post_type' => $type, 'name' => $slug, 'post_status' => 'any']);
    $post = ['post_type' => $type, 'post_name' => $slug, 'post_title' => $slug, 'post_status' => 'publish', 'post_content' => $content];
    $id = $there ? wp_update_post(['ID' => $there[0]->ID] + $post) : wp_insert_post($post);
    wp_set_object_terms($id, get_stylesheet(), 'wp_theme');
};
$styles = function (string $color): void {
    $id = WP_Theme_JSON_Resolver::get_user_global_styles_post_id();
    // WordPress leaves out the theme where nobody is logged in.
    wp_set_object_terms($id, get_stylesheet(), 'wp_theme');
    wp_update_post(wp_slash(['ID' => $id, 'post_content' => '{"version":2,"isGlobalStylesUserThemeJSON":true,"styles":{"color":{"background":"' . $color . '"}}}']));
};
$text = static fn (string $text): string => "<!-- wp:paragraph --><p>$text</p><!-- /wp:paragraph -->";
match ($_GET['do']) {
    'template' => $template($text('one') . '<!-- wp:post-content /-->'),
    'template again' => $template($text('two') . '<!-- wp:post-content /-->'),
    'template of posts' => $template($text('single') . '<!-- wp:post-content /-->', 'single'),
    'template gone' => wp_delete_post(get_posts(['post_type' => 'wp_template', 'name' => 'index'])[0]->ID, true),
    'part' => $template($text('a part'), 'footer', 'wp_template_part'),
    'styles' => $styles('#123456'),
    'styles again' => $styles('#654321'),
    'menu' => wp_insert_post(['post_type' => 'wp_navigation', 'post_title' => 'Menu', 'post_status' => 'publish', 'post_content' => '<!-- wp:navigation-link {"label":"Linked","url":"/linked/"} /-->']),
    'name' => update_option('blogname', 'Another name'),
    'description' => update_option('blogdescription', 'Another description'),
    'posts per page' => update_option('posts_per_page', 3),
    'date format' => update_option('date_format', 'd/m/y'),
    'option that was not there' => update_option('site_logo', 7, false),
    'time zone' => update_option('timezone_string', 'Asia/Tokyo'),
    'post' => wp_insert_post(['post_title' => 'A new post', 'post_status' => 'publish', 'post_content' => 'New.']),
    'post changed' => wp_update_post(['ID' => 5, 'post_title' => 'Another title']),
    'term' => wp_update_term(get_terms(['taxonomy' => 'category', 'hide_empty' => true, 'fields' => 'ids'])[0], 'category', ['name' => 'Another category']),
    'author' => wp_update_user(['ID' => 1, 'display_name' => 'Another author']),
    'comment' => wp_insert_comment(['comment_post_ID' => 5, 'comment_author' => 'Somebody', 'comment_content' => 'Said.', 'comment_approved' => 1]),
    'permalinks' => [$GLOBALS['wp_rewrite']->set_permalink_structure('/p/%postname%/'), flush_rewrite_rules()],
};
"##;

/// Those that somebody does from outside, and all pages show at once.
const CHANGES: [&str; 19] = [
    "template",
    "template again",
    "template of posts",
    "part",
    "styles",
    "styles again",
    "template gone",
    "menu",
    "name",
    "description",
    "posts per page",
    "date format",
    "option that was not there",
    "time zone",
    "post",
    "post changed",
    "term",
    "author",
    "comment",
];

const PAGES: [&str; 4] = ["/", "/post-5/", "/feed/", "/page-1/"];

fn start(root: &Path, mode: &str, more: &str) -> Server {
    Setup::root(root).application(&format!("mode.\"index.php\" = \"{mode}\"\ncache_memory = 0\n{more}")).start()
}

/// A theme of blocks that this WordPress comes with.
fn block_theme() -> &'static str {
    if php_version() == "8.2" { "twentytwentythree" } else { "twentytwentyfive" }
}

fn choose_theme(name: &str, application: &Path) {
    php(&format!("$argv[1] = '{name}'; require 'theme.php';"), application);
}

fn page(server: &Server, path: &str) -> String {
    let response = server.client().request("GET", path, &[("Host", HOST)], b"");
    format!("{} {}", response.status, response.text())
}

/// A page but for how it came to be.
fn body(server: &Server, path: &str) -> String {
    let text = page(server, path);
    match (text.find("<!-- 1 pages, mode "), text.rfind(" of ")) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to..]),
        _ => text,
    }
}

/// The number that a page says behind a word.
fn number(text: &str, word: &str) -> usize {
    let said = text.split(word).nth(1).and_then(|rest| rest.split(' ').next());
    said.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number behind '{word}': {text}"))
}

/// Pages need fewer queries than without, are those of classic mode, and show each change from outside with the next request.
#[test]
fn pages_that_were_rendered_are_never_older_than_the_design() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/counted.php"), COUNTED).unwrap();
    fs::write(root.join("change.php"), CHANGE).unwrap();
    choose_theme(block_theme(), &application);
    let classic = start(&root, "classic", "");
    let cold = start(&root, "snapshot", "");
    let warm = start(&root, "snapshot", "env.REPRISE_WARMUP = \"/ /post-5/ /feed/\"");
    for path in ["/", "/post-5/"] {
        for (what, least) in [("queries ", 6), ("templates ", 2)] {
            let [with, without] = [&warm, &cold].map(|server| number(&page(server, path), what));
            println!("{path}: {what}{with}, {without} if no page was rendered before the snapshot");
            assert!(with + least <= without, "{path}: {what}{with} and {without}");
        }
    }
    for change in ["nothing"].iter().chain(&CHANGES) {
        if *change != "nothing" {
            let done = classic.client().request(
                "GET",
                &format!("/change.php?do={}", change.replace(' ', "+")),
                &[("Host", HOST)],
                b"",
            );
            assert_eq!(done.status, 200, "{change}: {}", done.text());
        }
        for path in PAGES {
            let [ours, theirs] = [&warm, &classic].map(|server| body(server, path));
            assert!(ours.contains(" of ") || path == "/feed/", "{ours}");
            assert_eq!(ours, theirs, "{path} after {change}");
            // WordPress 6.1 shows them when a transient ends, after a minute.
            for (of, color) in [("styles", "#123456"), ("styles again", "#654321")] {
                assert!(
                    *change != of || path == "/feed/" || php_version() == "8.2" || theirs.contains(color),
                    "{path} after {change}"
                );
            }
        }
    }
    assert_eq!(page(&warm, "/?edit=one"), "200 snapshot: not yet, then edited one");
    assert!(page(&warm, "/?edit=two").contains("there already"), "the next request sees it as well");
    served_in(&warm, "snapshot");
}

/// What pages show of users and roles, and a plugin that says that it is there.
const SHOWN: &str = r#"<?php
add_action('wp_footer', fn () => print('<p>roles: ' . implode(', ', wp_roles()->get_names()) . '; of 1: ' . implode(', ', get_userdata(1)->roles) . '</p>'));
"#;
const PLUGIN: &str = "<?php\n/* Plugin Name: Loud */\nadd_action('wp_footer', fn () => print('<p>loud</p>'));\n";

/// What somebody changes in the admin of this server, of which the boot has made something.
const OF_BOOT: [(&str, &str); 11] = [
    ("plugin", "activate_plugin('loud.php')"),
    ("language", "update_option('WPLANG', 'de_DE')"),
    ("new role", "wp_roles()->add_role('keeper', 'Keeper')"),
    ("role of a user", "(new WP_User(1))->set_role('keeper')"),
    ("theme", "switch_theme($_GET['theme'])"),
    ("title of the site", "update_option('blogname', 'Another name')"),
    (
        "widget",
        "[update_option('widget_block', [2 => ['content' => '<p>in a widget</p>'], '_multiwidget' => 1]), update_option('sidebars_widgets', ['sidebar-1' => ['block-2'], 'array_version' => 3])]",
    ),
    ("permalinks", "[$GLOBALS['wp_rewrite']->set_permalink_structure('/p/%postname%/'), flush_rewrite_rules()]"),
    ("time zone", "update_option('timezone_string', 'Asia/Tokyo')"),
    ("plugin off", "deactivate_plugins('loud.php')"),
    ("theme of before", "switch_theme($_GET['before'])"),
];

/// While a new boot is made pages are wholly those of before or wholly the new ones, and then the new ones.
#[test]
fn changes_of_what_the_boot_has_made_are_on_the_page_within_seconds() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/counted.php"), COUNTED).unwrap();
    fs::write(root.join("wp-content/mu-plugins/shown.php"), SHOWN).unwrap();
    fs::write(root.join("wp-content/plugins/loud.php"), PLUGIN).unwrap();
    // A language of one word, by which pages say what they are written in: header, tables of one original and one translation, texts.
    let numbers = [0x9504_12de_u32, 0, 1, 28, 36, 0, 44, 19, 44, 5, 64].map(u32::to_le_bytes).concat();
    fs::create_dir_all(root.join("wp-content/languages")).unwrap();
    fs::write(root.join("wp-content/languages/de_DE.mo"), [&numbers[..], b"html_lang_attribute\0de-DE\0"].concat())
        .unwrap();
    let arms: String = OF_BOOT.iter().map(|(name, code)| format!("'{name}' => {code},\n")).collect();
    let script = format!(
        "<?php require 'wp-load.php'; require_once ABSPATH . 'wp-admin/includes/plugin.php'; match ($_GET['do']) {{ {arms} }};"
    );
    fs::write(root.join("change.php"), script).unwrap();
    let (before, theme) = match php_version() {
        "8.2" => ("twentytwentythree", "twentytwentyone"),
        _ => ("twentytwentyfive", "twentytwentyfour"),
    };
    choose_theme(before, &application);
    let classic = start(&root, "classic", "");
    let warm = start(&root, "snapshot", "env.REPRISE_WARMUP = \"/ /page-1/\"");
    let pages = |server: &Server| ["/", "/page-1/"].map(|path| body(server, path));
    let mut old = pages(&classic);
    assert_eq!(pages(&warm), old);
    for (change, _) in OF_BOOT {
        let path = format!("/change.php?do={}&theme={theme}&before={before}", change.replace(' ', "+"));
        let done = warm.client().request("GET", &path, &[("Host", HOST)], b"");
        assert_eq!(done.status, 200, "{change}: {}", done.text());
        let since = Instant::now();
        let new = pages(&classic);
        assert!(new != old || change == "widget", "{change} is on no page");
        wait_until(&format!("the {change} is on the page"), 20, || {
            let seen = pages(&warm);
            for ((seen, old), new) in seen.iter().zip(&old).zip(&new) {
                assert!(seen == old || seen == new, "a mixture, after {change}: {seen}\nold: {old}\nnew: {new}");
            }
            seen == new
        });
        println!("{change}: on the page after {} ms", since.elapsed().as_millis());
        old = new;
    }
    served_in(&warm, "snapshot");
}

/// What a page does while it is rendered before the snapshot.
const BAD: &str = r#"<?php
add_action('template_redirect', function () {
    match ($_SERVER['REQUEST_URI']) {
        '/bad/exit/' => exit('ends'),
        '/bad/throw/' => throw new Exception('thrown'),
        '/bad/fatal/' => strlen(),
        '/bad/redirect/' => [wp_redirect('/'), exit],
        '/bad/last/' => add_action('shutdown', fn () => exit),
        '/bad/killed/' => posix_kill(getmypid(), SIGKILL),
        '/bad/slow/' => array_map(fn () => usleep(1000), range(1, 60000)),
        '/bad/cookie/' => [setcookie('left', 'behind'), add_option('left_' . uniqid(), 'behind'), wp_mail('a@b.test', 'left', 'behind'), $GLOBALS['left'] = 'behind', exit],
        default => null,
    };
});
add_action('phpmailer_init', function () { error_log('a mail is sent'); throw new Exception('and not sent'); });
add_action('template_redirect', fn () => remove_filter('pre_wp_mail', '__return_true'), 0);
add_filter('reprise_warm_seconds', fn () => 2);
add_action('wp_footer', function () { echo '<!-- left: ', json_encode([$GLOBALS['left'] ?? null, headers_list()]), ' -->'; });
"#;

/// A page that fails costs its own warmth, and nothing else: the boot goes on, and nothing of the page is seen.
#[test]
fn pages_that_fail_before_the_snapshot_harm_nobody() {
    let (database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/bad.php"), BAD).unwrap();
    let bad =
        ["exit", "throw", "fatal", "redirect", "killed", "slow", "last", "cookie"].map(|name| format!("/bad/{name}/"));
    let server = start(&root, "snapshot", &format!("env.REPRISE_WARMUP = \"{} /\"", bad.join(" ")));
    wait_until("a snapshot", 60, || server.log().contains("is booted, isolation"));
    let log = server.log();
    for (path, kept) in bad.iter().zip([true, false, false, true, false, false, false, true]) {
        assert_eq!(log.contains(&format!("nothing is kept of the page {path},")), !kept, "{path}: {log}");
    }
    assert!(log.contains("/bad/redirect/, rendered before the snapshot, answers 302"), "{log}");
    assert!(!log.contains("a mail is sent") && !log.contains("of the page /,"), "{log}");
    let text = page(&server, "/");
    assert!(text.starts_with("200 ") && text.contains("<!-- left: [null,") && !text.contains("behind"), "{text}");
    let left = "SELECT COUNT(*) FROM wordpress.wp_options WHERE option_name LIKE 'left\\_%'";
    assert_eq!(database.rows("wordpress", left).trim(), "0", "what a page has written stays");
    served_in(&server, "snapshot");
}

/// A plugin that changes the design by who asks: always, or by a filter that only some requests add.
const FILTER: &str = r##"<?php
$colour = static fn ($data) => isset($_COOKIE['colour']) ? $data->update_with(['version' => 2, 'styles' => ['color' => ['background' => "#$_COOKIE[colour]"]]]) : $data;
// WordPress 6.1 keeps the styles of one visitor for all by itself, for a minute.
add_filter('pre_transient_global_styles_' . get_stylesheet(), '__return_empty_string');
if (getenv('FILTER') === 'always') add_filter('wp_theme_json_data_user', $colour);
else add_action('wp', static fn () => isset($_COOKIE['colour']) && add_filter('wp_theme_json_data_user', $colour));
"##;

/// Each visitor has the colours that the plugin has for him, and not those of the boot or of the visitor before.
#[test]
fn styles_that_a_plugin_filters_are_the_visitor_s() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/filter.php"), FILTER).unwrap();
    choose_theme(block_theme(), &application);
    for filter in ["always", "late"] {
        let more = format!("env.FILTER = \"{filter}\"\nenv.REPRISE_WARMUP = \"/ /post-5/\"");
        let [classic, warm] = ["classic", "snapshot"].map(|mode| start(&root, mode, &more));
        let with = |server: &Server, colour: &str| {
            let cookie = format!("colour={colour}");
            let headers: &[(&str, &str)] = &[("Host", HOST), ("Cookie", cookie.as_str())];
            let response =
                server.client().request("GET", "/", if colour.is_empty() { &headers[..1] } else { headers }, b"");
            response.text()
        };
        for colour in ["010203", "", "0a0b0c", "010203", ""] {
            let [expected, said] = [&classic, &warm].map(|server| {
                let page = with(server, colour);
                ["010203", "0a0b0c"].map(|any| page.contains(any))
            });
            assert_eq!(said, expected, "{filter}: the visitor of '{colour}'");
            assert_eq!(said, ["010203", "0a0b0c"].map(|any| any == colour), "{filter}: the visitor of '{colour}'");
        }
    }
}

/// Says whether a request makes the design anew: each part of it is an object.
const DESIGN_OF: &str = r#"<?php
$design = static fn () => array_map('spl_object_id', array_filter((new ReflectionClass('WP_Theme_JSON_Resolver'))->getStaticProperties(), 'is_object'));
add_filter('do_parse_request', static function ($do) use ($design) {
    if ($_SERVER['REQUEST_URI'] === '/less/') {
        WP_Theme_JSON_Resolver::get_theme_data();
        exit('less');
    }
    $before = $design();
    WP_Theme_JSON_Resolver::get_merged_data();
    $said = array_diff_assoc($design(), $before) === [] ? 'kept' : 'made';
    add_action('shutdown', static fn () => print("<!-- design: $said -->"));

    return $do;
});
"#;

/// A page that needs a part of the design is rendered after one that needs all of it: requests find all of it.
#[test]
fn the_design_of_one_page_outlasts_the_next() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/design.php"), DESIGN_OF).unwrap();
    choose_theme(block_theme(), &application);
    for (mode, said) in [("classic", "made"), ("snapshot", "kept")] {
        let server = start(&root, mode, "env.REPRISE_WARMUP = \"/ /less/\"");
        let text = page(&server, "/");
        assert!(text.contains(&format!("<!-- design: {said} -->")), "{mode}: {text}");
        assert_eq!(server.log().contains("is booted, isolation"), mode == "snapshot", "{}", server.log());
    }
}
