//! Default denials: names of files that lie below document roots by accident or for PHP's own use, and that no site wants
//! sent. A denial concerns a file that is there; a path without a file is the front controller's, whatever its name. Hidden
//! files and PHP's source are never sent, whatever is configured ([`crate::target`]).
//!
//! A name is judged by its last segment and by the directories before it, in upper or lower case. What lies below
//! `/.well-known/` is published on purpose (RFC 8615) and is not judged.

/// Why a file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A directory of a version control system.
    VersionControl,
    /// What Composer and its like leave in a project, with versions, paths and tokens.
    Composer,
    /// A dump of a database.
    Dump,
    /// The files of a database.
    Database,
    /// Private keys and stores of keys and passwords.
    Key,
    /// A copy that an editor or a person has kept.
    Copy,
    /// The settings of a server or a container.
    Settings,
    /// A log by one of its usual names.
    Log,
    /// Below a `vendor/` of Composer's.
    Vendor,
}

/// A row of the table: what is denied, and by which names.
pub struct Row {
    /// Why.
    pub denial: Denial,
    /// Names of directories.
    pub directories: &'static [&'static str],
    /// Whole names of files.
    pub names: &'static [&'static str],
    /// Last endings of names, without the dot.
    pub endings: &'static [&'static str],
    /// In words, for the documentation.
    pub text: &'static str,
}

/// The table, in the order of the documentation.
pub const ROWS: [Row; 8] = [
    Row {
        denial: Denial::VersionControl,
        directories: &["cvs", "_darcs", "rcs", "sccs"],
        names: &[],
        endings: &[],
        text: "version control systems whose directories do not begin with a dot; `.git`, `.svn` and `.hg` are hidden anyway",
    },
    Row {
        denial: Denial::Composer,
        directories: &[],
        names: &["composer.json", "composer.lock", "composer.phar", "auth.json", "symfony.lock"],
        endings: &[],
        text: "versions of all libraries; `auth.json` has tokens",
    },
    Row {
        denial: Denial::Dump,
        directories: &[],
        names: &[],
        endings: &["sql", "dump", "mysql", "pgsql", "pgdump", "mysqldump", "dmp"],
        text: "dumps of databases, compressed ones too (`.sql.gz`)",
    },
    Row {
        denial: Denial::Database,
        directories: &[],
        names: &[],
        endings: &[
            "db", "db3", "sqlite", "sqlite2", "sqlite3", "s3db", "sl3", "sqlitedb", "mdb", "accdb", "frm", "ibd",
            "myd", "myi", "mdf", "ldf", "rdb", "aof",
        ],
        text: "databases, with their `-wal`, `-shm` and `-journal`",
    },
    Row {
        denial: Denial::Key,
        directories: &[],
        names: &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"],
        endings: &["key", "pem", "p12", "pfx", "p8", "jks", "keystore", "ppk", "kdb", "kdbx", "pkcs12"],
        text: "private keys and stores of passwords. Certificates (`.crt`, `.cer`) and signatures (`.asc`, `.sig`) are sent",
    },
    Row {
        denial: Denial::Copy,
        directories: &[],
        names: &[],
        endings: &["bak", "backup", "old", "orig", "save", "sav", "swp", "swo", "rej"],
        text: "copies that editors and people keep; names that end with `~`, or begin and end with `#`, too",
    },
    Row {
        denial: Denial::Settings,
        directories: &[],
        names: &[
            "web.config",
            "php.ini",
            "docker-compose.yml",
            "docker-compose.yaml",
            "compose.yml",
            "compose.yaml",
            "dockerfile",
        ],
        endings: &[],
        text: "settings of servers and containers; `.htaccess`, `.env` and `.user.ini` are hidden anyway",
    },
    Row {
        denial: Denial::Log,
        directories: &[],
        names: &[
            "debug.log",
            "error.log",
            "errors.log",
            "error_log",
            "access.log",
            "php_error.log",
            "php_errors.log",
            "laravel.log",
        ],
        endings: &[],
        text: "logs by the names that PHP and applications give them; another `.log` is sent",
    },
];

