//! What is never sent: source, hidden files, anything outside the root.

use tests::disguises::disguises;

use super::*;

/// A root beside a secret, with every kind of bait in it.
fn baited() -> (Setup, PathBuf) {
    let mut setup = plain()
        .file("index.html", "home")
        .file("run.php", SECRET)
        .file("dir/run.php", SECRET)
        .file("dir/a.txt", "static");
    for name in [
        "a.PHP",
        "a.Php",
        "a.php.bak",
        "a.php~",
        "a.php.orig",
        "a.php.swp",
        "a.php.save",
        "a.php.1",
        "a.php.",
        "a.php ",
        "#a.php#",
        "a.phtml",
        "a.pHtMl",
        "a.phar",
        "a.phps",
        "a.pht",
        "a.php3",
        "a.php4",
        "a.php5",
        "a.php7",
        "a.php8",
        "a.inc",
        "a.phpbak",
        "a.phpold",
        "a.PHPOLD",
        "a.phpx",
        "a.phpt",
        "a.phtm",
        "a.hphp",
        "a.php_",
        "a.php56",
        "a.phpsave",
        "a.php5bak",
        "a.phpbak.txt",
        "a.phpx.gz",
        "a.phtmlbak",
        "a.incbak",
        "a.inc.php.old",
        "a.class.inc",
        "a.php.gz",
        "a.php.txt",
        "a.php.html",
        "a.php_bak",
        "a.php-old",
        "a.php,v",
        "a.php copy",
        "a.php(1)",
        "a.php;1",
        "a.php\\",
        "a.php%00",
        "a.php::$DATA",
        "a.php@",
        "a.php=",
        "a.php!",
        ".env",
        ".htaccess",
        ".git/config",
        ".hidden/a.txt",
        "dir/.env",
        ".well-known/.env",
        ".user.ini",
        ".a.php.swp",
        "dir/.git/HEAD",
    ] {
        setup = setup.file(name, SECRET);
    }
    let root = setup.document_root().to_owned();
    let outside = setup.directory().join("app");
    for name in ["secret", "secret.txt", ".env", "secret.php"] {
        fs::write(outside.join(name), SECRET).unwrap();
    }
    fs::create_dir(outside.join("public-too")).unwrap();
    fs::write(outside.join("public-too/secret.txt"), SECRET).unwrap();
    for (target, name) in [
        ("../secret.txt", "out.txt"),
        ("../secret.txt", "out.php"),
        ("../secret.php", "out2.php"),
        ("..", "up"),
        ("/", "root"),
        ("../public-too", "sibling"),
        ("run.php", "source.txt"),
        ("run.php", "source.html"),
        ("dir/run.php", "source"),
        (".env", "env.txt"),
        (".git", "git"),
        (".git/config", "config.txt"),
        (".hidden", "shown"),
        ("out.txt", "twice.txt"),
        ("up", "twice"),
        ("loop", "loop"),
        ("nowhere", "dangling.txt"),
        ("/proc/self/environ", "environ.txt"),
        ("/proc/self/fd", "fd"),
        ("/dev/zero", "zero"),
        ("/etc/passwd", "passwd"),
        ("a.php.bak", "backup.txt"),
        ("a.inc", "inc.txt"),
        ("a.phpbak", "phpbak.txt"),
        ("a.hphp", "hphp.html"),
        ("secret.txt", "inner.php"),
    ] {
        symlink(target, root.join(name)).unwrap();
        if Uid::effective().is_root() {
            // As PHP makes them.
            let www = nix::unistd::User::from_name("www-data").unwrap().unwrap();
            std::os::unix::fs::lchown(root.join(name), Some(www.uid.as_raw()), None).unwrap();
        }
    }
    mkfifo(&root.join("fifo.txt"), Mode::from_bits_truncate(0o666)).unwrap();
    mkfifo(&root.join("fifo.php"), Mode::from_bits_truncate(0o666)).unwrap();
    if Uid::effective().is_root() {
        // A disk of this machine, if the kernel lets this process make one.
        let _ = mknod(
            &root.join("disk.txt"),
            SFlag::S_IFCHR,
            Mode::from_bits_truncate(0o666),
            nix::sys::stat::makedev(1, 5),
        );
    }
    let _ = std::os::unix::net::UnixListener::bind(root.join("socket.txt")).unwrap();
    fs::create_dir_all(root.join("folder.php")).unwrap();
    fs::write(root.join("folder.php/secret.inc"), SECRET).unwrap();
    (setup, outside)
}

