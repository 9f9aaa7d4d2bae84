//! WordPress 6.1: its pages and feeds, and working in it as an editor does.

use std::fs;
use std::process::Command;

use tests::closed_list::{Pattern, decimal, difference, hexadecimal};
use tests::compare::{Build, Pair, Site, Visitor, between, value};
use tests::peer::{Database, run_to_end, web_user};
use tests::server::copy;
use tests::{Response, wait_until};

use crate::{GIF, is_streamed, leads_to, update, upload};

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
        let told = place.join("wp-db.php");
        let text = fs::read_to_string(&told).expect("wp-db.php").replace("'wordpress'", &format!("'{name}'"));
        fs::write(&told, text).expect("wp-db.php");
        copy(&place.join("mu-plugins"), &place.join("htdocs/wp-content/mu-plugins"));
        let plugins = place.join("htdocs/wp-content/plugins");
        copy(&place.join("plugins"), &plugins);
        // It updates itself.
        run_to_end(Command::new("chown").args(["-R", &web_user()]).arg(plugins.join("marker")));
    }
    site
}

#[test]
fn wordpress_answers_as_under_fpm() {
    let database = Database::start();
    let build = Build::new("wordpress", Some(&database));
    let site = site(&build, &database);
    let list = [NONCES, PASSWORDS, AVATARS, SECRETS, MOMENTS, PLACES];
    let mut pair = Pair::start(&site, "htdocs", &[&list], |setup| setup);
    pages(&mut pair);
    files(&mut pair);
    pair.flow("a login");
    log_in(&mut pair);
    desk(&mut pair);
    options(&mut pair);
    posts(&mut pair);
    media(&mut pair, &site);
    rest(&mut pair);
    plugins(&mut pair, &site);
    comments(&mut pair);
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

/// A wrong password, then the right one.
pub fn log_in(pair: &mut Pair) {
    pair.get("/wp-login.php");
    let mut send = |password: &str| {
        let form =
            [("log", "admin"), ("pwd", password), ("testcookie", "1"), ("redirect_to", "http://blog.test/wp-admin/")];
        pair.same("the form", |visitor| visitor.post_form("/wp-login.php", &form))
    };
    assert!(send("wrong").text().contains("is incorrect"));
    leads_to(&send("admin-test-pw"), "http://blog.test/wp-admin/");
}

fn log_out(pair: &mut Pair) {
    pair.go_on("a logout");
    let find = |page: &str| between(page, "wp-login.php?action=logout&#038;_wpnonce=", "'").to_owned();
    let bye = pair.submit("the link", "/wp-admin/profile.php", find, |visitor, nonce| {
        visitor.get(&format!("/wp-login.php?action=logout&_wpnonce={nonce}"))
    });
    assert_eq!(bye.status, 302, "{}", bye.text());
    assert_eq!(pair.get("/wp-admin/").status, 302);
    pair.flow("a password that was lost");
    let told = pair.same("the form", |visitor| {
        visitor.post_form("/wp-login.php?action=lostpassword", &[("user_login", "admin"), ("redirect_to", "")])
    });
    leads_to(&told, "/wp-login.php?checkemail=confirm");
}

fn desk(pair: &mut Pair) {
    pair.go_on("the administration");
    assert!(pair.get("/wp-admin/").text().contains("<title>Dashboard"));
    for page in [
        "edit.php",
        "edit.php?post_type=page",
        "edit.php?s=lorem&cat=2",
        "post-new.php",
        "post.php?post=5&action=edit",
        "upload.php?mode=list",
        "upload.php",
        "media-new.php",
        "edit-comments.php",
        "edit-tags.php?taxonomy=category",
        "users.php",
        "user-new.php",
        "profile.php",
        "plugins.php",
        "import.php",
        "export.php",
        "options-writing.php",
        "options-reading.php",
        "options-discussion.php",
        "options-media.php",
        "privacy.php",
        "credits.php",
    ] {
        let answer = pair.get(&format!("/wp-admin/{page}"));
        assert_eq!(answer.status, 200, "{page}");
    }
    // The block theme has none.
    assert_eq!(pair.get("/wp-admin/widgets.php").status, 500);
    assert_eq!(pair.get("/wp-admin/admin.php?page=nothing").status, 403);
}

fn options(pair: &mut Pair) {
    pair.go_on("options");
    let nonce = value("_wpnonce");
    let saved = pair.submit("for readers", "/wp-admin/options-reading.php", &nonce, |visitor, nonce| {
        let form = [
            ("option_page", "reading"),
            ("action", "update"),
            ("_wpnonce", nonce),
            ("_wp_http_referer", "/wp-admin/options-reading.php"),
            ("show_on_front", "posts"),
            ("page_on_front", "0"),
            ("page_for_posts", "0"),
            ("posts_per_page", "7"),
            ("posts_per_rss", "3"),
            ("rss_use_excerpt", "1"),
            ("blog_public", "1"),
        ];
        visitor.post_form("/wp-admin/options.php", &form)
    });
    leads_to(&saved, "/wp-admin/options-reading.php?settings-updated=true");
    assert!(pair.get("/wp-admin/options-reading.php?settings-updated=true").text().contains("Settings saved."));
    assert_eq!(pair.get("/feed/").text().matches("<item>").count(), 3);
    let forged =
        [("option_page", "reading"), ("action", "update"), ("_wpnonce", "0123456789"), ("posts_per_page", "1")];
    assert_eq!(pair.same("forged", |visitor| visitor.post_form("/wp-admin/options.php", &forged)).status, 403);

    // Its page names the web server it has found, so the two differ in words about it.
    let saved = pair.same("of addresses", |visitor| {
        let page = visitor.get("/wp-admin/options-permalink.php").text();
        let form = [
            ("_wpnonce", &*nonce(&page)),
            ("_wp_http_referer", "/wp-admin/options-permalink.php"),
            ("selection", "custom"),
            ("permalink_structure", "/%postname%/"),
            ("category_base", ""),
            ("tag_base", ""),
        ];
        visitor.post_form("/wp-admin/options-permalink.php", &form)
    });
    leads_to(&saved, "http://blog.test/wp-admin/options-permalink.php?settings-updated=true");
    for path in ["/category/news/", "/tag/tag3/", "/author/admin/", "/2023/11/", "/wp-sitemap.xml", "/page/3/"] {
        assert_eq!(pair.get(path).status, 200, "{path}");
    }
}

fn posts(pair: &mut Pair) {
    pair.go_on("posts");
    let content = "<!-- wp:paragraph --><p>Fresh from the press.</p><!-- /wp:paragraph -->";
    let text = format!(r#"{{"title":"News of today","content":"{content}","status":"publish"}}"#);
    let send = |visitor: &mut Visitor, nonce: &str| {
        let headers = [("Content-Type", "application/json"), ("X-WP-Nonce", nonce)];
        visitor.request("POST", "/wp-json/wp/v2/posts", &headers, text.as_bytes())
    };
    assert_eq!(pair.same("by REST with a wrong nonce", |visitor| send(visitor, "0123456789")).status, 403);
    let stored = pair.submit("by REST", "/wp-admin/post-new.php", rest_nonce, send);
    assert_eq!(stored.status, 201, "{}", stored.text());
    let id = between(&stored.text(), "\"id\":", ",").to_owned();
    let edit = format!("/wp-admin/post.php?post={id}&action=edit");
    let changed = pair.submit("by the edit form", &edit, value("_wpnonce"), |visitor, nonce| {
        let form = [
            ("action", "editpost"),
            ("post_type", "post"),
            ("post_ID", &id),
            ("_wpnonce", nonce),
            ("post_title", "News of \"today\" & tomorrow"),
            ("content", "Ink is dry."),
            ("original_post_status", "publish"),
            ("post_status", "publish"),
            ("save", "Update"),
        ];
        visitor.post_form("/wp-admin/post.php", &form)
    });
    leads_to(&changed, &format!("http://blog.test/wp-admin/post.php?post={id}&action=edit&message=1"));
    assert!(pair.get("/news-of-today/").text().contains("Ink is dry."));
    let find = |page: &str| between(page, "name=\"_inline_edit\" value=\"", "\"").to_owned();
    let row = pair.submit("by quick edit", "/wp-admin/edit.php", find, |visitor, nonce| {
        let form = [
            ("action", "inline-save"),
            ("post_type", "post"),
            ("post_ID", &id),
            ("_inline_edit", nonce),
            ("post_title", "News of today, quickly"),
            ("post_name", "news-of-today"),
            ("screen", "edit-post"),
            ("post_view", "list"),
            ("_status", "publish"),
        ];
        visitor.post_form("/wp-admin/admin-ajax.php", &form)
    });
    assert!(row.status == 200 && row.text().contains("News of today, quickly"), "{}", row.text());
    let find =
        |page: &str| between(page, &format!("post.php?post={id}&amp;action=trash&amp;_wpnonce="), "\"").to_owned();
    let gone = pair.submit("to the trash", "/wp-admin/edit.php", find, |visitor, nonce| {
        visitor.get(&format!("/wp-admin/post.php?post={id}&action=trash&_wpnonce={nonce}"))
    });
    assert_eq!(gone.status, 302);
    assert_eq!(pair.get("/news-of-today/").status, 404);
}

fn rest_nonce(page: &str) -> String {
    between(page, "createNonceMiddleware( \"", "\"").to_owned()
}

fn media(pair: &mut Pair, site: &Site) {
    pair.go_on("media");
    let picture = fs::read(site.ours.join("htdocs/wp-includes/images/w-logo-blue.png")).expect("a picture");
    let stored =
        pair.submit("as the library uploads", "/wp-admin/media-new.php", value("_wpnonce"), |visitor, nonce| {
            let fields = [("action", "upload-attachment"), ("_wpnonce", nonce)];
            upload(visitor, "/wp-admin/async-upload.php", &fields, &[("async-upload", "pixel.gif", "image/gif", GIF)])
        });
    let text = stored.text();
    assert!(stored.status == 200 && text.starts_with("{\"success\":true"), "{text}");
    let stored = pair.submit("by the plain form", "/wp-admin/media-new.php", value("_wpnonce"), |visitor, nonce| {
        let fields = [("_wpnonce", nonce), ("html-upload", "Upload"), ("post_id", "0")];
        upload(visitor, "/wp-admin/media-new.php", &fields, &[("async-upload", "logo.png", "image/png", &picture)])
    });
    leads_to(&stored, "http://blog.test/wp-admin/upload.php");
    let refused =
        pair.submit("of a kind that is refused", "/wp-admin/media-new.php", value("_wpnonce"), |visitor, nonce| {
            let fields = [("action", "upload-attachment"), ("_wpnonce", nonce)];
            upload(visitor, "/wp-admin/async-upload.php", &fields, &[("async-upload", "a.php", "text/plain", b"<?php")])
        });
    assert!(refused.text().contains("not allowed to upload this file type"), "{}", refused.text());
    assert!(pair.get("/wp-admin/upload.php?mode=list").text().contains("logo.png"));
    let address = between(&text, "\"url\":\"", "\"").replace("\\/", "/");
    let address = address.strip_prefix("http://blog.test").expect("a picture of this site");
    for visitor in [&mut pair.ours, &mut pair.theirs] {
        let picture = visitor.get(address);
        assert_eq!((picture.status, picture.header("content-type"), &*picture.body), (200, Some("image/gif"), GIF));
    }
    let place = |root: &std::path::Path| root.join("htdocs/wp-content/uploads");
    let names = pair.same_files(&place(&site.ours), &place(&site.theirs));
    assert!(names.iter().any(|name| name.ends_with("/logo.png")), "{names:?}");
}

fn rest(pair: &mut Pair) {
    pair.go_on("REST");
    let send = |method: &'static str, path: &'static str, body: &'static str| {
        move |visitor: &mut Visitor, nonce: &str| {
            let headers = [("Content-Type", "application/json"), ("X-WP-Nonce", nonce)];
            visitor.request(method, path, &headers, body.as_bytes())
        }
    };
    let form = "/wp-admin/post-new.php";
    let name = "{\"name\":\"Fresh\",\"description\":\"<b>Ä</b>\"}";
    for (method, path, body, status) in [
        ("GET", "/wp-json/wp/v2/users/me?context=edit", "", 200),
        ("GET", "/wp-json/wp/v2/settings", "", 200),
        ("POST", "/wp-json/wp/v2/settings", "{\"description\":\"Just a test\"}", 200),
        ("POST", "/wp-json/wp/v2/categories", name, 201),
        ("POST", "/wp-json/wp/v2/categories", name, 400),
        ("POST", "/wp-json/wp/v2/posts", "{not json", 400),
        ("PUT", "/wp-json/wp/v2/posts/9", "{\"sticky\":true}", 200),
        ("OPTIONS", "/wp-json/wp/v2/posts/9", "", 200),
        ("DELETE", "/wp-json/wp/v2/posts/20?force=true", "", 200),
    ] {
        let answer = pair.submit(&format!("{method} {path}"), form, rest_nonce, send(method, path, body));
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
}

fn plugins(pair: &mut Pair, site: &Site) {
    pair.go_on("a plugin");
    let switch = |pair: &mut Pair, what: &'static str| {
        let find = |page: &str| {
            let link = between(page, &format!("plugins.php?action={what}&amp;plugin=marker%2Fmarker.php"), "\"");
            link.split_once("_wpnonce=").expect("a nonce").1.to_owned()
        };
        pair.submit(what, "/wp-admin/plugins.php", find, |visitor, nonce| {
            visitor.get(&format!("/wp-admin/plugins.php?action={what}&plugin=marker%2Fmarker.php&_wpnonce={nonce}"))
        })
    };
    assert!(!pair.get("/").text().contains("Marker 1.0"));
    assert_eq!(switch(pair, "activate").status, 302);
    assert!(pair.get("/wp-admin/plugins.php?activate=true").text().contains("Plugin activated."));
    assert!(pair.get("/").text().contains("Marker 1.0"));
    assert_eq!(pair.get("/wp-json/marker/v1/version").text(), r#"{"version":"1.0"}"#);
    assert!(is_streamed(&pair.get("/?marker=stream")));
    leads_to(&pair.get("/?marker=redirect"), "http://blog.test/page-1/");
    leads_to(&pair.get("/?marker=elsewhere"), "http://blog.test/wp-admin/");
    for (what, status) in [("denied", 403), ("json", 201), ("fatal", 500), ("throw", 500)] {
        assert_eq!(pair.get(&format!("/?marker={what}")).status, status, "{what}");
    }

    assert_eq!(pair.get("/?marker=ticks").text(), "0");
    let cron = pair.get("/wp-cron.php?doing_wp_cron");
    assert_eq!((cron.status, cron.text().as_str()), (200, ""));
    // It runs on after its answer.
    for visitor in [&mut pair.ours, &mut pair.theirs] {
        wait_until("wp-cron has run", 30, || visitor.get("/?marker=ticks").text() == "1");
    }
    update::by_wordpress(pair, site);
    assert_eq!(switch(pair, "deactivate").status, 302);
    assert!(!pair.get("/").text().contains("Marker 1."));
}

fn comments(pair: &mut Pair) {
    let say = |pair: &mut Pair, what: &str, text: &str| {
        let find = |page: &str| between(page, "name='comment_post_ID' value='", "'").to_owned();
        pair.submit(what, "/post-5/", find, |visitor, id| {
            let form = [
                ("author", "A stranger"),
                ("email", "stranger@example.org"),
                ("url", ""),
                ("comment", text),
                ("comment_post_ID", id),
                ("comment_parent", "0"),
                ("wp-comment-cookies-consent", "yes"),
                ("submit", "Post Comment"),
            ];
            visitor.post_form("/wp-comments-post.php", &form)
        })
    };
    pair.flow("a comment");
    assert_eq!(say(pair, "without a word", "").status, 200);
    let held = say(pair, "held", "Strange <b>words</b> & <script>more</script>");
    let place =
        held.header("location").and_then(|place| place.strip_prefix("http://blog.test")).expect("a place").to_owned();
    let page = pair.get(place.split('#').next().expect("a path"));
    assert!(page.text().contains("awaiting moderation"), "{place}");
    assert_eq!(say(pair, "said twice", "Strange <b>words</b> & <script>more</script>").status, 409);
    assert!(!pair.page("/post-5/", 200).text().contains("Strange"), "held");

    pair.flow("moderation");
    log_in(pair);
    let find = |page: &str| {
        let row = between(page, "comment_status=moderated", "</html>").to_owned();
        let link = between(&row, "action=approvecomment", "\"");
        let id = between(&row, "id='comment-", "'");
        format!("c={id}&_wpnonce={}", link.split_once("_wpnonce=").expect("a nonce").1)
    };
    let approved =
        pair.submit("approved", "/wp-admin/edit-comments.php?comment_status=moderated", find, |visitor, found| {
            visitor.get(&format!("/wp-admin/comment.php?action=approvecomment&{found}"))
        });
    assert_eq!(approved.status, 302, "{}", approved.text());
    assert!(pair.get("/post-5/").text().contains("Strange <b>words</b>"));
    assert!(pair.get("/comments/feed/").text().contains("A stranger"));
}
