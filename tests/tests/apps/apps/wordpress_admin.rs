//! Working in WordPress: as an editor, and as a stranger who comments.

use std::fs;

use tests::compare::{Pair, Site, Visitor, between, value};
use tests::wait_until;

use super::{GIF, is_streamed, leads_to, update, upload};

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

/// A logout; then a password that was lost.
pub fn log_out(pair: &mut Pair) {
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

/// The pages of the administration.
pub fn desk(pair: &mut Pair) {
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

/// Options are saved, and tell on the pages.
pub fn options(pair: &mut Pair) {
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

/// A post by REST, by the edit form, by quick edit, and into the trash.
pub fn posts(pair: &mut Pair) {
    pair.go_on("posts");
    let content = "<!-- wp:paragraph --><p>Fresh from the press.</p><!-- /wp:paragraph -->";
    let text = format!(r#"{{"title":"News of today","content":"{content}","status":"publish"}}"#);
    let send = |visitor: &mut Visitor, nonce: &str| {
        let headers = [("Content-Type", "application/json"), ("X-WP-Nonce", nonce)];
        visitor.request("POST", "/wp-json/wp/v2/posts", &headers, text.as_bytes())
    };
    assert_eq!(pair.same("by REST with a wrong nonce", |visitor| send(visitor, "0123456789")).status, 403);
    let without = pair.submit("by REST without cookies", "/wp-admin/post-new.php", rest_nonce, |visitor, nonce| {
        let jar = std::mem::take(&mut visitor.cookies);
        let answer = send(visitor, nonce);
        visitor.cookies = jar;
        answer
    });
    assert_eq!(without.status, 403);
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

/// Uploads, of a kind that is refused too.
pub fn media(pair: &mut Pair, site: &Site) {
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

/// What else REST does with the session's nonce.
pub fn rest(pair: &mut Pair) {
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

/// A plugin is activated, answers, has its turn in wp-cron, is updated and deactivated.
pub fn plugins(pair: &mut Pair, site: &Site) {
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

/// A comment by a stranger, held and approved.
pub fn comments(pair: &mut Pair) {
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
    // WordPress 6.1 sees the duplicate through its filters, 7.1 does not.
    let twice = say(pair, "said twice", "Strange <b>words</b> & <script>more</script>").status;
    assert!(twice == 409 || twice == 302, "{twice}");
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
