//! Lanes with a template: how an entry gets one, what serves it meanwhile, and what a death there costs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::signal::Signal;
use tests::status::workers_in;
use tests::{Client, Server, Setup, process, wait_for, wait_until};

/// Says in which mode it runs; `$boot` is code of the boot alone.
fn entry(boot: &str) -> String {
    format!(
        "<?php\nif (isset($_SERVER['REPRISE_BOOT'])) {{ {boot} }}\n$times = 0;\nreprise_snapshot();\n\
         if (isset($_GET['ms'])) usleep(1000 * $_GET['ms']);\n\
         echo reprise_info()['mode'], ' ', ++$times, ' ', getmypid();\n"
    )
}

fn mode(server: &Server, path: &str) -> String {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text().split(' ').next().expect("a mode").to_owned()
}

fn wait_for_mode(server: &Server, path: &str, wanted: &str) {
    wait_until(&format!("{path} runs in {wanted} mode"), 20, || mode(server, path) == wanted);
}

/// The children of the prototype that have children.
fn templates(server: &Server) -> Vec<i32> {
    let children = server.prototype().map_or(vec![], process::children);
    children.into_iter().filter(|&pid| !process::children(pid).is_empty()).collect()
}

fn wait_for_template(server: &Server) -> i32 {
    wait_for("a template with workers", 20, || templates(server).first().copied())
}

// ---- how an entry gets a lane --------------------------------------------------------------------------------------

/// A front controller whose text names `reprise_snapshot` has its snapshot before the server is ready.
#[test]
fn an_entry_that_names_the_function_is_booted_before_the_server_is_ready() {
    let server = Setup::empty().file("index.php", entry("")).start();
    for _ in 0..20 {
        let answer = server.get("/any/path").text();
        assert!(answer.starts_with("snapshot 1 "), "{answer}");
    }
    let log = server.log();
    let booted = log.find("application 'app': /index.php is booted, isolation ").expect("a line");
    assert!(booted < log.find("ready after").unwrap(), "{log}");
    assert!(log.contains("booted        /index.php (it names reprise_snapshot)"), "{log}");
}

/// A script that calls the function in classic mode gets a lane, and is served in classic mode until then.
#[test]
fn an_entry_that_is_found_gets_a_lane_while_classic_serves() {
    let indirect = "<?php\n$call = 'reprise_' . 'snapshot';\n$call();\necho reprise_info()['mode'], ' ';\n";
    let server = Setup::empty().file("index.php", indirect).file("sub/other.php", entry("")).start();
    for path in ["/", "/sub/other.php"] {
        assert_eq!(mode(&server, path), "classic");
        wait_for_mode(&server, path, "snapshot");
    }
    let said = server.log().matches("asks for a snapshot; requests run in classic mode until it is booted").count();
    assert_eq!(said, 2, "{}", server.log());
}

/// `mode` decides, whatever the script calls.
#[test]
fn modes_win_over_what_scripts_ask_for() {
    let server = Setup::empty()
        .file("index.php", entry(""))
        .file("a.php", entry(""))
        .file("b.php", "<?php include 'a.php';")
        .application("mode = { \"index.php\" = \"classic\", \"a.php\" = \"classic\", \"/b.php\" = \"snapshot\" }")
        .start();
    for _ in 0..5 {
        assert_eq!((mode(&server, "/"), mode(&server, "/a.php")), ("classic".into(), "classic".into()));
        assert_eq!(mode(&server, "/b.php"), "snapshot");
    }
    assert_eq!(templates(&server).len(), 1);
}

/// Eight scripts get a lane; further ones run in classic mode, and the log says why.
#[test]
fn there_are_eight_lanes_and_classic_for_the_rest() {
    let mut setup = Setup::empty().file("index.php", entry("")).application("workers = 1");
    for number in 0..9 {
        setup = setup.file(&format!("{number}.php"), entry(""));
    }
    let server = setup.start();
    for number in 0..7 {
        wait_for_mode(&server, &format!("/{number}.php"), "snapshot");
    }
    for number in 7..9 {
        assert_eq!(mode(&server, &format!("/{number}.php")), "classic");
    }
    wait_until("the log says why", 10, || server.log().contains("the most lanes it may have"));
    assert_eq!((mode(&server, "/7.php"), mode(&server, "/6.php")), ("classic".into(), "snapshot".into()));
}

