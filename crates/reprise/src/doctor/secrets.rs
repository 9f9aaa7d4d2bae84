//! Files with secrets, by what they have in them: passwords of databases, keys and tokens, private keys, dumps and databases. What is an
//! example, of a test or of a library is none.

use std::collections::HashMap;
use std::io::Read;

use super::findings::{is_foreign, is_test};
use super::tree::{Entry, Tree};

/// Bytes of a file that are looked at.
const MOST_BYTES: u64 = 512 << 10;
/// Longer lines are no settings.
const MOST_LINE: usize = 2000;
/// Endings of files that hold no settings.
const NO_SETTINGS: [&str; 30] = [
    "css", "scss", "less", "js", "mjs", "ts", "map", "md", "rst", "html", "htm", "po", "mo", "pot", "png", "jpg",
    "jpeg", "gif", "svg", "webp", "ico", "woff", "woff2", "ttf", "eot", "otf", "gz", "zip", "phar", "pdf",
];
/// What the names of examples have.
const EXAMPLES: [&str; 8] = ["sample", "example", "dist", "default", "template", "stub", "skeleton", "schema"];
/// Directories of texts for people.
const TEXTS: [&str; 9] = ["doc", "docs", "lang", "langs", "language", "languages", "locale", "locales", "translations"];
/// What placeholders have, which stand for a value.
const PLACEHOLDERS: [&str; 7] = ["_here", "your_", "your-", "yourpass", "changeme", "xxxx", "****"];
/// Schemes of addresses that databases and queues have.
const SCHEMES: [&str; 10] =
    ["mysql", "mysqli", "mariadb", "pgsql", "postgres", "postgresql", "mongodb", "redis", "amqp", "smtp"];
/// What dumps begin with.
const DUMPS: [&str; 5] = [
    "-- MySQL dump",
    "-- MariaDB dump",
    "-- PostgreSQL database dump",
    "-- phpMyAdmin SQL Dump",
    "PRAGMA foreign_keys=OFF;",
];

/// A secret in a file.
pub struct Secret {
    /// Its line; 0 if it is the whole file.
    pub line: u32,
    /// What it is. Its value is not told.
    pub what: String,
}

