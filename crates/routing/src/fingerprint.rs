//! Names of files that hold a fingerprint of their content, as bundlers write them: `app.3f2a9c1b.js`, `x-BxY3kd9z.css`. What
//! such a name stands for never changes, so clients may keep it for ever.
//!
//! A name that only looks so would be kept though its file changes. So names are judged strictly, below declared directories
//! alone; dates, versions and words are no fingerprints, and a few fingerprints that could be such are not taken for one.

use crate::settings::Application;

/// Endings that may stand behind the usual one.
const BEHIND: [&[u8]; 4] = [b"map", b"gz", b"br", b"zst"];
/// Digits of the shortest fingerprint, and of the longest (SHA-512).
const HEX: std::ops::RangeInclusive<usize> = 8..=128;
/// Digits of a fingerprint that is the whole name.
const ALONE: std::ops::RangeInclusive<usize> = 16..=128;
/// Letters and digits of the shortest fingerprint in base 64, and of the longest.
const BASE64: std::ops::RangeInclusive<usize> = 7..=44;
/// How often a fingerprint in base 64 changes between lower case, upper case and digits, at least.
const CHANGES: usize = 4;

/// Whether a path lies below one of the application's declared directories and has a name with a fingerprint.
pub fn is_in(application: &Application, path: &[u8]) -> bool {
    let is_below = |directory: &String| {
        let rest = path.strip_prefix(directory.trim_end_matches('/').as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    };
    application.fingerprinted.iter().any(is_below) && is_named(path)
}

/// Whether the last part of a path has a name with a fingerprint.
pub fn is_named(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().is_some_and(has_fingerprint)
}

/// Whether a name holds a fingerprint: before its ending, behind a dot or a dash.
fn has_fingerprint(name: &[u8]) -> bool {
    let mut parts: Vec<&[u8]> = name.split(|byte| *byte == b'.').collect();
    if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) {
        return false;
    }
    while parts.len() > 2 && parts.last().is_some_and(|last| BEHIND.contains(last)) {
        parts.pop();
    }
    // The usual ending.
    parts.pop();
    if parts.len() > 1 && parts.last() == Some(&b"min".as_slice()) {
        parts.pop();
    }
    let Some(last) = parts.last() else { return false };
    let whole = parts.len() == 1;
    match last.rsplit(|byte| *byte == b'-').next() {
        Some(tail) if tail.len() < last.len() => is_hex(tail) || is_base64(tail),
        _ if whole => ALONE.contains(&last.len()) && is_hex(last),
        _ => is_hex(last) || is_base64(last),
    }
}

/// Digits of base 16 in lower case, with letters and figures among them: no date, no number, no word.
fn is_hex(text: &[u8]) -> bool {
    HEX.contains(&text.len())
        && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().any(u8::is_ascii_lowercase)
}

/// Letters and figures without any order: no word with a year or a version.
fn is_base64(text: &[u8]) -> bool {
    let kind = |byte: &u8| match byte {
        b'0'..=b'9' => Some(0),
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        b'_' => Some(3),
        _ => None,
    };
    let Some(kinds) = text.iter().map(kind).collect::<Option<Vec<_>>>() else { return false };
    BASE64.contains(&text.len())
        && [0, 1, 2].iter().all(|wanted| kinds.contains(wanted))
        && kinds.windows(2).filter(|pair| pair[0] != pair[1]).count() >= CHANGES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(directories: &[&str]) -> Application {
        let fingerprinted = directories.iter().map(|one| (*one).to_owned()).collect();
        Application { fingerprinted, ..Application::default() }
    }

    #[test]
    fn names_of_bundlers_are_known() {
        for name in [
            "app.3f2a9c1b.js",
            "app.3f2a9c1b.css.map",
            "app.3f2a9c1b.js.gz",
            "app.3f2a9c1b.min.js",
            "runtime.9a71849d.js",
            "x-BxY3kd9z.js",
            "index-D8b4bPVl.css",
            "app-Q9D2rwn.js",
            "Inter-roman.var-17fe38ab.woff2",
            "logo-d41d8cd98f00b204e9800998ecf8427e.svg",
            "123.abcdef12.js",
            "d41d8cd98f00b204e980.png",
            "main.da39a3ee5e6b4b0d3255bfef95601890afd80709.css",
        ] {
            assert!(has_fingerprint(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn other_names_are_not_taken_for_fingerprints() {
        for name in [
            "app.js",
            "manifest.json",
            "entrypoints.json",
            "jquery-3.7.1.min.js",
            "jquery-ui-1.12.1.js",
            "bootstrap.bundle.js",
            "report-20240101.pdf",
            "report.20240101.pdf",
            "1700000000.js",
            "photo-1700000000123.jpg",
            "annual-Report24.pdf",
            "vacation-Photo2024.jpg",
            "my-homepage.js",
            "my-HomePage.js",
            "icon-download.svg",
            "photo-IMG12345.jpg",
            "DSC-00012345.jpg",
            "x-deadbeef.js",
            "facade.js",
            "brand-V2Report.pdf",
            "app-v2.js",
            "app.3f2a.js",
            "3f2a9c1b.js",
            "3F2A9C1B.js",
            "app.3F2A9C1B.js",
            "3f2a9c1b",
            ".3f2a9c1b.js",
            "app..3f2a9c1b.js",
            "app.3f2a9c1b",
            "app.js.3f2a9c1b",
            "app-.js",
            "",
            ".",
            "-",
            "\u{e9}-3f2a9c1\u{e9}.js",
        ] {
            assert!(!has_fingerprint(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn only_declared_directories_count() {
        let of = |directories: &[&str], path: &str| is_in(&site(directories), path.as_bytes());
        assert!(of(&["/build"], "/build/app.3f2a9c1b.js") && of(&["/a", "/build/"], "/build/assets/x-BxY3kd9z.js"));
        assert!(of(&["/"], "/app.3f2a9c1b.js"));
        for (directories, path) in [
            (&[][..], "/build/app.3f2a9c1b.js"),
            (&["/build"], "/builds/app.3f2a9c1b.js"),
            (&["/build"], "/app.3f2a9c1b.js"),
            (&["/build"], "/build/app.3f2a9c1b.js/"),
            (&["/build"], "/build.3f2a9c1b.js"),
            (&["/build"], "/build/3f2a9c1bcafe0123.d/app.js"),
        ] {
            assert!(!of(directories, path), "{path}");
        }
    }
}
