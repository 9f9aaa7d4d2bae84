//! The command: mistakes are named with their place and a way out, each with its exit code; what is found is told.

mod choices;
mod conf_d;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tests::server::{Directory, free_port, program, project};
use tests::{Setup, process, wait_until};

/// Runs to the end, at most 20 seconds of a quiet machine.
fn reprise(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut child = Command::new(program())
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable under test: cargo build --profile tests --workspace --bins");
    let deadline = Instant::now() + tests::seconds(20);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            process::kill(child.id() as i32, Signal::SIGTERM);
            let _ = child.wait();
            panic!("{arguments:?} does not end");
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// A directory with a document root and a configuration file.
fn site(config: &str) -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.0.join("www")).unwrap();
    fs::write(directory.0.join("www/index.php"), "<?php echo 'x';").unwrap();
    fs::write(directory.0.join("www/other.php"), "<?php echo 'x';").unwrap();
    fs::write(directory.0.join("r.toml"), config).unwrap();
    directory
}

const APP: &str = "[[application]]\nroot = \"www\"\n";

/// Checks a failure: its code, its words on standard error, nothing on standard output.
fn assert_failure(what: &str, outcome: &(i32, String, String), code: i32, words: &[&str]) {
    let (found, stdout, stderr) = outcome;
    assert_eq!((*found, stdout.as_str()), (code, ""), "{what}\n{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{what}: no '{word}' in\n{stderr}");
    }
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
}

// ---- the configuration file ----------------------------------------------------------------------------------------

