//! The settings that PHP-FPM itself has, php.ini files of one's own, and settings that PHP does not have.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tests::peer::Fpm;
use tests::server::{Directory, program};
use tests::snapshot::isolations;
use tests::{Client, Setup, wait_until};

const NAMES: &str = "['cgi.rfc2616_headers', 'cgi.nph', 'cgi.fix_pathinfo', 'cgi.discard_path', 'fastcgi.logging', 'fastcgi.error_header']";

/// The settings that PHP-FPM registers exist with the same values and the same access.
#[test]
fn the_settings_of_fpm_are_there_as_under_fpm() {
    let script = format!(
        "<?php $all = ini_get_all(); echo json_encode(array_map(fn($name) => [$name, $all[$name] ?? null, ini_get($name),
            @ini_set($name, '7'), ini_get($name)], {NAMES}));"
    );
    let server = Setup::empty().file("index.php", &script).start();
    let fpm = Fpm::start(&server.root);
    assert_eq!(server.get("/").text(), Client::new(fpm.port).get("/").text());
    // What a pool sets is set here; it keeps no server from starting.
    let set = Setup::empty().file("index.php", &script).application("admin_ini.\"cgi.fix_pathinfo\" = 0").start();
    let fpm = Fpm::with(&set.root, &[("cgi.fix_pathinfo", "0")]);
    let get = |port| Client::new(port).get("/index.php").text();
    assert_eq!(get(set.port), get(fpm.port));
}

/// `fastcgi.error_header` replaces the status after a fatal error, as under PHP-FPM.
#[test]
fn the_error_header_is_sent_after_a_fatal_error_as_under_fpm() {
    const CASES: [(&str, &str); 5] = [
        ("none", ""),
        ("exception", "throw new Exception('x');"),
        ("function", "no_such_function();"),
        ("exit", "exit(255);"),
        ("late", "echo str_repeat('x', 100000); flush(); throw new Exception('x');"),
    ];
    let cases: Vec<String> = CASES.iter().map(|(name, code)| format!("case '{name}': {code} break;")).collect();
    let code = format!("switch ($_GET['do']) {{ {} }} echo 'end';", cases.join(" "));
    let header = "HTTP/1.1 551 Broken";
    for isolation in isolations() {
        let server = Setup::empty()
            .file("classic.php", format!("<?php {code}"))
            .file("index.php", format!("<?php reprise_snapshot(); {code}"))
            .file("worker.php", format!("<?php while (reprise_handle_request(function () {{ {code} }})) {{}}"))
            .ini("fastcgi.error_header", header)
            .ini("display_errors", "0")
            .application("mode.\"/worker.php\" = \"worker\"")
            .application(&format!("isolation = \"{isolation}\""))
            .start();
        let fpm = Fpm::with_php_ini(&server.root, &[], &[("fastcgi.error_header", header), ("display_errors", "0")]);
        for (name, _) in CASES {
            let theirs = Client::new(fpm.port).get(&format!("/classic.php?do={name}"));
            for script in ["classic", "index", "worker"] {
                let ours = server.get(&format!("/{script}.php?do={name}"));
                assert_eq!((ours.status, ours.text()), (theirs.status, theirs.text()), "{isolation}, {script}: {name}");
            }
            assert_eq!(theirs.status == 551, matches!(name, "exception" | "function" | "exit"), "{name}");
        }
    }
}

