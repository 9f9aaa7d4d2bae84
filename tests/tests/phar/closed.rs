//! Who reads a phar, and who can read and write what was unpacked of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::process::{children, name, status};
use tests::server::program;
use tests::{Server, wait_for};

use super::{STUB, build, phar, setup};

/// The directory into which a server's phar was unpacked: the server holds it open.
pub fn unpacked(server: &Server) -> PathBuf {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("descriptors");
    let mut places = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    places.find(|place| place.display().to_string().contains("/.phars/")).expect("a directory")
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// All below a directory, and it.
fn all(directory: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    below.flat_map(|path| if path.is_dir() { all(&path) } else { vec![path] }).chain([directory.to_owned()]).collect()
}

/// The process that reads a phar is nobody's and can do nothing.
#[test]
fn who_reads_a_phar_has_no_rights() {
    let (setup, file) = setup();
    // Large when it is unpacked, so that the process can be looked at.
    let code = "foreach (range(1, 4) as $n) { $phar[\"$n.txt\"] = str_repeat(\"$n\", 20 << 20); $phar[\"$n.txt\"]->compress(Phar::GZ); }
        $phar['index.php'] = '<?php';";
    build(&file, code);
    let mut command = Command::new(program());
    command.arg("check").arg(&file).stdout(Stdio::null()).current_dir(setup.directory());
    let mut check = command.spawn().expect("reprise check");
    let pid = i32::try_from(check.id()).expect("a pid");
    let is_reader = |pid: &i32| name(*pid).as_deref() == Some("reprise-phar");
    // It has its name before it gives up its rights.
    let seen = wait_for("a process that has given up its rights reads the phar", 20, || {
        let reader = children(pid).into_iter().find(is_reader)?;
        let facts = ["NoNewPrivs", "CapEff", "CapPrm", "Uid", "Groups"].map(|field| status(reader, field));
        (facts[0].as_deref() == Some("1")).then_some(facts)
    });
    assert!(check.wait().expect("it ends").success());
    let seen = seen.map(|one| one.expect("a field"));
    assert!(seen[1..3].iter().all(|set| set.trim_start_matches('0').is_empty()), "{seen:?}");
    if is_root() {
        let nobody = nix::unistd::User::from_name("nobody").expect("users").expect("nobody").uid.to_string();
        assert!(seen[3].split_whitespace().all(|uid| uid == nobody), "{seen:?}");
        assert!(seen[4].split_whitespace().all(|group| group != "0"), "{seen:?}");
    }
}

/// What was unpacked is the server's own, and nobody else can write there. Who cannot read the phar cannot read it either.
#[test]
fn what_is_unpacked_is_closed_as_the_phar_is() {
    let front =
        if is_root() { nix::unistd::Group::from_name("nogroup").ok().flatten().map(|group| group.gid) } else { None };
    let group = front.unwrap_or_else(nix::unistd::getgid).as_raw();
    for (mode, top) in [(0o644, 0o755), (0o640, 0o750)] {
        let (setup, file) = setup();
        let text = format!("<?php echo '{}';", file.display());
        phar(&file, &[("index.php", &text), ("sub/a.txt", "a")], STUB);
        let owner =
            is_root().then(|| nix::unistd::User::from_name("www-data").expect("users").expect("a user").uid.as_raw());
        chown(&file, owner, Some(group)).expect("an owner and a group");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("permissions");
        let server = setup.start();
        assert_eq!(server.get("/").text(), file.display().to_string(), "{mode:o}: {}", server.log());
        assert_eq!(server.get("/sub/a.txt").text(), "a", "{mode:o}: {}", server.log());
        let place = unpacked(&server);
        let us = nix::unistd::Uid::effective().as_raw();
        for path in all(&place) {
            let found = fs::symlink_metadata(&path).expect("a file");
            assert!(found.uid() == us && found.mode() & 0o022 == 0, "{}: {:o}", path.display(), found.mode());
        }
        let found = fs::metadata(&place).expect("the directory");
        assert_eq!(found.mode() & 0o777, top, "{mode:o}");
        assert!(mode & 0o004 != 0 || found.gid() == group, "{mode:o}");
        if is_root() && mode & 0o004 == 0 {
            // The front is not in this one.
            chown(&file, None, Some(0)).expect("a group");
            let (said, code) = super::about(&server, &["check"]);
            assert!(code != 0 && said.contains("is closed to user nobody"), "{code}: {said}");
        }
    }
}
