//! What nodes do while the store is away, slow, full, restarted or answers rubbish.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Cluster;
use super::store::{Does, Redis, Way};

/// Without a store each node computes once, and nothing fails.
#[test]
fn without_a_store_each_node_computes_once() {
    let mut redis = Redis::start(&[]);
    let cluster = Cluster::start(3, &redis.url(), "workers = 8");
    assert!(cluster.get(0, "stats").contains("\"store\":\"ready\""));
    redis.stop();
    let before = cluster.runs();
    let answers = cluster.crowd(16, "compute&key=alone&ms=100");
    assert_eq!(cluster.runs(), before + 3, "{answers:?}");
    assert_eq!(
        (cluster.get(0, "store&value=1"), cluster.get(0, "fetch"), cluster.get(0, "add&value=2")),
        ("true".into(), "1".into(), "false".into())
    );
    assert_eq!((cluster.get(0, "count&key=c"), cluster.get(0, "lock&key=l")), ("1".into(), "true".into()));
    tests::wait_until("the log says so", 10, || cluster.nodes[0].log().contains("the store of the data cache is away"));
    tests::wait_until("the statistics say so", 10, || cluster.get(0, "stats").contains("\"store\":\"away\""));
    redis.again();
    tests::wait_until("the log says so", 20, || {
        cluster.nodes[0].log().contains("the store of the data cache is there again")
    });
    cluster.await_store(0);
}

/// A value that another node has removed is never given out longer than declared, whatever happens to the bus.
#[test]
fn no_value_is_older_than_declared() {
    let mut redis = Redis::start(&[]);
    let way = Way::to(redis.port);
    let bound = Duration::from_secs(2);
    let cluster = Cluster::by(&[&way.url(), &redis.url()], "data_cache_staleness = \"2s\"");
    for does in [Does::Breaks, Does::Swallows, Does::Garbles] {
        let stored = cluster.get(1, "store&value=\"old\"&tags[]=t");
        assert_eq!(stored, "true");
        cluster.until_all("the value is there", "fetch", "\"old\"");
        // The message about it has come, too: it is before this one on the bus.
        assert_eq!(cluster.get(0, "store&key=mark&value=1&tags[]=m"), "true");
        assert_eq!(cluster.get(1, "invalidate&tags[]=m"), "true");
        cluster.until_all("a later message has come", "fetch&key=mark", "\"none\"");
        assert_eq!(cluster.get(0, "fetch"), "\"old\"");
        way.now(does);
        assert_eq!(cluster.get(1, "invalidate&tags[]=t"), "true");
        let since = Instant::now();
        tests::wait_until("the value is too old", 20, || {
            let asked = since.elapsed();
            let is_old = cluster.get(0, "fetch") == "\"old\"";
            // The clock of the cache goes by ticks of 4 ms.
            assert!(!is_old || asked <= bound + Duration::from_millis(20), "{asked:?}");
            !is_old
        });
        assert!(since.elapsed() > Duration::from_millis(500), "a value is good for a while without news");
        // What this node computes is good meanwhile.
        assert_eq!(cluster.get(0, "store&key=own&value=1"), "true");
        assert_eq!(cluster.get(0, "fetch&key=own"), "1");
        way.now(Does::Passes);
        tests::wait_until("the store is heard again", 20, || {
            cluster.get(1, "store&key=heard&value=1") == "true" && cluster.get(0, "fetch&key=heard") == "1"
        });
        assert_eq!(cluster.get(0, "fetch"), "\"none\"");
        cluster.get(1, "delete&key=heard");
        cluster.until_all("it is gone", "fetch&key=heard", "\"none\"");
    }
    // A restarted store knows nothing: what was removed meanwhile, nobody knows.
    assert_eq!(cluster.get(1, "store&value=\"old\"&tags[]=t"), "true");
    cluster.until_all("the value is there", "fetch", "\"old\"");
    redis.again();
    tests::wait_until("nothing from before is there", 20, || cluster.get(0, "fetch") == "\"none\"");
}

