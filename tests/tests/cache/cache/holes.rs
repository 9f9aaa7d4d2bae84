//! Pages with holes (ESI): each hole is a request of its own, and pages are stored with their holes.

use tests::{Response, Server, Setup};

use super::{ask, is_hit};

/// `page` is a template with the holes that its query names; `part` says what it was asked with.
const SCRIPT: &str = r#"<?php
$path = strtok($_SERVER['REQUEST_URI'], '?');
if ($path === '/page' || $path === '/nested') {
    header('Surrogate-Control: content="ESI/1.0"');
    foreach ($_GET['h'] ?? [] as $header) header($header, false);
    echo $path, ' ', $_SERVER['HTTP_SURROGATE_CAPABILITY'] ?? 'none', ' ', bin2hex(random_bytes(4)), '|';
    foreach ($_GET['src'] ?? [] as $src) echo '<esi:include src="', htmlspecialchars($src), '"', $_GET['more'] ?? '', '/>|';
    exit;
}
if ($path === '/missing') { http_response_code(404); exit('nothing'); }
if ($path === '/together') {
    // Responds when all have come.
    file_put_contents('@runs@/together', 'x', FILE_APPEND | LOCK_EX);
    for ($i = 0; $i < 1000 && filesize('@runs@/together') < (int)$_GET['count']; $i++) { usleep(5000); clearstatcache(); }
    exit(filesize('@runs@/together') >= (int)$_GET['count'] ? 'met' : 'alone');
}
foreach ($_GET['h'] ?? [] as $header) header($header, false);
echo json_encode(['part' => $_GET['n'] ?? null, 'method' => $_SERVER['REQUEST_METHOD'], 'cookie' => $_SERVER['HTTP_COOKIE'] ?? null,
    'address' => $_SERVER['REMOTE_ADDR'], 'etag' => $_SERVER['HTTP_IF_NONE_MATCH'] ?? null, 'run' => bin2hex(random_bytes(4))]);
"#;

fn site(more: &str) -> Server {
    let setup = Setup::empty();
    let script = SCRIPT.replace("@runs@", &setup.writable("runs"));
    setup.file("index.php", script).application(&format!("workers = 8\ncache_memory = \"16M\"\n{more}")).start()
}

fn page(query: &str) -> String {
    format!("/page?{query}")
}

fn parts(response: &Response) -> Vec<String> {
    response.text().split('|').map(str::to_owned).collect()
}

#[test]
fn holes_are_filled_by_requests_of_their_own() {
    let server = site("esi = true");
    let response = ask(
        &server,
        &page("src[]=/part?n=1&src[]=/part?n%3D2"),
        &[("Cookie", "who=ada"), ("If-None-Match", "\"x\""), ("Surrogate-Capability", "evil=\"ESI/1.0\"")],
    );
    let all = parts(&response);
    assert!(all[0].starts_with("/page reprise=\"ESI/1.0\""), "{}", all[0]);
    assert!(all[1].contains("\"part\":\"1\"") && all[2].contains("\"part\":\"2\""), "{all:?}");
    for part in &all[1..3] {
        assert!(
            part.contains("\"method\":\"GET\",\"cookie\":\"who=ada\",\"address\":\"127.0.0.1\",\"etag\":null"),
            "{part}"
        );
    }
    assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()));
    assert_eq!(response.header("cache-control"), Some("private, no-cache"));
    assert!(response.header("surrogate-control").is_none() && response.header("etag").is_none());
    let head = server.client().request("HEAD", &page("src[]=/part"), &[], b"");
    assert!(head.status == 200 && head.body.is_empty());
    // Without the option nothing is replaced, and nothing is said.
    let server = site("");
    let response = ask(&server, &page("src[]=/part"), &[("Surrogate-Capability", "a=\"b\"")]);
    assert!(response.text().contains("<esi:include") && response.text().contains("a=\"b\""), "{}", response.text());
}

