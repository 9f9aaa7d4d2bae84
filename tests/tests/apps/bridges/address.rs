//! WordPress whose address follows the request, without configured hosts: the plugin notices it, and takes no snapshot.

use std::fs;

use tests::bridged::{self, configure_wordpress};
use tests::{Client, Setup, amount, wait_until};

/// A computed address is named in the log, and visitors are not redirected to the host of the boot; a fixed one is not, even if it is that host.
#[test]
fn wordpress_with_a_computed_address_stays_in_classic_mode() {
    const FIXED: &str = "'http://blog.test'";
    let (database, _place, application) = bridged::build_wordpress_at(FIXED);
    let stored = "UPDATE wp_options SET option_value = 'http://blog.test' WHERE option_name IN ('home', 'siteurl')";
    database.rows("wordpress", stored);
    let root = application.join("htdocs");
    let config = fs::read_to_string(root.join("wp-config.php")).unwrap();
    let show = "<?php add_action('wp', function () { header('X-Mode: ' . reprise_info()['mode']); });";
    fs::write(root.join("wp-content/mu-plugins/show.php"), show).unwrap();
    let filter =
        |code: &str| fs::write(root.join("wp-content/mu-plugins/filter.php"), format!("<?php {code}")).unwrap();
    let constant = "$table_prefix = 'wp_';";
    let cases = [
        ("WP_HOME, WP_SITEURL", FIXED, "'http://' . $_SERVER['HTTP_HOST']", ""),
        ("WP_HOME, WP_SITEURL", FIXED, "'http://' . ($_SERVER['SERVER_NAME'] ?? 'blog.test')", ""),
        (
            "WP_CONTENT_URL, WP_PLUGIN_URL",
            constant,
            "$table_prefix = 'wp_'; define('WP_CONTENT_URL', '//' . $_SERVER['HTTP_HOST'] . '/wp-content');",
            "",
        ),
        ("COOKIE_DOMAIN", constant, "$table_prefix = 'wp_'; define('COOKIE_DOMAIN', $_SERVER['HTTP_HOST']);", ""),
        (
            "the option home",
            "isset($_SERVER['HTTP_HOST'])",
            "false",
            "add_filter('pre_option_home', fn () => 'http://' . $_SERVER['HTTP_HOST']);",
        ),
        ("", FIXED, FIXED, ""),
        ("", FIXED, "'http://localhost'", ""),
    ];
    for (names, from, to, code) in cases.into_iter().step_by(amount(3, 1)) {
        filter(code);
        configure_wordpress(&application, from, to);
        let server = Setup::root(&root).application("cache_memory = 0").start();
        let host = if to.contains("localhost") { "localhost" } else { "blog.test" };
        let get = || Client::new(server.port).request("GET", "/", &[("Host", host)], b"");
        get();
        if names.is_empty() {
            wait_until("a snapshot", 30, || get().header("x-mode") == Some("snapshot"));
        } else {
            let said = format!(
                "no snapshot is taken: the request's host is in {names}. A snapshot would have that of its boot, localhost,"
            );
            wait_until(&format!("the line of {names}"), 30, || server.log().contains(&said));
            wait_until("the end of the boot", 30, || server.log().contains("its requests run in classic mode"));
            let answer = get();
            assert_eq!(answer.header("x-mode"), Some("classic"), "{names}, {to}: {}", server.log());
            assert!(!answer.header("location").unwrap_or_default().contains("localhost"), "{names}, {to}: {answer:?}");
        }
        fs::write(root.join("wp-config.php"), &config).unwrap();
    }
}
