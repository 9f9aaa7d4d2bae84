//! Records of a pool: what nodes are to get ready for, and what they are to serve. Each is signed, and has a number that only increases.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::keys::{Keys, Purpose, SEAL, Seal, SecretKey};
use crate::manifest::{is_id, is_name};

/// Bytes of a record.
pub const MAX_RECORD: usize = 64 << 10;
/// Nodes of a pool.
pub const MAX_NODES: usize = 1000;

/// A release, as records name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Increases from one release of the application to the next.
    pub sequence: u64,
    /// Hash of its sources.
    pub id: String,
    /// SHA-256 of its file behind the header.
    pub digest: String,
}

impl Release {
    /// The name of its file in a pool.
    pub fn name(&self) -> String {
        format!("{}-{}", self.sequence, self.id)
    }

    fn is_sound(&self) -> bool {
        let is_hash = self.digest.len() == 64 && self.digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id(&self.id) && is_hash
    }
}

/// Sequence and id of a file's name in a pool.
pub fn parse_name(name: &str) -> Option<(u64, &str)> {
    let (sequence, id) = name.split_once('-')?;
    let number = sequence.parse().ok().filter(|number: &u64| number.to_string() == sequence)?;
    is_id(id).then_some((number, id))
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Get ready for that release, and wait.
    Prepare,
    /// Serve that release.
    Serve,
    /// What was to be prepared by that number will not be served.
    Withdraw,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What it says.
    pub kind: Kind,
    /// Of which application.
    pub application: String,
    /// Of all records of the application the higher number is the later one. A switch has the number of its preparation.
    pub number: u64,
    /// Which release.
    pub release: Release,
    /// The one that was served before: where a rollback leads to.
    pub previous: Option<Release>,
    /// The nodes that had to be ready.
    pub members: Vec<String>,
    /// How many of them.
    pub quorum: u32,
    /// Milliseconds for which a node stays ready and waits.
    pub hold_ms: u64,
}

impl Record {
    /// As it lies in a pool.
    ///
    /// # Errors
    /// It is too large.
    pub fn seal(&self, key: Option<&SecretKey>) -> Result<Vec<u8>, Fault> {
        let text = serde_json::to_vec(self).map_err(Fault::refused)?;
        let seal = key.map_or(Seal::NONE, |key| key.sign(Purpose::Record, &text));
        let all = [&seal.bytes()[..], &text].concat();
        match all.len() <= MAX_RECORD {
            true => Ok(all),
            false => Err(Fault::refused(format!("a record of more than {MAX_RECORD} bytes: too many nodes"))),
        }
    }

    /// Reads what lies in a pool. The signature is checked first.
    ///
    /// # Errors
    /// It is no record of that application that is signed by one of the keys.
    pub fn open(bytes: &[u8], application: &str, keys: &Keys) -> Result<Record, Fault> {
        let Some((seal, text)) = bytes.split_first_chunk::<SEAL>().filter(|_| bytes.len() <= MAX_RECORD) else {
            return Err(Fault::refused("is no record"));
        };
        keys.check(Purpose::Record, text, &Seal::of(seal))?;
        Record::read(text, application)
    }

    /// Reads what lies in a pool to show it, whoever has signed it.
    ///
    /// # Errors
    /// It is no record of that application.
    pub fn show(bytes: &[u8], application: &str) -> Result<Record, Fault> {
        match bytes.split_first_chunk::<SEAL>().filter(|_| bytes.len() <= MAX_RECORD) {
            Some((_, text)) => Record::read(text, application),
            None => Err(Fault::refused("is no record")),
        }
    }

    fn read(text: &[u8], application: &str) -> Result<Record, Fault> {
        let record: Record =
            serde_json::from_slice(text).map_err(|error| Fault::refused(format!("is no record: {error}")))?;
        let is_sound = record.release.is_sound()
            && record.previous.as_ref().is_none_or(Release::is_sound)
            && record.members.len() <= MAX_NODES
            && record.members.iter().all(|name| is_name(name));
        match () {
            () if record.application != application => {
                Err(Fault::refused(format!("is a record of the application {:?}", record.application)))
            }
            () if !is_sound => Err(Fault::refused("is a record that says what cannot be")),
            () => Ok(record),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One of the tests' releases.
    pub fn release(sequence: u64) -> Release {
        Release { sequence, id: format!("{sequence:040x}"), digest: "a".repeat(64) }
    }

    /// A record about it.
    pub fn record(kind: Kind, number: u64, sequence: u64) -> Record {
        Record {
            kind,
            application: "shop".to_owned(),
            number,
            release: release(sequence),
            previous: None,
            members: vec!["one".to_owned()],
            quorum: 1,
            hold_ms: 1000,
        }
    }

    #[test]
    fn a_record_is_read_if_it_is_signed_and_the_applications() {
        let key = SecretKey::generate().unwrap();
        let keys = Keys { trusted: vec![key.public()], allows_unsigned: false };
        let one = record(Kind::Serve, 7, 3);
        let sealed = one.seal(Some(&key)).unwrap();
        assert_eq!(Record::open(&sealed, "shop", &keys), Ok(one.clone()));
        assert!(Record::open(&sealed, "blog", &keys).is_err());
        assert!(Record::open(&one.seal(None).unwrap(), "shop", &keys).is_err());
        for cut in [0, 10, SEAL, sealed.len() - 1] {
            assert!(Record::open(&sealed[..cut], "shop", &keys).is_err(), "{cut}");
        }
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(Record::open(&altered, "shop", &keys).is_err(), "byte {at}");
        }
        let odd = Record { release: Release { id: "../x".to_owned(), ..release(1) }, ..one };
        assert!(Record::open(&odd.seal(Some(&key)).unwrap(), "shop", &keys).is_err());
    }

    #[test]
    fn names_of_files_say_sequence_and_id() {
        let one = release(12);
        assert_eq!(parse_name(&one.name()), Some((12, one.id.as_str())));
        for bad in ["", "12", "12-", "012-x", "-x", "12-../..", &format!("+1-{}", one.id), &format!("01-{}", one.id)] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }
}
