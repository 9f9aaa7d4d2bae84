//! What each version of PHP has added, deprecated and removed: the tables in changes/, which `scripts/php-changes` makes.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use supervisor::os::programs::PhpVersion;

/// The tables, by version ([`number`]).
const TABLES: [(u16, &str); 12] = [
    (504, include_str!("changes/5.4.tsv")),
    (700, include_str!("changes/7.0.tsv")),
    (701, include_str!("changes/7.1.tsv")),
    (702, include_str!("changes/7.2.tsv")),
    (704, include_str!("changes/7.4.tsv")),
    (800, include_str!("changes/8.0.tsv")),
    (801, include_str!("changes/8.1.tsv")),
    (802, include_str!("changes/8.2.tsv")),
    (803, include_str!("changes/8.3.tsv")),
    (804, include_str!("changes/8.4.tsv")),
    (805, include_str!("changes/8.5.tsv")),
    (806, include_str!("changes/8.6.tsv")),
];
/// The last version that there is a table for.
pub const LAST: u8 = 6;

/// A version by one number: 804 is PHP 8.4.
pub fn number(version: PhpVersion) -> u16 {
    let text = version.to_string();
    let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
    let (major, minor) = (major.parse().unwrap_or(0), minor.parse::<u16>().unwrap_or(0));
    100_u16.saturating_mul(major).saturating_add(minor)
}

/// The version of a number.
pub fn named(number: u16) -> String {
    format!("{}.{}", number / 100, number % 100)
}

/// Forms of the language that a version has deprecated or removed: what tokens.php calls them, since when, what they are, what to write
/// instead.
const FORMS: [(&str, What, u16, &str, &str); 33] = [
    ("dollar-brace", What::Deprecated, 802, "\"${name}\" in strings", "write {$name}"),
    (
        "implicit-null",
        What::Deprecated,
        804,
        "a parameter whose default null is not in its type",
        "write ?Type or Type|null",
    ),
    ("cast boolean", What::Deprecated, 805, "the cast (boolean)", "write (bool)"),
    ("cast integer", What::Deprecated, 805, "the cast (integer)", "write (int)"),
    ("cast double", What::Deprecated, 805, "the cast (double)", "write (float)"),
    ("cast binary", What::Deprecated, 805, "the cast (binary)", "write (string)"),
    ("backticks", What::Deprecated, 805, "backticks", "call shell_exec()"),
    (
        "response-header",
        What::Deprecated,
        805,
        "$http_response_header",
        "call http_get_last_response_headers(), which PHP has since 8.4",
    ),
    ("arguments get_class", What::Deprecated, 803, "get_class() without an argument", "write self::class"),
    (
        "arguments get_parent_class",
        What::Deprecated,
        803,
        "get_parent_class() without an argument",
        "write parent::class",
    ),
    (
        "arguments mb_check_encoding",
        What::Deprecated,
        801,
        "mb_check_encoding() without an argument",
        "give it the text",
    ),
    (
        "arguments fputcsv",
        What::Deprecated,
        804,
        "fputcsv() without its argument $escape",
        "give all five arguments, with '' as $escape for RFC 4180",
    ),
    (
        "arguments fgetcsv",
        What::Deprecated,
        804,
        "fgetcsv() without its argument $escape",
        "give all five arguments, with '' as $escape for RFC 4180",
    ),
    (
        "arguments str_getcsv",
        What::Deprecated,
        804,
        "str_getcsv() without its argument $escape",
        "give all four arguments, with '' as $escape for RFC 4180",
    ),
    (
        "arguments session_set_save_handler",
        What::Deprecated,
        804,
        "session_set_save_handler() with more than two arguments",
        "give it an object of SessionHandlerInterface",
    ),
    (
        "arguments get_defined_functions",
        What::Deprecated,
        805,
        "get_defined_functions() with an argument",
        "leave the argument out",
    ),
    ("modifier-e", What::Removed, 700, "the modifier e of a pattern", "call preg_replace_callback()"),
    ("variable HTTP_RAW_POST_DATA", What::Removed, 700, "$HTTP_RAW_POST_DATA", "read file_get_contents('php://input')"),
    ("variable HTTP_GET_VARS", What::Removed, 504, "$HTTP_GET_VARS", "use $_GET"),
    ("variable HTTP_POST_VARS", What::Removed, 504, "$HTTP_POST_VARS", "use $_POST"),
    ("variable HTTP_COOKIE_VARS", What::Removed, 504, "$HTTP_COOKIE_VARS", "use $_COOKIE"),
    ("variable HTTP_SERVER_VARS", What::Removed, 504, "$HTTP_SERVER_VARS", "use $_SERVER"),
    ("variable HTTP_ENV_VARS", What::Removed, 504, "$HTTP_ENV_VARS", "use $_ENV"),
    ("variable HTTP_SESSION_VARS", What::Removed, 504, "$HTTP_SESSION_VARS", "use $_SESSION"),
    ("variable HTTP_POST_FILES", What::Removed, 504, "$HTTP_POST_FILES", "use $_FILES"),
    ("variable php_errormsg", What::Deprecated, 702, "$php_errormsg", "call error_get_last()"),
    (
        "old-constructor",
        What::Removed,
        800,
        "constructors that have the name of their class",
        "call the method __construct: new does not call this one",
    ),
    ("autoload", What::Removed, 800, "the function __autoload()", "call spl_autoload_register()"),
    ("arguments parse_str", What::Removed, 800, "parse_str() without its second argument", "give it the array"),
    ("arguments mb_parse_str", What::Removed, 800, "mb_parse_str() without its second argument", "give it the array"),
    ("arguments mktime", What::Removed, 800, "mktime() without an argument", "call time()"),
    ("arguments gmmktime", What::Removed, 800, "gmmktime() without an argument", "call time()"),
    ("arguments crypt", What::Removed, 800, "crypt() without its argument $salt", "call password_hash()"),
];

