//! WordPress with the plugin: anonymous pages are shared, pages of known visitors are not, and changes purge what shows them.

use std::fs;
use std::path::PathBuf;

use tests::bridged::{HOST, add_authors, build_wordpress, php};
use tests::compare::{Visitor, between};
use tests::peer::{Database, php_version};
use tests::server::Directory;
use tests::{Response, Server, Setup, amount, wait_for, wait_until};

use super::{is_hit, is_stored, page, status_of, stranger};

/// What pages and plugins say of themselves while a page is made, as late as they can.
const SAYS: &str = r"<?php
add_filter('comment_flood_filter', '__return_false');
add_filter('pre_wp_mail', '__return_true');
add_action('wp_footer', function () {
    echo '<!-- mode ', reprise_info()['mode'], ' -->';
    $says = $_GET['says'] ?? '';
    if ($says === 'constant') { define('DONOTCACHEPAGE', true); }
    if ($says === 'session') { session_start(); session_write_close(); }
    if ($says === 'cookie') { setcookie('own', 'x'); }
    if ($says === 'mobile') { wp_is_mobile(); }
    if ($says === 'private') { nocache_headers(); }
    if ($says === 'filter') { add_filter('reprise_cache_is_page_shared', '__return_false'); }
    if ($says === 'seconds') { add_filter('reprise_cache_seconds', '__return_zero'); }
    if ($says === 'long') { add_filter('reprise_cache_seconds', fn () => 1000000); }
    if ($says === 'fatal') { nowhere(); }
});
";

/// What an editor does, by its name.
const DOES: &str = r"<?php
require 'wp-load.php';
require_once ABSPATH . 'wp-admin/includes/admin.php';
require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php';
$with = $_GET['with'] ?? '';
$find = fn ($name) => get_page_by_path($name, OBJECT, ['post', 'page'])->ID;
$category = get_term_by('name', 'News', 'category')->term_id;
if ($_GET['do'] === 'late') { fastcgi_finish_request(); }
match ($_GET['do']) {
    'publish', 'late' => wp_insert_post(['post_title' => $with, 'post_name' => sanitize_title($with), 'post_status' => 'publish', 'post_author' => 1, 'post_category' => [$category], 'post_content' => 'new']),
    'draft' => wp_insert_post(['post_title' => $with, 'post_status' => 'draft']),
    'protected' => wp_insert_post(['post_title' => $with, 'post_name' => 'protected', 'post_status' => 'publish', 'post_password' => 'x', 'post_content' => 'hidden']),
    'edit' => wp_update_post(['ID' => $find($with), 'post_title' => 'changed title']),
    'unpublish' => wp_update_post(['ID' => $find($with), 'post_status' => 'draft']),
    'trash' => wp_trash_post($find($with)),
    'delete' => wp_delete_post($find($with), true),
    'move' => wp_set_post_terms($find($with), [$category], 'category'),
    'meta' => clean_post_cache($find($with)),
    'approve' => wp_set_comment_status((int) $with, 'approve'),
    'term' => wp_update_term($category, 'category', ['description' => $with]),
    'no-term' => wp_delete_term(get_term_by('name', 'tag3', 'post_tag')->term_id, 'post_tag'),
    'menu' => wp_update_nav_menu_object(wp_create_nav_menu($with), ['menu-name' => 'Main']),
    'customize' => do_action('customize_save_after'),
    'widgets' => update_option('sidebars_widgets', ['x' => [$with]]),
    'name' => update_option('blogname', $with),
    'template' => wp_insert_post(['post_type' => 'wp_template', 'post_title' => $with, 'post_status' => 'publish']),
    'update' => do_action('upgrader_process_complete', new WP_Upgrader(), ['action' => 'update', 'type' => 'plugin']),
    'theme' => switch_theme($with),
    'option' => update_option('something_else', $with),
    'moderate' => update_option('comment_moderation', $with),
};
wp_redirect('/');
";