/// The scripts that are asked for most get the eight lanes, whoever came first: snapshots and worker scripts, by few reloads.
#[test]
fn the_scripts_that_are_asked_for_most_get_the_lanes() {
    let snapshot = "<?php $call = 'reprise_' . 'snapshot'; $call(); echo reprise_info()['mode'];";
    let worker = "<?php while (reprise_handle_request(function () { echo reprise_info()['mode']; })) {}";
    let mut setup = Setup::empty().file("index.php", entry("")).application("workers = 8\nlane_timeout = \"3s\"");
    for number in 0..30 {
        let script = if number % 2 == 0 { snapshot } else { worker };
        setup = setup.file(&format!("{number}.php"), script);
    }
    let server = setup.start();
    let own = |number: usize| if number % 2 == 0 { "snapshot" } else { "worker" };
    let path = |number: usize| format!("/{number}.php");
    let by_chance: Vec<usize> = (0..7).collect();
    by_chance.iter().for_each(|number| wait_for_mode(&server, &path(*number), own(*number)));
    let often = [10, 21, 29];
    wait_until("the most asked for have lanes", 60, || {
        by_chance.iter().for_each(|number| assert_eq!(server.get(&path(*number)).status, 200));
        let modes = often.map(|number| (0..8).map(|_| mode(&server, &path(number))).collect::<Vec<_>>().pop());
        modes == often.map(|number| Some(own(number).to_owned()))
    });
    let log = server.log();
    // Requests may be compared while they begin to come.
    assert!((1..=2).contains(&log.matches("reloaded:").count()), "{log}");
    assert!(log.contains(" and takes the lane of /") && !log.contains("takes the lane of /index.php"), "{log}");
    let staying = by_chance.iter().filter(|number| mode(&server, &path(**number)) == own(**number)).count();
    assert_eq!((staying, mode(&server, "/").as_str()), (by_chance.len() - often.len(), "snapshot"));
}

/// One file that every script includes calls reprise_snapshot(), or the loop; the application has named none of them.
#[test]
fn lanes_that_are_found_share_workers_by_need() {
    let shared = [
        ("snapshot", "<?php reprise_snapshot(); answer();"),
        ("worker", "<?php while (reprise_handle_request('answer')) {}"),
    ];
    for (mode, line) in shared {
        let answer = "<?php function answer() { usleep(1000 * (int) ($_GET['ms'] ?? 0)); echo reprise_info()['mode'], ' ', getmypid(); }";
        let mut setup = Setup::empty().file("index.php", "<?php echo 'index';").file("shared.inc", line);
        for number in 0..5 {
            let script = format!("{answer} include __DIR__ . '/shared.inc';");
            setup = setup.file(&format!("{number}.php"), script);
        }
        let server = setup.application("workers = 8").start();
        let paths: Vec<String> = (0..5).map(|number| format!("/{number}.php")).collect();
        paths.iter().for_each(|path| wait_for_mode(&server, path, mode));
        let live = || workers_in(&server.status(&["--json"]), mode);
        // All of them together never have more than one lane would.
        wait_until("they share", 20, || (5..=8).contains(&live()));
        let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
        let of_busy: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    most.fetch_max(live() as u64, Ordering::Relaxed);
                }
            });
            let ask = |path: String| {
                let mut client = server.client();
                scope.spawn(move || {
                    (0..40).map(|_| client.get(&path)).map(|answer| (answer.status, answer.text())).collect::<Vec<_>>()
                })
            };
            // One has much to do, and each of the others serves all the while.
            let busy: Vec<_> = (0..8).map(|_| ask("/0.php?ms=20".to_owned())).collect();
            let others: Vec<_> = paths[1..].iter().map(|path| ask(path.clone())).collect();
            for answers in others {
                assert!(answers.join().unwrap().iter().all(|(status, text)| *status == 200 && text.starts_with(mode)));
            }
            let answers: Vec<_> = busy.into_iter().flat_map(|one| one.join().unwrap()).collect();
            assert!(answers.iter().all(|(status, text)| *status == 200 && text.starts_with(mode)), "{mode}");
            is_over.store(true, Ordering::Relaxed);
            looks.join().unwrap();
            answers.into_iter().map(|(_, text)| text).collect()
        });
        assert!(most.load(Ordering::Relaxed) <= 8, "{mode}: {most:?} workers\n{}", server.log());
        assert!(of_busy.len() >= 3, "who has work gets workers: {of_busy:?}");
    }
}

