//! WordPress 6.1 with PHP 8.2, WordPress 7.1 with later ones: its pages and feeds, and working in it as an editor does.

use std::fs;
use std::process::Command;

use tests::closed_list::{Pattern, decimal, difference, hexadecimal};
use tests::compare::{Build, Pair, Site, Visitor};
use tests::peer::{Database, php_version, run_to_end, web_user};
use tests::server::copy;
use tests::{Response, amount};

use super::leads_to;
use super::wordpress_admin::{comments, desk, log_in, log_out, media, options, plugins, posts, rest};

/// Drawn from the session, for what a link or form does.
const NONCES: Pattern = Pattern {
    name: "WordPress' nonces",
    before: &[
        "nonce=",
        "x-wp-nonce: ",
        "once\" value=\"",
        "once\":\"",
        "Nonce = \"",
        "createNonceMiddleware( \"",
        "once-replyto-comment\" value=\"",
        "once_add-tag\" value=\"",
        "once_create-user\" value=\"",
        "site_status\":\"",
        "site_status_result\":\"",
        "_wp_unfiltered_html_comment\" value=\"",
        "_wp_unfiltered_html_comment_disabled\" value=\"",
        "_inline_edit\" value=\"",
        "sendToEditor\":\"",
        "setAttachmentThumbnail\":\"",
        "nonces\":{\"update\":\"",
        "\",\"delete\":\"",
        "\",\"edit\":\"",
    ],
    of: hexadecimal,
    length: (10, 10),
    after: "",
};
const PASSWORDS: Pattern = Pattern {
    name: "passwords that WordPress proposes",
    before: &["data-pw=\"", "<kbd>"],
    of: visible,
    length: (8, 80),
    after: "",
};
/// In answers about an address that is shown within another page.
const SECRETS: Pattern = Pattern {
    name: "WordPress' secrets of embedded pages",
    before: &["data-secret=\\\"", "#?secret="],
    of: alphanumeric,
    length: (10, 10),
    after: "",
};
const AVATARS: Pattern = Pattern {
    name: "the number of the host of avatars",
    before: &["\"avatarURL\":\"http:\\/\\/"],
    of: decimal,
    length: (1, 1),
    after: ".gravatar",
};
/// When a page was made, for its scripts.
const MOMENTS: Pattern = Pattern {
    name: "WordPress' time of a page",
    before: &["\"time\":\"", "activePostLock\":\"", "pagegen_timestamp\" value=\""],
    of: |c| c.is_ascii_digit() || "-: ".contains(c),
    length: (10, 19),
    after: "",
};
/// Only here because there are two copies.
const PLACES: Pattern = Pattern {
    name: "the directory of a side's copy",
    before: &["/reprise-test-"],
    of: |c| c.is_ascii_digit() || c == '-' || c == '/',
    length: (5, 30),
    after: "wordpress/",
};

fn visible(c: char) -> bool {
    c.is_ascii_graphic() && !"\"<".contains(c)
}

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// WordPress for each side, with a database each, and what is beside it in tests/apps/wordpress.
pub fn site(build: &Build, database: &Database) -> Site {
    let site = build.site();
    for (name, place) in [("ours", &site.ours), ("theirs", &site.theirs)] {
        database.copy("wordpress", name);
        fs::write(place.join("wp-db.php"), database.settings(name)).expect("wp-db.php");
        copy(&place.join("mu-plugins"), &place.join("htdocs/wp-content/mu-plugins"));
        let plugins = place.join("htdocs/wp-content/plugins");
        copy(&place.join("plugins"), &plugins);
        // It updates itself.
        run_to_end(Command::new("chown").args(["-R", &web_user()]).arg(plugins.join("marker")));
    }
    site
}

/// WordPress' pages, and everything that an editor does in it, give the same responses as under nginx with PHP-FPM. In the default run: pages, a
/// login and posts.
#[test]
fn wordpress_answers_as_under_fpm() {
    let (database, build) = Build::wordpress();
    let site = site(&build, &database);
    let is_whole = amount(0, 1) == 1;
    let list = &[NONCES, MOMENTS, SECRETS, PASSWORDS, PLACES][..amount(4, 5)];
    // WordPress 7.1 takes avatars from one host.
    let numbered = if php_version() == "8.2" { vec![AVATARS] } else { vec![] };
    let mut pair = Pair::start(&site, "htdocs", &[list, &numbered], |setup| setup);
    pages(&mut pair);
    files(&mut pair);
    pair.flow("a login");
    log_in(&mut pair);
    if is_whole {
        desk(&mut pair);
        options(&mut pair);
    }
    posts(&mut pair);
    if is_whole {
        media(&mut pair, &site);
        rest(&mut pair);
        plugins(&mut pair, &site);
        comments(&mut pair);
    }
    log_out(&mut pair);
    for statement in [
        "SELECT ID, post_title, post_name, post_status, post_type, post_date, post_content, guid FROM wp_posts ORDER BY ID",
        "SELECT comment_ID, comment_post_ID, comment_author, comment_content, comment_approved FROM wp_comments ORDER BY 1",
        "SELECT post_id, meta_key, meta_value FROM wp_postmeta WHERE meta_key NOT LIKE '\\_edit%' AND \
         meta_key <> '_wp_trash_meta_time' ORDER BY meta_id",
        "SELECT option_name, option_value FROM wp_options WHERE option_name NOT LIKE '%transient%' AND option_name NOT IN \
         ('cron', 'recovery_keys', 'recently_activated') ORDER BY option_name",
    ] {
        let [ours, theirs] = ["ours", "theirs"].map(|name| database.rows(name, statement));
        assert!(ours == theirs, "{statement}: {}", difference(ours.as_bytes(), theirs.as_bytes()));
    }
    pair.report("WordPress");
}

