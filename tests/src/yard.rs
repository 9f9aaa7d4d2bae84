//! Where tests make releases, and nodes that serve them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::{Directory, free_port, program};
use crate::{Client, Server, Setup, process};

/// A page that is made of two files of one release.
const PAGE: &str = r#"<?php
$code = 'VERSION';
usleep(random_int(0, 1000));
echo $code, ' ', require __DIR__ . '/../template.php', ' ', ini_get('opcache.file_cache'), ' ', __DIR__;
"#;

/// Where releases are made and lie.
pub struct Yard {
    directory: Directory,
    /// The pool.
    pub pool: String,
    public: String,
    sequence: AtomicU64,
}

/// A node that serves the application `shop`.
pub struct Node {
    /// Its server.
    pub server: Server,
    /// The port of its listener for monitoring.
    pub admin: u16,
}

impl Node {
    /// What `/` responds: the version of the code, that of the template.
    pub fn page(&self) -> (String, String) {
        let response = self.server.get("/");
        assert_eq!(response.status, 200, "{}", response.text());
        let text = response.text();
        let mut words = text.split(' ').map(str::to_owned);
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    /// Whether `/` is of that version alone.
    pub fn serves(&self, version: &str) -> bool {
        self.page() == (version.to_owned(), version.to_owned())
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        Client::new(self.admin).get("/readyz").status == 200
    }

    /// The process that follows the pool.
    pub fn follower(&self) -> i32 {
        let name = |pid: &i32| process::name(*pid).as_deref() == Some("reprise-release");
        crate::wait_for("a process follows the pool", 20, || {
            process::children(self.server.pid()).into_iter().find(name)
        })
    }
}

impl Yard {
    /// With a pool in a directory, or that one.
    pub fn new(pool: Option<String>) -> Yard {
        let directory = Directory::new();
        let pool = pool.unwrap_or_else(|| directory.0.join("pool").to_str().unwrap().to_owned());
        let key = directory.0.join("key");
        let made = Command::new(program()).args(["release", "keygen", "-o"]).arg(key).output().unwrap();
        assert!(made.status.success());
        let public = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Yard { directory, pool, public, sequence: AtomicU64::new(1) }
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    /// The private key that signs its releases.
    pub fn key(&self) -> String {
        self.path("key").to_str().unwrap().to_owned()
    }

    /// `reprise release`: what it prints on both outputs, and its exit code.
    pub fn release(&self, arguments: &[&str]) -> (String, i32) {
        let output = Command::new(program()).arg("release").args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.code().unwrap_or(-1))
    }

    /// The same, which must succeed.
    pub fn fine(&self, arguments: &[&str]) -> String {
        let (text, code) = self.release(arguments);
        assert_eq!(code, 0, "{arguments:?}: {text}");
        text
    }

    /// The tree of a version.
    pub fn tree(&self, version: &str) -> PathBuf {
        let tree = self.path(&format!("tree-{version}"));
        std::fs::create_dir_all(tree.join("public")).unwrap();
        std::fs::write(tree.join("public/index.php"), PAGE.replace("VERSION", version)).unwrap();
        std::fs::write(tree.join("template.php"), format!("<?php return '{version}';")).unwrap();
        tree
    }

    /// Builds the release of a tree and pushes it. `more` are further arguments of the build.
    pub fn push(&self, tree: &Path, more: &[&str]) -> PathBuf {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed).to_string();
        let file = tree.with_extension("release");
        let (tree, output, key) = (tree.to_str().unwrap(), file.to_str().unwrap(), self.key());
        let build = ["build", tree, "-o", output, "--name", "shop", "--key", &key, "--sequence", &sequence];
        self.fine(&[&build[..], more].concat());
        self.fine(&["push", output, &self.pool, "--key", &key]);
        file
    }

    /// The same of a version, without compiled code: the nodes of a test lie in different directories.
    pub fn push_version(&self, version: &str) -> PathBuf {
        self.push(&self.tree(version), &["--no-compile"])
    }

    /// Activates a release; what is said, and the exit code.
    pub fn activate(&self, release: &str, more: &[&str]) -> (String, i32) {
        let key = self.key();
        self.release(&[&["activate", &self.pool, "shop", release, "--key", &key][..], more].concat())
    }

    /// The same, which must succeed: its result as JSON.
    pub fn activate_fine(&self, release: &str) -> serde_json::Value {
        let (text, code) = self.activate(release, &["--json"]);
        assert_eq!(code, 0, "{text}");
        let json = text.lines().find(|line| line.starts_with('{')).expect("a result");
        serde_json::from_str(json).unwrap()
    }

    /// Goes back, and what is said about that.
    pub fn rollback(&self) -> serde_json::Value {
        let text = self.fine(&["rollback", &self.pool, "shop", "--key", &self.key(), "--json"]);
        serde_json::from_str(text.lines().find(|line| line.starts_with('{')).expect("a result")).unwrap()
    }

    /// The lines of a node's application.
    pub fn application(&self) -> String {
        format!("release_pool = \"{}\"\nrelease_keys = [\"{}\"]", self.pool, self.public)
    }

    /// A node, with these lines of the server and of the application.
    pub fn setup(&self, name: &str, server: &str, application: &str) -> (Setup, u16) {
        self.setup_at(name, server, application, "public")
    }

    /// The same with that root in a release. Returns the port of its listener for monitoring, too.
    pub fn setup_at(&self, name: &str, server: &str, application: &str, root: &str) -> (Setup, u16) {
        let setup = Setup::empty().application("hosts = [\"none.example\"]").application("workers = 1");
        let directory = setup.directory().to_str().unwrap().to_owned();
        let admin = free_port();
        let user = if process::is_root() { "release_user = \"backup\"\n" } else { "" };
        let place = if server.contains("release_dir") {
            String::new()
        } else {
            format!("release_dir = \"{directory}/releases\"\n")
        };
        let setup = setup
            .server(&format!(
                "{user}{place}release_state = \"{directory}/kept\"\nrelease_shared = \"{directory}/shared\"\nrelease_node = \"{name}\"\n\
                admin_listen = [\"http://127.0.0.1:{admin}\"]\n{server}"
            ))
            .another(&format!("name = \"shop\"\n{}\nworkers = 2\n{application}\nroot = \"{root}\"", self.application()));
        (setup, admin)
    }

    /// A node that has started.
    pub fn node(&self, name: &str, server: &str, application: &str) -> Node {
        let (setup, admin) = self.setup(name, server, application);
        Node { server: setup.start(), admin }
    }

    /// A node whose root is that path of a release.
    pub fn node_at(&self, name: &str, root: &str) -> Node {
        let (setup, admin) = self.setup_at(name, "", "", root);
        Node { server: setup.start(), admin }
    }

    /// Waits until that many nodes have said in the pool that they are there.
    pub fn await_nodes(&self, count: usize) {
        crate::wait_until("all nodes are there", 20, || {
            self.fine(&["status", &self.pool, "shop", "--json"]).matches("\"is_there\":true").count() == count
        });
    }
}
