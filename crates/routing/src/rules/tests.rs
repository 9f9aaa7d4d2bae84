//! What the rules promise, over tables and over random rules and paths.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::faults;
use super::rule::{Action, Also, Exists, Match, Rule, Users};
use super::table::{Asked, Ending, Files, Kind, Table};

/// Files by their paths; a path with a slash at its end is a directory.
struct Tree(&'static [&'static str]);

impl Files for Tree {
    fn look(&self, path: &[u8]) -> Kind {
        let is = |path: &[u8]| self.0.iter().any(|one| one.as_bytes() == path);
        match is(path) {
            true if path.ends_with(b"/") => Kind::Directory,
            true => Kind::File,
            false if is(&[path, b"/"].concat()) => Kind::Directory,
            false => Kind::Nothing,
        }
    }
}

fn rule(action: Option<Action>) -> Rule {
    Rule { action, ..Rule::default() }
}

fn deny() -> Rule {
    rule(Some(Action::Deny(403)))
}

impl Rule {
    fn prefix(mut self, prefix: &str) -> Rule {
        self.on.prefix.push(prefix.to_owned());
        self
    }

    fn pattern(mut self, pattern: &str) -> Rule {
        self.on.pattern = Some(pattern.to_owned());
        self
    }

    fn exists(mut self, exists: Exists) -> Rule {
        self.on.exists = Some(exists);
        self
    }

    fn of_preset(mut self) -> Rule {
        self.is_preset = true;
        self
    }
}

fn table(rules: &[Rule]) -> Table {
    let numbered: Vec<Rule> = rules
        .iter()
        .enumerate()
        .map(|(number, rule)| Rule { place: format!("rule {number}"), ..rule.clone() })
        .collect();
    Table::new(&numbered).unwrap()
}

fn rewrite(to: &str) -> Rule {
    rule(Some(Action::Rewrite(to.to_owned())))
}

fn asked<'a>(path: &'a str, headers: &'a HeaderMap) -> Asked<'a> {
    let address = Some([127, 0, 0, 1].into());
    Asked { path: path.as_bytes(), query: b"q=1", host: "a.example", method: "GET", headers, address }
}

fn ending(rules: &[Rule], path: &str) -> String {
    let headers = HeaderMap::new();
    let table = table(rules);
    let verdict = table.decide(&asked(path, &headers), &Tree(&["/index.php", "/a.css", "/dir/", "/on"]));
    let path = verdict.path.as_deref().map(|path| format!(" at {}", String::from_utf8_lossy(path)));
    let query = verdict.query.as_deref().map(|query| format!("?{}", String::from_utf8_lossy(query)));
    let ending = match &verdict.ending {
        Ending::Redirect(status, to) => format!("{status} {}", String::from_utf8_lossy(to)),
        other => format!("{other:?}"),
    };
    format!(
        "{ending}{}{}{}",
        path.unwrap_or_default(),
        query.unwrap_or_default(),
        if verdict.is_allowed { " allowed" } else { "" }
    )
}

#[test]
fn the_first_rule_that_ends_matching_decides() {
    let rules = [
        rule(Some(Action::Allow)).prefix("/data/public"),
        deny().prefix("/data"),
        rule(Some(Action::Redirect(301, "/new/$rest".to_owned()))).prefix("/old"),
        rule(Some(Action::Redirect(302, "https://$host/$1?x=$2".to_owned()))).pattern("^/go/([^/]+)/(.*)$"),
        rewrite("/index.php?title=$1").pattern("^/wiki/(.*)$"),
        rule(Some(Action::Script("/api.php".to_owned()))).prefix("/api/"),
        rule(Some(Action::Maintenance("/down.html".to_owned()))).exists(Exists::Other("/off".to_owned())),
        rule(Some(Action::FrontController("/blog.php".to_owned()))).exists(Exists::Nothing),
    ];
    for (path, expected) in [
        ("/data", "Deny(403)"),
        ("/data/a", "Deny(403)"),
        ("/database", "FrontController(\"/blog.php\")"),
        ("/data/public/a", "Serve allowed"),
        ("/old/a b", "301 /new/a%20b?q=1"),
        ("/go/a/\u{e9}&c", "302 https://a.example/a?x=%C3%A9%26c"),
        ("/wiki/A&B/c", "Serve at /index.php?title=A%26B/c"),
        ("/api/x", "Script(\"/api.php\")"),
        ("/api", "FrontController(\"/blog.php\")"),
        ("/a.css", "Serve"),
    ] {
        assert_eq!(ending(&rules, path), expected, "{path}");
    }
}