fn pages(pair: &mut Pair) {
    pair.pages(&["/", "/page/2/", "/post-5/", "/page-1/", "/?s=lorem", "/?s=nothing+of+that+kind", "/wp-login.php"]);
    pair.pages(&["/wp-login.php?action=lostpassword", "/feed/", "/feed/atom/", "/comments/feed/", "/post-5/feed/"]);
    pair.pages(&["/robots.txt", "/wp-json/", "/wp-json/wp/v2/posts", "/wp-json/wp/v2/posts/5?_embed=1"]);
    pair.page("/wp-json/oembed/1.0/embed?url=http%3A%2F%2Fblog.test%2Fpost-5%2F", 200);
    for path in ["/nowhere/", "/post-999/", "/wp-json/nothing", "/feed/nothing/"] {
        pair.page(path, 404);
    }
    leads_to(&pair.page("/post-5", 301), "http://blog.test/post-5/");
    leads_to(&pair.page("/?name=post-7", 301), "http://blog.test/post-7/");
    let login = "http://blog.test/wp-login.php?redirect_to=http%3A%2F%2Fblog.test%2Fwp-admin%2F&reauth=1";
    leads_to(&pair.page("/wp-admin/", 302), login);
    pair.page("/wp-admin/admin-ajax.php?action=nothing", 400);
    pair.page("/wp-json/wp/v2/users/me", 401);
    let feed = pair.page("/feed/", 200);
    let etag = feed.header("etag").expect("an ETag");
    let known = |visitor: &mut Visitor| {
        let since = feed.header("last-modified").expect("a time");
        visitor.request("GET", "/feed/", &[("If-None-Match", etag), ("If-Modified-Since", since)], b"")
    };
    pair.request("/feed/, known", 304, known);
    let call = "<methodCall><methodName>demo.addTwoNumbers</methodName><params><param><value><int>5</int></value></param>\
        <param><value><int>7</int></value></param></params></methodCall>";
    let xml = [("Content-Type", "text/xml")];
    let sum =
        pair.request("a call by XML-RPC", 200, |visitor| visitor.request("POST", "/xmlrpc.php", &xml, call.as_bytes()));
    assert!(sum.text().contains("<int>12</int>"), "{}", sum.text());
    pair.request("HEAD /", 200, |visitor| visitor.request("HEAD", "/", &[], b""));
}

/// The servers' own answers: the words of an error page, ETags and how text is labelled are theirs.
fn files(pair: &mut Pair) {
    pair.forget();
    for path in
        ["/wp-includes/css/dashicons.min.css", "/wp-includes/js/jquery/jquery.min.js", "/wp-includes/images/blank.gif"]
    {
        let (ours, theirs) = (pair.ours.get(path), pair.theirs.get(path));
        assert_eq!((ours.status, &ours.body), (200, &theirs.body), "{path}");
        assert_eq!(ours.header("last-modified"), theirs.header("last-modified"), "{path}");
        assert_eq!(media_type(&ours), media_type(&theirs), "{path}");
    }
    for (path, place) in [("/wp-admin", "/wp-admin/"), ("/wp-admin?a=1", "/wp-admin/?a=1")] {
        let (ours, theirs) = (pair.ours.get(path), pair.theirs.get(path));
        assert_eq!((ours.status, theirs.status), (301, 301), "{path}");
        assert_eq!(theirs.header("location"), Some(format!("http://blog.test{place}").as_str()));
        // Relative, as RFC 9110 §10.2.2 allows.
        let location = ours.header("location").expect("a location");
        assert_eq!(location.strip_prefix("http://blog.test").unwrap_or(location), place);
    }
}

/// The type of an answer without its charset. JavaScript has had two names, RFC 9239.
fn media_type(answer: &Response) -> Option<&str> {
    let kind = answer.header("content-type")?.split(';').next()?.trim();
    Some(if kind == "application/javascript" { "text/javascript" } else { kind })
}
