//! What nodes share while the store is there.

use tests::tls::Authority;

use super::store::Redis;
use super::{Cluster, SECRET, node};

/// Four nodes with fifty workers each: one of all computes.
#[test]
fn one_of_all_nodes_computes() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(4, &redis.url(), &format!("workers = {}", tests::amount(10, 50)));
    for turn in 0..tests::amount(3, 10) {
        let before = cluster.runs();
        let answers = cluster.crowd(tests::amount(10, 50), &format!("compute&key=cold{turn}&ms=200"));
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert_eq!(cluster.runs(), before + 1, "turn {turn}");
    }
}

#[test]
fn what_one_node_changes_is_changed_on_all() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(3, &redis.url(), "");
    // A value that one stores, others find; and the next one.
    for value in ["\"first\"", "[1,{\"a\":2.5}]", "17", "null", "\"\"", "true"] {
        assert_eq!(cluster.get(0, &format!("store&value={value}&tags[]=menu")), "true");
        cluster.until_all("the value is there", "fetch", value);
    }
    // By its tag, by its key, all.
    for remove in ["invalidate&tags[]=other&tags[]=menu", "delete", "flush"] {
        assert_eq!(cluster.get(1, "store&value=1&tags[]=menu"), "true");
        cluster.until_all("the value is there", "fetch", "1");
        assert_eq!(cluster.get(2, remove), "true");
        assert_eq!(cluster.get(2, "fetch"), "\"none\"", "{remove}");
        cluster.until_all(remove, "fetch", "\"none\"");
    }
    // Objects; a value that is to be renewed.
    assert_eq!(cluster.get(0, "object&key=o"), "true");
    assert_eq!(cluster.get(1, "class&key=o"), "ArrayObject");
    assert_eq!(
        cluster.get(0, "invalidate&tags[]="),
        "ValueError: reprise_cache_invalidate(): Argument #1 ($tags) must have strings of 1 to 1024 bytes"
    );
}

#[test]
fn of_all_nodes_one_adds_counts_and_locks() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(3, &redis.url(), "workers = 4");
    let added = cluster.crowd(10, "add&key=added&value=1");
    assert_eq!(added.iter().filter(|one| *one == "true").count(), 1);
    let mut sums: Vec<u64> = cluster.crowd(20, "count&key=c").iter().map(|sum| sum.parse().unwrap()).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=60).collect::<Vec<u64>>());
    assert_eq!(cluster.all("fetch&key=c").as_deref(), Some("60"));
    // Another value than that which is there is not replaced or removed.
    assert_eq!(cluster.get(0, "store&key=s&value=\"a\""), "true");
    assert_eq!(cluster.get(1, "store&key=s&value=\"b\"&if=x"), "false");
    assert_eq!(cluster.get(1, "store&key=s&value=\"b\"&if=a"), "true");
    cluster.until_all("the value is another one", "fetch&key=s", "\"b\"");
    assert_eq!(
        (cluster.get(2, "delete&key=s&if=a"), cluster.get(2, "delete&key=s&if=b")),
        ("false".into(), "true".into())
    );
    cluster.until_all("the value is gone", "fetch&key=s", "\"none\"");
    // A lock ends with its request, or when it is given back.
    assert_eq!(cluster.get(0, "unlock&key=l"), "[true,true,true]");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| cluster.get(0, "lock&key=l&until=go"));
        tests::wait_until("the lock is taken", 10, || cluster.runs.0.join("locked").exists());
        assert_eq!((cluster.get(1, "lock&key=l"), cluster.get(0, "lock&key=l")), ("false".into(), "false".into()));
        std::fs::write(cluster.runs.0.join("go"), "").unwrap();
        assert_eq!(held.join().unwrap(), "true");
    });
    tests::wait_until("the lock is free", 10, || cluster.get(2, "lock&key=l") == "true");
}

