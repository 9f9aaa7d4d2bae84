//! Nodes that share a store: what is computed once for all of them, and what one of them changes.

mod away;
mod shared;
pub mod store;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tests::server::Directory;
use tests::{Server, Setup};

/// By `?do=`; the rest of the query says with what.
const SCRIPT: &str = r#"<?php
function compute(int $ms) { return function () use ($ms) {
    file_put_contents(getenv('RUNS') . '/log', getenv('NODE') . "\n", FILE_APPEND | LOCK_EX);
    usleep(1000 * $ms);
    if (isset($_GET['throws'])) throw new RuntimeException('no');
    if (isset($_GET['dies']) && getenv('NODE') === $_GET['dies']) posix_kill(getmypid(), SIGKILL);
    return ['made' => count(file(getenv('RUNS') . '/log')), 'by' => getenv('NODE')];
}; }
$key = $_GET['key'] ?? 'key';
$tags = $_GET['tags'] ?? [];
try { switch ($_GET['do'] ?? '') {
case 'compute': echo json_encode(reprise_cache($key, compute((int)($_GET['ms'] ?? 0)), (int)($_GET['ttl'] ?? 60), (int)($_GET['stale'] ?? 0), $tags, 0)); break;
case 'store': echo json_encode(reprise_cache_store($key, json_decode($_GET['value'], true), (int)($_GET['ttl'] ?? 0), $tags, $_GET['if'] ?? null)); break;
case 'add': echo json_encode(reprise_cache_add($key, json_decode($_GET['value'], true), (int)($_GET['ttl'] ?? 0), $tags)); break;
case 'fetch': echo json_encode(reprise_cache_fetch($key, 'none')); break;
case 'class': echo get_class(reprise_cache_fetch($key)); break;
case 'object': echo json_encode(reprise_cache_store($key, new ArrayObject([1]))); break;
case 'delete': echo json_encode(reprise_cache_delete($key, $_GET['if'] ?? null)); break;
case 'invalidate': echo json_encode(reprise_cache_invalidate($tags)); break;
case 'flush': echo json_encode(reprise_cache_flush()); break;
case 'count': echo json_encode(reprise_cache_increment($key, (int)($_GET['by'] ?? 1))); break;
case 'lock': while (!($got = reprise_cache_lock($key, 20)) && isset($_GET['until'])) usleep(2000); echo json_encode($got); if (isset($_GET['until'])) touch(getenv('RUNS') . '/locked'); if (isset($_GET['until'])) while (!file_exists(getenv('RUNS') . '/' . $_GET['until'])) { usleep(2000); clearstatcache(); } break;
case 'unlock': echo json_encode([reprise_cache_lock($key, 20), reprise_cache_unlock($key), reprise_cache_lock($key, 20)]); break;
case 'page': header('Cache-Control: s-maxage=600'); header('Cache-Tag: news'); echo getenv('NODE'), ' ', file_get_contents(getenv('RUNS') . '/page'); break;
case 'purge': echo json_encode(reprise_cache_purge(['news'])); break;
case 'session': require getenv('PACKAGE') . '/Session/Handler.php'; Reprise\Session\Handler::register(); ini_set('session.use_strict_mode', '1'); session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; if (isset($_GET['destroy'])) session_destroy(); echo json_encode([$_SESSION['n'], session_id()]); break;
case 'stats': echo json_encode(reprise_cache_stats()); break;
} } catch (Throwable $e) { echo get_class($e), ': ', $e->getMessage(); }
"#;

const SECRET: &str = "a secret of the cluster";

/// Nodes of one application.
struct Cluster {
    nodes: Vec<Server>,
    runs: Directory,
}

fn node(number: usize, runs: &Path, url: &str, secret: &str, more: &str) -> Server {
    set_up(number, runs, url, secret, more).start()
}

fn set_up(number: usize, runs: &Path, url: &str, secret: &str, more: &str) -> Setup {
    Setup::empty()
        .file("index.php", SCRIPT)
        .env("RUNS", runs.to_str().unwrap())
        .env("NODE", &number.to_string())
        .env("PACKAGE", runs.join("composer").to_str().unwrap())
        .application(&format!("data_cache_store = \"{url}\"\ndata_cache_secret = \"{secret}\""))
        .application(more)
}

impl Cluster {
    fn start(nodes: usize, url: &str, more: &str) -> Cluster {
        Cluster::by(&vec![url; nodes], more)
    }

    /// Nodes that come to their store by these URLs.
    fn by(urls: &[&str], more: &str) -> Cluster {
        Cluster::of(urls, &|setup| setup.application(more))
    }

    /// The same, with settings of the server.
    fn with_server(urls: &[&str], settings: &str) -> Cluster {
        Cluster::of(urls, &|setup| setup.server(settings))
    }

    fn of(urls: &[&str], more: &dyn Fn(Setup) -> Setup) -> Cluster {
        let runs = Directory::new();
        std::fs::set_permissions(&runs.0, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        tests::server::copy(&tests::server::project().join("composer/src"), &runs.0.join("composer"));
        let node = |(number, url): (usize, &&str)| more(set_up(number, &runs.0, url, SECRET, "")).start();
        let nodes = urls.iter().enumerate().map(node).collect();
        let cluster = Cluster { nodes, runs };
        (0..cluster.nodes.len()).for_each(|node| cluster.await_store(node));
        cluster
    }

    /// Waits until a node has found its store.
    fn await_store(&self, node: usize) {
        let (mut turn, other) = (0, (node + 1) % self.nodes.len());
        tests::wait_until("a node shares what it computes", 20, || {
            turn += 1;
            let (before, probe) = (self.runs(), format!("compute&key=probe{node}-{turn}"));
            self.get(node, &probe);
            self.get(other, &probe);
            other == node || self.runs() == before + 1
        });
    }

    fn get(&self, node: usize, query: &str) -> String {
        let response = self.nodes[node].get(&format!("/?do={query}"));
        assert_eq!(response.status, 200, "{query}: {}", response.text());
        response.text()
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.runs.0.join("log")).unwrap_or_default().lines().count()
    }

    /// The answer of all nodes, if it is the same one.
    fn all(&self, query: &str) -> Option<String> {
        let first = self.get(0, query);
        (1..self.nodes.len()).all(|node| self.get(node, query) == first).then_some(first)
    }

    /// All nodes at once, with so many requests each: their answers.
    fn crowd(&self, each: usize, query: &str) -> Vec<String> {
        thread::scope(|scope| {
            let asked: Vec<_> = (0..self.nodes.len() * each)
                .map(|number| scope.spawn(move || self.get(number % self.nodes.len(), query)))
                .collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    /// How long it took until all nodes gave that answer.
    fn until_all(&self, what: &str, query: &str, answer: &str) -> Duration {
        let began = Instant::now();
        tests::wait_until(what, 20, || self.all(query).as_deref() == Some(answer));
        began.elapsed()
    }
}
