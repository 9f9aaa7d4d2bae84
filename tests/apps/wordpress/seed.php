<?php
// php seed.php [theme]   : 50 posts, 5 categories, 20 tags, 3 comments each, permalinks on
$_SERVER['HTTP_HOST'] = '127.0.0.1'; $_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1'; $_SERVER['REQUEST_METHOD'] = 'GET'; $_SERVER['REQUEST_URI'] = '/';
require __DIR__ . '/htdocs/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/taxonomy.php';
require_once ABSPATH . 'wp-admin/includes/misc.php'; require_once ABSPATH . 'wp-admin/includes/file.php';
mt_srand(42);
$words = explode(' ', 'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse cillum fugiat nulla pariatur');
$sent = function (int $n) use ($words) { $o = []; for ($i = 0; $i < $n; $i++) $o[] = $words[mt_rand(0, count($words) - 1)]; return ucfirst(implode(' ', $o)) . '.'; };
wp_set_current_user(1);
$cats = []; foreach (['News', 'Reviews', 'Howto', 'Opinion', 'Releases'] as $c) $cats[] = wp_create_category($c);
for ($i = 1; $i <= 50; $i++) {
    $body = ''; for ($p = 0; $p < 6; $p++) { $t = ''; for ($s = 0; $s < 5; $s++) $t .= $sent(12) . ' '; $body .= "<!-- wp:paragraph -->\n<p>$t</p>\n<!-- /wp:paragraph -->\n\n"; }
    $id = wp_insert_post(['post_title' => "Post number $i: " . $sent(4), 'post_name' => "post-$i", 'post_content' => $body, 'post_excerpt' => $sent(20), 'post_status' => 'publish', 'post_author' => 1,
        'post_date' => date('Y-m-d H:i:s', 1700000000 + $i * 86400), 'post_category' => [$cats[$i % 5]], 'tags_input' => ['tag' . ($i % 20), 'tag' . (($i * 7) % 20)]]);
    for ($c = 0; $c < 3; $c++) wp_insert_comment(['comment_post_ID' => $id, 'comment_author' => "Reader $c", 'comment_author_email' => "r$c@example.org", 'comment_content' => $sent(25), 'comment_approved' => 1, 'comment_date' => date('Y-m-d H:i:s', 1700000000 + $i * 86400 + 600 * $c)]);
}
for ($i = 1; $i <= 3; $i++) wp_insert_post(['post_type' => 'page', 'post_title' => "Page $i", 'post_name' => "page-$i", 'post_content' => $sent(80), 'post_status' => 'publish', 'post_author' => 1]);
if (isset($argv[1])) switch_theme($argv[1]);
// What the installation dated today gets a fixed day, so that two builds show the same pages.
$day = '2023-11-10 12:00:00';
$wpdb->query("UPDATE $wpdb->posts SET post_date='$day', post_date_gmt='$day', post_modified='$day', post_modified_gmt='$day' WHERE post_date > '2025-01-01'");
$wpdb->query("UPDATE $wpdb->posts SET post_modified=post_date, post_modified_gmt=post_date_gmt");
$wpdb->query("UPDATE $wpdb->comments SET comment_date='$day', comment_date_gmt='$day' WHERE comment_date > '2025-01-01'");
$wpdb->query("UPDATE $wpdb->users SET user_registered='$day'");
wp_cache_flush();
global $wp_rewrite; $wp_rewrite->set_permalink_structure('/%postname%/'); flush_rewrite_rules(false);
update_option('rewrite_rules', $wp_rewrite->rewrite_rules());
// The first visitor would have WordPress make it.
if (class_exists('WP_Navigation_Fallback')) WP_Navigation_Fallback::get_fallback();
echo "posts: ", wp_count_posts()->publish, " theme: ", get_stylesheet(), " permalinks: ", get_option('permalink_structure'), "\n";
