//! What the `.htaccess` files on the way to a file deny to a stranger: a client of any address that has no password and asks with GET. As in
//! Apache 2.4, an inner file replaces the access of the outer one, `<Files>` comes after both, mod_access_compat (Order, Allow, Deny) and
//! Require both have to allow, and rules of mod_rewrite and redirects to a status deny, too.

use super::asked::{Asked, Scope};
use super::directives::Directive;
use super::rewriting;

/// What denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A password is asked for.
    Password,
    /// Nobody gets it.
    Denial,
}

/// A denial, and the directive that makes it.
pub struct Denial<'a> {
    pub kind: Kind,
    pub scope: &'a Scope,
    pub by: &'a Directive,
}

/// What the scopes on its way, the outermost first, deny of a file.
pub fn denial<'a>(scopes: &[&'a Scope], asked: &Asked<'_>) -> Option<Denial<'a>> {
    access(scopes, asked)
        .or_else(|| redirected(scopes, asked))
        .or_else(|| rewriting::denial(scopes, asked).map(|(scope, by)| Denial { kind: Kind::Denial, scope, by }))
}

/// What has a say on access, in the order in which later ones replace earlier ones.
fn access<'a>(scopes: &[&'a Scope], asked: &Asked<'_>) -> Option<Denial<'a>> {
    let mut layers: Vec<(&'a Scope, Vec<&'a Directive>)> = Vec::new();
    let mut of_files = Vec::new();
    for scope in scopes {
        layers.push((scope, for_get(&scope.directives)));
        let fits = |section: &&Directive| is_of_file(section, asked);
        of_files.extend(scope.directives.iter().filter(fits).map(|section| (*scope, for_get(&section.inside))));
    }
    layers.extend(of_files);
    let (mut required, mut compatible, mut is_any) = (None, None, false);
    for (scope, layer) in layers {
        let requires = layer.iter().any(|one| one.name.starts_with("require") || one.name.starts_with("<require"));
        if requires {
            let (verdict, by) = any(&layer);
            let password = layer.iter().find(|one| one.name == "authtype").copied();
            let by = if verdict == Verdict::Password { password.or(by) } else { by };
            required = by.map(|by| (verdict, scope, by));
        }
        if layer.iter().any(|one| ["order", "allow", "deny"].contains(&one.name.as_str())) {
            compatible = Some((order(&layer), scope));
        }
        if let Some(satisfy) = layer.iter().find(|one| one.name == "satisfy") {
            is_any = satisfy.is(0, "any");
        }
    }
    let required = required.filter(|(verdict, ..)| *verdict != Verdict::Granted);
    let compatible = compatible.and_then(|(by, scope)| Some((by?, scope)));
    // `Satisfy Any`: one of both suffices.
    if is_any && (required.is_none() || compatible.is_none()) {
        return None;
    }
    match (required, compatible) {
        (Some((Verdict::Password, scope, by)), None) => Some(Denial { kind: Kind::Password, scope, by }),
        (Some((Verdict::Password, scope, by)), Some(_)) if is_any => Some(Denial { kind: Kind::Password, scope, by }),
        (_, Some((by, scope))) => Some(Denial { kind: Kind::Denial, scope, by }),
        (Some((_, scope, by)), None) => Some(Denial { kind: Kind::Denial, scope, by }),
        (None, None) => None,
    }
}

/// The directives that hold for GET: what `<Limit>` and `<LimitExcept>` leave.
fn for_get(directives: &[Directive]) -> Vec<&Directive> {
    let mut all = Vec::new();
    for directive in directives {
        let has_get = directive.arguments.iter().any(|method| method.eq_ignore_ascii_case("get"));
        match directive.name.as_str() {
            "<limit" if has_get => all.extend(for_get(&directive.inside)),
            "<limitexcept" if !has_get => all.extend(for_get(&directive.inside)),
            "<limit" | "<limitexcept" => {}
            _ => all.push(directive),
        }
    }
    all
}

/// Whether a `<Files>` or `<FilesMatch>` is of a file, by the file's own name.
fn is_of_file(section: &Directive, asked: &Asked<'_>) -> bool {
    let name = asked.path.rsplit('/').next().unwrap_or(asked.path);
    let is_pattern = section.name == "<filesmatch" || (section.name == "<files" && section.argument(0) == "~");
    if is_pattern {
        let pattern = section.arguments.last().map_or("", String::as_str);
        return asked.patterns.is_match(pattern, name, false).unwrap_or(false);
    }
    section.name == "<files" && is_glob(section.argument(0).as_bytes(), name.as_bytes())
}

/// Whether a name is of a shell's pattern: `*`, `?` and `[…]`. Only the last `*` is tried again, so it takes no more than their lengths multiplied.
fn is_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, name);
    let mut again = None;
    while !left.is_empty() || !rest.is_empty() {
        if let Some((b'*', behind)) = rest.split_first() {
            again = Some((behind, left));
            rest = behind;
        } else if let Some((behind, next)) = one_of(rest, left) {
            (rest, left) = (behind, next);
        } else if let Some((behind, [_, next @ ..])) = again {
            again = Some((behind, next));
            (rest, left) = (behind, next);
        } else {
            return false;
        }
    }
    true
}

