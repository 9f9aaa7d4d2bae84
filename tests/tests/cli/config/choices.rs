//! What is chosen where nothing is said, and what keeps a server from starting.

use super::*;

/// A directory is enough to serve: its document root and front controller are found, in the documented order.
#[test]
fn a_directory_is_enough() {
    let directory = Directory::new();
    let root = |place: &str| {
        format!("root          {}\n", directory.0.canonicalize().unwrap().join(place).display()).replace("/\n", "\n")
    };
    let check = || reprise(&directory.0, &["check", "."]);
    // The least likely first: each that is made goes before those that are there.
    for (place, index) in [("", "index.html"), ("htdocs", "index.php"), ("web", "index.html"), ("public", "index.php")]
    {
        fs::create_dir_all(directory.0.join(place)).unwrap();
        fs::write(directory.0.join(place).join(index), "").unwrap();
        let (code, stdout, stderr) = check();
        assert!(code == 0 && stdout.contains(&root(place)), "{place}: {stdout}{stderr}");
        let others = if index == "index.php" { "go to index.php" } else { "404" };
        assert!(stdout.contains(others), "{place}: {stdout}");
        let name = directory.0.file_name().unwrap().to_str().unwrap();
        assert!(stdout.contains(&format!("{name} (any host)")), "{place}: {stdout}");
    }
    // A directory of that name without an index is not meant.
    fs::remove_file(directory.0.join("public/index.php")).unwrap();
    assert!(check().1.contains(&root("web")));
}

/// `reprise check` prints what `reprise serve` would choose, with paths relative to the configuration file.
#[test]
fn check_prints_what_serve_would_choose() {
    let config = "access_log = \"logs/a.log\"\nfront_threads = 2\n[[application]]\nname = \"blog\"\nroot = \"www\"\nfront_controller = \"/other.php\"\n\
                  hosts = [\"A.example\", \"*.b.example\"]\nworkers = 7\nini.memory_limit = \"99M\"\nini.\"opcache.enable\" = false\n\
                  [[application]]\nname = \"shop\"\nroot = \"www\"\nfront_controller = \"\"\nhosts = [\"shop.example\"]\n";
    let directory = site(config);
    // The configuration's directory counts, not the current one.
    let (code, stdout, stderr) =
        reprise(Path::new("/"), &["check", "--config", directory.0.join("r.toml").to_str().unwrap()]);
    assert!(code == 0 && stderr.is_empty(), "{stderr}");
    let log = format!("access log    {}", directory.0.join("logs/a.log").display());
    for words in [
        "blog (a.example, *.b.example)",
        "go to other.php",
        "7 workers",
        "memory_limit = 99M",
        "opcache.enable = 0",
        "shop (shop.example)",
        "404",
        "2 threads",
        &log,
    ] {
        assert!(stdout.contains(words), "no '{words}' in\n{stdout}");
    }
    assert!(
        stdout.contains(&format!("root          {}", directory.0.canonicalize().unwrap().join("www").display())),
        "{stdout}"
    );
    // What its lanes share, each of them may have.
    let shared = site(&format!("{APP}max_workers = 40\n"));
    let (_, stdout, _) = reprise(&shared.0, &["check", "--config", "r.toml"]);
    assert!(stdout.contains("at most 40 workers, shared by its lanes, as user"), "{stdout}");
    // Flags win over the file.
    let flags = ["check", "--config", "r.toml", "--workers", "3", "--ini", "memory_limit=11M", "--access-log", "off"];
    let (_, stdout, _) = reprise(&directory.0, &flags);
    assert!(stdout.contains("3 workers") && !stdout.contains("7 workers"), "{stdout}");
    assert!(stdout.contains("memory_limit = 11M") && !stdout.contains("99M") && stdout.contains("off"), "{stdout}");
    // And serve says the same.
    let port = free_port().to_string();
    let (listen, state) = (format!("127.0.0.1:{port}"), directory.0.join("state"));
    fs::write(directory.0.join("r.toml"), format!("state_dir = \"{}\"\n{config}", state.display())).unwrap();
    fs::create_dir(directory.0.join("logs")).unwrap();
    let (_, checked, _) = reprise(&directory.0, &["check", "--config", "r.toml"]);
    let output = fs::File::create(directory.0.join("out")).unwrap();
    let mut child = Command::new(program())
        .args(["serve", "--config", "r.toml", "--listen", &listen])
        .current_dir(&directory.0)
        .stderr(output)
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(directory.0.join("out")).unwrap();
    wait_until("it is ready", 20, || said().contains("ready after"));
    process::kill(child.id() as i32, Signal::SIGTERM);
    assert!(child.wait().unwrap().success());
    assert!(said().starts_with(&checked), "check said\n{checked}serve said\n{}", said());
}

