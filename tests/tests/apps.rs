//! Real applications: their pages are those of nginx with PHP-FPM, and one can work in WordPress.
//!
//! Both servers get the same requests, with the same Host, on the same files; whatever else differs must be named below:
//! [`Normal`] for bodies, [`OTHERWISE`] and [`headers`] for headers. `--nocapture` prints how often each was used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::client::{encode, multipart};
use tests::peer::{Database, Fpm, run_to_end, web_user};
use tests::server::{Directory, project};
use tests::{Client, Response, Server, Setup};

const HOST: &str = "blog.test";

/// A part of a body that may differ, taken out before bodies are compared.
#[derive(Clone, Copy)]
struct Normal {
    name: &'static str,
    /// Where the part begins.
    before: &'static str,
    /// Where it ends.
    after: &'static str,
    /// What is compared of it.
    becomes: fn(&str) -> String,
}

/// Drawn for each visitor.
const SYMFONY_CSRF: Normal =
    Normal { name: "Symfony's CSRF token", before: "name=\"_csrf_token\" value=\"", after: "\"", becomes: nothing };
const LARAVEL_CSRF: Normal = Normal {
    name: "Laravel's CSRF token",
    before: "<meta name=\"csrf-token\" content=\"",
    after: "\"",
    becomes: nothing,
};
/// PHP-FPM shuffles `$_SERVER`; in Reprise headers stand in the order in which they came.
const HEADER_ORDER: Normal =
    Normal { name: "order of the request's headers", before: "\"headers\":{", after: "]}", becomes: sorted_lists };

fn nothing(value: &str) -> String {
    assert_ne!(value, "");
    String::new()
}

/// `"b":["2"],"a":["1"` by name. Good for values without `],` in them.
fn sorted_lists(members: &str) -> String {
    let mut lists: Vec<&str> = members.split("],").collect();
    lists.sort_unstable();
    lists.join("],")
}

/// Headers of the server and its connection, not of the application. Bodies are compared whole, so their length is too.
const OTHERWISE: [&str; 6] = ["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"];

/// An application's directory, built by tests/apps/setup.sh.
fn build(name: &str, database: Option<&Database>) -> Directory {
    let directory = Directory::new();
    let mut command = Command::new(project().join("tests/apps/setup.sh"));
    command.arg(&directory.0).arg(name).env("WEBUSER", web_user());
    command.envs(database.iter().flat_map(|database| database.environment()));
    run_to_end(&mut command);
    directory
}

/// A visitor with a cookie jar and a kept connection.
struct Visitor {
    client: Client,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    fn new(port: u16) -> Visitor {
        Visitor { client: Client::new(port), cookies: BTreeMap::new() }
    }

    fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    fn post_form(&mut self, path: &str, form: &[(&str, &str)]) -> Response {
        let body: Vec<String> =
            form.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        self.request("POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], body.join("&").as_bytes())
    }

    fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let jar: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let jar = jar.join("; ");
        let mut headers = headers.to_vec();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            headers.push(("Host", HOST));
        }
        if !jar.is_empty() {
            headers.push(("Cookie", &jar));
        }
        let answer = self.client.request(method, path, &headers, body);
        for cookie in answer.all("set-cookie") {
            let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            if cookie.to_ascii_lowercase().contains("max-age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

/// Reprise and nginx with PHP-FPM on one document root, each with a visitor.
struct Pair {
    ours: Visitor,
    theirs: Visitor,
    used: BTreeMap<&'static str, usize>,
    compared: usize,
    reprise: Server,
    fpm: Fpm,
}

impl Pair {
    fn start(root: &Path) -> Pair {
        Pair::of(root, Setup::root(root))
    }

    fn of(root: &Path, setup: Setup) -> Pair {
        let fpm = Fpm::start(root);
        let reprise = setup.start();
        let (ours, theirs) = (Visitor::new(reprise.port), Visitor::new(fpm.port));
        Pair { ours, theirs, used: BTreeMap::new(), compared: 0, reprise, fpm }
    }

    /// Two visitors that have not been here yet.
    fn forget(&mut self) {
        self.ours = Visitor::new(self.reprise.port);
        self.theirs = Visitor::new(self.fpm.port);
    }

    /// A GET of the same page by visitors without cookies.
    fn page(&mut self, path: &str, status: u16, normals: &[Normal]) -> Response {
        self.forget();
        let answer = self.same(path, normals, |visitor| visitor.get(path));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        answer
    }

    /// The same visit to both; panics unless status, headers and body are the same. Returns Reprise's answer.
    fn same(&mut self, what: &str, normals: &[Normal], visit: impl Fn(&mut Visitor) -> Response) -> Response {
        let (ours, theirs) = (visit(&mut self.ours), visit(&mut self.theirs));
        assert_eq!(
            (ours.status, &ours.reason),
            (theirs.status, &theirs.reason),
            "{what}: status of Reprise, of PHP-FPM"
        );
        assert_eq!(headers(&ours), headers(&theirs), "{what}: headers of Reprise, of PHP-FPM");
        let bodies = [self.normal(&ours.body, normals), self.normal(&theirs.body, normals)];
        if bodies[0] != bodies[1] {
            let at = bodies[0].iter().zip(&bodies[1]).take_while(|(a, b)| a == b).count();
            let near = |body: &[u8]| {
                String::from_utf8_lossy(&body[at.saturating_sub(200)..(at + 300).min(body.len())]).into_owned()
            };
            let [ours, theirs] = [near(&bodies[0]), near(&bodies[1])];
            panic!("{what}: bodies differ at byte {at}\n--- Reprise\n{ours}\n--- PHP-FPM\n{theirs}");
        }
        self.compared += 1;
        ours
    }

    fn normal(&mut self, body: &[u8], normals: &[Normal]) -> Vec<u8> {
        if normals.is_empty() {
            return body.to_vec();
        }
        let mut body = String::from_utf8(body.to_vec()).expect("text");
        for normal in normals {
            let mut pieces = body.split(normal.before);
            let mut whole = pieces.next().unwrap_or("").to_owned();
            for piece in pieces {
                let (part, rest) = piece.split_once(normal.after).expect("an end");
                whole.extend([normal.before, &(normal.becomes)(part), normal.after, rest]);
                *self.used.entry(normal.name).or_default() += 1;
            }
            body = whole;
        }
        body.into_bytes()
    }

    fn report(&self, name: &str) {
        println!("{name}: {} pages are the same; on both sides together: {:?}", self.compared, self.used);
    }
}

/// The application's headers, sorted. Values of cookies are drawn, and two times are a moment apart.
fn headers(answer: &Response) -> Vec<String> {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !OTHERWISE.contains(&name.as_str()))
        .map(|(name, value)| match name.as_str() {
            "set-cookie" => format!("set-cookie: {}", cookie_but_for_value_and_time(value)),
            // Requests that a process has handled. A snapshot keeps its six of the warm-up, for each request anew.
            "x-served-by-process" => format!("{name}: {}", value.parse::<u32>().map_or(0, |count| (count - 1) % 6 + 1)),
            "expires" if !value.contains(" 19") => "expires: a time".to_owned(),
            _ => format!("{name}: {value}"),
        })
        .collect();
    headers.sort();
    headers
}

fn cookie_but_for_value_and_time(cookie: &str) -> String {
    let parts = cookie.split("; ").enumerate().map(|(number, part)| match part.split_once('=') {
        Some((name, value)) if number == 0 && !value.is_empty() => format!("{name}=a value"),
        Some((name, _)) if name.eq_ignore_ascii_case("expires") => format!("{name}=a time"),
        // Counted from a moment too; 0 takes the cookie away.
        Some((name, value)) if name.eq_ignore_ascii_case("max-age") && value != "0" => format!("{name}=a while"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// What stands between two texts of a page.
fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    let rest = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("no {after} behind {before}")).0
}

#[test]
fn symfony_answers_as_under_fpm() {
    let place = build("symfony", None);
    symfony(Pair::start(&place.0.join("symfony/public")));
}

/// The kernel booted and warmed by hand before the snapshot; audited.
#[test]
fn symfony_from_a_snapshot_answers_as_under_fpm() {
    let place = build("symfony", None);
    let root = place.0.join("symfony/public");
    for isolation in ["rewind", "fork"] {
        let setup = Setup::root(&root)
            .application("front_controller = \"snapshot.php\"")
            .application(&format!("isolation = \"{isolation}\""))
            .application("mode.\"snapshot.php\" = \"snapshot\"")
            .flag("--audit");
        let pair = Pair::of(&root, setup);
        let served = |path: &str| pair.reprise.get(path).header("x-served-by-process").map(str::to_owned);
        assert_eq!((served("/"), served("/hello")), (Some("7".to_owned()), Some("7".to_owned())), "from the snapshot");
        let log = symfony(pair);
        assert!(log.contains(&format!("/snapshot.php is booted, isolation {isolation}")), "{log}");
        assert!(!log.contains("recycled"), "{log}");
    }
}

/// All pages of the application, logged in and out. Returns Reprise's log.
fn symfony(mut pair: Pair) -> String {
    for path in ["/", "/post/5", "/api/posts", "/hello", "/stream", "/search?q=12", "/cookie"] {
        pair.page(path, 200, &[]);
    }
    pair.page("/error/500", 500, &[]);
    pair.page("/error/404", 404, &[]);
    pair.page("/nowhere", 404, &[]);
    pair.page("/login", 200, &[SYMFONY_CSRF]);
    pair.page("/api/echo?a=1&b[]=2", 200, &[HEADER_ORDER]);

    let order = [HEADER_ORDER];
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("X-Thing", "a, b"), ("Cookie", "c=1; d=2")];
    let echo = pair
        .same("POST /api/echo", &order, |visitor| visitor.request("POST", "/api/echo?q=1", &form, b"a=1&b%5B%5D=2"));
    assert!(echo.text().contains("\"post\":{\"a\":\"1\",\"b\":[\"2\"]}"), "{}", echo.text());
    let json = [("Content-Type", "application/json"), ("Authorization", "Basic dTpw")];
    pair.same("PUT /api/echo", &order, |visitor| visitor.request("PUT", "/api/echo", &json, b"{\"a\":1}"));
    let (kind, body) = multipart(&[("title", "t")], &[("file", "a b.txt", "text/plain", &[b'x'; 100_000])]);
    let echo = pair.same("upload to /api/echo", &order, |visitor| {
        visitor.request("POST", "/api/echo", &[("Content-Type", &kind)], &body)
    });
    assert!(echo.text().contains("[\"a b.txt\",100000]"), "{}", echo.text());
    pair.same("HEAD /", &[], |visitor| visitor.request("HEAD", "/", &[], b""));

    pair.forget();
    for visits in ["visits 1", "visits 2", "visits 3"] {
        assert_eq!(pair.same("/session", &[], |visitor| visitor.get("/session")).text(), visits);
    }

    pair.forget();
    let closed = pair.same("/admin without a login", &[], |visitor| visitor.get("/admin"));
    assert_eq!(closed.header("location"), Some("http://blog.test/login"));
    let login = |visitor: &mut Visitor, password: &str| {
        let page = visitor.get("/login").text();
        let token = between(&page, SYMFONY_CSRF.before, "\"");
        visitor.post_form("/login", &[("_username", "editor"), ("_password", password), ("_csrf_token", token)])
    };
    let refused = pair.same("a wrong login", &[], |visitor| login(visitor, "wrong"));
    assert_eq!(refused.header("location"), Some("http://blog.test/login"));
    pair.same("the page after it", &[SYMFONY_CSRF], |visitor| visitor.get("/login"));
    let welcome = pair.same("a login", &[], |visitor| login(visitor, "editor"));
    assert_eq!((welcome.status, welcome.header("location")), (302, Some("http://blog.test/admin")));
    let admin = pair.same("/admin", &[], |visitor| visitor.get("/admin"));
    assert!(admin.text().contains("Admin editor"), "{}", admin.text());
    pair.same("/logout", &[], |visitor| visitor.get("/logout"));
    assert_eq!(pair.same("/admin after it", &[], |visitor| visitor.get("/admin")).status, 302);
    pair.report("symfony");
    pair.reprise.log()
}

#[test]
fn laravel_answers_as_under_fpm() {
    let place = build("laravel", None);
    let mut pair = Pair::start(&place.0.join("laravel/public"));
    for path in ["/", "/post/5", "/search?q=12"] {
        pair.page(path, 200, &[LARAVEL_CSRF]);
    }
    for path in ["/api/posts", "/hello"] {
        pair.page(path, 200, &[]);
    }
    pair.page("/nowhere", 404, &[]);
    pair.page("/echo?a=1&b[]=2", 200, &[HEADER_ORDER]);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    pair.forget();
    let echo = pair.same("POST /echo", &[HEADER_ORDER], |visitor| {
        visitor.request("POST", "/echo?q=1", &form, b"name=%C3%84&empty=")
    });
    assert!(echo.text().contains("\"name\":\"\\u00c4\""), "{}", echo.text());
    pair.same("POST without a token", &[], |visitor| visitor.request("POST", "/hello", &form, b"a=1"));
    pair.forget();
    for visits in ["visits 1", "visits 2", "visits 3"] {
        assert_eq!(pair.same("/session", &[], |visitor| visitor.get("/session")).text(), visits);
    }
    pair.report("laravel");
}

#[test]
fn slim_answers_as_under_fpm() {
    let place = build("slim", None);
    let mut pair = Pair::start(&place.0.join("slim/public"));
    for path in ["/", "/post/5", "/api/posts", "/hello", "/hello/W%C3%B6rld", "/section3/x/y"] {
        pair.page(path, 200, &[]);
    }
    // Where Host has no port, Slim's URI gets that of the server.
    let host = [("Host", "blog.test:8080"), ("Accept", "text/html")];
    let echo = pair.same("/echo", &[HEADER_ORDER], |visitor| visitor.request("GET", "/echo?a=1&b[]=2", &host, b""));
    assert!(echo.text().contains("http:\\/\\/blog.test:8080\\/echo?a=1"), "{}", echo.text());
    pair.page("/error", 500, &[]);
    pair.page("/post/999", 404, &[]);
    let json = [("Host", "blog.test:8080"), ("Content-Type", "application/json"), ("Cookie", "a=1; b=%20")];
    let echo =
        pair.same("POST /echo", &[HEADER_ORDER], |visitor| visitor.request("POST", "/echo", &json, b"{\"a\":[1,2]}"));
    assert!(echo.text().contains("\"method\":\"POST\""), "{}", echo.text());
    pair.same("DELETE /hello", &[], |visitor| visitor.request("DELETE", "/hello", &[], b""));
    pair.report("slim");
}

/// WordPress and its database.
struct WordPress {
    root: PathBuf,
    _directory: Directory,
    _database: Database,
}

fn wordpress() -> WordPress {
    let database = Database::start();
    let directory = build("wordpress", Some(&database));
    WordPress { root: directory.0.join("wordpress/htdocs"), _directory: directory, _database: database }
}

#[test]
fn wordpress_answers_as_under_fpm() {
    let site = wordpress();
    let mut pair = Pair::start(&site.root);
    for path in ["/", "/post-5/", "/page-1/", "/feed/", "/wp-json/wp/v2/posts", "/?s=lorem", "/wp-login.php"] {
        pair.page(path, 200, &[]);
    }
    pair.page("/nowhere/", 404, &[]);
    assert_eq!(pair.page("/post-5", 301, &[]).header("location"), Some("http://blog.test/post-5/"));
    assert_eq!(pair.page("/?p=5", 301, &[]).status, 301);
    let login = "http://blog.test/wp-login.php?redirect_to=http%3A%2F%2Fblog.test%2Fwp-admin%2F&reauth=1";
    assert_eq!(pair.page("/wp-admin/", 302, &[]).header("location"), Some(login));

    // The servers' own answers: the words of an error page, ETags and how text is labelled are theirs.
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
    pair.report("wordpress");
}

/// The type of an answer without its charset. JavaScript has had two names, RFC 9239.
fn media_type(answer: &Response) -> Option<&str> {
    let kind = answer.header("content-type")?.split(';').next()?.trim();
    Some(if kind == "application/javascript" { "text/javascript" } else { kind })
}

/// A picture of one pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\
    \x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01D\x00;";

#[test]
fn one_can_work_in_wordpress() {
    let site = wordpress();
    let server = Setup::root(&site.root).start();
    let (mut editor, mut reader) = (Visitor::new(server.port), Visitor::new(server.port));

    editor.get("/wp-login.php");
    let wrong = [("log", "admin"), ("pwd", "wrong"), ("testcookie", "1")];
    assert!(editor.post_form("/wp-login.php", &wrong).text().contains("is incorrect"));
    let right = [("log", "admin"), ("pwd", "admin-test-pw"), ("testcookie", "1")];
    let welcome = editor.post_form("/wp-login.php", &right);
    assert_eq!(
        (welcome.status, welcome.header("location")),
        (302, Some("http://blog.test/wp-admin/")),
        "{}",
        welcome.text()
    );
    let desk = editor.get("/wp-admin/");
    assert_eq!(desk.status, 200);
    assert!(desk.text().contains("<title>Dashboard"), "{}", desk.text());
    let nonce = between(&desk.text(), "wp-login.php?action=logout&#038;_wpnonce=", ">").replace(['\'', '"'], "");
    let logout = format!("/wp-login.php?action=logout&_wpnonce={nonce}");

    // As the block editor saves a post.
    let page = editor.get("/wp-admin/post-new.php").text();
    let nonce = between(&page, "createNonceMiddleware( \"", "\"").to_owned();
    let content = "<!-- wp:paragraph --><p>Fresh from the press.</p><!-- /wp:paragraph -->";
    let text = format!(r#"{{"title":"News of today","content":"{content}","status":"publish"}}"#);
    let send = |visitor: &mut Visitor, nonce: &str| {
        let headers = [("Content-Type", "application/json"), ("X-WP-Nonce", nonce)];
        visitor.request("POST", "/wp-json/wp/v2/posts", &headers, text.as_bytes())
    };
    assert_eq!(send(&mut editor, "0123456789").status, 403, "a wrong nonce");
    assert_eq!(send(&mut reader, &nonce).status, 403, "a nonce without its cookies");
    let stored = send(&mut editor, &nonce);
    assert_eq!(stored.status, 201, "{}", stored.text());
    let id = between(&stored.text(), "\"id\":", ",").to_owned();

    assert!(reader.get("/").text().contains("News of today"), "the post is on the front page");
    let moved = reader.get(&format!("/?p={id}"));
    assert_eq!((moved.status, moved.header("location")), (301, Some("http://blog.test/news-of-today/")));
    assert!(reader.get("/news-of-today/").text().contains("Fresh from the press."));

    // As the media library uploads a picture.
    let page = editor.get("/wp-admin/media-new.php").text();
    let nonce = between(&page, "name=\"_wpnonce\" value=\"", "\"").to_owned();
    let fields = [("action", "upload-attachment"), ("_wpnonce", nonce.as_str())];
    let (kind, body) = multipart(&fields, &[("async-upload", "pixel.gif", "image/gif", GIF)]);
    let uploaded = editor.request("POST", "/wp-admin/async-upload.php", &[("Content-Type", &kind)], &body);
    let text = uploaded.text();
    assert!(uploaded.status == 200 && text.starts_with("{\"success\":true"), "{text}");
    let address = between(&text, "\"url\":\"", "\"").replace("\\/", "/");
    let picture = reader.get(address.strip_prefix("http://blog.test").expect("a picture of this site"));
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/gif")));
    assert_eq!(picture.body, GIF);

    let bye = editor.get(&logout);
    assert_eq!(bye.status, 302, "{logout}: {}", bye.text());
    let closed = editor.get("/wp-admin/");
    assert_eq!(closed.status, 302);
    assert!(
        closed.header("location").is_some_and(|place| place.starts_with("http://blog.test/wp-login.php?redirect_to="))
    );
}
