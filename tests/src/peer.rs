//! What Reprise is compared with and what applications need: nginx before PHP-FPM, and a MariaDB. Each in a directory of
//! its own, started from here and stopped by process id; nothing of the system's configuration is read but PHP's.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};

use crate::programs::not_started;
use crate::server::{Directory, free_port};
use crate::{once, process, wait_for, wait_until};

/// The user PHP runs as, for root: Reprise's own choice for a document root that belongs to root.
const WEB_USER: &str = "www-data";

/// The user PHP runs as.
pub fn web_user() -> String {
    if Uid::effective().is_root() { WEB_USER.to_owned() } else { current_user() }
}

fn current_user() -> String {
    User::from_uid(Uid::effective()).ok().flatten().expect("a user of that id").name
}

/// The version of the distribution's PHP, which is the one under test: 8.2.
pub fn php_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let print = "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;";
        let output = Command::new("php").args(["-r", print]).output();
        let output = output.unwrap_or_else(|error| panic!("{}", not_started(Path::new("php"), &error)));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

/// Makes a directory that `user` may write to.
pub fn writable_directory(path: &Path, user: &str) {
    fs::create_dir_all(path).expect("a directory");
    if Uid::effective().is_root() {
        let user = User::from_name(user).ok().flatten().unwrap_or_else(|| panic!("no user {user}"));
        nix::unistd::chown(path, Some(user.uid), Some(user.gid)).expect("chown");
    }
}

/// MariaDB's user.
fn database_user() -> String {
    if Uid::effective().is_root() { "mysql".to_owned() } else { current_user() }
}

/// The size that InnoDB's log has, which a copy of the data takes with it.
const SMALL_LOG: &str = "--innodb-log-file-size=4M";

/// A started program. Stopped with its owner; its log is printed if the test fails.
pub struct Program {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    log: PathBuf,
    /// What ends it.
    stops_by: Signal,
}

