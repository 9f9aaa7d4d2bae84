//! WordPress at several hosts, by http and by https, and networks of WordPress' sites: the snapshot of each host and scheme answers
//! as classic mode does.

use std::fs;
use std::path::{Path, PathBuf};

use tests::bridged::{self, configure_wordpress, php, served_in};
use tests::compare::Visitor;
use tests::peer::Database;
use tests::server::Directory;
use tests::{Response, Server, Setup, amount, wait_until};

use super::pair::Pair;

/// Neither is part of the other, or of any page.
const ONE: &str = "one.test";
const TWO: &str = "two.test";
const ORIGINS: [(&str, &str); 4] = [("http", ONE), ("https", ONE), ("http", TWO), ("https", TWO)];

/// What the boot has been asked by and what the request is, at the end of each page; and the mode where somebody asks for it.
const SHOW: &str = r#"<?php
$GLOBALS['booted_by'] = [is_ssl(), $_SERVER['HTTP_HOST'], get_current_blog_id(), plugins_url(), home_url()];
add_action('wp_footer', function () {
    echo '<!-- ', json_encode([$GLOBALS['booted_by'], is_ssl(), $_SERVER['HTTP_HOST'], $_SERVER['SERVER_PORT'], get_current_blog_id(),
        get_option('blogname'), plugins_url(), home_url(), wp_get_current_user()->user_login, $_GET]), ' --><!-- nonce ', wp_create_nonce('wp_rest'), ' -->';
});
add_action('wp_loaded', function () {
    if (isset($_GET['mode'])) { exit(reprise_info()['mode']); }
});
"#;

const PAGES: [&str; 7] =
    ["/", "/post-5/", "/feed/", "/wp-json/wp/v2/posts?per_page=3", "/nowhere/", "/post-5", "/?p=5"];

fn setup(root: &Path, hosts: &str) -> Setup {
    let setup = Setup::root(root).server("proxies = [\"127.0.0.1\"]");
    setup.application(&format!("hosts = [{hosts}]"))
}

/// Both servers: one that finds the script by itself, or boots it at its start; and one in classic mode.
fn start(root: &Path, hosts: &str, mode: &str) -> Pair {
    let with = |mode: &str| setup(root, hosts).application(&format!("mode.\"index.php\" = \"{mode}\""));
    Pair::start(with(mode).flag("--audit"), with("classic"), &[])
}

/// A GET as a proxy passes it on.
fn get(visitor: &mut Visitor, scheme: &str, path: &str) -> Response {
    visitor.request("GET", path, &[("X-Forwarded-Proto", scheme)], b"")
}

fn mode(server: &Server, scheme: &str, host: &str) -> String {
    let headers = [("Host", host), ("X-Forwarded-Proto", scheme)];
    server.client().request("GET", "/?mode", &headers, b"").text()
}

fn wait_for_snapshots(server: &Server, origins: &[(&str, &str)]) {
    for (scheme, host) in origins {
        wait_until(&format!("{scheme}://{host} has a snapshot"), 60, || mode(server, scheme, host) == "snapshot");
    }
}

/// A user and a stranger at each host, by each scheme, in turn. `foreign` is in no page of a host but its own.
fn visit(pair: &mut Pair, foreign: impl Fn(&str) -> &'static str, rounds: usize) {
    let mut everybody = vec![];
    for (scheme, host) in ORIGINS {
        let mut user = pair.visitor_of(host, "user");
        let form = "log=admin&pwd=admin-test-pw&testcookie=1";
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        let [ours, theirs] = &mut user;
        get(ours, scheme, "/wp-login.php");
        let headers = [kind, ("X-Forwarded-Proto", scheme)];
        let welcome = ours.request("POST", "/wp-login.php", &headers, form.as_bytes());
        assert_eq!(welcome.status, 302, "{}", welcome.text());
        // One session in both servers, so that nonces are the same.
        theirs.cookies = ours.cookies.clone();
        everybody.push((scheme, host, true, user));
        everybody.push((scheme, host, false, pair.visitor_of(host, "stranger")));
    }
    for round in 0..rounds {
        for path in PAGES {
            for (scheme, host, is_user, who) in &mut everybody {
                let path = if path.contains('?') { path.to_owned() } else { format!("{path}?round={round}") };
                let what = format!("{scheme}://{host}{path}");
                let answer = pair.same(who, foreign(host), &what, |visitor| get(visitor, scheme, &path));
                let page = answer.text();
                if path.starts_with("/?round") || path.starts_with("/post-5/") {
                    assert_eq!(answer.status, 200, "{what}: {page}");
                    let is_https = *scheme == "https";
                    // The boot of its snapshot was one of this host and scheme.
                    assert!(page.contains(&format!("<!-- [[{is_https},\"{host}\",")), "{what}: {page}");
                    assert_eq!(page.contains("wp-admin-bar-my-account"), *is_user, "{what}: {page}");
                    let plugins = format!("\"{scheme}:\\/\\/{host}\\/wp-content\\/plugins\"");
                    assert!(page.contains(&plugins), "{what}: {page}");
                }
            }
        }
    }
}