/// What is changed while the store is away is told when it is there again.
#[test]
fn what_was_not_told_is_told_later() {
    let redis = Redis::start(&[]);
    let way = Way::to(redis.port);
    let cluster = Cluster::by(&[&way.url(), &redis.url()], "");
    tests::wait_until("both share a value", 20, || {
        cluster.get(0, "store&value=1&tags[]=t");
        cluster.get(1, "fetch") == "1"
    });
    way.now(Does::Breaks);
    let began = Instant::now();
    assert_eq!(cluster.get(0, "invalidate&tags[]=t"), "true");
    assert!(began.elapsed() < tests::seconds(2), "{:?}", began.elapsed());
    assert_eq!(cluster.get(0, "fetch"), "\"none\"");
    way.now(Does::Passes);
    tests::wait_until("the other is told", 20, || cluster.get(1, "fetch") == "\"none\"");
}

/// `reprise status` and the metrics show the store, and what was not told.
#[test]
fn status_and_metrics_show_the_store() {
    let redis = Redis::start(&[]);
    let way = Way::to(redis.port);
    let admin = tests::server::free_port();
    let cluster = Cluster::with_server(&[&way.url()], &format!("admin_listen = [\"127.0.0.1:{admin}\"]"));
    let store = || {
        let status: serde_json::Value = serde_json::from_str(&cluster.nodes[0].status(&["--json"])).unwrap();
        status["data_caches"]["app"]["store"].clone()
    };
    let metrics = || tests::Client::new(admin).get("/metrics").text();
    tests::wait_until("it is ready", 20, || store()["ready"] == true);
    tests::wait_until("it was asked", 20, || {
        cluster.get(0, "store&value=1");
        store()["requests"].as_u64() > Some(0)
    });
    assert_eq!(store()["forged"], 0, "{}", store());
    assert!(store()["heard_seconds"].as_f64() < Some(20.0), "{}", store());
    assert!(cluster.nodes[0].status(&[]).contains("  store ready, all changes"), "{}", cluster.nodes[0].status(&[]));
    let up = "reprise_data_cache_store_up{application=\"app\"} 1\n";
    tests::wait_until("the metrics say so", 20, || metrics().contains(up));
    way.now(Does::Breaks);
    cluster.get(0, "invalidate&tags[]=t");
    tests::wait_until("it is away, and a change is not told", 20, || {
        store()["ready"] == false && store()["untold"].as_u64() > Some(0)
    });
    tests::wait_until("the metrics say so", 20, || {
        metrics().contains("reprise_data_cache_store_up{application=\"app\"} 0\n")
            && !metrics().contains("reprise_data_cache_store_untold{application=\"app\"} 0\n")
    });
    way.now(Does::Passes);
    tests::wait_until("it is told", 20, || store()["ready"] == true && store()["untold"] == 0);
}

/// A store that stands still or has no memory costs a request little.
#[test]
fn a_store_that_stands_still_or_is_full_delays_nobody_for_long() {
    let redis = Redis::start(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    let cluster = Cluster::start(2, &redis.url(), "data_cache_store_timeout = \"100ms\"");
    kill(Pid::from_raw(redis.pid()), Signal::SIGSTOP).unwrap();
    let began = Instant::now();
    for number in 0..20 {
        assert!(cluster.get(0, &format!("compute&key=slow{number}")).contains("made"));
    }
    assert!(began.elapsed() < tests::seconds(8), "{:?}", began.elapsed());
    kill(Pid::from_raw(redis.pid()), Signal::SIGCONT).unwrap();
    cluster.await_store(0);
    // It refuses to store: the value is this node's alone, and no old one comes back.
    let value = format!("\"{}\"", "x".repeat(6000));
    let refusals = || redis.say(&["INFO", "errorstats"]);
    // Some go by the store while it is not asked, because it has stood still.
    let mut number = 0;
    while !refusals().contains("OOM") {
        assert!(number < 3000, "{}", refusals());
        assert_eq!(cluster.get(0, &format!("store&key=full{number}&value={value}")), "true");
        assert_eq!(cluster.get(0, &format!("fetch&key=full{number}")).len(), value.len());
        number += 1;
    }
    for number in 0..20 {
        assert_eq!(cluster.get(0, &format!("store&key=fuller{number}&value={value}")), "true");
        assert_eq!(cluster.get(0, &format!("fetch&key=fuller{number}")).len(), value.len());
    }
}