impl Program {
    /// Starts it; what it says goes to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Program {
        let name = command.get_program().to_string_lossy().into_owned();
        let output = || -> File { OpenOptions::new().create(true).append(true).open(log).expect("a log") };
        let child = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn();
        let program = Path::new(command.get_program());
        let child = child.unwrap_or_else(|error| panic!("{}", not_started(program, &error)));
        Program { name, child, ended: None, log: log.to_owned(), stops_by: Signal::SIGTERM }
    }

    /// It ends by another signal than SIGTERM.
    pub fn stopped_by(mut self, signal: Signal) -> Program {
        self.stops_by = signal;
        self
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it said.
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or(String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// Waits until `is_ready`; panics if it ends before.
    pub fn await_ready(&mut self, seconds: u64, is_ready: impl Fn() -> bool) {
        let what = format!("{} is ready", self.name);
        wait_until(&what, seconds, || {
            assert!(!self.has_ended(), "{} ended:\n{}", self.name, self.log());
            is_ready()
        });
    }

    /// Waits for its end and returns its exit code, `None` for a signal.
    pub fn wait(&mut self, seconds: u64) -> Option<i32> {
        let what = format!("{} ends", self.name);
        wait_for(&what, seconds, || {
            self.has_ended();
            self.ended
        })
        .code()
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child");
        }
        self.ended.is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- {}\n{}", self.name, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        if self.has_ended() {
            return;
        }
        let children = process::children(self.pid());
        process::kill(self.pid(), self.stops_by);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.has_ended() {
            if Instant::now() > deadline {
                eprintln!("{} does not end:\n{}", self.name, self.log());
                children.iter().for_each(|&child| process::kill(child, Signal::SIGKILL));
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// A MariaDB with an account for applications. It listens on a socket only.
pub struct Database {
    server: Option<Program>,
    socket: PathBuf,
    directory: Directory,
}

/// Below a database's directory: its data. Its socket and its temporary files lie beside it.
const DATA: &str = "data";

impl Database {
    const USER: &str = "app";
    const PASSWORD: &str = "app-test-pw";

    /// Starts one without databases of applications.
    pub fn start() -> Database {
        match once::shared("database", |place| Database::install().stop(place)) {
            Some(data) => Database::start_on(&data),
            None => Database::install(),
        }
    }

    /// Starts one with more options.
    pub fn start_with(options: &[&str]) -> Database {
        let mut database = Database::start();
        database.again_with(options);
        database
    }

    /// Starts one on a copy of the data that another has left.
    pub fn start_on(data: &Path) -> Database {
        let directory = Directory::new();
        run_to_end(Command::new("cp").arg("-a").arg(data).arg(directory.0.join(DATA)));
        Database::run(directory)
    }

    /// Makes the data, starts it and adds the account.
    fn install() -> Database {
        let directory = Directory::new();
        let data = directory.0.join(DATA);
        writable_directory(&data, &database_user());
        let (data, user) = (format!("--datadir={}", data.display()), format!("--user={}", database_user()));
        // A server that starts removes what it takes for left behind in the directory of temporary tables.
        let run = directory.0.join("run");
        writable_directory(&run, &database_user());
        let own = format!("--tmpdir={}", run.display());
        let normal = "--auth-root-authentication-method=normal";
        let made = ["--no-defaults", "--skip-test-db", normal, SMALL_LOG, &own, &data, &user];
        run_to_end(Command::new("mariadb-install-db").args(made));

        let database = Database::run(directory);
        let account = format!("{}@localhost", Database::USER);
        database.execute(&format!("CREATE USER {account} IDENTIFIED BY '{}'", Database::PASSWORD));
        database.execute(&format!("GRANT ALL ON *.* TO {account}"));
        database
    }

    /// Starts it on its data and waits until it answers.
    fn run(directory: Directory) -> Database {
        let socket = directory.0.join("run/socket");
        let mut made = Database { server: None, socket, directory };
        made.again();
        made
    }

    /// Stops it and starts it anew.
    pub fn again(&mut self) {
        self.again_with(&[]);
    }

    /// The same with more options.
    fn again_with(&mut self, options: &[&str]) {
        self.server = None;
        let (directory, socket) = (&self.directory, &self.socket);
        let run = directory.0.join("run");
        writable_directory(&run, &database_user());
        let (own, user) = (format!("--tmpdir={}", run.display()), format!("--user={}", database_user()));
        let mut command = Command::new("mariadbd");
        command.args([
            "--no-defaults",
            "--skip-networking",
            SMALL_LOG,
            "--innodb-flush-log-at-trx-commit=0",
            &own,
            &user,
        ]);
        command.arg(format!("--datadir={}", directory.0.join(DATA).display()));
        command.arg(format!("--socket={}", socket.display())).arg(format!("--pid-file={}/pid", run.display()));
        command.args(options);
        let mut server = Program::start(&mut command, &directory.0.join("mariadb.log"));
        // It listens before it serves, and what ends it in between is lost: it greets whom it serves.
        server.await_ready(60, || {
            UnixStream::connect(socket).is_ok_and(|mut client| {
                client.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
                client.read_exact(&mut [0]).is_ok()
            })
        });
        self.server = Some(server);
    }

    /// Stops it and moves its data to `place`.
    pub fn stop(self, place: &Path) {
        let Database { server, directory, .. } = self;
        drop(server);
        run_to_end(Command::new("mv").arg("-T").arg(directory.0.join(DATA)).arg(place));
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it is, for tests/apps/setup.sh.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("WP_DB_HOST", format!("localhost:{}", self.socket.display())),
            ("WP_DB_USER", Database::USER.to_owned()),
            ("WP_DB_PASSWORD", Database::PASSWORD.to_owned()),
            ("WP_DB_NAME", "wordpress".to_owned()),
        ]
    }

    /// Where it is, for tests/apps/wordpress: wp-db.php, as setup.sh writes it.
    pub fn settings(&self, database: &str) -> String {
        let (socket, user, password) = (self.socket.display(), Database::USER, Database::PASSWORD);
        format!(
            "<?php\nreturn ['HOST' => 'localhost:{socket}', 'USER' => '{user}', 'PASSWORD' => '{password}', 'NAME' => '{database}'];\n"
        )
    }

    /// What a statement finds, one row a line.
    pub fn rows(&self, database: &str, statement: &str) -> String {
        let socket = format!("--socket={}", self.socket.display());
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            &socket,
            "--user=root",
            "--skip-column-names",
            database,
            "--execute",
            statement,
        ]);
        let output = command.stdin(Stdio::null()).output().expect("mariadb");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Copies a database to a new one.
    pub fn copy(&self, from: &str, to: &str) {
        self.execute(&format!("DROP DATABASE IF EXISTS {to}; CREATE DATABASE {to}"));
        let socket = format!("--socket={}", self.socket.display());
        let pipe = r#"set -o pipefail; mariadb-dump --no-defaults "$1" -u root "$2" | mariadb --no-defaults "$1" -u root "$3""#;
        run_to_end(Command::new("bash").args(["-c", pipe, "copy", &socket, from, to]));
    }

    fn execute(&self, statement: &str) {
        let socket = format!("--socket={}", self.socket.display());
        run_to_end(Command::new("mariadb").args(["--no-defaults", &socket, "--user=root", "--execute", statement]));
    }
}

/// Runs a program to its end; panics with what it said unless that is a success.
pub fn run_to_end(command: &mut Command) {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}", not_started(Path::new(&name), &error)));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}: {}\n{}{}", output.status, said(&output.stdout), said(&output.stderr));
}

