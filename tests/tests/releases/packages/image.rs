//! The images of packaging/container: made by podman, without a registry, and run under the seccomp profiles that users have.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tests::client::{Client, connect};
use tests::once;
use tests::peer::Database;
use tests::server::{Directory, free_port};
use tests::snapshot::has_soft_dirty_bits;
use tests::{wait_for, wait_until};

use super::*;

/// podman without a service manager. runc, because crun refuses control groups of both versions.
fn podman() -> Command {
    let mut command = Command::new("podman");
    command.args(["--cgroup-manager=cgroupfs", "--runtime=runc"]).current_dir(project());
    command
}

/// Limits that a process without the right to raise them may set.
const LIMITS: [&str; 2] = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"];

/// `podman build` with the network and the authorities of this machine.
fn build(name: &str, file: &str, context: &Path, arguments: &[&str]) {
    const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
    let mut command = podman();
    command.args(["build", "--format=docker", "--network=host", "--quiet"]).args(LIMITS);
    command.args(["--volume", &format!("{AUTHORITIES}:/authorities:ro"), "--build-arg=CARGO_HTTP_CAINFO=/authorities"]);
    run(command.args(arguments).args(["--tag", name, "--file", file]).arg(context));
}

/// The image of Debian that the container files begin with, of `scripts/root`.
fn debian() {
    const NAME: &str = "docker.io/library/debian:trixie-slim";
    if podman().args(["image", "exists", NAME]).status().expect("podman").success() {
        return;
    }
    let root = run(Command::new("scripts/root").current_dir(project()).args(["make", "trixie", "bare"]));
    let mut tar = Command::new("tar");
    tar.args(["--one-file-system", "--directory", root.trim(), "--create", "--exclude=./usr/sbin/policy-rc.d", "."]);
    let mut tar = tar.stdout(Stdio::piped()).spawn().expect("tar");
    run(podman().args(["import", "-", NAME]).stdin(tar.stdout.take().expect("a pipe")));
    assert!(tar.wait().expect("tar").success());
}

/// The image of Reprise, made once: the container file with the packages of the programs under test, in the place of its first stage.
fn reprise() -> &'static str {
    const NAME: &str = "reprise-test";
    let make = || {
        debian();
        let directory = Directory::new();
        let packages = directory.0.join("packages");
        std::fs::create_dir(&packages).expect("a directory");
        for package in install::packages_of_debian_13(&directory.0, "1") {
            std::fs::copy(&package, packages.join(package.file_name().expect("a file"))).expect("a package");
        }
        let text = std::fs::read_to_string(project().join("packaging/container/Containerfile")).expect("the file");
        let (_, last) = text.split_once("\n\nFROM ").expect("two stages");
        let file = directory.0.join("Containerfile");
        std::fs::write(&file, format!("FROM scratch AS build\nCOPY packages /packages\nFROM {last}")).expect("a file");
        build(NAME, file.to_str().expect("a plain path"), &directory.0, &[]);
    };
    match once::shared_directory() {
        Some(place) => once::once(&place.join("image"), make),
        None => make(),
    }
    NAME
}

/// The whole container file, which compiles Reprise.
#[test]
fn an_image_is_made_of_a_checkout() {
    debian();
    build("reprise", "packaging/container/Containerfile", &project(), &[]);
    let said = run(podman().args(["run", "--rm", "--network=none"]).args(LIMITS).args(["reprise", "version"]));
    assert!(said.contains(env!("CARGO_PKG_VERSION")) && said.contains("8.4"), "{said}");
}