#[test]
fn a_preset_denies_what_a_rule_decided_but_not_what_it_allowed() {
    let preset =
        [deny().prefix("/inc").of_preset(), rule(Some(Action::FrontController("/p.php".to_owned()))).of_preset()];
    let with = |own: Option<Rule>, path: &str| ending(&own.into_iter().chain(preset.clone()).collect::<Vec<_>>(), path);
    let all = |action| Some(rule(Some(action)).prefix("/"));
    assert_eq!(with(None, "/inc/a"), "Deny(403)");
    assert_eq!(with(None, "/b"), "FrontController(\"/p.php\")");
    assert_eq!(with(all(Action::FrontController("/own.php".to_owned())), "/inc/a"), "Deny(403)");
    assert_eq!(with(all(Action::FrontController("/own.php".to_owned())), "/b"), "FrontController(\"/own.php\")");
    assert_eq!(with(all(Action::Allow), "/inc/a"), "FrontController(\"/p.php\") allowed");
    // What the configuration itself denies, `allow` behind it does not lift.
    let rules = [deny().prefix("/inc"), rule(Some(Action::Allow)), preset[0].clone()];
    assert_eq!(ending(&rules, "/inc/a"), "Deny(403)");
}

#[test]
fn rules_apply_to_the_path_that_a_rewrite_leads_to() {
    let rules = [deny().prefix("/secret"), rewrite("/$1").pattern("^/show/(.*)$"), rewrite("/$rest/x").prefix("/grow")];
    assert_eq!(ending(&rules, "/show/secret/a"), "Deny(403) at /secret/a");
    assert_eq!(ending(&rules, "/show/a.css"), "Serve at /a.css");
    assert_eq!(ending(&rules, "/show/show/show/secret"), "Deny(403) at /secret");
    assert_eq!(ending(&[rewrite("/a/$1").pattern("^/(.*)$")], "/x").split(' ').next(), Some("Rewrites"));
    assert_eq!(ending(&[rewrite("/index.php").exists(Exists::Nothing)], "/x"), "Serve at /index.php");
    // A rewrite to the same path is none.
    assert_eq!(ending(&[rewrite("/same?x"), deny().prefix("/same")], "/same"), "Deny(403)?x");
    // Nothing leads above the root.
    assert_eq!(ending(&[rewrite("/$1/../../$1").pattern("^/(.*)$")], "/x"), "Rewrites");
}

#[test]
fn what_accumulates_is_collected_up_to_the_end() {
    let also = |name: &str| {
        let headers = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        Rule { also: Also { headers, ..Also::default() }, ..Rule::default() }
    };
    let users = Users { realm: "r".to_owned(), ..Users::default() };
    let guarded = Rule { also: Also { users: Some(users), ..Also::default() }, ..Rule::default() }.prefix("/admin");
    let table = table(&[
        also("x-first"),
        guarded,
        deny().prefix("/no"),
        also("x-second"),
        rewrite("/admin").prefix("/go"),
        also("x-third"),
    ]);
    let headers = HeaderMap::new();
    let of = |path| {
        let verdict = table.decide(&asked(path, &headers), &Tree(&[]));
        let names: Vec<String> = verdict.headers.iter().map(|(name, _)| name.to_string()).collect();
        (names.join(" "), verdict.also.iter().filter(|also| also.users.is_some()).count())
    };
    assert_eq!(of("/a"), ("x-first x-second x-third".to_owned(), 0));
    assert_eq!(of("/no"), ("x-first".to_owned(), 0));
    assert_eq!(of("/admin/x"), ("x-first x-second x-third".to_owned(), 1));
    // Authentication holds for where a rewrite leads.
    assert_eq!(of("/go"), ("x-first x-second x-third".to_owned(), 1));
}

