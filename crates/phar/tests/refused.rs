//! Archives that PHP's own writer would not make. All are signed, so what is wrong with them is found behind that.

use aws_lc_rs::digest::{SHA256, digest};

/// An entry: its name, its size, the size of its bytes, flags and bytes.
#[derive(Clone, Copy)]
struct Entry(&'static str, u32, u32, u32, &'static [u8]);

const fn plain(name: &'static str) -> Entry {
    Entry(name, 2, 2, 0o644, b"hi")
}

fn sign(mut all: Vec<u8>) -> Vec<u8> {
    all.extend(digest(&SHA256, &all).as_ref().to_vec());
    all.extend([3, 0, 0, 0]);
    all.extend(b"GBMB");
    all
}

/// A phar with these entries. `change` may change its manifest.
fn archive(entries: &[Entry], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let number = u32::to_le_bytes;
    let flags = number(0x10000);
    let mut manifest = [&number(entries.len() as u32)[..], &[0x11, 0x10], &flags, &number(0), &number(0)].concat();
    for Entry(name, size, packed, flags, bytes) in entries {
        manifest.extend(number(name.len() as u32));
        manifest.extend(name.as_bytes());
        let mut sum = flate2::Crc::new();
        sum.update(if *packed == *size { bytes } else { b"hi" });
        for value in [*size, 1_700_000_000, *packed, sum.sum(), *flags, 0] {
            manifest.extend(number(value));
        }
    }
    change(&mut manifest);
    let mut all = b"<?php __HALT_COMPILER(); ?>\n".to_vec();
    all.extend(number(manifest.len() as u32));
    all.extend(manifest);
    entries.iter().for_each(|entry| all.extend(entry.4));
    sign(all)
}

/// All that is done with a phar before it is served.
fn read_all(bytes: &[u8]) -> Result<usize, String> {
    phar::signature::check(bytes, None)?;
    let archive = phar::read(bytes)?;
    archive.entries.iter().try_fold(0, |sum, entry| Ok(sum + phar::contents::of(entry)?.len()))
}

/// A tar of the oldest kind, whose only mark is the checksum of its header, with all of a phar in it: PHP would read the tar.
#[test]
fn a_phar_within_a_tar_is_refused() {
    let mut block = [0; 512];
    block[..9].copy_from_slice(b"index.php");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let inner = archive(&[plain("a")], |_| {});
    let unsigned = &inner[..inner.len() - 40];
    let whole = sign([&block[..], unsigned].concat());
    assert!(read_all(&whole).is_err_and(|why| why.contains("in the format of tar")));
    block[0] ^= 1;
    assert_eq!(read_all(&sign([&block[..], unsigned].concat())), Ok(2), "the checksum is another one's");
}

/// `hi`, deflated.
const DEFLATED: &[u8] = &[0xcb, 0xc8, 0x04, 0x00];

#[test]
fn bad_archives_are_refused_with_words() {
    let same = |_: &mut Vec<u8>| {};
    assert_eq!(read_all(&archive(&[plain("index.php"), Entry("z.txt", 2, 4, 0x11a4, DEFLATED)], same)), Ok(4));
    let from_end = |back: usize, value: u8| {
        move |manifest: &mut Vec<u8>| {
            let at = manifest.len() - back;
            manifest[at] ^= value;
        }
    };
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("two entries have the name", archive(&[plain("a"), plain("a")], same)),
        ("needs a directory", archive(&[plain("a"), plain("a/b")], same)),
        ("is a file where", archive(&[plain("a/b"), plain("a")], same)),
        ("lead out of the phar", archive(&[plain("../a")], same)),
        ("lead out of the phar", archive(&[plain("a/../../b")], same)),
        ("absolute path", archive(&[plain("/etc/passwd")], same)),
        ("two slashes", archive(&[plain("a//b")], same)),
        ("control character", archive(&[plain("a\0.txt")], same)),
        ("backslash", archive(&[plain("..\\a")], same)),
        ("no entries", archive(&[], same)),
        ("behind the end", archive(&[Entry("a", 2000, 2000, 0, b"hi")], same)),
        ("behind the end", archive(&[plain("a"), Entry("b", 30, 30, 0, b"hi")], same)),
        ("two different sizes", archive(&[Entry("a", 2, 3, 0, b"hi!")], same)),
        ("in two ways", archive(&[Entry("a", 2, 2, 0x3000, b"hi")], same)),
        ("directory with contents", archive(&[plain("a/")], same)),
        ("cannot be decompressed", archive(&[Entry("a", 9, 2, 0x1000, b"\xff\xff")], same)),
        ("cannot be decompressed", archive(&[Entry("a", 9, 2, 0x2000, b"hi")], same)),
        ("when it is decompressed", archive(&[Entry("a", 1, 4, 0x1000, DEFLATED)], same)),
        ("when it is decompressed", archive(&[Entry("a", 1 << 28, 4, 0x1000, DEFLATED)], same)),
        ("more than 256 MiB", archive(&[Entry("a", u32::MAX, 4, 0x1000, DEFLATED)], same)),
        ("more than 256 MiB", archive(&[Entry("a", (1 << 28) + 1, 4, 0x1000, DEFLATED)], same)),
        (
            "more than 1024 MiB",
            archive(&["a", "b", "c", "d", "e"].map(|name| Entry(name, 1 << 28, 4, 0x1000, DEFLATED)), same),
        ),
        (
            "its alias has a character",
            archive(&[plain("a")], |manifest| {
                // The length of the alias, and then what was the length of the metadata.
                manifest.splice(10..14, [3, 0, 0, 0, b'a', b'/', b'b']);
            }),
        ),
        ("those of its checksum", archive(&[plain("a")], from_end(12, 1))),
        ("too short for so many", archive(&[plain("a")], |manifest| manifest[0] = 9)),
        ("are the limit", archive(&[plain("a")], |manifest| manifest[3] = 9)),
        ("says that it has no signature", archive(&[plain("a")], |manifest| manifest[8] = 0)),
        ("which PHP does not read", archive(&[plain("a")], |manifest| manifest[4] = 0)),
        ("longer than its entries", archive(&[plain("a")], |manifest| manifest.push(0))),
        ("cut off", archive(&[plain("a")], from_end(4, 200))),
        ("cut off", sign(b"<?php __HALT_COMPILER();\xff\xff\xff\x7f".to_vec())),
        ("no __HALT_COMPILER();", sign(b"<?php __halt_compiler();".to_vec())),
        ("half a line end", sign(b"<?php __HALT_COMPILER(); ?>\rx".to_vec())),
    ];
    for (why, bytes) in rows {
        let said = read_all(&bytes).expect_err(why);
        assert!(said.contains(why), "{why}: {said}");
    }
}

