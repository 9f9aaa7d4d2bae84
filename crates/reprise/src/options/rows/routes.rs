//! Rules of an application: `[[application.route]]`. docs/guides/routing.md says what each means.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use routing::rules::limits::Limits;
use routing::rules::rule::{Action, Also, Exists, Expires, MAX_RULES, Match, Rule, Users};
use routing::rules::users;
use routing::target::is_clean;
use toml::de::{DeTable, DeValue};

use super::super::reader::{File, Given, Item};
use super::super::value::Value;
use super::super::{Kind, parse_time};
use super::readers::resolve;
use super::{Application, rule_limits, scripts, upstreams};
use crate::exit::Failure;

/// Bytes of an htpasswd file.
const MAX_FILE: u64 = 1 << 20;
/// Names of what a rule may hold.
const NAMES: [&str; 30] = [
    "path",
    "prefix",
    "pattern",
    "host",
    "method",
    "header",
    "address",
    "not_address",
    "exists",
    "deny",
    "allow",
    "redirect",
    "status",
    "rewrite",
    "script",
    "front_controller",
    "mount",
    "maintenance",
    "upstream",
    "connect_timeout",
    "response_timeout",
    "idle_timeout",
    "connections",
    "php",
    "headers",
    "expires",
    "users",
    "realm",
    "error_pages",
    "limits",
];

/// The rules of the configuration.
pub(super) fn routes(given: &Given<'_, '_>, application: &Application) -> Result<Vec<Rule>, Failure> {
    read(given, Some(application))
}

/// Rules of a preset.
pub fn read_rules(file: &File<'_>, item: &Item<'_>) -> Result<Vec<Rule>, Failure> {
    read(&Given { file, item, name: "route", kind: Kind::Rules }, None)
}

/// Rules; `application`: whose scripts and pages have to be there, `None` for a preset.
fn read(given: &Given<'_, '_>, application: Option<&Application>) -> Result<Vec<Rule>, Failure> {
    let DeValue::Array(items) = given.item.get_ref() else {
        return Err(given.fail("write [[application.route]], with two brackets"));
    };
    if items.len() > MAX_RULES {
        return Err(given.fail(format!("{} rules; {MAX_RULES} are the most", items.len())));
    }
    items.iter().map(|item| rule(given, item, application)).collect()
}

/// A rule while it is read.
struct Reader<'r, 'g, 'i> {
    given: &'r Given<'g, 'i>,
    table: &'r DeTable<'i>,
    application: Option<&'r Application>,
}

fn rule(given: &Given<'_, '_>, item: &Item<'_>, application: Option<&Application>) -> Result<Rule, Failure> {
    let at = item.span().start;
    let DeValue::Table(table) = item.get_ref() else {
        return Err(given.file.fail(at, "a rule is a table: [[application.route]]"));
    };
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        if !NAMES.contains(&name) {
            let failure = given.file.fail(key.span().start, format!("a rule has no '{name}'"));
            let near = NAMES.iter().min_by_key(|known| strsim::levenshtein(known, name));
            return Err(failure.hint(format!("did you mean '{}'?", near.unwrap_or(&"prefix"))));
        }
    }
    let reader = Reader { given, table, application };
    let on = reader.on()?;
    let also = reader.also(&on)?;
    let action = reader.action(at)?;
    if let Some(item) = table.get("status").filter(|_| !matches!(action, Some(Action::Redirect(..)))) {
        return Err(given.file.fail(item.span().start, "'status' belongs to a rule with redirect"));
    }
    let of_upstream = upstreams::LIMITS.iter().find_map(|name| Some((name, table.get(*name)?)));
    if let Some((name, item)) = of_upstream.filter(|_| !matches!(action, Some(Action::Upstream(_)))) {
        return Err(given.file.fail(item.span().start, format!("'{name}' belongs to a rule with upstream")));
    }
    Ok(Rule { place: given.file.place(at), is_preset: application.is_none(), on, also, action })
}

