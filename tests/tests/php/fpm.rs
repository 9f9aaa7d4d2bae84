//! What those who run PHP-FPM configure: settings by directory, settings that stay, environment, limits, sockets, logs,
//! status, proxies in front.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tests::snapshot::isolations;
use tests::{Response, Server, Setup, process, wait_for, wait_until};

const INI: &str = "<?php echo json_encode(array_map('ini_get', ['memory_limit', 'auto_prepend_file', 'precision', \
                   'upload_max_filesize', 'user.own']));";

fn json(response: &Response) -> serde_json::Value {
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

/// `.user.ini` files apply from the root down to the script's directory, as under PHP-FPM.
#[test]
fn user_ini_files_hold_from_the_root_down() {
    let prepended = "<?php header('X-Prepended: ' . basename(__FILE__));";
    let server = Setup::empty()
        .file("index.php", INI)
        .file("sub/deep/index.php", INI)
        .file("other/index.php", INI)
        .file(".user.ini", "memory_limit = 99M\nprecision = 5\nauto_prepend_file = before.php\n")
        .file("sub/.user.ini", "memory_limit = 88M\nopcache.enable_cli = 1\nfile_uploads = 0\n")
        .file("sub/deep/.user.ini", "precision = 7\nupload_max_filesize = 5M\n")
        .file("before.php", prepended)
        .ini("user_ini.cache_ttl", "0")
        .ini("include_path", ".:..:../..")
        .start();
    for _ in 0..3 {
        let root = server.get("/index.php");
        assert_eq!(json(&root)[0], "99M");
        assert_eq!((&json(&root)[2], root.header("x-prepended")), (&"5".into(), Some("before.php")));
        let deep = json(&server.get("/sub/deep/index.php"));
        assert_eq!((&deep[0], &deep[2], &deep[3]), (&"88M".into(), &"7".into(), &"5M".into()));
        // The next request of the same worker has its own.
        assert_eq!(json(&server.get("/other/index.php"))[2], "5");
    }
    // A changed file holds as soon as what was read of it is old; here at once.
    fs::write(server.root.join(".user.ini"), "precision = 11\n").unwrap();
    let changed = server.get("/index.php");
    assert_eq!((&json(&changed)[2], changed.header("x-prepended")), (&"11".into(), None));
    fs::remove_file(server.root.join(".user.ini")).unwrap();
    assert_ne!(json(&server.get("/index.php"))[2], "11");
    assert!(!server.get("/sub/.user.ini").text().contains("file_uploads"), "it is no file for visitors");
}

/// A `.user.ini` is cached for `user_ini.cache_ttl`, can be renamed, and can be turned off.
#[test]
fn user_ini_files_are_kept_for_their_time_and_can_be_turned_off() {
    let server = Setup::empty().file("index.php", INI).file(".user.ini", "precision = 5\n").application("workers = 1");
    let server = server.start();
    assert_eq!(json(&server.get("/index.php"))[2], "5");
    fs::write(server.root.join(".user.ini"), "precision = 6\n").unwrap();
    assert_eq!(json(&server.get("/index.php"))[2], "5", "for five minutes");
    let off = Setup::empty().file("index.php", INI).file(".user.ini", "precision = 5\n").ini("user_ini.filename", "");
    assert_ne!(json(&off.start().get("/index.php"))[2], "5");
    let named = Setup::empty().file("index.php", INI).file("site.ini", "precision = 4\n");
    assert_eq!(json(&named.ini("user_ini.filename", "site.ini").start().get("/index.php"))[2], "4");
    // What is wrong with it is said, and the request is answered.
    let broken = Setup::empty().file("index.php", INI).file(".user.ini", "precision = (\n").start();
    assert_eq!(broken.get("/index.php").status, 200);
    wait_until("it is said", 5, || broken.log().contains(".user.ini on line"));
}

/// A snapshot keeps the settings of its boot's `.user.ini`, whatever the file says later.
#[test]
fn a_snapshot_has_the_settings_of_its_boot() {
    let script = INI.replace("<?php", "<?php reprise_snapshot();");
    for isolation in isolations() {
        let setup = Setup::empty().file("index.php", &script).file(".user.ini", "precision = 5\n");
        let setup = setup.ini("user_ini.cache_ttl", "0").application(&format!("isolation = \"{isolation}\""));
        let server = setup.flag("--audit").start();
        for _ in 0..3 {
            assert_eq!(json(&server.get("/"))[2], "5", "{isolation}");
        }
        fs::write(server.root.join(".user.ini"), "precision = 6\n").unwrap();
        assert_eq!(json(&server.get("/"))[2], "5", "{isolation}");
    }
}

/// Neither a script nor a `.user.ini` changes what `admin_ini` sets.
#[test]
fn admin_settings_are_nobodys_to_change() {
    const SCRIPT: &str = "<?php $set = [ini_set('memory_limit', '1G'), ini_set('precision', '3'), @ini_set('open_basedir', '/')];
        echo json_encode([$set, ini_get('memory_limit'), ini_get('precision'), ini_get_all(null, true)['memory_limit']['access'], function_exists('exec')]);";
    for snapshot in ["", "reprise_snapshot();"] {
        let server = Setup::empty()
            .file("index.php", SCRIPT.replace("<?php", &format!("<?php {snapshot}")))
            .file(".user.ini", "memory_limit = 2G\n")
            .application("admin_ini.memory_limit = \"77M\"\nadmin_ini.disable_functions = \"exec\"")
            .start();
        let answer = json(&server.get("/"));
        assert_eq!(answer[0][0], false);
        assert_ne!(answer[0][1], false, "another setting can be changed");
        assert_eq!(
            (&answer[1], &answer[2], &answer[3], &answer[4]),
            (&"77M".into(), &"3".into(), &4.into(), &false.into())
        );
    }
}

fn refused(setup: Setup, code: i32, words: &[&str]) {
    let mut server = setup.launch();
    assert_eq!(server.wait(20), code, "{}", server.log());
    for word in words {
        assert!(server.log().contains(word), "{word} in\n{}", server.log());
    }
}

/// Each impossible value of an application's option is refused, with the option's name and the allowed values.
#[test]
fn settings_that_make_no_sense_are_refused_in_words() {
    let with = |line: &str| Setup::empty().file("index.php", "").application(line);
    refused(with("admin_ini.no_such = \"1\""), 70, &["admin_ini", "no_such"]);
    refused(with("admin_ini.precision = 3\nini.precision = 4"), 78, &["precision", "admin_ini", "keep one"]);
    refused(with("priority = 20"), 78, &["priority", "-20 to 19"]);
    refused(with("capabilities = \"all\""), 78, &["capabilities", "\"keep\" or \"none\""]);
    refused(with("rlimit_files = 100"), 78, &["rlimit_files", "1100"]);
    refused(with("rlimit_processes = 3"), 78, &["rlimit_processes", "16"]);
    refused(with("clear_env = \"no\""), 78, &["clear_env", "true or false"]);
    refused(with("status_path = \"status\""), 78, &["status_path", "begins with /"]);
    refused(with("ping_path = \"/a/../b\""), 78, &["ping_path"]);
    refused(with("env.X = \"$NO_SUCH_VARIABLE\""), 78, &["env.X", "NO_SUCH_VARIABLE"]);
    refused(with("warmup = \"/\""), 78, &["warmup", "list of paths"]);
    refused(with("warmup = [\"x\"]"), 78, &["warmup", "begins with /"]);
    refused(with("warmup = [{ pth = \"/\" }]"), 78, &["warmup", "'pth'", "method, path and headers"]);
    let top = |line: &str| Setup::empty().file("index.php", "").server(line);
    refused(top("socket_mode = \"999\""), 78, &["socket_mode", "octal"]);
    refused(top("access_log_format = \"xml\""), 78, &["access_log_format", "\"json\""]);
    let socket = "listen = [\"unix:/tmp/reprise-never.sock\"]\nsocket_owner = \"nobody-at-all\"";
    refused(top(socket), 78, &["socket_owner", "nobody-at-all"]);
}

/// PHP has the configured environment, and the server's own only with `clear_env = false`.
#[test]
fn the_environment_is_what_the_configuration_says() {
    const SCRIPT: &str = "<?php echo json_encode([getenv('PATH'), getenv('OWN'), getenv('TAKEN'), isset($_SERVER['PATH']), getenv('HOME') !== false, $_SERVER['OWN'] ?? null]);";
    let path = std::env::var("PATH").unwrap();
    let server = Setup::empty().file("index.php", SCRIPT).env("OWN", "x=y $1").env("TAKEN", "$PATH").start();
    assert_eq!(json(&server.get("/")), serde_json::json!([false, "x=y $1", path, false, true, "x=y $1"]));
    let open = Setup::empty().file("index.php", SCRIPT).env("OWN", "1").application("clear_env = false").start();
    assert_eq!(json(&open.get("/")), serde_json::json!([path, "1", false, true, true, "1"]));
}

/// `rlimit_*` and `priority` hold for PHP's processes and for no other.
#[test]
fn limits_and_priority_are_phps_alone() {
    let script = "<?php echo file_get_contents('/proc/self/limits'), file_get_contents('/proc/self/stat');";
    let server = Setup::empty()
        .file("index.php", script)
        .application("rlimit_files = 1234\nrlimit_processes = 2345\nrlimit_core = \"0\"\npriority = 7")
        .start();
    let text = server.get("/").text();
    let limit = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!((limit(&text, "Max open files"), limit(&text, "Max core file size")), ("1234".into(), "0".into()));
    assert_eq!(limit(&text, "Max processes"), "2345");
    let nice = |stat: &str| stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().to_owned();
    assert_eq!(nice(text.lines().last().unwrap()), "7");
    let front = server.front().unwrap();
    assert_ne!(limit(&fs::read_to_string(format!("/proc/{front}/limits")).unwrap(), "Max open files"), "1234");
    assert_eq!(nice(&fs::read_to_string(format!("/proc/{front}/stat")).unwrap()), "0");
}

/// Unix sockets have the configured owner, group and mode, and serve.
#[test]
fn unix_sockets_have_the_owner_and_mode_they_should() {
    let start = |lines: &str| -> (Server, fs::Metadata) {
        let setup = Setup::empty().file("index.php", "<?php echo $_SERVER['REMOTE_ADDR'];");
        let path = setup.directory().join("s");
        let server = setup.server(&format!("listen = [\"unix:{}\"]\n{lines}", path.display())).start();
        let metadata = fs::metadata(&path).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("unix:"), "{answer}");
        (server, metadata)
    };
    let mode = |metadata: &fs::Metadata| metadata.permissions().mode() & 0o777;
    assert_eq!(mode(&start("").1), 0o666);
    assert_eq!(mode(&start("socket_mode = \"0660\"").1), 0o660);
    if Uid::effective().is_root() {
        let (_server, metadata) =
            start("socket_mode = \"0640\"\nsocket_owner = \"www-data\"\nsocket_group = \"daemon\"");
        assert_eq!((mode(&metadata), metadata.uid(), metadata.gid()), (0o640, 33, 1));
        let (_server, metadata) = start("socket_owner = \"www-data\"");
        assert_eq!((mode(&metadata), metadata.uid(), metadata.gid()), (0o666, 33, 33));
    }
}

