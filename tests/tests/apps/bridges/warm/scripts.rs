//! WordPress' scripts in a feed (mu-plugins/reprise/scripts.php): whoever uses them finds what classic mode has, and who does not registers none.

use std::fs;
use std::path::Path;

use tests::Server;
use tests::bridged::{self, HOST};
use tests::peer::php_version;

use super::start;

/// `/feed/?use=CASE` says what comes of the case, and what is registered then. Each case is the first use.
const CASES: &str = r#"<?php
add_action('wp', static fn () => isset($_GET['own']) && add_action('wp_default_scripts', static fn ($scripts) => $scripts->add('own', '/own.js', ['jquery'], '7')));
add_action('rss2_head', static function () {
    $case = $_GET['use'] ?? '';
    $scripts = wp_scripts();
    $queue = [$scripts->queue, wp_scripts() === $scripts, $scripts instanceof WP_Scripts];
    $before = did_action('wp_default_scripts');
    $said = match ($case) {
        '' => null,
        'nothing' => 'nothing',
        'read' => count($scripts->registered),
        'isset' => [isset($scripts->registered['jquery']), isset($scripts->registered['none']), isset($scripts->base_url), isset($scripts->none)],
        'base' => [$scripts->base_url, $scripts->content_url, $scripts->default_version, $scripts->default_dirs],
        'write' => $scripts->registered['odd'] = new _WP_Dependency('odd', '/odd.js', ['jquery'], '1', null),
        'change' => $scripts->registered['jquery']->deps[] = 'odd',
        'base-write' => $scripts->base_url = 'http://odd.example',
        'unset' => (static function () use ($scripts) { unset($scripts->registered['jquery']); return isset($scripts->registered['jquery']); })(),
        'reference' => (static function () use ($scripts) { $all = &$scripts->registered; unset($all['jquery']); return count($scripts->registered); })(),
        'register' => [wp_register_script('odd', '/odd.js', ['jquery'], '1'), wp_register_script('jquery', '/odd.js')],
        'is' => [wp_script_is('jquery', 'registered'), wp_script_is('none', 'registered'), wp_script_is('jquery')],
        'enqueue' => [wp_enqueue_script('jquery'), $scripts->queue, $scripts->all_deps(['jquery']), $scripts->to_do],
        'inline' => wp_add_inline_script('jquery', 'odd()'),
        'localize' => wp_localize_script('jquery', 'odd', ['a' => 'b']),
        'deregister' => wp_deregister_script('jquery'),
        'query' => $scripts->query('jquery')->src,
        'dynamic' => [$scripts->odd = 'yes', $scripts->odd, isset($scripts->odd)],
        'undefined' => @$scripts->none,
        'init' => $scripts->init(),
        'print' => (static function () use ($scripts) { ob_start(); $scripts->do_items('jquery'); return ob_get_clean(); })(),
        'clone' => count((clone $scripts)->registered),
        'foreach' => (static function () use ($scripts) { $names = []; foreach ($scripts->registered as $name => $one) $names[] = $name; return $names; })(),
        'new' => count((new WP_Scripts())->registered),
    };
    // The time of registering is in what is registered.
    $all = $case === 'nothing' ? '' : preg_replace('/"time":"\d+"/', '', serialize([$scripts->registered, $scripts->queue, $scripts->base_url, $scripts->default_dirs]));
    $GLOBALS['said'] = [$queue, $said, md5($all), strlen($all), $GLOBALS['odd'] ?? null];
    $GLOBALS['times'] = [$before, did_action('wp_default_scripts')];
});
add_action('shutdown', static function () {
    isset($GLOBALS['said']) && print('<!-- ' . json_encode($GLOBALS['said']) . '|' . implode(' ', $GLOBALS['times']) . '|' . (new ReflectionClass('WP_Scripts'))->getName() . ' -->');
});
"#;

const USES: [&str; 23] = [
    "nothing",
    "read",
    "isset",
    "base",
    "write",
    "change",
    "base-write",
    "unset",
    "reference",
    "register",
    "is",
    "enqueue",
    "inline",
    "localize",
    "deregister",
    "query",
    "dynamic",
    "undefined",
    "init",
    "print",
    "clone",
    "foreach",
    "new",
];

/// Both have the pages of the warm-up.
fn both(root: &Path, more: &str) -> [Server; 2] {
    ["classic", "snapshot"].map(|mode| start(root, mode, &format!("env.REPRISE_WARMUP = \"/ /feed/\"\n{more}")))
}

/// What a use has come to, how often scripts were registered before and after it, and which class has the name.
fn said(server: &Server, query: &str) -> (String, String, String) {
    let text = server.client().request("GET", &format!("/feed/?{query}"), &[("Host", HOST)], b"").text();
    let note = text.rsplit("<!-- ").next().and_then(|note| note.strip_suffix(" -->"));
    let parts: Vec<&str> = note.unwrap_or_else(|| panic!("{query}: {text}")).split('|').collect();
    let [said, times, class] = parts[..] else { panic!("{query}: {text}") };
    (said.to_owned(), times.to_owned(), class.to_owned())
}

#[test]
fn a_feed_registers_scripts_at_their_first_use() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/cases.php"), CASES).unwrap();
    let [classic, kept] = both(&root, "");
    for own in ["", "&own"] {
        for name in USES {
            let query = format!("use={name}{own}");
            let [(expected, _, class), (answer, times, by)] = [&classic, &kept].map(|server| said(server, &query));
            assert_eq!(answer, expected, "{query}");
            assert_eq!((class.as_str(), by.as_str()), ("WP_Scripts", r"Reprise\WordPress\Scripts"), "{query}");
            // WordPress 6.1 has registered its blocks, and with them scripts, in the boot.
            let [before, after] =
                if php_version() == "8.2" || !own.is_empty() { [1, 1] } else { [0, usize::from(name != "nothing")] };
            let more = usize::from(name == "new" || name == "init" || (name == "clone" && before == 0));
            let expected = format!("{before} {}", after + more);
            assert_eq!(times, expected, "{query}");
        }
    }
}

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
    for more in ["", "env.EARLY = \"yes\"", "env.JOINED = \"yes\""] {
        let [classic, kept] = both(&root, more);
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
