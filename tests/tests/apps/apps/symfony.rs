//! Symfony 5.4 with PHP 8.2, Symfony 7.4 with later ones: classic, and all of it again from a snapshot.

use tests::closed_list::{EXPIRES, Pattern, base64, decimal};
use tests::compare::{Build, Pair, Site, Visitor, between, value};
use tests::snapshot::isolations;
use tests::{Setup, amount};

use super::{GIF, get_with, is_streamed, leads_to, upload};

/// Tokens of forms.
pub const CSRF: Pattern = Pattern {
    name: "Symfony's CSRF tokens",
    before: &[
        "name=\"_csrf_token\" value=\"",
        "name=\"_token\" value=\"",
        "name=\"contact[_token]\" value=\"",
        "name=\"contact[_token]\" data-controller=\"csrf-protection\" value=\"",
    ],
    of: base64,
    length: (60, 160),
    after: "\"",
};
/// The application counts its answers since it was booted; a snapshot keeps what the warm-up counted.
const WARMTH: Pattern = Pattern {
    name: "answers since the boot, of a kept kernel",
    before: &["x-served-by-process: "],
    of: decimal,
    length: (1, 1),
    after: "",
};

/// Every page, form, session and file of a Symfony application is the same as under nginx with PHP-FPM.
#[test]
fn symfony_answers_as_under_fpm() {
    let build = Build::new("symfony");
    let site = build.site();
    symfony(Pair::start(&site, "public", &[&[CSRF, EXPIRES]], |setup| setup), &site, "Symfony");
}

/// The kernel booted and warmed by hand before the snapshot; audited.
#[test]
fn symfony_from_a_snapshot_answers_as_under_fpm() {
    let build = Build::new("symfony");
    for isolation in isolations().iter().take(amount(1, 2)) {
        let site = build.site();
        let configure = |setup: Setup| {
            setup
                .application("front_controller = \"snapshot.php\"")
                .application(&format!("isolation = \"{isolation}\""))
                .application("mode.\"snapshot.php\" = \"snapshot\"")
                .flag("--audit")
        };
        let pair = Pair::start(&site, "public", &[&[CSRF, EXPIRES, WARMTH]], configure);
        let served = |path: &str| pair.reprise.get(path).header("x-served-by-process").map(str::to_owned);
        assert_eq!((served("/"), served("/hello")), (Some("7".to_owned()), Some("7".to_owned())), "from the snapshot");
        let log = symfony(pair, &site, &format!("Symfony from a snapshot, {isolation}"));
        assert!(log.contains(&format!("/snapshot.php is booted, isolation {isolation}")), "{log}");
        assert!(!log.contains("recycled"), "{log}");
    }
}

/// All of it. Returns Reprise's log.
pub fn symfony(mut pair: Pair, site: &Site, name: &str) -> String {
    pages(&mut pair);
    errors(&mut pair);
    requests(&mut pair);
    session(&mut pair);
    login(&mut pair);
    forms(&mut pair);
    files(&mut pair, site);
    pair.report(name)
}

fn pages(pair: &mut Pair) {
    pair.pages(&["/", "/?page=3", "/post/5", "/category/news", "/tag/tag3", "/search?q=12", "/archive", "/authors"]);
    pair.pages(&["/author/2", "/feed.xml", "/hello", "/hello/W%C3%B6rld", "/services", "/cookie", "/forward"]);
    pair.pages(&["/api/posts?limit=3", "/api/posts/7", "/api/posts/7/comments", "/api/tags", "/login", "/contact"]);
    pair.page("/stream", 200);
    assert!(is_streamed(&pair.page("/report.csv", 200)));
    leads_to(&pair.page("/hello/", 301), "http://blog.test/hello");
    for status in [301, 302, 303, 307, 308] {
        leads_to(&pair.page(&format!("/away/{status}"), status), "https://other.example/a?b=c#d");
    }
    pair.page("/exit", 202);
    pair.page("/nothing", 204);
    pair.page("/cached", 200);
    // At URLs of their own, so that the application responds, not the cache.
    pair.request("/cached, known", 304, |visitor| get_with(visitor, "/cached?known", "If-None-Match", "\"v1\""));
    let since = "Tue, 14 Nov 2023 22:13:20 GMT";
    pair.request("/cached, as old", 304, |visitor| get_with(visitor, "/cached?old", "If-Modified-Since", since));
    pair.request("/ in French", 200, |visitor| get_with(visitor, "/", "Accept-Language", "fr-FR, fr;q=0.9"));
}