fn log_lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Enough work that it shows in the log.
const WORK: &str =
    "$sum = 0; for ($i = 0; $i < 400000; $i++) $sum += $i; $big = str_repeat('x', 9 << 20); echo strlen($big);";

/// Lines of the JSON log have PHP's processor time and memory in every mode, and the reason of a refusal.
#[test]
fn json_logs_say_what_php_used() {
    for (name, snapshot) in [("classic", ""), ("rewind", "reprise_snapshot();"), ("fork", "reprise_snapshot();")] {
        if !snapshot.is_empty() && !isolations().contains(&name) {
            continue;
        }
        let isolation = if snapshot.is_empty() { "auto" } else { name };
        let server = Setup::empty()
            .file(
                "index.php",
                format!("<?php {snapshot} if (isset($_GET['early'])) {{ echo 'x'; fastcgi_finish_request(); }} {WORK}"),
            )
            .file("idle.php", "<?php echo 'idle';")
            .file("plain.txt", "plain")
            .server("access_log_format = \"json\"")
            .application(&format!("isolation = \"{isolation}\""))
            .start();
        let mut client = server.client();
        let agent = "a \"quoted\"\\ agent \u{fc}";
        assert_eq!(client.request("GET", "/?a=b&%22c%22", &[("User-Agent", agent), ("Referer", "r")], b"").status, 200);
        for path in ["/idle.php", "/plain.txt", "/?early=1", "/none.txt/../../x"] {
            client.get(path);
        }
        client.request("HEAD", "/idle.php", &[], b"");
        let log = server.directory().join("access.log");
        let lines = wait_for("all lines", 5, || Some(log_lines(&log)).filter(|lines| lines.len() >= 6));
        let work = &lines[0];
        assert_eq!(
            (&work["method"], &work["status"], &work["sent"]),
            (&"GET".into(), &200.into(), &7.into()),
            "{work}"
        );
        assert_eq!((&work["user_agent"], &work["referer"]), (&agent.into(), &"r".into()), "{name}");
        let number = |line: &serde_json::Value, field: &str| {
            line[field].as_u64().unwrap_or_else(|| panic!("{name} {field}: {line}"))
        };
        assert!(number(work, "memory_kib") >= 9 << 10, "{name}: {work}");
        assert!(number(work, "processor_us") > 500 && number(work, "duration_us") > 500, "{name}: {work}");
        assert!(number(&lines[1], "processor_us") < number(work, "processor_us"), "{name}");
        if name != "rewind" && name != "fork" {
            assert!(number(&lines[1], "memory_kib") < 9 << 10, "{name}: of each request alone");
        }
        assert!(lines[2]["processor_us"].is_null() && lines[2]["memory_kib"].is_null(), "{name}: a file");
        assert!(number(&lines[3], "memory_kib") < 9 << 10, "{name}: up to the end of its answer");
        assert_eq!((&lines[4]["status"], &lines[4]["refused"]), (&400.into(), &"bad-target".into()), "{name}");
        assert_eq!(lines[5]["method"], "HEAD");
        let time = work["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z') && &time[10..11] == "T", "{time}");
    }
}

/// After SIGUSR1 lines go to a new access log, and none is lost.
#[test]
fn a_renamed_log_is_opened_again() {
    let server = Setup::empty().file("index.php", "<?php echo 1;").server("front_threads = 2").start();
    let log = server.directory().join("access.log");
    let old = server.directory().join("access.log.1");
    let mut client = server.client();
    client.get("/?before");
    wait_until("the line is there", 5, || server.access_log().contains("/?before"));
    let front = server.front();
    for round in 0..3 {
        fs::rename(&log, &old).unwrap();
        client.get("/?still-old");
        server.signal(Signal::SIGUSR1);
        // Each front thread goes over by itself: several connections, so that all have lines.
        wait_until("lines come into the new file", 5, || {
            client.get(&format!("/?new-{round}"));
            server.get("/?other");
            server.access_log().contains(&format!("/?new-{round}"))
        });
        assert!(fs::read_to_string(&old).unwrap().contains("/?still-old"), "nothing is lost");
    }
    // A front that comes later logs there too.
    process::kill(front.unwrap(), Signal::SIGKILL);
    wait_until("another front serves", 10, || server.front().is_some_and(|pid| Some(pid) != front));
    wait_until("and logs", 10, || {
        let answered = std::panic::catch_unwind(|| server.get("/?later").status).is_ok_and(|status| status == 200);
        answered && server.access_log().contains("/?later")
    });
    // What cannot be opened leaves the old one.
    fs::rename(&log, &old).unwrap();
    fs::create_dir(&log).unwrap();
    server.signal(Signal::SIGUSR1);
    wait_until("it is said", 5, || server.log().contains("the old file stays in use"));
    let mut client = server.client();
    client.get("/?kept");
    wait_until("the line is in the old file", 5, || fs::read_to_string(&old).unwrap().contains("/?kept"));
}

/// `ping_path` and `status_path` give PHP-FPM's pages in all formats, only to the machine itself.
#[test]
fn ping_and_status_are_those_of_php_fpm() {
    let server = Setup::empty()
        .file("index.php", "<?php usleep((int) ($_GET['us'] ?? 0)); echo 'page';")
        .application("ping_path = \"/fpm-ping\"\nstatus_path = \"/fpm-status\"\nqueue = 50")
        .server("proxies = [\"127.0.0.1\"]")
        .start();
    let mut client = server.client();
    wait_until("the workers are there", 5, || client.get("/fpm-ping").status == 200);
    assert_eq!(client.get("/fpm-ping").text(), "pong");
    assert_eq!(client.request("POST", "/fpm-ping", &[], b"").status, 405);
    for _ in 0..5 {
        client.get("/");
    }
    let status = wait_for("both workers wait", 5, || {
        let status = json(&server.get("/fpm-status?json"));
        (status["idle processes"] == 2).then_some(status)
    });
    for (name, value) in [
        ("accepted conn", 5),
        ("active processes", 0),
        ("total processes", 2),
        ("listen queue", 0),
        ("listen queue len", 50),
        ("max children reached", 0),
    ] {
        assert_eq!(status[name], value, "{name}: {status}");
    }
    assert_eq!((&status["pool"], &status["process manager"]), (&"app".into(), &"static".into()));
    // Four at once for two workers.
    let slow: Vec<_> = (0..4)
        .map(|number| {
            let port = server.port;
            std::thread::spawn(move || tests::Client::new(port).get(&format!("/?us=300000&n={number}")).status)
        })
        .collect();
    wait_until("two wait", 5, || {
        let now = json(&server.get("/fpm-status?json"));
        now["active processes"] == 2 && now["listen queue"] == 2
    });
    assert!(slow.into_iter().all(|thread| thread.join().unwrap() == 200));
    let after = json(&server.get("/fpm-status?json&full"));
    assert_eq!((&after["max children reached"], &after["max active processes"]), (&1.into(), &2.into()));
    assert!(after["max listen queue"].as_u64() >= Some(2), "{after}");
    assert_eq!(after["processes"].as_array().unwrap().len(), 2);
    let workers = server.workers();
    for worker in after["processes"].as_array().unwrap() {
        assert!(workers.contains(&(worker["pid"].as_i64().unwrap() as i32)), "{worker}");
    }
    let text = client.get("/fpm-status").text();
    assert!(
        text.starts_with("pool:                 app\nprocess manager:      static\nstart time:           "),
        "{text}"
    );
    assert!(text.contains("\naccepted conn:        9\n"), "{text}");
    assert!(client.get("/fpm-status?full").text().matches("\npid:").count() == 2);
    let metrics = client.get("/fpm-status?openmetrics");
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(
        metrics.text().contains("phpfpm_accepted_connections_total{pool=\"app\"} 9\n")
            && metrics.text().ends_with("# EOF\n")
    );
    // Somebody behind a proxy on this machine is not this machine.
    assert_eq!(client.request("GET", "/fpm-status", &[("X-Forwarded-For", "192.0.2.1")], b"").status, 403);
    assert_eq!(client.request("GET", "/fpm-ping", &[("X-Forwarded-For", "192.0.2.1")], b"").status, 200);
}

/// PHP and the log have the client's address, scheme and port, if the proxy is declared.
#[test]
fn a_client_behind_declared_proxies_is_itself() {
    let script = "<?php echo json_encode(array_map(fn ($n) => $_SERVER[$n] ?? null, ['REMOTE_ADDR', 'REMOTE_PORT', 'HTTPS', 'REQUEST_SCHEME', 'SERVER_PORT', 'SERVER_NAME', 'HTTP_HOST', 'SERVER_ADDR', 'HTTP_X_FORWARDED_FOR']));";
    let headers = [("X-Forwarded-For", "1.1.1.1, 192.0.2.1"), ("X-Forwarded-Proto", "https"), ("Host", "shop.example")];
    let server = Setup::empty().file("index.php", script).server("proxies = [\"127.0.0.0/8\"]").start();
    let mut client = server.client();
    let seen = json(&client.request("GET", "/", &headers, b""));
    let expected = serde_json::json!([
        "192.0.2.1",
        "",
        "on",
        "https",
        "443",
        "shop.example",
        "shop.example",
        "127.0.0.1",
        "1.1.1.1, 192.0.2.1"
    ]);
    assert_eq!(seen, expected);
    wait_until("it is logged as itself", 5, || server.access_log().starts_with("192.0.2.1 - - ["));
    // Of the same connection, each request by itself.
    let plain = json(&client.request("GET", "/", &[("Host", "shop.example")], b""));
    assert_eq!(
        (&plain[0], &plain[2], &plain[4]),
        (&"127.0.0.1".into(), &serde_json::Value::Null, &server.port.to_string().into())
    );
    drop(client);
    let server = Setup::empty()
        .file("index.php", script)
        .server("proxies = [\"127.0.0.0/8\"]")
        .server("proxy_headers = \"forwarded\"")
        .start();
    let mut client = server.client();
    let port = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("Forwarded", "for=\"[2001:db8::7]:99\";proto=http"),
        ("Host", "shop.example"),
    ];
    let seen = json(&client.request("GET", "/", &port, b""));
    assert_eq!(
        (&seen[0], &seen[1], &seen[2], &seen[4]),
        (&"2001:db8::7".into(), &"99".into(), &serde_json::Value::Null, &"80".into())
    );
    assert_eq!(seen[8], serde_json::Value::Null, "the other family is the client's alone");
    // Nothing a client writes hides what the proxy appends.
    let server = Setup::empty()
        .file("index.php", script)
        .server("proxies = [\"127.0.0.0/8\"]")
        .application("status_path = \"/s\"")
        .start();
    for theirs in ["\"", "\u{ff}", "\\\"x"] {
        let value = format!("{theirs}, 203.0.113.9");
        let headers = [("X-Forwarded-For", value.as_str()), ("Forwarded", "for=127.0.0.1")];
        let mut client = server.client();
        assert_eq!(json(&client.request("GET", "/", &headers, b""))[0], "203.0.113.9", "{theirs}");
        assert_eq!(client.request("GET", "/s", &headers, b"").status, 403, "{theirs}");
    }
    // Nor is one that nobody has declared, if it says what it is.
    let undeclared = Setup::empty().file("index.php", script).application("status_path = \"/s\"").start();
    assert_eq!(undeclared.get("/s").status, 200);
    for name in ["X-Forwarded-For", "X-Real-IP", "Via", "Forwarded"] {
        assert_eq!(undeclared.client().request("GET", "/s", &[(name, "1.1 x")], b"").status, 403, "{name}");
    }
    let nobody = [("X-Forwarded-For", "unknown")];
    assert_eq!(server.client().request("GET", "/s", &nobody, b"").status, 403);
    // From others nothing is believed.
    let server = Setup::empty().file("index.php", script).server("proxies = [\"10.0.0.0/8\"]").start();
    let seen = json(&server.client().request("GET", "/", &headers, b""));
    assert_eq!(
        (&seen[0], &seen[2], &seen[8]),
        (&"127.0.0.1".into(), &serde_json::Value::Null, &serde_json::Value::Null)
    );
}