/// Flags win over the file, and relative paths in it start from its directory.
#[test]
fn flags_and_relative_paths_reach_the_server() {
    let directory = site("");
    let port = free_port();
    fs::write(
        directory.0.join("www/index.php"),
        "<?php echo ini_get('memory_limit'), ' ', getenv('WHO'), ' ', getenv('HOW'), ' ', $_SERVER['SERVER_PORT'];",
    )
    .unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:1\"]\nstate_dir = \"state\"\naccess_log = \"a.log\"\n{APP}ini.memory_limit = \"64M\"\nenv.WHO = \"file\"\nenv.HOW = \"file\"\n"
    );
    fs::write(directory.0.join("r.toml"), config).unwrap();
    let config = directory.0.join("r.toml");
    let listen = format!("127.0.0.1:{port}");
    let output = fs::File::create(directory.0.join("out")).unwrap();
    let mut child = Command::new(program())
        .args([
            "serve",
            "--config",
            config.to_str().unwrap(),
            "--listen",
            &listen,
            "--ini",
            "memory_limit=32M",
            "--env",
            "WHO=flag=x",
            "--workers",
            "1",
        ])
        .current_dir("/")
        .stderr(output)
        .spawn()
        .unwrap();
    wait_until("it is ready", 20, || fs::read_to_string(directory.0.join("out")).unwrap().contains("ready after"));
    assert_eq!(tests::get(port, "/").text(), format!("32M flag=x file {port}"));
    assert_eq!(fs::read_to_string(directory.0.join("state/pid")).unwrap().trim(), child.id().to_string());
    assert_eq!(fs::metadata(directory.0.join("state")).unwrap().permissions().mode() & 0o777, 0o700);
    process::kill(child.id() as i32, Signal::SIGTERM);
    assert!(child.wait().unwrap().success());
    assert!(directory.0.join("a.log").exists());
}

// ---- what keeps a server from starting -----------------------------------------------------------------------------

