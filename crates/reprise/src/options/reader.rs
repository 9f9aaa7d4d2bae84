//! Reads the configuration file: the values of options, and messages with the line of a mistake.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Kind, Scope, describe, find, nearest};
use crate::exit::{Code, Failure};

/// A file while it is read.
pub struct File<'a> {
    /// Its path, for messages.
    pub path: &'a Path,
    /// The directory that relative paths start from.
    pub base: &'a Path,
    /// Its whole text.
    pub text: &'a str,
    /// The file with the options of the server, if this one only describes applications.
    pub main: Option<&'a Path>,
}

/// Where an application is described, for messages that concern more than one option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// The file; empty if no file describes it.
    file: PathBuf,
    /// The line where its description begins.
    line: usize,
    /// The lines of its options.
    options: BTreeMap<String, usize>,
    /// Options, and entries of tables, that a flag sets.
    flags: BTreeMap<String, &'static str>,
}

impl Places {
    /// Whether the option is written.
    pub fn has(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }

    /// That a flag sets an option, or one entry of a table: `ini.memory_limit`.
    pub fn set_by(&mut self, flag: &'static str, option: String) {
        self.flags.insert(option, flag);
    }

    /// The flag that sets an option.
    pub fn flag(&self, option: &str) -> Option<&'static str> {
        self.flags.get(option).copied()
    }

    /// FILE:LINE of an option, or of the application if the option is not written; `None`: no file describes it.
    pub fn of(&self, option: &str) -> Option<String> {
        let line = self.options.get(option).unwrap_or(&self.line);
        (self.line > 0).then(|| format!("{}:{line}", self.file.display()))
    }
}

/// A value with its position in the file.
pub type Item<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    /// A failure at a byte of the file.
    pub fn fail(&self, at: usize, why: impl std::fmt::Display) -> Failure {
        Failure::new(Code::Configuration, self.place(at), why)
    }

    fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The line of a byte of the file, for messages.
    pub fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path.display(), self.line(at))
    }

    /// Where the application of a table is described, which begins at a byte of the file.
    pub fn places(&self, table: &DeTable<'_>, at: usize) -> Places {
        let option =
            |name: &Spanned<toml::de::DeString<'_>>| (name.get_ref().to_string(), self.line(name.span().start));
        Places {
            file: self.path.to_owned(),
            line: self.line(at),
            options: table.keys().map(option).collect(),
            flags: BTreeMap::new(),
        }
    }

    /// Checks that every name in a table is an option.
    pub fn check_names(&self, scope: Scope, table: &DeTable<'_>) -> Result<(), Failure> {
        for name in table.keys() {
            let text = name.get_ref().as_ref();
            let is_list = ["application", "certificate", "acme"].contains(&text) && scope == Scope::Server;
            let is_elsewhere = scope == Scope::Server && self.main.is_some();
            if !is_list && (is_elsewhere || find(scope, text).is_none()) {
                return Err(self.no_such(scope, name.span().start, text));
            }
        }
        Ok(())
    }

    fn no_such(&self, scope: Scope, at: usize, text: &str) -> Failure {
        let failure = self.fail(at, format!("there is no option '{text}' here"));
        match (scope, nearest(scope, text)) {
            (Scope::Server, _) if find(Scope::Application, text).is_some() => {
                failure.hint(format!("'{text}' belongs below [[application]]"))
            }
            (Scope::Server, _) if find(Scope::Certificate, text).is_some() => {
                failure.hint(format!("'{text}' belongs below [[certificate]]"))
            }
            (Scope::Server, _) if find(Scope::Acme, text).is_some() => {
                failure.hint(format!("'{text}' belongs below [acme]"))
            }
            (_, _) if find(Scope::Server, text).is_some() => {
                let place = self.main.map_or("the file".to_owned(), |main| main.display().to_string());
                failure.hint(format!("'{text}' belongs to the top of {place}, above [[application]]"))
            }
            (_, Some(near)) => failure.hint(format!("did you mean '{near}'?")),
            (_, None) => failure.hint("reprise check --options lists them all"),
        }
    }
}

/// What is written for an option.
pub(super) struct Given<'g, 'i> {
    pub file: &'g File<'g>,
    pub item: &'g Item<'i>,
    pub name: &'g str,
    pub kind: Kind,
}

impl<'g, 'i> Given<'g, 'i> {
    /// An entry of a table, with its own name.
    pub fn part(&self, name: &'g str, item: &'g Item<'i>) -> Given<'g, 'i> {
        Given { file: self.file, item, name, kind: self.kind }
    }

    /// The value's position, for messages.
    pub fn place(&self) -> String {
        self.file.place(self.item.span().start)
    }

    /// A failure at the value's position.
    pub fn fail(&self, why: impl std::fmt::Display) -> Failure {
        self.file.fail(self.item.span().start, why)
    }

    /// A failure: the value is not of the row's kind.
    pub fn wrong(&self) -> Failure {
        self.wrong_for(self.kind)
    }

    /// A failure: the value is not of this kind.
    pub fn wrong_for(&self, kind: Kind) -> Failure {
        self.fail(format!("'{}' takes a {}", self.name, describe(kind)))
    }

    /// The entries of a table.
    pub fn table(&self) -> Result<&'g DeTable<'i>, Failure> {
        match self.item.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong_for(Kind::Table)),
        }
    }
}
