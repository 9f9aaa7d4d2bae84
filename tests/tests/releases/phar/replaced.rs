//! What becomes of a phar while it serves.

use std::fs;

use tests::wait_for;

use super::{STUB, phar, setup};

fn version(file: &std::path::Path, number: u32) {
    let index = format!("<?php echo '{number} ', require 'late.php';");
    let late = format!("<?php return {number};");
    phar(file, &[("index.php", &index), ("late.php", &late), ("a.txt", &number.to_string())], STUB);
}

/// A phar that was overwritten is noticed; what serves goes on with the bytes that were checked, also for files that PHP has not loaded
/// yet. A reload refuses what is damaged, and takes what was renamed into place.
#[test]
fn a_phar_that_is_overwritten_is_noticed_and_not_served() {
    let (setup, file) = setup();
    version(&file, 1);
    let server = setup.ini("opcache.enable", "0").start();
    let all = |server: &tests::Server| (server.get("/").text(), server.get("/a.txt").text());
    assert_eq!(all(&server), ("1 1".to_owned(), "1".to_owned()));
    let old = fs::read(&file).expect("the phar");
    fs::write(&file, [&old[..old.len() / 2], &[0; 4000]].concat()).expect("other bytes in the same file");
    wait_for("the overwritten phar is noticed", 20, || server.log().contains("was overwritten in place").then_some(()));
    assert_eq!(all(&server), ("1 1".to_owned(), "1".to_owned()));
    let (is_done, said) = server.reload();
    assert!(!is_done && said.contains("app.phar"), "{said}");
    assert_eq!(all(&server), ("1 1".to_owned(), "1".to_owned()));
    let next = file.with_file_name("next.phar");
    version(&next, 2);
    fs::rename(&next, &file).expect("a rename");
    assert_eq!(all(&server), ("1 1".to_owned(), "1".to_owned()), "until the reload");
    let (is_done, said) = server.reload();
    assert!(is_done, "{said}");
    assert_eq!(all(&server), ("2 2".to_owned(), "2".to_owned()));
    fs::remove_file(&file).expect("the phar is gone");
    assert_eq!(all(&server), ("2 2".to_owned(), "2".to_owned()));
    assert_eq!(server.log().matches("was overwritten in place").count(), 1, "{}", server.log());
}

/// With `watch` a phar that was renamed into place is served without being told.
#[test]
fn a_watched_phar_is_followed() {
    let (setup, file) = setup();
    version(&file, 1);
    let server = setup.application("watch = true").start();
    assert_eq!(server.get("/").text(), "1 1");
    let next = file.with_file_name("next.phar");
    version(&next, 2);
    fs::rename(&next, &file).expect("a rename");
    wait_for("the new phar serves", 30, || {
        (server.get("/").text() == "2 2" && server.get("/a.txt").text() == "2").then_some(())
    });
}
