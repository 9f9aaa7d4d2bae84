//! Extensions of PHP: those that one version has and another lacks.

use std::collections::BTreeSet;

use supervisor::os::user::Identity;

use crate::exit::Failure;
use crate::installed::Php;
use crate::options::Application;
use crate::php_ini;

/// The names of Debian's packages, where they differ from the extension's: php8.4-xml has dom.
const PACKAGES: [(&str, &str); 14] = [
    ("dom", "xml"),
    ("mysqli", "mysql"),
    ("mysqlnd", "mysql"),
    ("pdo_dblib", "sybase"),
    ("pdo_firebird", "interbase"),
    ("pdo_mysql", "mysql"),
    ("pdo_odbc", "odbc"),
    ("pdo_pgsql", "pgsql"),
    ("pdo_sqlite", "sqlite3"),
    ("simplexml", "xml"),
    ("xmlreader", "xml"),
    ("xmlwriter", "xml"),
    ("xsl", "xml"),
    ("zend opcache", "opcache"),
];

/// The extensions that a version loads with an application's settings, in lower case. None if it cannot be asked: PHP does not run as
/// root.
pub fn of(application: &Application, user: Option<&Identity>, php: &Php) -> Result<BTreeSet<String>, Failure> {
    let text = php_ini::ask(application, user, php, "--settings")?.unwrap_or_default();
    Ok(named(&text))
}

/// The extensions that an answer of PHP names.
pub fn named(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix("extension ")).map(str::to_ascii_lowercase).collect()
}

/// The name of the package that has an extension, without `php8.4-`.
pub fn package(name: &str) -> String {
    let known = PACKAGES.iter().find(|(extension, _)| *extension == name);
    known.map_or(name, |(_, package)| package).replace('_', "-")
}

/// What one version lacks of the extensions of another, with the packages that have them.
pub fn lacking(php: &Php, own: &BTreeSet<String>, other: &Php, others: &BTreeSet<String>) -> Option<String> {
    let missing: Vec<&str> = others.difference(own).map(String::as_str).collect();
    if missing.is_empty() || own.is_empty() {
        return None;
    }
    let packages: BTreeSet<String> = missing.iter().map(|name| format!("php{}-{}", php.minor, package(name))).collect();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    Some(format!(
        "PHP {} lacks extensions that PHP {} has: {} (apt-get install {})",
        php.minor,
        other.minor,
        missing.join(", "),
        packages.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn php(release: &str) -> Php {
        Php {
            path: "/usr/lib/reprise/reprise-php".into(),
            minor: supervisor::os::programs::PhpVersion::of_release(release).unwrap(),
            version: release.to_owned(),
            built: release.to_owned(),
            libphp: "/usr/lib/libphp.so".into(),
            ini: "libphp's own".to_owned(),
        }
    }

    #[test]
    fn packages_of_missing_extensions_are_named_once() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let (old, new) = (set(&["core", "dom", "redis", "xsl"]), set(&["core", "lexbor"]));
        assert_eq!(
            lacking(&php("8.4.1"), &new, &php("8.2.9"), &old).as_deref(),
            Some(
                "PHP 8.4 lacks extensions that PHP 8.2 has: dom, redis, xsl (apt-get install php8.4-redis php8.4-xml)"
            )
        );
        assert_eq!(lacking(&php("8.4.1"), &set(&[]), &php("8.2.9"), &old), None);
    }
}
