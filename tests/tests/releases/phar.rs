//! Applications in a phar: `root = "app.phar"`. What PHP sees of them is compared with PHP-FPM; what damages a phar is refused before anything serves.

mod closed;
mod damaged;
mod inspected;
mod released;
mod replaced;
mod served;
mod symfony;
mod web_phar;

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::peer::run_to_end;
use tests::server::program;
use tests::{Server, Setup};

/// Runs code that writes `$file`, a phar.
fn build(file: &Path, code: &str) {
    let all = format!("$file = $argv[1]; @unlink($file); $phar = new Phar($file); {code}");
    run_to_end(Command::new("php").args(["-d", "phar.readonly=0", "-r", &all]).arg("--").arg(file));
}

/// A phar with these files, signed by SHA-256, with a stub of its own.
fn phar(file: &Path, files: &[(&str, &str)], stub: &str) {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let entries: String =
        files.iter().map(|(name, text)| format!("$phar['{}'] = '{}';", quoted(name), quoted(text))).collect();
    build(file, &format!("{entries} $phar->setSignatureAlgorithm(Phar::SHA256); $phar->setStub('{}');", quoted(stub)));
}

const STUB: &str = "<?php echo 'the stub'; __HALT_COMPILER();";

/// A server whose root is to be `app.phar` in the test's directory, and that file.
fn setup() -> (Setup, PathBuf) {
    let place = Setup::empty();
    let file = place.directory().join("app.phar");
    (place.at(&file), file)
}

/// A command about a server's configuration file: what it prints on both outputs, and its exit code.
fn about(server: &Server, arguments: &[&str]) -> (String, i32) {
    let (command, rest) = arguments.split_first().expect("a command");
    let config = server.directory().join("reprise.toml");
    let output = Command::new(program()).args([command, "--config"]).arg(config).args(rest).output().expect("reprise");
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.code().expect("a code"))
}
