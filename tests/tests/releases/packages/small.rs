//! What is in the packages. Needs no root.

use std::fs;

use tests::server::Directory;

use super::*;

fn field(package: &Path, name: &str) -> String {
    run(Command::new("dpkg-deb").arg("--field").arg(package).arg(name)).trim().to_owned()
}

fn content(package: &Path) -> String {
    run(Command::new("dpkg-deb").arg("--contents").arg(package))
}

/// The same programs and sources give the same bytes, whatever the time and the directory.
#[test]
fn packages_have_the_same_bytes_each_time() {
    let (one, two) = (Directory::new(), Directory::new());
    let (first, second) = (package(&one.0, &[]), package(&two.0, &[]));
    assert_eq!(first.len(), 2);
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.file_name(), second.file_name());
        assert!(fs::read(first).unwrap() == fs::read(second).unwrap(), "{first:?} differs");
    }
    let (server, php) = (&first[0], &first[1]);
    // The server loads no PHP, and PHP's package needs exactly this server and its own minor version.
    let version = field(server, "Version");
    assert!(!field(server, "Depends").contains("php") && field(server, "Depends").contains("libc6 (>= 2."));
    let (name, depends) = (field(php, "Package"), field(php, "Depends"));
    let minor = name.strip_prefix("reprise-php8.").and_then(|minor| minor.parse::<u32>().ok()).expect("a version");
    for part in [
        format!("libphp8.{minor}-embed (>= 8.{minor})"),
        format!("libphp8.{minor}-embed (<< 8.{})", minor + 1),
        format!("reprise (= {version})"),
    ] {
        assert!(depends.contains(&part), "no {part} in {depends}");
    }
    let files = content(server);
    for file in [
        "rwxr-xr-x root/root|./usr/bin/reprise",
        "rw-r--r-- root/root|./etc/reprise/reprise.toml",
        "rw-r--r-- root/root|./etc/reprise/conf.d/README",
        "rw-r--r-- root/root|./usr/lib/systemd/system/reprise.service",
        "rw-r--r-- root/root|./usr/lib/systemd/system/reprise.socket",
        "rw-r--r-- root/root|./usr/lib/systemd/system/run-reprise_releases.mount",
        "rw-r--r-- root/root|./usr/share/man/man1/reprise-serve.1.gz",
        "rw-r--r-- root/root|./usr/share/man/man5/reprise.toml.5.gz",
        "rw-r--r-- root/root|./usr/share/bash-completion/completions/reprise",
        "rw-r--r-- root/root|./usr/share/reprise/composer/composer.json",
        "rw-r--r-- root/root|./usr/share/reprise/seccomp.json",
        "rw-r--r-- root/root|./usr/share/doc/reprise/docs/operations/systemd.md",
    ] {
        let (rights, path) = file.split_once('|').unwrap();
        let found = files.lines().find(|line| line.ends_with(&format!(" {path}")));
        assert!(found.is_some_and(|line| line[1..].starts_with(rights)), "{file}: {found:?}");
    }
    assert!(content(php).contains(&format!("./usr/lib/reprise/{name}\n")), "{}", content(php));
    // Nothing of this machine is in them.
    for package in &first {
        run(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(one.0.join(field(package, "Package"))));
    }
    let control = fs::read_to_string(one.0.join("reprise/DEBIAN/conffiles")).unwrap();
    assert_eq!(control, "/etc/reprise/conf.d/README\n/etc/reprise/reprise.toml\n");
    let page = fs::read_to_string(one.0.join("reprise/etc/reprise/reprise.toml")).unwrap();
    assert!(page.contains("name = \"reprise\""));
}

/// Two checkouts in two directories are built to the same bytes.
#[test]
fn checkouts_are_built_to_the_same_bytes() {
    let directory = Directory::new();
    let copy = |name: &str| {
        let checkout = directory.0.join(name);
        fs::create_dir(&checkout).unwrap();
        let files = "git ls-files -z | xargs -0 cp --parents --target-directory \"$1\"";
        run(Command::new("bash").current_dir(project()).args(["-euc", files, "copy"]).arg(&checkout));
        checkout
    };
    // A build takes minutes: both are of the sources as they are now.
    let checkouts = ["one", "another-directory"].map(copy);
    let build = |checkout: PathBuf| {
        let mut command = Command::new("scripts/package");
        command.current_dir(&checkout).args(["--maintainer", "Reprise <reprise@example.org>"]);
        let packages = run(command.env_remove("CARGO_TARGET_DIR").env("SOURCE_DATE_EPOCH", "1700000000"));
        let packages: Vec<_> = packages.lines().map(|package| fs::read(package).unwrap()).collect();
        fs::remove_dir_all(&checkout).unwrap();
        packages
    };
    let [one, two] = checkouts.map(build);
    assert_eq!(one.len(), 2);
    for (package, (one, two)) in ["the server", "PHP"].iter().zip(one.iter().zip(&two)) {
        assert!(one == two, "the packages of {package} differ");
    }
}

/// lintian finds no error and nothing to warn of.
#[test]
fn lintian_finds_nothing() {
    let directory = Directory::new();
    let packages = package(&directory.0, &[]);
    let said = run(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).args(packages));
    assert_eq!(said, "");
}

/// The shipped configuration is taken as it is, with an application beside it.
#[test]
fn the_shipped_configuration_is_taken() {
    let directory = Directory::new();
    let conf_d = directory.0.join("conf.d");
    fs::create_dir_all(directory.0.join("www")).unwrap();
    fs::create_dir(&conf_d).unwrap();
    let shipped = fs::read_to_string(project().join("packaging/etc/reprise.toml")).unwrap();
    let readme = fs::read_to_string(project().join("packaging/etc/conf.d/README")).unwrap();
    // Once as it is, once with every line that is proposed.
    for hidden in ["", "#"] {
        let proposed = |line: &str| {
            line.strip_prefix(hidden)
                .filter(|rest| rest.contains(" = ") && !rest.starts_with(' '))
                .unwrap_or(line)
                .to_owned()
        };
        let text: Vec<String> = shipped.lines().map(proposed).collect();
        fs::write(directory.0.join("reprise.toml"), text.join("\n")).unwrap();
        let example: Vec<String> = readme.lines().filter_map(|line| line.strip_prefix("    ")).map(proposed).collect();
        let example = example.join("\n").replace("/srv/blog/public", &directory.0.join("www").display().to_string());
        let example: Vec<&str> = example.lines().filter(|line| !line.starts_with("php")).collect();
        fs::write(conf_d.join("blog.toml"), example.join("\n")).unwrap();
        let output =
            Command::new(program()).args(["check", "--config"]).arg(directory.0.join("reprise.toml")).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("blog (blog.example.org)"), "{said}");
    }
}

/// The build for a system without GNU libc ends with a reason and what to do.
#[test]
fn musl_is_refused_with_a_reason() {
    let built = std::fs::read_dir(program().with_file_name("build")).expect("build scripts").flatten();
    let mut scripts = built.map(|entry| entry.path().join("build-script-build"));
    let is_ours = |path: &PathBuf| path.to_string_lossy().contains("/reprise-php-") && path.exists();
    let script = scripts.find(is_ours).expect("the build script of reprise-php");
    let output = Command::new(&script).env("CARGO_CFG_TARGET_ENV", "musl").output().expect("the build script");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("musl") && said.contains("hint: build and run Reprise on a system with GNU libc"), "{said}");
}
