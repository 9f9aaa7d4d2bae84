//! Snapshots of one host and one scheme each: which requests get one, and that none is answered by that of another.

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{Client, Server, Setup, amount, process, wait_for, wait_until};

/// By what the script was asked: when it began, which is in the boot, and when it answers. The file does not name the function, so
/// it is found when it first calls.
const SCRIPT: &str = r#"<?php
function asked(): string {
    $names = ['HTTP_HOST', 'SERVER_NAME', 'SERVER_PORT', 'REQUEST_SCHEME', 'HTTPS'];
    return implode(' ', array_map(fn ($name) => $_SERVER[$name] ?? '-', $names));
}
$booted = asked();
$times = 0;
$snapshot = 'reprise_' . 'snapshot';
$snapshot(per_host: true);
if (isset($_GET['ms'])) usleep(1000 * (int) $_GET['ms']);
echo reprise_info()['mode'], ' ', ++$times, ' [', $booted, '] [', asked(), '] ', $_GET['q'] ?? '';
"#;

/// Asks as a proxy does for a client by that scheme.
fn ask(client: &mut Client, scheme: &str, host: &str, path: &str) -> (u16, String) {
    let answer = client.request("GET", path, &[("Host", host), ("X-Forwarded-Proto", scheme)], b"");
    (answer.status, answer.text())
}

/// What a request has to be answered, but for the mode.
fn expected(scheme: &str, host: &str, own: &str) -> String {
    let (port, https) = if scheme == "https" { ("443", "on") } else { ("80", "-") };
    let asked = format!("[{host} {host} {port} {scheme} {https}]");
    format!("1 {asked} {asked} {own}")
}

fn mode(server: &Server, scheme: &str, host: &str) -> String {
    let (status, text) = ask(&mut server.client(), scheme, host, "/");
    assert_eq!(status, 200, "{text}");
    text.split(' ').next().expect("a mode").to_owned()
}

fn wait_for_snapshot(server: &Server, scheme: &str, host: &str) {
    wait_until(&format!("{scheme}://{host} has a snapshot"), 30, || mode(server, scheme, host) == "snapshot");
}

/// For proxies on this machine; with the hosts.
fn setup(hosts: &str) -> Setup {
    Setup::empty()
        .server("proxies = [\"127.0.0.1\"]")
        .application(&format!("hosts = [{hosts}]"))
        .application("workers = 1")
}

fn status(server: &Server) -> Value {
    serde_json::from_str(&server.status(&["--json"])).expect("a status")
}

/// Keys of the serving generation's lanes, sorted; classic has none.
fn keys(server: &Server) -> Vec<String> {
    let status = status(server);
    let generations = status["applications"]["app"].as_array().expect("generations");
    let serving = generations.iter().find(|one| one["stage"] == "serving").expect("one that serves");
    let lanes = serving["lanes"].as_array().expect("lanes").iter();
    let mut keys: Vec<String> = lanes.filter_map(|lane| lane["script"].as_str().map(str::to_owned)).collect();
    keys.sort();
    keys
}

const ORIGINS: [(&str, &str); 4] = [("http", "a.test"), ("http", "b.test"), ("https", "a.test"), ("https", "b.test")];

/// From the first request, which is answered in classic mode, through the boots, which come while requests do.
#[test]
fn no_host_is_answered_by_the_snapshot_of_another() {
    hosts_are_kept_apart("auto");
}

/// With fork isolation no request is served by the snapshot of another host or scheme.
#[test]
fn no_host_is_answered_by_the_snapshot_of_another_under_fork() {
    hosts_are_kept_apart("fork");
}