#[test]
fn each_condition_has_to_fit() {
    let on = Match {
        host: vec!["*.example".to_owned()],
        method: vec!["GET".to_owned(), "HEAD".to_owned()],
        header: BTreeMap::from([("x-a".to_owned(), "~^b+$".to_owned()), ("x-b".to_owned(), "*".to_owned())]),
        address: vec!["127.0.0.0/8".parse().unwrap()],
        not_address: vec!["127.0.0.2".parse().unwrap()],
        ..Match::default()
    };
    let table = table(&[Rule { on, ..deny() }]);
    let headers: HeaderMap =
        [("x-a", "bbb"), ("x-b", "")].map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).into_iter().collect();
    let fine = asked("/", &headers);
    let is_denied = |asked: &Asked<'_>| table.decide(asked, &Tree(&[])).ending == Ending::Deny(403);
    assert!(is_denied(&fine));
    let (none, other): (HeaderMap, HeaderMap) = (
        HeaderMap::new(),
        [("x-a", "abb"), ("x-b", "")].map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).into_iter().collect(),
    );
    for wrong in [
        Asked { host: "example", ..asked("/", &headers) },
        Asked { method: "POST", ..asked("/", &headers) },
        Asked { address: Some([10, 0, 0, 1].into()), ..asked("/", &headers) },
        Asked { address: Some([127, 0, 0, 2].into()), ..asked("/", &headers) },
        Asked { address: None, ..asked("/", &headers) },
        asked("/", &none),
        asked("/", &other),
    ] {
        assert!(!is_denied(&wrong));
    }
}

#[test]
fn patterns_made_to_be_slow_end_as_refusals() {
    let rules = [rule(Some(Action::Allow)).pattern(r"^/(a|aa|a?)+(?!b)\1$"), deny()];
    let path = format!("/{}c", "a".repeat(4000));
    let began = std::time::Instant::now();
    assert_eq!(ending(&rules, &path), "Exhausted");
    assert!(began.elapsed().as_secs() < 5);
    // Many patterns on a long path use the budget up.
    let many: Vec<Rule> = (0..900).map(|number| deny().pattern(&format!("(?!x)z{number}$"))).collect();
    assert_eq!(ending(&many, &format!("/{}", "a".repeat(8000))), "Exhausted");
    assert_eq!(ending(&many, "/a"), "Serve");
}

#[test]
fn faults_of_rules_are_named() {
    let users = Some(Users { realm: "r".to_owned(), ..Users::default() });
    let guarded = Rule { also: Also { users, ..Also::default() }, ..Rule::default() };
    for (rules, part) in [
        (vec![Rule::default()], "does nothing"),
        (vec![deny().prefix("/a//b")], "no path is"),
        (vec![deny().prefix("a")], "no path is"),
        (vec![deny().prefix("/a%20b")], "no path is"),
        (vec![deny().pattern("^wiki/")], "begins with another byte"),
        (vec![deny().pattern("(")], "pattern \"(\""),
        (vec![rewrite("/$1")], "names no group"),
        (vec![rewrite("/$nothing")], "there is no variable"),
        (
            vec![Rule { on: Match { path: vec!["/a".into()], ..Match::default() }, ..deny() }.prefix("/b")],
            "below one of its prefixes",
        ),
        (vec![Rule { on: Match { host: vec!["other".into()], ..Match::default() }, ..deny() }], "no host other"),
        (vec![deny(), rule(Some(Action::Allow)).prefix("/a")], "never matches: the rule at rule 0 (deny)"),
        (vec![rule(Some(Action::Allow)).prefix("/a"), guarded.clone().prefix("/a/b")], "never asks for a password"),
        (vec![rewrite("/b").prefix("/a"), rewrite("/a").prefix("/b")], "rewrites without end"),
        (vec![rewrite("/x/$1").pattern("^/(.*)$")], "rewrites without end"),
        (vec![rule(Some(Action::Redirect(301, "/en/$rest".into()))).prefix("/")], "redirects without end"),
        (vec![rule(Some(Action::Mount("/srv".into())))], "exactly one prefix"),
    ] {
        let rules: Vec<Rule> = rules
            .into_iter()
            .enumerate()
            .map(|(number, rule)| Rule { place: format!("rule {number}"), ..rule })
            .collect();
        let faults = faults::find(&rules, &["a.example".to_owned()]);
        assert!(faults.iter().any(|fault| fault.why.contains(part)), "{part}: {faults:?}");
    }
    for rules in [
        vec![deny().prefix("/a"), deny().prefix("/b")],
        vec![rewrite("/index.php?q=$1").pattern("^/(.*)$").exists(Exists::Nothing)],
        vec![rewrite("/index.php/$rest").prefix("/wiki")],
        vec![guarded.prefix("/a"), rule(Some(Action::Allow)).prefix("/a")],
        vec![rule(Some(Action::Redirect(301, "/new/$rest".into()))).prefix("/old")],
        vec![deny().prefix("/a").exists(Exists::File), deny().prefix("/a")],
    ] {
        let rules: Vec<Rule> = rules
            .into_iter()
            .enumerate()
            .map(|(number, rule)| Rule { place: format!("rule {number}"), ..rule })
            .collect();
        assert_eq!(faults::find(&rules, &[]), []);
    }
}

