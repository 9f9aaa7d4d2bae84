//! Decodes a request's target once and cleans it, or refuses it.

use std::borrow::Cow;

/// Longest request target; a longer one gets 414.
pub const MAX_TARGET: usize = 8 * 1024;
/// Longest file name; file systems have the same limit.
const MAX_NAME: usize = 255;

/// Why a target is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// A malformed or forbidden escape, or a control byte.
    Escape,
    /// `..` leads above the root.
    Above,
}

/// Decodes `%XX` and removes `.`, `..` and empty segments. The result begins with `/`, has no control byte, and ends with
/// `/` if the target named a directory. It need not be UTF-8: names of files are bytes.
pub fn clean(path: &str) -> Result<Vec<u8>, Bad> {
    clean_decoded(&decode(path)?)
}

/// The same for a path without escapes.
pub fn clean_decoded(decoded: &[u8]) -> Result<Vec<u8>, Bad> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop().ok_or(Bad::Above)?;
            }
            name => segments.push(name),
        }
    }
    let directory = [&b"/"[..], b"/.", b"/.."].iter().any(|end| decoded.ends_with(end));
    let mut clean = Vec::with_capacity(decoded.len() + 1);
    for segment in &segments {
        clean.push(b'/');
        clean.extend_from_slice(segment);
    }
    if directory || clean.is_empty() {
        clean.push(b'/');
    }
    Ok(clean)
}

/// Whether a path is as [`clean`] leaves it.
pub fn is_clean(path: &str) -> bool {
    clean(path).is_ok_and(|clean| clean == *path.as_bytes())
}

/// Whether a cleaned path is the other path or below it.
pub fn is_at(path: &[u8], prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix.trim_end_matches('/').as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Decodes `%XX`.
pub fn decode(path: &str) -> Result<Cow<'_, [u8]>, Bad> {
    if !path.bytes().any(|byte| byte == b'%' || byte.is_ascii_control()) {
        return Ok(Cow::Borrowed(path.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or(Bad::Escape);
            (digit()? * 16 + digit()?) as u8
        } else {
            byte
        };
        if byte.is_ascii_control() {
            return Err(Bad::Escape);
        }
        decoded.push(byte);
    }
    Ok(Cow::Owned(decoded))
}

/// Whether a segment of the path is never served: hidden files, all but `.well-known`.
pub fn is_hidden(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment.starts_with(b".") && segment != b".well-known")
}

/// Whether a segment is longer than any file's name.
pub fn is_overlong(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment.len() > MAX_NAME)
}

/// Endings of PHP's source, whatever else may follow them in a name.
const SOURCES: [&str; 10] = ["php", "phtml", "phtm", "pht", "phar", "phps", "phpt", "phpx", "hphp", "inc"];
/// What people and editors append to an ending to keep a copy of a file: `.phpbak`, `.inc_old`.
const KEPT: [&str; 12] = ["bak", "backup", "bk", "copy", "dist", "new", "old", "orig", "sav", "save", "swp", "tmp"];

