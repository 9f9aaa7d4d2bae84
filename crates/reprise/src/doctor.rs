//! `reprise doctor`: what will fail, leak or be slow when this application runs here, and what to do about it. Findings are data
//! ([`findings`]); nothing of the application is executed.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`findings`] | the closed list of checks, and findings |
//! | [`printed`], [`passed`], [`progress`] | the report; checks that found nothing; how far long work is |
//! | [`tree`] | the application's files |
//! | [`reading`] | has each installed PHP compile them, and look at their tokens (read.php, tokens.php) |
//! | [`changes`], [`compatible`] | what versions of PHP have changed (changes/*.tsv); findings about versions |
//! | [`symbols`], [`unknown`] | what PHP has with an application's settings, and what the tree declares; names that neither has |
//! | [`kept`] | findings about worker scripts and snapshots |
//! | [`application`] | what is looked at of one application |
//! | [`composer`], [`constraint`] | composer.lock; Composer's constraints |
//! | [`rights`], [`exposed`], [`secrets`] | owners and modes; what strangers reach; files with secrets |
//! | [`htaccess`], [`fitting`] | .htaccess; options that would fit |
//! | [`host`] | the machine |
//! | [`mending`] | what `--fix` writes |

mod application;
mod changes;
mod compatible;
mod composer;
mod constraint;
mod exposed;
mod findings;
mod fitting;
mod host;
mod htaccess;
mod kept;
mod mending;
mod passed;
mod printed;
mod progress;
mod reading;
mod rights;
mod secrets;
mod symbols;
mod tree;
mod unknown;

use std::path::PathBuf;

use clap::Args;

use crate::config;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::installed;
use crate::isolation;
use crate::people;
use findings::{Area, Check, Finding, Severity};
use host::{Server, System};
use printed::Report;

/// What `--help` says at its end.
pub const HELP: &str = "Examples:
  reprise doctor .
  reprise doctor --config /etc/reprise/reprise.toml --json
  reprise doctor /srv/shop --php 8.4 --only version

Nothing of the application is executed: PHP compiles its scripts, as the application's user, and without php.ini. --fix changes lines of the
configuration file alone, never files of the application, fstab, sysctl or services.

Exit status: 0 no errors, 4 at least one finding is an error, 64 usage, 78 the configuration is wrong.";

/// What to look at.
#[derive(Args)]
pub struct Asked {
    #[command(flatten)]
    what: What,
    /// Look at this alone; may be repeated
    #[arg(long, value_name = "AREA", value_enum)]
    only: Vec<Area>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// List each check that found nothing, with the value that it looked at
    #[arg(long)]
    verbose: bool,
    /// Change the configuration file where that mends a finding
    #[arg(long)]
    fix: bool,
    /// Print the table of checks as Markdown
    #[arg(long, conflicts_with_all = ["directory", "config"])]
    checks: bool,
    /// Look for /proc, /sys and /etc below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    system: Option<PathBuf>,
}

pub use findings::reference;

/// Looks at everything and prints what was found.
pub fn run(asked: &Asked) -> Result<Code, Failure> {
    if asked.checks {
        print!("{}", reference());
        return Ok(Code::Success);
    }
    if asked.fix && asked.what.config.is_none() {
        return Err(Failure::new(Code::Usage, "--fix", "there is no configuration file that it could change")
            .hint("name one with --config FILE"));
    }
    let mut report = look(asked)?;
    if asked.fix {
        let mendings: Vec<_> = report.findings.iter().filter_map(|finding| finding.fix.clone()).collect();
        if let Some(file) = asked.what.config.as_ref().filter(|_| !mendings.is_empty()) {
            let fixed = mending::mend(file, &mendings)?;
            // What is left after that is what counts.
            report = look(asked)?;
            report.fixed = fixed;
        }
    }
    match asked.json {
        true => println!("{}", report.json().map_err(|error| Failure::new(Code::Internal, "the report", error))?),
        false => print!("{}", report.text(asked.verbose)),
    }
    Ok(if report.count(Severity::Error) > 0 { Code::Faulty } else { Code::Success })
}

fn look(asked: &Asked) -> Result<Report, Failure> {
    let config = config::load(&asked.what)?;
    let areas: Vec<Area> =
        Area::ALL.into_iter().filter(|area| asked.only.is_empty() || asked.only.contains(area)).collect();
    let system = System::new(asked.system.as_deref());
    let readers = reading::installed();
    let mut findings = Vec::new();
    let phps = installed::choose(&config);
    if let Err(why) = &phps {
        let action = format!("install the PHP of Reprise: {}", installed::package());
        findings.push(Finding::new(Check::NoPhp, why.to_string(), action));
    }
    let phps = phps.ok();
    let people = people::choose_users(&config);
    if let Err(why) = &people {
        findings.push(Finding::new(Check::Users, why.to_string(), "see the hint of the message"));
    }
    let people = people.ok();
    let isolation = people.as_ref().zip(phps.as_ref()).map(|(people, phps)| isolation::look(&config, people, phps));
    let is_host = areas.contains(&Area::Host);
    let measured = host::ask_server(asked.what.config.as_deref().filter(|_| is_host));
    let (mut applications, mut settings) = (Vec::new(), Vec::new());
    let mut first_tree = PathBuf::from("/");
    for (number, application) in config.applications.iter().enumerate() {
        let known = application::Known {
            number,
            application,
            config: &config,
            config_file: asked.what.config.as_deref(),
            named: asked.what.directory.as_deref(),
            php: phps.as_ref().and_then(|phps| phps.each().nth(number)),
            people: people.as_ref(),
            front: people.as_ref().and_then(|people| people.front.as_ref()),
            readers: &readers,
            areas: &areas,
            system: &system,
            opcache: measured.get(&application.name),
            has_others: config.applications.len() > 1,
        };
        let seen = known.look()?;
        findings.extend(seen.findings);
        settings.push(seen.settings);
        if number == 0 {
            first_tree = PathBuf::from(&seen.looked.tree);
        }
        applications.push(seen.looked);
    }
    if is_host {
        let server = Server { config: &config, isolation: isolation.as_ref(), tree: &first_tree, settings: &settings };
        findings.extend(host::judge(&system, &server));
    }
    findings.retain(|finding| areas.contains(&finding.area()));
    findings.sort_by(|a, b| (a.area(), a.severity, a.check, &a.what).cmp(&(b.area(), b.severity, b.check, &b.what)));
    let is_installed = |version: &String| readers.iter().any(|reader| reader.version.to_string() == *version);
    let unchecked = (1..=changes::LAST).map(|minor| format!("8.{minor}")).filter(|version| !is_installed(version));
    let unchecked = if areas.contains(&Area::Version) { unchecked.collect() } else { Vec::new() };
    let reprise = env!("CARGO_PKG_VERSION");
    let seen = passed::Seen {
        config: &config,
        system: &system,
        isolation: isolation.as_ref(),
        looked: &applications,
        settings: &settings,
    };
    let passed = passed::list(&areas, &findings, &seen);
    Ok(Report { reprise, areas, applications, unchecked, findings, passed, fixed: Vec::new() })
}