/// What to use in the place of what is gone.
const INSTEAD: [(&str, &str); 44] = [
    ("mysql_*", "use mysqli or PDO"),
    ("mssql_*", "use PDO with pdo_dblib, or sqlsrv"),
    ("sqlite_*", "use SQLite3 or PDO"),
    ("mcrypt_*", "use openssl or sodium; for old data, mcrypt of PECL"),
    ("ereg", "call preg_match()"),
    ("eregi", "call preg_match() with the modifier i"),
    ("ereg_replace", "call preg_replace()"),
    ("eregi_replace", "call preg_replace() with the modifier i"),
    ("split", "call explode() or preg_split()"),
    ("spliti", "call preg_split() with the modifier i"),
    ("session_register", "write to $_SESSION"),
    ("session_is_registered", "ask isset($_SESSION[…])"),
    ("session_unregister", "unset($_SESSION[…])"),
    ("call_user_method", "write $object->$method()"),
    ("each", "use foreach"),
    ("create_function", "write a closure: function () { … }"),
    ("money_format", "use NumberFormatter of intl"),
    ("get_magic_quotes_gpc", "leave the call out: it would give false"),
    ("get_magic_quotes_runtime", "leave the call out: it would give false"),
    ("is_real", "call is_float()"),
    ("read_exif_data", "call exif_read_data()"),
    ("fgetss", "call fgets() and strip_tags()"),
    ("strftime", "use IntlDateFormatter, or date() where no language matters"),
    ("gmstrftime", "use IntlDateFormatter, or gmdate() where no language matters"),
    ("strptime", "call date_parse_from_format()"),
    ("date_sunrise", "call date_sun_info()"),
    ("date_sunset", "call date_sun_info()"),
    ("mhash", "call hash()"),
    ("utf8_encode", "call mb_convert_encoding($text, 'UTF-8', 'ISO-8859-1')"),
    ("utf8_decode", "call mb_convert_encoding($text, 'ISO-8859-1', 'UTF-8')"),
    ("FILTER_SANITIZE_STRING", "use FILTER_UNSAFE_RAW, and htmlspecialchars() where HTML is written"),
    ("assert_options", "set zend.assertions and assert.exception in php.ini"),
    ("lcg_value", "use Random\\Randomizer::getFloat()"),
    ("xml_set_object", "give the parser callables such as [$object, 'method']"),
    ("curl_close", "leave the call out: handles are freed with their last reference"),
    ("curl_share_close", "leave the call out: handles are freed with their last reference"),
    ("imagedestroy", "leave the call out: images are freed with their last reference"),
    ("finfo_close", "leave the call out: objects are freed with their last reference"),
    ("xml_parser_free", "leave the call out: parsers are freed with their last reference"),
    ("socket_set_timeout", "call stream_set_timeout()"),
    ("is_integer", "call is_int()"),
    ("is_long", "call is_int()"),
    ("is_double", "call is_float()"),
    ("doubleval", "call floatval()"),
];

/// What happened to a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// It is there since that version.
    Added,
    /// It is deprecated since that version.
    Deprecated,
    /// It is gone since that version.
    Removed,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version ([`number`]).
    pub version: u16,
    /// What happened.
    pub what: What,
    /// The name as people write it.
    pub name: String,
}

/// All tables, by kind and name as tokens.php has them.
pub struct Changes(HashMap<(String, String), Vec<Change>>);

/// The name by which something of a kind is found.
fn key(kind: &str, name: &str) -> String {
    match kind {
        "function" | "class" => name.to_ascii_lowercase(),
        "method" => name.rsplit("::").next().unwrap_or(name).to_ascii_lowercase(),
        "member" => match name.split_once("::") {
            // Methods are written in any case, constants in theirs.
            Some((class, member)) if member.chars().any(|letter| letter.is_ascii_lowercase()) => {
                format!("{}::{}", class.to_ascii_lowercase(), member.to_ascii_lowercase())
            }
            Some((class, member)) => format!("{}::{member}", class.to_ascii_lowercase()),
            None => name.to_owned(),
        },
        _ => name.to_owned(),
    }
}