/// nginx before PHP-FPM, with PHP-FPM's php.ini as Debian has it, which Reprise reads too.
pub struct Fpm {
    /// Where nginx listens.
    pub port: u16,
    // In the order in which they stop.
    _nginx: Program,
    _fpm: Program,
    _directory: Directory,
}

impl Fpm {
    /// Serves a document root as Reprise does: files, directories with an index, and index.php for all else.
    pub fn start(root: &Path) -> Fpm {
        Fpm::with(root, &[])
    }

    /// The same with settings of the pool, which neither scripts nor `.user.ini` change.
    pub fn with(root: &Path, pool: &[(&str, &str)]) -> Fpm {
        Fpm::with_php_ini(root, pool, &[])
    }

    /// Serves several document roots by host, each with locations of its own, in which `{php}` runs a script.
    pub fn with_sites(sites: &[(String, &Path, &str)]) -> Fpm {
        let (before, one) = NGINX.split_once("    server {").expect("a server");
        let (_, parameters) = one.split_once("        fastcgi_buffers").expect("the parameters");
        let php = "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_pass unix:{place}/fpm.sock;";
        let servers: String = sites
            .iter()
            .map(|(host, root, locations)| {
                // A second line would add to the first one.
                let index = if locations.lines().any(|line| line.starts_with("index ")) { "" } else { "index index.php index.html;\n" };
                let parameters = parameters.trim_end().trim_end_matches('}').trim_end();
                format!(
                    "    server {{\n listen 127.0.0.1:{{port}};\n server_name {host};\n root {};\n keepalive_requests 100000;\n{index}{}\n fastcgi_buffers{parameters}\n",
                    root.display(),
                    locations.replace("{php}", php)
                )
            })
            .collect();
        Fpm::of_nginx(Path::new("/nowhere"), &format!("{before}{servers}}}\n"), &[], &[])
    }

    /// The same with settings of the pool, and with settings as if php.ini had them.
    pub fn with_php_ini(root: &Path, pool: &[(&str, &str)], php_ini: &[(&str, &str)]) -> Fpm {
        Fpm::of_nginx(root, NGINX, pool, php_ini)
    }

