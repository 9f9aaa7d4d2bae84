//! Scripts and files out of a phar.

use std::fs;

use serde_json::Value;
use tests::snapshot::isolations;
use tests::{Client, Setup};

use super::{STUB, about, phar, setup};

/// Says where PHP thinks that it is.
const SAYS: &str = "<?php
echo json_encode(['file' => __FILE__, 'dir' => __DIR__, 'cwd' => getcwd(), 'running' => Phar::running(false), 'part' => require 'part.php'] +
    array_intersect_key($_SERVER, array_flip(['SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT', 'PATH_INFO', 'PHP_SELF'])));";
const PART: &str = "<?php return basename(__FILE__);";

fn files() -> [(&'static str, &'static str); 6] {
    [
        ("index.php", SAYS),
        ("part.php", PART),
        (
            "sub/own.php",
            "<?php chdir('/tmp'); echo 'own ', $_SERVER['PATH_INFO'] ?? '-', ' ', is_file($_SERVER['DOCUMENT_ROOT'] . '/a.txt') ? 'there' : 'gone';",
        ),
        ("a.txt", "0123456789"),
        ("assets/app.css", "body { color: red }"),
        ("secret.inc", "<?php"),
    ]
}

/// Scripts run as `phar://` scripts, with path info and the variables that lead to their files.
#[test]
fn scripts_run_inside_the_phar() {
    let (setup, file) = setup();
    phar(&file, &files(), STUB);
    let server = setup.start();
    let root = format!("phar://{}", file.display());
    let said: Value = serde_json::from_str(&server.get("/any/path").text()).expect("JSON");
    assert_eq!(said["file"], format!("{root}/index.php"));
    assert_eq!(said["dir"], root);
    assert_eq!(said["SCRIPT_FILENAME"], format!("{root}/index.php"));
    assert_eq!((&said["SCRIPT_NAME"], &said["DOCUMENT_ROOT"]), (&"/index.php".into(), &root.clone().into()));
    assert_eq!(said["running"], file.display().to_string());
    assert_eq!(said["cwd"], file.parent().expect("a directory").display().to_string());
    assert_eq!(said["part"], "part.php");
    let said: Value = serde_json::from_str(&server.get("/index.php/a/b").text()).expect("JSON");
    assert_eq!((&said["PATH_INFO"], &said["PHP_SELF"]), (&"/a/b".into(), &"/index.php/a/b".into()));
    assert_eq!(server.get("/sub/own.php/x").text(), "own /x there");
    assert_eq!(server.get("/app.phar").text(), "the stub");
    for path in ["/secret.inc", "/.phar/stub.php", "/../app.phar", "/app.pharx"] {
        assert!(!server.get(path).text().contains("<?php"), "{path}");
    }
    let (told, code) = about(&server, &["route", "/sub/own.php"]);
    assert!(code == 0 && told.contains(&format!("{root}/sub/own.php")), "{told}");
}

/// Files out of a phar are sent as files on disk are: conditions, parts, types; compressed entries too.
#[test]
fn files_are_sent_as_from_disk() {
    let (setup, file) = setup();
    let large = "all work and no play ".repeat(4000);
    let code = "$phar['a.txt'] = '0123456789'; $phar['large.txt'] = str_repeat('all work and no play ', 4000); \
        $phar['large.txt']->compress(Phar::GZ); $phar['bz.txt'] = str_repeat('b', 9999); $phar['bz.txt']->compress(Phar::BZ2); \
        $phar['dir/index.html'] = 'the index'; $phar->setMetadata(['never' => 'unserialized']);";
    super::build(&file, code);
    let server = setup.start();
    let mut client = server.client();
    let whole = client.get("/a.txt");
    assert_eq!((whole.status, whole.text()), (200, "0123456789".to_owned()));
    assert_eq!(whole.header("content-type"), Some("text/plain; charset=utf-8"));
    let etag = whole.header("etag").expect("an ETag").to_owned();
    let date = whole.header("last-modified").expect("a date").to_owned();
    let with = |client: &mut Client, path: &str, headers: &[(&str, &str)]| client.request("GET", path, headers, b"");
    assert_eq!(with(&mut client, "/a.txt", &[("If-None-Match", &etag)]).status, 304);
    assert_eq!(with(&mut client, "/a.txt", &[("If-Modified-Since", &date)]).status, 304);
    assert_eq!(with(&mut client, "/a.txt", &[("If-None-Match", "\"other\"")]).status, 200);
    let part = with(&mut client, "/a.txt", &[("Range", "bytes=2-4")]);
    assert_eq!((part.status, part.text()), (206, "234".to_owned()));
    assert_eq!(with(&mut client, "/a.txt", &[("Range", "bytes=99-")]).status, 416);
    assert_eq!(client.get("/large.txt").text(), large);
    assert_eq!(client.get("/bz.txt").text(), "b".repeat(9999));
    assert_eq!(client.get("/dir").header("location"), Some("/dir/"));
    assert_eq!(client.get("/dir/").text(), "the index");
    assert_eq!(client.request("POST", "/a.txt", &[], b"x").status, 405);
}

