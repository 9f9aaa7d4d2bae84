//! Reads a `.htaccess`: directives with their lines, and sections with what is in them. Nothing is decided here but which of the sections
//! that ask for modules and versions are in force.

/// Most levels of sections. What lies deeper belongs to the last one.
const MOST_LEVELS: usize = 32;
/// The version that `<IfVersion>` asks for: what files of today are written for.
const VERSION: [u32; 3] = [2, 4, 62];
/// Modules that `<IfModule>` asks for and that are not there: those of older versions of Apache and of PHP, and what has to be installed
/// besides. Where files have a pair of sections, for old and new, the new one is in force.
const ABSENT: [&str; 10] = [
    "mod_access.c",
    "mod_auth.c",
    "mod_php3.c",
    "mod_php4.c",
    "mod_php5.c",
    "mod_php7.c",
    "mod_security.c",
    "mod_security2.c",
    "mod_pagespeed.c",
    "php5_module",
];

/// A directive, or a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its line, from 1.
    pub line: u32,
    /// Its name in lower case. That of a section begins with `<`.
    pub name: String,
    /// Its arguments, without quotes.
    pub arguments: Vec<String>,
    /// As it is written.
    pub text: String,
    /// What is in the section.
    pub inside: Vec<Directive>,
}

impl Directive {
    /// An argument; empty if there are fewer.
    pub fn argument(&self, number: usize) -> &str {
        self.arguments.get(number).map_or("", String::as_str)
    }

    /// Whether an argument is a word, in any case.
    pub fn is(&self, number: usize, word: &str) -> bool {
        self.argument(number).eq_ignore_ascii_case(word)
    }
}

/// Reads a file. What Apache would refuse is read as far as it can be.
pub fn parse(text: &str) -> Vec<Directive> {
    let mut open: Vec<Directive> = Vec::new();
    let mut all = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        while line.ends_with('\\') {
            line.pop();
            let Some((_, next)) = lines.next() else { break };
            line.push_str(next.trim());
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with("</") {
            close(&mut open, &mut all);
            continue;
        }
        let is_section = line.starts_with('<');
        let inner = if is_section { line.trim_end_matches('>') } else { &line };
        let mut words = words(inner).into_iter();
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let directive = Directive {
            line: number as u32 + 1,
            name,
            arguments: words.collect(),
            text: line.clone(),
            inside: Vec::new(),
        };
        if is_section && open.len() < MOST_LEVELS {
            open.push(directive);
        } else if let Some(section) = open.last_mut() {
            section.inside.push(directive);
        } else {
            all.push(directive);
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut all);
    }
    all
}

fn close(open: &mut Vec<Directive>, all: &mut Vec<Directive>) {
    if let Some(section) = open.pop() {
        open.last_mut().map_or(all, |outer| &mut outer.inside).push(section);
    }
}

/// The words of a line. Those in quotes have spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let mut end = rest.len();
        if first == '"' || first == '\'' {
            let mut letters = rest.char_indices().skip(1).peekable();
            while let Some((at, letter)) = letters.next() {
                match letter {
                    '\\' if letters.peek().is_some_and(|(_, next)| *next == first) => {
                        word.push(first);
                        letters.next();
                    }
                    letter if letter == first => {
                        end = at + letter.len_utf8();
                        break;
                    }
                    letter => word.push(letter),
                }
            }
        } else {
            end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest[..end].clone_into(&mut word);
        }
        words.push(word);
        rest = rest[end..].trim_start();
    }
    words
}

/// The directives in force: sections that ask for a module, a version or a definition are replaced by what is in them, or left out.
pub fn in_force(directives: Vec<Directive>) -> Vec<Directive> {
    let mut all = Vec::new();
    for mut directive in directives {
        let holds = match directive.name.as_str() {
            "<ifmodule" => asked(&directive, |module| !ABSENT.iter().any(|absent| module.eq_ignore_ascii_case(absent))),
            "<ifdefine" => asked(&directive, |_| false),
            "<ifdirective" | "<ifsection" => asked(&directive, |_| true),
            "<ifversion" => is_version(&directive),
            _ => {
                directive.inside = in_force(directive.inside);
                all.push(directive);
                continue;
            }
        };
        if holds {
            all.extend(in_force(directive.inside));
        }
    }
    all
}

/// Whether the first argument is there; with `!` whether it is not.
fn asked(section: &Directive, is_there: impl Fn(&str) -> bool) -> bool {
    let argument = section.argument(0);
    argument.strip_prefix('!').map_or_else(|| is_there(argument), |name| !is_there(name))
}

fn is_version(section: &Directive) -> bool {
    let (operator, wanted) = match section.arguments.as_slice() {
        [wanted] => ("=", wanted.as_str()),
        [operator, wanted, ..] => (operator.as_str(), wanted.as_str()),
        [] => return true,
    };
    let operator_of = operator.trim_start_matches('!');
    let numbers: Vec<u32> = wanted.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    let order = VERSION[..numbers.len().min(VERSION.len())].cmp(numbers.as_slice());
    let holds = match operator_of {
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        _ => order.is_eq(),
    };
    holds != operator.starts_with('!')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_have_lines_words_and_sections() {
        let text = "# Deny from all\nHeader set X \"a \\\"b\\\" c\"\n<Files \"a b.txt\">\nRequire \\\n  all denied\n</Files>\nOptions -Indexes";
        let found = parse(text);
        let shown: Vec<(u32, &str)> = found.iter().map(|one| (one.line, one.name.as_str())).collect();
        assert_eq!(shown, [(2, "header"), (3, "<files"), (7, "options")]);
        assert_eq!(found[0].arguments, ["set", "X", "a \"b\" c"]);
        assert_eq!((found[1].argument(0), found[1].inside[0].line), ("a b.txt", 4));
        assert_eq!(found[1].inside[0].arguments, ["all", "denied"]);
        // A section that is not closed, and one that was not opened.
        assert_eq!(parse("<Files x>\n<IfModule y>\nDeny from all").len(), 1);
        assert!(parse("</Files>").is_empty());
    }

    #[test]
    fn one_of_a_pair_is_in_force() {
        let lines = |text: &str| -> Vec<u32> { in_force(parse(text)).iter().map(|one| one.line).collect() };
        let pair = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>";
        assert_eq!(lines(pair), [2]);
        let versions = "<IfVersion < 2.4>\nDeny from all\n</IfVersion>\n<IfVersion >= 2.4>\nRequire all denied\n</IfVersion>\n<IfVersion 2.4>\nA\n</IfVersion>";
        assert_eq!(lines(versions), [5, 8]);
        assert_eq!(
            lines(
                "<IfModule mod_php5.c>\nphp_flag a on\n</IfModule>\n<IfModule mod_php.c>\nphp_flag a on\n</IfModule>"
            ),
            [5]
        );
    }
}
