//! `Phar::webPhar` and `Phar::mapPhar` in the stub: what a browser gets and what PHP sees is as under nginx with PHP-FPM.

use tests::client::connect;
use tests::peer::Fpm;
use tests::{Client, Response, wait_for};

use super::{phar, setup};

/// What PHP sees.
const SEES: &str = "<?php
$names = ['SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT', 'REQUEST_URI', 'PHP_SELF', 'PATH_INFO', 'QUERY_STRING',
    'PHAR_PATH_INFO', 'PHAR_SCRIPT_NAME', 'PHAR_SCRIPT_FILENAME', 'PHAR_REQUEST_URI', 'PHAR_PHP_SELF'];
$seen = array_intersect_key($_SERVER, array_flip($names)); ksort($seen);
echo json_encode($seen), ' ', __FILE__, ' ', getcwd(), ' ', file_get_contents('php://input');";

/// Stubs that answer by themselves.
const STUBS: [&str; 4] = [
    "<?php Phar::webPhar('app.phar'); echo 'not for the web'; __HALT_COMPILER();",
    "<?php Phar::mungServer(['REQUEST_URI', 'PHP_SELF', 'SCRIPT_NAME', 'SCRIPT_FILENAME']); Phar::webPhar('app.phar', 'main.php', '404.php', ['txt' => 'text/x-own'], fn($path) => $path === '/closed' ? false : str_replace('/nice/', '/sub/', $path)); __HALT_COMPILER();",
    "<?php Phar::mapPhar('other-alias.phar'); require 'phar://other-alias.phar/main.php'; __HALT_COMPILER();",
    "<?php Phar::interceptFileFuncs(); set_include_path('phar://' . __FILE__ . PATH_SEPARATOR . get_include_path()); Phar::webPhar(null, 'main.php'); include 'phar://' . __FILE__ . '/main.php'; __HALT_COMPILER();",
];

const PATHS: [&str; 12] = [
    "/app.phar",
    "/app.phar/",
    "/app.phar/main.php",
    "/app.phar/main.php?a=1&b=2",
    "/app.phar/main.php/info",
    "/app.phar/a.txt",
    "/app.phar/page.html",
    "/app.phar/sub/x.php",
    "/app.phar/nice/x.php?y",
    "/app.phar/closed",
    "/app.phar/none",
    "/app.phar/none.php?z",
];

fn seen(response: &Response) -> (u16, Option<String>, Option<String>, String) {
    let header = |name: &str| response.header(name).map(str::to_owned);
    // nginx makes an absolute URL of what PHP says.
    let location = header("location").map(|place| place.replacen("http://a", "", 1));
    (response.status, location, header("content-type"), response.text())
}

#[test]
fn stubs_answer_as_under_fpm() {
    for stub in STUBS {
        let (setup, file) = setup();
        let files = [
            ("main.php", SEES),
            ("index.php", SEES),
            ("404.php", "<?php echo 'own 404'; "),
            ("sub/x.php", SEES),
            ("a.txt", "text"),
            ("page.html", "<p>page</p>"),
        ];
        phar(&file, &files, stub);
        let reprise = setup.start();
        let location = "location ~ \\.phar(/|$) { fastcgi_split_path_info ^(.+?\\.phar)(/.*)$; fastcgi_pass unix:{place}/fpm.sock;\n}\n";
        let fpm = Fpm::with_sites(&[("a".to_owned(), file.parent().expect("a directory"), location)]);
        for path in PATHS {
            for (method, body) in [("GET", &b""[..]), ("POST", b"a=b"), ("HEAD", b"")] {
                let ask = |port| {
                    let mut client = Client::over(connect(port).expect("a connection"), "a");
                    seen(&client.request(method, path, &[("Content-Type", "text/plain")], body))
                };
                let (ours, theirs) = (ask(reprise.port), ask(fpm.port));
                assert_eq!(ours, theirs, "{method} {path} with {stub}\n{}", reprise.log());
            }
        }
    }
}

/// Without a front controller in the phar its stub is the front controller, also from a snapshot.
#[test]
fn a_stub_is_a_front_controller() {
    for mode in ["classic", "snapshot"] {
        let (setup, file) = setup();
        let stub = "<?php Phar::mapPhar('app.phar'); require 'phar://app.phar/src/kernel.php'; __HALT_COMPILER();";
        let kernel = "<?php $booted = uniqid(); reprise_snapshot(); echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['DOCUMENT_ROOT'], ' ', $booted;";
        phar(&file, &[("src/kernel.php", kernel), ("a.txt", "a")], stub);
        let setup = if mode == "classic" { setup.application("isolation = \"fork\"") } else { setup };
        let server = setup.application(&format!("mode.\"app.phar\" = \"{mode}\"")).start();
        let directory = file.parent().expect("a directory").display();
        let ask = |path: &str| server.get(path).text();
        let begins = format!("/some/page?x /app.phar {directory} ");
        assert!(ask("/some/page?x").starts_with(&begins), "{}", ask("/some/page?x"));
        assert_eq!(ask("/a.txt"), "a");
        if mode == "snapshot" {
            let same = || ask("/").rsplit(' ').next().map(str::to_owned);
            assert_eq!(
                wait_for("the snapshot", 10, || same().filter(|one| same().as_ref() == Some(one))),
                same().expect("an id")
            );
            assert!(server.log().contains("/app.phar is booted"), "{}", server.log());
        }
    }
}