/// All secrets of a tree, by the names of their files.
pub fn find(tree: &Tree) -> HashMap<String, Secret> {
    let look = |entry: &Entry| {
        let name = entry.name();
        let is_text = name.split('/').any(|part| TEXTS.contains(&part));
        if entry.is_directory || is_text || is_test(&name) || is_foreign(&name) || is_example(&name) {
            return None;
        }
        let ending = entry.path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        if ending.is_some_and(|ending| NO_SETTINGS.contains(&ending.as_str())) {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(tree.whole(entry)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some((name.clone(), of_text(&name, &bytes)?))
    };
    tree.entries.iter().filter_map(look).collect()
}

fn file(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase()
}

fn is_example(name: &str) -> bool {
    let file = file(name);
    EXAMPLES.iter().any(|word| file.contains(word))
}

fn of_text(name: &str, bytes: &[u8]) -> Option<Secret> {
    let whole = |what: &str| Some(Secret { line: 0, what: what.to_owned() });
    if bytes.starts_with(b"SQLite format 3\0") {
        return whole("a database");
    }
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Into::into);
    if text.contains('\0') {
        return None;
    }
    let head = text.get(..text.len().min(4096)).unwrap_or(&text);
    if head.trim_start().starts_with("-----BEGIN") && head.contains("PRIVATE KEY-----") {
        return whole("a private key");
    }
    // Applications bring the tables of their installation.
    let is_of_installation = name.split('/').any(|part| ["install", "setup", "sql", "schema"].contains(&part));
    if !is_of_installation && DUMPS.iter().any(|start| head.contains(start)) {
        let has_rows = text.contains("INSERT INTO") || text.contains(" FROM stdin;");
        return has_rows.then(|| whole("a dump of a database")).flatten();
    }
    settings(name, &text)
}

/// The first secret among the settings of a file.
fn settings(name: &str, text: &str) -> Option<Secret> {
    let file = file(name);
    let is_environment = file.starts_with(".env") || file.ends_with(".env");
    let is_code = text.starts_with("<?php") || text.starts_with("<?PHP");
    let mut password = None;
    let (mut has_host, mut has_user, mut has_database) = (file == "auth.json", false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.len() > MOST_LINE
            || ["#", "//", "*", "/*", ";", "--", "<!--"].iter().any(|start| line.starts_with(start))
        {
            continue;
        }
        for (key, value) in pairs(line, is_code) {
            let secret = |what: &str| Secret { line: number as u32 + 1, what: format!("{what} ({key})") };
            if has_credentials(value) {
                return Some(secret("an address with a password"));
            }
            let name = compact(key);
            // A text for people begins with a capital letter.
            let is_name = !is_placeholder(&name, value) && !value.starts_with(char::is_uppercase);
            has_user |= is_name && ends(&name, &["user", "username", "login"]);
            has_database |= is_name && ends(&name, &["database", "dbname"]);
            if is_host(&name, value) {
                has_host = true;
            } else if is_placeholder(&name, value) {
                continue;
            } else if is_password(&name) {
                if is_environment {
                    return Some(secret("a password"));
                }
                password.get_or_insert_with(|| secret("the password of a database or service"));
            } else if is_key(&name) && (is_environment || is_random(value)) {
                return Some(secret("a key"));
            }
        }
    }
    password.filter(|_| has_host || (has_user && has_database))
}

/// Names and values of a line: `name = value`, `'name' => 'value'`, `name: value`, `define('name', 'value')`, `<name>value</name>`. In code a
/// value is a whole literal.
fn pairs(line: &str, is_code: bool) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    if let Some((name, rest)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        if let Some((value, _)) = rest.split_once("</") {
            found.push((name, value));
        }
        return found;
    }
    let mut from = 0;
    while let Some(at) = line.get(from..).and_then(|rest| rest.find(['=', ':', ','])) {
        let at = from + at;
        let (before, after) = (&line[..at], &line[at + 1..]);
        from = at + 1;
        let separator = line.as_bytes()[at];
        let is_comparison = after.starts_with('=') || before.ends_with(['=', '!', '<', '>', '.', '+', '-', '*', '?']);
        let is_name = match separator {
            b'=' => !is_comparison,
            b':' => {
                !after.starts_with([':', '/'])
                    && !before.ends_with(':')
                    && (!is_code || before.trim_end().ends_with('"'))
            }
            _ => before.contains("define"),
        };
        if !is_name {
            continue;
        }
        let name = before.trim_end().trim_end_matches([']', '"', '\'']);
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let start = name.trim_end_matches(is_of_name).len();
        let name = &name[start..];
        let after = after.trim_start_matches('>').trim_start();
        let value = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let Some((value, rest)) = after[1..].split_once(quote) else { continue };
                if is_code
                    && !rest.trim_start().is_empty()
                    && !rest.trim_start().starts_with([';', ',', ')', ']', '}', '/', '#'])
                {
                    continue;
                }
                value
            }
            _ if is_code => continue,
            _ => after.split([' ', '\t']).next().unwrap_or(after).trim_end_matches([',', ';']),
        };
        if !name.is_empty() {
            found.push((name, value));
        }
    }
    found
}