/// Random rules over a small alphabet of paths, so that they meet.
fn random_rule(random: &mut fastrand::Rng) -> Rule {
    let paths = ["/", "/a", "/a/b", "/b", "/a/", "/c.php"];
    let mut path = || random.choice(paths).unwrap_or("/").to_owned();
    let (first, second) = (path(), path());
    let action = match random.u8(..9) {
        0 => Some(Action::Deny(403)),
        1 => Some(Action::Allow),
        2 => Some(Action::Rewrite(first.clone())),
        3 => Some(Action::Rewrite(format!("{first}/$rest"))),
        4 => Some(Action::Rewrite("/$rest/../$rest".to_owned())),
        5 => Some(Action::Redirect(302, format!("{first}$rest"))),
        6 => Some(Action::FrontController("/c.php".to_owned())),
        7 => Some(Action::Script("/c.php".to_owned())),
        _ => None,
    };
    let mut rule = Rule { action, is_preset: random.bool(), ..Rule::default() };
    match random.u8(..4) {
        0 => rule.on.path.push(second),
        1 => rule.on.prefix.push(second),
        2 => rule.on.pattern = Some(["^/a(.*)", "b", r"\.php$", "^/(?!a)"][random.usize(..4)].to_owned()),
        _ => {
            rule.on.exists =
                Some([Exists::File, Exists::Directory, Exists::Nothing, Exists::Any][random.usize(..4)].clone())
        }
    }
    rule.also.is_php_off = random.u8(..6) == 0;
    rule
}

#[test]
fn random_rules_keep_what_all_rules_promise() {
    let mut random = fastrand::Rng::with_seed(21);
    let headers = HeaderMap::new();
    for round in 0..20_000 {
        let mut rules: Vec<Rule> = (0..random.usize(..6)).map(|_| random_rule(&mut random)).collect();
        let table = table(&rules);
        let path = *random.choice(&["/", "/a", "/a/b", "/a/b/c", "/b/", "/c.php", "/\u{ff}"]).unwrap_or(&"/");
        let asked = asked(path, &headers);
        let tree = Tree(&["/a/", "/a/b", "/c.php"]);
        let mut steps = 0;
        let verdict = table.decide_with(&asked, &tree, &mut |_| steps += 1);
        let last = verdict.path.as_deref().unwrap_or(asked.path);
        // It ends, within the number of rewrites that there may be.
        assert!(steps <= rules.len() * (super::table::MAX_REWRITES + 1), "round {round}");
        // Every path that it leads to is one that a URL could name.
        assert_eq!(crate::target::clean_decoded(last).as_deref(), Ok(last), "round {round}");
        // The same request gets the same.
        assert_eq!(table.decide(&asked, &tree).ending, verdict.ending, "round {round}");
        // A location begins with one slash.
        if let Ending::Redirect(_, to) = &verdict.ending {
            assert!(to.starts_with(b"/") && !to.starts_with(b"//"), "round {round}");
        }
        // A denial before all rules wins over all of them, for where they lead too; `allow` does not lift it.
        rules.insert(
            0,
            Rule { on: Match { path: vec![String::from_utf8_lossy(last).into_owned()], ..Match::default() }, ..deny() },
        );
        let denied = self::table(&rules);
        let verdict = denied.decide(&asked, &tree);
        assert!(
            !matches!(verdict.ending, Ending::Serve) || verdict.path.as_deref().unwrap_or(asked.path) != last,
            "round {round}"
        );
    }
}
