//! The hidden subcommand `manual`: writes man pages and shell completions into a directory, for packages. The pages of the
//! command come from its flags, reprise.toml(5) from the rows of the options.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::exit::{Code, Failure};
use crate::options::{self, Change, Row, Scope, describe};

const CONFIGURATION: &str = "reprise.toml";

/// Writes `man/*` and `completions/*` below a directory.
pub fn write(directory: &Path, mut command: Command) -> Result<Code, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Internal, directory.display().to_string(), error);
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    create_dir_all(&man).and_then(|()| create_dir_all(&completions)).map_err(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "reprise", &completions).map_err(failed)?;
    }
    clap_mangen::generate_to(command, &man).map_err(failed)?;
    let page = configuration();
    File::create(man.join("reprise.toml.5")).and_then(|mut file| file.write_all(page.as_bytes())).map_err(failed)?;
    Ok(Code::Success)
}

/// reprise.toml(5).
fn configuration() -> String {
    let mut page = Roff::new();
    let title = format!("reprise {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", [CONFIGURATION, "5", "", &title, ""]);
    page.control("SH", ["NAME"]).text([roman(format!("{CONFIGURATION} - configuration of reprise"))]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in options::ABOUT {
        page.control("PP", []).text(inline(paragraph));
    }
    for scope in [Scope::Server, Scope::Application, Scope::Certificate, Scope::Acme] {
        let title = match scope {
            Scope::Server => "OPTIONS OF THE SERVER",
            Scope::Application => "OPTIONS OF AN APPLICATION",
            Scope::Certificate => "OPTIONS OF A CERTIFICATE",
            Scope::Acme => "OPTIONS OF ACME",
        };
        page.control("SH", [title]);
        options::rows(scope).for_each(|row| option(&mut page, row));
    }
    page.control("SH", ["FILES"]);
    for (path, text) in [
        ("/etc/reprise/reprise.toml", "The configuration of reprise.service."),
        ("/etc/reprise/conf.d/*.toml", "Its applications."),
    ] {
        page.control("TP", []).text([bold(path)]).text([roman(text)]);
    }
    page.control("SH", ["SEE ALSO"]).text([bold("reprise"), roman("(1), "), bold("reprise-check"), roman("(1)")]);
    page.to_roff()
}

fn option(page: &mut Roff, row: &Row) {
    page.control("TP", []).text([bold(row.name)]).text(inline(row.text));
    page.control("br", []);
    let change = match row.change {
        Change::Reload => "a reload",
        Change::Restart => "a restart",
    };
    page.text(inline(&format!("Takes: {}. Default: {}. A change takes {change}.", describe(row.kind), row.default)));
}

/// Text in which names stand between backticks.
fn inline(text: &str) -> Vec<Inline> {
    let part = |(number, part): (usize, &str)| if number % 2 == 1 { bold(part) } else { roman(part) };
    text.split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_option_and_no_backtick() {
        let page = configuration();
        let scopes = [Scope::Server, Scope::Application, Scope::Certificate, Scope::Acme];
        for row in scopes.into_iter().flat_map(options::rows) {
            assert!(page.contains(&format!("\\fB{}\\fR", row.name.replace('-', "\\-"))), "{}", row.name);
        }
        assert!(!page.contains('`'), "{page}");
    }

    #[test]
    fn names_between_backticks_are_bold() {
        assert_eq!(inline("as `workers`; 1"), vec![roman("as "), bold("workers"), roman("; 1")]);
    }
}
