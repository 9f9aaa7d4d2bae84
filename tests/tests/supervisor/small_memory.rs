//! A small container with the sizes that it gets by default: no process is ended for memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use tests::memory_group::MemoryGroup;
use tests::server::program;
use tests::snapshot::requests;
use tests::{Client, Setup, amount, process};

/// At once; each sends all kinds.
const CLIENTS: usize = 32;

/// What a request does. `data`: it leaves 64 KiB in the data cache, which is full soon.
const WORK: &str = r#"
switch ($_GET['do'] ?? '') {
    case 'hello': echo 'hello'; break;
    case 'array': $all = range(1, 300_000); echo count($all); break;
    case 'body': echo strlen(file_get_contents('php://input')); break;
    case 'upload': echo filesize($_FILES['file']['tmp_name']); break;
    case 'large': echo str_repeat('x', 3 << 20); break;
    case 'page': header('Cache-Control: public, max-age=60'); echo str_repeat('y', 65536); break;
    case 'data': reprise_cache_store('key' . random_int(0, 10_000), str_repeat('z', 65536)); echo 'stored'; break;
}
"#;

fn serve(client: &mut Client, number: usize) {
    let body = vec![b'b'; 2 << 20];
    let get = |client: &mut Client, target: &str| client.get(target);
    let (answer, length) = match number % 7 {
        0 => (get(client, "/?do=hello"), 5),
        1 => (get(client, "/?do=array"), 6),
        2 => (client.request("POST", "/?do=body", &[("Content-Type", "text/plain")], &body), 7),
        3 => (get(client, "/?do=large"), 3 << 20),
        4 => (get(client, &format!("/?do=page&number={number}")), 65536),
        5 => (get(client, "/classic.php?do=array"), 6),
        _ => (get(client, "/?do=data"), 6),
    };
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, length),
        "request {number}: {}",
        answer.header("reprise-refused").unwrap_or("")
    );
}

/// Pages, arrays, bodies, large responses, and full caches, in 256 MiB.
#[test]
fn default_sizes_fit_into_256_mib() {
    let group = MemoryGroup::with_limit(256);
    let server = Setup::empty()
        .file("index.php", format!("<?php reprise_snapshot();{WORK}"))
        .file("classic.php", format!("<?php {WORK}"))
        .with_default_sizes()
        .command(group.command(&program()))
        .start();
    let (front, prototype) = (server.front(), server.prototype());
    let (total, next) = (requests(amount(2_000, 50_000)), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::new(server.port);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        break;
                    }
                    serve(&mut client, number);
                }
            });
        }
    });
    println!("{total} requests, {} MiB at most", group.peak());
    assert_eq!(group.kills(), 0, "{}", server.log());
    assert_eq!((server.front(), server.prototype()), (front, prototype), "{}", server.log());
    assert!(process::is_alive(server.pid()));
}