fn errors(pair: &mut Pair) {
    for status in [400, 403, 404, 409, 410, 429, 500, 503] {
        pair.page(&format!("/error/{status}"), status);
    }
    pair.page("/error/type", 500);
    pair.page("/nowhere", 404);
    pair.page("/post/999", 404);
    pair.page("/api/posts/999", 404);
    pair.request("POST /hello", 405, |visitor| visitor.post_form("/hello", &[("a", "1")]));
    // What was sent is sent; the error page comes behind it.
    let late = pair.page("/error/late", 200);
    assert!(late.text().starts_with("half of it\n"), "{}", late.text());
}

fn requests(pair: &mut Pair) {
    pair.page("/api/echo?a=1&b[]=2&c%20d=%2B&e", 200);
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("X-Thing", "a, b"), ("Cookie", "c=1; d=2")];
    let echo = pair
        .request("POST /api/echo", 200, |visitor| visitor.request("POST", "/api/echo?q=1", &form, b"a=1&b%5B%5D=2"));
    assert!(echo.text().contains("\"post\":{\"a\":\"1\",\"b\":[\"2\"]}"), "{}", echo.text());
    let json = [("Content-Type", "application/json"), ("Authorization", "Basic dTpw")];
    for method in ["PUT", "PATCH", "DELETE"] {
        let what = format!("{method} /api/echo");
        pair.request(&what, 200, |visitor| visitor.request(method, "/api/echo", &json, b"{\"a\":1}"));
    }
    let echo = pair.request("upload to /api/echo", 200, |visitor| {
        upload(visitor, "/api/echo", &[("title", "t")], &[("file", "a b.txt", "text/plain", &[b'x'; 100_000])])
    });
    assert!(echo.text().contains("[\"a b.txt\",100000]"), "{}", echo.text());
    pair.request("HEAD /", 200, |visitor| visitor.request("HEAD", "/", &[], b""));
    pair.request("DELETE /nothing", 204, |visitor| visitor.request("DELETE", "/nothing", &[], b""));
}

fn session(pair: &mut Pair) {
    pair.flow("a session");
    for visits in ["visits 1", "visits 2", "visits 3"] {
        assert_eq!(pair.get("/session").text(), visits);
    }
    assert_eq!(pair.get("/session/clear").text(), "cleared");
    assert_eq!(pair.get("/session").text(), "visits 1");

    pair.flow("a language");
    leads_to(&pair.get("/locale/de"), "/");
    assert!(pair.get("/about").text().contains("<html lang=\"de\">"));
}

fn login(pair: &mut Pair) {
    let login = |pair: &mut Pair, what: &str, password: &str| {
        pair.submit(what, "/login", value("_csrf_token"), |visitor, token| {
            visitor.post_form("/login", &[("_username", "editor"), ("_password", password), ("_csrf_token", token)])
        })
    };
    pair.flow("a login");
    leads_to(&pair.get("/admin"), "http://blog.test/login");
    leads_to(&login(pair, "a wrong one", "wrong"), "http://blog.test/login");
    assert!(pair.get("/login").text().contains("Invalid credentials."));
    let forged = [("_username", "editor"), ("_password", "editor"), ("_csrf_token", "forged")];
    pair.same("a forged one", |visitor| visitor.post_form("/login", &forged));
    assert!(pair.get("/login").text().contains("Invalid CSRF token."));
    leads_to(&login(pair, "the right one", "editor"), "http://blog.test/admin");
    assert!(pair.get("/admin").text().contains("Admin editor"));
    assert!(pair.get("/post/5").text().contains("Log out editor"));
    leads_to(&pair.get("/logout"), "http://blog.test/");
    assert_eq!(pair.get("/admin").status, 302);
}

