//! The functions of the data cache over APCu and Memcached, on the command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::peer::Program;
use tests::server::{Directory, free_port, project};
use tests::{Server, Setup};

use super::text;

/// A script of tests/adapters with the package, outside of Reprise.
fn php(name: &str, directory: &Path, memcached: Option<u16>) -> Command {
    let package = project().join("composer/src");
    let code = format!(
        "spl_autoload_register(fn ($class) => require '{0}/' . strtr(substr($class, 8), '\\\\', '/') . '.php');
        require '{0}/stubs.php'; require '{1}';",
        package.display(),
        project().join("tests/adapters").join(name).display()
    );
    let mut command = Command::new("php");
    command.args(["-d", "apc.enable_cli=1", "-d", "log_errors=0", "-r", &code]).env("RUNS", directory.join("runs"));
    if let Some(port) = memcached {
        command.env("REPRISE_MEMCACHED", format!("127.0.0.1:{port}"));
    }
    command
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("php");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start_memcached(directory: &Path) -> (Program, u16) {
    let port = free_port();
    let mut command = Command::new("memcached");
    command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
    let mut program = Program::start(&mut command, &directory.join("memcached.log"));
    program.await_ready(10, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    (program, port)
}

fn under_reprise() -> Server {
    Setup::empty().file("index.php", text("functions.php")).ini("log_errors", "0").start()
}

#[test]
fn the_functions_do_the_same_over_apcu_and_memcached() {
    let directory = Directory::new();
    let (_memcached, port) = start_memcached(&directory.0);
    let wanted = under_reprise().get("/").text();
    assert_eq!(said(&mut php("functions.php", &directory.0, None)), wanted, "APCu");
    assert_eq!(said(&mut php("functions.php", &directory.0, Some(port))), wanted, "Memcached");
}

#[test]
fn of_many_processes_one_computes_over_memcached() {
    let directory = Directory::new();
    let (memcached, port) = start_memcached(&directory.0);
    let asked: Vec<_> = (0..8)
        .map(|_| php("crowd.php", &directory.0, Some(port)).stdout(std::process::Stdio::piped()).spawn().expect("php"))
        .collect();
    for one in asked {
        assert_eq!(String::from_utf8_lossy(&one.wait_with_output().expect("php").stdout), "made 1");
    }
    assert_eq!(fs::read_to_string(directory.0.join("runs")).expect("runs"), ".");
    // Without a server each computes, and at once.
    drop(memcached);
    let began = std::time::Instant::now();
    assert_eq!(said(&mut php("crowd.php", &directory.0, Some(port))), "made 2");
    assert!(began.elapsed() < tests::seconds(3), "{:?}", began.elapsed());
}
