//! `fpm_get_status()` and the full status, beside those of PHP-FPM.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tests::peer::Fpm;
use tests::snapshot::{best_isolation, isolations};
use tests::{Client, Setup, wait_for};

const SCRIPT: &str = "function report() { $status = function_exists('fpm_get_status') ? fpm_get_status() : null;
    return json_encode([$status, array_map('get_debug_type', $status ?? []), array_map(fn($of) => array_map('get_debug_type', $of), $status['procs'] ?? []),
        [array_keys($status ?? []), array_map('array_keys', $status['procs'] ?? [])]],
        JSON_PRESERVE_ZERO_FRACTION); }";

/// The script in classic mode, behind a snapshot and in a worker script's loop.
fn scripts() -> [(&'static str, String); 3] {
    [
        ("classic.php", format!("<?php {SCRIPT} echo report();")),
        ("index.php", format!("<?php {SCRIPT} reprise_snapshot(); echo report();")),
        ("worker.php", format!("<?php {SCRIPT} while (reprise_handle_request(function () {{ echo report(); }})) {{}}")),
    ]
}

fn keys(of: &Value) -> Vec<&String> {
    of.as_object().unwrap_or_else(|| panic!("no object: {of}")).keys().collect()
}

/// `fpm_get_status()` returns PHP-FPM's array, with the same keys and types, in every mode.
#[test]
fn the_status_for_scripts_is_that_of_fpm() {
    for isolation in isolations() {
        let setup = scripts().into_iter().fold(Setup::empty(), |setup, (name, code)| setup.file(name, code));
        let server = setup
            .application("mode.\"/worker.php\" = \"worker\"\nmode.\"/index.php\" = \"snapshot\"")
            .application(&format!("isolation = \"{isolation}\""))
            .start();
        let fpm = Fpm::start(&server.root);
        let get = |port, script: &str| {
            let login = ("Authorization", "Basic YWxpY2U6eA==");
            let answer = Client::new(port).request("GET", &format!("/{script}?q=1&r"), &[login], b"");
            (answer.status == 200).then(|| serde_json::from_str::<Value>(&answer.text()).expect("a report"))
        };
        // Now and then a child of PHP-FPM 8.2 dies of SIGSEGV in this function.
        let theirs = wait_for("PHP-FPM answers", 20, || get(fpm.port, "classic.php"));
        let own = |report: &Value| -> Value {
            let all = report[0]["procs"].as_array().unwrap();
            all.iter().find(|one| one["state"] == "Running").unwrap_or_else(|| panic!("none runs: {report}")).clone()
        };
        for (number, (script, _)) in scripts().iter().enumerate() {
            let ours = get(server.port, script).expect("an answer");
            // Of workers of all lanes there are more.
            assert_eq!(keys(&ours[0]), keys(&theirs[0]), "{isolation}, {script}");
            assert_eq!((&ours[1], &ours[3][0]), (&theirs[1], &theirs[3][0]), "{isolation}, {script}");
            assert!(ours[3][1].as_array().unwrap().iter().all(|order| *order == theirs[3][1][0]), "{ours}\n{theirs}");
            assert!(!ours[2].as_array().unwrap().is_empty(), "{ours}");
            assert!(ours[2].as_array().unwrap().iter().all(|one| *one == theirs[2][0]), "{ours}\n{theirs}");
            let (own, other) = (own(&ours), own(&theirs));
            assert_eq!(keys(&own), keys(&other), "{isolation}, {script}");
            for name in
                ["request-method", "query-string", "request-length", "user", "last-request-cpu", "last-request-memory"]
            {
                assert_eq!(own[name], other[name], "{isolation}, {script}: {name}");
            }
            assert_eq!(own["request-uri"], format!("/{script}"), "{own}");
            assert_eq!(own["script"], format!("{}/{script}", server.root.display()), "{own}");
            assert!(own["request-duration"].as_u64().is_some_and(|time| time > 0), "{own}");
            assert_eq!((&ours[0]["pool"], &ours[0]["process-manager"]), (&"app".into(), &theirs[0]["process-manager"]));
            assert_eq!(ours[0]["accepted-conn"], number as u64 + 1, "its own request counts: {ours}");
            // The worker before may not have ended its request.
            let busy = ours[0]["procs"].as_array().unwrap().iter().filter(|one| one["state"] != "Idle").count();
            assert_eq!(ours[0]["active-processes"], busy, "{ours}");
            assert_eq!(ours[0]["total-processes"], ours[0]["procs"].as_array().unwrap().len(), "{ours}");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            for of in [&ours[0], &own] {
                let (at, since) = (of["start-time"].as_u64().unwrap(), of["start-since"].as_u64().unwrap());
                assert!((now - 120..=now).contains(&at) && (at + since).abs_diff(now) <= 2, "{of}, {now}");
            }
        }
    }
}

/// `fpm_get_status()` works before and behind the end of a response, and not in a forked child.
#[test]
fn the_status_for_scripts_is_there_wherever_a_worker_runs_them() {
    const ASK: &str = "function pool() { return fpm_get_status()['pool'] ?? 'none'; }";
    const DO: &str = "switch ($_GET['do']) {
        case 'pool': echo pool(); break;
        case 'late': echo 'early'; fastcgi_finish_request(); file_put_contents(getenv('PLACE') . '/late', pool()); break;
        case 'child': if (($pid = pcntl_fork()) === 0) { file_put_contents(getenv('PLACE') . '/child', var_export(fpm_get_status(), true)); posix_kill(getmypid(), SIGKILL); }
            pcntl_waitpid($pid, $status); echo file_get_contents(getenv('PLACE') . '/child'); break; }";
    for isolation in isolations() {
        let place = tests::server::Directory::new();
        tests::peer::writable_directory(&place.0, &tests::peer::web_user());
        let server = Setup::empty()
            .file("classic.php", format!("<?php {ASK} {DO}"))
            .file("index.php", format!("<?php {ASK} $boot = var_export(fpm_get_status(), true); reprise_snapshot(); if ($_GET['do'] === 'boot') echo $boot; {DO}"))
            .file("worker.php", format!("<?php {ASK} while (reprise_handle_request(function () {{ {DO} }})) {{}}"))
            .application("mode.\"/worker.php\" = \"worker\"\nmode.\"/index.php\" = \"snapshot\"")
            .application(&format!("isolation = \"{isolation}\"\nenv.PLACE = \"{}\"", place.0.display()))
            .start();
        assert_eq!(server.get("/index.php?do=boot").text(), "false", "{isolation}");
        for script in ["classic", "index", "worker"] {
            let get = |what: &str| server.get(&format!("/{script}.php?do={what}")).text();
            assert_eq!(get("child"), "false", "{isolation}, {script}");
            assert_eq!(get("late"), "early", "{isolation}, {script}");
            let late = wait_for("it has asked", 10, || {
                std::fs::read_to_string(place.0.join("late")).ok().filter(|text| !text.is_empty())
            });
            assert_eq!(late, "app", "{isolation}, {script}");
            std::fs::remove_file(place.0.join("late")).unwrap();
        }
        // All lanes at once: each finds a whole report.
        let (port, scripts) = (server.port, ["classic", "index", "worker"]);
        let threads = (0..6).map(|number| {
            std::thread::spawn(move || {
                let mut client = Client::new(port);
                let path = format!("/{}.php?do=pool", scripts[number % 3]);
                (0..40).filter(|_| client.get(&path).text() == "app").count()
            })
        });
        let threads: Vec<_> = threads.collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 40), "{isolation}");
    }
}

