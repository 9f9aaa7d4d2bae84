//! Rules of an application with any pattern and any text: they lead nowhere that a URL could not, and break no response.

use http::HeaderMap;
use routing::rules::pattern::{Budget, Pattern, Template, Values};
use routing::rules::rule::{Action, Also, Match, Rule};
use routing::rules::table::{Asked, Ending, Files, Kind, Table};
use routing::rules::users;
use routing::target;

/// Every path is a file of one kind.
struct All(Kind);

impl Files for All {
    fn look(&self, path: &[u8]) -> Kind {
        is_clean(path);
        self.0
    }
}

fn is_clean(path: &[u8]) {
    assert!(path.starts_with(b"/") && !path.windows(2).any(|pair| pair == b"//"));
    assert!(!path.split(|byte| *byte == b'/').any(|segment| segment == b".." || segment == b"."));
    assert!(!path.iter().any(u8::is_ascii_control));
}

/// What goes into a header stays on its line.
fn is_line(text: &[u8]) {
    assert!(!text.iter().any(|byte| byte.is_ascii_control()), "{}", text.escape_ascii());
}

fn rule(on: Match, action: Action) -> Rule {
    Rule { place: "a rule".to_owned(), is_preset: false, on, also: Also::default(), action: Some(action) }
}

/// Four lines: a pattern, what a path that fits is rewritten to, a path, a query.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let [pattern, to, path, query] = [0; 4].map(|_| lines.next().unwrap_or_default());
    let Ok(path) = target::clean(path) else { return };
    let query = query.as_bytes();
    // A request's query has none of these: the framing has refused it.
    if query.iter().any(|byte| !byte.is_ascii_graphic()) {
        return;
    }
    let Ok(compiled) = Pattern::new(pattern) else { return };
    let Ok(template) = Template::new(to, Some(&compiled)) else { return };
    if let Ok(Some(captures)) = compiled.captures(&path, &Budget::new()) {
        let values = Values { captures: &captures, rest: &path[1..], path: &path, query, host: "a.example" };
        let location = template.location(&values);
        is_line(&location);
        assert!(!location.starts_with(b"//"), "another host");
        template.query(&values).iter().for_each(|query| is_line(query));
    }
    let on = |pattern: &str| Match { pattern: Some(pattern.to_owned()), ..Match::default() };
    let rules = [
        rule(Match { prefix: vec!["/closed".to_owned()], ..Match::default() }, Action::Deny(403)),
        rule(on(pattern), Action::Rewrite(to.to_owned())),
        rule(on(pattern), Action::Redirect(302, to.to_owned())),
    ];
    let Ok(table) = Table::new(&rules) else { return };
    let headers = HeaderMap::new();
    let asked = Asked { path: &path, query, host: "a.example", method: "GET", headers: &headers, address: None };
    for kind in [Kind::File, Kind::Nothing] {
        let verdict = table.decide(&asked, &All(kind));
        let end = verdict.path.as_deref().unwrap_or(&path);
        is_clean(end);
        match &verdict.ending {
            Ending::Redirect(_, to) => is_line(to),
            Ending::Serve => assert!(!end.starts_with(b"/closed/"), "a denial holds after a rewrite too"),
            _ => {}
        }
    }
}

/// An htpasswd file: each user that is found can be asked for.
pub fn check_users(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(users) = users::parse(text) else { return };
    assert!(!users.is_empty());
    for (name, hash) in users.iter().take(4) {
        assert!(!name.is_empty() && !name.contains([':', '\n']));
        // bcrypt is slow by intention.
        if hash.starts_with("$2") {
            continue;
        }
        let compared = users::Compared::of(&users, name).expect("a user");
        compared.is_right(b"");
        let unknown = users::Compared::of(&users, "no:body").expect("a hash of another");
        assert!(!unknown.is_right(b"secret"), "nobody has no password");
    }
}
