//! WordPress from release to release, under load: no request is lost, and no page is of two releases.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tests::bridged::{HOST, build_wordpress};
use tests::client::connect;
use tests::server::Directory;
use tests::{Client, Response, Setup, wait_until};

/// What a page says of its release: from a file that WordPress has loaded before its snapshot, and one that it loads late.
const PLUGIN: &str = "<?php
add_action('init', function () {
    if (isset($_GET['sleep'])) usleep(300_000);
});
add_action('wp_footer', function () {
    $body = strlen(file_get_contents('php://input'));
    echo '<!-- release ', RELEASE, ' part ', require WP_CONTENT_DIR . '/part.php', ' body ', $body, ' -->';
});
";

const PAGES: [&str; 4] = ["/", "/post-5/", "/?sleep", "/?s=post"];

struct Releases {
    /// WordPress as it was built.
    original: PathBuf,
    base: Directory,
}

impl Releases {
    /// Writes a release, with hard links for all that is in each, and goes over to it.
    fn make(&self, number: usize) {
        let place = self.base.0.join(format!("{number}"));
        let copied = Command::new("cp").arg("-al").args([&self.original, &place]).status();
        assert!(copied.expect("cp").success());
        let content = place.join("htdocs/wp-content");
        let plugin = PLUGIN.replace("RELEASE", &number.to_string());
        fs::write(content.join("mu-plugins/release.php"), plugin).unwrap();
        fs::write(content.join("part.php"), format!("<?php return {number};")).unwrap();
        let next = self.base.0.join("next");
        symlink(place, &next).unwrap();
        fs::rename(next, self.base.0.join("current")).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.base.0.join("current/htdocs")
    }
}

/// The release of a page.
fn release(what: &str, answer: Response, body: usize) -> usize {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{what}: {text}");
    let said = text.split("<!-- release ").nth(1).and_then(|rest| rest.split(" -->").next());
    let said = said.unwrap_or_else(|| panic!("{what}: cut off: {text}"));
    let words: Vec<&str> = said.split(' ').collect();
    assert!(words[0] == words[2] && words[4] == body.to_string(), "{what}: {said}");
    words[0].parse().expect("a release")
}

fn client(port: u16) -> Client {
    Client::over(connect(port).expect("a connection"), HOST)
}

fn visit(port: u16, number: usize, stop: &AtomicBool, answered: &AtomicUsize) {
    let mut client = client(port);
    for turn in number.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let path = PAGES[turn % PAGES.len()];
        // A search form may come as a POST too.
        let (method, body) = if turn % 5 == 0 { ("POST", vec![b'x'; 100_000]) } else { ("GET", vec![]) };
        let answer = client.try_request(method, path, &[], &body);
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: lost: {error}"));
        release(path, answer, body.len());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn nothing_is_lost(mode: &str, reloads: usize) {
    let (_database, _place, application) = build_wordpress();
    let releases = Releases { original: application, base: Directory::new() };
    releases.make(1);
    let server = start(&releases.root(), mode);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn({
                    let (stop, answered, port) = (&stop, &answered, server.port);
                    move || visit(port, number, stop, answered)
                })
            })
            .collect();
        for number in 2..reloads + 2 {
            releases.make(number);
            let (is_done, text) = server.reload();
            assert!(is_done, "{text}\n{}", server.log());
            assert_eq!(release("after the reload", client(server.port).get("/"), 0), number, "{mode}");
            let before = answered.load(Ordering::Relaxed);
            wait_until("each visitor has been there", 60, || {
                answered.load(Ordering::Relaxed) >= before + clients.len()
            });
            assert!(clients.iter().all(|one| !one.is_finished()), "a visitor has seen a fault");
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{reloads} reloads of WordPress in {mode} mode: {} requests, none lost", answered.load(Ordering::Relaxed));
    assert!(!server.log().contains("PHP Fatal"), "{}", server.log());
}

fn start(root: &Path, mode: &str) -> tests::Server {
    Setup::root(root)
        .application(&format!("mode.\"index.php\" = \"{mode}\""))
        // What the cache has kept is sent once more after a reload; here each page is made by the code of its time.
        .application("workers = 3\nwarmup = [\"/\", \"/post-5/\"]\ncache_memory = 0")
        .start()
}

/// One for twenty of the reloads of `reload.rs`, in each of two modes.
#[test]
fn reloads_of_wordpress_lose_nothing() {
    let reloads = std::env::var("REPRISE_RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for mode in ["classic", "snapshot"] {
        nothing_is_lost(mode, usize::max(reloads / 20, 1));
    }
}