    fn of_nginx(root: &Path, nginx: &str, pool: &[(&str, &str)], php_ini: &[(&str, &str)]) -> Fpm {
        let directory = Directory::new();
        let (place, root, port) = (directory.0.display(), root.display(), free_port());
        let socket = directory.0.join("fpm.sock");
        let (nginx_user, pool_user) = if Uid::effective().is_root() {
            let user = format!("user = {WEB_USER}\ngroup = {WEB_USER}\nlisten.owner = {WEB_USER}");
            (format!("user {WEB_USER};"), user)
        } else {
            (String::new(), String::new())
        };

        let fpm_log = directory.0.join("fpm.log");
        let fpm_conf = directory.0.join("fpm.conf");
        let text = FPM.replace("{place}", &place.to_string()).replace("{user}", &pool_user);
        let text = pool.iter().fold(text, |text, (name, value)| text + &format!("php_admin_value[{name}] = {value}\n"));
        fs::write(&fpm_conf, text).expect("a configuration");
        let mut command = Command::new(format!("php-fpm{}", php_version()));
        // Where this project lies its user may not be able to go.
        command.current_dir("/");
        command.arg("--nodaemonize").arg("--fpm-config").arg(&fpm_conf);
        for (name, value) in php_ini {
            command.arg("-d").arg(format!("{name}={value}"));
        }
        let mut fpm = Program::start(&mut command, &fpm_log);
        fpm.await_ready(30, || UnixStream::connect(&socket).is_ok());

        let nginx_conf = directory.0.join("nginx.conf");
        let text = [
            ("{place}", place.to_string()),
            ("{user}", nginx_user),
            ("{root}", root.to_string()),
            ("{port}", port.to_string()),
        ]
        .iter()
        .fold(nginx.to_owned(), |text, (name, value)| text.replace(name, value));
        fs::write(&nginx_conf, text).expect("a configuration");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&directory.0).arg("-c").arg(&nginx_conf).args(["-e", "stderr"]);
        let mut nginx = Program::start(&mut command, &directory.0.join("nginx.log"));
        nginx.await_ready(30, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Fpm { port, _nginx: nginx, _fpm: fpm, _directory: directory }
    }
}

const FPM: &str = r#"
[global]
error_log = {place}/fpm.log

[www]
{user}
listen = {place}/fpm.sock
pm = static
pm.max_children = 2
clear_env = yes
"#;

// The parameters are those of nginx' fastcgi_params, but for
// HTTP_HOST: $http_host has the port, as upstream's default (no such line) does; Debian's own $host has not;
// REMOTE_USER: Debian's has the name of an Authorization header that nobody has verified; see docs/guides/from-php-fpm.md.
// A redirect to a directory names the host as the client did, so without nginx' port.
const NGINX: &str = r#"
daemon off;
{user}
worker_processes 1;
pid {place}/nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    client_max_body_size 8m;
    port_in_redirect off;
    client_body_temp_path {place}/body;
    fastcgi_temp_path {place}/fastcgi;
    proxy_temp_path {place}/proxy;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    server {
        listen 127.0.0.1:{port};
        root {root};
        index index.php index.html;
        location / { try_files $uri $uri/ /index.php$is_args$args; }
        location ~ \.php$ {
            try_files $uri /index.php$is_args$args;
            fastcgi_pass unix:{place}/fpm.sock;
        }
        location ~ ^(?<script>.+\.php)/ {
            if (!-f $document_root$script) { rewrite ^ /index.php last; }
            fastcgi_split_path_info ^(.+?\.php)(/.+)$;
            fastcgi_pass unix:{place}/fpm.sock;
        }
        fastcgi_buffers 16 64k;
        fastcgi_buffer_size 64k;
        fastcgi_param PATH_INFO $fastcgi_path_info if_not_empty;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param CONTENT_TYPE $content_type;
        fastcgi_param CONTENT_LENGTH $content_length;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name;
        fastcgi_param REQUEST_URI $request_uri;
        fastcgi_param DOCUMENT_URI $document_uri;
        fastcgi_param DOCUMENT_ROOT $document_root;
        fastcgi_param SERVER_PROTOCOL $server_protocol;
        fastcgi_param REQUEST_SCHEME $scheme;
        fastcgi_param HTTPS $https if_not_empty;
        fastcgi_param GATEWAY_INTERFACE CGI/1.1;
        fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
        fastcgi_param REMOTE_ADDR $remote_addr;
        fastcgi_param REMOTE_PORT $remote_port;
        fastcgi_param REQUEST_ID $request_id;
        fastcgi_param SERVER_ADDR $server_addr;
        fastcgi_param SERVER_PORT $server_port;
        fastcgi_param SERVER_NAME $host;
        fastcgi_param HTTP_HOST $http_host;
        fastcgi_param REDIRECT_STATUS 200;
    }
}
"#;
