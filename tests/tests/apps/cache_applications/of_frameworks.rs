//! Symfony with its own headers and FOSHttpCache's requests, Laravel with the middleware; and all pages of both without a bridge.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use tests::bridged::{LARAVEL_WARM, RUNTIME, SYMFONY_WARM, bridged, build, build_bridged, require_package, served_in};
use tests::compare::{Visitor, value};
use tests::peer::{run_to_end, web_user};
use tests::server::Directory;
use tests::{Client, Response, Server, Setup};

use super::{is_hit, is_stored, status_of, stranger};

const CACHE: &str = "cache_memory = \"16M\"";

/// The same page for two strangers, the second time from the cache.
fn is_shared(server: &Server, path: &str) -> bool {
    let pages = [0, 1].map(|_| stranger(server).get(path));
    assert!(pages.iter().all(|page| page.header("reprise-cache-control").is_none()), "{path}: {:?}", pages[0].headers);
    is_hit(&pages[1]) && pages[0].body == pages[1].body
}

/// A page that is in the cache; whether it still is when something was done.
fn is_left(server: &Server, path: &str, does: impl Fn()) -> bool {
    assert!(is_shared(server, path), "{path}");
    does();
    is_hit(&stranger(server).get(path))
}

pub(super) fn log_in_to_symfony(visitor: &mut Visitor, name: &str) -> Response {
    let token = value("_csrf_token")(&visitor.get("/login").text());
    visitor.post_form("/login", &[("_username", name), ("_password", name), ("_csrf_token", &token)])
}

pub(super) fn log_in_to_laravel(visitor: &mut Visitor, name: &str) -> Response {
    let token = value("_token")(&visitor.get("/account/login").text());
    visitor.post_form("/account/login", &[("name", name), ("password", name), ("_token", &token)])
}

/// Laravel with its bridge and the routes of `routes/shared.php`.
pub(super) fn build_laravel() -> (Directory, PathBuf) {
    let (place, application) = build_bridged("laravel");
    let routes = application.join("routes/web.php");
    let own = fs::read_to_string(&routes).expect("routes");
    fs::write(&routes, format!("{own}\nrequire __DIR__ . '/shared.php';\n")).expect("routes");
    for command in ["package:discover", "route:clear"] {
        run_to_end(Command::new("php").args(["artisan", command]).current_dir(&application));
    }
    run_to_end(Command::new("chown").arg("-R").arg(web_user()).arg(application.join("bootstrap/cache")));
    (place, application)
}

/// What a page of Symfony says to shared caches by Symfony's own methods counts, with the bridge in every mode and without it.
#[test]
fn symfony_s_own_headers_are_heard() {
    let (_place, application) = build("symfony");
    require_package(&application);
    let root = application.join("public");
    for mode in ["snapshot", "worker", "classic"] {
        let server = match mode {
            "classic" => Setup::root(&root).application(CACHE).start(),
            _ => bridged(&root, mode, SYMFONY_WARM).env("APP_RUNTIME", RUNTIME).application(CACHE).start(),
        };
        assert!(is_shared(&server, "/shared/open/1") && is_shared(&server, "/cached"), "{mode}");
        for (language, name) in [("de", "de"), ("fr-FR, fr;q=0.9", "fr"), ("de", "de"), ("", "en")] {
            let headers: &[(&str, &str)] = if language.is_empty() { &[] } else { &[("Accept-Language", language)] };
            let page = stranger(&server).request("GET", "/shared/open/2", headers, b"");
            assert!(page.text().contains(&format!("lang={name} ")), "{mode}, {language}: {}", page.text());
        }
        assert!(!is_shared(&server, "/shared/cookie/1") && !is_shared(&server, "/hello"), "{mode}");
        // Symfony makes private what has used a session.
        let mut editor = stranger(&server);
        assert_eq!(log_in_to_symfony(&mut editor, "editor").status, 302);
        for round in 0..3 {
            let own = editor.get("/shared/user/1");
            assert!(own.text().contains("user=editor ") && !is_hit(&own) && !is_stored(&own), "{}", status_of(&own));
            let page = stranger(&server).get("/shared/user/1");
            assert!(
                page.text().contains("user=nobody ") && is_hit(&page) == (round > 0),
                "{mode}: {}",
                status_of(&page)
            );
        }
        let paths = ["/shared/open/1", "/shared/open/2", "/shared/other/1"];
        for (purge, gone) in [
            ("/purge/tag/page-1", [true, false, true]),
            ("/purge/url/2", [false, true, false]),
            ("/purge/tag/other", [false, false, true]),
            ("/purge/tag/nothing", [false; 3]),
            ("/purge/all/x", [true; 3]),
        ] {
            assert!(paths.iter().all(|path| is_shared(&server, path)));
            assert_eq!(stranger(&server).get(purge).text(), "true", "{mode}: {purge}");
            assert_eq!(paths.map(|path| !is_hit(&stranger(&server).get(path))), gone, "{mode}: {purge}");
        }
        if mode != "classic" {
            served_in(&server, mode);
        }
    }
}