/// What the scripts of an application say of how they run.
const INDEX: &str = "<?php reprise_snapshot(); $i = reprise_info();
    if (isset($_GET['say'])) { file_put_contents('php://stdout', \"to standard output\\n\"); error_log('to the log'); }
    if (isset($_GET['base'])) {
        $base = new PDO('mysql:unix_socket=' . getenv('SOCKET'), getenv('WP_DB_USER'), getenv('WP_DB_PASSWORD'));
        exit('found ' . $base->query('select 6 * 7')->fetchColumn());
    }
    if (isset($_GET['eat'])) { for ($all = []; ; ) $all[] = str_repeat('x', 1 << 20); }
    echo $i['mode'], ' ', $i['isolation'], ' ', posix_getuid(), ' ', is_writable('/app') ? 'writable' : 'read-only';";

/// An image of an application: two lines, as the documentation says.
fn application(begin: &str, name: &str) -> Directory {
    let directory = Directory::new();
    let write = |path: &str, text: &str| {
        let path = directory.0.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    write("app/public/index.php", INDEX);
    write("Containerfile", &format!("{begin}\nCOPY app /app\n"));
    let file = directory.0.join("Containerfile");
    build(name, file.to_str().expect("a plain path"), &directory.0, &[]);
    directory
}

/// A running container, ended with its owner.
struct Container {
    name: String,
    port: u16,
}

impl Container {
    /// Starts an image with a read-only root and these words before the arguments of its server, and waits until it listens. The network is this machine's.
    fn start(image: &str, flags: &[&str], before: &[&str]) -> Container {
        let (port, admin) = (free_port(), free_port());
        let name = format!("reprise-test-{}-{port}", std::process::id());
        let mut command = podman();
        command
            .args(["run", "--detach", "--network=host", "--read-only", "--tmpfs=/tmp", "--name", &name])
            .args(LIMITS);
        command.args(flags).arg(image).args(before);
        command.args(["serve", "/app", "--keep-env", "--listen", &format!("127.0.0.1:{port}")]);
        run(command.args(["--admin-listen", &format!("127.0.0.1:{admin}")]));
        let container = Container { name, port };
        wait_for("the server listens", 60, || {
            assert!(container.state("Running") == "true", "{}", container.logs());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        container
    }

    fn state(&self, of: &str) -> String {
        let format = format!("{{{{.State.{of}}}}}");
        run(podman().args(["inspect", "--format", &format, &self.name])).trim().to_owned()
    }

    /// What it has said on both outputs.
    fn logs(&self) -> String {
        let output = podman().args(["logs", &self.name]).output().expect("podman");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn get(&self, path: &str) -> String {
        Client::over(connect(self.port).expect("a connection"), "app.example").get(path).text()
    }

    /// Ends it as users do; its exit code.
    fn stop(&self) -> String {
        run(podman().args(["stop", "--time=40", &self.name]));
        self.state("ExitCode")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = podman().args(["rm", "--force", "--time=0", &self.name]).output();
    }
}

/// An application in two lines: without a configuration, without root, with a read-only root, under podman's default profile.
#[test]
fn an_application_is_copied_to_app() {
    let _application = application(&format!("FROM {}", reprise()), "reprise-test-app");
    let user = |flags: &[&str], expected: &str| {
        let container = Container::start("reprise-test-app", flags, &[]);
        let page = container.get("/");
        assert!(page.starts_with("snapshot ") && page.ends_with(expected), "{page}: {}", container.logs());
        container
    };
    let database = Database::start();
    let place = database.socket().parent().expect("a directory").display();
    let mut flags = vec![format!("--volume={place}:{place}"), format!("--env=SOCKET={}", database.socket().display())];
    flags.extend(database.environment().map(|(name, value)| format!("--env={name}={value}")));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let container = user(&flags, " 33 read-only");
    wait_until("it is healthy", 30, || {
        podman().args(["healthcheck", "run", &container.name]).output().expect("podman").status.success()
    });

    // The default profile denies userfaultfd, and the log says who forbids it and what is taken instead.
    let logs = container.logs();
    let says_why = logs.lines().any(|line| line.contains("isolation") && line.contains("seccomp"));
    let expected = if has_soft_dirty_bits() { " rewind " } else { " fork " };
    assert!(container.get("/").contains(expected) && says_why, "{logs}");

    container.get("/?say");
    wait_until("what PHP writes is in the log", 10, || {
        let logs = container.logs();
        logs.contains("to standard output") && logs.contains("to the log") && logs.contains("GET /?say")
    });
    assert_eq!(container.get("/?base"), "found 42", "{}", container.logs());

    run(podman().args(["kill", "--signal=HUP", &container.name]));
    wait_until("a reload", 30, || container.logs().contains("reloaded: app generation 2"));
    assert_eq!(container.stop(), "0", "{}", container.logs());

    // A number without a name.
    assert_eq!(user(&["--user=4711:4711"], " 4711 read-only").stop(), "0");
}

/// What lets rewinds through on a kernel with userfaultfd: the profile, or the device for root.
#[test]
fn rewinds_are_let_through() {
    let _application = application(&format!("FROM {}", reprise()), "reprise-test-rewinds");
    let profile = format!("--security-opt=seccomp={}", project().join("packaging/seccomp.json").display());
    for flags in [&[profile.as_str()][..], &["--device=/dev/userfaultfd", "--user=0:0"]] {
        let container = Container::start("reprise-test-rewinds", flags, &[]);
        let page = container.get("/");
        assert!(page.starts_with("snapshot rewind "), "{flags:?} {page}: {}", container.logs());
        assert_eq!(container.stop(), "0", "{}", container.logs());
    }
}

/// The numbers of workers and the sizes of caches are those of the container, and a request that takes all memory costs itself.
#[test]
fn sizes_are_those_of_the_container() {
    let _application = application(&format!("FROM {}", reprise()), "reprise-test-sizes");
    let mut command = podman();
    command.args(["run", "--rm", "--network=none", "--memory=256m", "--cpus=1"]).args(LIMITS);
    let said = run(command.args(["reprise-test-sizes", "check", "/app"]));
    assert!(said.contains("256") && said.contains("memory"), "{said}");
    let flags = ["--memory=256m", "--memory-swap=256m", "--cpus=1"];
    let container = Container::start("reprise-test-sizes", &flags, &[]);
    let first = container.get("/");
    for _ in 0..3 {
        let mut client = Client::over(connect(container.port).expect("a connection"), "app.example");
        let response = client.get("/?eat");
        assert!([500, 502].contains(&response.status), "{}: {}", response.status, container.logs());
        assert_eq!(container.get("/"), first, "{}", container.logs());
    }
    assert_eq!(container.state("OOMKilled"), "false", "{}", container.logs());
    assert_eq!(container.stop(), "0", "{}", container.logs());
}

/// A PHP from source, as the official images have it: the container file for it adds two files.
#[test]
fn an_image_of_php_gets_reprise() {
    debian();
    let directory = Directory::new();
    let file: PathBuf = directory.0.join("Containerfile");
    const PHP: &str = "FROM docker.io/library/debian:trixie-slim\n\
        RUN sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list && apt-get update \\\n\
         && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dpkg-dev gcc make libc6-dev bison re2c pkg-config file\n\
        RUN cd /usr/src && apt-get source php8.4 && cd php8.4-* && ./buildconf --force >/dev/null && ./configure --quiet \\\n\
         --with-config-file-path=/usr/local/etc/php --enable-embed --disable-all --enable-session --enable-posix --enable-opcache >/dev/null \\\n\
         && make --silent -j\"$(nproc)\" >/dev/null 2>&1 && make --silent install >/dev/null && ldconfig\n";
    std::fs::write(&file, PHP).expect("a container file");
    let path = file.to_str().expect("a plain path");
    build("reprise-test-php", path, &directory.0, &[]);
    build(
        "reprise-for-php",
        "packaging/container/Containerfile.php",
        &project(),
        &["--build-arg=PHP=localhost/reprise-test-php"],
    );
    let begin = "FROM localhost/reprise-test-php\nCOPY --from=reprise-for-php / /\nUSER www-data";
    let _application = application(begin, "reprise-test-source");
    let profile = format!("--security-opt=seccomp={}", project().join("packaging/seccomp.json").display());
    let container = Container::start("reprise-test-source", &[&profile], &["reprise"]);
    assert_eq!(container.get("/"), "snapshot rewind 33 read-only", "{}", container.logs());
    assert_eq!(container.stop(), "0", "{}", container.logs());
}

/// The profile names no call by which a process gets out of its container.
#[test]
fn the_profile_names_nothing_that_containers_must_not_do() {
    let text = std::fs::read_to_string(project().join("packaging/seccomp.json")).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    for call in ["bpf", "keyctl", "mount", "perf_event_open", "ptrace", "reboot", "setns", "unshare"] {
        assert!(!text.contains(&format!("\"{call}\"")), "the profile names {call}");
    }
}