/// The full status has the user of a running request, and processor time and memory of the last one.
#[test]
fn the_full_status_says_who_asked_and_what_the_last_request_used() {
    const SCRIPT: &str =
        "$until = hrtime(true) + 30_000_000; while (hrtime(true) < $until) {} echo strlen(str_repeat('x', 6 << 20));
        $go = __DIR__ . '/go'; while (isset($_GET['wait']) && !file_exists($go)) { usleep(10000); clearstatcache(); }";
    // With a process for each request none has a last one.
    let boots: &[&str] = if best_isolation() == "fork" { &[""] } else { &["", "reprise_snapshot();"] };
    for snapshot in boots {
        let server = Setup::empty()
            .file("index.php", format!("<?php {snapshot} {SCRIPT}"))
            .application("status_path = \"/status\"")
            .start();
        let status = |wanted: &dyn Fn(&Value) -> bool| {
            wait_for("it is shown", 10, || {
                let status: Value = serde_json::from_str(&server.get("/status?json&full").text()).unwrap();
                assert_eq!(status["slow requests"], 0, "{status}");
                status["processes"].as_array().unwrap().iter().find(|one| wanted(one)).cloned()
            })
        };
        let mut client = server.client();
        client.send(b"GET /?wait HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YWxpY2U6eA==\r\n\r\n").unwrap();
        let runs = status(&|one| one["user"] == "alice");
        assert_eq!((&runs["last request cpu"], &runs["last request memory"]), (&0.0.into(), &0.into()), "{runs}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (at, since) = (runs["start time"].as_u64().unwrap(), runs["start since"].as_u64().unwrap());
        assert!((now - 120..=now).contains(&at) && (at + since).abs_diff(now) <= 2, "{runs}, {now}");
        std::fs::write(server.root.join("go"), "").unwrap();
        client.read(false).unwrap();
        server.get("/");
        let ran = status(&|one| one["state"] == "Idle" && one["last request cpu"].as_f64().is_some_and(|of| of > 5.0));
        assert!(ran["last request cpu"].as_f64().is_some_and(|share| share <= 110.0), "{ran}");
        assert!(ran["last request memory"].as_u64().is_some_and(|bytes| (6 << 20..64 << 20).contains(&bytes)), "{ran}");
        assert!(ran["request duration"].as_u64().is_some_and(|time| time >= 30_000), "{ran}");
        assert_eq!(ran["user"], "-", "{ran}");
        let text = server.get("/status?full").text();
        for line in ["\nuser:                 -\n", " +0000\nstart since:          ", "\nlast request memory:  "] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