/// What follows in a pattern without `*` and in a name, if the first letter fits.
fn one_of<'a, 'b>(pattern: &'a [u8], name: &'b [u8]) -> Option<(&'a [u8], &'b [u8])> {
    let ((first, pattern), (letter, name)) = (pattern.split_first()?, name.split_first()?);
    match first {
        b'?' => Some((pattern, name)),
        b'[' => {
            let end = pattern.iter().position(|byte| *byte == b']')?;
            let is_not = matches!(pattern.first(), Some(b'!' | b'^'));
            let set = pattern.get(usize::from(is_not)..end)?;
            let ranges = set.windows(3).any(|part| part[1] == b'-' && (part[0]..=part[2]).contains(letter));
            ((set.contains(letter) || ranges) != is_not).then_some((&pattern[end + 1..], name))
        }
        first => (first == letter).then_some((pattern, name)),
    }
}

/// What a requirement says of a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Granted,
    Password,
    Denied,
}

/// One of them has to grant: `<RequireAny>`, and directives without a section.
fn any<'a>(directives: &[&'a Directive]) -> (Verdict, Option<&'a Directive>) {
    verdicts(directives)
        .min_by_key(|(verdict, _)| *verdict)
        .map_or((Verdict::Granted, None), |(verdict, by)| (verdict, Some(by)))
}

fn verdicts<'a>(directives: &[&'a Directive]) -> impl Iterator<Item = (Verdict, &'a Directive)> {
    directives.iter().copied().filter_map(|one| Some((verdict(one)?, one)))
}

/// What one says; `None`: it has no say alone.
fn verdict(directive: &Directive) -> Option<Verdict> {
    let inside = || directive.inside.iter().collect::<Vec<_>>();
    Some(match directive.name.as_str() {
        "<requireany" => any(&inside()).0,
        "<requireall" => verdicts(&inside()).map(|(verdict, _)| verdict).max().unwrap_or(Verdict::Granted),
        "<requirenone" if any(&inside()).0 == Verdict::Granted => Verdict::Denied,
        "require" => match directive.argument(0).to_ascii_lowercase().as_str() {
            "all" if directive.is(1, "denied") => Verdict::Denied,
            "ip" | "host" | "local" | "env" | "forward-dns" => Verdict::Denied,
            "valid-user" | "user" | "group" | "ldap-user" | "ldap-group" | "ldap-attribute" | "ldap-filter" => {
                Verdict::Password
            }
            // Of addresses that strangers do not have.
            "not" => return None,
            _ => Verdict::Granted,
        },
        _ => return None,
    })
}

/// What `Order`, `Allow` and `Deny` say of any address: the directive that denies.
fn order<'a>(layer: &[&'a Directive]) -> Option<&'a Directive> {
    let named = |name: &str| layer.iter().rfind(|one| one.name == name).copied();
    let of_all = |name: &str| {
        let is_all =
            |one: &&&Directive| one.name == name && one.arguments.iter().any(|word| word.eq_ignore_ascii_case("all"));
        layer.iter().find(is_all).copied()
    };
    let allows_first = named("order").is_some_and(|order| order.argument(0).to_ascii_lowercase().starts_with("allow"));
    match (allows_first, of_all("allow"), of_all("deny")) {
        (true, Some(_), denied) => denied,
        (true, None, denied) => denied.or_else(|| named("order")),
        (false, None, denied) => denied,
        (false, Some(_), _) => None,
    }
}

/// A redirect to a status that is none: `Redirect gone /path`, `RedirectMatch 403 pattern`.
fn redirected<'a>(scopes: &[&'a Scope], asked: &Asked<'_>) -> Option<Denial<'a>> {
    let all = scopes.iter().flat_map(|scope| scope.directives.iter().map(|one| (*scope, one)));
    let denies = |(_, one): &(&Scope, &Directive)| {
        denies_by_status(one)
            && match one.name.as_str() {
                "redirect" => asked
                    .path
                    .strip_prefix(one.argument(1))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
                _ => asked.patterns.is_match(one.argument(1), asked.path, false).unwrap_or(false),
            }
    };
    all.filter(|pair| denies(pair)).map(|(scope, by)| Denial { kind: Kind::Denial, scope, by }).next()
}

/// Whether a redirect gives a status of 4xx or 5xx.
pub fn denies_by_status(directive: &Directive) -> bool {
    let is_redirect = ["redirect", "redirectmatch"].contains(&directive.name.as_str());
    let status = directive.argument(0);
    is_redirect && (status.eq_ignore_ascii_case("gone") || (status.len() == 3 && status.starts_with(['4', '5'])))
}

#[cfg(test)]
mod tests {
    use super::super::asked::Patterns;
    use super::super::directives::{in_force, parse};
    use super::*;

