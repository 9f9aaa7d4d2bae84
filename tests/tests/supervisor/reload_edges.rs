//! Reloads at awkward moments: what comes too late, what comes again and again, who has gone away meanwhile.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tests::{Client, Server, Setup, process, wait_for, wait_until};

/// Processor time of a process so far, in hundredths of a second.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
}

/// Begins a request that writes `flag` when it runs.
fn begin(server: &Server, path: &str, flag: &str) -> Client {
    fs::set_permissions(&server.root, fs::Permissions::from_mode(0o777)).unwrap();
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    wait_until("the request runs", 10, || server.root.join(flag).exists());
    client
}

/// A lane that becomes ready while its generation drains disturbs neither the front nor the new generation.
#[test]
fn a_lane_that_is_ready_when_its_generation_drains_harms_nobody() {
    let snapshot = "<?php if (getenv('REPRISE_BOOT') || isset($_SERVER['REPRISE_BOOT'])) \
                    { $us = (int) file_get_contents(__DIR__ . '/boot_us'); touch(__DIR__ . '/boots'); usleep($us); } \
                    reprise_snapshot(); echo 'snapshot';";
    let slow = "<?php touch(__DIR__ . '/begun'); sleep(6); echo 'slow';";
    let server = Setup::empty()
        .file("index.php", "<?php echo 'up';")
        .file("slow.php", slow)
        .file("snapshot.php", snapshot)
        .file("boot_us", "3000000")
        .start();
    let front = server.front().expect("a front");
    fs::set_permissions(&server.root, fs::Permissions::from_mode(0o777)).unwrap();
    // Its template boots for three seconds from now on; that of the next generation does not.
    assert_eq!(server.get("/snapshot.php").text(), "snapshot");
    wait_until("the lane's template boots", 10, || server.root.join("boots").exists());
    fs::write(server.root.join("boot_us"), "0").unwrap();
    let mut slow = begin(&server, "/slow.php", "begun");
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    assert_eq!(slow.read(false).expect("the old generation's answer").text(), "slow");
    assert_eq!(server.front(), Some(front), "{}", server.log());
    assert_eq!(server.get("/snapshot.php").text(), "snapshot");
}

/// `opcache_reset()` in a generation that drains still makes a new generation.
#[test]
fn a_reset_by_a_generation_that_drains_is_not_lost() {
    let reset = "<?php touch(__DIR__ . '/begun'); sleep(4); echo json_encode(opcache_reset());";
    let index = "<?php reprise_snapshot(); echo reprise_info()['generation'];";
    let server = Setup::empty().file("index.php", index).file("reset.php", reset).start();
    let mut resetting = begin(&server, "/reset.php", "begun");
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    assert_eq!(server.get("/").text(), "2");
    assert_eq!(resetting.read(false).expect("an answer").text(), "true");
    wait_until("a third generation", 40, || server.get("/").text() == "3");
}

/// Reloads by `opcache_reset()` that are refused again and again have a pause between them.
#[test]
fn resets_that_are_refused_leave_time_between_them() {
    let index = "<?php if (is_file(__DIR__ . '/broken') && isset($_SERVER['HTTP_USER_AGENT']) \
                 && $_SERVER['HTTP_USER_AGENT'] === 'reprise-warmup') { usleep(300_000); http_response_code(500); }\n\
                 opcache_reset(); echo 'up';";
    let server = Setup::empty().file("index.php", index).application("warmup = [\"/\"]").start();
    fs::write(server.root.join("broken"), "").unwrap();
    // A new generation may be on its way already.
    wait_until("the first refusal", 30, || {
        assert_eq!(server.get("/").status, 200);
        server.log().contains("reload refused")
    });
    let (began, before) = (Instant::now(), server.log().matches("reload refused").count());
    while began.elapsed() < Duration::from_secs(5) {
        assert_eq!(server.get("/").status, 200);
        std::thread::sleep(Duration::from_millis(20));
    }
    let more = server.log().matches("reload refused").count() - before;
    // Each takes longer than 300 ms, and ten times that lies between two.
    assert!(more <= 3, "{more} refused reloads in five seconds");
}