/// A directory in the phar as the root: what lies above it is not served, and scripts reach it.
#[test]
fn a_directory_in_the_phar_is_a_root() {
    let place = Setup::empty();
    let file = place.directory().join("app.phar");
    let files = [
        ("public/index.php", "<?php echo require __DIR__ . '/../src/code.php', ' ', $_SERVER['DOCUMENT_ROOT'];"),
        ("public/a.txt", "public"),
        ("src/code.php", "<?php return 'code';"),
        ("secret.txt", "secret"),
    ];
    phar(&file, &files, STUB);
    let server = place.at(&file.join("public")).start();
    assert_eq!(server.get("/").text(), format!("code phar://{}/public", file.display()));
    assert_eq!(server.get("/a.txt").text(), "public");
    assert!(
        !server.get("/secret.txt").text().contains("secret") && !server.get("/../secret.txt").text().contains("secret")
    );
    assert!(!server.get("/app.phar").text().contains("the stub"), "the stub is not below this root");
}

/// opcache keeps what is in the phar, though the PHP that built it gave its entries no time.
#[test]
fn opcache_keeps_scripts_of_a_phar() {
    let (setup, file) = setup();
    let hits = "<?php $all = opcache_get_status()['scripts']; require 'part.php';
        foreach (['index.php', 'part.php'] as $name) echo $all['phar://' . Phar::running(false) . \"/$name\"]['hits'] ?? '-', ' ';";
    phar(&file, &[("index.php", hits), ("part.php", PART)], STUB);
    let server = setup.application("workers = 1").ini("opcache.file_update_protection", "0").start();
    let mut client = server.client();
    client.get("/");
    let counts: Vec<String> = (0..3).map(|_| client.get("/").text()).collect();
    assert_eq!(counts, ["1 0 ", "2 1 ", "3 2 "]);
}

/// In every mode: what the script says is the same, and so is what it keeps.
#[test]
fn snapshots_and_worker_scripts_run_in_a_phar() {
    let script = |loop_begins: &str, loop_ends: &str| {
        format!(
            "<?php require_once __DIR__ . '/lib/boot.php'; $booted = boot(); static $count = 0; {loop_begins}
            require_once __DIR__ . '/lib/late.php'; echo $booted, ' ', late(), ' ', ++$count, ' ', $_GET['a'] ?? '', ' ', getcwd(), ' ', __FILE__; {loop_ends}"
        )
    };
    let snapshot = script("reprise_snapshot();", "");
    let worker = script("$count = 0; while (reprise_handle_request(function () use ($booted, &$count) {", "})) {}");
    for (mode, text) in [("classic", script("", "")), ("snapshot", snapshot), ("worker", worker)] {
        let isolations = if mode == "snapshot" { isolations() } else { &isolations()[..1] };
        for isolation in isolations {
            let (setup, file) = setup();
            let files = [
                ("index.php", text.as_str()),
                ("lib/boot.php", "<?php function boot() { return 'booted'; }"),
                ("lib/late.php", "<?php function late() { return 'late'; }"),
            ];
            phar(&file, &files, STUB);
            let server = setup
                .application("workers = 1")
                .application(&format!("mode.\"index.php\" = \"{mode}\""))
                .application(&format!("isolation = \"{isolation}\""))
                .flag("--audit")
                .start();
            let mut client = server.client();
            for visit in 1..6 {
                let count = if mode == "worker" { visit } else { 1 };
                let place = file.parent().expect("a directory").display();
                let expected = format!("booted late {count} {visit} {place} phar://{}/index.php", file.display());
                assert_eq!(
                    client.get(&format!("/?a={visit}")).text(),
                    expected,
                    "{mode}, {isolation}: {}",
                    server.log()
                );
            }
            let log = server.log();
            assert!(!log.contains("recycled") && !log.contains("error"), "{mode}, {isolation}: {log}");
            assert!(mode == "classic" || log.contains("/index.php is booted"), "{log}");
        }
    }
}

/// PHP can write neither to the phar nor to a new one, and has its manifest in memory.
#[test]
fn php_cannot_write_to_the_phar() {
    let (setup, file) = setup();
    let writes = "<?php ini_set('phar.readonly', '0'); echo ini_get('phar.readonly'), ini_get('phar.require_hash'), ' ', ini_get('phar.cache_list'), ' ';
        try { $p = new Phar(Phar::running(false)); $p['a.txt'] = 'b'; echo 'written'; } catch (Exception $e) { echo 'refused'; }";
    phar(&file, &[("index.php", writes), ("a.txt", "a")], STUB);
    let before = fs::read(&file).expect("the phar");
    let server = setup.start();
    assert_eq!(server.get("/").text(), format!("11 {} refused", file.display()));
    assert_eq!(server.get("/a.txt").text(), "a");
    assert_eq!(fs::read(&file).expect("the phar"), before);
}
