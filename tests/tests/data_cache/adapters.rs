//! The data cache behind the interfaces of frameworks, in each mode; and its functions where the server is not Reprise.

mod elsewhere;
mod of_suites;
mod under_laravel;
mod under_symfony;
mod under_wordpress;

use std::fs;
use std::path::Path;
use std::thread;

use tests::server::project;
use tests::{Server, Setup};

/// A file of tests/adapters.
fn text(name: &str) -> String {
    fs::read_to_string(project().join("tests/adapters").join(name)).expect("a file of tests/adapters")
}

/// `cache.php` of an application, in a mode.
struct Script {
    server: Server,
    mode: &'static str,
}

impl Script {
    fn start(root: &Path, mode: &'static str, workers: usize) -> Script {
        let setup = Setup::root(root);
        let runs = setup.writable("runs");
        let setup = setup.env("RUNS", &runs).env("REPRISE_MODE", mode);
        let lines = format!("workers = {workers}\nqueue = 100\nmode.\"cache.php\" = \"{mode}\"");
        let server = setup.application(&lines).start();
        Script { server, mode }
    }

    fn get(&self, query: &str) -> String {
        let answer = self.server.get(&format!("/cache.php?do={query}"));
        assert_eq!((answer.status, answer.header("mode")), (200, Some(self.mode)), "{query}: {}", answer.text());
        answer.text()
    }

    fn says(&self, query: &str, wanted: &str) {
        assert_eq!(self.get(query), wanted, "{}: {query}", self.mode);
    }

    /// How often a value was computed.
    fn computed(&self, key: &str) -> u64 {
        fs::metadata(self.server.directory().join("runs").join(key)).map_or(0, |file| file.len())
    }

    /// Many ask at once, and one computes.
    fn crowd(&self, query: &str, key: &str) {
        thread::scope(|scope| {
            let asked: Vec<_> =
                (0..24).map(|_| scope.spawn(|| self.get(&format!("{query}&key={key}&ms=300")))).collect();
            for one in asked {
                assert_eq!(one.join().expect("a request"), "\"made 1\"", "{}: {query}", self.mode);
            }
        });
        assert_eq!(self.computed(key), 1, "{}: {query}", self.mode);
    }
}
