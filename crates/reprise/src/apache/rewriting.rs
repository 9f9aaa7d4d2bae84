//! Which rules of mod_rewrite deny a path: `[F]`, `[G]` and `[R=4xx]`. Conditions are known as far as path, file and method decide them; a
//! rule with another one is left out, because it is of some clients alone.

use super::asked::{Asked, Patterns, Scope};
use super::directives::Directive;

/// The flags of a rule or a condition, in lower case.
fn flags(directive: &Directive, number: usize) -> Vec<String> {
    let text = directive.argument(number).trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    text.split(',').map(|flag| flag.trim().to_owned()).collect()
}

/// Whether a rule denies what fits.
pub fn denies(rule: &Directive) -> bool {
    flags(rule, 2).iter().any(|flag| {
        let status = flag.strip_prefix("r=").or_else(|| flag.strip_prefix("redirect="));
        ["f", "forbidden", "g", "gone"].contains(&flag.as_str())
            || status.is_some_and(|status| status.starts_with(['4', '5']))
    })
}

/// The rule that denies a file: of the innermost directory that has rules, as rules of outer ones are not inherited.
pub fn denial<'a>(scopes: &[&'a Scope], asked: &Asked<'_>) -> Option<(&'a Scope, &'a Directive)> {
    let has_rules = |scope: &&&Scope| scope.directives.iter().any(|one| one.name.starts_with("rewrite"));
    let scope = *scopes.iter().rfind(has_rules)?;
    let engine = scopes.iter().flat_map(|scope| &scope.directives).rfind(|one| one.name == "rewriteengine");
    if !engine.is_some_and(|engine| engine.is(0, "on")) {
        return None;
    }
    let path = asked.path.strip_prefix(scope.directory.as_str())?.trim_start_matches('/');
    let mut conditions: Vec<&Directive> = Vec::new();
    let (mut skipped, mut is_chain_broken) = (0_usize, false);
    for directive in &scope.directives {
        match directive.name.as_str() {
            "rewritecond" => conditions.push(directive),
            "rewriterule" => {
                let of_rule = std::mem::take(&mut conditions);
                let flags = flags(directive, 2);
                let is_chained = flags.iter().any(|flag| flag == "c" || flag == "chain");
                if skipped > 0 {
                    skipped -= 1;
                    continue;
                }
                let fits =
                    !is_chain_broken && fits(directive, &flags, path, asked) && met(&of_rule, asked) == Some(true);
                is_chain_broken = is_chained && !fits;
                if !fits {
                    continue;
                }
                if denies(directive) {
                    return Some((scope, directive));
                }
                let is_last = flags.iter().any(|flag| ["l", "last", "end"].contains(&flag.as_str()));
                // Another URL responds from here on.
                if directive.argument(1) != "-" || is_last {
                    return None;
                }
                let skips = flags.iter().find_map(|flag| flag.strip_prefix("s=")?.parse().ok());
                skipped = skips.unwrap_or(0);
            }
            _ => {}
        }
    }
    None
}

fn fits(rule: &Directive, flags: &[String], path: &str, asked: &Asked<'_>) -> bool {
    let pattern = rule.argument(0);
    let (is_not, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
    let is_caseless = flags.iter().any(|flag| flag == "nc" || flag == "nocase");
    asked.patterns.is_match(pattern, path, is_caseless).is_some_and(|found| found != is_not)
}

/// Whether conditions are met; `None`: nothing here knows.
fn met(conditions: &[&Directive], asked: &Asked<'_>) -> Option<bool> {
    let mut all = Some(true);
    let mut at = 0;
    while at < conditions.len() {
        // One of those that [OR] puts together.
        let mut one = Some(false);
        loop {
            one = match (one, condition(conditions[at], asked)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            let is_or = flags(conditions[at], 2).iter().any(|flag| flag == "or" || flag == "ornext");
            at += 1;
            if !is_or || at >= conditions.len() {
                break;
            }
        }
        all = match (all, one) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    all
}

/// Whether conditions are of what is known here.
pub fn is_known(conditions: &[&Directive]) -> bool {
    let asked = Asked { patterns: &Patterns::default(), path: "/", file: "/" };
    conditions.iter().all(|one| condition(one, &asked).is_some())
}

fn condition(condition: &Directive, asked: &Asked<'_>) -> Option<bool> {
    let text = match condition.argument(0).to_ascii_uppercase().as_str() {
        "%{REQUEST_URI}" => asked.path,
        "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}" => asked.file,
        "%{REQUEST_METHOD}" => "GET",
        "%{QUERY_STRING}" | "%{ENV:REDIRECT_STATUS}" => "",
        _ => return None,
    };
    let pattern = condition.argument(1);
    let (is_not, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
    let holds = match pattern {
        "-f" | "-s" => text == asked.file,
        "-d" | "-l" => false,
        pattern if pattern.starts_with(['=', '<', '>', '-']) => match pattern.strip_prefix('=') {
            Some(wanted) => text == wanted,
            None => return None,
        },
        pattern => asked.patterns.is_match(
            pattern,
            text,
            flags(condition, 2).iter().any(|flag| flag == "nc" || flag == "nocase"),
        )?,
    };
    Some(holds != is_not)
}