/// Each mistake in a configuration file ends the start with its line and, for a name, the nearest right one.
#[test]
fn every_mistake_is_named_with_its_line() {
    let app = |lines: &str| format!("{APP}{lines}\n");
    let top = |lines: &str| format!("{lines}\n{APP}");
    #[rustfmt::skip]
    let table: Vec<(String, &[&str])> = vec![
        // Names.
        (top("lisen = [\"127.0.0.1:1\"]"), &["r.toml:1: there is no option 'lisen'", "did you mean 'listen'?"]),
        (top("\n\nheader_timout = \"5s\""), &["r.toml:3:", "'header_timout'", "'header_timeout'"]),
        (top("[applicaton]\nroot = \"www\""), &["r.toml:1:", "'application'"]),
        (top("[[applications]]\nroot = \"www\""), &["r.toml:1:", "'application'"]),
        (app("worker = 2"), &["r.toml:3:", "'worker'", "did you mean 'workers'?"]),
        (app("front_controler = \"index.php\""), &["r.toml:3:", "'front_controller'"]),
        (app("env = {}\nrequest-timeout = \"5s\""), &["r.toml:4:", "'request_timeout'"]),
        (app("document_root = \"www\""), &["r.toml:3:", "'document_root'"]),
        (app("xyzzyxyzzyxyzzy = 1"), &["r.toml:3:", "'xyzzyxyzzyxyzzy'", "reprise check --options"]),
        (format!("{APP}[[application]]\nroot = \"www\"\nhost = [\"a\"]"), &["r.toml:5:", "'hosts'"]),
        // Types and bounds.
        (top("listen = \"127.0.0.1:1\""), &["r.toml:1: 'listen' takes a list of texts"]),
        (top("listen = [1]"), &["r.toml:1: 'listen' takes"]),
        (top("listen = [\"127.0.0.1:1\",\n 8080]"), &["r.toml:2: 'listen' takes"]),
        (top("name = 1"), &["r.toml:1: 'name' takes a text"]),
        (top("front_threads = 0"), &["r.toml:1: 'front_threads' takes a number, 1 to 16"]),
        (top("front_threads = 17"), &["1 to 16"]),
        (top("front_threads = \"2\""), &["1 to 16"]),
        (top("max_connections = -1"), &["r.toml:1: 'max_connections' takes"]),
        (top("max_connections = 99999999999999999999999"), &["r.toml:1:"]),
        (top("header_timeout = \"5 s\""), &["r.toml:1: 'header_timeout' takes a time", "\"30s\""]),
        (top("header_timeout = \"soon\""), &["'header_timeout' takes a time"]),
        (top("header_timeout = \"0s\""), &["'header_timeout' takes a time"]),
        (top("header_timeout = 0"), &["'header_timeout' takes a time"]),
        (top("header_timeout = \"25h\""), &["'header_timeout' takes a time"]),
        (top("header_timeout = 1.5"), &["'header_timeout' takes a time"]),
        (top("header_timeout = \"-5s\""), &["'header_timeout' takes a time"]),
        (top("header_timeout = \"18446744073709551615h\""), &["'header_timeout' takes a time"]),
        (top("body_timeout = []"), &["'body_timeout' takes a time"]),
        (app("workers = 0"), &["r.toml:3: 'workers' takes a number, 1 to 1024"]),
        (app("workers = 1025"), &["1 to 1024"]),
        (app("workers = 2.0"), &["1 to 1024"]),
        (app("workers = true"), &["1 to 1024"]),
        (app("max_workers = 1025"), &["r.toml:3: 'max_workers' takes a number, 1 to 1024"]),
        (app("workers = 9\nmax_workers = 8"), &["max_workers", "'www' has workers 9 for each lane, and max_workers 8 for all", "leave workers out"]),
        (app("min_workers = 9\nmax_workers = 8"), &["'www' has min_workers 9 for each lane", "leave min_workers out"]),
        (app("queue = 3001"), &["1 to 3000"]),
        (app("max_body = \"8 M\""), &["r.toml:3: 'max_body' takes a size"]),
        (app("max_body = \"8X\""), &["'max_body' takes a size"]),
        (app("max_body = -1"), &["'max_body' takes a size"]),
        (app("max_body = \"99999999999G\""), &["'max_body' takes a size"]),
        (app("hosts = \"a\""), &["'hosts' takes a list of texts"]),
        (app("ini = \"memory_limit=1M\""), &["r.toml:3: 'ini' takes a table"]),
        (app("ini.opcache.enable = 1"), &["r.toml:3:", "'opcache'", "quote names with dots"]),
        (app("ini.memory_limit = []"), &["r.toml:3:", "'memory_limit' takes one value"]),
        (app("env.A = {}"), &["r.toml:3:", "'A'"]),
        (app("follow = \"/srv\""), &["'follow' takes a list of texts"]),
        (app("isolation = \"copy\""), &["r.toml:3: 'isolation' takes \"auto\" or \"rewind\" or \"userfaultfd\" or \"soft-dirty\" or \"fork\", not \"copy\""]),
        (app("isolation = 1"), &["r.toml:3: 'isolation' takes a text"]),
        (app("mode = \"classic\""), &["r.toml:3: 'mode' takes a table"]),
        (app("\nmode.\"index.php\" = \"warm\""), &["r.toml:4:", "'mode.index.php' takes \"auto\" or", "not \"warm\""]),
        (app("mode.\"none.php\" = \"snapshot\""), &["r.toml:3: script none.php is not a file in"]),
        (app("mode.\"../r.toml\" = \"classic\""), &["r.toml:3:", "not a path below the root"]),
        (app("mode.index.php = \"classic\""), &["r.toml:3: 'index' holds a table", "quote names with dots"]),
        (app("boot_timeout = \"0s\""), &["r.toml:3: 'boot_timeout' takes a time"]),
        (app("user = 33"), &["r.toml:3: 'user' takes a text"]),
        // Places.
        (app("listen = [\"127.0.0.1:1\"]"), &["r.toml:3:", "'listen' belongs to the top of the file"]),
        (top("workers = 2"), &["r.toml:1:", "'workers' belongs below [[application]]"]),
        // Applications.
        (String::new(), &["r.toml:1:", "[[application]]"]),
        ("listen = [\"127.0.0.1:1\"]\n".into(), &["no [[application]]"]),
        ("application = []\n".into(), &["[[application]]"]),
        ("[application]\nroot = \"www\"\n".into(), &["r.toml:1:", "two brackets"]),
        ("application = 1\n".into(), &["r.toml:1:", "two brackets"]),
        ("application = [1]\n".into(), &["r.toml:1:", "two brackets"]),
        ("\n[[application]]\nname = \"a\"\n".into(), &["r.toml:2:", "has no root"]),
        ("[[application]]\nname = \"a\"\nroot = \"none\"\n".into(), &["r.toml:3:", "none", "No such file"]),
        ("[[application]]\nroot = \"r.toml\"\n".into(), &["r.toml:2:", "is neither a directory nor a phar"]),
        ("[[application]]\nroot = 5\n".into(), &["r.toml:2: 'root' takes a text"]),
        ("[[application]]\nroot = \"\"\n".into(), &["r.toml:2:", "root"]),
        ("[[application]]\nfront_controller = \"app.php\"\nroot = \".\"\n".into(), &["r.toml:2:", "app.php", "is not a file"]),
        (app("front_controller = \"../r.toml\""), &["r.toml:3:", "front controller"]),
        (app("front_controller = \"missing.php\""), &["r.toml:3:", "missing.php"]),
        (app("follow = [\"missing\"]"), &["r.toml:3:", "missing"]),
        (format!("{APP}{APP}"), &["r.toml:3: both 'www' and 'www-2' answer for any host", "r.toml:1"]),
        (format!("{APP}{APP}name = \"b\"\n"), &["r.toml:3: both", "any host", "'www' is at r.toml:1", "hosts of its own"]),
        (format!("{APP}hosts = [\"a.example\"]\n{APP}name = \"b\"\nhosts = [\"b\", \"A.example\"]\n"), &["r.toml:7: both", "a.example"]),
        (app("hosts = [\"a.example\", \"a.example\"]"), &["a.example"]),
        (app("hosts = [\"http://a.example\"]"), &["r.toml:3:", "http://a.example"]),
        (app("hosts = [\"a.example:80\"]"), &["r.toml:3:", "a.example:80"]),
        (app("hosts = [\"a.*.example\"]"), &["r.toml:3:", "a.*.example"]),
        (app("hosts = [\"\"]"), &["r.toml:3:"]),
        (app("env.\"A=B\" = \"x\""), &["A=B"]),
        (app("env.A = \"a\\nb\""), &["'A'", "one line"]),
        (app("env.A = \"a\\u0000b\""), &["'A'"]),
        (app("ini.\"\" = \"x\""), &["one line"]),
        (top("listen = []"), &["listen", "no address"]),
        (top("listen = [\"nonsense\"]"), &["nonsense", "HOST:PORT"]),
        (top("listen = [\"127.0.0.1:99999\"]"), &["127.0.0.1:99999"]),
        (top("listen = [\"127.0.0.1\"]"), &["127.0.0.1", "HOST:PORT"]),
        (top("name = \"a/b\""), &["a/b", "plain name"]),
        (top("name = \"..\""), &["..", "plain name"]),
        // TOML itself.
        (top("listen = [\"127.0.0.1:1\""), &["r.toml:"]),
        (top("\nname = a"), &["r.toml:2:"]),
        (top("name = \"a\"\nname = \"b\""), &["r.toml:2:", "duplicate"]),
        (top("name = \"a"), &["r.toml:1:"]),
        (app("env = {}\nenv.A = 1"), &["r.toml:4:"]),
        (top("= 1"), &["r.toml:1:"]),
        (top("\u{feff}\u{feff}name"), &["r.toml:1:"]),
    ];
    let mut wrong = Vec::new();
    for (config, words) in &table {
        let directory = site(config);
        let (code, stdout, stderr) = reprise(&directory.0, &["check", "--config", "r.toml"]);
        let missing: Vec<_> = words.iter().filter(|word| !stderr.contains(*word)).collect();
        if code != 78 || !stdout.is_empty() || !missing.is_empty() || !stderr.starts_with("reprise: ") {
            wrong.push(format!("--- {config}\nexit {code}, missing {missing:?}\n{stdout}{stderr}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} mistakes:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}

/// For each option that stands in the wrong table the message says where it belongs.
#[test]
fn an_option_in_the_wrong_place_is_sent_to_the_right_one() {
    let reference = fs::read_to_string(project().join("docs/reference/configuration.md")).unwrap();
    let (server, rest) = reference.split_once("\n## Application").expect("four tables");
    let (application, rest) = rest.split_once("\n## Certificate").expect("four tables");
    let (certificate, acme) = rest.split_once("\n## ACME").expect("four tables");
    let names = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect()
    };
    let server = names(server);
    let tables =
        [("[[application]]", names(application)), ("[[certificate]]", names(certificate)), ("[acme]", names(acme))];
    assert!(server.len() > 8 && tables.iter().all(|(_, names)| names.len() > 3));
    let mut known = server.clone();
    let mut below = Vec::new();
    for (table, names) in &tables {
        let new: Vec<&String> = names.iter().filter(|name| !known.contains(name)).collect();
        below.extend(new.iter().map(|name| (*name, *table)));
        known.extend(new.into_iter().cloned());
    }
    for (name, table) in below {
        let directory = site(&format!("{name} = 1\n{APP}"));
        let words = ["r.toml:1:", &*format!("'{name}' belongs below {table}")];
        assert_failure(name, &reprise(&directory.0, &["check", "--config", "r.toml"]), 78, &words);
    }
    for name in server.iter().filter(|name| !tables[0].1.contains(name)) {
        let directory = site(&format!("{APP}{name} = 1\n"));
        let words = ["r.toml:3:", &*format!("'{name}' belongs to the top of the file")];
        assert_failure(name, &reprise(&directory.0, &["check", "--config", "r.toml"]), 78, &words);
    }
}

/// A configuration file that is missing, a directory or not UTF-8 is named, and the exit code is 78.
#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = site(APP);
    assert_failure(
        "missing",
        &reprise(&directory.0, &["serve", "--config", "none.toml"]),
        78,
        &["none.toml", "No such file"],
    );
    assert_failure("a directory", &reprise(&directory.0, &["serve", "--config", "www"]), 78, &["www"]);
    fs::write(directory.0.join("r.toml"), b"name = \"\xff\"\n").unwrap();
    assert_failure("not UTF-8", &reprise(&directory.0, &["serve", "--config", "r.toml"]), 78, &["r.toml"]);
}

// ---- the command line ----------------------------------------------------------------------------------------------

/// Each mistake on the command line is named, and the exit code is 64.
#[test]
fn a_wrong_command_line_is_64() {
    let directory = site(APP);
    fs::create_dir(directory.0.join("empty")).unwrap();
    #[rustfmt::skip]
    let table: [(&[&str], &[&str]); 21] = [
        (&[], &["Usage"]),
        (&["sreve", "www"], &["sreve", "serve"]),
        (&["restart"], &["restart", "reload"]),
        (&["serve"], &["directory", "--config"]),
        (&["check"], &["directory", "--config"]),
        (&["serve", "www", "--worker", "2"], &["--worker", "--workers"]),
        (&["serve", "www", "--workers", "two"], &["two"]),
        (&["serve", "www", "--workers", "0"], &["--workers", "1 to 1024"]),
        (&["serve", "www", "--workers", "1025"], &["1 to 1024"]),
        (&["serve", "www", "--workers", "-1"], &["-1"]),
        (&["serve", "www", "--config", "r.toml"], &["--config"]),
        (&["serve", "www", "www"], &["www"]),
        (&["serve", "www", "--ini", "memory_limit"], &["--ini", "NAME=VALUE"]),
        (&["serve", "www", "--ini", "=1"], &["--ini", "NAME=VALUE"]),
        (&["serve", "www", "--env", "A"], &["--env", "NAME=VALUE"]),
        (&["serve", "--listen"], &["--listen"]),
        (&["serve", "none"], &["none", "No such file"]),
        (&["serve", "r.toml"], &["r.toml", "not a directory"]),
        (&["serve", "empty"], &["index.php", "empty"]),
        (&["check", "--options", "www"], &["--options"]),
        (&["version", "www"], &["www"]),
    ];
    for (arguments, words) in table {
        assert_failure(&format!("{arguments:?}"), &reprise(&directory.0, arguments), 64, words);
    }
}

/// Help and version go to standard output with exit code 0, and do not show the hidden subcommand.
#[test]
fn help_is_an_answer() {
    let directory = Directory::new();
    for arguments in [&["--help"][..], &["serve", "--help"], &["check", "-h"], &["--version"]] {
        let (code, stdout, stderr) = reprise(&directory.0, arguments);
        assert!(code == 0 && stdout.contains("reprise") && stderr.is_empty(), "{arguments:?}: {code} {stdout}{stderr}");
        let is_shown = stdout.lines().any(|line| line.trim_start().starts_with("front "));
        assert!(!is_shown, "the hidden subcommand is shown: {stdout}");
    }
}

/// `reprise version` prints the versions of Reprise and PHP, which libphp is loaded, and where php.ini comes from.
#[test]
fn versions_are_told() {
    let (code, stdout, stderr) = reprise(Path::new("/"), &["version"]);
    assert!(code == 0 && stderr.is_empty(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    let begins = ["reprise 0.", "php 8.", "libphp /usr/lib/libphp8.", "ini "];
    assert!(begins.iter().zip(&lines).all(|(begin, line)| line.starts_with(begin)), "{stdout}");
    assert!(lines[2].contains(".so (built with 8."), "{stdout}");
}

/// `reprise check --options` prints docs/reference/configuration.md.
#[test]
fn the_reference_is_the_documentation() {
    let (code, stdout, _) = reprise(Path::new("/"), &["check", "--options"]);
    assert_eq!(code, 0);
    assert_eq!(stdout, fs::read_to_string(project().join("docs/reference/configuration.md")).unwrap());
}

/// `reprise front`, started by a user, fails and names `reprise serve`.
#[test]
fn the_hidden_subcommand_harms_nobody() {
    let (code, stdout, stderr) = reprise(Path::new("/"), &["front"]);
    assert!(code != 0 && stdout.is_empty() && stderr.contains("reprise serve"), "{code} {stdout}{stderr}");
}
