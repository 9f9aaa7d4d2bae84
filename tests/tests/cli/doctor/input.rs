//! Bad input: each gets a message or a finding, and nothing hangs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tests::seconds;
use tests::server::{Directory, program};

use super::{Report, Site, fault, output};

fn doctor(arguments: &[&str]) -> Output {
    output(Command::new(program()).arg("doctor").args(arguments))
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, words: &[&str]) {
    let output = doctor(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
}

#[test]
fn what_is_not_there_is_named() {
    fails(&[], 64, &["name its directory"]);
    fails(&["/nowhere/at/all"], 64, &["/nowhere/at/all", "No such file"]);
    fails(&["--config", "/nowhere.toml"], 78, &["/nowhere.toml"]);
    fails(&["--fix", "."], 64, &["--config"]);
    fails(&["--only", "weather", "."], 64, &["weather", "host"]);
    let output = doctor(&["--checks"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("| `version.syntax` | error |"), "{text}");
}

/// Enormous, binary and unreadable scripts, pipes, loops of links, deep trees, odd names.
#[test]
fn odd_trees_are_looked_at() {
    let site = Site::new();
    let app = site.directory.0.join("app");
    site.write("binary.php", b"<?php\n\0\x01\xff\xfe{{{");
    site.write("text.php", "no PHP in here");
    site.write("empty.php", "");
    site.write("odd \"name\"\n.php", "<?php\neach($a);\n");
    site.write("closed.php", "<?php\n");
    site.write("huge.php", vec![b' '; 9 << 20]);
    site.write("nested.php", format!("<?php\n$a = {}1{};\n", "[".repeat(50_000), "]".repeat(50_000)));
    fs::set_permissions(app.join("closed.php"), fs::Permissions::from_mode(0o000)).expect("permissions");
    symlink(".", app.join("loop")).expect("a link");
    symlink("/", app.join("all")).expect("a link");
    symlink("nowhere.php", app.join("broken.php")).expect("a link");
    symlink("b.php", app.join("a.php")).expect("a link");
    symlink("a.php", app.join("b.php")).expect("a link");
    mkfifo(&app.join("pipe.php"), Mode::from_bits_truncate(0o666)).expect("a pipe");
    let mut deep = app.join("deep");
    (0..100).for_each(|_| deep.push("d"));
    fs::create_dir_all(&deep).expect("directories");
    let began = Instant::now();
    let report = site.look(&[]);
    assert!(began.elapsed() < seconds(30), "{:?}", began.elapsed());
    report.has_all(&[
        fault("version.syntax", "error", "binary.php", 0, ""),
        fault("version.unread", "warning", "huge.php", 0, ""),
        fault("version.removed", "error", ".php", 2, ""),
        fault("deployment.closed", "error", "closed.php", 0, ""),
    ]);
    let left_out = report.json["applications"][0]["left_out"].to_string();
    assert!(left_out.contains("2 links to directories") && left_out.contains("levels"), "{left_out}");
}

/// A composer.lock that cannot be read is a finding.
#[test]
fn a_broken_lock_is_told_of() {
    for text in ["", "{", "[]", "\u{0}", "{\"packages\": 7, \"platform\": []}"] {
        let site = Site::new();
        site.write("composer.lock", text);
        let report = site.look(&["--only", "deployment"]);
        let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
        assert_eq!(report.of("deployment.lock").len(), usize::from(!is_json), "{text:?}: {:#}", report.json);
    }
}

/// Without a command line of PHP nothing is compiled, and the report says so.
#[test]
fn without_php_the_report_says_so() {
    let site = Site::new();
    let mut command = Command::new(program());
    command.args(["doctor", "--json", "--only", "version", "--config"]).arg(site.config()).env("PATH", "/nowhere");
    let report = super::report(&mut command);
    assert_eq!(report.of("version.no-php").len(), 1, "{:#}", report.json);
    assert_eq!(report.json["unchecked"].as_array().map(Vec::len), Some(6));
    assert_eq!(report.json["applications"][0]["compiled_by"].as_array().map(Vec::len), Some(0));
}

/// A directory with a command line of PHP: a script in its place.
fn with_php(site: &Site, script: &str) -> Report {
    let directory = Directory::new();
    let php = directory.0.join("php");
    fs::write(&php, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&php, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut command = Command::new(program());
    command.args(["doctor", "--json", "--only", "version", "--config"]).arg(site.config()).env("PATH", &directory.0);
    super::report(&mut command)
}

/// A PHP that ends while it reads a file is followed by another one behind that file; one that does nothing is told of.
#[test]
fn a_php_that_ends_is_followed_by_another() {
    let site = Site::new();
    for number in 0..20 {
        site.write(&format!("src/{number:02}.php"), "<?php\neach($a);\n");
    }
    // It says that it is ready, and answers twice.
    let report = with_php(&site, "php \"$@\" | head -n 3");
    let unread = report.of("version.unread")[0]["evidence"].as_array().map_or(0, Vec::len);
    let read = report.of("version.removed")[0]["evidence"].as_array().map_or(0, Vec::len);
    assert!(unread > 3 && read > 3 && (20..=21).contains(&(unread + read)), "{unread} {read}: {:#}", report.json);

    let report =
        with_php(&site, "case $3 in 'echo PHP_VERSION;') echo 8.2.99 ;; *) echo no such thing >&2; exit 1 ;; esac");
    let said = report.of("version.no-php")[0];
    assert_eq!(said["severity"], "warning", "{:#}", report.json);
    assert!(said["what"].as_str().is_some_and(|what| what.contains("no such thing")), "{said}");
    assert!(report.of("version.removed").is_empty());
    // What does not even say its version is no PHP.
    let report = with_php(&site, "exit 1");
    assert_eq!(report.of("version.no-php").len(), 1, "{:#}", report.json);
}

/// A directory without a configuration, and what people see.
#[test]
fn the_report_is_for_people_too() {
    let site = Site::new();
    site.write("lib/old.php", "<?php\n$a = [1];\neach($a);\n");
    let run =
        |directory: &Path| output(Command::new(program()).arg("doctor").arg(directory).args(["--only", "version"]));
    let output = run(&site.directory.0.join("app"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{text}");
    for part in [
        "version\n",
        "error   version.removed  PHP 8.0 has removed each",
        "lib/old.php:3  each",
        "do: use foreach",
        "1 error, ",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours but on a terminal");
    // Nothing of the application has run.
    site.write("lib/old.php", "<?php\nfile_put_contents(__DIR__ . '/ran', '1');\nfunction f() {}\n");
    fs::set_permissions(site.directory.0.join("app/lib"), fs::Permissions::from_mode(0o777)).expect("permissions");
    run(&site.directory.0.join("app"));
    assert!(!site.directory.0.join("app/lib/ran").exists());
}

/// The directory that the user names is read as a whole, whatever its root is called, and without any file of Composer.
#[test]
fn the_named_directory_is_read_as_a_whole() {
    for root in ["public", "web", "htdocs"] {
        let directory = Directory::new();
        let write = |name: &str, text: &str| {
            let path = directory.0.join("app").join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        };
        write(&format!("{root}/index.php"), "<?php\necho 1;\n");
        write("lib/old.php", "<?php\n\neach($a);\n");
        let report = super::report_of(&directory.0.join("app"), &["--only", "version"]);
        report.has_all(&[fault("version.removed", "error", "lib/old.php", 3, "")]);
        // Who names the root alone has it alone.
        let report = super::report_of(&directory.0.join("app").join(root), &["--only", "version"]);
        assert_eq!(report.json["applications"][0]["scripts"], 1, "{:#}", report.json);
    }
}