/// If an address is in use, the start fails with exit code 69 and names the address.
#[test]
fn an_address_in_use_is_69() {
    let directory = site("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("127.0.0.1:{}", taken.local_addr().unwrap().port());
    fs::write(
        directory.0.join("r.toml"),
        format!("state_dir = \"state\"\nlisten = [\"127.0.0.1:{}\", \"{listen}\"]\n{APP}", free_port()),
    )
    .unwrap();
    assert_failure(
        "port",
        &reprise(&directory.0, &["serve", "--config", "r.toml"]),
        69,
        &[&listen, "in use", "hint: "],
    );
    let socket = directory.0.join("s.sock");
    let _listening = UnixListener::bind(&socket).unwrap();
    let listen = format!("unix:{}", socket.display());
    assert_failure(
        "socket",
        &reprise(&directory.0, &["serve", "--config", "r.toml", "--listen", &listen]),
        69,
        &[&listen, "in use"],
    );
    // A file that is no socket is nobody's to remove.
    let file = directory.0.join("file");
    fs::write(&file, "precious").unwrap();
    let listen = format!("unix:{}", file.display());
    assert_failure(
        "file",
        &reprise(&directory.0, &["serve", "--config", "r.toml", "--listen", &listen]),
        69,
        &[&listen],
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

/// A second server with the same state directory fails with exit code 69, and the first goes on.
#[test]
fn one_server_has_a_state_directory() {
    let setup = Setup::app("plain");
    let state = setup.directory().join("state");
    let mut first = setup.start();
    let directory =
        site(&format!("state_dir = \"{}\"\nlisten = [\"127.0.0.1:{}\"]\n{APP}", state.display(), free_port()));
    let second = reprise(&directory.0, &["serve", "--config", "r.toml"]);
    assert_failure("the second", &second, 69, &["in use", &first.pid().to_string()]);
    assert_eq!(first.get("/").text(), "Hello World!");
    assert_eq!(fs::read_to_string(state.join("pid")).unwrap().trim(), first.pid().to_string());
    // A killed server leaves nothing that is in the way.
    let (pid, front, workers) = (first.pid(), first.front().unwrap(), first.workers());
    process::kill(pid, Signal::SIGKILL);
    assert_eq!(first.wait(10), -9);
    wait_until("its processes are gone", 10, || workers.iter().chain([&front]).all(|&pid| !process::is_alive(pid)));
    let output = fs::File::create(directory.0.join("out")).unwrap();
    let mut child = Command::new(program())
        .args(["serve", "--config", "r.toml"])
        .current_dir(&directory.0)
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .unwrap();
    wait_until("the second is ready", 20, || {
        fs::read_to_string(directory.0.join("out")).unwrap().contains("ready after")
    });
    process::kill(child.id() as i32, Signal::SIGTERM);
    assert!(child.wait().unwrap().success());
}

/// If PHP does not start, its own message is shown and the exit code is 70.
#[test]
fn php_that_does_not_start_is_70() {
    let directory = site("");
    fs::write(directory.0.join("broken.php"), "<?php this is no PHP").unwrap();
    fs::write(directory.0.join("throws.php"), "<?php throw new Exception('thrown while preloading');").unwrap();
    let preload = |name: &str| directory.0.join(name).display().to_string();
    for (what, ini, word) in [
        ("missing", preload("missing.php"), "missing.php"),
        ("broken", preload("broken.php"), "broken.php"),
        ("throws", preload("throws.php"), "thrown while preloading"),
    ] {
        let config = format!(
            "listen = [\"127.0.0.1:{}\"]\nstate_dir = \"state\"\n{APP}name = \"shop\"\nini.\"opcache.preload\" = \"{ini}\"\n",
            free_port()
        );
        fs::write(directory.0.join("r.toml"), config).unwrap();
        let began = Instant::now();
        assert_failure(what, &reprise(&directory.0, &["serve", "--config", "r.toml"]), 70, &["shop", word]);
        assert!(began.elapsed() < tests::seconds(10), "{what} took {:?}", began.elapsed());
    }
    // One of two applications.
    let config = format!(
        "listen = [\"127.0.0.1:{}\"]\nstate_dir = \"state\"\n{APP}name = \"well\"\nhosts = [\"a\"]\n{APP}name = \"ill\"\nhosts = [\"b\"]\nini.\"opcache.preload\" = \"{}\"\n",
        free_port(),
        preload("broken.php")
    );
    fs::write(directory.0.join("r.toml"), config).unwrap();
    assert_failure("one of two", &reprise(&directory.0, &["serve", "--config", "r.toml"]), 70, &["ill"]);
}

/// A setting that PHP does not have keeps no server from starting.
#[test]
fn an_unknown_ini_setting_is_no_reason_to_fail() {
    let server = Setup::app("plain").ini("no_such.setting", "1").ini("error_reporting", "E_ALL & ~E_NOTICE").start();
    assert_eq!(server.get("/").text(), "Hello World!");
}

/// Each thing that the user may not do ends the start with exit code 77 and its name.
#[test]
fn what_is_not_permitted_is_77() {
    let directory = site("");
    let config = |server: &str, application: &str| {
        let text = format!("listen = [\"127.0.0.1:{}\"]\n{server}\n{APP}{application}\n", free_port());
        fs::write(directory.0.join("r.toml"), text).unwrap();
        reprise(&directory.0, &["serve", "--config", "r.toml"])
    };
    fs::write(directory.0.join("file"), "").unwrap();
    assert_failure("state", &config("state_dir = \"file/state\"", ""), 77, &["state directory", "file"]);
    assert_failure(
        "log",
        &config("state_dir = \"state\"\naccess_log = \"file/a.log\"", ""),
        77,
        &["access log", "hint: "],
    );
    assert_failure("user", &config("state_dir = \"state\"", "user = \"no-such-user\""), 77, &["no-such-user"]);
    let mode = |bits| fs::set_permissions(directory.0.join("www"), fs::Permissions::from_mode(bits)).unwrap();
    if Uid::effective().is_root() {
        assert_failure("root", &config("state_dir = \"state\"", "user = \"root\""), 77, &["root"]);
        assert_failure("front as root", &config("state_dir = \"state\"\nfront_user = \"root\"", ""), 77, &["root"]);
        mode(0o700);
        let closed = config("state_dir = \"state\"", "");
        assert_failure(
            "closed",
            &closed,
            77,
            &[directory.0.join("www").to_str().unwrap(), "closed to user www-data", "hint: "],
        );
        let checked = reprise(&directory.0, &["check", "--config", "r.toml"]);
        assert_failure("check says so too", &checked, 77, &["closed to user www-data"]);
    } else {
        let name = nix::unistd::User::from_uid(Uid::effective()).unwrap().map_or(String::new(), |user| user.name);
        assert_failure("another user", &config("state_dir = \"state\"", "user = \"root\""), 77, &["needs root", &name]);
        mode(0o000);
        let (code, ..) = reprise(&directory.0, &["serve", "www"]);
        assert!(matches!(code, 64 | 77), "{code}");
    }
    mode(0o755);
}
