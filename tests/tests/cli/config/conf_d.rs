//! Applications in files of their own: `conf.d/*.toml` beside the configuration file.

use tests::client::{Client, connect};

use super::*;

/// A directory with a configuration file, and files below conf.d.
fn sites(main: &str, files: &[(&str, &str)]) -> Directory {
    let directory = site(main);
    let conf_d = directory.0.join("conf.d");
    fs::create_dir(&conf_d).unwrap();
    for (name, text) in files {
        fs::create_dir_all(conf_d.join(name).parent().unwrap()).unwrap();
        fs::write(conf_d.join(name), text).unwrap();
    }
    directory
}

fn check(directory: &Directory) -> (i32, String, String) {
    reprise(&directory.0, &["check", "--config", "r.toml"])
}

const BLOG: &str = "[[application]]\nname = \"blog\"\nhosts = [\"blog.example\"]\nroot = \"../www\"\n";
const SHOP: &str = "[[application]]\nname = \"shop\"\nhosts = [\"shop.example\"]\nroot = \"../www\"\n";

/// Files are read in the order of their names, after the configuration file; their paths start at their own directory; other
/// files are left alone.
#[test]
fn files_are_read_in_the_order_of_their_names() {
    let main = "[[application]]\nname = \"first\"\nhosts = [\"first.example\"]\nroot = \"www\"\n";
    let two = format!("{SHOP}\n{}", SHOP.replace("shop", "till"));
    let broken = [".hidden.toml", "blog.toml.dpkg-new", "README", "blog.toml~"].map(|name| (name, "="));
    let directory = sites(
        main,
        &[&[("20-blog.toml", BLOG), ("10-shop.toml", &two), ("empty.toml", "# later\n")][..], &broken].concat(),
    );
    let (code, stdout, stderr) = check(&directory);
    assert!(code == 0 && stderr.is_empty(), "{stderr}");
    let places: Vec<&str> = ["first (first.example)", "shop (", "till (", "blog ("].to_vec();
    let found: Vec<usize> =
        places.iter().map(|name| stdout.find(name).unwrap_or_else(|| panic!("{name}: {stdout}"))).collect();
    assert!(found.is_sorted(), "{stdout}");
    for place in ["r.toml:1\n", "conf.d/10-shop.toml:1\n", "conf.d/10-shop.toml:6\n", "conf.d/20-blog.toml:1\n"] {
        assert!(stdout.contains(place), "no {place} in {stdout}");
    }
}

/// The configuration file may have options of the server alone; another directory may be named, or none.
#[test]
fn conf_d_may_be_named() {
    let directory = sites("conf_d = \"sites\"\n", &[("x.toml", "="), ("../sites/blog.toml", BLOG)]);
    let (code, stdout, stderr) = check(&directory);
    assert!(code == 0 && stdout.contains("sites/blog.toml:1"), "{stdout}{stderr}");
    let none = sites(&format!("conf_d = \"\"\n{APP}"), &[("x.toml", "=")]);
    assert_eq!(check(&none).0, 0);
    let nowhere = site(&format!("\nconf_d = \"sites\"\n{APP}"));
    assert_failure("nowhere", &check(&nowhere), 78, &["r.toml:2: conf_d sites", "No such file"]);
    let nothing = sites("listen = [\"127.0.0.1:1\"]\n", &[("x.toml", "# nothing\n")]);
    assert_failure(
        "nothing",
        &check(&nothing),
        78,
        &["r.toml:2: describes no [[application]], nor does a file of conf.d"],
    );
}

/// A mistake in a file of conf.d is named with its file and line, as in the configuration file.
#[test]
fn mistakes_are_named_with_their_file() {
    let table: [(&str, &[&str]); 9] = [
        ("[[application]]\nrooot = \"../www\"\n", &["conf.d/x.toml:1: this [[application]] has no root"]),
        (
            "[[application]]\nroot = \"../www\"\nworker = 2\n",
            &["conf.d/x.toml:3: there is no option 'worker'", "did you mean 'workers'?"],
        ),
        ("[applicaton]\n", &["conf.d/x.toml:1:", "did you mean 'application'?"]),
        (
            "\nlisten = [\"127.0.0.1:1\"]\n",
            &["conf.d/x.toml:2: there is no option 'listen' here", "belongs to the top of r.toml"],
        ),
        (
            "[[application]]\nroot = \"../www\"\nproxies = []\n",
            &["conf.d/x.toml:3:", "'proxies' belongs to the top of r.toml"],
        ),
        ("workers = 2\n", &["conf.d/x.toml:1:", "'workers' belongs below [[application]]"]),
        ("conf_d = \"more\"\n", &["conf.d/x.toml:1:", "belongs to the top of r.toml"]),
        ("[[application]]\nroot = \"none\"\n", &["conf.d/x.toml:2:", "conf.d/none", "No such file"]),
        ("[[application]\n", &["conf.d/x.toml:1:"]),
    ];
    for (text, words) in table {
        assert_failure(text, &check(&sites(APP, &[("x.toml", text)])), 78, words);
    }
    let large = format!("# {}\n", "x".repeat(2 << 20));
    let directory = sites(APP, &[("a.toml", &large), ("b.toml", &large)]);
    assert_failure("large", &check(&directory), 78, &["conf.d/b.toml", "larger than 4194304 bytes"]);
}

