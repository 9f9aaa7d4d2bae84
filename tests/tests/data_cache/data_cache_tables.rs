//! PHP's process-wide tables: what an extension keeps beyond a request must not be a string of the data cache, whose memory is used again.
//! A worker in classic mode lives on after a request, so nothing in its memory may point to what the request got.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::thread;

use tests::{Server, Setup, amount};

const USES: &str = include_str!("data_cache/process_wide.php");
const CHUNK: u64 = 2 << 20;

/// A mapping of a process.
struct Mapping {
    from: u64,
    to: u64,
    rights: String,
    name: String,
}

fn mappings(pid: i32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mapping = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
        let rights = words.next()?.to_owned();
        Some(Mapping {
            from: number(from)?,
            to: number(to)?,
            rights,
            name: words.skip(3).collect::<Vec<_>>().join(" "),
        })
    };
    text.lines().filter_map(mapping).collect()
}

fn read(memory: &File, from: u64, size: u64) -> Vec<u64> {
    let mut bytes = vec![0; size as usize];
    let got = memory.read_at(&mut bytes, from).unwrap_or(0);
    bytes[..got].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Whether it is a block of PHP's own heap, which names its heap first: what a request has left there is used by nobody.
fn is_of_heap(memory: &File, block: u64) -> bool {
    let first = |at: u64| read(memory, at, 8).first().copied();
    first(block).is_some_and(|heap| heap != 0 && heap % CHUNK < 4096 && first(heap / CHUNK * CHUNK) == Some(heap))
}

/// Words in the memory of a process that point to values of the cache, with where they are and what they point to.
fn pointers(pid: i32) -> Vec<String> {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let all = mappings(pid);
    let values = all.iter().find(|one| one.name.contains("reprise-data")).expect("the data cache is mapped");
    let mut found = Vec::new();
    for mapping in &all {
        // Stacks have what calls that have returned left there; the service memory says where the cache itself lies.
        let is_ours =
            ["reprise-data", "[stack]", "[vvar]", "reprise-slab"].iter().any(|name| mapping.name.contains(name));
        if is_ours || !mapping.rights.starts_with("rw") {
            continue;
        }
        let mut at = mapping.from;
        while at < mapping.to {
            let end = ((at / CHUNK + 1) * CHUNK).min(mapping.to);
            if !(at % CHUNK == 0 && end - at == CHUNK && is_of_heap(&memory, at)) {
                for (number, word) in read(&memory, at, end - at).into_iter().enumerate() {
                    if word > values.from && word < values.to && word % 8 == 0 {
                        let text: Vec<u8> = read(&memory, word, 64).into_iter().flat_map(u64::to_ne_bytes).collect();
                        let text = String::from_utf8_lossy(text.get(24..).unwrap_or_default()).into_owned();
                        found.push(format!("{:#x} in {} to {word:#x}: {text:?}", at + number as u64 * 8, mapping.name));
                    }
                }
            }
            at = end;
        }
    }
    found
}

fn text(server: &Server, query: &str) -> String {
    let response = server.get(&format!("/?do={query}"));
    assert_eq!(response.status, 200, "{query}: {}\n{}", response.text(), server.log());
    response.text()
}

#[test]
fn no_table_of_the_process_keeps_a_value() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().collect::<Vec<_>>());
    let setup = Setup::empty();
    let runs = setup.writable("runs");
    let server = setup
        .file("index.php", USES)
        .env("RUNS", &runs)
        .env("LISTENS", &port.to_string())
        // libc writes over what is freed, and over what is given out: without that, blocks that are in use have words of those that were there
        // before, such as the stack of SQLite's parser in a page of its cache.
        .env("GLIBC_TUNABLES", "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0")
        .application("workers = 1\ndata_cache_memory = \"4M\"")
        .start();
    let pid = text(&server, "pid");
    // Tables get what is from the cache first.
    text(&server, "use");
    text(&server, "fill");
    text(&server, "use&plain");
    let plain = text(&server, "use&plain");
    let mut least: Option<Vec<String>> = None;
    for _ in 0..amount(2, 30) {
        assert_eq!(text(&server, "use"), plain);
        // What is free, or behind the end of a table, has old words. The same uses of other strings write over most of these, and not over
        // what a table has kept, which is there in each round.
        (0..2).for_each(|_| assert_eq!(text(&server, "use&plain"), plain));
        assert_eq!(text(&server, "pid"), pid, "one process has served all");
        let found = pointers(pid.parse().unwrap());
        if least.as_ref().is_none_or(|least| found.len() < least.len()) {
            least = Some(found);
        }
        text(&server, "fill");
    }
    let kept = least.unwrap_or_default();
    assert!(kept.is_empty(), "{} words point to values:\n{}", kept.len(), kept.join("\n"));
    assert_eq!(text(&server, "use&plain"), plain, "what there was before is not changed by what came in its place");
}
