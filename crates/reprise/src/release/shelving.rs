//! `reprise release push`, `list` and `remove`: what lies in a pool.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;

use clap::Args;
use release::container;
use release::keys::{SecretKey, hex};
use release::manifest::Limits;
use release::pool::{MAX_RELEASES, Pool, Slot};
use release::record::{Record, Release, parse_name};
use serde_json::json;

use super::building::Progress;
use super::{Key, Where, failed, open, print};
use crate::exit::{Code, Failure};

/// What is asked for.
#[derive(Args)]
pub struct Push {
    /// The file of the release
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A directory, or valkey://HOST:PORT
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    key: Key,
    /// Certificates of the authorities that the pool's certificate is checked against, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What is asked for.
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    of: Where,
}

/// What is asked for.
#[derive(Args)]
pub struct Remove {
    #[command(flatten)]
    of: Where,
    /// The release: its sequence, or the beginning of its id
    #[arg(value_name = "RELEASE")]
    release: String,
    /// Also the one that is served, or the one that a rollback would lead to
    #[arg(long)]
    force: bool,
}

/// Puts a release into a pool.
pub fn push(asked: &Push) -> Result<Code, Failure> {
    let what = asked.file.display().to_string();
    let wrong = |error: std::io::Error| Failure::new(Code::Usage, &what, error);
    let mut file = File::open(&asked.file).map_err(wrong)?;
    let key = asked.key.read()?;
    let copy = file.try_clone().map_err(wrong)?;
    let checked = container::check(copy, &Key::trusted(key.as_ref())).map_err(failed(&what))?;
    let digest = checked.digest.clone();
    let (manifest, _) = checked.read(&Limits { bytes: u64::MAX }).map_err(failed(&what))?;
    let release = Release { sequence: manifest.sequence, id: manifest.id.clone(), digest };
    let name = &manifest.application;
    let mut pool = open(&asked.pool, name, asked.ca.as_deref())?;
    let there = pool.releases().map_err(failed(format!("the pool of '{name}'")))?;
    if there.len() >= MAX_RELEASES && !there.contains(&release.name()) {
        let why = format!("has {MAX_RELEASES} releases, which is the most");
        return Err(Failure::new(Code::Usage, format!("the pool of '{name}'"), why)
            .hint("reprise release remove POOL NAME RELEASE, for those that nobody goes back to"));
    }
    let latest = there.iter().filter_map(|one| parse_name(one)).map(|(sequence, _)| sequence).max();
    if let Some(latest) = latest.filter(|latest| *latest > release.sequence) {
        let why = format!("has the sequence {}, and the pool has {latest} already", release.sequence);
        return Err(Failure::new(Code::Usage, &what, why).hint("build it with a higher --sequence; are clocks apart?"));
    }
    file.seek(SeekFrom::Start(0)).map_err(wrong)?;
    let mut progress = Progress::new("pushing");
    let put = pool.put(&release.name(), &mut file, &mut |bytes| progress.add(bytes));
    let is_new = put.map_err(failed(format!("the pool of '{name}'")))?;
    if !is_new {
        let there = digest_in(&mut *pool, &release.name(), key.as_ref())?;
        if there != release.digest {
            let why = format!("the pool of '{name}' has another release {}", release.name());
            return Err(Failure::new(Code::Usage, &what, why).hint("build it anew, with another --sequence"));
        }
    }
    let done = if is_new { "pushed" } else { "there already" };
    let value = json!({ "name": name, "release": release.name(), "sequence": release.sequence, "id": release.id, "is_new": is_new });
    print(asked.json, &value, &format!("{name} {}: {done}", release.name()));
    Ok(Code::Success)
}

/// The digest of a release in a pool, whose signature is checked.
pub(super) fn digest_in(pool: &mut dyn Pool, name: &str, key: Option<&SecretKey>) -> Result<String, Failure> {
    let what = format!("the release {name} in the pool");
    let wrong = |error: std::io::Error| Failure::new(Code::Internal, &what, error);
    let path = std::env::temp_dir().join(format!(
        "reprise-release-{}-{}.part",
        std::process::id(),
        hex(&name.as_bytes()[..8.min(name.len())])
    ));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).map_err(wrong)?;
    // It has no name any more, and goes with this process.
    std::fs::remove_file(&path).map_err(wrong)?;
    pool.fetch(name, &mut file, u64::MAX - 1).map_err(failed(&what))?;
    let checked = container::check(file, &Key::trusted(key)).map_err(failed(&what))?;
    Ok(checked.digest)
}