/// A site whose address wp-config.php takes from the request.
#[test]
fn wordpress_at_two_hosts_and_by_both_schemes_answers_as_without() {
    let address = "(($_SERVER['HTTPS'] ?? '') === 'on' ? 'https://' : 'http://') . $_SERVER['HTTP_HOST']";
    let (_database, _place, application) = bridged::build_wordpress_at(address);
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/show.php"), SHOW).unwrap();
    let mut pair = start(&root, &format!("\"{ONE}\", \"{TWO}\""), "snapshot");
    assert_eq!(mode(&pair.bridged, "http", ONE), "snapshot");
    assert_eq!(mode(&pair.bridged, "https", TWO), "classic");
    wait_for_snapshots(&pair.bridged, &ORIGINS);
    visit(&mut pair, |host| if host == ONE { TWO } else { ONE }, 2);
    served_in(&pair.bridged, "snapshot");
    println!("wordpress, two hosts: {} answers are the same", pair.compared);
}

/// Without configured hosts there is one snapshot, as for a site whose address is fixed.
#[test]
fn wordpress_without_configured_hosts_has_one_snapshot() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/show.php"), SHOW).unwrap();
    let server = Setup::root(&root).start();
    wait_for_snapshots(&server, &[("http", ONE), ("http", TWO), ("http", "blog.test:8080")]);
    assert!(server.log().contains("application 'app': /index.php is booted"), "{}", server.log());
}

/// WordPress as a network, with sites at both hosts. `is_subdomains`: each site has a host of its own.
fn build_network(is_subdomains: bool) -> (Database, Directory, PathBuf) {
    let (database, place, application) = bridged::build_wordpress_at(&format!("'http://{ONE}'"));
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/show.php"), SHOW).unwrap();
    let load = format!(
        "$_SERVER = ['HTTP_HOST' => '{ONE}', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'] + $_SERVER;"
    );
    let install = format!(
        "{load} define('WP_INSTALLING_NETWORK', true); require 'htdocs/wp-load.php';
        require ABSPATH . 'wp-admin/includes/upgrade.php'; require ABSPATH . 'wp-admin/includes/network.php';
        foreach (['siteurl', 'home'] as $name) {{ $wpdb->update($wpdb->options, ['option_value' => 'http://{ONE}'], ['option_name' => $name]); }}
        wp_cache_flush();
        $wpdb->set_prefix('wp_'); foreach ($wpdb->tables('ms_global') as $table => $name) {{ $wpdb->$table = $name; }}
        install_network(); populate_network(1, '{ONE}', 'admin@example.org', 'Net', '/', {is_subdomains});
        $wp_rewrite->set_permalink_structure('/%postname%/'); flush_rewrite_rules(false);"
    );
    php(&install, &application);
    let constants = format!(
        "foreach (['MULTISITE' => true, 'SUBDOMAIN_INSTALL' => {is_subdomains}, 'DOMAIN_CURRENT_SITE' => '{ONE}', 'PATH_CURRENT_SITE' => '/', \
         'SITE_ID_CURRENT_SITE' => 1, 'BLOG_ID_CURRENT_SITE' => 1] as $name => $value) {{ define($name, $value); }}\n$table_prefix"
    );
    configure_wordpress(&application, "$table_prefix", &constants);
    configure_wordpress(&application, "isset($_SERVER['HTTP_HOST'])", "false");
    // The sites are made one after the other, as WordPress does.
    let sites = if is_subdomains { vec![(TWO, "/")] } else { vec![(ONE, "/sub/"), (TWO, "/")] };
    for (host, path) in sites {
        php(&format!("{load} require 'htdocs/wp-load.php'; {}", add_site(host, path)), &application);
        // What WordPress writes when a site is first asked for something.
        let first = format!("$_SERVER['HTTP_HOST'] = '{host}'; $_SERVER['REQUEST_URI'] = '{path}';");
        php(&format!("{load} {first} require 'htdocs/wp-load.php'; flush_rewrite_rules(false);"), &application);
    }
    (database, place, application)
}