// ---- boots that fail -----------------------------------------------------------------------------------------------

/// A script that does not boot is served in classic mode, and booted again later.
#[test]
fn what_does_not_boot_is_served_in_classic_mode_and_tried_again() {
    let setup = Setup::empty();
    let broken = setup.directory().join("broken");
    std::fs::write(&broken, "").unwrap();
    let fails = format!("if (file_exists('{}')) posix_kill(getmypid(), SIGKILL);", broken.display());
    let server = setup.file("index.php", entry(&fails)).start();
    assert_eq!(mode(&server, "/"), "classic");
    let log = server.log();
    assert!(
        log.contains("/index.php did not boot: its process was killed by SIGKILL; its requests run in classic mode;"),
        "{log}"
    );
    std::fs::remove_file(&broken).unwrap();
    wait_for_mode(&server, "/", "snapshot");
}

/// A boot that takes longer than `boot_timeout` is ended, and its script runs in classic mode.
#[test]
fn a_boot_that_takes_too_long_is_ended() {
    let sleeps = "for (;;) usleep(1000);";
    let server = Setup::empty().file("index.php", entry(sleeps)).application("boot_timeout = \"1s\"").start();
    assert_eq!(mode(&server, "/"), "classic");
    assert!(server.log().contains("/index.php did not boot: it took longer than 1s;"), "{}", server.log());
}

/// If `mode` demands a snapshot and the script does not boot, the start fails with exit code 70.
#[test]
fn a_server_whose_configuration_wants_a_snapshot_does_not_start_without() {
    let setup = Setup::empty().file("index.php", entry("exit(1);"));
    let mut server = setup.application("mode.\"index.php\" = \"snapshot\"").launch();
    assert_eq!(server.wait(20), 70, "{}", server.log());
    let log = server.log();
    assert!(
        log.contains("reprise: application 'app': /index.php did not start") && !log.contains("ready after"),
        "{log}"
    );
}

/// A stop ends a boot that is under way.
#[test]
fn a_stop_does_not_wait_for_a_boot() {
    let setup = Setup::empty().file("index.php", "<?php echo 'x ';").file("slow.php", entry("for (;;) usleep(1000);"));
    let mut server = setup.start();
    assert_eq!(mode(&server, "/slow.php"), "classic");
    wait_until("it boots", 10, || server.log().contains("/slow.php asks for a snapshot"));
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(10), 0, "{}", server.log());
}

// ---- deaths --------------------------------------------------------------------------------------------------------

/// Requests of six clients during `during`: answered, lost to a death (502). Anything else fails the test.
fn load(server: &Server, path: &str, during: impl FnOnce(&AtomicU64)) -> (u64, u64) {
    let (stop, answered, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client: Client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.get(path);
                    match answer.status {
                        200 => answered.fetch_add(1, Ordering::Relaxed),
                        502 => lost.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other}: {}", answer.text()),
                    };
                }
            });
        }
        // A panic here must not leave the clients running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| during(&answered)));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    (answered.into_inner(), lost.into_inner())
}

fn wait_for_more(answered: &AtomicU64, more: u64) {
    let from = answered.load(Ordering::Relaxed);
    wait_until("requests are answered", 20, || answered.load(Ordering::Relaxed) >= from + more);
}

