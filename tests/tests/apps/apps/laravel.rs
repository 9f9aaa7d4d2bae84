//! Laravel 8 with PHP 8.2, Laravel 13 with later ones: Eloquent, Blade, sessions, guards, signed and throttled routes.

use tests::closed_list::{Pattern, base64};
use tests::compare::{Build, Pair, Site, Visitor, value};
use tests::peer::php_version;

use super::{GIF, get_with, is_streamed, leads_to, upload};

const CSRF: Pattern = Pattern {
    name: "Laravel's CSRF tokens",
    before: &["<meta name=\"csrf-token\" content=\"", "name=\"_token\" value=\""],
    of: base64,
    length: (40, 40),
    after: "\"",
};

/// Every page, error, form, login and file of a Laravel application is the same as under nginx with PHP-FPM.
#[test]
fn laravel_answers_as_under_fpm() {
    let build = Build::new("laravel");
    let site = build.site();
    let mut pair = Pair::start(&site, "public", &[&[CSRF]], |setup| setup);
    pages(&mut pair);
    errors(&mut pair);
    requests(&mut pair);
    sessions(&mut pair);
    login(&mut pair);
    forms(&mut pair);
    files(&mut pair, &site);
    pair.report("Laravel");
}

fn pages(pair: &mut Pair) {
    pair.pages(&["/", "/?page=3", "/post/5", "/category/news", "/tag/tag3", "/search?q=12", "/authors", "/hello"]);
    pair.pages(&["/api/posts?limit=3", "/api/posts/7", "/api/tags", "/api/categories", "/api/authors", "/section3/a"]);
    pair.pages(&["/login", "/contact", "/files", "/stream", "/cookies"]);
    assert!(is_streamed(&pair.page("/report", 200)));
    for status in [301, 302, 303, 307, 308] {
        leads_to(&pair.page(&format!("/away/{status}"), status), "https://other.example/a?b=c#d");
    }
    leads_to(&pair.page("/blog", 301), "/");
    pair.page("/exit", 202);
    pair.page("/nothing", 204);
    pair.page("/cached", 200);
    pair.request("/cached, known", 304, |visitor| get_with(visitor, "/cached", "If-None-Match", "\"v1\""));
}

fn errors(pair: &mut Pair) {
    for status in [401, 403, 404, 419, 429, 500, 503, 418] {
        pair.page(&format!("/error/{status}"), status);
    }
    pair.page("/error", 500);
    pair.page("/nowhere", 404);
    pair.page("/post/999", 404);
    pair.request("JSON of /nowhere", 404, |visitor| get_with(visitor, "/nowhere", "Accept", "application/json"));
    pair.request("JSON of /error", 500, |visitor| get_with(visitor, "/error", "Accept", "application/json"));
    pair.request("DELETE /hello", 405, |visitor| visitor.request("DELETE", "/hello", &[], b""));
    pair.request("POST without a token", 419, |visitor| visitor.post_form("/contact", &[("name", "a")]));
    // What it wrote is in PHP's buffer. flush() sends the headers since 8.4.
    pair.page("/late", if php_version() == "8.2" { 500 } else { 200 });
}

fn requests(pair: &mut Pair) {
    pair.page("/echo?a=1&b[]=2&c%20d=%2B&e", 200);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let echo = pair.request("POST /echo", 200, |visitor| {
        visitor.request("POST", "/echo?q=1", &form, b"name=%C3%84&empty=&spaces=+a+")
    });
    assert!(echo.text().contains("\"name\":\"\\u00c4\""), "{}", echo.text());
    let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
    pair.request("PUT /echo", 200, |visitor| visitor.request("PUT", "/echo", &json, b"{\"a\":[1,{\"b\":null}]}"));
    let check = |pair: &mut Pair, status: u16, body: &str| {
        pair.request(body, status, |visitor| visitor.request("POST", "/api/check", &json, body.as_bytes()))
    };
    check(pair, 200, "{\"n\":3,\"tags\":[\"a\",\"b\"]}");
    let refused = check(pair, 422, "{\"n\":12,\"tags\":[\"a\",\"1\"]}");
    assert!(refused.text().contains("The n is not in 1 to 9."), "{}", refused.text());
    pair.request("HEAD /", 200, |visitor| visitor.request("HEAD", "/", &[], b""));
    pair.request("OPTIONS /hello", 200, |visitor| visitor.request("OPTIONS", "/hello", &[], b""));
}

fn sessions(pair: &mut Pair) {
    pair.flow("a session");
    for visits in ["visits 1", "visits 2", "visits 3"] {
        assert_eq!(pair.get("/session").text(), visits);
    }
    pair.flow("encrypted cookies");
    assert_eq!(pair.get("/cookie").text(), "cookie none");
    pair.get("/cookies");
    assert_eq!(pair.get("/cookie").text(), "cookie a value");

    pair.flow("a signed address");
    let signed = pair.get("/sign");
    let place = signed.header("location").and_then(|place| place.strip_prefix("http://blog.test")).expect("a place");
    assert_eq!(pair.get(place).text(), "signed for reader");
    assert_eq!(pair.get(&place.replace("reader", "editor")).status, 403);
}

