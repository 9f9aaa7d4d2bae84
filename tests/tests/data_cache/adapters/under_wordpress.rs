//! WordPress' object cache.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use tests::bridged::{HOST, add_authors, build_wordpress};
use tests::compare::Visitor;
use tests::server::project;
use tests::{Server, Setup, amount};

use super::text;

/// How often the database was asked, and by whom; in each page, as late as it can.
const SAYS: &str = r"<?php
add_action('wp_footer', function () {
    echo '[[', get_num_queries(), ' ', reprise_info()['mode'], ' ', wp_using_ext_object_cache() ? 'shared' : 'own', ' ', wp_get_current_user()->user_login, ' ', get_option('blogname'), ']]';
}, PHP_INT_MAX);
";

/// What an administrator does in a request of its own.
const DOES: &str = r"<?php
require 'wp-load.php';
match ($_GET['do']) {
    'name' => update_option('blogname', $_GET['with']),
    'post' => wp_update_post(['ID' => get_page_by_path('post-5', OBJECT, 'post')->ID, 'post_title' => $_GET['with']]),
    'flush' => wp_cache_flush(),
    'fill' => wp_cache_set('of all', 'it is there', 'own'),
    'look' => print(wp_cache_get('of all', 'own')),
};
echo 'done';
";

fn drop_in(root: &Path) {
    let to = root.join("wp-content/object-cache.php");
    fs::copy(project().join("composer/wordpress/object-cache.php"), to).expect("the drop-in");
}

/// What the footer says: queries, mode, whose cache, user, name of the site.
fn said(visitor: &mut Visitor, path: &str) -> (u32, String) {
    let page = visitor.get(path);
    let text = page.text();
    let (_, rest) = text.split_once("[[").unwrap_or_else(|| panic!("{path}: {} {text:.2000}", page.status));
    let (said, _) = rest.split_once("]]").expect("the end");
    let (queries, rest) = said.split_once(' ').expect("a number");
    (queries.parse().expect("a number"), rest.to_owned())
}

fn does(server: &Server, what: &str) -> String {
    let answer = Visitor::marked(server.port, HOST, "a").get(&format!("/does.php?do={what}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[test]
fn wordpress_s_object_cache_is_the_data_cache() {
    let (_database, _place, application) = build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/says.php"), SAYS).expect("a plugin");
    fs::write(root.join("does.php"), DOES).expect("a script");
    fs::write(root.join("functions.php"), text("wordpress.php")).expect("a script");
    add_authors(["anna", "bert"], &application);
    // WordPress' own cache, and with the drop-in where the functions are not.
    let own = |command: &mut Command| {
        let output = command.args(["functions.php"]).current_dir(&root).output().expect("php");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let wanted = own(&mut Command::new("php"));
    assert!(wanted.lines().count() > 30, "{wanted}");
    let start = |mode: &str| {
        Setup::root(&root).application(&format!("workers = 6\nqueue = 100\nmode.\"index.php\" = \"{mode}\"")).start()
    };
    let without = start("classic");
    let [before, _] = [0, 1].map(|_| said(&mut Visitor::marked(without.port, HOST, "a"), "/post-5/"));
    assert_eq!(before.1.split(' ').nth(1), Some("own"));
    drop(without);
    drop_in(&root);
    assert_eq!(own(&mut Command::new("php")), wanted, "the drop-in outside of Reprise");

    for (number, mode) in ["snapshot", "classic"].into_iter().enumerate().take(amount(1, 2)) {
        let server = start(mode);
        let functions = server.get("/functions.php").text();
        assert_eq!(functions, wanted, "{mode}");
        // Another request's value stays, whoever boots and whoever comes.
        does(&server, "fill");
        let mut visitors = ["anna", "bert"].map(|name| {
            let mut visitor = Visitor::marked(server.port, HOST, name);
            visitor.get("/wp-login.php");
            let form = [("log", name), ("pwd", &format!("{name} pw")), ("testcookie", "1")];
            assert_eq!(visitor.post_form("/wp-login.php", &form).status, 302, "{name}");
            (visitor, name)
        });
        for round in 0..amount(3, 30) {
            let name = format!("site{number}{round}");
            for (visitor, who) in &mut visitors {
                let (_, said) = said(visitor, "/post-5/");
                assert!(said.starts_with(&format!("{mode} shared {who} ")), "{said}");
            }
            // Another request changes it; the next of everybody shows it.
            does(&server, &format!("name&with={name}"));
            does(&server, &format!("post&with=title-of-{name}"));
            for (visitor, who) in &mut visitors {
                assert_eq!(said(visitor, "/post-5/").1, format!("{mode} shared {who} {name}"));
            }
            let mut stranger = Visitor::marked(server.port, HOST, "");
            assert!(stranger.get("/post-5/").text().contains(&format!("title-of-{name}")), "{mode}");
            let (queries, said) = said(&mut stranger, "/post-5/");
            assert_eq!(said, format!("{mode} shared  {name}"));
            assert!(queries < before.0, "{mode}: {queries} queries, {} without the drop-in", before.0);
        }
        assert_eq!(does(&server, "look"), "it is theredone", "{mode}");
        // A crowd that finds nothing gets whole pages.
        assert_eq!(does(&server, "flush"), "done");
        let name = format!("site{number}{}", amount(3, 30) - 1);
        thread::scope(|scope| {
            for _ in 0..24 {
                let (server, name) = (&server, &name);
                scope.spawn(move || {
                    let (_, said) = said(&mut Visitor::marked(server.port, HOST, ""), "/post-5/");
                    assert_eq!(said, format!("{mode} shared  {name}"));
                });
            }
        });
        assert!(!server.log().contains("PHP Fatal"), "{}", server.log());
    }
}
