//! Words in the place of a subcommand that are none: `reprise start` is `reprise serve`, and `reprise help serve` is
//! `reprise serve --help`; others get a hint.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The arguments with `serve` for `start`, and with `help` as the flag behind what it asks about.
pub fn understood(arguments: &[OsString]) -> Vec<OsString> {
    match arguments {
        [program, word, about @ ..] if word == "help" => {
            let flag = OsString::from("--help");
            std::iter::once(program).chain(about).cloned().chain([flag]).collect()
        }
        [program, word, of @ ..] if word == "start" => {
            [program.clone(), OsString::from("serve")].into_iter().chain(of.iter().cloned()).collect()
        }
        _ => arguments.to_vec(),
    }
}

/// What the user may have meant by a subcommand that there is not.
pub fn hint(error: &clap::Error) -> Option<String> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let path = Path::new(word);
    Some(match word.as_str() {
        "restart" => "reprise reload replaces code and configuration without losing a request; reprise stop, then reprise serve, is a restart".to_owned(),
        _ if path.is_dir() => format!("reprise serve {word}"),
        _ if path.is_file() && path.extension().is_some_and(|ending| ending == "toml") => {
            format!("reprise serve --config {word}")
        }
        _ if word.contains(':') || word.parse::<u16>().is_ok() => format!("reprise serve DIR --listen '{word}'"),
        _ => return None,
    })
}