/// No spelling of a target gets source, a hidden file, or a file outside the root.
#[test]
fn source_hidden_files_and_outside_paths_are_never_sent() {
    let (setup, _outside) = baited();
    let root = setup.document_root().to_owned();
    let server = setup.start();
    let mut names: Vec<String> = Vec::new();
    for directory in ["", "dir", ".git", ".hidden", ".well-known", "folder.php", "dir/.git"] {
        for entry in fs::read_dir(root.join(directory)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            names.push(if directory.is_empty() { name } else { format!("{directory}/{name}") });
        }
    }
    for below in ["up", "root", "sibling", "git", "shown", "twice", "fd", "loop"] {
        for name in [
            "secret",
            "secret.txt",
            ".env",
            "etc/passwd",
            "config",
            "a.txt",
            "public/run.php",
            "app/secret.txt",
            "0",
            "3",
            "10",
            "loop/secret.txt",
        ] {
            names.push(format!("{below}/{name}"));
        }
    }
    for above in [
        "../secret",
        "../secret.txt",
        "../.env",
        "../../server.log",
        "../../../../../../etc/passwd",
        "../public-too/secret.txt",
    ] {
        names.push(above.to_owned());
    }
    let secrets = ["TOP-SECRET", "root:x:0", "DOCUMENT_ROOT=", "[[application]]"];
    let mut client = server.client();
    let mut wrong = Vec::new();
    let mut asked = 0;
    for name in &names {
        for target in disguises(name) {
            asked += 1;
            client.send(&[b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).unwrap();
            let answer =
                client.read(false).unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(&target)));
            let text = answer.text();
            let leaks = secrets.iter().any(|secret| text.contains(secret)) || text.bytes().any(|byte| byte == 0);
            // Scripts run under their own name only, and links to them not at all if they lead out.
            let ran = text == "ran"
                && !String::from_utf8_lossy(&target)
                    .to_lowercase()
                    .replace("%2e", ".")
                    .replace("%70", "p")
                    .replace("%68", "h")
                    .contains(".php");
            if leaks || ran || !matches!(answer.status, 200 | 301 | 400 | 403 | 404) {
                wrong.push(format!(
                    "{} for {}: {:?}",
                    answer.status,
                    String::from_utf8_lossy(&target),
                    &text[..text.len().min(40)]
                ));
            }
            if answer.header("connection") == Some("close") {
                client = server.client();
            }
        }
    }
    wrong.sort();
    println!("{asked} disguised targets");
    assert!(
        wrong.is_empty(),
        "of {asked} targets {} were answered wrongly:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(80)].join("\n")
    );
    for name in ["fifo.txt", "fifo.php", "disk.txt", "socket.txt", "loop", "dangling.txt", "folder.php", "inner.php"] {
        assert_eq!(server.get(&format!("/{name}")).status, 404, "{name}");
    }
    for name in ["out.txt", "out2.php", "twice.txt", "zero", "environ.txt"] {
        assert_eq!(server.get(&format!("/{name}")).header("reprise-refused"), Some("link"), "{name}");
    }
    assert_eq!(server.get("/.well-known/.env").status, 404);
    assert_eq!(server.get("/run.php").text(), "ran");
    assert_eq!(server.get("/").text(), "home");
    assert_eq!(server.get("/dir/a.txt").text(), "static");
}