/// A client of the control socket that leaves before its reload ends costs no processor time.
#[test]
fn who_does_not_wait_for_a_reload_costs_nothing() {
    let index = "<?php if (is_file(__DIR__ . '/slow') && ($_SERVER['HTTP_USER_AGENT'] ?? '') === 'reprise-warmup') \
                 sleep(5); echo reprise_info()['generation'];";
    let server = Setup::empty().file("index.php", index).application("warmup = [\"/\"]").start();
    fs::write(server.root.join("slow"), "").unwrap();
    let mut client = UnixStream::connect(server.directory().join("state/admin.sock")).unwrap();
    client.write_all(b"reload\n").unwrap();
    wait_until("the reload has begun", 10, || server.log().contains("reload requested: command `reprise reload`"));
    drop(client);
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks(server.pid());
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks(server.pid()) - before;
    assert!(used < 30, "the supervisor took {used} hundredths of a second in two seconds");
    wait_until("the reload", 20, || server.get("/").text() == "2");
}

/// A lane that never boots costs no processor time between its tries.
#[test]
fn a_lane_that_does_not_boot_costs_nothing() {
    let broken = "<?php if (isset($_SERVER['REPRISE_BOOT'])) throw new Exception('no'); reprise_snapshot(); echo 'up';";
    let server = Setup::empty()
        .file("index.php", "<?php echo 'up';")
        .file("broken.php", broken)
        .application("workers = 3\nmin_workers = 1")
        .start();
    assert_eq!(server.get("/broken.php").text(), "up");
    // PHP says it each time; the supervisor when it comes first, and when its number has doubled.
    let failures = || server.log().matches("PHP Fatal error:").count();
    // The next try is seconds away.
    wait_until("some tries", 30, || failures() >= 6);
    assert!((3..=4).contains(&server.log().matches("did not boot").count()), "{}", server.log());
    let calls = |pid: i32| -> u64 {
        let count = process::status(pid, "voluntary_ctxt_switches").expect("a process");
        count.trim().parse().expect("a number")
    };
    let before = calls(server.pid());
    std::thread::sleep(Duration::from_secs(2));
    let waits = calls(server.pid()) - before;
    assert!(waits < 200, "the supervisor waited {waits} times in two seconds");
}

/// A warm-up runs in the application that it is configured for, whatever hosts there are.
#[test]
fn a_warm_up_is_of_the_application_that_it_is_for() {
    let broken = "<?php http_response_code(500); echo 'broken';";
    let setup = Setup::empty()
        .file("index.php", "<?php echo 'first';")
        .application("hosts = [\"*.a.example\"]\nwarmup = [\"/\"]\nclient_requests = 1");
    let other = setup.directory().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("index.php"), "<?php echo 'second';").unwrap();
    let server = setup.start();
    let config = server.directory().join("reprise.toml");
    let old = fs::read_to_string(&config).unwrap();
    let added = format!("[[application]]\nname = \"b\"\nroot = \"{}\"\n", other.display());
    fs::write(&config, old.replace("[[application]]", &format!("{added}[[application]]"))).unwrap();
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    fs::write(server.root.join("index.php"), broken).unwrap();
    let (is_done, text) = server.reload();
    assert!(!is_done && text.contains("500: broken"), "{text}");
}

/// A warm-up does not count against `client_requests`.
#[test]
fn a_warm_up_is_no_client() {
    let index = "<?php if (isset($_GET['slow'])) { touch(__DIR__ . '/begun'); sleep(4); } echo 'up';";
    let server = Setup::empty().file("index.php", index).application("warmup = [\"/\"]\nclient_requests = 1").start();
    let mut slow = begin(&server, "/?slow", "begun");
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    assert!(server.log().matches("warm-up 1 of 1: GET /: 200").count() >= 2, "{}", server.log());
    assert_eq!(slow.read(false).expect("an answer").text(), "up");
    wait_for("an answer", 10, || (server.get("/").status == 200).then_some(()));
}

