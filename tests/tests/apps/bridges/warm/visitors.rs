//! Templates and posts of the design that a plugin changes for some visitors (mu-plugins/reprise/filters.php): each sees those that are for him.

use std::fs;

use tests::bridged::{self, HOST};
use tests::peer::php_version;

use super::{CHANGE, block_theme, choose_theme, page, start};

/// Users, who come with a cookie, see a block (WordPress 6.4 and later) and a part of the template that guests do not.
const FOR_USERS: &str = r#"<?php
add_filter('determine_current_user', static fn ($user) => isset($_COOKIE['as']) ? (int) $_COOKIE['as'] : $user, 99);
add_filter('show_admin_bar', '__return_false');
// What comes before WordPress' own, where nobody has answered before.
add_filter('pre_get_block_templates', static function ($templates) { isset($_GET['none']) && $GLOBALS['asked'][] = gettype($templates); return $templates; });
add_filter('posts_pre_query', static function ($posts) { isset($_GET['none']) && $GLOBALS['asked'][] = gettype($posts); return $posts; });
add_action('shutdown', static fn () => isset($_GET['none']) && print('<!-- asked ' . implode(' ', array_unique($GLOBALS['asked'])) . ' -->'), 0);
$block = static fn ($types, $position, $anchor) => $position === 'after' && $anchor === 'core/template-part' && is_user_logged_in() ? [...$types, 'core/loginout'] : $types;
FILTER
add_filter('posts_results', static fn ($posts) => is_user_logged_in() ? $posts : array_values(array_filter($posts, static fn ($post) => !in_array($post->post_type, ['wp_template', 'wp_template_part', 'wp_global_styles'], true))));
"#;

/// By the filter of all blocks, and by that of one block, which is hooked for everybody.
const FILTERS: [&str; 2] = [
    "add_filter('hooked_block_types', $block, 10, 3);",
    "add_action('init', static fn () => function_exists('get_hooked_blocks') && register_block_type('odd/hooked', ['block_hooks' => ['core/template-part' => 'after'], 'render_callback' => static fn ($attributes) => $attributes['text'] ?? '', 'attributes' => ['text' => ['type' => 'string']]]));
     add_filter('hooked_block_odd/hooked', static fn ($block) => is_user_logged_in() ? ['attrs' => ['text' => '<p class=\"wp-block-loginout\">hooked</p>']] + $block : $block);",
];

#[test]
fn what_is_of_the_design_for_some_is_not_for_others() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let plugin = root.join("wp-content/mu-plugins/for-users.php");
    fs::write(root.join("change.php"), CHANGE).unwrap();
    choose_theme(block_theme(), &application);
    let classic = start(&root, "classic", "");
    assert!(page(&classic, "/change.php?do=part").starts_with("200"));
    assert!(page(&classic, "/change.php?do=styles").starts_with("200"));
    // WordPress 6.1 itself shows the styles of whoever came first to all, for a minute: it keeps them in a transient.
    let has_styles = php_version() != "8.2";
    let color = if has_styles { "#123456" } else { "not compared" };
    for filter in FILTERS {
        // Then a template, too, is one that users see and guests do not.
        if filter == FILTERS[1] {
            assert!(page(&classic, "/change.php?do=template+of+posts").starts_with("200"));
        }
        fs::write(&plugin, FOR_USERS.replace("FILTER", filter)).unwrap();
        let servers = ["classic", "snapshot"].map(|mode| start(&root, mode, "env.REPRISE_WARMUP = \"/ /post-5/\""));
        for server in &servers {
            let text = page(server, "/?none");
            assert!(text.contains("<!-- asked NULL -->"), "{filter}: {text}");
        }
        for round in 0..3 {
            for (path, cookie) in [("/", ""), ("/", "as=1"), ("/post-5/", "as=1"), ("/post-5/", "")] {
                let [expected, said] = [0, 1].map(|server| {
                    let text = servers[server]
                        .client()
                        .request("GET", path, &[("Host", HOST), ("Cookie", cookie)], b"")
                        .text();
                    ["wp-block-loginout", "a part", ">single</p>", color].map(|what| text.matches(what).count())
                });
                assert_eq!(said, expected, "{path} of '{cookie}', round {round}, {filter}");
                let has_hooks = php_version() != "8.2" && !cookie.is_empty();
                let is_own = filter == FILTERS[1] && path == "/post-5/" && !cookie.is_empty();
                assert_eq!(expected[3] > 0, has_styles && !cookie.is_empty(), "{path} of '{cookie}'");
                assert_eq!(expected[2] > 0, is_own, "{path} of '{cookie}'");
                if !is_own {
                    let has_part = !cookie.is_empty();
                    assert_eq!([expected[0] > 0, expected[1] > 0], [has_hooks, has_part], "{path} of '{cookie}'");
                }
            }
        }
    }
}