impl Changes {
    /// Reads the tables.
    pub fn read() -> Changes {
        let mut all: HashMap<(String, String), Vec<Change>> = HashMap::new();
        for (version, table) in TABLES {
            for line in table.lines().filter(|line| !line.starts_with('#')) {
                let mut columns = line.split('\t');
                let (Some(what), Some(kind), Some(name)) = (columns.next(), columns.next(), columns.next()) else {
                    continue;
                };
                let what = match what {
                    "added" => What::Added,
                    "removed" => What::Removed,
                    _ => What::Deprecated,
                };
                let known = all.entry((kind.to_owned(), key(kind, name))).or_default();
                // The first version that says so counts.
                if known.iter().all(|change| change.what != what) {
                    known.push(Change { version, what, name: name.to_owned() });
                }
            }
        }
        for (form, what, version, name, _) in FORMS {
            let change = Change { version, what, name: name.to_owned() };
            all.insert(("language".to_owned(), form.to_owned()), vec![change]);
        }
        Changes(all)
    }

    /// What happened to a name that the code uses.
    pub fn of(&self, kind: &str, name: &str) -> &[Change] {
        let of = |name: &str| self.0.get(&(kind.to_owned(), name.to_owned())).map(Vec::as_slice);
        let family = || of(&format!("{}_*", name.split_once('_')?.0));
        of(name).or_else(family).unwrap_or(&[])
    }

    /// The names that tokens.php is to look for.
    pub fn names(&self) -> Value {
        let mut kinds: Map<String, Value> = ["function", "class", "constant", "member", "method"]
            .map(|kind| (kind.to_owned(), json!({})))
            .into_iter()
            .collect();
        for (kind, name) in self.0.keys() {
            if let Some(Value::Object(names)) = kinds.get_mut(kind) {
                names.insert(name.clone(), json!(1));
            }
        }
        Value::Object(kinds)
    }
}

/// What to write instead of a symbol, if that is known.
pub fn instead(name: &str) -> Option<&'static str> {
    let of_form = FORMS.iter().find(|(_, _, _, form, _)| *form == name).map(|(.., instead)| *instead);
    of_form.or_else(|| INSTEAD.iter().find(|(gone, _)| *gone == name).map(|(_, instead)| *instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn has(kind: &str, name: &str, what: What, minor: u16) {
        let changes = Changes::read();
        let found = changes.of(kind, name);
        assert!(found.iter().any(|one| one.what == what && one.version == 800 + minor), "{kind} {name}: {found:?}");
    }

    /// A sample of each version's UPGRADING.
    #[test]
    fn the_tables_are_as_phps_notes_say() {
        for (name, minor) in [
            ("str_contains", 0),
            ("array_is_list", 1),
            ("ini_parse_quantity", 2),
            ("json_validate", 3),
            ("str_increment", 3),
            ("array_find", 4),
            ("mb_trim", 4),
            ("array_first", 5),
            ("get_error_handler", 5),
        ] {
            has("function", name, What::Added, minor);
        }
        for (name, minor) in [
            ("strftime", 1),
            ("utf8_encode", 2),
            ("assert_options", 3),
            ("lcg_value", 4),
            ("imagedestroy", 5),
            ("is_integer", 6),
        ] {
            has("function", name, What::Deprecated, minor);
        }
        for name in ["each", "create_function", "get_magic_quotes_gpc", "money_format"] {
            has("function", name, What::Removed, 0);
        }
        for name in ["mysql_connect", "MYSQL_ASSOC", "split"] {
            let kind = if name.contains('A') { "constant" } else { "function" };
            assert!(Changes::read().of(kind, name).iter().any(|one| one.version == 700), "{name}");
        }
        has("class", "random\\randomizer", What::Added, 2);
        has("class", "pdo\\mysql", What::Added, 4);
        has("constant", "MT_RAND_PHP", What::Deprecated, 3);
        has("constant", "E_STRICT", What::Deprecated, 4);
        has("constant", "FILTER_SANITIZE_STRING", What::Deprecated, 1);
        has("member", "pdo::MYSQL_ATTR_INIT_COMMAND", What::Deprecated, 5);
        has("method", "setaccessible", What::Deprecated, 5);
        has("language", "implicit-null", What::Deprecated, 4);
    }

    #[test]
    fn each_table_has_its_version() {
        let versions: Vec<u16> = TABLES.iter().map(|(version, _)| *version).filter(|version| *version >= 800).collect();
        assert_eq!(versions, (800..=800 + u16::from(LAST)).collect::<Vec<u16>>());
        for (version, table) in TABLES {
            let version = named(version);
            assert!(table.starts_with(&format!("# What PHP {version} ")), "{version}");
            assert!(table.lines().skip(1).all(|line| line.split('\t').count() == 3), "{version}");
        }
    }

    #[test]
    fn what_to_write_instead_is_of_what_is_gone() {
        let changes = Changes::read();
        for (name, _) in INSTEAD {
            let found = ["function", "constant"].iter().any(|kind| !changes.of(kind, name).is_empty());
            assert!(found, "{name} is in no table");
        }
    }
}