fn check(configuration: &str, phprc: Option<&str>) -> Output {
    let directory = Directory::new();
    let file = directory.0.join("reprise.toml");
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new(program());
    command.args(["check", "--config"]).arg(&file).env_remove("PHPRC");
    command.envs(phprc.map(|value| ("PHPRC", value)));
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The log names each configured setting that PHP does not have, with the nearest one.
#[test]
fn unknown_settings_are_warned_of() {
    let setup = Setup::empty()
        .file("index.php", "<?php echo get_cfg_var('own.thing');")
        .application("admin_ini.precision = 5")
        .application("admin_ini.extension = \"ctype\"")
        .ini("memroy_limit", "64M")
        .ini("own.thing", "seen")
        .ini("memory_limit", "65M");
    let root = setup.document_root().display().to_string();
    let server = setup.start();
    assert_eq!(server.get("/").text(), "seen");
    wait_until("it is said", 5, || {
        server.log().contains("PHP has no setting 'memroy_limit', the nearest is 'memory_limit'")
    });
    let log = server.log();
    assert!(log.contains("PHP has no setting 'own.thing'"), "{log}");
    for known in ["'memory_limit';", "'precision'", "'extension'"] {
        assert!(!log.contains(&format!("no setting {known}")), "{log}");
    }
    let table = "ini.memroy_limit = \"64M\"\nini.\"opcache.enable\" = 1\nadmin_ini.precison = 5";
    let output = check(&format!("[[application]]\nroot = \"{root}\"\n{table}\n"), None);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for words in ["'memroy_limit', the nearest is 'memory_limit'", "'precison', the nearest is 'precision'"] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(!text.contains("no setting 'opcache.enable'"), "{text}");
}

/// `php_ini` and PHPRC name the php.ini that PHP reads.
#[test]
fn another_php_ini_is_read() {
    const SCRIPT: &str =
        "<?php ob_start(); phpinfo(INFO_GENERAL); echo json_encode([php_ini_loaded_file(), ini_get('precision'),
        str_contains(ob_get_clean(), php_ini_loaded_file()), extension_loaded('ctype')]);";
    let setup = Setup::empty().file("index.php", SCRIPT);
    let (named, other) = (setup.directory().join("own.ini"), setup.directory().join("php.ini"));
    fs::write(&named, "precision = 9\n").unwrap();
    fs::write(&other, "precision = 8\n").unwrap();
    let place = setup.directory().display().to_string();
    let root = setup.document_root().display().to_string();
    let server = setup.application(&format!("php_ini = \"{}\"", named.display())).start();
    let seen: Value = serde_json::from_str(&server.get("/").text()).unwrap();
    assert_eq!(seen, serde_json::json!([named.to_str().unwrap(), "9", true, true]));
    assert!(server.log().contains(&format!("php.ini       {} (php_ini)", named.display())), "{}", server.log());

    // PHPRC names a file or its directory, for applications that name none.
    for phprc in [other.to_str().unwrap(), &place] {
        let setup = Setup::empty().file("index.php", SCRIPT);
        let environment = format!("PHPRC={phprc}");
        let server = setup.command(["env".into(), environment.into(), program()]).start();
        let seen: Value = serde_json::from_str(&server.get("/").text()).unwrap();
        assert_eq!((&seen[0], &seen[1]), (&other.to_str().unwrap().into(), &"8".into()), "{phprc}");
        assert!(server.log().contains("(PHPRC)"), "{}", server.log());
    }

    let with = |line: &str, phprc| check(&format!("[[application]]\nroot = \"{root}\"\n{line}\n"), phprc);
    for (line, phprc, code, words) in [
        ("php_ini = \"/no/such.ini\"", None, 78, "php_ini /no/such.ini: No such file"),
        ("php_ini = \"/etc\"", None, 78, "php_ini /etc: is no file"),
        ("", Some("/no/such.ini"), 78, "PHPRC /no/such.ini: No such file"),
        ("php_ini = \"/etc/shadow\"", None, 77, "php_ini /etc/shadow"),
    ] {
        let output = with(line, phprc);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{words} in {}", said(&output));
    }
}

/// A front controller that looks for `FRANKENPHP_WORKER` becomes a worker script, if it has a loop.
#[test]
fn a_script_that_looks_for_the_worker_variable_is_tried_as_a_worker() {
    const INDEX: &str = "<?php $say = function () { echo reprise_info()['mode']; };
        if (isset($_SERVER['FRANKENPHP_WORKER'])) { require __DIR__ . '/loop.inc'; } else { $say(); }";
    let server = Setup::empty()
        .file("index.php", INDEX)
        .file("loop.inc", "<?php while (frankenphp_handle_request($say)) {}")
        .start();
    wait_until("the loop serves", 10, || server.get("/").text() == "worker");

    // One that does without a loop all the same stays classic, and the log says so.
    let server = Setup::empty().file("index.php", INDEX).file("loop.inc", "<?php $say();").start();
    assert_eq!(server.get("/").text(), "classic");
    for words in [
        "/index.php did not boot",
        "without calling reprise_handle_request()",
        "mode = \"classic\" for this script",
        "next boot in 600s",
    ] {
        assert!(server.log().contains(words), "{words} in\n{}", server.log());
    }
}

/// The full status shows method, URI, length and script of the request that a worker runs.
#[test]
fn the_full_status_says_what_runs() {
    const SCRIPT: &str =
        "<?php $go = __DIR__ . '/go'; while (!file_exists($go)) { usleep(10000); clearstatcache(); } echo 'done';";
    for snapshot in ["", "reprise_snapshot();"] {
        let server = Setup::empty()
            .file("index.php", SCRIPT.replace("<?php", &format!("<?php {snapshot}")))
            .application("status_path = \"/status\"")
            .start();
        let mut client = server.client();
        client.send(b"POST /a%22b?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        let path = format!("{}/index.php", server.root.display());
        let mut found = Value::Null;
        wait_until("it runs", 10, || {
            let status: Value = serde_json::from_str(&server.get("/status?json&full").text()).unwrap();
            let all = status["processes"].as_array().unwrap();
            assert!(all.iter().all(|one| one["request method"] == "-" || one["request method"] == "POST"), "{status}");
            found = all.iter().find(|one| one["request method"] == "POST").cloned().unwrap_or_default();
            !found.is_null()
        });
        assert_eq!((&found["request uri"], &found["content length"]), (&"/a%22b?q=1".into(), &3.into()), "{found}");
        assert_eq!(found["script"], path, "{found}");
        assert!(found["request duration"].as_u64().is_some_and(|time| time > 0), "{found}");
        assert!(server.get("/status?full").text().contains("request URI:          /a%22b?q=1\n"));
        fs::write(server.root.join("go"), "").unwrap();
        assert_eq!(client.read(false).unwrap().text(), "done");
        wait_until("nothing runs", 10, || !server.get("/status?full").text().contains("/a%22b"));
    }
}