/// A crowd at a page of Symfony that is known to be shared and is not there: PHP runs once. When the page is purged while the crowd asks, at most twice.
#[test]
fn a_crowd_has_a_page_of_symfony_made_once() {
    let (_place, application) = build("symfony");
    require_package(&application);
    let server = Setup::root(&application.join("public")).application(CACHE).start();
    let port = server.port;
    let count = tests::amount(100, 1000);
    assert_eq!(Client::new(port).get("/shared/open/1").status, 200);
    for (is_purged, most) in [(false, 1), (true, 2)] {
        assert_eq!(stranger(&server).get("/purge/all/x").text(), "true");
        let askers: Vec<_> =
            (0..count).map(|_| thread::spawn(move || Client::new(port).get("/shared/open/1"))).collect();
        if is_purged {
            assert_eq!(stranger(&server).get("/purge/tag/page-1").text(), "true");
        }
        let pages: Vec<_> = askers.into_iter().map(|asker| asker.join().expect("a response")).collect();
        assert!(pages.iter().all(|page| page.status == 200));
        let made = pages.iter().filter(|page| !is_hit(page) && !status_of(page).contains("collapsed")).count();
        assert!((1..=most).contains(&made), "purged {is_purged}: made {made} times");
    }
}

/// Requests as FOSHttpCache's clients for Varnish and for Symfony send them.
#[test]
fn foshttpcache_s_requests_purge() {
    let (_place, application) = build("symfony");
    let more = format!("{CACHE}\npurge_from = [\"127.0.0.1\"]");
    let server = Setup::root(&application.join("public")).application(&more).start();
    let all = [("X-Host", ".*"), ("X-Url", ".*"), ("X-Content-Type", ".*")];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut headers: Vec<_> =
            all.iter().filter(|(name, _)| !more.iter().any(|(own, _)| own == name)).copied().collect();
        headers.extend(more);
        headers
    };
    let paths = ["/shared/open/1", "/shared/open/2"];
    for (what, method, target, headers, left) in [
        ("purge", "PURGE", "/shared/open/1", vec![], [false, true]),
        ("purge, another URL", "PURGE", "/shared/open/3", vec![], [true, true]),
        ("tags of Symfony", "PURGETAGS", "/", vec![("X-Cache-Tags", "page-2,x")], [true, false]),
        ("tags of Varnish", "BAN", "/", with(&[("X-Cache-Tags", r"(^|,)(page\-1|y)(,|$)")]), [false, true]),
        ("tags of an older one", "BAN", "/", with(&[("X-Cache-Tags", r"(page\-1)(,.+)?$")]), [false, false]),
        ("xkey", "PURGEKEYS", "/", vec![("xkey-purge", "page-2 z")], [true, false]),
        ("a path", "BAN", "/", with(&[("X-Url", "/shared/open/.*")]), [false, false]),
        ("all of Symfony", "PURGE", "/", vec![("Clear-Cache", "true")], [false, false]),
        ("all of Varnish", "BAN", "/", with(&[]), [false, false]),
    ] {
        assert!(paths.iter().all(|path| is_shared(&server, path)), "{what}");
        let answer = stranger(&server).request(method, target, &headers, b"");
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert_eq!(paths.map(|path| is_hit(&stranger(&server).get(path))), left, "{what}");
    }
}

/// Routes with the middleware have no session, and their pages are kept; not those that are a visitor's nevertheless.
#[test]
fn laravel_s_middleware_marks_pages() {
    let (_place, application) = build_laravel();
    for mode in ["snapshot", "worker"] {
        let server = bridged(&application.join("public"), mode, LARAVEL_WARM).application(CACHE).start();
        for path in ["/shared/list", "/shared/list?page=2", "/shared/open/1"] {
            assert!(is_shared(&server, path), "{mode}: {path}");
            assert!(stranger(&server).get(path).all("set-cookie").is_empty(), "{mode}: {path}");
        }
        for path in ["form/5", "user/1", "cookie/1", "secret/1", "stream/1"] {
            let path = format!("/shared/{path}");
            let pages = [0, 1].map(|_| stranger(&server).get(&path));
            let is_kept = pages.iter().any(|page| is_hit(page) || is_stored(page));
            assert!(!is_kept && pages[0].status == 200, "{mode}: {path}: {}", status_of(&pages[1]));
        }
        let gone = [0, 1].map(|_| stranger(&server).get("/shared/gone/1"));
        assert!(gone.iter().all(|page| page.status == 404 && !is_hit(page)), "{mode}");
        // A visitor with a session gets it too: it was made without one.
        let mut user = stranger(&server);
        let name = "annak8vq3lxt7wzr2m5p";
        assert_eq!(log_in_to_laravel(&mut user, name).status, 302);
        let page = user.get("/shared/list");
        assert!(is_hit(&page) && !page.text().contains(name), "{mode}: {}", status_of(&page));
        let own = user.get("/shared/list?page=3");
        assert!(!own.text().contains(name) && own.all("set-cookie").is_empty(), "{mode}: {}", own.text());
        // Other routes have their sessions.
        let own = user.get("/account");
        assert!(own.text().contains(name) && !is_hit(&own) && !is_stored(&own), "{mode}");
        let passed = stranger(&server).request("GET", "/shared/open/7", &[("Authorization", "Basic YTpi")], b"");
        assert!(passed.status == 200 && !is_stored(&passed), "{mode}: {}", status_of(&passed));
        for (purge, left) in
            [("tag/page-1", false), ("tag/page-2", true), ("tag/open", false), ("url/1", false), ("all/x", false)]
        {
            let is_left = is_left(&server, "/shared/open/1", || {
                assert_eq!(stranger(&server).get(&format!("/purge/{purge}")).text(), "true", "{mode}: {purge}");
            });
            assert_eq!(is_left, left, "{mode}: {purge}");
        }
        served_in(&server, mode);
    }
}