/// Whoever computes for all dies: another node goes on.
#[test]
fn a_right_to_compute_ends_with_its_worker() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(2, &redis.url(), "");
    std::thread::scope(|scope| {
        let dies = scope.spawn(|| cluster.nodes[0].get("/?do=compute&key=d&ms=300&dies=0").status);
        tests::wait_until("one computes", 10, || cluster.runs() > 0 && redis.say(&["KEYS", "*:l:*"]).contains("c:d"));
        let answer = cluster.get(1, "compute&key=d");
        assert!(answer.contains("\"by\":\"1\""), "{answer}");
        assert_eq!(dies.join().unwrap(), 502);
    });
    // One that throws gives it back, too.
    assert_eq!(cluster.get(0, "compute&key=t&throws"), "RuntimeException: no");
    assert!(cluster.get(1, "compute&key=t").contains("\"by\":\"1\""));
    tests::wait_until("no lease is left", 10, || redis.say(&["KEYS", "*:l:*"]).is_empty());
}

/// A process that talks to the store dies: another one follows, and what was not told is told.
#[test]
fn the_process_that_talks_to_the_store_may_die() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(2, &redis.url(), "");
    let process = |node: usize| {
        let is_it = |pid: &i32| tests::process::name(*pid).as_deref() == Some("reprise-store");
        cluster.nodes[node].processes().into_iter().find(is_it)
    };
    assert_eq!(cluster.get(0, "store&value=1&tags[]=t"), "true");
    cluster.until_all("the value is there", "fetch", "1");
    let first = process(0).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(cluster.get(0, "invalidate&tags[]=t"), "true");
    tests::wait_until("another one follows", 10, || process(0).is_some_and(|pid| pid != first));
    cluster.until_all("nobody has the old value", "fetch", "\"none\"");
    cluster.await_store(0);
    assert!(cluster.nodes[0].log().contains("the process for the store was killed by SIGKILL; another one follows"));
}

/// A response that one node purges, by whatever way, is gone on all.
#[test]
fn what_one_node_purges_is_purged_on_all() {
    let redis = Redis::start(&[]);
    let cluster = Cluster::start(3, &redis.url(), "purge_from = [\"127.0.0.1\"]");
    let pages = || (0..3).map(|node| cluster.get(node, "page")).collect::<Vec<String>>();
    let purge = |node: usize, way: usize| match way {
        0 => assert_eq!(cluster.get(node, "purge"), "true"),
        1 => assert_eq!(cluster.nodes[node].reprise(&["purge", "--tag", "news"]).1, 0),
        _ => {
            let mut client = cluster.nodes[node].client();
            client.send(b"PURGETAGS / HTTP/1.1\r\nHost: a\r\nX-Cache-Tags: news\r\n\r\n").unwrap();
            assert_eq!(client.read(false).unwrap().status, 200);
        }
    };
    std::fs::write(cluster.runs.0.join("page"), "page 0").unwrap();
    pages();
    for turn in 1..=9 {
        let page = format!("page {turn}");
        std::fs::write(cluster.runs.0.join("page"), &page).unwrap();
        purge(turn % 3, turn / 3 % 3);
        // What the others have stored would be good for ten minutes.
        tests::wait_until(&format!("all have {page}"), 10, || pages().iter().all(|one| one.ends_with(&page)));
    }
}

/// A session is the same on all nodes, one of its requests runs at a time, and no eviction or flush ends it.
#[test]
fn sessions_are_those_of_all_nodes() {
    let mut redis = Redis::start(&[]);
    let cluster = Cluster::start(3, &redis.url(), "workers = 4\ndata_cache_memory = \"1M\"");
    let session = |node: usize, id: &str, more: &str| {
        let mut client = cluster.nodes[node].client();
        let request = format!("GET /?do=session{more} HTTP/1.1\r\nHost: a\r\nCookie: PHPSESSID={id}\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        client.read(false).unwrap().text()
    };
    let first = session(0, "", "");
    let id = first.trim_start_matches("[1,\"").trim_end_matches("\"]").to_owned();
    assert!(id.len() >= 20, "{first}");
    let mut numbers: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..30)
            .map(|turn| {
                let (session, id) = (&session, &id);
                scope.spawn(move || session(turn % 3, id, ""))
            })
            .collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    numbers.sort_by_key(|text| text.split([',', '[']).nth(1).and_then(|number| number.parse::<u32>().ok()));
    assert_eq!(numbers, (2..=31).map(|number| format!("[{number},\"{id}\"]")).collect::<Vec<_>>());
    // What fills the cache of a node, or empties it, ends no session.
    let value = format!("\"{}\"", "x".repeat(3000));
    for number in 0..500 {
        cluster.get(1, &format!("store&key=fill{number}&value={value}"));
    }
    assert_eq!(cluster.get(1, "flush"), "true");
    assert_eq!(session(1, &id, ""), format!("[32,\"{id}\"]"));
    // One that is destroyed, or that nobody has begun, gets another name.
    assert_eq!(session(2, &id, "&destroy"), "[33,\"\"]");
    assert!(session(0, &id, "").starts_with("[1,") && !session(0, "invented", "").contains("invented"));
    // Without the store nobody is logged out: there is no answer.
    redis.stop();
    tests::wait_until("the store is away", 10, || cluster.get(0, "stats").contains("\"store\":\"away\""));
    let text = session(0, &id, "");
    assert!(text.contains("RuntimeException: the store with the sessions cannot be asked"), "{text}");
}

