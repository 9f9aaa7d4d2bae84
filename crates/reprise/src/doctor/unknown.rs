//! Functions, classes and constants that code uses and that neither PHP, with the application's settings, nor the tree has.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::findings::{Check, Finding, Place, Severity, counted, is_foreign, is_test};
use super::reading::Told;
use super::symbols::Declared;

/// Extensions by the beginnings of their names, in lower case; those of Debian's packages and the well-known ones of PECL. The longest
/// beginning that fits counts.
const EXTENSIONS: [(&str, &str); 97] = [
    ("amqp", "amqp"),
    ("apc_", "apcu"),
    ("apcu", "apcu"),
    ("ast\\", "ast"),
    ("bcadd", "bcmath"),
    ("bccomp", "bcmath"),
    ("bcdiv", "bcmath"),
    ("bcmod", "bcmath"),
    ("bcmul", "bcmath"),
    ("bcpow", "bcmath"),
    ("bcscale", "bcmath"),
    ("bcsqrt", "bcmath"),
    ("bcsub", "bcmath"),
    ("brotli", "brotli"),
    ("bz", "bz2"),
    ("cal_", "calendar"),
    ("couchbase", "couchbase"),
    ("curl", "curl"),
    ("dba_", "dba"),
    ("dom", "dom"),
    ("ds\\", "ds"),
    ("eio_", "eio"),
    ("enchant", "enchant"),
    ("eventbase", "event"),
    ("ev\\", "ev"),
    ("exif_", "exif"),
    ("ffi", "ffi"),
    ("ftp_", "ftp"),
    ("gearman", "gearman"),
    ("geoip", "geoip"),
    ("gmagick", "gmagick"),
    ("gmp", "gmp"),
    ("gnupg", "gnupg"),
    ("gssapi", "krb5"),
    ("grpc\\", "grpc"),
    ("igbinary", "igbinary"),
    ("image", "gd"),
    ("imagick", "imagick"),
    ("imap", "imap"),
    ("intl", "intl"),
    ("idn_", "intl"),
    ("krb5", "krb5"),
    ("ldap", "ldap"),
    ("libsodium", "libsodium"),
    ("maxminddb", "maxminddb"),
    ("mb_", "mbstring"),
    ("mdecrypt", "mcrypt"),
    ("memcache", "memcache"),
    ("memcached", "memcached"),
    ("memprof", "memprof"),
    ("mongo", "mongo"),
    ("mongodb\\driver", "mongodb"),
    ("msgpack", "msgpack"),
    ("mysqli", "mysqli"),
    ("mysqlnd", "mysqlnd"),
    ("newrelic", "newrelic"),
    ("oauth", "oauth"),
    ("oci", "oci8"),
    ("odbc", "odbc"),
    ("opcache", "zend opcache"),
    ("pcov\\", "pcov"),
    ("pg_", "pgsql"),
    ("pgsql", "pgsql"),
    ("pspell", "pspell"),
    ("radius_", "radius"),
    ("rdkafka", "rdkafka"),
    ("redis", "redis"),
    ("relay", "relay"),
    ("rrd", "rrd"),
    ("simplexml", "simplexml"),
    ("snmp", "snmp"),
    ("soap", "soap"),
    ("sodium", "sodium"),
    ("solr", "solr"),
    ("sphinx", "sphinx"),
    ("sqlite", "sqlite"),
    ("sqlite3", "sqlite3"),
    ("sqlsrv", "sqlsrv"),
    ("sqlt_", "oci8"),
    ("ssh2", "ssh2"),
    ("svn_", "svn"),
    ("swoole", "swoole"),
    ("tideways", "tideways"),
    ("tidy", "tidy"),
    ("uopz", "uopz"),
    ("uploadprogress", "uploadprogress"),
    ("uuid_", "uuid"),
    ("wincache", "wincache"),
    ("xcache", "xcache"),
    ("xdebug", "xdebug"),
    ("xdiff", "xdiff"),
    ("xhprof", "xhprof"),
    ("xsl", "xsl"),
    ("xz", "xz"),
    ("yaml", "yaml"),
    ("zip", "zip"),
    ("zstd", "zstd"),
];
/// Classes that PHP has on Windows alone.
const OF_WINDOWS: [&str; 3] = ["com", "dotnet", "variant"];
/// Beginnings of what only other servers of PHP have, and Windows.
const OF_SERVERS: [&str; 16] = [
    "com_",
    "variant_",
    "apache_",
    "blackfire",
    "cli_",
    "fpm_",
    "frankenphp_",
    "hhvm",
    "hh\\",
    "litespeed_",
    "lsapi_",
    "newrelic_",
    "sapi_windows_",
    "virtual",
    "zend_shm_",
    "zend_disk_",
];

const ACTION: &str = "correct the name, or install what declares it; if it is optional, ask function_exists(), class_exists() or defined() before";

/// Beginning and extension of a name, if they are known.
fn extension(name: &str) -> Option<(&'static str, &'static str)> {
    let lower = name.to_ascii_lowercase();
    let fits = EXTENSIONS.iter().filter(|(beginning, _)| lower.starts_with(beginning));
    fits.max_by_key(|(beginning, _)| beginning.len()).copied()
}

