//! The short-lived process: it brings a release from the pool, checks it and unpacks it. What it reads comes from strangers, so nothing
//! else runs in it, and a mistake there ends it alone.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use crate::container::{self, Checked};
use crate::fault::Fault;
use crate::kept::{self, Kept};
use crate::record::Release;
use crate::settings::Settings;
use crate::unpack;

/// How often a pool is asked that does not respond.
const ATTEMPTS: u32 = 5;
/// Before the second attempt; then twice as long each time, and a random part of it.
const PAUSE: Duration = Duration::from_millis(200);

/// Has a release in its directory, whatever of that is missing. Returns whether it was unpacked now.
///
/// # Errors
/// It cannot be had, or is refused; why.
pub fn fetch(settings: &Settings, kept: &mut Kept, release: &Release) -> Result<bool, Fault> {
    let place = settings.place(&release.id);
    if unpack::is_unpacked(&place, &release.digest, &settings.shared()) {
        return Ok(false);
    }
    let named = |fault: Fault| match fault {
        Fault::Refused(why) => Fault::Refused(format!("the release {} {why}", release.name())),
        passing => passing,
    };
    let checked = match kept_file(settings, release) {
        Some(checked) => checked,
        None => download(settings, release)?,
    };
    let (manifest, archive) = checked.read(&settings.limits()).map_err(named)?;
    if manifest.id != release.id || manifest.sequence != release.sequence {
        return Err(named(Fault::refused("is another one than its record says")));
    }
    settings.suits(&manifest).map_err(named)?;
    kept.make_room(settings, manifest.room(), &release.id).map_err(named)?;
    unpack::unpack(archive, &manifest, &release.digest, &place, &settings.shared()).map_err(named)?;
    Ok(true)
}

/// The file that is kept, if it is the one that the record means.
fn kept_file(settings: &Settings, release: &Release) -> Option<Checked> {
    let path = kept::file(settings, release);
    let checked = container::check(fs::File::open(&path).ok()?, &settings.keys().ok()?);
    match checked {
        Ok(checked) if checked.digest == release.digest => Some(checked),
        _ => {
            let _ = fs::remove_file(&path);
            None
        }
    }
}

/// Brings it, and keeps it if it is right.
fn download(settings: &Settings, release: &Release) -> Result<Checked, Fault> {
    let path = kept::file(settings, release);
    let part = path.with_extension("part");
    let failed = Fault::of_file(&part);
    let mut attempt = 0;
    let fetched = loop {
        // A file of its own: what is checked in it nobody else writes.
        let _ = fs::remove_file(&part);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&part).map_err(&failed)?;
        let fetched = settings.open().and_then(|mut pool| pool.fetch(&release.name(), &mut file, most(settings)));
        // It is what this node starts with when the pool is gone.
        let fetched = fetched.and_then(|()| file.sync_data().map_err(&failed));
        attempt += 1;
        match fetched {
            Err(fault) if fault.is_passing() && attempt < ATTEMPTS => {
                let pause = PAUSE * 2u32.pow(attempt - 1);
                std::thread::sleep(pause.mul_f64(0.5 + fastrand::f64()));
            }
            fetched => break fetched.map(|()| file),
        }
    };
    let checked = fetched.and_then(|file| {
        let checked = container::check(file, &settings.keys()?)
            .map_err(|why| Fault::refused(format!("the release {} {why}", release.name())))?;
        match checked.digest == release.digest {
            true => Ok(checked),
            false => Err(Fault::refused(format!("the release {} is another one than its record says", release.name()))),
        }
    });
    if checked.is_err() {
        let _ = fs::remove_file(&part);
    } else {
        fs::rename(&part, &path).map_err(Fault::of_file(&path))?;
    }
    checked
}

/// Bytes of a file that is brought: what it unpacks to, and as much again for the manifest.
fn most(settings: &Settings) -> u64 {
    settings.memory.saturating_add(container::MAX_MANIFEST as u64)
}