/// By TLS, with the certificate of an authority that is named; another one's is refused.
#[test]
fn the_way_to_the_store_may_be_encrypted() {
    let directory = tests::server::Directory::new();
    std::fs::set_permissions(&directory.0, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let authority = Authority::new(&directory.0);
    authority.issue("store", "DNS:localhost,IP:127.0.0.1", 2);
    let port = tests::server::free_port().to_string();
    let file = |name: &str| authority.path(name);
    let (chain, key) = (file("store.pem"), file("store.key"));
    let arguments =
        ["--tls-port", &port, "--tls-cert-file", &chain, "--tls-key-file", &key, "--tls-auth-clients", "no"];
    let _redis = Redis::start(&arguments);
    let url = format!("valkeys://localhost:{port}");
    let cluster = Cluster::start(2, &url, &format!("data_cache_store_ca = \"{}\"", file("ca.pem")));
    assert_eq!(cluster.get(0, "store&value=1"), "true");
    cluster.until_all("the value is there", "fetch", "1");
    let stranger = node(9, &cluster.runs.0, &url, SECRET, "");
    tests::wait_until("it refuses the store", 10, || stranger.log().contains("the store of the data cache is away"));
    assert_eq!(stranger.get("/?do=fetch").text(), "\"none\"");
}

/// Who cannot sign is not believed, and applications do not see each other's values.
#[test]
fn values_are_those_of_the_application_and_its_secret() {
    let redis = Redis::start(&["--requirepass", "let me in"]);
    let url = format!("valkey://:let%20me%20in@127.0.0.1:{}", redis.port);
    let cluster = Cluster::start(2, &url, "");
    assert_eq!(cluster.get(0, "store&value=\"signed\""), "true");
    let stranger = node(9, &cluster.runs.0, &url, &SECRET.to_uppercase(), "");
    let say = |arguments: &[&str]| redis.say(&[&["-a", "let me in", "--no-auth-warning"], arguments].concat());
    tests::wait_until("the stranger is not believed", 20, || {
        assert_eq!(stranger.get("/?do=fetch").text(), "\"none\"");
        stranger.log().contains("is not signed with this application's secret")
    });
    // A value of one key at another, a changed one, rubbish.
    let name = say(&["KEYS", "*:v:key"]);
    assert_eq!(name, "reprise:{app}:v:key");
    for other in ["moved", "changed", "rubbish"] {
        say(&["COPY", &name, &format!("reprise:{{app}}:v:{other}")]);
    }
    say(&["SETRANGE", "reprise:{app}:v:changed", "90", "x"]);
    say(&["SET", "reprise:{app}:v:rubbish", "O:1:\"X\":0:{}"]);
    for other in ["moved", "changed", "rubbish"] {
        assert_eq!(cluster.get(1, &format!("fetch&key={other}")), "\"none\"", "{other}");
    }
    assert_eq!(cluster.get(1, "fetch"), "\"signed\"");
    // Whoever writes to the bus without the secret changes nothing.
    say(&["XADD", "reprise:{app}:bus", "*", "m", "rubbish"]);
    assert_eq!(cluster.get(1, "store&value=2"), "true");
    cluster.until_all("the bus goes on", "fetch", "2");
}