impl<'i> Reader<'_, '_, 'i> {
    fn get(&self, name: &str) -> Option<&Item<'i>> {
        self.table.get(name)
    }

    fn fail(&self, item: &Item<'_>, why: impl std::fmt::Display) -> Failure {
        self.given.file.fail(item.span().start, why)
    }

    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        self.get(name).map(|item| String::read(&self.given.part(name, item))).transpose()
    }

    /// A text, or a list of texts.
    fn texts(&self, name: &str) -> Result<Vec<String>, Failure> {
        let Some(item) = self.get(name) else { return Ok(Vec::new()) };
        let given = self.given.part(name, item);
        let texts = match item.get_ref() {
            DeValue::Array(_) => Vec::<String>::read(&given)?,
            _ => vec![String::read(&given)?],
        };
        if texts.is_empty() {
            Err(self.fail(item, format!("'{name}' is empty: the rule never matches")))
        } else {
            Ok(texts)
        }
    }

    fn networks(&self, name: &str) -> Result<Vec<routing::settings::Network>, Failure> {
        let parse = |text: &String| {
            let at = self.get(name).map_or(0, |item| item.span().start);
            let failure = || self.given.file.fail(at, format!("'{text}' is no address or network"));
            text.parse().map_err(|()| failure().hint("127.0.0.1, 10.0.0.0/8, fd00::/8 or unix:"))
        };
        self.texts(name)?.iter().map(parse).collect()
    }

    fn map(&self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        self.get(name).map_or(Ok(BTreeMap::new()), |item| BTreeMap::read(&self.given.part(name, item)))
    }

    fn on(&self) -> Result<Match, Failure> {
        let lower = |texts: Vec<String>| texts.iter().map(|text| text.to_ascii_lowercase()).collect();
        let exists = self.text("exists")?.map(|text| match text.as_str() {
            "file" => Ok(Exists::File),
            "directory" => Ok(Exists::Directory),
            "any" => Ok(Exists::Any),
            "nothing" => Ok(Exists::Nothing),
            path if path.starts_with('/') => Ok(Exists::Other(path.to_owned())),
            other => Err(other.to_owned()),
        });
        let exists = exists.transpose().map_err(|other| {
            let why =
                format!("'exists' takes \"file\", \"directory\", \"any\", \"nothing\" or a path, not \"{other}\"");
            self.given.file.fail(self.get("exists").map_or(0, |item| item.span().start), why)
        })?;
        Ok(Match {
            path: self.texts("path")?,
            prefix: self.texts("prefix")?,
            pattern: self.text("pattern")?,
            host: lower(self.texts("host")?),
            method: self.texts("method")?.iter().map(|method| method.to_ascii_uppercase()).collect(),
            header: self.map("header")?.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect(),
            address: self.networks("address")?,
            not_address: self.networks("not_address")?,
            exists,
        })
    }

    fn also(&self, on: &Match) -> Result<Also, Failure> {
        let mut error_pages = BTreeMap::new();
        for (status, page) in self.map("error_pages")? {
            let item = self.get("error_pages");
            let wrong = |why: String| item.map_or_else(|| self.given.fail(&why), |item| self.fail(item, &why));
            let number = status.parse().ok().filter(|number| (400..600).contains(number));
            let number = number.ok_or_else(|| wrong(format!("'{status}' is no status of an error, 400 to 599")))?;
            self.check_page("error_pages", &page)?;
            error_pages.insert(number, page);
        }
        let is_php_off = match self.get("php") {
            None => false,
            Some(item) => match item.get_ref() {
                DeValue::Boolean(false) => true,
                _ => return Err(self.fail(item, "'php' takes false: scripts do not run by their own names")),
            },
        };
        Ok(Also {
            headers: self.map("headers")?,
            expires: self.expires()?,
            users: self.users()?,
            is_php_off,
            error_pages,
            limits: self.limits(on)?.map(Box::new),
        })
    }

    fn limits(&self, on: &Match) -> Result<Option<Limits>, Failure> {
        let given = self.get("limits").map(|item| self.given.part("limits", item));
        given.map(|given| rule_limits::limits(&given, on)).transpose()
    }

    fn expires(&self) -> Result<Option<Expires>, Failure> {
        let Some((text, item)) = self.text("expires")?.zip(self.get("expires")) else { return Ok(None) };
        let days =
            text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()).and_then(|days| days.checked_mul(86400));
        match text.as_str() {
            "immutable" => Ok(Some(Expires::Immutable)),
            "never" => Ok(Some(Expires::Never)),
            _ => match days.or_else(|| parse_time(&text).map(|time| time.as_secs())) {
                Some(seconds) => Ok(Some(Expires::Seconds(seconds))),
                None => Err(self.fail(item, "'expires' takes a time (\"30d\", \"1h\"), \"immutable\" or \"never\"")),
            },
        }
    }

    fn users(&self) -> Result<Option<Users>, Failure> {
        let realm = self.text("realm")?;
        let Some((file, item)) = self.text("users")?.zip(self.get("users")) else {
            return match self.get("realm") {
                Some(item) => Err(self.fail(item, "'realm' belongs to a rule with users")),
                None => Ok(None),
            };
        };
        let path = self.given.file.base.join(file);
        let hint = "htpasswd -cB FILE USER makes one";
        let failed =
            |why: &dyn std::fmt::Display| self.fail(item, format!("users {}: {why}", path.display())).hint(hint);
        let mut text = String::new();
        let source = supervisor::os::files::open_regular(&path).map_err(|error| failed(&error))?;
        source.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
        if text.len() as u64 > MAX_FILE {
            return Err(failed(&format!("is larger than {MAX_FILE} bytes")));
        }
        let hashes = users::parse(&text).map_err(|why| failed(&why))?;
        let realm = realm.unwrap_or_else(|| "Restricted".to_owned());
        if !realm.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\') {
            return Err(self.fail(item, "'realm' takes ASCII without \" and \\"));
        }
        Ok(Some(Users { realm, hashes }))
    }

    fn action(&self, at: usize) -> Result<Option<Action>, Failure> {
        const ACTIONS: [&str; 9] =
            ["deny", "allow", "redirect", "rewrite", "script", "front_controller", "mount", "maintenance", "upstream"];
        let named: Vec<&str> = ACTIONS.into_iter().filter(|name| self.get(name).is_some()).collect();
        let name = match named[..] {
            [] => return Ok(None),
            [name] => name,
            _ => {
                let why = format!("a rule ends matching once: it has {}", named.join(" and "));
                return Err(self.given.file.fail(at, why).hint("write one rule for each"));
            }
        };
        let Some(item) = self.get(name) else { return Ok(None) };
        let text = || String::read(&self.given.part(name, item));
        Ok(Some(match name {
            "deny" => Action::Deny(self.deny(item)?),
            "allow" => match item.get_ref() {
                DeValue::Boolean(true) => Action::Allow,
                _ => return Err(self.fail(item, "'allow' takes true")),
            },
            "redirect" => {
                let target = text()?;
                let is_fine = target.starts_with('/') && !target.starts_with("//")
                    || target.starts_with("https://")
                    || target.starts_with("http://");
                if !is_fine {
                    return Err(
                        self.fail(item, "'redirect' takes a path, or a target that begins with https:// or http://")
                    );
                }
                Action::Redirect(self.status()?, target)
            }
            "rewrite" => Action::Rewrite(self.path_of(item, text()?)?),
            "script" | "front_controller" => {
                let script = text()?;
                let script = format!("/{}", script.trim_start_matches('/'));
                if let Some(application) = self.application {
                    scripts::check(self.given, item.span().start, name, application, &script[1..])?;
                }
                if name == "script" { Action::Script(script) } else { Action::FrontController(script) }
            }
            "mount" => {
                let path = resolve(&self.given.file.base.join(text()?)).map_err(|why| self.fail(item, why))?;
                if !path.is_dir() || path == Path::new("/") {
                    return Err(self.fail(item, format!("mount takes a directory, and not /: {}", path.display())));
                }
                Action::Mount(path)
            }
            "upstream" => Action::Upstream(Box::new(upstreams::upstream(self.given, item, self.table)?)),
            _ => {
                let page = text()?;
                self.check_page("maintenance", &page)?;
                Action::Maintenance(page)
            }
        }))
    }

    fn deny(&self, item: &Item<'_>) -> Result<u16, Failure> {
        let status = match item.get_ref() {
            DeValue::Boolean(true) => Some(403),
            DeValue::Integer(digits) => digits.as_str().parse().ok().filter(|status| [403, 404, 410].contains(status)),
            _ => None,
        };
        status.ok_or_else(|| self.fail(item, "'deny' takes true, 403, 404 or 410"))
    }

    fn status(&self) -> Result<u16, Failure> {
        let Some(item) = self.get("status") else { return Ok(302) };
        let status = match item.get_ref() {
            DeValue::Integer(digits) => {
                digits.as_str().parse().ok().filter(|status| [301, 302, 303, 307, 308].contains(status))
            }
            _ => None,
        };
        status.ok_or_else(|| self.fail(item, "'status' takes 301, 302, 303, 307 or 308"))
    }

    fn path_of(&self, item: &Item<'_>, path: String) -> Result<String, Failure> {
        if path.starts_with('/') { Ok(path) } else { Err(self.fail(item, format!("\"{path}\" does not begin with /"))) }
    }

    /// A page that the front sends: a file below the root.
    fn check_page(&self, name: &str, page: &str) -> Result<(), Failure> {
        let at = self.get(name).map_or(0, |item| item.span().start);
        let is_there = |application: &Application| application.root.join(page.trim_start_matches('/')).is_file();
        if !is_clean(page) || self.application.is_some_and(|application| !is_there(application)) {
            let root =
                self.application.map_or(String::new(), |application| format!(" in {}", application.root.display()));
            return Err(self.given.file.fail(at, format!("'{name}' names the page {page}, which is no file{root}")));
        }
        Ok(())
    }
}