/// Whatever is cut off or altered is refused: each length and each byte of a small phar.
#[test]
fn no_byte_of_a_phar_can_be_missing_or_another() {
    let bytes = archive(&[plain("index.php"), Entry("z.txt", 2, 4, 0x11a4, DEFLATED)], |_| {});
    assert_eq!(read_all(&bytes), Ok(4));
    for end in 0..bytes.len() {
        assert!(read_all(&bytes[..end]).is_err(), "{end} bytes of {}", bytes.len());
    }
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 0x20;
        assert!(read_all(&altered).is_err(), "byte {at}");
    }
}

/// Each name is within limits, and all together need more directories than anything has.
#[test]
fn names_cannot_fill_the_memory() {
    let deep = |number: usize| -> &'static str {
        let path: Vec<String> = (0..60).map(|level| format!("{number}-{level}")).collect();
        path.join("/").leak()
    };
    let entries: Vec<Entry> = (0..4000).map(|number| plain(deep(number))).collect();
    let said = phar::read(&archive(&entries, |_| {})).unwrap_err();
    assert!(said.contains("more than 200000 files and directories"), "{said}");
}

/// Both compressions, as PHP's own writer makes them, and an entry that is empty.
#[test]
fn each_compression_is_read() {
    let bzipped: &'static [u8] = {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(
            &mut bzip2::read::BzEncoder::new(&b"hi"[..], bzip2::Compression::best()),
            &mut bytes,
        )
        .unwrap();
        bytes.leak()
    };
    let entries = [
        plain("plain"),
        Entry("deflated", 2, 4, 0x11a4, DEFLATED),
        Entry("bzipped", 2, bzipped.len() as u32, 0x21a4, bzipped),
        Entry("empty", 0, 0, 0x1a4, b""),
    ];
    let bytes = archive(&entries, |_| {});
    let read = phar::read(&bytes).unwrap();
    let contents = read.entries.iter().map(|entry| phar::contents::of(entry).unwrap().into_owned());
    assert_eq!(contents.collect::<Vec<_>>(), [&b"hi"[..], b"hi", b"hi", b""]);
}

/// What PHP reads has a time for each entry and metadata, and its own signature; everything else is as it was.
#[test]
fn the_copy_has_what_php_asks_for() {
    let bytes = archive(&[plain("a"), plain("b")], |manifest| {
        let at = manifest.len() - 20;
        manifest[at..at + 4].fill(0);
    });
    let read = phar::read(&bytes).unwrap();
    let times = |read: &phar::Archive<'_>| read.entries.iter().map(|entry| entry.time).collect::<Vec<_>>();
    assert_eq!(times(&read), [1_700_000_000, 0]);
    for (time, expected) in [(1_800_000_000, 1_800_000_000), (0, 1)] {
        let copy = phar::for_php::copy(&bytes, &read, time);
        assert_eq!(copy.len(), bytes.len() + 2, "and `N;`");
        assert_eq!(read_all(&copy), Ok(4));
        let copied = phar::read(&copy).unwrap();
        assert_eq!(times(&copied), [1_700_000_000, expected]);
        assert_eq!((copied.stub, copied.alias), (read.stub, read.alias));
        assert_eq!(phar::for_php::copy(&copy, &copied, 5), &*copy, "nothing is left to be done");
    }
}
