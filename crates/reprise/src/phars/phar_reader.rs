//! The process that reads a phar: it checks the signature, unpacks, makes the copy that PHP will read, and ends.
//!
//! Bytes of strangers are parsed here alone. So it has the bytes in memory and nothing else: it opens no file but those that it makes below one
//! directory, reaches no network, starts no program, and if the server is root's it is nobody's. Another process of nobody cannot reach that
//! directory, which lies in a closed one ([`super::shelf`]).

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use supervisor::os::user::{self, Identity};
use supervisor::os::{confine, sys};
use supervisor::peers::boot;
use supervisor::peers::errand::{Answer, Errand};

use super::{REPLACE, unpack};

/// Whose the process is if the server is root's. What it makes belongs to root afterwards.
const USER: &str = "nobody";

/// Characters of a message about a phar.
const MOST_SAID: usize = 1000;

/// What is to be read.
pub struct Task<'a> {
    /// The phar.
    pub bytes: &'a [u8],
    /// The public key beside it.
    pub key: Option<Vec<u8>>,
    /// The name of its file.
    pub stub: &'a [u8],
    /// When the file was changed.
    pub time: u32,
}

/// What was found out.
#[derive(Serialize, Deserialize)]
pub struct Facts {
    /// How it is signed, and how much is in it, for people.
    pub described: String,
    /// What somebody who serves it should know.
    pub notices: Vec<String>,
}

/// Has a phar read, and unpacked into that directory, which is empty, unless it was unpacked before; the second is the sealed copy.
pub fn send(task: &Task<'_>, place: Option<&Path>) -> Result<(Facts, OwnedFd), String> {
    let user = user::is_root().then(|| Identity::named(USER)).transpose()?;
    if let Some((user, place)) = user.as_ref().zip(place) {
        let given = std::os::unix::fs::lchown(place, Some(user.uid), Some(user.gid));
        given.map_err(|error| format!("{}: {error}", place.display()))?;
    }
    let errand = Errand::send(|| work(task, place, user.as_ref()));
    let errand = errand.map_err(|error| format!("a process that reads it cannot be started: {error}"))?;
    let answer = errand.wait::<Facts>();
    // What it has made is taken over now: it must not be there any more.
    errand.end();
    let (facts, descriptors) = answer.map_err(|why| plain(&why))?;
    let copy = descriptors.into_iter().next().ok_or("the process that reads it has sent too little")?;
    // PHP maps it: nobody may change it any more.
    match rustix::fs::fcntl_get_seals(&copy) {
        Ok(seals) if seals.contains(boot::SEALS) => Ok((facts, copy)),
        _ => Err("the process that reads it has sent no sealed copy".to_owned()),
    }
}

/// The beginning of a text that a process says that has read bytes of strangers.
fn plain(text: &str) -> String {
    text.chars().take(MOST_SAID).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Nothing is parsed before this.
fn confine(place: Option<&Path>, user: Option<&Identity>) -> std::io::Result<()> {
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    sys::set_name(c"reprise-phar");
    if let Some(place) = place {
        // The way there is closed to who it will be.
        std::env::set_current_dir(place)?;
    }
    if let Some(user) = user {
        sys::become_user(user)?;
        sys::start_no_more()?;
    }
    sys::end_with_parent()?;
    sys::protect_memory()?;
    // The front has said what this kernel cannot do.
    confine::nothing_below(place.map(|_| Path::new("."))).map(drop)
}

fn work(task: &Task<'_>, place: Option<&Path>, user: Option<&Identity>) -> Answer<Facts> {
    confine(place, user).map_err(|error| format!("the process that reads it cannot be confined: {error}"))?;
    let bytes = task.bytes;
    let kind = phar::signature::check(bytes, task.key.as_deref());
    let kind = kind.map_err(|why| match phar::archive::other_format(bytes) {
        Some(other) => other.to_owned(),
        None => format!("{why}. If it is being written in place: {REPLACE}"),
    })?;
    let archive = phar::read(bytes)?;
    if archive.entries.iter().any(|entry| entry.name.split(|byte| *byte == b'/').next() == Some(task.stub)) {
        return Err("an entry has the name of the phar itself, by which its stub is run".to_owned());
    }
    if place.is_some() {
        unpack::unpack(&archive, task.stub, task.time, Path::new("."))?;
    }
    let copy = phar::for_php::copy(bytes, &archive, task.time);
    let copy = boot::sealed(&copy).map_err(|error| format!("the copy for PHP: {error}"))?;
    let files = archive.entries.iter().filter(|entry| !entry.is_directory());
    let (files, size) = files.fold((0, 0), |(files, size), entry| (files + 1, size + u64::from(entry.size)));
    let described = format!("{files} files with {} KiB, signed by {}", size.div_ceil(1024), kind.word());
    Ok((Facts { described, notices: notices(kind) }, vec![copy]))
}

fn notices(kind: phar::signature::Kind) -> Vec<String> {
    let weak = kind.is_weak().then(|| {
        format!(
            "its signature is {}, which can be forged: sign it by SHA-256, SHA-512 or OpenSSL_SHA256 (Phar::setSignatureAlgorithm)",
            kind.word()
        )
    });
    weak.into_iter().collect()
}