/// What a dump may be compressed with.
const COMPRESSED: [&str; 12] = ["gz", "bz2", "xz", "zst", "lz4", "lzma", "zip", "7z", "rar", "tgz", "tar", "br"];
/// What SQLite appends to the name of a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Files below a `vendor/` that pages load: style sheets, scripts, images, fonts, sound and film. Plugins of WordPress publish
/// such files there.
const ASSETS: [&str; 29] = [
    "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "bmp", "woff", "woff2",
    "ttf", "otf", "eot", "mp3", "mp4", "ogg", "ogv", "oga", "webm", "wav", "wasm", "cur", "pdf", "swf",
];

impl Denial {
    /// Its word, for logs and explanations.
    pub const fn word(self) -> &'static str {
        match self {
            Denial::VersionControl => "version control",
            Denial::Composer => "Composer",
            Denial::Dump => "dump",
            Denial::Database => "database",
            Denial::Key => "key",
            Denial::Copy => "copy",
            Denial::Settings => "settings",
            Denial::Log => "log",
            Denial::Vendor => "vendor",
        }
    }
}

/// Why a file of that name is not sent, if so.
pub fn of_name(path: &[u8]) -> Option<Denial> {
    if path.starts_with(b"/.well-known/") {
        return None;
    }
    let mut segments = path.rsplit(|byte| *byte == b'/');
    let name = plain(segments.next().unwrap_or(path));
    let is_one_of = |name: &[u8], list: &[&str]| list.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    if ROWS.iter().any(|row| row.names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))) {
        return ROWS.iter().find(|row| is_one_of(name, row.names)).map(|row| row.denial);
    }
    let is_kept = name.ends_with(b"~") || (name.len() > 1 && name.starts_with(b"#") && name.ends_with(b"#"));
    if is_kept {
        return Some(Denial::Copy);
    }
    let by_ending = of_ending(name);
    by_ending.or_else(|| {
        let of_directory = |row: &&Row| segments.clone().any(|segment| is_one_of(segment, row.directories));
        ROWS.iter().filter(|row| !row.directories.is_empty()).find(of_directory).map(|row| row.denial)
    })
}

/// A name without the dots and spaces at its end, which some file systems ignore.
fn plain(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    &name[..end]
}

fn of_ending(name: &[u8]) -> Option<Denial> {
    let (before, ending) = split_ending(name)?;
    let known = ROWS.iter().find(|row| row.endings.iter().any(|one| ending.eq_ignore_ascii_case(one.as_bytes())));
    if let Some(row) = known {
        return Some(row.denial);
    }
    let without = BESIDE.iter().find_map(|tail| {
        let begin = ending.len().checked_sub(tail.len())?;
        ending[begin..].eq_ignore_ascii_case(tail.as_bytes()).then(|| &ending[..begin])
    });
    if without.is_some_and(|ending| is_of(Denial::Database, ending)) {
        return Some(Denial::Database);
    }
    let is_compressed = COMPRESSED.iter().any(|one| ending.eq_ignore_ascii_case(one.as_bytes()));
    let inner = is_compressed.then(|| of_ending(plain(before))).flatten();
    inner.filter(|denial| matches!(denial, Denial::Dump | Denial::Database | Denial::Copy))
}

fn is_of(denial: Denial, ending: &[u8]) -> bool {
    let mut rows = ROWS.iter().filter(|row| row.denial == denial);
    rows.any(|row| row.endings.iter().any(|one| ending.eq_ignore_ascii_case(one.as_bytes())))
}

/// What lies before the last dot, and what lies behind it.
fn split_ending(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = memchr::memrchr(b'.', name)?;
    Some((&name[..dot], &name[dot + 1..]))
}

/// The directories named `vendor` on the way to a file that pages do not load: each as the path before it with its own name.
/// Whether one of them is Composer's only the file system knows.
pub fn vendors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_asset = split_ending(plain(name))
        .is_some_and(|(_, ending)| ASSETS.iter().any(|one| ending.eq_ignore_ascii_case(one.as_bytes())));
    let is_published = is_asset || path.starts_with(b"/.well-known/");
    let slashes = memchr::memchr_iter(b'/', path).filter(move |_| !is_published);
    slashes.filter_map(|end| {
        let before = &path[..end];
        let segment = before.rsplit(|byte| *byte == b'/').next()?;
        segment.eq_ignore_ascii_case(b"vendor").then_some(before)
    })
}

