//! Files that the front keeps open, or in memory, for the requests that follow: whatever becomes of them is sent at once.

use super::*;
use tests::server::free_port;
use tests::wait_until;

/// A server that keeps what it sends for an hour, and the port of its metrics.
fn keeping() -> (Setup, u16) {
    let admin = free_port();
    let setup = plain().server(&format!("admin_listen = [\"127.0.0.1:{admin}\"]")).server("file_cache_time = \"1h\"");
    (setup.file("large.bin", vec![b'x'; 300_000]), admin)
}

fn metric(admin: u16, name: &str) -> u64 {
    let text = Client::new(admin).get("/metrics").text();
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
}

const HITS: &str = "reprise_file_cache_total{result=\"hit\"}";

/// Asks for a file until it comes from what is kept: a file that has just changed is not kept for some seconds.
fn until_kept(server: &Server, admin: u16, path: &str) {
    wait_until("the file is kept", 30, || {
        let before = metric(admin, HITS);
        assert_eq!(server.get(path).status, 200);
        metric(admin, HITS) > before
    });
}

/// Names of files below the root that the front holds open.
fn open_files(server: &Server) -> Vec<PathBuf> {
    let front = server.front().unwrap();
    let all = fs::read_dir(format!("/proc/{front}/fd")).unwrap();
    all.filter_map(|one| fs::read_link(one.ok()?.path()).ok()).filter(|path| path.starts_with(&server.root)).collect()
}

#[test]
fn what_becomes_of_a_kept_file_is_sent_at_once() {
    let (setup, admin) = keeping();
    let server = setup.start();
    let path = server.root.join("a.txt");
    until_kept(&server, admin, "/a.txt");
    assert_eq!(server.get("/a.txt").text(), "static");
    assert_eq!(with(&mut server.client(), "/a.txt", &[("Range", "bytes=1-2")]).text(), "ta");
    let kept = server.get("/a.txt");
    // Written in place, of the same size, with the same modification time.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    (&file).write_all(b"STATIC").unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(server.get("/a.txt").text(), "STATIC");
    assert_eq!(server.get("/a.txt").header("etag"), kept.header("etag"), "the client's own rule of validation");
    // Shorter and longer.
    for text in ["s", "a text that is longer", ""] {
        fs::write(&path, text).unwrap();
        let sent = server.get("/a.txt");
        assert_eq!((sent.text().as_str(), sent.header("content-length")), (text, Some(&*text.len().to_string())));
    }
    // Replaced by rename, as deployments do, though its times are old.
    fs::write(&path, "static").unwrap();
    until_kept(&server, admin, "/a.txt");
    let other = server.root.join("other");
    fs::write(&other, "newest").unwrap();
    fs::OpenOptions::new().write(true).open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(server.get("/a.txt").text(), "newest");
    // Closed to the front, then gone.
    until_kept(&server, admin, "/a.txt");
    if Uid::effective().is_root() {
        mode(&path, 0o600);
        assert_eq!(server.get("/a.txt").status, 403);
        mode(&path, 0o644);
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(server.get("/a.txt").status, 404);
    assert!(metric(admin, "reprise_file_cache_total{result=\"changed\"}") >= 2);
}

/// A large file is read anew for each response, also in the middle of one.
#[test]
fn a_kept_large_file_is_sent_as_it_is() {
    let (setup, admin) = keeping();
    let server = setup.start();
    until_kept(&server, admin, "/large.bin");
    assert_eq!(open_files(&server), [server.root.join("large.bin")]);
    let path = server.root.join("large.bin");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(server.get("/large.bin").text(), "xxxxxxxxxx");
}

/// A release is switched by a symbolic link within the root; links that lead where nothing may be sent are refused.
#[test]
fn links_are_followed_anew() {
    let (setup, admin) = keeping();
    let server = setup.start();
    let root = &server.root;
    for (release, text) in [("one", "first"), ("two", "second")] {
        fs::create_dir_all(root.join(release)).unwrap();
        fs::write(root.join(release).join("app.js"), text).unwrap();
    }
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join(".git/app.js"), SECRET).unwrap();
    let switch = |to: &str| {
        symlink(to, root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("current")).unwrap();
    };
    switch("one");
    until_kept(&server, admin, "/current/app.js");
    switch("two");
    assert_eq!(server.get("/current/app.js").text(), "second");
    until_kept(&server, admin, "/current/app.js");
    switch(".git");
    assert_eq!(server.get("/current/app.js").status, 404);
    switch("two");
    until_kept(&server, admin, "/current/app.js");
    fs::remove_file(root.join("two/app.js")).unwrap();
    symlink("../.git/app.js", root.join("two/app.js")).unwrap();
    assert_eq!(server.get("/current/app.js").status, 404);
}

/// A reload drops everything, so no file of a root that was removed stays open.
#[test]
fn nothing_outlives_a_reload_or_its_time() {
    let (setup, admin) = keeping();
    let server = setup.start();
    let other = server.directory().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.txt"), "other").unwrap();
    for path in ["/a.txt", "/large.bin"] {
        until_kept(&server, admin, path);
    }
    assert_eq!((open_files(&server).len(), metric(admin, "reprise_file_cache_files")), (2, 2));
    assert!(metric(admin, "reprise_file_cache_bytes") > 6);
    server.reconfigure(&server.root.display().to_string(), &other.display().to_string());
    assert!(server.reload().0, "{}", server.log());
    assert_eq!(server.get("/a.txt").text(), "other");
    wait_until("the files of the old root are closed", 10, || open_files(&server).is_empty());
    until_kept(&server, admin, "/a.txt");
    server.reconfigure("file_cache_time = \"1h\"", "file_cache_time = \"1s\"");
    assert!(server.reload().0, "{}", server.log());
    until_kept(&server, admin, "/a.txt");
    wait_until("its time is over, though nobody asks for it", 10, || metric(admin, "reprise_file_cache_files") == 0);
}

/// It can be switched off, and its limits hold.
#[test]
fn the_cache_has_limits() {
    let (setup, admin) = keeping();
    let server = setup.server("file_cache_files = 2").file("b.txt", "b").file("c.txt", "c").start();
    for path in ["/a.txt", "/b.txt", "/c.txt"] {
        until_kept(&server, admin, path);
    }
    assert_eq!((metric(admin, "reprise_file_cache_files"), open_files(&server).len()), (2, 2));
    assert_eq!(metric(admin, "reprise_file_cache_evictions_total"), 1);
    server.reconfigure("file_cache_files = 2", "file_cache_memory = 0");
    assert!(server.reload().0, "{}", server.log());
    wait_until("everything is closed", 10, || open_files(&server).is_empty());
    let before = metric(admin, HITS);
    for _ in 0..5 {
        assert_eq!(server.get("/b.txt").text(), "b");
    }
    assert_eq!((metric(admin, HITS), open_files(&server)), (before, Vec::new()));
}
