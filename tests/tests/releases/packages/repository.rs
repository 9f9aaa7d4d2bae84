//! A signed repository, as apt sees it.

use std::fs;
use std::path::Path;

use tests::server::Directory;

use super::place::Place;
use super::*;

/// gpg with keys of its own.
fn gpg(home: &Path, arguments: &[&str]) -> String {
    run(Command::new("gpg")
        .env("GNUPGHOME", home)
        .args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""])
        .args(arguments))
}

/// A key for signing; its fingerprint.
fn key(home: &Path, name: &str) -> String {
    gpg(home, &["--quick-generate-key", name, "ed25519", "sign", "1d"]);
    let listed = gpg(home, &["--list-keys", "--with-colons", name]);
    listed.lines().find_map(|line| line.strip_prefix("fpr:")).expect("a fingerprint").trim_matches(':').to_owned()
}

/// apt takes the packages of a repository with its key, and refuses it with another key or with a changed list.
#[test]
fn apt_takes_a_repository_by_its_key_alone() {
    let (directory, place) = (Directory::new(), Place::new("trixie"));
    let home = directory.0.join("gnupg");
    fs::create_dir(&home).unwrap();
    run(Command::new("chmod").arg("700").arg(&home));
    let (ours, other) = (key(&home, "packages@example.org"), key(&home, "other@example.org"));
    let packages = package(&directory.0, &[]);
    let made = place.root.join("srv/repository");
    run(Command::new("scripts/package")
        .current_dir(project())
        .env("GNUPGHOME", &home)
        .arg("repository")
        .arg(&made)
        .arg(&ours)
        .args(&packages));
    gpg(
        &home,
        &["--armor", "--yes", "--output", &directory.0.join("other.asc").display().to_string(), "--export", &other],
    );
    run(Command::new("gpgconf").env("GNUPGHOME", &home).args(["--kill", "gpg-agent"]));

    place.write(
        "/etc/apt/reprise.list",
        "deb [signed-by=/etc/apt/keyrings/reprise.asc] file:/srv/repository stable main\n",
    );
    let only = [
        "-o",
        "Dir::Etc::SourceList=/etc/apt/reprise.list",
        "-o",
        "Dir::Etc::SourceParts=-",
        "-o",
        "APT::Sandbox::User=root",
        "-o",
        "APT::Update::Error-Mode=any",
    ];
    let trust = |key: &Path| place.write("/etc/apt/keyrings/reprise.asc", &fs::read_to_string(key).unwrap());
    let update = || {
        let output = place.command("apt-get").args(only).arg("update").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    trust(&made.join("reprise.asc"));
    let (is_taken, said) = update();
    assert!(is_taken && !said.contains("W:"), "{said}");
    place.run("sh", &["-c", &format!("cd /tmp && apt-get {} download reprise", only.join(" "))]);
    let name = packages[0].file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(
        place.run("sha256sum", &[&format!("/tmp/{name}")])[..64],
        run(Command::new("sha256sum").arg(&packages[0]))[..64]
    );

    trust(&directory.0.join("other.asc"));
    let (is_taken, said) = update();
    assert!(!is_taken && said.contains("/srv/repository"), "with another key: {said}");

    trust(&made.join("reprise.asc"));
    let list = made.join("dists/stable/main/binary-amd64/Packages");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replace("Package: reprise\n", "Package: reprize\n")).unwrap();
    fs::remove_file(list.with_extension("gz")).unwrap();
    place.run("sh", &["-c", "rm -rf /var/lib/apt/lists/*"]);
    let (is_taken, said) = update();
    assert!(!is_taken && said.contains("mismatch"), "with a changed list: {said}");
}
