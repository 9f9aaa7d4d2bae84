//! Programs of the distribution that tests start: which package has one that is missing.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// Programs by the beginnings of their names, and Debian's packages that have them.
const PACKAGES: [(&str, &str); 16] = [
    ("apache2", "apache2"),
    ("composer", "composer"),
    ("curl", "curl"),
    ("gcc", "gcc"),
    ("initdb", "postgresql"),
    ("mariadb", "mariadb-server"),
    ("memcached", "memcached"),
    ("nghttp", "nghttp2-client"),
    ("nginx", "nginx-light"),
    ("openssl", "openssl"),
    ("php-fpm", "php-fpm"),
    ("php", "php-cli"),
    ("postgres", "postgresql"),
    ("psql", "postgresql-client"),
    ("redis", "redis-server"),
    ("valkey", "valkey-server"),
];

/// Why a program did not start.
pub fn not_started(program: &Path, error: &Error) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let package = PACKAGES.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, package)| package);
    match package.filter(|_| error.kind() == ErrorKind::NotFound) {
        Some(package) => {
            format!(
                "{name} is missing, which this test needs: apt-get install {package} (scripts/setup test installs all)"
            )
        }
        None => format!("{} does not start: {error}", program.display()),
    }
}