/// The table in docs/guides/routing.md.
pub fn reference() -> String {
    let list = |before: &str, names: &[&str], after: &str| -> Vec<String> {
        names.iter().map(|name| format!("`{before}{name}{after}`")).collect()
    };
    let mut text = "| names | why |\n|---|---|\n".to_owned();
    for row in &ROWS {
        let names = [list("", row.directories, "/"), list("", row.names, ""), list("*.", row.endings, "")].concat();
        text.push_str(&format!("| {} | {} |\n", names.join(" "), row.text));
    }
    text.push_str(
        "| `vendor/` with an `autoload.php` and a directory `composer` | libraries that Composer has installed. Style sheets, scripts for \
         browsers, images, fonts, sound and film below it are sent, because plugins publish such files there |\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_site_wants_sent_is_known_by_its_name() {
        for (path, denial) in [
            ("/data/db.sqlite", Denial::Database),
            ("/DATA/DB.SQLITE", Denial::Database),
            ("/db.sqlite-wal", Denial::Database),
            ("/db.sqlite3-Journal", Denial::Database),
            ("/db.sqlite.", Denial::Database),
            ("/db.sqlite ", Denial::Database),
            ("/a.db.zip", Denial::Database),
            ("/backup.sql", Denial::Dump),
            ("/backup.SQL.gz", Denial::Dump),
            ("/backup.sql.tar.gz", Denial::Dump),
            ("/composer.json", Denial::Composer),
            ("/lib/Composer.Lock", Denial::Composer),
            ("/auth.json", Denial::Composer),
            ("/CVS/Root", Denial::VersionControl),
            ("/a/_darcs/x.css", Denial::VersionControl),
            ("/server.key", Denial::Key),
            ("/id_rsa", Denial::Key),
            ("/index.html.bak", Denial::Copy),
            ("/a.css~", Denial::Copy),
            ("/#a.html#", Denial::Copy),
            ("/a.bak.gz", Denial::Copy),
            ("/Web.config", Denial::Settings),
            ("/wp-content/debug.log", Denial::Log),
            ("/error_log", Denial::Log),
        ] {
            assert_eq!(of_name(path.as_bytes()), Some(denial), "{path}");
        }
    }

    #[test]
    fn what_sites_send_is_not_denied() {
        for path in [
            "/",
            "/a.css",
            "/a.js",
            "/a.tar.gz",
            "/backup.zip",
            "/composer.js",
            "/composer.css",
            "/js/composer/a.json",
            "/package.json",
            "/manifest.json",
            "/openapi.yaml",
            "/sitemap.xml.gz",
            "/robots.txt",
            "/cert.crt",
            "/release.asc",
            "/id_rsa.pub",
            "/irc.log",
            "/changelog",
            "/db",
            "/sqlite",
            "/sql/",
            "/keys/a.txt",
            "/key",
            "/old",
            "/bak/a.txt",
            "/cvs",
            "/a.sqlite.html",
            "/a.key.txt",
            "/doc.sql.html",
            "/#",
            "/photo.orig.jpg",
            "/a.docx",
            "/.well-known/acme-challenge/a.key",
            "/.well-known/keys.pem",
            "/.well-known/pki-validation/x.db",
        ] {
            assert_eq!(of_name(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn directories_of_composer_are_found_on_the_way() {
        let all = |path: &str| -> Vec<String> {
            vendors(path.as_bytes()).map(|one| String::from_utf8_lossy(one).into_owned()).collect()
        };
        assert_eq!(all("/vendor/a/b.php"), ["/vendor"]);
        assert_eq!(all("/p/Vendor/x/vendor/y.txt"), ["/p/Vendor", "/p/Vendor/x/vendor"]);
        assert_eq!(all("/vendor/"), ["/vendor"]);
        for path in ["/vendor", "/vendors/a.php", "/vendor/a/b.css", "/vendor/a/B.JS", "/.well-known/vendor/a.txt", "/"]
        {
            assert_eq!(all(path), Vec::<String>::new(), "{path}");
        }
    }
}
