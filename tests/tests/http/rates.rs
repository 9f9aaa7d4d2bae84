//! `rate_limits`: how often one client may ask for a path.

use tests::{Response, Server, Setup, wait_until};

fn site(limits: &str) -> Setup {
    Setup::empty()
        .file("index.php", "<?php echo 'page';")
        .file("a.txt", "file")
        .server(&format!("admin_listen = [\"127.0.0.1:{}\"]", tests::server::free_port()))
        .server("proxies = [\"127.0.0.1\"]")
        .application(&format!("rate_limits = [{limits}]"))
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = std::fs::read_to_string(server.directory().join("reprise.toml")).unwrap();
    let port = text.split("admin_listen = [\"127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let text = tests::client::get(port.parse().unwrap(), "/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

fn from(server: &Server, address: &str, method: &str, target: &str) -> Response {
    server.client().request(method, target, &[("X-Forwarded-For", address)], b"")
}

/// As many as the limit says, for pages and files; then 429 with the time after which it is worth asking again.
#[test]
fn who_asks_too_often_is_refused() {
    let server = site("{ path = \"/shop\", rate = \"5/h\" }, { rate = \"1000/h\", burst = 20 }").start();
    let statuses = |address: &str, target: &str, count: usize| -> Vec<u16> {
        (0..count).map(|_| from(&server, address, "GET", target).status).collect()
    };
    assert_eq!(statuses("192.0.2.1", "/shop/x", 7), [200, 200, 200, 200, 200, 429, 429]);
    let refused = from(&server, "192.0.2.1", "GET", "/%73hop");
    assert_eq!((refused.status, refused.header("reprise-refused")), (429, Some("rate-limit")));
    let after: u64 = refused.header("retry-after").expect("a time").parse().unwrap();
    assert!((700..=720).contains(&after), "five an hour: {after}");
    // Others, and other paths, are served; one network of IPv6 is one client.
    assert_eq!(statuses("192.0.2.2", "/shop", 1), [200]);
    assert_eq!(statuses("192.0.2.1", "/shops", 3), [200; 3]);
    assert_eq!(statuses("2001:db8::1", "/shop", 5), [200; 5]);
    assert_eq!((statuses("2001:db8::2", "/shop", 1), statuses("2001:db8:0:1::1", "/shop", 1)), (vec![429], vec![200]));
    // Files count too: 5 + 3 pages so far, of 21 at once.
    assert_eq!(statuses("192.0.2.1", "/a.txt", 14).iter().filter(|status| **status == 200).count(), 13);
    wait_until("refusals are counted", 10, || metric(&server, "reprise_refusals_total{reason=\"rate-limit\"}") == 5);
    wait_until("the access log has them", 10, || server.access_log().matches("\" 429 ").count() == 5);
    // The counts outlive a reload.
    let (went_well, said) = server.reload();
    assert!(went_well, "{said}");
    assert_eq!(statuses("192.0.2.1", "/shop", 1), [429]);
}

/// A login form may be looked at more often than it is sent.
#[test]
fn limits_may_be_for_some_methods() {
    let server = site("{ path = \"/login\", rate = \"1/h\", methods = [\"post\"] }").start();
    let ask = |method: &str| from(&server, "192.0.2.1", method, "/login").status;
    assert_eq!([ask("POST"), ask("POST"), ask("GET"), ask("GET")], [200, 429, 200, 200]);
}

/// Requests before their time wait, those beyond the burst are refused.
#[test]
fn excess_may_be_delayed() {
    let server = site("{ rate = \"4/s\", burst = 2, excess = \"delay\" }").start();
    let began = std::time::Instant::now();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let ask = || from(&server, "192.0.2.1", "GET", "/").status;
        let all: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let served = answers.iter().filter(|status| **status == 200).count();
    // Each that was served after the first had its turn a quarter of a second after the one before.
    assert!(began.elapsed().as_millis() >= 250 * (served as u128 - 1), "{served} after {:?}", began.elapsed());
    assert!(served >= 3 && answers.contains(&429), "{answers:?}");
    assert!(metric(&server, "reprise_requests_delayed_total") >= 2);
}

#[test]
fn mistakes_are_named() {
    for (limit, why) in [
        ("{ path = \"/a\" }", "a limit of 'rate_limits' has no rate"),
        ("{ rate = \"10\" }", "'rate' takes requests by time"),
        ("{ rate = \"0/s\" }", "'rate' takes requests by time"),
        ("{ rate = \"10/d\" }", "'rate' takes requests by time"),
        ("{ rate = \"10/s\", path = \"a?b\" }", "'a?b' is no path"),
        ("{ rate = \"10/s\", brust = 3 }", "has no 'brust'"),
        ("{ rate = \"10/s\", excess = \"drop\" }", "takes \"refuse\" or \"delay\""),
        ("{ rate = \"10/m\", burst = 100, excess = \"delay\" }", "may wait for 600 s"),
        ("\"10/s\"", "'rate_limits' takes a list of tables"),
    ] {
        let mut server =
            Setup::empty().file("index.php", "x").application(&format!("rate_limits = [{limit}]")).launch();
        assert_eq!(server.wait(30), 78, "{limit}");

        assert!(server.log().contains("reprise.toml:") && server.log().contains(why), "{limit}: {}", server.log());
    }
}
