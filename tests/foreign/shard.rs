//! One run of run-tests.php, over the tests below one directory of php-src, in a copy of that directory which belongs to
//! the user that PHP runs as: many tests write beside themselves.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};
use tests::server::{Directory, program};

use crate::instances::SOCKET;
use crate::suite::{Outcome, directory};

const PHP: &str = "/usr/bin/php";

/// Where php.ini of Debian differs from what PHP has without one, and the tests are written for the latter.
const INI: [&str; 1] = ["expose_php=1"];

/// A temporary directory with all that the runs share.
pub struct Workplace {
    directory: Directory,
    source: PathBuf,
    user: Option<User>,
}

impl Workplace {
    /// PHP's user gets copies of the programs: it may not be able to enter the project's directory.
    pub fn new(source: &Path) -> Workplace {
        let directory = Directory::new();
        let user = Uid::effective().is_root().then(|| {
            let name = tests::peer::web_user();
            User::from_name(&name).ok().flatten().unwrap_or_else(|| panic!("there is no user {name}"))
        });
        let workplace = Workplace { directory, source: source.to_owned(), user };
        workplace.make("bin");
        workplace.make("tmp");
        let bin = workplace.path("bin");
        let reprise = program();
        let myself = std::env::current_exe().expect("this program's path");
        let php = reprise.with_file_name("reprise-php");
        for (from, to) in [(&reprise, "reprise"), (&php, "reprise-php"), (&myself, "php-cgi")] {
            fs::copy(from, bin.join(to)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        }
        // Tests look for php-cgi beside php.
        symlink(PHP, bin.join("php")).expect("a link");
        workplace
    }

    /// Where instances are asked for.
    pub fn socket(&self) -> PathBuf {
        self.path("instances")
    }

    /// PHP's temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    /// The command-line PHP that runs run-tests.php and whatever is no request.
    pub fn php(&self) -> PathBuf {
        self.path("bin/php")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    fn make(&self, name: &str) {
        fs::create_dir_all(self.path(name)).expect("a directory");
        self.give(&self.path(name));
    }

    fn give(&self, path: &Path) {
        if let Some(user) = &self.user {
            tests::peer::run_to_end(
                Command::new("chown").args(["-R", &format!("{}:{}", user.uid, user.gid)]).arg(path),
            );
        }
    }
}

/// Tests below one directory.
pub struct Shard {
    directory: String,
    tests: Vec<String>,
}

impl Shard {
    /// By the directory that holds the tests of an extension or SAPI; the largest last, to be taken first.
    pub fn split(suites: &[Vec<String>]) -> Vec<Shard> {
        let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for test in suites.iter().flatten() {
            let words: Vec<&str> = test.split('/').collect();
            let depth = words.iter().position(|&word| word == "tests").expect("a directory of tests");
            shards.entry(words[..=depth].join("/")).or_default().push(test.clone());
        }
        let mut shards: Vec<Shard> = shards.into_iter().map(|(directory, tests)| Shard { directory, tests }).collect();
        shards.sort_by_key(|shard| shard.tests.len());
        shards
    }

    /// Copies what lies below `name`, but of the tests only those to be run.
    fn copy(&self, from: &Path, to: &Path, name: &Path) -> io::Result<()> {
        fs::create_dir_all(to.join(name))?;
        for entry in fs::read_dir(from.join(name))? {
            let entry = entry?;
            let name = name.join(entry.file_name());
            let is_test = name.extension() == Some("phpt".as_ref());
            if entry.file_type()?.is_dir() {
                self.copy(from, to, &name)?;
            } else if !is_test || self.tests.iter().any(|test| name == Path::new(test)) {
                fs::copy(entry.path(), to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Runs them.
    pub fn run(&self, workplace: &Workplace) -> BTreeMap<String, Outcome> {
        let root = workplace.path(&self.directory.replace('/', "-"));
        let copy = root.join(&self.directory);
        self.copy(&workplace.source, &root, Path::new(&self.directory)).expect("a copy of the tests");
        fs::copy(workplace.source.join("run-tests.php"), root.join("run-tests.php")).expect("run-tests.php");
        if self.directory == "sapi/cli/tests" {
            for file in ["php_cli_server.inc", "adapter.php", "prepend.php"] {
                fs::copy(directory().join(file), copy.join(file)).expect("a file");
            }
        }
        workplace.give(&root);

        let results = root.join("results");
        let output = self.command(workplace, &root, &results).output().expect(PHP);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let text = fs::read_to_string(&results).unwrap_or_default();
        if text.is_empty() {
            println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        let prefix = format!("{}/", root.display());
        let outcome = |line: &str| {
            let (result, path) = line.split_once('\t')?;
            let test = path.strip_prefix(&prefix)?;
            // "SKIP name [path] reason: …"
            let line = said.lines().find(|line| line.contains(test) && line.starts_with(&result[..4]));
            let diff = fs::read(Path::new(path).with_extension("diff")).unwrap_or_default();
            let said = format!("{}\n{}", line.unwrap_or_default(), String::from_utf8_lossy(&diff));
            Some((test.to_owned(), Outcome { result: result.to_owned(), said }))
        };
        text.lines().filter_map(outcome).collect()
    }

    fn command(&self, workplace: &Workplace, root: &Path, results: &Path) -> Command {
        let mut command = Command::new(PHP);
        command.arg("run-tests.php").args(["-q", "-g", "FAIL,BORK,WARN,SKIP", "--no-color", "--no-progress", "-W"]);
        command.arg(results).args(INI.iter().flat_map(|setting| ["-d", setting])).args(&self.tests);
        command.current_dir(root).stdin(Stdio::null());
        // The look-alike takes HTTP_* for headers: there shall be no others than the tests'.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TMPDIR", workplace.temporary()).env("TEMP", workplace.temporary());
        command.env("TEST_PHP_EXECUTABLE", workplace.php());
        command.env("TEST_PHP_CGI_EXECUTABLE", workplace.path("bin/php-cgi"));
        command.env(SOCKET, workplace.socket()).env("REPRISE", workplace.path("bin/reprise"));
        if std::env::var_os("REPRISE_PROGRAMS").is_some() {
            command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1");
        }
        if let Some(user) = &workplace.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }
}