fn hosts_are_kept_apart(isolation: &str) {
    // A process each takes a hundred times as long as a rewind.
    let enough = if isolation == "fork" { amount(60, 500) } else { amount(200, 500) };
    let isolation = format!("isolation = \"{isolation}\"");
    let server = setup("\"a.test\", \"b.test\"").file("index.php", SCRIPT).application(&isolation).start();
    std::thread::scope(|scope| {
        for (number, (scheme, host)) in ORIGINS.into_iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let (mut visit, mut snapshots) = (0, 0);
                while snapshots < enough {
                    let own = format!("visit{number}x{visit}");
                    let (status, text) = ask(&mut client, scheme, host, &format!("/{own}?q={own}"));
                    let (mode, rest) = text.split_once(' ').expect("a mode");
                    assert_eq!(
                        (status, rest),
                        (200, expected(scheme, host, &own).as_str()),
                        "{scheme}://{host}, {mode}"
                    );
                    snapshots += usize::from(mode == "snapshot");
                    visit += 1;
                    assert!(visit < 100_000, "{scheme}://{host} has no snapshot");
                }
            });
        }
    });
    // One connection, one worker each: each request for another host than the one before.
    let mut client = server.client();
    for round in 0..100 {
        for (scheme, host) in ORIGINS {
            let own = format!("round{round}");
            let (_, text) = ask(&mut client, scheme, host, &format!("/?q={own}"));
            assert_eq!(text, format!("snapshot {}", expected(scheme, host, &own)));
        }
    }
    assert_eq!(keys(&server), ORIGINS.map(|(scheme, host)| format!("{scheme}://{host}/index.php")));
}

/// Only a host that the configuration names, spelled so and with the listener's port, gets a snapshot of its own.
#[test]
fn only_hosts_of_the_configuration_get_a_snapshot() {
    let server = setup("\"a.test\", \"*.wild.test\"").file("index.php", SCRIPT).start();
    let port = server.port.to_string();
    let strange =
        ["x.wild.test", "y.wild.test", "A.test", "a.test:1", "a.test:80", "a.test:443", "a.test:0", "a.test:08080"];
    for _ in 0..3 {
        for host in strange {
            assert_eq!(mode(&server, "http", host), "classic", "{host}");
        }
    }
    // As a client that asks this server itself has it.
    let own = format!("a.test:{port}");
    wait_for_snapshot(&server, "http", &own);
    wait_for_snapshot(&server, "http", "a.test");
    for host in strange {
        let (_, text) = ask(&mut server.client(), "http", host, "/");
        assert!(text.starts_with("classic 1 "), "{host}: {text}");
    }
    let (_, text) = ask(&mut server.client(), "http", &own, "/");
    assert!(text.starts_with(&format!("snapshot 1 [{own} a.test {port} http -] [{own} a.test ")), "{text}");
    assert_eq!(ask(&mut server.client(), "http", "b.test", "/").0, 421);
    assert_eq!(keys(&server), ["http://a.test/index.php".to_owned(), format!("http://{own}/index.php")]);
    assert!(!server.log().contains(".wild.test/"), "{}", server.log());
}

/// Eight lanes; the rest is served in classic mode. A reload boots those that there were.
#[test]
fn hosts_beyond_the_last_lane_run_in_classic_mode_and_a_reload_keeps_the_others() {
    let hosts: Vec<String> = (0..10).map(|number| format!("h{number}.test")).collect();
    let listed = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ");
    let server = setup(&listed).file("index.php", SCRIPT).start();
    for host in &hosts[..8] {
        wait_for_snapshot(&server, "https", host);
    }
    for host in &hosts[8..] {
        assert_eq!(mode(&server, "https", host), "classic");
    }
    let said = "\"https://h8.test/index.php\" stays in classic mode: the application has the most lanes it may have";
    wait_until("the log says why", 10, || server.log().contains(said));
    let before = keys(&server);
    assert_eq!(before.len(), 8);
    let (went_well, text) = server.reload();
    assert!(went_well, "{text}");
    for (number, host) in hosts.iter().enumerate() {
        let (_, text) = ask(&mut server.client(), "https", host, "/?q=again");
        let mode = if number < 8 { "snapshot" } else { "classic" };
        assert_eq!(text, format!("{mode} {}", expected("https", host, "again")));
    }
    assert_eq!(keys(&server), before);
    // One that the configuration does not name any more has none, and its place goes to the first that has found none.
    server.reconfigure("\"h0.test\", ", "");
    assert!(server.reload().0, "{}", server.log());
    let after: Vec<String> = before[1..].iter().cloned().chain(["https://h8.test/index.php".to_owned()]).collect();
    assert_eq!(keys(&server), after);
    assert_eq!(mode(&server, "https", "h8.test"), "snapshot");
}

