//! `learned_routes`: pages that visitors who are nobody ask for most warm up the code that is loaded next.

use tests::{Server, Setup, wait_until};

/// Its boot renders the pages of the warm-up, as the bridges do; each page says which those are.
const SITE: &str = r#"<?php
function page(string $path): void
{
    switch ($path) {
        case '/json': header('Content-Type: application/json'); break;
        case '/picture': header('Content-Type: image/png'); break;
        case '/sets': setcookie('a', 'b'); break;
        case '/missing': http_response_code(404); break;
        case '/broken': if (is_file(__DIR__ . '/breaks')) { http_response_code(503); } break;
    }
    echo $path === '/' ? json_encode($GLOBALS['warm']) : 'page';
    if ($path === '/often') {
        static $kept = null;
        echo $kept ??= reprise_info()['mode'];
    }
}
$warm = array_map(fn (array $one): string => "$one[method] $one[path]", reprise_warmup_requests());
if (is_file(__DIR__ . '/ends') && in_array('GET /often', $warm)) { throw new Exception('a page that no boot survives'); }
reprise_snapshot();
page(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
"#;

fn site(lines: &str) -> Server {
    let hosts = "hosts = [\"shop.test\", \"*.shop.test\"]\nwarmup = [\"/\", { path = \"/headers\", headers = { X-A = \"b\" } }]";
    Setup::empty().file("index.php", SITE).application(&format!("{hosts}\n{lines}")).start()
}

fn ask(server: &Server, target: &str, more: &[(&str, &str)]) -> String {
    let host = if more.iter().any(|(name, _)| *name == "host") { None } else { Some(("host", "shop.test")) };
    let headers: Vec<_> = host.into_iter().chain(more.iter().copied()).collect();
    server.client().request("GET", target, &headers, b"").text()
}

/// The pages that the boot got: in the response of each page.
fn warm(server: &Server) -> Vec<String> {
    serde_json::from_str(&ask(server, "/", &[])).expect("JSON")
}

/// Everything is asked for, over and over, until a reload is warmed up with as many pages as may be.
fn learn(server: &Server, count: usize) {
    ask(server, "/seldom", &[]);
    wait_until("pages are learned", 60, || {
        for _ in 0..20 {
            for _ in 0..3 {
                ask(server, "/often", &[]);
                ask(server, "/picture", &[]);
                ask(server, "/sets", &[]);
                ask(server, "/missing", &[]);
                ask(server, "/query?a=b", &[]);
                ask(server, "/cookie", &[("cookie", "a=b")]);
                ask(server, "/password", &[("authorization", "Basic YTpi")]);
                ask(server, "/other", &[("host", "a.shop.test")]);
                server.client().request("POST", "/posted", &[("host", "shop.test")], b"a=b");
            }
            for page in ["/broken", "/json", "/json", "/often", "/headers"] {
                ask(server, page, &[]);
            }
        }
        let (text, code) = server.reprise(&["reload"]);
        assert_eq!(code, 0, "{text}");
        warm(server).len() == count
    });
}

/// Only pages that a warm-up would have got the same way are learned, as many as may be; the next reload has them.
#[test]
fn the_next_boot_renders_what_is_asked_for_most() {
    let server = site("learned_routes = 3");
    assert_eq!(warm(&server), ["GET /", "GET /headers"]);
    learn(&server, 5);
    // "/" is asked for by this test, and is there already.
    let found = warm(&server);
    assert_eq!(found[..2], ["GET /", "GET /headers"]);
    assert_eq!(found[2..], ["GET /often", "GET /json", "GET /broken"], "{}", server.log());
    assert!(server.log().contains("warm-up 3 of 5: GET /often: 200"), "{}", server.log());
}

/// A page that is learned and fails refuses no reload; one that is configured does.
#[test]
fn a_learned_page_that_fails_stops_nothing() {
    let server = site("learned_routes = 30");
    learn(&server, 6);
    assert_eq!(warm(&server)[2..], ["GET /often", "GET /json", "GET /broken", "GET /headers"], "{}", server.log());
    std::fs::write(server.directory().join("app/public/breaks"), "").unwrap();
    let (said, code) = server.reprise(&["reload"]);
    assert_eq!(code, 0, "{said}");
    assert!(server.log().contains("warm-up 5 of 6: GET /broken: 503"), "{}", server.log());
    assert_eq!(warm(&server).len(), 6);
}

/// A boot that a learned page breaks refuses a reload once: the next one is without it.
#[test]
fn a_boot_that_fails_forgets_what_was_learned() {
    let server = site("learned_routes = 3");
    learn(&server, 5);
    std::fs::write(server.directory().join("app/public/ends"), "").unwrap();
    let (said, code) = server.reprise(&["reload"]);
    assert!(code != 0 && said.contains("did not boot"), "{code}: {said}");
    let (said, code) = server.reprise(&["reload"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(warm(&server).len(), 2, "{}", server.log());
    assert!(server.log().contains("the next reload is without pages that were learned"), "{}", server.log());
}

/// What is learned is compared before visitors come, as what is configured.
#[test]
fn learned_pages_are_verified() {
    let server = site("learned_routes = 3\nverify_on_reload = true");
    learn(&server, 5);
    // That page says in which mode it is, and the others do not.
    assert!(server.log().contains("'app': /often stays in classic mode: "), "{}", server.log());
    assert!(!server.log().contains("'app': /json stays in classic mode: "), "{}", server.log());
}

/// Without the option nothing is learned.
#[test]
fn nothing_is_learned_unasked() {
    let server = site("");
    for _ in 0..20 {
        ask(&server, "/often", &[]);
    }
    assert_eq!(server.reprise(&["reload"]).1, 0);
    assert_eq!(warm(&server), ["GET /", "GET /headers"]);
}