fn forms(pair: &mut Pair) {
    let send = |visitor: &mut Visitor, token: &str, email: &str, message: &str| {
        let form = [("[name]", "Ä \"quoted\""), ("[email]", email), ("[topic]", "praise"), ("[message]", message)];
        let names: Vec<String> = form.iter().map(|(name, _)| format!("contact{name}")).collect();
        let mut form: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(form.iter().map(|row| row.1)).collect();
        form.push(("contact[_token]", token));
        visitor.post_form("/contact", &form)
    };
    // Symfony 7 has an attribute for its script before the value.
    let token = |page: &str| between(between(page, "name=\"contact[_token]\"", "/>"), "value=\"", "\"").to_owned();
    let message = "Line one,\r\nline <two>.";
    pair.flow("a form");
    let wrong =
        pair.submit("with errors", "/contact", token, |visitor, token| send(visitor, token, "no address", "short"));
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains("This value is not a valid email address."), "{}", wrong.text());
    let forged = pair.same("with a forged token", |visitor| send(visitor, "forged", "a@b.example", message));
    assert!(forged.status == 422 && forged.text().contains("The CSRF token is invalid."), "{}", forged.text());
    let kept =
        pair.submit("filled in", "/contact", token, |visitor, token| send(visitor, token, "a@b.example", message));
    assert_eq!(kept.status, 303, "{}", kept.text());
    leads_to(&kept, "/contact/messages");
    let list = pair.get("/contact/messages").text();
    assert!(list.contains("Your message is kept") && list.contains("line &lt;two&gt;."), "{list}");
    assert!(!pair.get("/contact/messages").text().contains("Your message is kept"), "once");

    let say = |visitor: &mut Visitor, token: &str| {
        visitor.post_form("/post/9/comment", &[("author", "Reader"), ("text", "Well said & done"), ("_token", token)])
    };
    pair.flow("a comment");
    leads_to(&pair.submit("said", "/post/9/comment", value("_token"), say), "/post/9");
    let post = pair.get("/post/9").text();
    assert!(post.contains("Thank you") && post.contains("Well said &amp; done"), "{post}");
    pair.flow("a comment by a stranger");
    leads_to(&pair.same("with a forged token", |visitor| say(visitor, "forged")), "http://blog.test/login");
    assert!(pair.page("/post/9", 200).text().contains("Well said &amp; done"));
}

fn files(pair: &mut Pair, site: &Site) {
    let noise: Vec<u8> = (0..300_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    pair.flow("uploads");
    let sent = pair.submit("three files", "/files", value("_token"), |visitor, token| {
        let files: [(&str, &str, &str, &[u8]); 3] = [
            ("files[]", "noise.bin", "application/octet-stream", &noise),
            ("files[]", "pixel.gif", "image/gif", GIF),
            ("files[]", "large.txt", "text/plain", &[b'x'; 2_200_000]),
        ];
        upload(visitor, "/files", &[("title", "a set"), ("_token", token)], &files)
    });
    leads_to(&sent, "/files");
    let list = pair.get("/files").text();
    assert!(list.contains("noise.bin (application/octet-stream) for a set") && list.contains("exceeds"), "{list}");
    let form = [("_token", "forged")];
    pair.same("with a forged token", |visitor| upload(visitor, "/files", &form, &[("files[]", "a", "b/c", b"d")]));

    pair.flow("downloads");
    let whole = pair.get("/files/noise.bin");
    assert_eq!((whole.status, &whole.body), (200, &noise));
    let etag = whole.header("etag").expect("an ETag").to_owned();
    let known = pair.same("one that is known", |visitor| get_with(visitor, "/files/noise.bin", "If-None-Match", &etag));
    assert_eq!(known.status, 304);
    for range in ["bytes=0-9", "bytes=100000-", "bytes=-5", "bytes=900000-"] {
        pair.same(range, |visitor| get_with(visitor, "/files/noise.bin", "Range", range));
    }
    pair.same("HEAD", |visitor| visitor.request("HEAD", "/files/pixel.gif", &[], b""));
    assert_eq!(pair.get("/files/none.gif").status, 404);

    let place = |root: &std::path::Path| root.join("var/uploads");
    assert_eq!(pair.same_files(&place(&site.ours), &place(&site.theirs)), ["noise.bin", "pixel.gif"]);
}
