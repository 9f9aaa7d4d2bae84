//! A copy of a bare Debian, entered by a process that keeps its mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tests::server::{Directory, project};
use tests::wait_until;

use super::run;

/// A copy of a bare Debian.
pub struct Place {
    /// Its root directory.
    pub root: PathBuf,
    holder: Child,
    _directory: Directory,
}

impl Place {
    /// A copy of `scripts/root make RELEASE bare`, with lists of packages.
    pub fn new(release: &str) -> Place {
        let made = run(Command::new("scripts/root").current_dir(project()).args(["make", release, "bare"]));
        let directory = Directory::new();
        let root = directory.0.join("root");
        run(Command::new("cp").args(["-a", "--reflink=auto", made.trim()]).arg(&root));
        // A file of the copy says that nothing may start; here is a service manager.
        run(Command::new("rm").arg("-f").arg(root.join("usr/sbin/policy-rc.d")));
        let mut holder = Command::new("scripts/root");
        holder.current_dir(project()).arg("enter").arg(&root).args([
            "sh",
            "-c",
            "touch /run/entered; exec sleep infinity",
        ]);
        let holder = holder.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("scripts/root");
        let place = Place { root, holder, _directory: directory };
        let entered = || Command::new("nsenter").args(place.arguments()).args(["test", "-e", "/run/entered"]).status();
        wait_until("the root is entered", 20, || {
            // Before the change of its root, the file is not to be seen.
            entered().expect("nsenter").success()
        });
        place
    }

    /// The process that keeps the mounts.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The arguments of nsenter.
    pub fn arguments(&self) -> Vec<String> {
        let pid = self.holder().to_string();
        [
            "--target",
            &pid,
            "--mount",
            "--root",
            "--wd=/",
            "--",
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C.UTF-8",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// A command in the root.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.arguments()).arg("DEBIAN_FRONTEND=noninteractive").arg(program);
        command
    }

    /// Runs a command in the root; what it has printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        run(self.command(program).args(arguments))
    }

    /// apt-get without a question; how many seconds it took, and what it said.
    pub fn apt(&self, arguments: &[&str]) -> (f64, String) {
        let began = Instant::now();
        let mut command = self.command("apt-get");
        command.args([
            "-y",
            "-q",
            "--no-install-recommends",
            "-o",
            "Dpkg::Use-Pty=0",
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Dpkg::Options::=--force-unsafe-io",
        ]);
        command.args(["-o", "Acquire::Check-Valid-Until=false"]);
        let output = command.args(arguments).output().expect("nsenter");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "apt-get {arguments:?}: {said}");
        (began.elapsed().as_secs_f64(), said)
    }

    /// Copies packages into the root; their paths there.
    pub fn take(&self, packages: &[PathBuf]) -> Vec<String> {
        let of = |package: &PathBuf| {
            let name = package.file_name().expect("a file").to_string_lossy().into_owned();
            fs::create_dir_all(self.root.join("var/packages")).expect("a directory");
            fs::copy(package, self.root.join("var/packages").join(&name)).expect("a package");
            format!("/var/packages/{name}")
        };
        packages.iter().map(of).collect()
    }

    /// A file of the root, written with the directories above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// All paths on the root's own disk, but for what packages that are fetched and the lists of the mirror leave.
    pub fn paths(&self) -> Vec<String> {
        let but = ["var/cache/apt", "var/lib/apt", "var/packages", "var/log", "proc", "sys", "dev"];
        let mut command = Command::new("find");
        command.arg(&self.root).arg("-xdev");
        for directory in but {
            command.args(["-path"]).arg(self.root.join(directory)).args(["-prune", "-o"]);
        }
        let text = run(command.args(["-printf", "/%P\n"]));
        let mut paths: Vec<String> = text.lines().map(str::to_owned).collect();
        paths.sort();
        paths
    }

    /// Whether a path is there.
    pub fn has(&self, path: &str) -> bool {
        Path::symlink_metadata(&self.root.join(path.trim_start_matches('/'))).is_ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
