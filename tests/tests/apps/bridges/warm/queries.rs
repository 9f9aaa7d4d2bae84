//! Posts of the design that the boot's pages have found or written (mu-plugins/reprise/posts.php): requests find those that the database has, as many, and in
//! the order that they ask for.

use std::collections::HashSet;
use std::fs;

use tests::bridged::{self, php};

use super::{block_theme, choose_theme, page, start};

/// What a page finds of ten posts, and of one that the page of a post writes that does not find it.
const WRITES: &str = r#"<?php
add_action('wp_footer', static function () {
    global $wpdb;
    $found = new WP_Query(['post_type' => 'wp_block', 'posts_per_page' => 3]);
    $by = static fn (array $query) => array_column((new WP_Query($query + ['post_type' => 'wp_block', 'no_found_rows' => true, 'posts_per_page' => 50]))->posts, 'ID');
    if (is_single() && $by(['name' => 'once']) === []) {
        wp_insert_post(['post_type' => 'wp_block', 'post_name' => 'once', 'post_title' => 'once', 'post_status' => 'publish', 'post_content' => 'once']);
    }
    $once = $by(['name' => 'once'])[0] ?? 0;
    // Without a limit both have the same text.
    $all = static fn (bool $isPlain) => new WP_Query(['post_type' => 'wp_block', 'post_status' => 'publish', 'posts_per_page' => -1, 'no_found_rows' => $isPlain, 'cache_results' => false]);
    $all(true);
    echo '<!-- SAID all ', $all(false)->found_posts, ' found ', $found->found_posts, ' on ', $found->max_num_pages, ' pages; written ', $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts WHERE ID = $once"),
        ' SAID ', implode(',', $by(['orderby' => 'rand'])), ' SAID -->';
});
"#;

#[test]
fn posts_of_the_design_are_found_as_the_database_has_them() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    choose_theme(block_theme(), &application);
    let posts = "$_SERVER += ['HTTP_HOST' => 'a']; require 'htdocs/wp-load.php'; foreach (range(1, 10) as $number) { wp_insert_post(['post_type' => 'wp_block', 'post_title' => \"block $number\", 'post_status' => 'publish', 'post_content' => 'x']); }";
    php(posts, &application);
    fs::write(root.join("wp-content/mu-plugins/writes.php"), WRITES).unwrap();
    let snapshot = start(&root, "snapshot", "env.REPRISE_WARMUP = \"/ /post-5/\"");
    let mut orders = HashSet::new();
    for request in 0..12 {
        let text = page(&snapshot, if request == 6 { "/post-5/" } else { "/" });
        let said: Vec<&str> = text.split(" SAID ").collect();
        assert_eq!(said.len(), 4, "{text}");
        // The seventh is the first that writes: what the boot's page has written was rolled back.
        let (found, written) = if request < 6 { (10, 0) } else { (11, 1) };
        assert_eq!(
            said[1],
            format!("all {found} found {0} on 4 pages; written {written}", found - usize::from(request == 6)),
            "{request}"
        );
        assert_eq!(said[2].split(',').count(), found, "request {request}: {}", said[2]);
        if request < 6 {
            orders.insert(said[2].to_owned());
        }
    }
    assert!(orders.len() > 1, "always the same order: {orders:?}");
}

/// A plugin that hides posts by what it has in a table of its own.
const HIDES: &str = r#"<?php
add_filter('posts_where', static fn ($where, $query) => $query->get('post_type') === 'wp_block' ? "$where AND ID NOT IN (SELECT post_id FROM {$GLOBALS['wpdb']->postmeta} WHERE meta_key = 'hidden')" : $where, 10, 2);
add_filter('posts_orderby', static fn ($order, $query) => $query->get('post_type') === 'wp_block' ? 'IF(post_date > NOW(), 1, 0), comment_count DESC' : $order, 10, 2);
add_action('wp_footer', static fn () => print('<!-- SAID ' . implode(',', array_column((new WP_Query(['post_type' => 'wp_block', 'no_found_rows' => true, 'posts_per_page' => 50]))->posts, 'post_title')) . ' SAID -->'));
"#;

/// What the sum of the design's posts does not tell of, each request asks for.
#[test]
fn posts_that_depend_on_more_than_themselves_are_not_kept() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    choose_theme(block_theme(), &application);
    let load = "$_SERVER += ['HTTP_HOST' => 'a']; require 'htdocs/wp-load.php';";
    php(
        &format!(
            "{load} foreach (['one', 'two'] as $title) {{ wp_insert_post(['post_type' => 'wp_block', 'post_title' => $title, 'post_status' => 'publish', 'post_content' => 'x']); }}"
        ),
        &application,
    );
    fs::write(root.join("wp-content/mu-plugins/hides.php"), HIDES).unwrap();
    let snapshot = start(&root, "snapshot", "env.REPRISE_WARMUP = \"/\"");
    let said = || page(&snapshot, "/").split("SAID").nth(1).unwrap_or("").trim().to_owned();
    assert_eq!(said().split(',').count(), 2, "{}", said());
    php(
        &format!(
            "{load} $wpdb->query(\"UPDATE $wpdb->posts SET comment_count = 7 WHERE post_title = 'two' AND post_type = 'wp_block'\");"
        ),
        &application,
    );
    assert_eq!(said(), "two,one");
    php(
        &format!(
            "{load} $wpdb->query(\"INSERT INTO $wpdb->postmeta (post_id, meta_key) SELECT ID, 'hidden' FROM $wpdb->posts WHERE post_title = 'two'\");"
        ),
        &application,
    );
    assert_eq!(said(), "one");
}
