//! A request target, decoded once and cleaned, or refused.

use std::borrow::Cow;

/// Longest request target; a longer one is answered 414.
pub const MAX_TARGET: usize = 8 * 1024;
/// Longest file name; the file system takes no longer one either.
const MAX_NAME: usize = 255;

/// Why a target is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    /// A malformed or forbidden escape, or a control byte.
    Escape,
    /// `..` leads above the root.
    Above,
}

/// Decodes `%XX` and removes `.`, `..` and empty segments. The result begins with `/`, has no zero byte, and ends with
/// `/` if the target named a directory.
pub fn clean(path: &str) -> Result<String, Bad> {
    let decoded = decode(path)?;
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or(Bad::Above)?;
            }
            name => segments.push(name),
        }
    }
    let directory = decoded.ends_with('/') || decoded.ends_with("/.") || decoded.ends_with("/..");
    let mut clean = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        clean.push('/');
        clean.push_str(segment);
    }
    if directory || clean.is_empty() {
        clean.push('/');
    }
    Ok(clean)
}

/// Bytes that are not UTF-8 stay, as Latin-1 is no path anybody can have meant otherwise: they are refused.
fn decode(path: &str) -> Result<Cow<'_, str>, Bad> {
    if !path.bytes().any(|byte| byte == b'%' || byte < 0x20 || byte == 0x7f) {
        return Ok(Cow::Borrowed(path));
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
        if byte < 0x20 || byte == 0x7f {
            return Err(Bad::Escape);
        }
        decoded.push(byte);
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| Bad::Escape)
}

/// Whether a segment of the path is never served: hidden files, all but `.well-known`.
pub fn is_hidden(path: &str) -> bool {
    path.split('/').any(|segment| segment.starts_with('.') && segment != ".well-known")
}

/// Whether a segment is longer than any file's name.
pub fn is_overlong(path: &str) -> bool {
    path.split('/').any(|segment| segment.len() > MAX_NAME)
}

/// Endings of PHP's source, whatever else may follow them in a name.
const SOURCES: [&str; 10] = ["php", "phtml", "phtm", "pht", "phar", "phps", "phpt", "phpx", "hphp", "inc"];
/// What people and editors put behind an ending to keep a file: `.phpbak`, `.inc_old`.
const KEPT: [&str; 12] = ["bak", "backup", "bk", "copy", "dist", "new", "old", "orig", "sav", "save", "swp", "tmp"];

/// Whether a file of that name holds source code: PHP in any of its endings, also as a backup (`.php.bak`, `.phpold`, `.php~`,
/// `.php-old`). What follows the letters and digits of an ending does not matter. A last ending that begins like one of PHP's
/// counts too, whatever follows.
pub fn is_source(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
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

/// What follows `begin`, in whatever case.
fn after<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(begin.len())?;
    first.eq_ignore_ascii_case(begin).then_some(rest)
}

/// Splits after the first segment that ends in `.php` (ASCII, as written): script path and path info.
pub fn split_script(path: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(found) = path[from..].find(".php") {
        let end = from + found + 4;
        if end == path.len() || path.as_bytes()[end] == b'/' {
            return Some(path.split_at(end));
        }
        from = end;
    }
    None
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
            assert_eq!(clean(raw).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn bad_targets_are_refused() {
        for raw in ["/..", "/a/../..", "/%2e%2e/etc", "/..%2f", "/a/../../b"] {
            assert_eq!(clean(raw), Err(Bad::Above), "{raw}");
        }
        for raw in ["/%00", "/a%0d%0a", "/%zz", "/%1", "/%", "/%ff", "/a%7f"] {
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
            assert!(is_source(name), "{name}");
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
            assert!(!is_source(name), "{name}");
        }
        assert!(is_hidden("/.env") && is_hidden("/a/.git/config") && !is_hidden("/.well-known/x"));
    }

    #[test]
    fn scripts_are_split_from_their_path_info() {
        assert_eq!(split_script("/a.php"), Some(("/a.php", "")));
        assert_eq!(split_script("/a.php/b/c"), Some(("/a.php", "/b/c")));
        assert_eq!(split_script("/a.phpx/b.php/c"), Some(("/a.phpx/b.php", "/c")));
        assert_eq!(split_script("/a.PHP"), None);
        assert_eq!(split_script("/a"), None);
    }
}
