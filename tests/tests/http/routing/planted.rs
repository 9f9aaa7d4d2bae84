//! The trees of applications that have a preset, and URLs of them. Only the names are the applications' own: each script says its
//! name, its path info and its query; each file says its name; what is PHP's source is told from both.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::peer::run_to_end;
use tests::server::project;

use super::documented::{Site, Tree};

const SAY: &str =
    "<?php echo 'script ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['QUERY_STRING'];";

/// Makes the tree of a site; returns its document root.
pub fn plant(directory: &Path, site: &Site) -> PathBuf {
    let root = directory.join(site.name).join("public");
    fs::create_dir_all(&root).expect("a directory");
    for name in names(site) {
        let path = root.join(&name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        if !path.is_dir() {
            fs::write(&path, if is_source(&name) { SAY.to_owned() } else { format!("file /{name}") }).expect("a file");
        }
    }
    root
}

/// Whether a name is one of PHP's, which is never sent.
fn is_source(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    [".php", ".phtml", ".inc", ".phar"].iter().any(|ending| name.contains(ending))
}

/// All names of a site's tree.
fn names(site: &Site) -> BTreeSet<String> {
    let own = site.files.iter().chain(site.denied).copied().chain(site.listing.lines()).map(str::to_owned);
    let mut names: BTreeSet<String> = own.collect();
    let package = match site.tree {
        Tree::Installed(root) => Some(PathBuf::from(root)),
        Tree::Unpacked(root) if tests::amount(0, 1) == 1 => Some(unpacked(site.name).join(root)),
        Tree::Listing | Tree::Unpacked(_) => None,
    };
    if let Some(root) = package {
        let found = found(&root);
        assert!(found.len() > 100, "{} has no tree", root.display());
        // MediaWiki has some 24,000 files.
        names.extend(evenly(found, tests::amount(100, 6000)));
    }
    names
}

/// The packages of an application, which are downloaded unless they are there.
fn unpacked(name: &str) -> PathBuf {
    let place = std::env::var_os("REPRISE_UNPACKED").map_or("/var/cache/reprise/unpacked".into(), PathBuf::from);
    run_to_end(Command::new(project().join("tests/apps/unpack.sh")).arg(&place).arg(name));
    place.join(name)
}

/// The files below a directory.
fn found(directory: &Path) -> Vec<String> {
    let output =
        Command::new("find").arg("-L").arg(directory).args(["-type", "f", "-printf", "%P\\n"]).output().expect("find");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> = text.lines().map(str::to_owned).filter(|name| !name.is_empty()).collect();
    names.sort();
    names
}

/// As many, of all kinds: in an order that has nothing to do with their own, and is the same in each run.
pub fn evenly<T: AsRef<[u8]>>(mut all: Vec<T>, most: usize) -> Vec<T> {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    if all.len() > most {
        all.sort_by_cached_key(|one| one.as_ref().iter().fold(0xcbf2_9ce4_8422_2325, hash));
        all.truncate(most);
    }
    all
}

/// A path as a URL has it, with its slashes.
pub fn escaped(path: &str) -> String {
    let escape = |byte: u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'~' | b'@' | b'+' | b',' | b'=' | b':' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
}

/// What `%XX` in a text stands for.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = (byte == b'%').then(|| behind.get(..2)).flatten();
        let decoded = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path as both servers understand it: decoded, without a query or a fragment and without what leads nowhere.
pub fn plain(url: &str) -> String {
    let path = decoded(url.split(['?', '#']).next().unwrap_or(url));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
        match segment {
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let is_directory = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let tail = if is_directory && !segments.is_empty() { "/" } else { "" };
    format!("/{}{tail}", segments.join("/"))
}

/// URLs of a site: `most`, half of them of its rules if there are as many, the others of its tree.
pub fn urls(root: &Path, site: &Site, most: usize) -> Vec<String> {
    let more: Vec<String> = site.more.iter().map(|path| (*path).to_owned()).collect();
    let ruled = evenly(of_rules(site).into_iter().collect(), (most / 2).saturating_sub(more.len()));
    let planted = evenly(of_tree(root).into_iter().collect(), most - more.len() - ruled.len());
    [more, ruled, planted].concat()
}

/// Ways to a name by others: by what is sent, by scripts, in other cases, and with what a location for pictures fits.
pub fn detours(name: &str) -> Vec<Vec<u8>> {
    let at = escaped(name);
    let mut targets = Vec::new();
    for before in ["index.php", "robots.txt", "favicon.ico", "css/app.css", ".well-known", "images"] {
        for step in
            ["/../", "/%2e%2e/", "/..%2f", "//../", "/x/../../", "/..;/", "%00/../", "?/../", "%3f/../", "#/../"]
        {
            targets.push(format!("/{before}{step}{at}"));
        }
    }
    for tail in [
        ".css",
        ".png",
        "/a.css",
        "/a.png",
        "/a.js",
        "/.css",
        "%2fa.css",
        "%00.css",
        "%0a.css",
        ";a.css",
        "?.css",
        "/index.php",
    ] {
        targets.push(format!("/{at}{tail}"));
    }
    let swapped = |letter: char| {
        if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
    };
    targets.extend(
        [at.to_uppercase(), at.to_lowercase(), at.chars().map(swapped).collect()].map(|path| format!("/{path}")),
    );
    targets.into_iter().map(String::into_bytes).collect()
}

/// Files and directories of a tree in several spellings, and what is not there.
fn of_tree(root: &Path) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for name in found(root) {
        let mut above = name.as_str();
        while let Some((directory, _)) = above.rsplit_once('/') {
            let at = escaped(directory);
            for tail in
                ["", "/", "/?a=b", "//", "/none.txt", "/none.php", "/none", "/none/x?a=b", "/none.png", "/index.html"]
            {
                paths.insert(format!("/{at}{tail}"));
            }
            above = directory;
        }
        let at = escaped(&name);
        for tail in [
            "",
            "?a=b&c=%2F",
            "/",
            "/info/x?q=1",
            "/style.css",
            "~",
            ".bak",
            "x",
            "%20",
            "?",
            ";a=b",
            ".",
            "/..",
            "/.",
            "%2e",
            "/%2e%2e/",
            "/index.php",
            "/a.php?a=b",
            "%3Fa=b",
            "?a=/../b.php",
            "%00",
            "%0A",
        ] {
            paths.insert(format!("/{at}{tail}"));
        }
        for before in ["//", "/./", "/none/../", "/none/", "/%2e/", "/none/%2E%2e/", "/none//../", "/index.php/"] {
            paths.insert(format!("{before}{at}?a=b"));
        }
        paths.insert(format!("/{}", at.to_uppercase().replace("%2f", "%2F")));
        if let Some((above, last)) = at.rsplit_once('/') {
            paths.insert(format!("/{above}//{last}"));
            paths.insert(format!("/{above}%2F{last}"));
            paths.insert(format!("/{above}/./{last}"));
        }
        if let Some(first) = at.bytes().next().filter(u8::is_ascii_alphanumeric) {
            paths.insert(format!("/%{first:02x}{}", &at[1..]));
        }
    }
    paths
}

/// What rules name, and what nearly has such a name.
fn of_rules(site: &Site) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let endings = || site.endings.iter().copied().chain(["/", "", ".txt", "/x"]);
    for place in site.places {
        for ending in endings() {
            for name in ["", "/a", "/index", "/none", "/a/b", "/.x", "/x.y/z", "x", "-x", ".x", "/a.b", "/A/B-c_1"] {
                paths.insert(format!("/{place}{name}{ending}"));
            }
            paths.insert(format!("/x/{place}/a{ending}"));
            // A pattern may only go back so often.
            paths.insert(format!("/{place}{}{ending}", "/a".repeat(3700)));
            paths.insert(format!("/{}/{place}{ending}", "a.b".repeat(2500)));
            paths.insert(format!("/{place}{}{ending}", "/index.php".repeat(740)));
            paths.insert(format!("/x{place}/a{ending}?a=b"));
            paths.insert(format!("/{}/a{ending}", place.to_uppercase()));
            paths.insert(format!("/{}/a{}", place, ending.to_uppercase()));
        }
    }
    for ending in site.endings {
        for name in ["", "a", "index", "x/a", "x/y.z/a", ".a", "a.b", "none", "a-1", "Entries"] {
            for tail in ["", "/", "/x", "~", ".bak", ".txt", "?a=b", "x"] {
                paths.insert(format!("/{name}{ending}{tail}"));
            }
        }
    }
    paths
}
