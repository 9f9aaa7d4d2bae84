//! Phars of strangers: whatever the bytes are, they are read within limits or refused with words, and what is read could be unpacked.

use std::collections::BTreeSet;

use phar::{Archive, MAX_DEPTH, MAX_NAME, MAX_PART};

/// An entry stays below its directory, and its contents are as long as it says.
fn check_entries(archive: &Archive<'_>) {
    let mut files = BTreeSet::new();
    for entry in &archive.entries {
        assert!(entry.name.len() <= MAX_NAME && !entry.name.starts_with(b"/"));
        let plain = entry.name.strip_suffix(b"/").unwrap_or(entry.name);
        let parts: Vec<&[u8]> = plain.split(|byte| *byte == b'/').collect();
        assert!(parts.len() <= MAX_DEPTH);
        for part in parts {
            assert!(!part.is_empty() && part.len() <= MAX_PART && part != b"." && part != b"..");
            assert!(!part.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'));
        }
        assert!(files.insert(plain), "two entries at one place");
        match phar::contents::of(entry) {
            Ok(contents) => assert_eq!(contents.len(), entry.size as usize),
            Err(why) => assert!(!why.is_empty()),
        }
    }
    let is_file = |path: &[u8]| archive.entries.iter().any(|entry| !entry.is_directory() && entry.name == path);
    for name in files {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        assert!(!ends.map(|end| &name[..end]).any(is_file), "a file where a directory is needed");
    }
}

/// A phar; after a line of percent signs the key beside it. Its signature need not be right for its manifest to be read: few inputs would be.
pub fn check(bytes: &[u8]) {
    let separator = b"\n%%\n";
    let end = bytes.windows(separator.len()).position(|part| part == separator);
    let (bytes, key) = end.map_or((bytes, None), |end| (&bytes[..end], Some(&bytes[end + separator.len()..])));
    let checked = phar::signature::check(bytes, key);
    assert!(checked.as_ref().err().is_none_or(|why| !why.is_empty()));
    let archive = match phar::read(bytes) {
        Ok(archive) => archive,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!(checked.is_err() || checked == Ok(archive.kind));
    // Enough for any defect, and each input is soon read.
    if archive.entries.len() > 300 {
        return;
    }
    check_entries(&archive);
    let copy = phar::for_php::copy(bytes, &archive, 1_800_000_000);
    if *copy == *bytes {
        return;
    }
    assert!(archive.stub == &copy[..archive.stub.len()]);
    assert!(phar::signature::check(&copy, None).is_ok());
    let again = phar::read(&copy).expect("the copy of a phar is one");
    assert_eq!(again.entries.len(), archive.entries.len());
    for (new, old) in again.entries.iter().zip(&archive.entries) {
        assert_eq!((new.name, new.packed, new.size), (old.name, old.packed, old.size));
        assert!(new.is_directory() || new.time == if old.time == 0 { 1_800_000_000 } else { old.time });
    }
}