fn a_template_dies(isolation: &str) {
    let setup = Setup::empty().file("index.php", entry("")).application("workers = 3");
    let mut server = setup.application(&format!("isolation = \"{isolation}\"")).start();
    let (_, lost) = load(&server, "/", |answered| {
        for _ in 0..3 {
            let template = wait_for_template(&server);
            wait_for_more(answered, 50);
            process::kill(template, Signal::SIGKILL);
            wait_until("it is gone", 10, || !process::is_alive(template));
            let next = wait_for_template(&server);
            assert_ne!(next, template);
        }
        wait_for_more(answered, 50);
    });
    assert!(lost <= 9, "{lost} requests were lost to three deaths with three workers each");
    wait_for_mode(&server, "/", "snapshot");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(20), 0, "{}", server.log());
}

/// A killed template costs only the requests that its clones ran, and comes back.
#[test]
fn the_death_of_a_template_costs_what_its_workers_ran() {
    a_template_dies("auto");
}

/// With fork isolation, too, a killed template costs only the requests that its clones ran.
#[test]
fn the_death_of_a_template_costs_what_its_workers_ran_under_fork() {
    a_template_dies("fork");
}

/// A killed prototype takes its template and clones with it, costs what they ran, and all come back.
#[test]
fn a_prototype_takes_its_templates_with_it_and_both_come_again() {
    let server = Setup::empty().file("index.php", entry("")).start();
    let (prototype, template) = (server.prototype().unwrap(), wait_for_template(&server));
    let clones = process::children(template);
    let (_, lost) = load(&server, "/", |answered| {
        wait_for_more(answered, 50);
        process::kill(prototype, Signal::SIGKILL);
        wait_until("another prototype", 20, || server.prototype().is_some_and(|pid| pid != prototype));
        wait_for_more(answered, 50);
    });
    assert!(lost <= 4, "{lost} requests were lost to the death of two workers of each lane");
    wait_for_mode(&server, "/", "snapshot");
    for pid in clones.into_iter().chain([template]) {
        assert!(!process::is_alive(pid), "{pid} outlived its prototype");
    }
}

/// A template outlives the front, and its clones serve the next one.
#[test]
fn templates_serve_the_next_front() {
    let server = Setup::empty().file("index.php", entry("")).start();
    let template = wait_for_template(&server);
    let front = server.front().unwrap();
    process::kill(front, Signal::SIGKILL);
    wait_until("another front", 20, || server.front().is_some_and(|pid| pid != front));
    wait_for_mode(&server, "/", "snapshot");
    assert!(process::is_alive(template), "{}", server.log());
}

/// A stop still serves queued requests, with fork isolation too.
#[test]
fn a_stop_answers_what_is_queued_also_by_a_process_each() {
    let setup =
        Setup::empty().file("index.php", entry("")).application("isolation = \"fork\"").application("workers = 2");
    let mut server = setup.start();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12).map(|_| scope.spawn(|| server.get("/?ms=150").status)).collect();
        wait_until("they wait", 10, || templates(&server).iter().any(|&pid| process::children(pid).len() >= 2));
        wait_until("more are queued", 10, || tests::status::sum(&server.status(&["--json"]), "waiting") >= 1);
        server.signal(Signal::SIGTERM);
        for client in clients {
            assert_eq!(client.join().expect("a client"), 200);
        }
    });
    assert_eq!(server.wait(20), 0, "{}", server.log());
}

/// A boot is told of the requests the configuration lists, and what they build is part of every request.
#[test]
fn a_boot_knows_the_requests_to_warm_up_with() {
    let script = "<?php $seen = []; foreach (reprise_warmup_requests() as $request) $seen[] = $request; reprise_snapshot(); echo json_encode([$seen, count(reprise_warmup_requests())]);";
    let warmup =
        "warmup = [\"/a?b=1\", { method = \"post\", path = \"/c\", headers = { Accept = \"x/y\", \"X-N\" = 1 } }]";
    let server = Setup::empty().file("index.php", script).application(warmup).start();
    let expected = r#"[[{"method":"GET","path":"\/a?b=1","headers":[]},{"method":"POST","path":"\/c","headers":{"Accept":"x\/y","X-N":"1"}}],2]"#;
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), expected);
    }
    let plain = Setup::empty().file("index.php", "<?php echo json_encode(reprise_warmup_requests());").start();
    assert_eq!(plain.get("/").text(), "[]");
}