/// The lane that nobody asks for gives its place to a host that somebody does.
#[test]
fn a_host_that_nobody_visits_gives_its_place_to_another() {
    let hosts: Vec<String> = (0..9).map(|number| format!("h{number}.test")).collect();
    let listed = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ");
    let server = setup(&listed).application("lane_timeout = \"3s\"").file("index.php", SCRIPT).start();
    for host in &hosts[..8] {
        wait_for_snapshot(&server, "https", host);
    }
    let visited: Vec<&String> = hosts.iter().filter(|host| *host != "h3.test").collect();
    wait_until("the ninth has a snapshot", 60, || {
        visited.iter().map(|host| mode(&server, "https", host)).filter(|mode| mode == "snapshot").count() == 8
    });
    let expected: Vec<String> = visited.iter().map(|host| format!("https://{host}/index.php")).collect();
    assert_eq!(keys(&server), expected);
    let said = "requests in 3s and takes the lane of https://h3.test/index.php, which had ";
    assert!(server.log().contains(said), "{}", server.log());
    assert_eq!(server.log().matches("reloaded:").count(), 1, "{}", server.log());
    assert_eq!(mode(&server, "https", "h3.test"), "classic");
}

/// Where the configuration or the script's text asks for it, the first host is booted before the server is ready.
#[test]
fn the_first_host_is_booted_at_the_start_and_named_everywhere() {
    let text = SCRIPT.replace("'reprise_' . 'snapshot'", "'reprise_snapshot'");
    for setup in [
        setup("\"*.wild.test\", \"a.test\", \"b.test\"")
            .file("index.php", SCRIPT)
            .application("mode.\"index.php\" = \"snapshot\""),
        setup("\"a.test\", \"b.test\"").file("index.php", &text),
    ] {
        let metrics = tests::server::free_port();
        let server = setup.server(&format!("admin_listen = [\"127.0.0.1:{metrics}\"]")).start();
        assert_eq!(keys(&server), ["http://a.test/index.php"]);
        assert_eq!(mode(&server, "http", "a.test"), "snapshot");
        assert_eq!(mode(&server, "https", "b.test"), "classic");
        wait_for_snapshot(&server, "https", "b.test");
        let both = ["http://a.test/index.php", "https://b.test/index.php"];
        for round in 0..2 {
            assert_eq!(keys(&server), both, "round {round}");
            let text = Client::new(metrics).get("/metrics").text();
            for key in both {
                assert!(server.log().contains(&format!("application 'app': {key} is booted, isolation")), "{key}");
                assert!(
                    text.contains(&format!("reprise_requests_total{{application=\"app\",lane=\"{key}\"}} ")),
                    "{text}"
                );
            }
            assert!(server.reload().0, "{}", server.log());
            for (scheme, host) in [("http", "a.test"), ("https", "b.test")] {
                assert_eq!(mode(&server, scheme, host), "snapshot", "round {round}");
            }
        }
    }
}

/// The log names the lane, with scheme and host, of a slow request.
#[test]
fn a_slow_request_is_reported_with_its_host() {
    let server =
        setup("\"a.test\", \"b.test\"").file("index.php", SCRIPT).application("slow_timeout = \"300ms\"").start();
    wait_for_snapshot(&server, "https", "b.test");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&mut server.client(), "https", "b.test", "/slow?ms=4000"));
        let begin = "slow request of application 'app': GET /slow?ms=4000, lane https://b.test/index.php, running";
        let line = wait_for("the log's line", 10, || {
            server.log().lines().find(|line| line.contains(begin)).map(str::to_owned)
        });
        let pid = line.rsplit(' ').next().expect("a process");
        let (_, text) = server.trace(pid);
        assert!(text.starts_with("lane https://b.test/index.php\n#0 usleep()"), "{text}");
        assert!(slow.join().expect("an answer").1.starts_with("snapshot 1 "));
    });
}