/// Whether a file of that name holds source code: PHP in any of its endings, also as a backup (`.php.bak`, `.phpold`, `.php~`,
/// `.php-old`). What follows the letters and digits of an ending does not matter. A last ending that begins like one of PHP's
/// counts too, whatever follows.
pub fn is_source(path: &[u8]) -> bool {
    // Bytes that are not UTF-8 are no letters or digits, nor is the character that replaces them.
    let path = String::from_utf8_lossy(path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    let endings = name.split('.').skip(1).map(|part| {
        let end = part.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(part.len());
        &part[..end]
    });
    endings.clone().any(is_source_ending)
        || endings.last().is_some_and(|last| ["php", "phtm"].iter().any(|known| after(last, known).is_some()))
}

fn is_source_ending(ending: &str) -> bool {
    let is_kept = |rest: &str| rest.is_empty() || KEPT.iter().any(|word| rest.eq_ignore_ascii_case(word));
    SOURCES.iter().filter_map(|known| after(ending, known)).any(is_kept)
        || after(ending, "php").is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What follows `begin`, in upper or lower case.
fn after<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(begin.len())?;
    first.eq_ignore_ascii_case(begin).then_some(rest)
}

/// Splits a path after the first segment that ends in `.php` (ASCII, case as written), into the script's path and the path
/// info.
pub fn split_script(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = memchr::memmem::find_iter(path, b".php").map(|found| found + 4);
    ends.into_iter().find(|end| matches!(path.get(*end), None | Some(b'/'))).map(|end| path.split_at(end))
}

/// Path, and query if the target has one, for an upstream: the path as the client sent it, unless a rule rewrote it. A path that means
/// another one once it is cleaned is sent cleaned, so that the upstream sees the path that the rules have judged.
pub fn for_upstream(sent: &str, clean: &[u8], rewritten: Option<&[u8]>) -> Vec<u8> {
    match rewritten {
        None if decode(sent).is_ok_and(|decoded| *decoded == *clean) => sent.as_bytes().to_vec(),
        path => escaped(path.unwrap_or(clean)),
    }
}

/// A path with `%XX` for what is neither unreserved nor a delimiter in paths.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            made.push(byte);
        } else {
            made.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_cleaned() {
        for (raw, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a//b/./c/", "/a/b/c/"),
            ("/a/../b", "/b"),
            ("/a%2Fb", "/a/b"),
            ("/a/..", "/"),
            ("/%C3%A9", "/é"),
            ("/a/%2e%2e/b", "/b"),
            ("", "/"),
        ] {
            assert_eq!(clean(raw).as_deref(), Ok(expected.as_bytes()), "{raw}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_stay() {
        assert_eq!(clean("/caf%e9/%ff.txt").as_deref(), Ok(&b"/caf\xe9/\xff.txt"[..]));
        assert!(is_source(b"/caf\xe9.php\xff") && is_source(b"/\xff.PHP") && is_hidden(b"/\xff/.\xe9"));
        assert_eq!(split_script(b"/\xff.php/\xe9"), Some((&b"/\xff.php"[..], &b"/\xe9"[..])));
    }

    #[test]
    fn limits_are_where_they_are_said_to_be() {
        assert_eq!(MAX_TARGET, 8192);
        let of = |length| ["/a/", &"x".repeat(length), "/b"].concat();
        assert!(!is_overlong(of(255).as_bytes()) && is_overlong(of(256).as_bytes()));
        assert!(is_clean("/a/b/") && !is_clean("/a//b") && !is_clean("/.."));
    }

    #[test]
    fn bad_targets_are_refused() {
        for raw in ["/..", "/a/../..", "/%2e%2e/etc", "/..%2f", "/a/../../b"] {
            assert_eq!(clean(raw), Err(Bad::Above), "{raw}");
        }
        for raw in ["/%00", "/a%0d%0a", "/%zz", "/%1", "/%", "/a%7f"] {
            assert_eq!(clean(raw), Err(Bad::Escape), "{raw}");
        }
    }

    #[test]
    fn sources_and_hidden_files_are_known() {
        for name in [
            "/a.php",
            "/a.PHP",
            "/a.php.bak",
            "/a.php~",
            "/a.phtml",
            "/x.inc",
            "/a.php7",
            "/a.php ",
            "/a.phps",
            "/a.phpbak",
            "/a.PhpOld",
            "/a.phpx",
            "/a.phpt",
            "/a.phtm",
            "/a.hphp",
            "/a.php_",
            "/a.php74",
            "/a.phpbak.txt",
            "/a.phpx.old",
            "/a.incbak",
            "/a.inc-old",
            "/a.phtmlold",
            "/a.pharbak",
            "/a.phpanything",
            "/a.phpanything~",
        ] {
            assert!(is_source(name.as_bytes()), "{name}");
        }
        for name in [
            "/a.css",
            "/php",
            "/a.phpunit.js",
            "/dir.php/a.css",
            "/php.txt",
            "/incoming.txt",
            "/a.p&\u{54f}",
            "/a.ph\u{54f}",
            "/a.incoming",
            "/a.pharmacy",
            "/phpbak",
            "/a.graphql",
            "/a.xphp.js",
        ] {
            assert!(!is_source(name.as_bytes()), "{name}");
        }
        assert!(is_hidden(b"/.env") && is_hidden(b"/a/.git/config") && !is_hidden(b"/.well-known/x"));
    }

    #[test]
    fn scripts_are_split_from_their_path_info() {
        assert_eq!(split_script(b"/a.php"), Some((&b"/a.php"[..], &b""[..])));
        assert_eq!(split_script(b"/a.php/b/c"), Some((&b"/a.php"[..], &b"/b/c"[..])));
        assert_eq!(split_script(b"/a.phpx/b.php/c"), Some((&b"/a.phpx/b.php"[..], &b"/c"[..])));
        assert_eq!(split_script(b"/a.PHP"), None);
        assert_eq!(split_script(b"/a"), None);
    }

    #[test]
    fn paths_go_as_they_came_unless_they_mean_others() {
        for (sent, clean, rewritten, made) in [
            ("/a%2Fb", "/a/b", None, "/a%2Fb"),
            ("/%61", "/a", None, "/%61"),
            ("/a/../b", "/b", None, "/b"),
            ("/a%2F..%2Fb", "/b", None, "/b"),
            ("//a//b", "/a/b", None, "/a/b"),
            ("/x", "/x", Some("/a b?#%é"), "/a%20b%3F%23%25%C3%A9"),
        ] {
            let made_of = for_upstream(sent, clean.as_bytes(), rewritten.map(str::as_bytes));
            assert_eq!(String::from_utf8(made_of).unwrap(), made, "{sent}");
        }
    }
}