/// What the record says that is served, and the one before, if the record can be read.
pub(super) fn served(pool: &mut dyn Pool, of: &Where) -> Result<Option<Record>, Failure> {
    let bytes = pool.read(Slot::Serve).map_err(of.failed())?;
    // Whose it is nodes decide. Here it is shown, and what is to be signed is checked again.
    Ok(bytes.and_then(|bytes| Record::show(&bytes, &of.name).ok()))
}

/// Lists the releases in a pool, the newest first.
pub fn list(asked: &List) -> Result<Code, Failure> {
    let mut pool = asked.of.open()?;
    let mut names = pool.releases().map_err(asked.of.failed())?;
    names.sort_by_key(|name| std::cmp::Reverse(parse_name(name).map(|(sequence, _)| sequence)));
    let record = served(&mut *pool, &asked.of)?;
    let is = |name: &str| {
        let release = |one: Option<&Release>| one.is_some_and(|one| one.name() == name);
        match &record {
            Some(record) if release(Some(&record.release)) => "served",
            Some(record) if release(record.previous.as_ref()) => "previous",
            _ => "",
        }
    };
    let all: Vec<_> = names.iter().map(|name| json!({ "release": name, "is": is(name) })).collect();
    let text: Vec<String> = names.iter().map(|name| format!("{name} {}", is(name)).trim_end().to_owned()).collect();
    print(asked.of.json, &json!({ "name": asked.of.name, "releases": all }), &text.join("\n"));
    Ok(Code::Success)
}

/// The release that is meant.
pub(super) fn find(pool: &mut dyn Pool, of: &Where, wanted: &str) -> Result<String, Failure> {
    let mut names = pool.releases().map_err(of.failed())?;
    names.sort_by_key(|name| parse_name(name).map(|(sequence, _)| sequence));
    let is_it = |name: &&String| {
        let parts = parse_name(name);
        parts.is_some_and(|(sequence, id)| {
            **name == wanted || sequence.to_string() == wanted || (wanted.len() >= 4 && id.starts_with(wanted))
        })
    };
    let wrong = |why: String| Failure::new(Code::Usage, format!("the pool of '{}'", of.name), why);
    if wanted == "latest" {
        return names.pop().ok_or_else(|| wrong("has no release".to_owned()).hint("reprise release push FILE POOL"));
    }
    let found: Vec<&String> = names.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(wrong(format!("has no release '{wanted}'")).hint("reprise release list POOL NAME")),
        // The same sources, built several times: the newest.
        [.., last]
            if found.iter().all(|one| parse_name(one).map(|(_, id)| id) == parse_name(last).map(|(_, id)| id)) =>
        {
            Ok((*last).clone())
        }
        _ => Err(wrong(format!("has several releases '{wanted}'"))),
    }
}

/// Takes a release out of a pool.
pub fn remove(asked: &Remove) -> Result<Code, Failure> {
    let mut pool = asked.of.open()?;
    let name = find(&mut *pool, &asked.of, &asked.release)?;
    if let Some(record) = served(&mut *pool, &asked.of)?.filter(|_| !asked.force) {
        let needed = std::iter::once(&record.release).chain(&record.previous).find(|one| one.name() == name);
        if needed.is_some() {
            let why = "is served, or is the one that a rollback leads to: nodes that start would not find it";
            return Err(
                Failure::new(Code::Usage, format!("the release {name}"), why).hint("--force removes it all the same")
            );
        }
    }
    pool.remove(&name).map_err(asked.of.failed())?;
    print(
        asked.of.json,
        &json!({ "name": asked.of.name, "removed": name }),
        &format!("{} {name}: removed", asked.of.name),
    );
    Ok(Code::Success)
}
