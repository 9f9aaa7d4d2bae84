//! Makes a struct of rows, with its defaults, its parser and its part of the reference.

use toml::de::DeTable;

use super::Row;
use super::reader::File;
use crate::exit::Failure;

/// The options of one table of the configuration file.
pub trait Options: Sized {
    /// The settings that the front gets.
    type Front;
    /// The rows, in the order in which they are read.
    const ROWS: &'static [Row];
    /// The defaults.
    fn defaults() -> Self;
    /// Reads the options of a table.
    fn read(&mut self, file: &File<'_>, table: &DeTable<'_>) -> Result<(), Failure>;
    /// An option that differs between two configurations and takes a restart.
    fn needs_restart(&self, next: &Self) -> Option<&'static str>;
    /// Copies the options that the front takes unchanged into its settings.
    fn give_to_front(&self, settings: &mut Self::Front);
}

/// Makes a struct of a table. A row is
///
/// ```text
/// name: Type = default, "default in words", Kind, Change, "text", by reader, to front;
/// ```
///
/// `by reader` may be left out if the type has a parser ([`super::value::Value`]). A reader gets what is written, and the
/// options of the rows before. With `to front` the front takes the value unchanged: its settings have a field of that name
/// and type. The fields behind `beside` are no options.
macro_rules! option_table {
    (
        $(#[$about:meta])*
        pub struct $options:ident => $front:ty {
            $($name:ident: $type:ty = $default:expr, $words:literal, $kind:expr, $change:ident, $text:literal
                $(, by $reader:path)? $(, to $target:ident)?;)*
        }
        beside {
            $($(#[$what:meta])* $other:ident: $other_type:ty = $other_default:expr;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $options {
            $(#[doc = $text] pub $name: $type,)*
            $($(#[$what])* pub $other: $other_type,)*
        }

        impl Options for $options {
            type Front = $front;

            const ROWS: &'static [Row] = &[$(Row {
                name: stringify!($name),
                kind: $kind,
                default: $words,
                change: Change::$change,
                text: $text,
            }),*];

            fn defaults() -> $options {
                $options { $($name: $default,)* $($other: $other_default,)* }
            }

            fn read(&mut self, file: &File<'_>, table: &DeTable<'_>) -> Result<(), Failure> {
                $(if let Some(item) = table.get(stringify!($name)) {
                    let given = Given { file, item, name: stringify!($name), kind: $kind };
                    self.$name = option_table!(@read given, self, $type $(, $reader)?)?;
                })*
                Ok(())
            }

            fn needs_restart(&self, next: &$options) -> Option<&'static str> {
                $(if Change::$change == Change::Restart && self.$name != next.$name {
                    return Some(stringify!($name));
                })*
                None
            }

            #[allow(unused_variables, reason = "of some tables the front takes nothing as it is")]
            fn give_to_front(&self, settings: &mut $front) {
                $($(settings.$name = option_table!(@to $target self.$name);)?)*
            }
        }
    };
    (@read $given:ident, $self:ident, $type:ty) => { <$type as Value>::read(&$given) };
    (@read $given:ident, $self:ident, $type:ty, $reader:path) => { $reader(&$given, &*$self) };
    (@to front $value:expr) => { $value.clone() };
}

pub(super) use option_table;
