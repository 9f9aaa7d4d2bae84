//! Writes the file of a release. It has a name only when it is complete.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};

use crate::container::{self, HEADER, MAGIC};
use crate::fault::Fault;
use crate::keys::{Purpose, Seal, SecretKey, hex};
use crate::manifest::Manifest;
use crate::tree::Source;

/// How hard zstd tries: nodes unpack as fast at any level.
const LEVEL: i32 = 9;

/// Writes a release. `sources` are the files of the manifest, then those of opcache, in its order. `done` is told of bytes.
///
/// # Errors
/// A file has changed since the manifest was made, or the disk is full.
pub fn write(
    to: &Path,
    manifest: &Manifest,
    sources: &[Source],
    key: Option<&SecretKey>,
    done: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let part = to.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = write_part(&part, manifest, sources, key, done);
    let finished = written.and_then(|()| std::fs::rename(&part, to).map_err(Fault::of_file(to)));
    if finished.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    finished
}

fn write_part(
    part: &Path,
    manifest: &Manifest,
    sources: &[Source],
    key: Option<&SecretKey>,
    done: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let failed = Fault::of_file(part);
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(part).map_err(&failed)?;
    let text = serde_json::to_vec(manifest).map_err(|error| Fault::refused(format!("the manifest: {error}")))?;
    if text.len() > container::MAX_MANIFEST {
        return Err(Fault::refused(format!("the manifest is larger than {} bytes", container::MAX_MANIFEST)));
    }
    let mut to = BufWriter::new(&mut file);
    to.write_all(&[0; HEADER]).map_err(&failed)?;
    to.write_all(&(text.len() as u32).to_le_bytes()).map_err(&failed)?;
    to.write_all(&text).map_err(&failed)?;
    let mut archive = zstd::stream::write::Encoder::new(to, LEVEL).map_err(&failed)?;
    for source in sources {
        append(&mut archive, source)?;
        done(source.entry.size);
    }
    archive.finish().and_then(|mut to| to.flush()).map_err(&failed)?;
    file.seek(SeekFrom::Start(HEADER as u64)).map_err(&failed)?;
    let (digest, length) = container::hash(&mut file).map_err(&failed)?;
    let seal = key.map_or(Seal::NONE, |key| key.sign(Purpose::Release, &digest));
    file.seek(SeekFrom::Start(0)).map_err(&failed)?;
    file.write_all(&[&MAGIC[..], &length.to_le_bytes(), &seal.bytes()].concat()).map_err(&failed)?;
    file.sync_all().map_err(&failed)
}

fn append(to: &mut impl Write, source: &Source) -> Result<(), Fault> {
    let failed = Fault::of_file(&source.from);
    let changed = || Fault::refused(format!("{}: was changed while the release was built", source.from.display()));
    // One byte more would be seen.
    let mut from = File::open(&source.from).map_err(&failed)?.take(source.entry.size + 1);
    let (mut hash, mut piece, mut length) = (Context::new(&SHA256), vec![0; 64 << 10], 0);
    loop {
        let read = from.read(&mut piece).map_err(&failed)?;
        if read == 0 {
            break;
        }
        length += read as u64;
        if length > source.entry.size {
            return Err(changed());
        }
        hash.update(&piece[..read]);
        to.write_all(&piece[..read]).map_err(|error| Fault::refused(format!("the release: {error}")))?;
    }
    match hex(hash.finish().as_ref()) == source.entry.sha256 {
        true => Ok(()),
        false => Err(changed()),
    }
}
