//! What the file for MediaWiki says of pages, with as much of MediaWiki as it asks; and the purges as MediaWiki sends them.

use tests::server::project;
use tests::{Response, Server, Setup};

use super::{is_hit, is_stored, status_of};

/// A page with MediaWiki's own headers. The cookies that matter are those of MediaWiki 1.43 with its default settings.
const PAGE: &str = r"<?php
namespace MediaWiki\Request { final class HeaderCallback { public static function callback() { if (preg_grep('/^set-cookie:/i', headers_list())) { header('Cache-Control: private, max-age=0, s-maxage=0'); } } } }
namespace MediaWiki\Context { final class RequestContext {
    public static function getMain() { return new self(); }
    public function getOutput() { return $this; }
    public function getCacheVaryCookies() { return ['wiki_session', 'wikiToken', 'forceHTTPS']; }
} }
namespace {
    define('MEDIAWIKI', true);
    define('MW_ENTRY_POINT', 'index');
    define('MW_VERSION', '1.43.0');
    require __DIR__ . '/bridge.php';
    if ('@mode@' === 'snapshot') { reprise_snapshot(); }
    $wgUseCdn = !isset($_GET['off']);
    $user = $_COOKIE['wikiToken'] ?? 'nobody';
    header('Vary: Accept-Encoding, Cookie');
    header('Cache-Control: ' . ($user === 'nobody' ? 's-maxage=18000, must-revalidate, max-age=0' : 'private, must-revalidate, max-age=0'));
    if (isset($_GET['cookie'])) { setcookie('wiki_session', 'x'); }
    echo $user, ' ', $_SERVER['REQUEST_URI'], ' ', bin2hex(random_bytes(8));
}
";

fn ask(server: &Server, path: &str, cookie: &str) -> Response {
    let headers: &[(&str, &str)] = if cookie.is_empty() { &[] } else { &[("Cookie", cookie)] };
    server.client().request("GET", path, headers, b"")
}

fn start(mode: &str, more: &str) -> Server {
    // A copy: a clone in root's home is closed to PHP's user.
    let bridge = std::fs::read_to_string(project().join("composer/mediawiki/reprise.php")).expect("the bridge");
    let page = PAGE.replace("@mode@", mode);
    let options = format!("mode.\"index.php\" = \"{mode}\"\ncache_memory = \"8M\"\n{more}");
    Setup::empty().file("index.php", page).file("bridge.php", bridge).application(&options).start()
}

/// A page is kept for all that have none of MediaWiki's cookies, whatever others they have.
#[test]
fn mediawiki_s_pages_are_kept_for_all_without_its_cookies() {
    for mode in ["classic", "snapshot"] {
        are_kept(&start(mode, ""));
    }
}

fn are_kept(server: &Server) {
    let first = ask(server, "/wiki/A", "_ga=1");
    assert!(is_stored(&first), "{}", status_of(&first));
    for cookie in ["", "_ga=2", "a=b; wikiUserName=x"] {
        let page = ask(server, "/wiki/A", cookie);
        assert!(is_hit(&page) && page.body == first.body, "{cookie}: {}", status_of(&page));
        // As MediaWiki wants it behind its cache; and browsers keep pages apart by cookies.
        assert_eq!(page.header("cache-control"), Some("s-maxage=0, must-revalidate, max-age=0"));
        assert!(page.header("vary").is_some_and(|vary| vary.contains("Cookie")), "{:?}", page.headers);
        assert!(!page.headers.iter().any(|(name, _)| name.starts_with("reprise")), "{:?}", page.headers);
    }
    for cookie in ["wikiToken=anna", "_ga=1; wikiToken=anna", "wiki_session=1", "forceHTTPS=1"] {
        for path in ["/wiki/A", "/wiki/B"] {
            let page = ask(server, path, cookie);
            assert!(!is_hit(&page) && !is_stored(&page), "{cookie}: {}", status_of(&page));
            assert_eq!(page.text().starts_with("anna "), cookie.contains("anna"));
        }
    }
    for path in ["/wiki/C?cookie=1", "/wiki/D?off=1"] {
        let pages = ["_ga=1", "_ga=2"].map(|cookie| ask(server, path, cookie));
        assert!(pages.iter().all(|page| !is_hit(page)) && pages[0].body != pages[1].body, "{path}");
    }
}

/// MediaWiki names its cache as a proxy for what it purges: whole URLs in the request's first line.
#[test]
fn mediawiki_s_purges_arrive() {
    let server = start("classic", "purge_from = [\"127.0.0.1\"]");
    let host = format!("127.0.0.1:{}", server.port);
    for path in ["/wiki/A", "/index.php?title=A&action=history"] {
        ask(&server, path, "");
        assert!(is_hit(&ask(&server, path, "")));
        let url = format!("http://{host}{path}");
        assert_eq!(server.client().request("PURGE", &url, &[], b"").status, 200);
        assert!(!is_hit(&ask(&server, path, "")), "{path}");
        let other = format!("http://elsewhere.test{path}");
        server.client().request("PURGE", &other, &[("Host", "elsewhere.test")], b"");
        assert!(is_hit(&ask(&server, path, "")), "{path}");
    }
    // They come in clear, whatever readers are redirected to.
    let server = start("classic", "purge_from = [\"127.0.0.1\"]\nhosts = [\"wiki.test\"]\nhttps_redirect = true");
    let ask = |method| server.client().request(method, "http://wiki.test/wiki/A", &[("Host", "wiki.test")], b"");
    assert_eq!(["GET", "PURGE", "POST"].map(|method| ask(method).status), [301, 200, 308]);
}