/// What was to be asked of a refused generation is not asked any more: nobody would answer it.
#[test]
fn a_warm_up_that_fails_does_not_hold_up_the_next() {
    let index = "<?php if (is_file(__DIR__ . '/broken')) { http_response_code(500); exit('broken'); } echo 'up';";
    let many = "warmup = [\"/\", \"/?2\", \"/?3\", \"/?4\", \"/?5\", \"/?6\"]";
    let server = Setup::empty().file("index.php", index).application(many).start();
    fs::write(server.root.join("broken"), "").unwrap();
    let (is_done, text) = server.reload();
    assert!(!is_done && text.contains("warm-up 1 of 6") && text.contains("500: broken"), "{text}");
    fs::remove_file(server.root.join("broken")).unwrap();
    let began = Instant::now();
    let (is_done, text) = server.reload();
    assert!(is_done, "{text}");
    // A request that waits for a worker in vain waits for thirty seconds.
    assert!(began.elapsed() < tests::seconds(15), "{:?}: {}", began.elapsed(), server.log());
}

/// A refusal points to the log if the process has written why it ended, and only then.
#[test]
fn a_refusal_points_to_the_log_where_the_log_has_more() {
    let setup = Setup::empty().file("index.php", "<?php reprise_snapshot(); echo 'up';");
    let server = setup.application("boot_timeout = \"2s\"").start();
    let pointer = "; the process's own message is in the log";
    let rows = [
        ("exit(1);", "its process exited with code ", true),
        ("posix_kill(posix_getpid(), SIGKILL);", "its process was killed by SIGKILL", false),
        ("if (isset($_SERVER['REPRISE_BOOT'])) sleep(30);", "it took longer than 2s", false),
    ];
    for (boot, why, has_message) in rows {
        fs::write(server.root.join("index.php"), format!("<?php {boot} reprise_snapshot(); echo 'up';")).unwrap();
        let (is_done, said) = server.reload();
        let expected = format!("/index.php did not boot: {why}");
        assert!(!is_done && said.contains(&expected), "{boot}: {said}\n{}", server.log());
        assert_eq!(said.contains(pointer), has_message, "{boot}: {said}");
        assert_eq!(server.get("/").text(), "up");
    }
}

/// Behind a symbolic link the next release is the same application, with its data cache, its keys and its count of generations, though
/// nobody has named it.
#[test]
fn a_release_behind_a_link_is_the_same_application() {
    let directory = tests::server::Directory::new();
    let link = |site: &str, number: usize| {
        let (base, next) = (directory.0.join(site), directory.0.join("next"));
        symlink(base.join(format!("releases/2026010{number}")), &next).unwrap();
        fs::rename(next, base.join("current")).unwrap();
    };
    let script = "<?php reprise_snapshot(); $info = reprise_info(); \
        echo $info['application'], ' ', $info['generation'], ' ', reprise_cache('release', fn () => basename(dirname(__DIR__)));";
    for site in ["shop", "blog/site", "news/site"] {
        for number in [1, 2] {
            let public = directory.0.join(site).join(format!("releases/2026010{number}/public"));
            fs::create_dir_all(&public).unwrap();
            fs::write(public.join("index.php"), script).unwrap();
        }
        link(site, 1);
    }
    let another = |site: &str, host: &str| {
        let root = directory.0.join(site).join("current/public");
        format!("root = \"{}\"\nhosts = [\"{host}\"]\nworkers = 1", root.display())
    };
    let setup = Setup::empty().file("index.php", "").application("hosts = [\"localhost\"]");
    let names = [("shop.example", "shop"), ("blog.example", "blog/site"), ("news.example", "news/site")];
    let server = names.iter().fold(setup, |setup, (host, name)| setup.another(&another(name, host))).start();
    let said = |host: &str| server.client().request("GET", "/", &[("Host", host)], b"").text();
    for (host, name) in names {
        assert_eq!(said(host), format!("{name} 1 20260101"));
    }
    for (_, name) in names {
        link(name, 2);
    }
    let (is_reloaded, told) = server.reload();
    assert!(is_reloaded, "{told}");
    for (host, name) in names {
        assert_eq!(said(host), format!("{name} 2 20260101"), "what the first release has kept");
    }
}