/// Two files that name the same application, or the same host, are both named with their lines.
#[test]
fn two_files_with_the_same_application_are_both_named() {
    let other = BLOG.replace("blog.example", "other.example");
    let same_name = sites("", &[("a.toml", BLOG), ("b.toml", &format!("\n{other}"))]);
    let words =
        ["conf.d/b.toml:3: two applications are named 'blog'", "the other one is at conf.d/a.toml:2", "hint: name ="];
    assert_failure("name", &check(&same_name), 78, &words);
    let same_host = sites("", &[("a.toml", BLOG), ("b.toml", &BLOG.replace("\"blog\"", "\"shop\""))]);
    let words =
        ["conf.d/b.toml:3: both 'blog' and 'shop' answer for blog.example", "'blog' is at conf.d/a.toml:3", "hint:"];
    assert_failure("host", &check(&same_host), 78, &words);
    // A name that follows from the root has the line of the application.
    let named = "[[application]]\nname = \"www\"\nhosts = [\"a.example\"]\nroot = \"../www\"\n";
    let directory = sites(APP, &[("a.toml", named)]);
    assert_failure(
        "unnamed",
        &check(&directory),
        78,
        &["conf.d/a.toml:2: two applications are named 'www'", "at r.toml:1"],
    );
}

/// What is no regular file, or cannot be read, is named; a named pipe makes nobody wait.
#[test]
fn what_is_no_file_is_named() {
    let directory = sites(APP, &[]);
    let path = directory.0.join("conf.d/x.toml");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_failure("pipe", &check(&directory), 78, &["conf.d/x.toml: it is a named pipe (FIFO), not a regular file"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_failure("directory", &check(&directory), 78, &["conf.d/x.toml: it is a directory, not a regular file"]);
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert_failure("link", &check(&directory), 78, &["conf.d/x.toml: No such file"]);
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"# \xff\n").unwrap();
    assert_failure("text", &check(&directory), 78, &["conf.d/x.toml", "UTF-8"]);
    fs::remove_file(&path).unwrap();
    fs::remove_dir(directory.0.join("conf.d")).unwrap();
    fs::write(directory.0.join("conf.d"), "").unwrap();
    assert_failure("no directory", &check(&directory), 78, &["conf.d: Not a directory"]);
}

/// A reload takes files that were added, changed or removed. A mistake in one refuses it, and what serves goes on; status and
/// the other commands that only need to find the server do not mind.
#[test]
fn a_reload_takes_files_that_come_and_go() {
    let server =
        Setup::empty().file("index.php", "<?php echo 'main';").application("hosts = [\"main.example\"]").start();
    let directory = server.directory().join("conf.d");
    fs::create_dir(&directory).unwrap();
    fs::create_dir(server.directory().join("more")).unwrap();
    fs::write(server.directory().join("more/index.php"), "<?php echo 'more';").unwrap();
    let get = |host: &str| {
        let response = Client::over(connect(server.port).expect("a connection"), host).get("/");
        (response.status, response.text())
    };
    let ok = |text: &str| (200, text.to_owned());
    let more = "[[application]]\nname = \"more\"\nroot = \"../more\"\nhosts = [\"more.example\"]\n";
    fs::write(directory.join("more.toml"), more).unwrap();
    let (reloaded, said) = server.reload();
    assert!(reloaded, "{said}");
    assert_eq!((get("more.example"), get("main.example")), (ok("more"), ok("main")));
    for (text, words) in [
        (format!("{more}rooot = 1\n"), "more.toml:5: there is no option 'rooot'"),
        (more.replace("\"more\"\n", "\"app\"\n"), "more.toml:2: two applications are named 'app'"),
    ] {
        fs::write(directory.join("more.toml"), text).unwrap();
        let (reloaded, said) = server.reload();
        assert!(!reloaded && said.contains("the server goes on as before") && said.contains(words), "{said}");
        assert_eq!((get("more.example"), get("main.example")), (ok("more"), ok("main")));
        let (code, status, error) = reprise(server.directory(), &["status", "--config", "reprise.toml"]);
        assert!(code == 0 && status.contains("more"), "{status}{error}");
    }
    fs::remove_file(directory.join("more.toml")).unwrap();
    let (reloaded, said) = server.reload();
    assert!(reloaded, "{said}");
    assert_eq!((get("more.example").0, get("main.example")), (421, ok("main")));
}