/// Names of one kind of finding, with their places.
#[derive(Default)]
struct Group(BTreeMap<String, Vec<Place>>);

impl Group {
    fn add(&mut self, key: String, place: Place) {
        self.0.entry(key).or_default().push(place);
    }
}

/// All findings. `files` are the names of all files of the tree at `base`, `release` is the PHP that was asked.
pub fn judge(names: &[String], told: &[Told], files: &HashSet<String>, base: &Path, release: &str) -> Vec<Finding> {
    let own = Declared::by(names, told);
    let (mut of_extensions, mut unknown, mut settings) = (Group::default(), Group::default(), Vec::new());
    let (mut optional, mut unsure) = (Vec::new(), Vec::new());
    for (path, told) in names.iter().zip(told) {
        let is_other = is_test(path) || is_foreign(path);
        for (kind, name, line) in &told.missing {
            let is_of_windows = kind == "class" && OF_WINDOWS.contains(&name.to_ascii_lowercase().as_str());
            let is_of_server = OF_SERVERS.iter().any(|server| name.starts_with(server));
            if is_of_windows || is_of_server || own.has(kind, name) || own.asked.has(name) {
                continue;
            }
            let text = match kind.as_str() {
                "function" => format!("{name}()"),
                "class" => format!("class {name}"),
                _ => name.clone(),
            };
            let place = Place::new(path, *line, text);
            if kind == "setting" {
                settings.push(place);
                continue;
            }
            match extension(name) {
                _ if is_other => optional.push(place),
                Some((beginning, extension)) if own.asked.has_extension(extension, beginning) => optional.push(place),
                Some((_, extension)) => of_extensions.add(extension.to_owned(), place),
                // A class of a library may lie anywhere where an autoloader finds it.
                None if kind == "class" && name.contains('\\') => unsure.push(place),
                None if kind == "constant" && own.has_computed => unsure.push(place),
                None => unknown.add(place.text.clone(), place),
            }
        }
    }
    let lost = lost(names, told, files, base);
    let mut findings = Vec::new();
    for (extension, places) in of_extensions.0 {
        let what = format!("PHP {release} lacks the extension {extension}, and code uses it without asking for it");
        let action = format!("install the extension, or ask extension_loaded('{extension}') before");
        findings.push(Finding::new(Check::Missing, what, action).but(Severity::Warning).at(places));
    }
    if let Some((first, others)) = lost.split_first() {
        let places: Vec<Place> = unknown.0.into_values().flatten().collect();
        if !places.is_empty() {
            let also =
                if others.is_empty() { String::new() } else { format!(" and {}", counted(others.len(), "other")) };
            let count = counted(places.len(), "name");
            let what = format!(
                "neither PHP {release} nor the tree has {count}; files that code includes and the tree lacks may: {first}{also}"
            );
            findings.push(Finding::new(Check::Missing, what, ACTION).but(Severity::Warning).at(places));
        }
    } else {
        for (name, places) in unknown.0 {
            let what = format!("neither PHP {release} nor the tree has {name}");
            findings.push(Finding::new(Check::Missing, what, ACTION).at(places));
        }
    }
    if !unsure.is_empty() {
        let what = format!(
            "neither PHP {release} nor the tree has {}, which may come from elsewhere",
            counted(unsure.len(), "name")
        );
        let action = "nothing, if libraries outside of the tree declare them";
        findings.push(Finding::new(Check::Missing, what, action).but(Severity::Notice).at(unsure));
    }
    if !optional.is_empty() {
        let what = format!(
            "neither PHP {release} nor the tree has {} of optional code, libraries and tests",
            counted(optional.len(), "name")
        );
        let action = "nothing, if that code is not used; else install the extensions that have them";
        findings.push(Finding::new(Check::Missing, what, action).but(Severity::Notice).at(optional));
    }
    if !settings.is_empty() {
        let what =
            format!("PHP {release} lacks {} that code sets: ini_set() gives false", counted(settings.len(), "setting"));
        findings.push(Finding::new(Check::Missing, what, "leave them out").but(Severity::Notice).at(settings));
    }
    findings
}

/// Files that the application's own code includes and the tree does not have, and files elsewhere that any of its code includes.
fn lost(names: &[String], told: &[Told], files: &HashSet<String>, base: &Path) -> Vec<String> {
    let mut lost = Vec::new();
    for (path, told) in names.iter().zip(told).filter(|(path, _)| !is_test(path)) {
        for (_, line, _, included) in told.facts.iter().filter(|(what, ..)| what == "include") {
            let name = included.rsplit('/').next().unwrap_or(included);
            let is_elsewhere = included.starts_with('/') && !Path::new(included).starts_with(base);
            let is_lost = !is_foreign(path) && !name.starts_with('.') && !files.contains(name);
            if is_elsewhere || is_lost {
                lost.push(format!("{included} ({path}:{line})"));
            }
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_names_the_extension() {
        assert_eq!(extension("Memcached").map(|(_, name)| name), Some("memcached"));
        assert_eq!(extension("MEMCACHE_COMPRESSED").map(|(_, name)| name), Some("memcache"));
        assert_eq!(extension("shop_total"), None);
    }
}
