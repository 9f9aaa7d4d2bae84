//! Files with the countries of addresses, which derived headers name. A child of the supervisor reads them, or of `reprise check`; the front gets sealed memory
//! files with tables that were made of them, and never opens one of these files. Nobody maps them: who replaces a file in place would end who reads it.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use routing::countries::Countries;
use routing::countries::maxmind::{self, MAX_SIZE};
use routing::derived::by_country::ByCountry;
use routing::derived::{Derived, From};
use routing::settings::Settings;
use supervisor::peers::boot;
use supervisor::peers::errand::Errand;
use supervisor::plan::MAX_FILES;

use crate::exit::{Code, Failure};
use crate::options::Config;

/// How long it may take to read all of them. A reload's child has to read the rest of the configuration in [`supervisor::peers::errand::PATIENCE`] too.
const PATIENCE: Duration = Duration::from_secs(6);
/// Somebody who writes a file in place should do this instead.
const RENAME: &str = "download it again, write it beside the old one and rename it";

/// The headers with a country, of these.
fn by_country(all: &mut [Derived]) -> impl Iterator<Item = &mut ByCountry> {
    all.iter_mut().filter_map(|one| match &mut one.from {
        From::Country(by) => Some(by),
        _ => None,
    })
}

/// The files, each once, with the place where it is named first and the header.
fn named(config: &Config) -> Vec<(&Path, String)> {
    let mut all: Vec<(&Path, String)> = Vec::new();
    for application in &config.applications {
        for derived in &application.derive {
            let From::Country(ByCountry { file: Some(file), .. }) = &derived.from else { continue };
            if !all.iter().any(|(known, _)| known == file) {
                let place = application.places.of("derive").map(|place| format!("{place}: ")).unwrap_or_default();
                all.push((file, format!("{place}derive.{}: {}", derived.name, file.display())));
            }
        }
    }
    all
}

/// Says in the front's settings which of its tables belongs to which header.
pub fn number(config: &Config, settings: &mut Settings) {
    let files: Vec<PathBuf> = named(config).into_iter().map(|(file, _)| file.to_owned()).collect();
    settings.country_tables = files.len();
    for by in settings.applications.iter_mut().flat_map(|application| by_country(&mut application.derive)) {
        by.table = files.iter().position(|file| Some(file) == by.file.as_ref()).unwrap_or(0);
    }
}

fn read(path: &Path, what: &str, until: Instant) -> Result<Countries, Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::new(Code::Permission, what, error),
        _ => Failure::new(Code::Configuration, what, error),
    };
    let wrong = |why: &str| Failure::new(Code::Configuration, what, why).hint(RENAME);
    let file = supervisor::os::files::open_regular(path).map_err(failed)?;
    let seen = || file.metadata().map(|one| (one.size(), one.mtime(), one.mtime_nsec(), one.ctime(), one.ctime_nsec()));
    let before = seen().map_err(failed)?;
    let mut bytes = Vec::new();
    (&file).take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(Failure::new(Code::Configuration, what, format!("is larger than {} MiB", MAX_SIZE >> 20))
            .hint("a file of countries has 10 MiB: GeoLite2-Country, not one of cities"));
    }
    if seen().map_err(failed)? != before || bytes.len() as u64 != before.0 {
        return Err(wrong("was changed while it was read"));
    }
    maxmind::read(&bytes, until).map_err(|why| wrong(&why))
}

/// The tables of all files, sealed, in the order of their numbers.
pub fn draft(config: &Config) -> Result<Vec<OwnedFd>, Failure> {
    let named = named(config);
    if let Some((_, what)) = named.get(MAX_FILES) {
        let why = format!("there may be {MAX_FILES} files of countries, and this is one more");
        return Err(Failure::new(Code::Configuration, what, why).hint("applications may name the same file"));
    }
    let until = Instant::now() + PATIENCE;
    let table = |(path, what): &(&Path, String)| {
        let countries = read(path, what, until)?;
        boot::sealed(&countries.to_bytes()).map_err(|error| Failure::new(Code::Internal, what, error))
    };
    named.iter().map(table).collect()
}

/// [`draft`] in a child: what a file does to its reader happens to nobody else.
pub fn draft_in_child(config: &Config) -> Result<Vec<OwnedFd>, Failure> {
    if named(config).is_empty() {
        return Ok(Vec::new());
    }
    let failed = |why: String| Failure::new(Code::Internal, "files of countries", why);
    let errand = Errand::send(|| match draft(config) {
        Ok(files) => Ok((Ok(()), files)),
        Err(failure) => Ok((Err(failure.parts()), Vec::new())),
    });
    match errand.map_err(|error| failed(error.to_string()))?.wait::<Result<(), _>>().map_err(failed)? {
        (Ok(()), files) => Ok(files),
        (Err(parts), _) => Err(Failure::of_parts(parts)),
    }
}