fn log_in(pair: &mut Pair, what: &str, password: &str, remember: &str) -> tests::Response {
    pair.submit(what, "/login", value("_token"), |visitor, token| {
        let form = [("email", "editor@example.org"), ("password", password), ("_token", token), ("remember", remember)];
        visitor.post_form("/login", &form)
    })
}

fn login(pair: &mut Pair) {
    pair.flow("a login");
    leads_to(&pair.get("/desk"), "http://blog.test/login");
    let refused = pair.same("JSON without a login", |visitor| get_with(visitor, "/me", "Accept", "application/json"));
    assert_eq!(refused.status, 401);
    leads_to(&log_in(pair, "a wrong one", "wrong", ""), "http://blog.test/login");
    assert!(pair.get("/login").text().contains("These credentials are not known."));
    leads_to(&log_in(pair, "the right one", "editor", ""), "http://blog.test/desk");
    assert!(pair.get("/desk").text().contains("Desk of Editor"));
    assert!(pair.get("/").text().contains(" Editor "));
    leads_to(&pair.get("/login"), "http://blog.test/desk");
    assert_eq!(pair.get("/me").text(), r#"{"id":1,"name":"Editor","email":"editor@example.org"}"#);
    let bye = pair.submit("logging out", "/desk", value("_token"), |visitor, token| {
        visitor.post_form("/logout", &[("_token", token)])
    });
    leads_to(&bye, "http://blog.test");
    leads_to(&pair.get("/desk"), "http://blog.test/login");

    pair.flow("a login that is remembered");
    log_in(pair, "the right one", "editor", "1");
    for visitor in [&mut pair.ours, &mut pair.theirs] {
        assert!(visitor.cookies.remove("test_session").is_some());
    }
    assert!(pair.get("/desk").text().contains("Desk of Editor, remembered"));
}

fn forms(pair: &mut Pair) {
    let send = |pair: &mut Pair, what: &str, email: &str, message: &str| {
        pair.submit(what, "/contact", value("_token"), |visitor, token| {
            let form = [("name", "Ä \"quoted\""), ("email", email), ("message", message), ("_token", token)];
            visitor.post_form("/contact", &form)
        })
    };
    pair.flow("a form");
    leads_to(&send(pair, "with errors", "no address", "short"), "http://blog.test/contact");
    let page = pair.get("/contact").text();
    assert!(page.contains("The email is no address.") && page.contains("value=\"no address\""), "{page}");
    leads_to(&send(pair, "filled in", "a@b.example", "Line one,\r\nline <two>."), "http://blog.test/contact");
    let page = pair.get("/contact").text();
    assert!(page.contains("Your message is kept") && page.contains("line &lt;two&gt;."), "{page}");
    assert!(!pair.get("/contact").text().contains("Your message is kept"), "once");

    pair.flow("a comment");
    let said = pair.submit("said", "/contact", value("_token"), |visitor, token| {
        visitor.post_form("/post/9/comment", &[("author", "Reader"), ("text", "Well & done"), ("_token", token)])
    });
    leads_to(&said, "http://blog.test/post/9");
    assert!(pair.get("/post/9").text().contains("Well &amp; done"));
}

fn files(pair: &mut Pair, site: &Site) {
    let add = |pair: &mut Pair, what: &str, files: &[(&str, &str, &str, &[u8])]| {
        pair.submit(what, "/files", value("_token"), |visitor: &mut Visitor, token| {
            upload(visitor, "/files", &[("title", "a set"), ("_token", token)], files)
        })
    };
    pair.flow("uploads");
    let text = "First line\nSecond one of text, and more.\n".repeat(2000);
    let files: [(&str, &str, &str, &[u8]); 2] =
        [("files[]", "long.txt", "text/plain", text.as_bytes()), ("files[]", "pixel.gif", "image/gif", GIF)];
    leads_to(&add(pair, "two files", &files), "http://blog.test/files");
    let page = pair.get("/files").text();
    assert!(page.contains("2 files for a set"), "{page}");
    add(pair, "one too large for the form", &[("files[]", "large.txt", "text/plain", &[b'x'; 300_000])]);
    assert!(pair.get("/files").text().contains("larger than 200 KiB"));
    add(pair, "one too large for PHP", &[("files[]", "huge.txt", "text/plain", &[b'x'; 2_200_000])]);
    assert!(pair.get("/files").text().contains("did not arrive"));
    add(pair, "one of another type", &[("files[]", "a.php", "text/plain", b"<?php echo 1;")]);
    assert!(pair.get("/files").text().contains("is not of type txt, gif"));

    pair.flow("downloads");
    assert_eq!(pair.get("/files/long.txt").text(), text);
    let range = pair.same("a range", |visitor| get_with(visitor, "/files/long.txt", "Range", "bytes=5-24"));
    assert_eq!((range.status, range.body.len()), (206, 20));
    assert_eq!(pair.get("/files/pixel.gif/download").body, GIF);
    assert_eq!(pair.get("/files/none.gif").status, 404);

    pair.flow("a deletion");
    let gone = pair.submit("by a form that says so", "/files", value("_token"), |visitor, token| {
        visitor.post_form("/files/pixel.gif", &[("_method", "DELETE"), ("_token", token)])
    });
    leads_to(&gone, "http://blog.test/files");
    let place = |root: &std::path::Path| root.join("storage/app/uploads");
    assert_eq!(pair.same_files(&place(&site.ours), &place(&site.theirs)), ["long.txt"]);
}
