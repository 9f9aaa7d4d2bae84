//! WordPress' plugin: what stands beside scripts that the boot has registered (mu-plugins/reprise/scripts.php) is the visitor's.

use std::fs;

use tests::bridged::{self, HOST};
use tests::{Server, Setup, wait_until};

/// A plugin whose scripts are registered in the boot, with something of its own behind and before what WordPress says; a cookie is a user's number.
const SAID: &str = r#"<?php
add_filter('determine_current_user', static fn ($user) => isset($_COOKIE['as']) ? (int) $_COOKIE['as'] : $user, 99);
// Scripts are registered now, and again on init, when WordPress says something beside their files.
if (getenv('EARLY')) add_action('after_setup_theme', static function () {
    wp_add_inline_script('jquery-core', 'early()');
    wp_localize_script('utils', 'early', ['early' => 'yes']);
});
// As plugins do that join scripts.
class Joined extends WP_Scripts {
    public $old;
    public function __construct($old) { $this->old = $old; foreach (get_object_vars($old) as $name => $value) $this->$name = $value; }
    public function &__get($name) { return $this->old->$name; }
    public function __set($name, $value) { $this->old->$name = $value; }
    public function __isset($name) { return isset($this->old->$name); }
    public function __unset($name) { unset($this->old->$name); }
}
add_action('init', static function () {
    $utils = wp_scripts()->registered['utils'];
    $utils->extra['data'] = '/* first */' . ($utils->extra['data'] ?? '');
    if (getenv('JOINED')) $GLOBALS['wp_scripts'] = new Joined(wp_scripts());
    wp_add_inline_script('wp-api-fetch', 'odd()');
    wp_add_inline_script('wp-api-fetch', 'even()', 'before');
    wp_localize_script('utils', 'odd', ['a' => 'b']);
    wp_deregister_script('heartbeat');
    wp_register_script('heartbeat', '/own.js');
});
// A boot that takes its time.
if (getenv('SLOW') && $_SERVER['REQUEST_URI'] !== '/said/') add_action('init', static fn () => sleep(2), PHP_INT_MAX);
add_action('template_redirect', static function () {
    if ($_SERVER['REQUEST_URI'] === '/said/') {
        $said = array_filter(array_map(static fn ($script) => $script->extra, wp_scripts()->registered));
        array_walk_recursive($said, static function (&$text) { $text = is_string($text) ? preg_replace('/"time":"\d{10}"/', '', $text) : $text; });
        exit(json_encode($said));
    }
});
"#;

/// Nonces, the user and his settings are the visitor's in what is said beside a script's file, as in classic mode.
#[test]
fn what_is_said_beside_a_script_is_the_visitor_s() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/said.php"), SAID).unwrap();
    for more in ["env.SLOW = \"yes\"", "env.EARLY = \"yes\"", "env.JOINED = \"yes\""] {
        let [classic, kept] = ["classic", "snapshot"].map(|mode| {
            Setup::root(&root)
                .application(&format!("mode.\"index.php\" = \"{mode}\"\ncache_memory = 0\n{more}"))
                .start()
        });
        told(&classic, &kept, more);
    }
}

fn told(classic: &Server, kept: &Server, more: &str) {
    let said = |server: &Server, user: &str| {
        let cookie = format!("as={user}");
        let headers: &[(&str, &str)] = &[("Host", HOST), ("Cookie", cookie.as_str())];
        let headers = if user.is_empty() { &headers[..1] } else { headers };
        server.client().request("GET", "/said/", headers, b"").text()
    };
    let mut all = Vec::new();
    for user in ["", "1", "", "1", "1", ""] {
        let [expected, answer] = [classic, kept].map(|server| said(server, user));
        let parts: Vec<_> =
            expected.split("\",\"").zip(answer.split("\",\"")).filter(|(one, other)| one != other).collect();
        assert!(expected == answer, "{more}, user '{user}': {parts:?}");
        assert!(expected.contains("even()") && expected.contains("odd()"), "{expected}");
        all.push(expected);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2, "a user is told something else than nobody");
}

/// WordPress' plugin is a file and a directory: without the directory the site runs in classic mode, and the log says why.
#[test]
fn a_plugin_that_is_not_whole_says_what_is_missing() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let plugins = root.join("wp-content/mu-plugins");
    fs::remove_dir_all(plugins.join("reprise")).unwrap();
    let server = Setup::root(&root).application("cache_memory = 0").start();
    let response = server.client().request("GET", "/post-5/", &[("Host", HOST)], b"");
    assert!(response.status == 200 && response.text().contains("</html>"), "{}", response.text());
    let missing =
        format!("no page is cached, because {}/reprise is missing: copy that directory, too.", plugins.display());
    wait_until("the log says it", 10, || server.log().contains(&missing));
}
