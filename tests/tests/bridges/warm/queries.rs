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
    echo '<!-- SAID found ', $found->found_posts, ' on ', $found->max_num_pages, ' pages; written ', $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts WHERE ID = $once"),
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
            format!("found {} on 4 pages; written {written}", found - usize::from(request == 6)),
            "{request}"
        );
        assert_eq!(said[2].split(',').count(), found, "request {request}: {}", said[2]);
        if request < 6 {
            orders.insert(said[2].to_owned());
        }
    }
    assert!(orders.len() > 1, "always the same order: {orders:?}");
}