/// Comments appear without approval, and categories have pages.
const PREPARES: &str = r"
$_SERVER += ['HTTP_HOST' => 'a', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
require 'htdocs/wp-load.php';
flush_rewrite_rules(false);
update_option('comment_moderation', 0);
update_option('comment_previously_approved', 0);
";

pub(super) fn log_in(visitor: &mut Visitor, name: &str) {
    visitor.get("/wp-login.php");
    let form = [("log", name), ("pwd", &format!("{name} pw")), ("testcookie", "1")];
    assert_eq!(visitor.post_form("/wp-login.php", &form).status, 302, "{name}");
}

struct Site {
    server: Server,
    application: PathBuf,
    _kept: (Database, Directory),
}

impl Site {
    fn start(mode: &str, more: &str) -> Site {
        let (database, place, application) = build_wordpress();
        let root = application.join("htdocs");
        fs::write(root.join("wp-content/mu-plugins/says.php"), SAYS).expect("a plugin");
        fs::write(root.join("does.php"), DOES).expect("a script");
        php(PREPARES, &application);
        let server = Setup::root(&root).application(&format!("mode.\"index.php\" = \"{mode}\"\n{more}")).start();
        Site { server, application, _kept: (database, place) }
    }

    fn does(&self, what: &str, with: &str) {
        let answer = stranger(&self.server).get(&format!("/does.php?do={what}&with={with}"));
        assert!(answer.status == 302 || what == "late", "{what}: {}", answer.text());
    }

    fn page(&self, path: &str) -> Response {
        page(&self.server, path)
    }

    /// Asked for until the cache has it; what it then has. A page that is the first to need something (a menu, a template) makes that, and purges all.
    fn stored(&self, path: &str) -> String {
        wait_for(path, 30, || Some(self.page(path)).filter(is_hit)).text()
    }

    fn purge(&self) {
        assert_eq!(self.server.reprise(&["purge", "--all"]).1, 0);
    }

    /// A reader writes a comment under a post, and is redirected. His visit, and where he is led to.
    fn comments(&self, post: &str, text: &str) -> (Visitor, String) {
        let mut reader = stranger(&self.server);
        let number = between(&reader.get(post).text(), "name='comment_post_ID' value='", "'").to_owned();
        let form = [("comment", text), ("author", "Reader"), ("email", "r@example.org"), ("comment_post_ID", &number)];
        let answer = reader.post_form("/wp-comments-post.php", &form);
        let location = answer.header("location").unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
        let path = location.strip_prefix(&format!("http://{HOST}")).expect("a place on the site");
        let path = path.split('#').next().expect("a path").to_owned();
        (reader, path)
    }
}

/// A page is made once for all visitors whom WordPress does not know, in every mode; whatever is somebody's own is not.
#[test]
fn pages_of_wordpress_are_made_once_for_strangers() {
    for mode in &["snapshot", "classic"][..amount(1, 2)] {
        let site = Site::start(mode, "cache_memory = \"32M\"");
        // A theme that prints as it goes, where there is one.
        if *mode == "classic" && php_version() == "8.2" {
            php("$argv[1] = 'twentytwentyone'; require 'theme.php';", &site.application);
        }
        let mode = format!("<!-- mode {mode} -->");
        wait_until("the mode", 30, || site.page("/?says=cookie").text().contains(&mode));
        for path in ["/", "/post-5/", "/page-1/", "/category/news/", "/author/admin/", "/2023/11/", "/?utm_source=x"] {
            assert!(site.stored(path).contains(&mode), "{path}");
        }
        site.stored("/feed/");
        // What a plugin keeps in its cookie makes no other page.
        let mut other = Visitor::marked(site.server.port, HOST, "statistics");
        assert!(is_hit(&other.get("/post-5/")));
        site.does("protected", "guarded");
        for path in [
            "/?s=lorem",
            "/post-5/?preview=true",
            "/protected/",
            "/wp-login.php",
            "/wp-json/wp/v2/posts",
            "/robots.txt",
            "/wp-sitemap.xml",
        ] {
            let pages = [site.page(path), site.page(path)];
            assert!(pages.iter().all(|page| !is_hit(page) && !is_stored(page)), "{path}: {}", status_of(&pages[1]));
        }
        let nowhere = [0, 1].map(|_| stranger(&site.server).get("/nowhere/"));
        assert!(nowhere.iter().all(|page| page.status == 404 && !is_hit(page) && !is_stored(page)));
        for says in ["constant", "session", "cookie", "mobile", "private", "filter", "seconds", "fatal"] {
            let path = format!("/post-6/?says={says}");
            let pages = [0, 1].map(|_| stranger(&site.server).get(&path));
            assert!(pages.iter().all(|page| !is_hit(page) && !is_stored(page)), "{says}: {}", status_of(&pages[1]));
        }
        // Nonces are valid for 12 hours at least.
        site.stored("/post-6/?says=long");
        let hit = site.page("/post-6/?says=long");
        let ttl: u32 = between(&format!("{};", status_of(&hit)), "ttl=", ";").parse().expect("seconds");
        assert!((35_000..=36_000).contains(&ttl), "{ttl}");
    }
}

/// Who is known by a cookie or a password gets no page that was made for many, and his own is not kept.
#[test]
fn pages_of_known_visitors_stay_theirs() {
    let site = Site::start("snapshot", "cache_memory = \"32M\"");
    add_authors(["annax7391", "bertq2846"], &site.application);
    let mut author = stranger(&site.server);
    log_in(&mut author, "annax7391");
    let paths = ["/", "/post-5/", "/page-1/", "/feed/", "/category/news/"];
    for round in 0..3 {
        for path in paths {
            let own = author.get(path);
            assert!(own.status == 200 && !is_hit(&own) && !is_stored(&own), "{path}: {}", status_of(&own));
            assert!(path == "/feed/" || own.text().contains("wp-admin-bar-my-account"), "{path}");
            let others = site.page(path);
            assert_eq!(is_hit(&others), round > 0, "{path}: {}", status_of(&others));
            assert!(!others.text().contains("annax7391") && !others.text().contains("wp-admin-bar"), "{path}");
        }
    }
    for cookie in [
        "wordpress_logged_in_1=x",
        "wordpress_sec_1=x",
        "wp-postpass_1=x",
        "comment_author_1=x",
        "comment_author_email_1=x",
        "wordpress_rec_1=x",
        "woocommerce_items_in_cart=1",
        "woocommerce_cart_hash=x",
        "wp_woocommerce_session_1=x",
        "a=b; woocommerce_items_in_cart=1",
    ] {
        // Both where there is a page and where there is none.
        for path in ["/", "/post-9/"] {
            let own = site.server.client().request("GET", path, &[("Host", HOST), ("Cookie", cookie)], b"");
            assert!(own.status == 200 && !is_hit(&own) && !is_stored(&own), "{cookie}: {}", status_of(&own));
        }
    }
    let headers = [("Host", HOST), ("Authorization", "Basic YTpi")];
    let own = site.server.client().request("GET", "/post-9/", &headers, b"");
    assert!(!is_stored(&own), "{}", status_of(&own));
    assert!(is_stored(&site.page("/post-9/")));
}

/// A reader who comments is redirected to his comment, and others see it next; one that waits for approval is seen by its author alone.
#[test]
fn a_comment_is_seen_at_once() {
    let site = Site::start("snapshot", "cache_memory = \"32M\"");
    for path in ["/post-5/", "/post-6/", "/"] {
        site.stored(path);
    }
    let (mut reader, path) = site.comments("/post-5/", "words of a reader");
    assert_eq!(path, "/post-5/");
    assert!(reader.get(&path).text().contains("words of a reader"));
    assert!(site.stored("/post-5/").contains("words of a reader"));
    assert!(is_hit(&site.page("/post-6/")));

    site.does("moderate", "1");
    let (mut reader, path) = site.comments("/post-7/", "words that wait");
    assert!(path.contains("unapproved="), "{path}");
    for _ in 0..2 {
        let own = reader.get(&path);
        assert!(own.text().contains("words that wait") && !is_stored(&own) && !is_hit(&own), "{}", status_of(&own));
    }
    assert!(!site.stored("/post-7/").contains("words that wait"));
    let number = between(&format!("{path}&"), "unapproved=", "&").to_owned();
    site.does("approve", &number);
    assert!(site.page("/post-7/").text().contains("words that wait"));
}

/// Changes purge the pages that show them, and leave the rest.
#[test]
fn changes_of_posts_purge_what_shows_them() {
    let site = Site::start("snapshot", "cache_memory = \"32M\"");
    let paths = ["/", "/feed/", "/category/news/", "/author/admin/", "/post-50/", "/post-5/", "/post-21/", "/page-1/"];
    // The last post is of News, and a later one is beside it.
    let lists = &paths[..5];
    for (what, with, purged) in [
        ("publish", "fresh+one", lists),
        ("edit", "post-5", &["/", "/feed/", "/category/news/", "/author/admin/", "/post-5/"]),
        ("meta", "post-5", &["/post-5/"]),
        ("meta", "post-50", lists),
        ("draft", "nothing", &[]),
        ("option", "nothing", &[]),
        ("move", "post-21", &["/category/news/", "/post-21/"]),
        ("unpublish", "fresh-one", lists),
        ("term", "other+words", &paths),
        ("no-term", "", &paths),
        ("menu", "a+menu", &paths),
        ("customize", "", &paths),
        ("widgets", "a", &paths),
        ("name", "other+name", &paths),
        ("template", "a", &paths),
        ("update", "", &paths),
    ]
    .into_iter()
    .step_by(amount(3, 1))
    {
        for path in paths {
            site.stored(path);
        }
        site.does(what, with);
        let gone: Vec<_> = paths.into_iter().filter(|path| !is_hit(&site.page(path))).collect();
        assert_eq!(gone, purged, "{what} {with}");
    }
    site.does("publish", "second+one");
    for path in ["/", "/feed/", "/category/news/", "/author/admin/"] {
        assert!(site.stored(path).contains("second one"), "{path}");
    }
    assert!(site.stored("/second-one/").contains("second one"));
    site.does("edit", "second-one");
    for path in ["/", "/second-one/"] {
        assert!(site.stored(path).contains("changed title") && !site.stored(path).contains(">second one<"), "{path}");
    }
    for (what, name) in [("trash", "second-one"), ("delete", "post-50")] {
        site.stored(&format!("/{name}/"));
        site.does(what, name);
        assert_eq!(stranger(&site.server).get(&format!("/{name}/")).status, 404, "{what}");
        assert!(!site.page("/").text().contains(&format!("/{name}/")), "{what}");
    }
    // After the response has gone, as WordPress' own cron publishes.
    site.stored("/");
    site.does("late", "late+one");
    wait_until("the late post", 30, || site.page("/").text().contains("late one"));
    site.purge();
    assert!(is_stored(&site.page("/")));
}

/// Without a cache no client sees what pages say to it.
#[test]
fn wordpress_without_a_cache_says_nothing_of_it() {
    let site = Site::start("snapshot", "cache_memory = 0");
    for path in ["/", "/post-5/", "/"] {
        assert_eq!(status_of(&site.page(path)), "", "{path}");
    }
}

/// Without the plugin WordPress says nothing to caches, and nothing is shared: two authors and a stranger ask for each page in turn.
#[test]
fn without_the_plugin_nothing_of_wordpress_is_shared() {
    let names = ["annax7391", "bertq2846"];
    let (_database, _place, application) = build_wordpress();
    let root = application.join("htdocs");
    fs::remove_file(root.join("wp-content/mu-plugins/reprise.php")).expect("the plugin");
    add_authors(names, &application);
    let server = Setup::root(&root).application("cache_memory = \"32M\"").start();
    let mut visitors = vec![(stranger(&server), "")];
    for name in names {
        let mut author = stranger(&server);
        log_in(&mut author, name);
        visitors.push((author, name));
    }
    for _ in 0..2 {
        for path in [
            "/",
            "/post-5/",
            "/page-1/",
            "/feed/",
            "/?s=lorem",
            "/nowhere/",
            "/wp-json/wp/v2/posts",
            "/wp-json/",
            "/wp-login.php",
            "/wp-sitemap.xml",
        ] {
            for (visitor, own) in &mut visitors {
                let page = visitor.get(path);
                let whole = format!("{:?}{}", page.headers, page.text());
                assert!(!is_hit(&page) && !is_stored(&page), "{path}: {}", status_of(&page));
                assert!(!names.iter().any(|name| name != own && whole.contains(name)), "{path} for {own}: {whole}");
            }
        }
    }
}