    fn scope(directory: &str, text: &str) -> Scope {
        Scope {
            file: format!("{directory}/.htaccess"),
            directory: directory.to_owned(),
            directives: in_force(parse(text)),
        }
    }

    /// The line that denies a file of `/d`, by the root's file and that of `/d`.
    fn line(outer: &str, inner: &str, path: &str) -> Option<(Kind, u32)> {
        let scopes = [scope("", outer), scope("/d", inner)];
        let asked = Asked { patterns: &Patterns::default(), path, file: &format!("/srv{path}") };
        denial(&scopes.iter().collect::<Vec<_>>(), &asked).map(|found| (found.kind, found.by.line))
    }

    #[test]
    fn access_is_decided_as_apache_does() {
        let denied = |line| Some((Kind::Denial, line));
        for (outer, inner, expected) in [
            ("Require all denied", "", denied(1)),
            ("Require all denied", "Require all granted", None),
            ("Deny from all", "Order deny,allow\nAllow from all", None),
            ("", "Order deny,allow\nDeny from all\nAllow from 127.0.0.1", denied(2)),
            ("", "Order allow,deny\nAllow from 10.0.0.0/8", denied(1)),
            ("", "Order allow,deny\nAllow from all", None),
            ("", "Deny from all\nAllow from all", None),
            ("", "AuthType Basic\nRequire valid-user", Some((Kind::Password, 1))),
            ("", "Require valid-user\nDeny from all\nSatisfy Any", Some((Kind::Password, 1))),
            ("", "Require all granted\nDeny from all", denied(2)),
            ("", "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>", None),
            ("", "<RequireAll>\nRequire all granted\nRequire ip 10.0.0.1\n</RequireAll>", denied(1)),
            ("", "<RequireNone>\nRequire all granted\n</RequireNone>", denied(1)),
            ("", "Require ip 10.0.0.1\nRequire all granted", None),
            ("", "<Files b.*>\nDeny from all\n</Files>", denied(2)),
            ("", "<Files c.txt>\nDeny from all\n</Files>", None),
            ("", "<FilesMatch \"\\.(txt|ini)$\">\nRequire all denied\n</FilesMatch>", denied(2)),
            ("", "Require all denied\n<Files b.txt>\nRequire all granted\n</Files>", None),
            ("<Files b.txt>\nRequire all denied\n</Files>", "Require all granted", denied(2)),
            ("", "<LimitExcept GET POST>\nDeny from all\n</LimitExcept>", None),
            ("", "<Limit GET>\nDeny from all\n</Limit>", denied(2)),
            ("", "# Deny from all", None),
            ("Redirect gone /d", "", denied(1)),
            ("RedirectMatch 403 ^/d/", "", denied(1)),
            ("RedirectMatch 301 ^/d/ /e", "", None),
            ("RedirectMatch 404 \\.ini$", "", None),
        ] {
            assert_eq!(line(outer, inner, "/d/b.txt"), expected, "{outer} | {inner}");
        }
    }

    #[test]
    fn rules_that_deny_are_tried_in_their_order() {
        let denied = |line| Some((Kind::Denial, line));
        for (outer, inner, expected) in [
            ("RewriteEngine On\nRewriteRule ^d/ - [F]", "", denied(2)),
            ("RewriteEngine On\nRewriteRule ^d/ - [R=404,L]", "", denied(2)),
            ("RewriteEngine On\nRewriteRule \\.TXT$ - [NC,G]", "", denied(2)),
            ("RewriteEngine On\nRewriteRule ^d/ - [R=410]", "RewriteEngine Off", None),
            ("RewriteRule ^d/ - [F]", "", None),
            ("", "RewriteEngine On\nRewriteRule ^b\\.txt$ - [F]", denied(2)),
            ("RewriteEngine On\nRewriteRule ^d/b - [L]\nRewriteRule . - [F]", "", None),
            ("RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule . - [F]", "", denied(3)),
            ("RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . - [F]", "", None),
            (
                "RewriteEngine On\nRewriteCond %{REQUEST_URI} ^/e [OR]\nRewriteCond %{REQUEST_URI} ^/d\nRewriteRule . - [F]",
                "",
                denied(4),
            ),
            ("RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} bad\nRewriteRule . - [F]", "", None),
            ("RewriteEngine On\nRewriteRule . index.php [L]\nRewriteRule . - [F]", "", None),
            ("RewriteEngine On\nRewriteRule !^e/ - [F]", "", denied(2)),
        ] {
            assert_eq!(line(outer, inner, "/d/b.txt"), expected, "{outer} | {inner}");
        }
    }

    #[test]
    fn names_of_files_are_patterns_of_a_shell() {
        for (pattern, name, expected) in [
            ("*.in[ic]", "a.ini", true),
            ("*.in[!ic]", "a.ini", false),
            ("a?c", "abc", true),
            ("*", "", true),
            ("a-[0-9]", "a-7", true),
        ] {
            assert_eq!(is_glob(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
