//! Rules that are wrong: `reprise check` names line and rule, a start refuses them, and a reload goes on with the old ones.

use std::fs;
use std::process::Command;

use tests::Setup;
use tests::server::{Directory, program};

fn check(routes: &str) -> (Option<i32>, String) {
    let directory = Directory::new();
    fs::create_dir(directory.0.join("www")).expect("a directory");
    fs::write(directory.0.join("www/index.php"), "").expect("a file");
    fs::write(directory.0.join("users"), "a:plain").expect("a file");
    let config = directory.0.join("reprise.toml");
    fs::write(&config, format!("[[application]]\nroot = \"www\"\nhosts = [\"a.example\"]\n{routes}")).expect("a file");
    let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise check");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Each mistake is an error that names the line and says what is wrong.
#[test]
fn each_mistake_is_named_with_its_line() {
    for (lines, line, part) in [
        ("index = [\"a/b.php\"]", 4, "'index' takes names of files, not \"a/b.php\""),
        ("index = [\"\"]", 4, "'index' takes names of files, not \"\""),
        ("index = [\".x\"]", 4, "'index' takes names of files, not \".x\""),
        ("index = \"index.php\"", 4, "'index'"),
        ("[[application.route]]\npath = \"/a\"\nrewrite = \"/b%2\"", 4, "two hexadecimal digits"),
        ("[[application.route]]\nprefx = \"/a\"\ndeny = true", 5, "did you mean 'prefix'?"),
        ("[[application.route]]\nprefix = \"/a\"", 4, "rule 1 (prefix /a) the rule does nothing"),
        ("[[application.route]]\nprefix = \"/a\"\ndeny = true\nallow = true", 4, "it has deny and allow"),
        ("[[application.route]]\npattern = \"(\"\ndeny = true", 4, "rule 1 (pattern () pattern"),
        ("[[application.route]]\nprefix = \"/a/../b\"\ndeny = true", 4, "no path is"),
        ("[[application.route]]\ndeny = 500", 5, "takes true, 403, 404 or 410"),
        ("[[application.route]]\nredirect = \"//evil\"", 5, "takes a path"),
        ("[[application.route]]\nredirect = \"/a\"\nstatus = 200", 6, "takes 301"),
        ("[[application.route]]\ndeny = true\nstatus = 301", 6, "belongs to a rule with redirect"),
        ("[[application.route]]\nrewrite = \"/$1\"", 4, "names no group"),
        ("[[application.route]]\npattern = '^/(.*)$'\nrewrite = \"/x/$1\"", 4, "rewrites without end"),
        ("[[application.route]]\nscript = \"none.php\"", 5, "script none.php is not a file"),
        ("[[application.route]]\nscript = \"../x.php\"", 5, "outside the root"),
        ("[[application.route]]\nprefix = \"/a\"\nmount = \"none\"", 6, "none"),
        ("[[application.route]]\nprefix = \"/a\"\nmount = \"/\"", 6, "and not /"),
        ("[[application.route]]\nmount = \"www\"", 4, "exactly one prefix"),
        ("[[application.route]]\nusers = \"none\"", 5, "htpasswd -cB FILE USER makes one"),
        ("[[application.route]]\nusers = \"users\"", 5, "line 1: user 'a': its hash is none of"),
        ("[[application.route]]\nrealm = \"x\"\ndeny = true", 5, "belongs to a rule with users"),
        ("[[application.route]]\nmaintenance = \"/down.html\"", 5, "which is no file"),
        ("[[application.route]]\nerror_pages = { \"200\" = \"/x\" }", 5, "no status of an error"),
        ("[[application.route]]\nexpires = \"soon\"", 5, "takes a time"),
        ("[[application.route]]\nphp = true", 5, "takes false"),
        ("[[application.route]]\naddress = \"x\"\ndeny = true", 5, "no address or network"),
        ("[[application.route]]\nexists = \"maybe\"\ndeny = true", 5, "takes \"file\""),
        ("[[application.route]]\nheaders = { \"a b\" = \"x\" }", 4, "no name of a header"),
        ("[[application.route]]\nhost = \"b.example\"\ndeny = true", 4, "has no host b.example"),
        (
            "[[application.route]]\nallow = true\n[[application.route]]\nprefix = \"/a\"\ndeny = true",
            6,
            "rule 2 (prefix /a) never matches",
        ),
        ("[application.route]\ndeny = true", 4, "two brackets"),
    ] {
        let (code, said) = check(lines);
        assert_eq!(code, Some(78), "{lines}: {said}");
        assert!(said.contains(&format!("reprise.toml:{line}: ")), "{lines}: {said}");
        assert!(said.contains(part), "{lines}: {said}");
    }
    let (code, said) = check("[[application.route]]\nprefix = \"/a\"\ndeny = true");
    assert_eq!(code, Some(0), "{said}");
}

/// A reload to wrong rules is refused, and the old ones go on.
#[test]
fn a_reload_to_wrong_rules_is_refused() {
    let server = Setup::empty().file("a.txt", "a").route("path = \"/a.txt\"\ndeny = true").start();
    server.reconfigure("deny = true", "deny = 418");
    let (went_well, said) = server.reload();
    assert!(!went_well && said.contains("takes true, 403, 404 or 410"), "{said}");
    assert_eq!(server.get("/a.txt").status, 403);
}

/// A pattern made to be slow is given up, and so is what rewrites for ever in a way that the check cannot see.
#[test]
fn slow_patterns_and_endless_rewrites_are_given_up() {
    let server = Setup::empty()
        .file("a.txt", "a")
        .route("pattern = '^/s(a|aa|a?)+(?!b)\\1x$'\nallow = true")
        .route("pattern = '^/odd(.+)$'\nrewrite = \"/odd$1$1\"")
        .start();
    for path in [format!("/s{}c", "a".repeat(2000)), "/odd1".to_owned()] {
        let answer = server.get(&path);
        assert_eq!((answer.status, answer.header("reprise-refused")), (500, Some("rule-failed")));
    }
    assert_eq!(server.get("/a.txt").status, 200);
}
