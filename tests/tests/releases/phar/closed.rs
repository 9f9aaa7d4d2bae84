//! Who reads a phar, and who can read and write what was unpacked of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::process::is_root;
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

/// What was unpacked is the server's own: the front's group reads it, whoever may read the phar, and nobody else.
#[test]
fn what_is_unpacked_is_for_the_front_alone() {
    let front =
        if is_root() { nix::unistd::Group::from_name("nogroup").ok().flatten().map(|group| group.gid) } else { None };
    let group = front.unwrap_or_else(nix::unistd::getgid).as_raw();
    for mode in [0o644, 0o640] {
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
        assert_eq!(found.mode() & 0o777, if is_root() { 0o750 } else { 0o700 }, "{mode:o}");
        assert!(!is_root() || found.gid() == group, "{mode:o}");
        if is_root() {
            // The one that PHP runs as, too: it has the sealed copy.
            let others = nix::unistd::User::from_name("www-data").expect("users").expect("a user");
            let base = place.parent().expect("a directory");
            for path in [base.to_owned(), place.clone(), place.join("sub/a.txt")] {
                let mut command = Command::new(if path.is_dir() { "ls" } else { "cat" });
                command.arg(&path).uid(others.uid.as_raw()).gid(others.gid.as_raw());
                let output = command.output().expect("a program");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(!output.status.success() && said.contains("Permission denied"), "{}: {said}", path.display());
            }
        }
    }
}

/// Somebody who locks a directory does not hold up the next server, and what nobody guarded is not used again.
#[test]
fn what_is_left_is_neither_waited_for_nor_used() {
    let (setup, file) = setup();
    phar(&file, &[("index.php", "<?php echo 'x';"), ("a.txt", "checked")], STUB);
    let server = setup.start();
    let place = unpacked(&server);
    let directory = fs::File::open(&place).expect("the directory");
    let lock = nix::fcntl::Flock::lock(directory, nix::fcntl::FlockArg::LockSharedNonblock).map_err(|(_, why)| why);
    let lock = lock.expect("a lock");
    fs::write(place.join("a.txt"), "changed").expect("a file");
    let (setup, copy) = super::setup();
    fs::copy(&file, &copy).expect("a copy");
    let time = fs::metadata(&file).expect("the phar").modified().expect("a time");
    fs::File::options().write(true).open(&copy).and_then(|file| file.set_modified(time)).expect("a time");
    drop(server);
    assert!(place.exists(), "the lock keeps it");
    // Locked by somebody who may open it.
    let directory = lock.unlock().map_err(|(_, why)| why).expect("no lock");
    let lock = nix::fcntl::Flock::lock(directory, nix::fcntl::FlockArg::LockExclusiveNonblock).map_err(|(_, why)| why);
    let lock = lock.expect("a lock");
    let config = setup.directory().join("check.toml");
    fs::write(&config, format!("[[application]]\nroot = \"{}\"\n", copy.display())).expect("a configuration");
    let output = Command::new(program()).args(["check", "--config"]).arg(config).output().expect("reprise");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("other processes keep removing or locking it"), "{said}");
    drop(lock);
    let server = setup.start();
    assert_eq!(server.get("/a.txt").text(), "checked");
}

/// However many directories a phar has, few are open at once.
#[test]
fn many_directories_need_few_descriptors() {
    let (setup, file) = setup();
    build(&file, "foreach (range(1, 400) as $n) { $phar[\"$n/a/b.txt\"] = 'x'; } $phar['index.php'] = '<?php';");
    let config = setup.directory().join("check.toml");
    fs::write(&config, format!("[[application]]\nroot = \"{}\"\n", file.display())).expect("a configuration");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200; exec \"$0\" check --config \"$1\""]).arg(program()).arg(config);
    let output = command.output().expect("reprise check");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("401 files"), "{said}");
}