/// `opcache.preload`, `auto_prepend_file` and `auto_append_file` work as under PHP-FPM.
#[test]
fn code_is_preloaded_and_files_are_put_around_every_script() {
    let setup = Setup::empty()
        .file("preload.php", "<?php opcache_compile_file(__DIR__ . '/preloaded.php');")
        .file("preloaded.php", "<?php class Preloaded { public static int $count = 0; static function count(): int { return ++self::$count; } }")
        .file("before.php", "<?php echo 'before ';")
        .file("after.php", "<?php echo ' after';")
        .file("index.php", "<?php echo Preloaded::count();");
    let root = setup.document_root().to_owned();
    let server = setup
        .ini("opcache.preload", root.join("preload.php").to_str().unwrap())
        .ini("auto_prepend_file", root.join("before.php").to_str().unwrap())
        .ini("auto_append_file", root.join("after.php").to_str().unwrap())
        .start();
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "before 1 after");
    }
}

/// php-fpm -i of the same machine lists its settings in the same words; here only what is ours.
#[test]
fn phpinfo_has_a_section_about_reprise() {
    let server = Setup::empty().file("index.php", "<?php phpinfo();").start();
    let page = server.get("/").text();
    for words in [
        "<td class=\"e\">Server API </td><td class=\"v\">Reprise </td>",
        "<h2><a name=\"module_reprise\"",
        "Mode </td><td class=\"v\">classic",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let version = Command::new("php").args(["-r", "echo PHP_VERSION;"]).output().unwrap();
    assert!(page.contains(&format!("PHP Version {}", String::from_utf8_lossy(&version.stdout))));
}