/// All holes of a page are filled at once: each waits for the others.
#[test]
fn holes_are_filled_at_once() {
    let server = site("esi = true");
    let query: String = (0..6).map(|number| format!("src[]=/together?count%3D6%26n%3D{number}&")).collect();
    let all = parts(&ask(&server, &page(&query), &[]));
    assert_eq!(all[1..7], ["met"; 6], "{all:?}");
}

/// The page and its holes are stored each for itself.
#[test]
fn pages_and_holes_are_stored_by_themselves() {
    let server = site("esi = true");
    let public = "h[]=Cache-Control:+public,max-age%3D60";
    let shared = "%3Fh[]%3DCache-Control:%2520public,max-age%253D60";
    let of = |response: &Response| (parts(response)[0].clone(), parts(response)[1].clone());
    for (query, is_page_kept, is_part_kept) in [
        (format!("a&{public}&src[]=/part"), true, false),
        (format!("b&src[]=/part{shared}"), false, true),
        (format!("c&{public}&h[]=ETag:+%22x%22&src[]=/part{shared}"), true, true),
    ] {
        let first = of(&ask(&server, &page(&query), &[]));
        // A page that is the same may have other holes: it is sent as a whole.
        let second = ask(&server, &page(&query), &[("If-None-Match", "\"x\""), ("Range", "bytes=0-3")]);
        assert_eq!(second.status, 200, "{query}");
        let second = of(&second);
        assert_eq!((first.0 == second.0, first.1 == second.1), (is_page_kept, is_part_kept), "{query}");
    }
}

/// A page with holes is compressed when they are filled, and not as it is stored.
#[test]
fn filled_pages_are_compressed_anew() {
    let server = site("esi = true\ncompression = [\"gzip\"]");
    let text = "x".repeat(3000);
    let target = page(&format!(
        "h[]=Cache-Control:+public,max-age%3D60&h[]=Content-Type:+text/plain&h[]=X-Long:+{text}&src[]=/part?n%3D1&src[]=/part?{text}"
    ));
    for _ in 0..3 {
        let response = ask(&server, &target, &[("Accept-Encoding", "gzip"), ("Sec-Fetch-Site", "none")]);
        let plain = ask(&server, &target, &[]);
        assert!(plain.text().contains("\"part\":\"1\"") && response.status == 200);
        assert!(!response.body.windows(4).any(|part| part == b"<esi"));
    }
}

#[test]
fn what_cannot_be_filled_is_an_error_or_left_out() {
    let server = site("esi = true");
    let status = |query: &str| ask(&server, &page(query), &[]).status;
    assert_eq!(status("src[]=/missing"), 502);
    assert_eq!(status("src[]=http://other.example/x"), 502);
    assert_eq!(status("src[]=//other.example/x"), 502);
    let many: String = (0..65).map(|_| "src[]=/part&").collect();
    assert_eq!((status(&many), status(&many[12..])), (502, 200));
    let left_out = ask(&server, &page("src[]=/missing&src[]=/part&more=+onerror%3D%22continue%22"), &[]);
    let all = parts(&left_out);
    assert!(left_out.status == 200 && all[1].is_empty() && all[2].contains("part"), "{all:?}");
    let other = ask(&server, &page("src[]=/missing&more=+alt%3D%22/part?n%3Dalt%22"), &[]);
    assert!(parts(&other)[1].contains("\"part\":\"alt\""), "{}", other.text());
    // Holes in holes count too: eight pages with eight holes each are 72.
    let nested = |count: usize| {
        let inner: String = (0..8).map(|_| "src[]=/part&").collect();
        let outer = tests::client::encode(&format!("/nested?{inner}"));
        status(&(0..count).map(|_| format!("src[]={outer}&")).collect::<String>())
    };
    assert_eq!((nested(7), nested(8)), (200, 502));
    // Holes in holes end somewhere.
    let deep = |levels: usize| {
        let encode = |text: &str| tests::client::encode(text);
        let mut target = "/part".to_owned();
        for _ in 0..levels {
            target = format!("/nested?src[]={}", encode(&target));
        }
        status(&format!("src[]={}", encode(&target)))
    };
    assert_eq!((deep(1), deep(2), deep(3)), (200, 200, 502));
    let _ = is_hit(&ask(&server, "/part", &[]));
}
