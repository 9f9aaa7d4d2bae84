//! `reprise stop`, and words by which a user may look for it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::unistd::Uid;
use tests::process::is_alive;
use tests::server::{Directory, free_port, program};
use tests::{Setup, client, wait_until};

const SLOW: &str = "<?php touch(getenv('PLACE') . '/begun'); usleep((int) $_GET['ms'] * 1000); echo 'whole';";

/// What a command prints on both outputs, and its exit code.
fn reprise(arguments: &[&str]) -> (String, i32) {
    let output = Command::new(program()).args(arguments).output().expect("a command");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code().unwrap_or(-1))
}

/// Requests that have begun are finished; each who asks waits for the end, and learns how it came.
#[test]
fn stop_drains_waits_and_says_how_it_went() {
    for (limit, ms, code, said) in [
        ("20s", "700", 0, "stopped: all requests have ended"),
        ("100ms", "60000", 1, "reprise: the server has stopped: requests were cut off"),
    ] {
        let setup = Setup::empty().file("index.php", SLOW).server(&format!("drain_timeout = \"{limit}\""));
        let place = setup.writable("place");
        let server = setup.env("PLACE", &place).start();
        let port = server.port;
        let path = format!("/?ms={ms}");
        let request = thread::spawn(move || {
            client::Client::new(port).try_request("GET", &path, &[], b"").ok().map(|answer| answer.text())
        });
        wait_until("the request runs", 10, || fs::exists(format!("{place}/begun")).unwrap());
        let answers = thread::scope(|scope| {
            [(); 2]
                .map(|()| scope.spawn(|| (server.reprise(&["stop"]), is_alive(server.pid()))))
                .map(|one| one.join().unwrap())
        });
        for ((text, status), _) in &answers {
            assert!(*status == code && text.starts_with(said), "{status}, {text}: {}", server.log());
        }
        let whole = request.join().unwrap();
        assert_eq!(whole.is_some_and(|text| text == "whole"), code == 0, "{}", server.log());
        assert!(server.log().contains("command `reprise stop`: draining, at most"), "{}", server.log());
        let (text, status) = server.reprise(&["stop"]);
        assert!(status != 0 && text.contains("hint: is the server running"), "{text}");
    }
}

/// A server without a name of its own, which the test owns by its process.
struct Unnamed(Child);

impl Drop for Unnamed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server is found by its address as the server prints it, in each spelling; and after a stop its place is free at once.
#[test]
fn a_server_is_named_by_its_address() {
    let directory = Directory::new();
    fs::write(directory.0.join("index.php"), "<?php echo 'here';").unwrap();
    let port = free_port();
    for (listen, name) in [
        (format!("127.0.0.1:{port}"), format!("127.0.0.1:{port}")),
        (format!("{port}"), format!("http://127.0.0.1:{port}")),
        (format!("*:{port}"), format!("[::]:{port}")),
    ] {
        let mut command = Command::new(program());
        command.args(["serve", "--listen", &listen, "--access-log", "off"]).arg(&directory.0);
        let mut server = Unnamed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let ask = |verb: &str| reprise(&[verb, "--name", &name]);
        wait_until("the server serves", 20, || ask("status").0.contains(", serving,"));
        assert_eq!(client::get(port, "/").text(), "here");
        assert_eq!(ask("stop"), ("stopped: all requests have ended\n".to_owned(), 0), "{listen}");
        // It has ended before the command, and is to be reaped by who has started it.
        assert!(server.0.try_wait().unwrap().is_some_and(|status| status.success()), "{listen}");
    }
}

/// Another user's server is named with its user. Only root can make one for a test.
#[test]
fn a_server_of_another_user_is_named_with_the_user() {
    let directory = Directory::new();
    let place = directory.0.join("reprise-65534/blog.other");
    fs::create_dir_all(&place).unwrap();
    // A name that says another owner than the directory has is somebody's joke.
    fs::create_dir_all(directory.0.join("reprise-12345/blog.other")).unwrap();
    let is_root = Uid::effective().is_root();
    if is_root {
        [place.parent().unwrap(), &place].iter().for_each(|path| chown(path, Some(65534), Some(65534)).unwrap());
    }
    let mut command = Command::new(program());
    let output = command.args(["status", "--name", "blog.other"]).env("TMPDIR", &directory.0).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let other = format!("hint: user nobody has one in {}: name it with --state-dir DIR", place.display());
    let expected = if is_root { &other } else { "hint: is the server running" };
    assert!(text.contains(expected) && !text.contains("12345"), "{text}");
    if is_root {
        let server = Setup::empty().file("index.php", "<?php").start();
        let state = server.directory().join("state");
        let mut command = Command::new(program());
        let output = command.args(["status", "--state-dir"]).arg(&state).uid(65534).gid(65534).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let other = format!("hint: user root has one in {}: run the command as root", state.display());
        assert!(output.status.code() == Some(77) && text.contains(&other), "{text}");
    }
}

/// Words that users of other servers know.
#[test]
fn other_words_are_understood_or_the_right_one_is_suggested() {
    let directory = Directory::new();
    let place = directory.0.to_str().unwrap();
    let file = format!("{place}/reprise.toml");
    fs::write(&file, "").unwrap();
    for (words, code, said) in [
        (vec!["help"], 0, "Usage: reprise <COMMAND>"),
        (vec!["help", "stop"], 0, "Usage: reprise stop"),
        (vec!["help", "release", "build"], 0, "Usage: reprise release build"),
        (
            vec!["start"],
            64,
            "reprise: no application: name its directory, or a configuration file with --config FILE\nhint: ",
        ),
        (vec!["check"], 64, "reprise: no application: name its directory"),
        (vec!["restart"], 64, "hint: reprise reload replaces code"),
        (vec!["."], 64, "hint: reprise serve .\n"),
        (vec![place], 64, &format!("hint: reprise serve {place}\n")),
        (vec![&file], 64, &format!("hint: reprise serve --config {file}\n")),
        (vec!["*:8080"], 64, "hint: reprise serve DIR --listen '*:8080'\n"),
        (vec!["8080"], 64, "hint: reprise serve DIR --listen '8080'\n"),
        (vec!["stat"], 64, "a similar subcommand exists: 'status'"),
    ] {
        let (text, status) = reprise(&words);
        assert!(status == code && text.contains(said), "{words:?}: {status}, {text}");
    }
    // What the server starts itself as is no suggestion, whatever one types.
    for word in ["frnt", "acm", "stor", "watchr", "mails", "manul", "release-folow", "verify-servr"] {
        let (text, _) = reprise(&[word]);
        let hidden = ["front", "acme", "store", "watcher", "mail'", "manual", "release-follow", "verify-server"];
        assert!(hidden.iter().all(|name| !text.contains(&format!("'{name}"))), "{word}: {text}");
    }
    let (_, status) = reprise(&["manual", place]);
    assert_eq!(status, 0);
    for completion in ["reprise.bash", "_reprise", "reprise.fish"] {
        let text = fs::read_to_string(directory.0.join("completions").join(completion)).unwrap();
        assert!(text.contains("stop"), "{completion}");
        for hidden in ["watcher", "release-follow", "release__follow", "verify-server", "manual"] {
            assert!(!text.contains(hidden), "{completion} has {hidden}");
        }
    }
}
