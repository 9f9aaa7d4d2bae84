//! Two applications of two users with the same keys: neither sees a value, a key or a byte of the other's data cache.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::unistd::Uid;
use tests::snapshot::requests;
use tests::{Server, Setup, amount};

/// Users that each Debian has and nobody uses.
const USERS: [&str; 2] = ["games", "irc"];
const NAMES: [&str; 2] = ["own", "other"];

const SCRIPT: &str = r#"<?php
$mark = 'mark of ' . getenv('WHO');
switch ($_GET['do'] ?? '') {
    case 'use':
        mt_srand((int)$_GET['seed']);
        $wrong = [];
        $see = function ($value) use (&$wrong, $mark) { if ($value !== null && (!is_array($value) || $value['mark'] !== $mark || $value['list'] !== array_fill(0, count($value['list']), $mark))) $wrong[] = $value; };
        for ($i = 0; $i < 4; $i++) {
            $key = 'key ' . mt_rand(0, 40);
            $make = fn () => ['mark' => $mark, 'list' => array_fill(0, mt_rand(1, 200), $mark)];
            switch (mt_rand(0, 5)) {
                case 0: case 1: $see(reprise_cache_fetch($key)); break;
                case 2: reprise_cache_store($key, $make(), 0, ['tag']); reprise_cache_store(getenv('WHO') . " $key", 1); break;
                case 3: $see(reprise_cache($key, $make, 60)); break;
                case 4: array_map($see, reprise_cache_fetch_many([$key, 'key 1'])); break;
                case 5: if (mt_rand(0, 200) === 0) reprise_cache_invalidate(['tag']); else reprise_cache_delete($key); break;
            }
            // Only this application has it: the other's is another key, and no lock of its stands in the way.
            if (reprise_cache_fetch($_GET['not'] . " $key") !== null) $wrong[] = "a key of $_GET[not]";
        }
        echo $wrong ? json_encode($wrong) : 'own'; break;
    case 'lock': echo json_encode(reprise_cache_lock('everybody', 100)); if (isset($_GET['hold'])) usleep(300000); break;
    case 'reach':
        $files = fn ($lines) => array_values(array_filter($lines, fn ($line) => str_contains((string)$line, 'reprise-data')));
        $own = $files(array_map(fn ($file) => @readlink($file), glob('/proc/self/fd/*')));
        exec('ls -l /proc/self/fd; cat /proc/self/maps', $run);
        $opened = proc_open(['sh', '-c', 'ls -l /proc/$$/fd; cat /proc/$$/maps'], [1 => ['pipe', 'w']], $pipes);
        $spawned = explode("\n", stream_get_contents($pipes[1]));
        if (($child = pcntl_fork()) === 0) { pcntl_exec('/bin/sh', ['-c', "(ls -l /proc/\$\$/fd; cat /proc/\$\$/maps) > $_GET[file]"]); posix_kill(getmypid(), SIGKILL); }
        pcntl_waitpid($child, $status);
        $mapped = $files(file('/proc/self/maps'));
        $opens = array_filter($mapped, fn ($line) => @fopen('/proc/self/map_files/' . strtok($line, ' '), 'r+'));
        $others = [];
        foreach (explode(',', $_GET['pids']) as $pid) foreach (['maps', 'mem', 'fd', 'map_files'] as $name) if (@file_get_contents("/proc/$pid/$name", false, null, 0, 1) !== false || @scandir("/proc/$pid/$name")) $others[] = "$pid $name";
        echo json_encode([$own, $files($run), $files($spawned), $files(file($_GET['file'])), count($mapped), count($opens), $others]); break;
    case 'pid': echo getmypid(); break;
}
"#;

fn ask(server: &Server, who: usize, query: &str) -> String {
    let host = format!("{}.example", NAMES[who]);
    let response = server.client().request("GET", &format!("/?do={query}"), &[("Host", &host)], b"");
    assert_eq!(response.status, 200, "{query}: {}\n{}", response.text(), server.log());
    response.text()
}

/// All bytes of the data cache that a process maps, and its file.
fn cache_of(pid: i32) -> (Vec<u8>, String) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.contains("reprise-data")).expect("a data cache");
    let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap());
    let mut bytes = vec![0; (to - from) as usize];
    File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut bytes, from).unwrap();
    (bytes, line.split_whitespace().nth(4).unwrap().to_owned())
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn two_applications_share_nothing() {
    assert!(Uid::effective().is_root(), "two users need root");
    let setup = Setup::empty().file("index.php", SCRIPT);
    let root = setup.document_root().display().to_string();
    let files = setup.directory().join("files");
    fs::create_dir(&files).unwrap();
    fs::set_permissions(&files, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    let lines = |who: usize| {
        format!(
            "hosts = [\"{}.example\"]\nuser = \"{}\"\nenv.WHO = \"{}\"\ndata_cache_memory = \"2M\"",
            NAMES[who], USERS[who], NAMES[who]
        )
    };
    let server = setup
        .application(&format!("workers = 2\n{}", lines(0)))
        .another(&format!("name = \"other\"\nroot = \"{root}\"\nworkers = 2\n{}", lines(1)))
        .start();

    let next = AtomicUsize::new(0);
    let total = requests(amount(1_500, 100_000));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = server.client();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return;
                    }
                    let who = number % 2;
                    let host = format!("{}.example", NAMES[who]);
                    let path = format!("/?do=use&seed={number}&not={}", NAMES[1 - who]);
                    let response = client.request("GET", &path, &[("Host", &host)], b"");
                    assert_eq!((response.status, response.text().as_str()), (200, "own"), "request {number}");
                }
            });
        }
    });

    thread::scope(|scope| {
        let holder = scope.spawn(|| ask(&server, 0, "lock&hold"));
        assert_eq!(ask(&server, 1, "lock"), "true");
        assert_eq!(holder.join().unwrap(), "true");
    });

    let pids: Vec<i32> = (0..2).map(|who| ask(&server, who, "pid").parse().unwrap()).collect();
    let caches: Vec<_> = pids.iter().map(|pid| cache_of(*pid)).collect();
    assert_ne!(caches[0].1, caches[1].1, "each has a file of its own");
    for who in 0..2 {
        assert!(has(&caches[who].0, &format!("mark of {}", NAMES[who])), "it is looked for where it would be");
        assert!(!has(&caches[who].0, &format!("mark of {}", NAMES[1 - who])));
        assert!(!has(&caches[who].0, &format!("{} key", NAMES[1 - who])));
    }

    for who in 0..2 {
        let others: BTreeSet<String> = [pids[1 - who], server.pid()].iter().map(i32::to_string).collect();
        let others = others.into_iter().collect::<Vec<_>>().join(",");
        let file = files.join(NAMES[who]).display().to_string();
        let reached = ask(&server, who, &format!("reach&pids={others}&file={file}"));
        assert_eq!(reached, "[[],[],[],[],2,0,[]]", "descriptors, programs, mappings, other processes");
    }
}
