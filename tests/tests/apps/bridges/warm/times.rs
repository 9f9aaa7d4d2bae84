//! When posts were last changed and published (mu-plugins/reprise/times.php): the same as in classic mode, by one query.

use std::fs;

use tests::bridged::{self, HOST};

use super::start;

/// `/?times=CASE` says what WordPress takes for the last times, and by how many queries. No case leaves anything in the database.
const CASES: &str = r#"<?php
add_action('template_redirect', static function () {
    if (!isset($_GET['times'])) return;
    global $wpdb;
    $say = static function () use ($wpdb) {
        $before = $wpdb->num_queries;
        return [get_lastpostmodified('GMT'), get_lastpostdate('GMT'), get_lastpostmodified('blog'), get_lastpostdate('GMT', 'page'), get_lastpostmodified('GMT', 'post'), $wpdb->num_queries - $before];
    };
    $insert = static fn ($name, $date, $type = 'post') => wp_insert_post(['post_name' => $name, 'post_title' => $name, 'post_content' => $name, 'post_type' => $type, 'post_status' => 'publish', 'post_date' => $date]);
    $wpdb->query('START TRANSACTION');
    switch ($_GET['times']) {
        case 'plain': $said = [$say(), $say()]; break;
        case 'none': $wpdb->query("UPDATE $wpdb->posts SET post_status = 'draft'"); $said = [$say()]; break;
        case 'old': $said = [$say()]; $insert('old', '2001-02-03 04:05:06'); $said[] = $say(); break;
        case 'newest': $said = [$say()]; wp_delete_post($insert('new', '2001-02-03 04:05:06'), true); $wpdb->query("UPDATE $wpdb->posts SET post_date_gmt = '2037-01-01 00:00:00' WHERE ID = 5"); clean_post_cache(5); wp_cache_delete('lastpostdate:gmt', 'timeinfo'); $said[] = $say(); break;
        case 'type': register_post_type('odd', ['public' => true]); $insert('odd', '2036-01-01 00:00:00', 'odd'); $wpdb->query("UPDATE $wpdb->posts SET post_status = 'publish', post_modified_gmt = '2036-01-01 00:00:00' WHERE post_type = 'odd'"); $said = [$say()]; break;
        case 'filtered': add_filter('pre_get_lastpostmodified', static fn () => '2002-02-02 02:02:02'); $said = [$say()]; break;
        case 'cached': wp_cache_set('lastpostmodified:gmt', '2003-03-03 03:03:03', 'timeinfo'); $said = [$say()]; break;
        case 'no table': $wpdb->suppress_errors(); $wpdb->posts = 'nowhere'; $said = [$say()]; break;
    }
    $wpdb->query('ROLLBACK');
    exit(json_encode($said));
});
"#;

#[test]
fn one_query_tells_when_posts_were_last_changed() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/cases.php"), CASES).unwrap();
    let [classic, kept] = ["classic", "snapshot"].map(|mode| start(&root, mode, "env.REPRISE_WARMUP = \"/ /feed/\""));
    for (case, fewer) in [
        ("plain", 1),
        ("old", 1),
        ("newest", 1),
        ("type", 1),
        ("none", -1),
        ("filtered", 0),
        ("cached", 0),
        ("no table", -1),
    ] {
        let query = format!("/?times={}", case.replace(' ', "+"));
        let [expected, said] = [&classic, &kept].map(|server| {
            let text = server.client().request("GET", &query, &[("Host", HOST)], b"").text();
            serde_json::from_str::<Vec<Vec<serde_json::Value>>>(&text).unwrap_or_else(|_| panic!("{case}: {text}"))
        });
        assert_eq!(said.len(), expected.len(), "{case}");
        for (expected, said) in expected.iter().zip(&said) {
            assert_eq!(said[..5], expected[..5], "{case}");
        }
        let queries = |said: &[Vec<serde_json::Value>]| said[0][5].as_i64().expect("a number");
        assert_eq!(queries(&said), queries(&expected) - fewer, "{case}: {said:?}, {expected:?}");
    }
}
