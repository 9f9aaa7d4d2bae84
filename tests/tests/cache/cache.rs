//! The cache of responses: nobody gets what was made for somebody else, one response is made for many, and the cache is passed by where rules
//! say so.

mod counted;
mod countries;
mod crowds;
mod derived;
mod holes;
mod letter;
mod mended;
mod passed_by;
mod purges;
mod shared;
mod silent;
mod validators;
mod waiting;

use std::fs;

use tests::{Response, Server, Setup};

/// A page that says what it was asked with, and that has the headers which its query names. Each run is noted.
const PAGE: &str = r#"<?php
file_put_contents('@runs@', $_SERVER['REQUEST_METHOD'] . ' ' . $_SERVER['REQUEST_URI'] . "\n", FILE_APPEND | LOCK_EX);
if (isset($_GET['dies']) && !file_exists('@runs@.died')) { touch('@runs@.died'); posix_kill(getmypid(), SIGKILL); }
if (isset($_GET['purge'])) echo json_encode(reprise_cache_purge(...$_GET['purge'])), "\n";
if (isset($_GET['known'])) reprise_not_modified(...array_map(fn($one) => is_numeric($one) ? (int)$one : $one, $_GET['known']));
usleep(1000 * (int)($_GET['ms'] ?? 0));
while (isset($_GET['until']) && !file_exists('@runs@.' . $_GET['until'])) { usleep(2000); clearstatcache(); }
foreach ($_GET['h'] ?? [] as $header) header($header, false);
if (isset($_GET['status'])) http_response_code((int)$_GET['status']);
if (isset($_GET['etag'])) {
    header('ETag: "' . $_GET['etag'] . '"');
    if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '"' . $_GET['etag'] . '"') {
        foreach ($_GET['then'] ?? [] as $header) header($header, ($_GET['adds'] ?? '') === '');
        http_response_code(304);
        exit;
    }
}
echo json_encode(['run' => bin2hex(random_bytes(8)), 'cookie' => $_SERVER['HTTP_COOKIE'] ?? null, 'user' => $_SERVER['HTTP_AUTHORIZATION'] ?? null,
    'lang' => $_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? null, 'address' => $_SERVER['REMOTE_ADDR'], 'uri' => $_SERVER['REQUEST_URI']]);
if (isset($_GET['bytes'])) { for ($i = 0; $i < (int)$_GET['bytes']; $i += 1024) echo str_repeat('x', 1024); }
"#;

/// Shared caches may keep it for a minute.
const SHARED: &str = "h[]=Cache-Control:+s-maxage%3D60";
/// Everybody may have it for a minute.
const PUBLIC: &str = "h[]=Cache-Control:+public,max-age%3D60";

fn site(workers: usize) -> Setup {
    let setup = Setup::empty();
    let runs = setup.writable("runs");
    let page = PAGE.replace("@runs@", &format!("{runs}/log"));
    setup.file("index.php", page).application(&format!("workers = {workers}\ncache_memory = \"16M\""))
}

/// What has run, line by line.
fn runs(server: &Server) -> Vec<String> {
    let text = fs::read_to_string(server.directory().join("runs/log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn runs_of(server: &Server, path: &str) -> usize {
    runs(server).iter().filter(|line| line.contains(path)).count()
}

/// Pages with `until=NAME` go on.
fn go(server: &Server, name: &str) {
    fs::write(server.directory().join(format!("runs/log.{name}")), "").unwrap();
}

/// A page is known to be shared, and not there. It has been made once.
fn known(server: &Server, target: &str) {
    assert_eq!(ask(server, target, &[]).status, 200);
    let (said, code) = server.reprise(&["purge", "--url", target]);
    assert_eq!(code, 0, "{said}");
}

fn ask(server: &Server, target: &str, headers: &[(&str, &str)]) -> Response {
    server.client().request("GET", target, headers, b"")
}

fn status_of(response: &Response) -> &str {
    response.header("cache-status").unwrap_or("")
}

fn is_hit(response: &Response) -> bool {
    status_of(response).starts_with("Reprise; hit")
}

/// A target, as a value in a query.
fn encoded(target: &str) -> String {
    tests::client::encode(target)
}
