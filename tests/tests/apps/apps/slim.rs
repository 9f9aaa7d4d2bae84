//! Slim 3 with PSR-7 objects, and PHP's own sessions.

use tests::closed_list::{Pattern, hexadecimal};
use tests::compare::{Build, Pair, Site, Visitor, value};

use super::{GIF, get_with, is_streamed, leads_to, upload};

const TOKEN: Pattern = Pattern {
    name: "the application's CSRF tokens",
    before: &["name=\"token\" value=\""],
    of: hexadecimal,
    length: (32, 32),
    after: "\"",
};

/// Every page, form, session and file of a Slim application is the same as under nginx with PHP-FPM.
#[test]
fn slim_answers_as_under_fpm() {
    let build = Build::new("slim");
    let site = build.site();
    let mut pair = Pair::start(&site, "public", &[&[TOKEN]], |setup| setup);
    pages(&mut pair);
    requests(&mut pair);
    sessions(&mut pair);
    forms(&mut pair);
    files(&mut pair, &site);
    pair.report("Slim");
}

fn pages(pair: &mut Pair) {
    pair.pages(&["/", "/post/5", "/api/posts", "/hello", "/hello/W%C3%B6rld", "/section3/x/y", "/cookies"]);
    pair.pages(&["/report", "/flush", "/cached"]);
    assert!(is_streamed(&pair.page("/stream", 200)));
    for status in [301, 302, 303, 307, 308] {
        leads_to(&pair.page(&format!("/away/{status}"), status), "https://other.example/a?b=c#d");
    }
    pair.page("/nothing", 204);
    pair.page("/teapot", 418);
    assert_eq!(pair.page("/reason", 404).reason, "Gone fishing");
    // At URLs of their own, so that the application responds, not the cache.
    pair.request("/cached, known", 304, |visitor| get_with(visitor, "/cached?known", "If-None-Match", "\"v1\""));
    for path in ["/error", "/error/type", "/error/memory"] {
        pair.page(path, 500);
    }
    for path in ["/post/999", "/files/none.gif"] {
        pair.page(path, 404);
    }
    pair.page("/protected", 401);
    pair.request("/protected, let in", 200, |visitor| get_with(visitor, "/protected", "Authorization", "Basic dTpw"));
}

fn requests(pair: &mut Pair) {
    // Where Host has no port, Slim's URI gets that of the server.
    let host = [("Host", "blog.test:8080"), ("Accept", "text/html")];
    let echo = pair.request("/echo", 200, |visitor| visitor.request("GET", "/echo?a=1&b[]=2", &host, b""));
    assert!(echo.text().contains("http:\\/\\/blog.test:8080\\/echo?a=1"), "{}", echo.text());
    pair.request("/nowhere", 404, |visitor| visitor.request("GET", "/nowhere", &host, b""));
    pair.request("DELETE /hello", 405, |visitor| visitor.request("DELETE", "/hello", &host, b""));
    let json = [("Host", "blog.test:8080"), ("Content-Type", "application/json"), ("Cookie", "a=1; b=%20")];
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let what = format!("{method} /echo");
        let echo = pair.request(&what, 200, |visitor| visitor.request(method, "/echo", &json, b"{\"a\":[1,2]}"));
        assert!(echo.text().contains(&format!("\"method\":\"{method}\"")), "{}", echo.text());
    }
    pair.request("DELETE /nothing", 204, |visitor| visitor.request("DELETE", "/nothing", &[], b""));
    pair.request("HEAD /post/5", 200, |visitor| visitor.request("HEAD", "/post/5", &[], b""));
}

fn sessions(pair: &mut Pair) {
    pair.flow("a session");
    for visits in ["visits 1", "visits 2", "visits 3"] {
        assert_eq!(pair.get("/session").text(), visits);
    }

    let log_in = |pair: &mut Pair, what: &str, password: &str| {
        pair.submit(what, "/login", value("token"), |visitor, token| {
            visitor.post_form("/login", &[("user", "editor"), ("password", password), ("token", token)])
        })
    };
    pair.flow("a login");
    leads_to(&pair.get("/desk"), "/login");
    leads_to(&log_in(pair, "a wrong one", "wrong"), "/login");
    assert!(pair.get("/login").text().contains("Not known: editor"));
    leads_to(&log_in(pair, "the right one", "editor"), "/desk");
    let bye = pair.submit("logging out", "/desk", value("token"), |visitor, token| {
        visitor.post_form("/logout", &[("token", token)])
    });
    leads_to(&bye, "/");
    leads_to(&pair.get("/desk"), "/login");
}

fn forms(pair: &mut Pair) {
    let say = |pair: &mut Pair, what: &str, text: &str| {
        pair.submit(what, "/post/9/comment", value("token"), |visitor, token| {
            visitor.post_form("/post/9/comment", &[("author", "Ä \"quoted\""), ("text", text), ("token", token)])
        })
    };
    pair.flow("a form");
    let wrong = say(pair, "with errors", "");
    assert!(wrong.status == 422 && wrong.text().contains("Nothing said"), "{}", wrong.text());
    leads_to(&say(pair, "filled in", "Line one,\r\nline <two>."), "/post/9/comment");
    assert!(pair.get("/post/9/comment").text().contains("line &lt;two&gt;."));
    let forged = [("author", "a"), ("text", "b"), ("token", "forged")];
    assert_eq!(pair.same("with a forged token", |visitor| visitor.post_form("/post/9/comment", &forged)).status, 403);
}

fn files(pair: &mut Pair, site: &Site) {
    let noise: Vec<u8> = (0..300_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    pair.flow("uploads");
    let sent = pair.submit("three files", "/files", value("token"), |visitor: &mut Visitor, token| {
        let files: [(&str, &str, &str, &[u8]); 3] = [
            ("files[]", "noise.bin", "application/octet-stream", &noise),
            ("files[]", "pixel.gif", "image/gif", GIF),
            ("files[]", "large.txt", "text/plain", &[b'x'; 2_200_000]),
        ];
        upload(visitor, "/files", &[("token", token)], &files)
    });
    leads_to(&sent, "/files");
    let list = pair.get("/files").text();
    assert!(list.contains("large.txt  0 error 1"), "{list}");
    assert_eq!(pair.get("/files/noise.bin").body, noise);
    assert_eq!(pair.get("/files/pixel.gif").body, GIF);
    pair.same("more than PHP takes", |visitor| {
        upload(visitor, "/files", &[], &[("a", "b", "c/d", &[b'x'; 8_380_000])])
    });
    let place = |root: &std::path::Path| root.join("data/uploads");
    assert_eq!(pair.same_files(&place(&site.ours), &place(&site.theirs)), ["noise.bin", "pixel.gif"]);
}