/// Code that makes a site with a post.
fn add_site(host: &str, path: &str) -> String {
    format!(
        "wp_set_current_user(1); $id = wpmu_create_blog('{host}', '{path}', 'Site at {path} of {host}', 1, ['public' => 1], 1);
        if (is_wp_error($id)) {{ echo $id->get_error_message(); exit(1); }}
        switch_to_blog($id); $day = '2023-11-10 12:00:00';
        wp_insert_post(['post_title' => 'Fifth', 'post_name' => 'post-5', 'post_content' => 'All of {host}', 'post_status' => 'publish', 'post_author' => 1, 'post_date' => $day]);
        $wpdb->query(\"UPDATE $wpdb->posts SET post_date='$day', post_date_gmt='$day', post_modified='$day', post_modified_gmt='$day'\");
        update_option('permalink_structure', '/%postname%/'); delete_option('rewrite_rules'); restore_current_blog();"
    )
}

/// Each site is served from snapshots of its own, logged in and out.
#[test]
fn a_network_of_sites_with_hosts_of_their_own_answers_as_without() {
    let (_database, _place, application) = build_network(true);
    let root = application.join("htdocs");
    let mut pair = start(&root, &format!("\"{ONE}\", \"{TWO}\""), "auto");
    wait_for_snapshots(&pair.bridged, &ORIGINS);
    visit(&mut pair, |host| if host == ONE { "All of two.test" } else { "Post number" }, amount(1, 2));
    served_in(&pair.bridged, "snapshot");
    println!("wordpress, a network: {} answers are the same", pair.compared);

    // A second site at a host: which of the two a request is for, its path says. A post is no such change.
    let load = "<?php require 'wp-load.php'; fastcgi_finish_request();";
    fs::write(
        root.join("post.php"),
        format!("{load} wp_insert_post(['post_title' => 'Sixth', 'post_status' => 'publish']);"),
    )
    .unwrap();
    fs::write(root.join("make.php"), format!("{load} {}", add_site(TWO, "/sub/"))).unwrap();
    let mut visitor = pair.visitor_of(TWO, "stranger");
    assert_eq!(get(&mut visitor[0], "http", "/post.php").status, 200);
    assert_eq!(get(&mut visitor[0], "http", "/sub/").status, 404);
    assert!(!pair.bridged.log().contains("reloaded"), "{}", pair.bridged.log());
    assert_eq!(get(&mut visitor[0], "http", "/make.php").status, 200);
    wait_until("the new site answers", 60, || {
        let answer = get(&mut visitor[0], "http", "/sub/");
        answer.status == 200 && answer.text().contains("Site at /sub/ of two.test")
    });
    wait_until("the new generation serves", 60, || mode(&pair.bridged, "http", TWO) == "classic");
    wait_for_snapshots(&pair.bridged, &ORIGINS[..2]);
    for path in ["/sub/", "/sub/post-5/", "/", "/post-5/"] {
        pair.same(&mut visitor, "Post number", path, |visitor| get(visitor, "http", path));
    }
}

/// Sites that only the path tells apart run in classic mode, and beside them one with a host of its own from a snapshot.
#[test]
fn sites_at_paths_of_one_host_answer_as_without() {
    let (_database, _place, application) = build_network(false);
    let root = application.join("htdocs");
    let mut pair = start(&root, &format!("\"{ONE}\", \"{TWO}\""), "auto");
    wait_for_snapshots(&pair.bridged, &[("http", TWO)]);
    let mut visitors = [pair.visitor_of(ONE, "stranger"), pair.visitor_of(TWO, "stranger")];
    for _ in 0..3 {
        for path in ["/", "/sub/", "/post-5/", "/sub/post-5/", "/nowhere/", "/sub/nowhere/"] {
            for who in &mut visitors {
                pair.same(who, "nobody's", path, |visitor| get(visitor, "http", path));
            }
        }
    }
    assert!(get(&mut visitors[0][0], "http", "/sub/").text().contains("Site at /sub/ of one.test"));
    assert_eq!(
        (mode(&pair.bridged, "http", ONE).as_str(), mode(&pair.bridged, "http", TWO).as_str()),
        ("classic", "snapshot")
    );
}
