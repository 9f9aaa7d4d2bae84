//! Names that code may use: those that PHP has with an application's settings, and those that its tree declares.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};
use supervisor::os::user::Identity;

use super::findings::is_foreign;
use super::reading::Told;
use crate::exit::Failure;
use crate::extensions;
use crate::installed::Php;
use crate::options::Application;
use crate::php_ini;

/// What names are of, as reprise-php and tokens.php call it.
const KINDS: [&str; 4] = ["function", "class", "constant", "setting"];
/// What only a command line declares; scripts below a root are run by one, too.
const OF_COMMAND_LINE: [&str; 3] = ["STDIN", "STDOUT", "STDERR"];

/// All that a PHP has. Names of functions and classes are in lower case.
pub struct Symbols {
    /// Its extensions, in lower case.
    pub extensions: BTreeSet<String>,
    names: HashMap<&'static str, HashSet<String>>,
}

impl Symbols {
    /// Asks PHP, with an application's settings. `None`: PHP cannot be asked, because it does not run as root.
    pub fn ask(application: &Application, user: Option<&Identity>, php: &Php) -> Result<Option<Symbols>, Failure> {
        let Some(text) = php_ini::ask(application, user, php, "--symbols")? else { return Ok(None) };
        let mut names: HashMap<&'static str, HashSet<String>> = HashMap::new();
        for (word, name) in text.lines().filter_map(|line| line.split_once(' ')) {
            if let Some(kind) = KINDS.iter().find(|kind| **kind == word) {
                names.entry(kind).or_default().insert(name.to_owned());
            }
        }
        names.entry("constant").or_default().extend(OF_COMMAND_LINE.map(str::to_owned));
        Ok(Some(Symbols { extensions: extensions::named(&text), names }))
    }

    /// Whether it has a name, which is written as tokens.php gives it.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        self.names.get(kind).is_some_and(|names| names.contains(name))
    }

    /// All names, for tokens.php.
    pub fn names(&self) -> Value {
        let of = |kind: &'static str| {
            let names = self.names.get(kind).into_iter().flatten();
            (kind.to_owned(), Value::Object(names.map(|name| (name.clone(), json!(1))).collect()))
        };
        Value::Object(KINDS.map(of).into_iter().collect::<Map<String, Value>>())
    }
}

/// What a tree declares, and asks for before it uses it.
#[derive(Default)]
pub struct Declared<'a> {
    functions: HashSet<String>,
    classes: HashSet<String>,
    constants: HashSet<&'a str>,
    variables: HashSet<&'a str>,
    beginnings: Vec<&'a str>,
    /// What the tree asks for.
    pub asked: Asked<'a>,
    /// Whether code of the application gives constants names that are computed as a whole.
    pub has_computed: bool,
}

impl<'a> Declared<'a> {
    /// By what the scripts declare. `names` are their paths.
    pub fn by(names: &[String], told: &'a [Told]) -> Declared<'a> {
        let mut all = Declared { asked: Asked::by(told), ..Declared::default() };
        for (path, told) in names.iter().zip(told) {
            for (kind, name) in &told.declared {
                let short = name.rsplit('\\').next().unwrap_or(name);
                match kind.as_str() {
                    "c" => _ = all.classes.insert(name.to_ascii_lowercase()),
                    // Of another namespace than the call's: which one is meant is not looked at.
                    "f" => _ = all.functions.insert(short.to_ascii_lowercase()),
                    "k" => _ = all.constants.insert(short),
                    "v" => _ = all.variables.insert(name),
                    _ if name.is_empty() => all.has_computed |= !is_foreign(path),
                    _ => all.beginnings.push(name),
                }
            }
        }
        all.beginnings.sort_unstable();
        all.beginnings.dedup();
        all
    }

    /// Whether the tree declares a name; of a member, its class.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        match kind {
            "class" => self.classes.contains(&name.to_ascii_lowercase()),
            "member" => self.classes.contains(name.split("::").next().unwrap_or("")),
            "function" => self.functions.contains(&name.to_ascii_lowercase()),
            "constant" => {
                self.constants.contains(name) || self.beginnings.iter().any(|beginning| name.starts_with(beginning))
            }
            "language" => name.strip_prefix("variable ").is_some_and(|name| self.variables.contains(name)),
            _ => false,
        }
    }
}

/// What code asks for before it uses it.
#[derive(Default)]
pub struct Asked<'a>(HashSet<&'a str>);

impl<'a> Asked<'a> {
    /// By what scripts ask for.
    pub fn by(told: impl IntoIterator<Item = &'a Told>) -> Asked<'a> {
        Asked(told.into_iter().flat_map(|told| &told.asked).map(String::as_str).collect())
    }

    /// Whether it asks for a name, such as with `function_exists`.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name.to_ascii_lowercase().as_str())
    }

    /// Whether it asks for an extension, or for a name that begins as those of the extension do.
    pub fn has_extension(&self, extension: &str, beginning: &str) -> bool {
        self.has(&format!("ext-{extension}")) || self.0.iter().any(|name| name.starts_with(beginning))
    }

    /// Whether it asks for a name, for an extension whose name it begins with, or for another name of the extension: `family` is what all
    /// of these begin with.
    pub fn covers(&self, name: &str, family: Option<&str>) -> bool {
        let name = name.to_ascii_lowercase();
        let begins = |asked: &&str| match asked.strip_prefix("ext-") {
            Some(extension) => name.starts_with(extension),
            None => family.is_some_and(|family| asked.starts_with(family)),
        };
        self.0.contains(name.as_str()) || self.0.iter().any(begins)
    }
}