/// With `links = "inside"` symbolic links are followed into the root and the directories of `follow`, and nowhere else.
#[test]
fn links_lead_where_follow_allows() {
    let outside = Directory::new();
    for (name, text) in [
        ("media/a.css", "css"),
        ("media/.env", SECRET),
        ("media/s.php", "<?php echo 'linked';"),
        ("media/b.inc", SECRET),
        ("other/a.css", "other"),
    ] {
        fs::create_dir_all(outside.0.join(name).parent().unwrap()).unwrap();
        fs::write(outside.0.join(name), text).unwrap();
    }
    let lines = format!("links = \"inside\"\nfollow = [\"{}\"]", outside.0.join("media").display());
    let setup = plain().application(&lines);
    let root = setup.document_root().to_owned();
    fs::write(root.join("inside.txt"), "inside").unwrap();
    for (target, name) in [
        (outside.0.join("media"), "media"),
        (outside.0.join("other"), "other"),
        (outside.0.join("media/a.css"), "one.css"),
        (root.join("inside.txt"), "again.txt"),
        (outside.0.join("media/s.php"), "s.txt"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    symlink("../other/a.css", outside.0.join("media/escape.css")).unwrap();
    let server = setup.start();
    for (path, expected) in
        [("/media/a.css", "css"), ("/one.css", "css"), ("/again.txt", "inside"), ("/media/s.php", "linked")]
    {
        assert_eq!(server.get(path).text(), expected, "{path}");
    }
    for path in
        ["/other/a.css", "/media/escape.css", "/media/.env", "/media/b.inc", "/s.txt", "/media/../../other/a.css"]
    {
        let answer = server.get(path);
        assert!(matches!(answer.status, 400 | 403 | 404), "{path}: {answer:?}");
    }
}

/// A file that the front's user may not read is 403.
#[test]
fn what_is_closed_to_the_front_is_forbidden() {
    let setup = plain()
        .file("closed.txt", SECRET)
        .file("closed/a.txt", SECRET)
        .file("closed/run.php", SECRET)
        .file("list/a.txt", "static");
    let root = setup.document_root().to_owned();
    mode(&root.join("closed.txt"), 0o600);
    mode(&root.join("closed"), 0o700);
    // May be entered, but not listed: its files are none the worse for that.
    mode(&root.join("list"), 0o711);
    let server = setup.start();
    if !Uid::effective().is_root() {
        mode(&root.join("closed.txt"), 0o000);
        mode(&root.join("closed"), 0o000);
    }
    assert_eq!(server.get("/list/a.txt").text(), "static");
    for path in ["/closed.txt", "/closed/a.txt", "/closed/none", "/closed/run.php"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("reprise-refused")), (403, Some("forbidden")), "{path}");
    }
    mode(&root.join("closed"), 0o755);
}

/// A file whose first bytes open PHP is not sent by any name, nor by a link, a range, HEAD or from the cache, unless a rule allows it.
#[test]
fn source_by_its_first_bytes_is_not_sent() {
    let source = [
        ("x.module", SECRET),
        ("x.install", "<?PHP\n/* TOP-SECRET */"),
        ("sub/theme.tpl", "<?= 'TOP-SECRET' ?>"),
        ("sub/short.txt", "<?\necho 'TOP-SECRET';"),
        ("bom.txt", "\u{feff}<?php /* TOP-SECRET */"),
        ("tool", "#!/usr/bin/env php\n<?php /* TOP-SECRET */"),
        ("late.css", "\n\t<?php /* TOP-SECRET */"),
        ("app.js", SECRET),
        ("a.html", SECRET),
        ("picture.png", SECRET),
        ("lib/index.html", SECRET),
    ];
    let text = [
        ("a.xml", "<?xml version=\"1.0\"?><a/>"),
        ("a.svg", "<?xml version=\"1.0\"?><svg/>"),
        ("quoted.txt", "code: <?php /* */"),
        ("run.sh", "#!/bin/sh\necho"),
        ("empty.module", ""),
        ("one.txt", "<"),
    ];
    let long = format!("{SECRET}{}", " ".repeat(1 << 20));
    let setup = Setup::empty().file("index.php", "<?php echo 'controller';");
    let setup = source.iter().chain(&text).fold(setup, |setup, (name, text)| setup.file(name, text));
    let setup = setup.file("docs/example.txt", SECRET).file("docs/example.inc", SECRET).file("long.txt", &long);
    symlink("x.module", setup.document_root().join("linked.txt")).unwrap();
    let server = setup.route("prefix = \"/docs\"\nallow = true").start();
    let mut client = server.client();
    for path in source.iter().map(|(name, _)| *name).chain(["lib/", "linked.txt"]) {
        for (method, headers) in [("GET", &[][..]), ("HEAD", &[]), ("GET", &[("Range", "bytes=7-40")])] {
            let answer = client.request(method, &format!("/{path}"), headers, b"");
            assert_eq!((answer.status, answer.header("reprise-refused")), (403, Some("source")), "{method} {path}");
            assert!(!answer.text().contains("TOP-SECRET"), "{path}");
        }
    }
    for (name, expected) in text.iter().chain(&[("docs/example.txt", SECRET), ("long.txt", &long)]) {
        assert_eq!(client.get(&format!("/{name}")).text().as_str(), *expected, "{name}");
    }
    assert!(!client.get("/docs/example.inc").text().contains("TOP-SECRET"), "a name of source is never allowed");
}
