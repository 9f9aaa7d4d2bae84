//! What is in the file of a release, and the records of a pool, as if their signatures were right.

use release::container;
use release::keys::Keys;
use release::manifest::Limits;
use release::record::{Record, parse_name};

/// A manifest that is taken names files below its directory, each once, and not more bytes than may be; a record that is taken is what would
/// be written again.
pub fn check(bytes: &[u8]) {
    let limits = Limits { bytes: 1 << 30 };
    if let Ok(manifest) = container::parse(bytes, bytes.len(), &limits) {
        assert!(manifest.bytes() <= limits.bytes);
        for entry in manifest.files.iter().chain(&manifest.code) {
            let path = std::path::Path::new(&entry.path);
            assert!(path.is_relative());
            assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))), "{path:?}");
        }
        let text = serde_json::to_vec(&manifest).expect("a manifest is text");
        assert_eq!(container::parse(&text, text.len(), &limits), Ok(manifest));
    }
    let keys = Keys { allows_unsigned: true, ..Keys::default() };
    let sealed = [&[0; 72][..], bytes].concat();
    if let Ok(record) = Record::open(&sealed, "shop", &keys) {
        assert_eq!(parse_name(&record.release.name()), Some((record.release.sequence, record.release.id.as_str())));
        let again = record.seal(None).expect("it was read");
        assert_eq!(Record::open(&again, "shop", &keys), Ok(record));
    }
    assert!(Record::open(bytes, "shop", &Keys::default()).is_err(), "nothing is signed here");
}