/// The package on the command line, where there is no Reprise: it says nothing to a cache, and purges nothing.
#[test]
fn laravel_s_middleware_does_nothing_elsewhere() {
    let (_place, application) = build_laravel();
    let code = r"
        require 'vendor/autoload.php';
        $app = require 'bootstrap/app.php';
        $kernel = $app->make(Illuminate\Contracts\Http\Kernel::class);
        $answer = $kernel->handle(Illuminate\Http\Request::create('/shared/open/1'));
        echo $answer->getStatusCode(), ' ', $answer->getContent(), ' ', json_encode($answer->headers->all());
        var_dump(Reprise\Laravel\Cache::purge('a'), (new Reprise\Symfony\CachePurger())->purgeAll());";
    let said = tests::bridged::php(code, &application);
    assert!(said.starts_with("200 [[user=nobody") && said.ends_with("bool(false)\nbool(false)\n"), "{said}");
    assert!(!said.contains("reprise-cache-control") && !said.contains("set-cookie"), "{said}");
}

/// Without a bridge nothing that depends on a cookie is shared: two visitors with sessions and a stranger ask for each page in turn.
#[test]
fn without_a_bridge_nothing_of_a_visitor_is_shared() {
    let of_symfony = [
        "/",
        "/post/5",
        "/hello",
        "/hello/you",
        "/about",
        "/session",
        "/login",
        "/admin",
        "/search?q=12",
        "/cached",
        "/contact",
        "/files",
        "/mark/page?q=1",
        "/mark/redirect?q=1",
        "/mark/stream?q=1",
        "/shared/user/1",
        "/shared/session/1",
        "/shared/cookie/1",
        "/error/404",
        "/nowhere",
        "/api/posts",
    ];
    let of_laravel = [
        "/",
        "/post/5",
        "/hello",
        "/session",
        "/account",
        "/account/login",
        "/search?q=12",
        "/cached",
        "/contact",
        "/files",
        "/mark/page?q=1",
        "/mark/redirect?q=1",
        "/mark/stream?q=1",
        "/authors",
        "/nowhere",
        "/api/posts",
        "/cookies",
    ];
    nothing_is_shared("symfony", &of_symfony, log_in_to_symfony);
    nothing_is_shared("laravel", &of_laravel, log_in_to_laravel);
}

fn nothing_is_shared(name: &str, pages: &[&str], log_in: fn(&mut Visitor, &str) -> Response) {
    let (_place, application) = build(name);
    let names = ["annak8vq3lxt7wzr2m5p", "bertd4hj9syc6nfg1uxe"];
    let server = Setup::root(&application.join("public")).application(CACHE).start();
    let mut visitors = names.map(|name| (Visitor::marked(server.port, tests::bridged::HOST, name), name));
    for (visitor, name) in &mut visitors {
        assert_eq!(log_in(visitor, name).status, 302, "{name}");
    }
    let mut hits = 0;
    for _ in 0..3 {
        for path in pages {
            let foreign = |page: &Response, own: &str| {
                let whole = format!("{:?}{}", page.headers, page.text());
                names.iter().any(|name| *name != own && whole.contains(name))
            };
            for (visitor, name) in &mut visitors {
                let page = visitor.get(path);
                assert!(!foreign(&page, name), "{path}: {}", page.text());
                hits += usize::from(is_hit(&page));
                // What shows a visitor never from the cache.
                assert!(!is_hit(&page) || !page.text().contains(*name), "{path}");
            }
            let page = stranger(&server).get(path);
            assert!(!foreign(&page, ""), "{path}: {}", page.text());
        }
    }
    println!("{name}: {hits} hits of visitors with sessions");
}
