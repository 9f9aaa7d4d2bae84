//! The command: `reprise serve`, `stop`, `reload`, `status`, `trace`, `check`, `route`, `verify`, `doctor`, `dev`, `bench`, `psd`, `version`.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`serve`], [`check`], [`route`], [`verify`], [`doctor`], [`dev`], [`version`] | one subcommand each |
//! | [`measuring`] | `bench` and `psd`, which are an executable of their own |
//! | [`store`] | the store that an application's nodes share: the process that talks to it |
//! | [`acme`] | certificates that an authority issues: the process that orders them |
//! | [`admin`] | commands to a running server |
//! | [`certificates`] | the files of certificates, read in a child |
//! | [`country_files`] | files with the countries of addresses, read in a child |
//! | [`plan`] | the configuration in the form that supervisor and front use |
//! | [`front_process`] | the hidden subcommand the supervisor starts as the front |
//! | [`words`] | words that are no subcommand: what is meant by them |
//! | [`manual`] | the hidden subcommand that writes man pages and shell completions |
//! | [`options`] | every option as one row |
//! | [`flags`], [`config`] | flags; the configuration that flags and file make |
//! | [`development`] | what makes a server one of development, and the process that watches files |
//! | [`comparison`] | pages compared with classic mode, by `reprise verify` and before visitors come |
//! | [`private`] | what makes a server one that only `reprise verify --php` reaches |
//! | [`extensions`] | extensions that one version of PHP has and another lacks |
//! | [`installed`] | the versions of PHP that are installed, and which runs each application |
//! | [`release`] | `reprise release`: keys, building, pushing, switching |
//! | [`releases`] | applications that come from a pool as releases |
//! | [`people`] | the users of the front and of each application |
//! | [`survey`] | what is in an application's tree, for hints |
//! | [`presets`] | rules for well-known applications |
//! | [`discover`] | what `reprise serve DIR` finds by itself |
//! | [`exit`] | failures and exit codes |

#![forbid(unsafe_code)]

mod acme;
mod admin;
mod apache;
mod certificates;
mod check;
mod comparison;
mod config;
mod country_files;
mod dev;
mod development;
mod discover;
mod doctor;
mod exit;
mod extensions;
mod flags;
mod front_process;
mod installed;
mod isolation;
mod listen;
mod manual;
mod measuring;
mod options;
mod people;
mod phar_plan;
mod phars;
mod php_ini;
mod plan;
mod presets;
mod private;
mod profile;
#[cfg(test)]
mod references;
mod release;
mod releases;
mod root;
mod route;
mod serve;
mod store;
mod survey;
mod verify;
mod version;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use control::which::Which;
use flags::What;

/// A PHP application server: the isolation of PHP-FPM at the speed of a long-running worker.
#[derive(Parser)]
#[command(name = "reprise", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "Start here:  reprise serve DIR\nOptions of the configuration file:  reprise check --options")]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve an application from a directory, or what a configuration file describes
    #[command(after_help = "Examples:\n  reprise serve .\n  reprise serve /srv/blog --listen 0.0.0.0:80 --workers 16 \
        --ini memory_limit=256M\n  reprise serve --config /etc/reprise/reprise.toml\n\nWithout --config the document root \
        is the first of DIR/public, DIR/web, DIR/htdocs and DIR that has an index.php or index.html, else the first with any script. SIGTERM and SIGINT \
        finish what is running; a second one ends at once.")]
    Serve {
        #[command(flatten)]
        what: What,
        /// Compare all memory with the snapshot after each rewind; slow, for finding faults
        #[arg(long)]
        audit: bool,
    },
    /// End a running server, as SIGTERM does: what has begun is finished; waits, and prints how it went
    #[command(
        after_help = "The server takes no new connections, and finishes its requests for at most drain_timeout. Exit code 0: all have ended; 1: some were cut off. \
        A server of systemd is stopped with systemctl: its socket would start it again."
    )]
    Stop {
        #[command(flatten)]
        which: Which,
    },
    /// Load new code and configuration without losing a request, as SIGHUP does; prints the result
    #[command(after_help = reload_help())]
    Reload {
        /// Read only the certificates anew; new connections get them, and no process is replaced
        #[arg(long)]
        certificates: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Show what a running server does: generations, lanes, workers with their requests, the longest first
    Status {
        #[command(flatten)]
        which: Which,
        /// Show all workers and cache rules, not the first 30 alone
        #[arg(long)]
        all: bool,
        /// Refresh each second until interrupted
        #[arg(long)]
        watch: bool,
        /// Print everything as JSON
        #[arg(long)]
        json: bool,
        /// Only say whether new requests should come here, as /readyz does: exit code 0 if so; for health checks of containers
        #[arg(long, conflicts_with_all = ["all", "watch", "json"])]
        ready: bool,
    },
    /// Show the PHP stack of a worker while it runs
    Trace {
        /// The process id of the worker, as `reprise status` shows it
        #[arg(value_name = "PID")]
        pid: i32,
        #[command(flatten)]
        which: Which,
    },
    /// Show where the workers of an application spend their time, by PHP function and by route
    #[command(after_help = profile::HELP)]
    Profile(profile::Asked),
    /// Take responses out of the cache of responses
    #[command(
        after_help = "Examples:\n  reprise purge --tag post-5 --tag home\n  reprise purge --prefix https://shop.example/shoes/ --soft\n  reprise purge --all --application shop"
    )]
    Purge(admin::purge::Asked),
    /// Look into the cache of responses (explain), and into the data cache of an application (all others)
    #[command(subcommand)]
    Cache(admin::purge::CacheVerb),
    /// Check a configuration or directory and print what would be served
    Check {
        #[command(flatten)]
        what: What,
        /// Print the reference of all options as Markdown
        #[arg(long, conflicts_with_all = ["directory", "config"])]
        options: bool,
        /// Print the reference of exit codes as Markdown
        #[arg(long, conflicts_with_all = ["directory", "config", "options"])]
        exit_codes: bool,
        /// Print the reference of the logs as Markdown
        #[arg(long, conflicts_with_all = ["directory", "config", "options", "exit_codes"])]
        log_fields: bool,
    },
    /// Say what responds to a URL and which rule says so, without a server
    #[command(
        after_help = "Examples:\n  reprise route http://shop.example/a/b?c --config /etc/reprise/reprise.toml\n  reprise route /data/db.sqlite ."
    )]
    Route(route::Asked),
    /// Compare pages of a running server with the same pages in classic mode, or in another PHP, as two visitors
    #[command(after_help = verify::HELP)]
    Verify(verify::Asked),
    /// Find what will fail, leak or be slow: versions of PHP, state that stays, what strangers reach, and the machine
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Asked),
    /// Serve an application while its code is written: every save is seen by the next request, errors and changes in the browser
    #[command(after_help = dev::HELP)]
    Dev(dev::Asked),
    /// Compare servers in turns: throughput, latency at fixed rates, processor time and memory, with confidence intervals
    #[command(disable_help_flag = true)]
    Bench(measuring::Arguments),
    /// Measure how much processor time each group of processes spends on a request
    #[command(disable_help_flag = true)]
    Psd(measuring::Arguments),
    /// Print the versions of Reprise and of its PHP
    Version,
    /// Build releases, push them to a pool, and say which one all nodes serve
    #[command(subcommand, after_help = release::HELP)]
    Release(release::Verb),
}