/// A snapshot per host needs a configured host: the start says so if the mode demands a snapshot.
#[test]
fn without_a_configured_host_there_is_none_to_boot() {
    let setup = Setup::empty().file("index.php", SCRIPT).application("mode.\"index.php\" = \"snapshot\"");
    let mut server = setup.application("hosts = [\"*.wild.test\"]").launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    let said = "/index.php cannot be booted: the script asks for a snapshot per host, and no host is configured; name the hosts: hosts =";
    assert!(server.log().contains(said), "{}", server.log());
    let server = Setup::empty().file("index.php", SCRIPT).start();
    for _ in 0..5 {
        assert_eq!(mode(&server, "http", "a.test"), "classic");
    }
    assert!(keys(&server).is_empty());
}

/// Each goes to the host that it names; what they find is booted before the server is ready, and before a reload goes over.
#[test]
fn warm_up_requests_go_to_the_hosts_they_name() {
    let script = SCRIPT.replace("<?php", "<?php if ($_SERVER['HTTP_HOST'] === 'c.test') http_response_code(503);");
    let warm = "warmup = [{ path = \"/w?q=b\", headers = { Host = \"b.test\" } }, \
                { path = \"/w\", headers = { Host = \"b.test\", X-Forwarded-Proto = \"https\" } }, \"/w\"]";
    let server = setup("\"a.test\", \"b.test\", \"c.test\"").file("index.php", &script).application(warm).start();
    let all = ["http://a.test/index.php", "http://b.test/index.php", "https://b.test/index.php"];
    assert_eq!(keys(&server), all);
    for (scheme, host) in [("http", "a.test"), ("http", "b.test"), ("https", "b.test")] {
        let (_, text) = ask(&mut server.client(), scheme, host, "/?q=first");
        assert_eq!(text, format!("snapshot {}", expected(scheme, host, "first")));
    }
    // The one for a host that is in trouble says so.
    server.reconfigure("Host = \"b.test\" }", "Host = \"c.test\" }");
    let (went_well, text) = server.reload();
    assert!(!went_well && text.contains("warm-up 1 of 3: GET /w?q=b: 503"), "{text}");
}

/// A template that comes back after its death finds that the code asks for a snapshot of its host alone: what waits in the lane
/// was asked of any host.
#[test]
fn a_lane_of_all_hosts_is_not_made_one_of_a_single_host() {
    let script = SCRIPT.replace("per_host: true", "per_host: file_exists(__DIR__ . '/../narrow')");
    let server = setup("\"a.test\", \"b.test\"").file("index.php", &script).start();
    wait_for_snapshot(&server, "http", "b.test");
    assert_eq!(keys(&server), ["/index.php"]);
    let (_, text) = ask(&mut server.client(), "http", "b.test", "/");
    assert!(text.starts_with("snapshot 1 [a.test "), "{text}");
    let template = || {
        let children = server.prototype().map_or(vec![], process::children);
        children.into_iter().find(|&pid| !process::children(pid).is_empty())
    };
    let old = wait_for("a template", 10, template);
    std::fs::write(server.root.join("../narrow"), "").unwrap();
    process::kill(old, Signal::SIGKILL);
    wait_until("a reload", 30, || server.log().contains("reloaded: app generation 2"));
    assert!(server.log().contains("now asks for a snapshot per host"), "{}", server.log());
    assert_eq!(keys(&server), ["http://a.test/index.php"]);
    for (scheme, host) in ORIGINS {
        wait_until(&format!("{scheme}://{host} has a snapshot"), 30, || {
            let (_, text) = ask(&mut server.client(), scheme, host, "/?q=x");
            let (mode, rest) = text.split_once(' ').expect("a mode");
            assert_eq!(rest, expected(scheme, host, "x"), "{mode}");
            mode == "snapshot"
        });
    }
}
