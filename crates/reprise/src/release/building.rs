//! `reprise release build`: the files of a directory, compiled for a PHP, as one signed file.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use release::manifest::{self, Compiled, Entry, FORMAT, Limits, Manifest, is_name};
use release::pack;
use release::tree::{self, Excludes, LEFT_OUT, Source};
use serde_json::json;
use supervisor::os::programs::PhpVersion;

use super::{Key, compiling, failed, print};
use crate::exit::{Code, Failure};
use crate::installed::{self, Php};
use crate::releases::DIRECTORY;

/// What is asked for.
#[derive(Args)]
pub struct Asked {
    /// The application's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The file of the release
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The application, as the nodes' configuration names it; else the directory's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    key: Key,
    /// What is left out, besides .git and the like: a name, a name with * at one end, or a path in DIR
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Counts releases, and has to increase; else the milliseconds since 1970
    #[arg(long, value_name = "N")]
    sequence: Option<u64>,
    /// The nodes' release_dir: compiled code has paths in it
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    release_dir: PathBuf,
    /// The version of PHP to compile for; else the newest that is installed
    #[arg(long, value_name = "VERSION", conflicts_with = "no_compile")]
    php: Option<PhpVersion>,
    /// Without compiled code: nodes compile, and any PHP can
    #[arg(long)]
    no_compile: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Says on standard error how far it is, once a second.
pub(super) struct Progress {
    what: &'static str,
    bytes: u64,
    next: Instant,
}

impl Progress {
    pub(super) fn new(what: &'static str) -> Progress {
        Progress { what, bytes: 0, next: Instant::now() + std::time::Duration::from_secs(1) }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if Instant::now() >= self.next {
            self.next = Instant::now() + std::time::Duration::from_secs(1);
            eprintln!("{}: {} MiB", self.what, self.bytes >> 20);
        }
    }
}

/// The time since 1970.
fn now() -> Duration {
    let from_environment = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    from_environment.map_or_else(clock, Duration::from_secs)
}

fn php(asked: &Asked) -> Result<Php, Failure> {
    let none = |why: String| {
        Failure::new(Code::NotBooted, "reprise-php", why)
            .hint(format!("{}; --no-compile builds without", installed::package()))
    };
    match asked.php {
        Some(version) => {
            installed::of_version(version).ok_or_else(|| none(format!("PHP {version} is not installed for Reprise")))
        }
        None => {
            installed::all().into_iter().find_map(Result::ok).ok_or_else(|| none("no version is installed".to_owned()))
        }
    }
}

pub fn run(asked: &Asked) -> Result<Code, Failure> {
    let began = Instant::now();
    let path = asked.directory.canonicalize();
    let path = path.map_err(|error| Failure::new(Code::Usage, asked.directory.display().to_string(), error))?;
    let own = || path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = asked.name.clone().unwrap_or_else(own);
    if !is_name(&name) {
        return Err(Failure::new(Code::Usage, "--name", format!("'{name}' cannot be an application's name"))
            .hint("letters, digits, dots, dashes and underlines, 64 at most"));
    }
    let key = asked.key.read()?;
    let excludes = Excludes(LEFT_OUT.iter().map(|one| (*one).to_owned()).chain(asked.exclude.clone()).collect());
    let mut progress = Progress::new("reading");
    let mut sources = tree::collect(&path, &excludes, &mut |bytes| progress.add(bytes))
        .map_err(failed(path.display().to_string()))?;
    let files: Vec<Entry> = sources.iter().map(|one| one.entry.clone()).collect();
    let made = now();
    let id = manifest::id(&files);
    // Two releases may be built in one second.
    let sequence = asked.sequence.unwrap_or(made.as_millis() as u64);
    let made = made.as_secs();
    let mut manifest =
        Manifest { format: FORMAT, application: name, id, sequence, made, compiled: None, files, code: Vec::new() };
    // It holds what was compiled until that is packed.
    let mut compiled = None;
    if !asked.no_compile {
        let php = php(asked)?;
        let result = compiling::compile(&manifest, &sources, &asked.release_dir, &php)?;
        let code = result.collect().map_err(failed("what opcache has made"))?;
        let place = asked.release_dir.join(&manifest.application);
        manifest.compiled = result.build.as_ref().map(|build| Compiled {
            php: php.version.clone(),
            build: build.clone(),
            architecture: std::env::consts::ARCH.to_owned(),
            directory: place.to_string_lossy().into_owned(),
        });
        manifest.code = code.iter().map(|one: &Source| one.entry.clone()).collect();
        sources.extend(code);
        compiled = Some((php, result));
    }
    manifest.check(&Limits { bytes: u64::MAX }).map_err(failed(asked.output.display().to_string()))?;
    let mut progress = Progress::new("packing");
    pack::write(&asked.output, &manifest, &sources, key.as_ref(), &mut |bytes| progress.add(bytes))
        .map_err(failed(asked.output.display().to_string()))?;
    let size = asked.output.metadata().map_or(0, |known| known.len());
    for file in compiled.iter().flat_map(|(_, result)| &result.not_compiled) {
        eprintln!("warning: {file} does not compile by itself, and nodes compile it when a request loads it");
    }
    let for_php = compiled.as_ref().map(|(php, result)| {
        json!({ "php": php.version, "files": manifest.code.len(), "not_compiled": result.not_compiled })
    });
    let value = json!({
        "name": manifest.application, "id": manifest.id, "sequence": sequence, "files": manifest.files.len(),
        "bytes": manifest.bytes(), "size": size, "compiled": for_php, "signed": key.is_some(), "ms": began.elapsed().as_millis() as u64,
    });
    let with = compiled.map_or_else(
        || "not compiled".to_owned(),
        |(php, _)| format!("{} of them compiled for PHP {}", manifest.code.len(), php.version),
    );
    let signed = if key.is_some() { "signed" } else { "NOT SIGNED" };
    let text = format!(
        "{} {sequence}-{}: {} files, {with}; {} KiB, {signed}",
        manifest.application,
        manifest.id,
        manifest.files.len(),
        size >> 10
    );
    print(asked.json, &value, &text);
    Ok(Code::Success)
}