/// What Reprise starts itself as, and what its packages are made with: in no help, completion or suggestion.
#[derive(Parser)]
#[command(name = "reprise", disable_help_subcommand = true)]
enum Internal {
    VerifyServer(verify::Draft),
    ReleaseFollow,
    ReleaseFetch,
    ReleaseStart,
    ReleaseCompile,
    Front,
    Acme,
    Watcher { since: u64 },
    Mail,
    Store { address: u64, size: u64 },
    Manual { directory: std::path::PathBuf },
}

fn reload_help() -> String {
    format!(
        "New processes boot beside the old ones, with an empty opcache. When they are ready, new requests go to them; the old \
         ones finish their requests and end. If anything fails, the old ones go on.\n\nWhat takes a restart: {}.",
        options::restart_help()
    )
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let word = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    let run = if Internal::command().find_subcommand(word).is_some() {
        Internal::try_parse_from(&arguments).map(internal)
    } else {
        Command::try_parse_from(words::understood(&arguments)).map(|command| verb(command.verb))
    };
    let code = match run {
        Ok(Ok(code)) => exit::status(code),
        Ok(Err(failure)) => failure.report(),
        // Help was asked for and goes to stdout; everything else is a mistake.
        Err(error) => {
            let code = if error.use_stderr() { exit::Code::Usage } else { exit::Code::Success };
            let _ = error.print();
            words::hint(&error).into_iter().for_each(|hint| eprintln!("hint: {hint}"));
            exit::status(code)
        }
    };
    supervisor::logs::log::finish();
    code
}

fn internal(verb: Internal) -> Result<exit::Code, exit::Failure> {
    match verb {
        Internal::VerifyServer(draft) => verify::serve(draft),
        Internal::ReleaseFollow => releases::follow(),
        Internal::ReleaseFetch => releases::fetch(),
        Internal::ReleaseStart => releases::start(),
        Internal::ReleaseCompile => release::compile(),
        Internal::Front => front_process::run(),
        Internal::Acme => acme::run(),
        Internal::Watcher { since } => development::watcher::run(since),
        Internal::Mail => development::mail::run(),
        Internal::Store { address, size } => store::run(address, size),
        Internal::Manual { directory } => manual::write(&directory, Command::command()),
    }
}

fn verb(verb: Verb) -> Result<exit::Code, exit::Failure> {
    match verb {
        Verb::Serve { what, audit } => serve::run(what, audit),
        Verb::Stop { which } => admin::stop(&which),
        Verb::Reload { certificates, which } => admin::reload(&which, certificates),
        Verb::Status { which, ready: true, .. } => admin::ready(&which),
        Verb::Status { which, all, watch, json, .. } => admin::status(&which, json, all, watch),
        Verb::Trace { pid, which } => admin::trace(&which, pid),
        Verb::Profile(asked) => profile::run(&asked),
        Verb::Purge(asked) => admin::purge::purge(&asked),
        Verb::Cache(admin::purge::CacheVerb::Explain { url, which }) => admin::purge::explain(&url, &which),
        Verb::Cache(admin::purge::CacheVerb::Data(verb)) => admin::data::run(&verb),
        Verb::Check { options: true, .. } => check::print(&options::reference()),
        Verb::Check { exit_codes: true, .. } => check::print(&exit::reference()),
        Verb::Check { log_fields: true, .. } => check::print(&front::access::reference()),
        Verb::Check { what, .. } => check::run(&what),
        Verb::Route(asked) => route::run(&asked),
        Verb::Verify(asked) => verify::run(&asked),
        Verb::Doctor(asked) => doctor::run(&asked),
        Verb::Dev(asked) => dev::run(asked),
        Verb::Bench(arguments) => measuring::run("bench", &arguments),
        Verb::Psd(arguments) => measuring::run("psd", &arguments),
        Verb::Version => version::run(),
        Verb::Release(verb) => release::run(&verb),
    }
}