/// A name without what separates its words.
fn compact(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn ends(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

fn is_password(name: &str) -> bool {
    ends(name, &["password", "passwd", "passwort", "passphrase", "pass", "pwd", "dbpw"])
        && !ends(name, &["bypass", "compass"])
}

fn is_key(name: &str) -> bool {
    const KEYS: [&str; 10] = [
        "secret",
        "secretkey",
        "apikey",
        "privatekey",
        "accesskey",
        "authkey",
        "appkey",
        "encryptionkey",
        "token",
        "salt",
    ];
    ends(name, &KEYS)
}

/// Whether it says where a database or service is.
fn is_host(name: &str, value: &str) -> bool {
    let is_address = value
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-:/_[];=".contains(letter));
    ends(name, &["host", "hostname", "server", "dsn", "socket", "hostspec"]) && !value.is_empty() && is_address
}

/// Whether a value only stands for one.
fn is_placeholder(name: &str, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.is_empty()
        || value.contains(char::is_whitespace)
        || !value.is_ascii()
        || value.starts_with(['$', '%', '{', '<', '@', '(', '[', '!', '"', '.', '\\'])
        || ["null", "none", "false", "true", "~"].contains(&lower.as_str())
        || compact(value) == *name
        || PLACEHOLDERS.iter().any(|part| lower.contains(part))
}

/// Whether a value was drawn, as keys are: long, of letters and digits, and no words.
fn is_random(value: &str) -> bool {
    let (digits, letters) =
        (value.chars().filter(char::is_ascii_digit).count(), value.chars().filter(char::is_ascii_alphabetic).count());
    value.len() >= 20 && digits >= 3 && letters >= 3 && !value.contains(['/', '\\', '.', '<', '|', '$'])
}

/// Whether it is the address of a service with user and password: `mysql://user:password@host/name`.
fn has_credentials(value: &str) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else { return false };
    let Some((user, _)) = rest.split_once('@') else { return false };
    let password = user.split_once(':').map_or("", |(_, password)| password);
    SCHEMES.contains(&scheme) && !user.contains('/') && !is_placeholder("pass", password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_passwords_are_known_by_what_they_have() {
        for (name, text, line) in [
            ("config.php", "<?php\ndefine('DB_HOSTNAME', 'localhost');\ndefine('DB_PASSWORD', 'gk38d');\n", Some(3)),
            ("Settings.php", "<?php\n$db_server = 'localhost';\n$db_passwd = 'gk38d';\n", Some(3)),
            ("e.php", "<?php\n$mySQLserver    = 'localhost';\n$mySQLpassword = \"gk38d\";", Some(3)),
            ("c.php", "<?php\n$cfg['db']['pass'] = 'gk38d';\n$cfg['db']['host'] = '127.0.0.1';\n", Some(2)),
            ("one.php", "<?php\nreturn ['host' => 'db', 'username' => 'a', 'password' => 'gk38d'];\n", Some(2)),
            ("settings.php", "<?php\n$database = 'mysql://shop:gk38d@localhost/shop';\n", Some(2)),
            ("config.json.php", "<?php exit; ?>\n{\n\"host\": \"localhost\",\n\"password\": \"gk38d\"\n}\n", Some(4)),
            ("db.php", "<?php\n$user = 'a';\n$pass = 'gk38d';\n$database = 'shop';\n", Some(3)),
            ("config/db.yml", "host: localhost\npassword: gk38d\n", Some(2)),
            (".env", "A=1\nSECRET=1\n", Some(2)),
            ("app.ini", "[mail]\napi_key = 8fK2mQ9xLp4Zt7Wv1Rb3\n", Some(2)),
            ("id", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3B\n", Some(0)),
            ("d.txt", "-- MySQL dump 10.13\nINSERT INTO a VALUES (1);\n", Some(0)),
            // What is none: examples, placeholders, texts, options, computed values.
            ("config-sample.php", "<?php\n$db_host = 'localhost';\n$db_password = 'gk38d';\n", None),
            ("a.php", "<?php\n$db_host = 'localhost';\n$db_password = 'password_here';\n", None),
            ("a.php", "<?php\n$db_host = 'localhost';\n$db_password = '';\n// $db_password = 'x';\n", None),
            ("a.php", "<?php\n$db_host = 'localhost';\n$db_password = getenv('X') . 'a';\n", None),
            ("ja.ini", "user=会員\nchange_password=変更\ndatabase=表\n", None),
            ("fr.php", "<?php\nreturn ['À' => 'é', 'mot de passé' => 'x', \"é=\" => 1];\n", None),
            ("en.php", "<?php\nreturn ['host' => 'Host', 'user' => 'User', 'password' => 'Password'];\n", None),
            ("theme.php", "<?php\n$options = ['password_color' => '#fff', 'show_password' => 'yes'];\n", None),
            ("a.php", "<?php\nif ($password == 'gk38d' && $host == 'localhost') {}\n", None),
            ("install/sql/a.sql", "-- phpMyAdmin SQL Dump\nINSERT INTO a VALUES (1);\n", None),
        ] {
            let is_none = is_example(name);
            let found = of_text(name, text.as_bytes()).filter(|_| !is_none).map(|secret| secret.line);
            assert_eq!(found, line, "{name}: {text}");
        }
    }
}
