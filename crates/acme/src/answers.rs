//! What the front is to tell authorities. It is made of what lies in the directory, so that each server that shares it tells the same.
//!
//! For http-01 no token is passed on: the response is the token that the authority asks for with the thumbprint of the account's key, and
//! the account lies in the directory. For tls-alpn-01 a file says what the certificate of a handshake has to have in it.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use certificates::Certificate;
use certificates::challenges::Answers;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use serde::{Deserialize, Serialize};

use crate::environment::{Settings, now};
use crate::fault::Fault;
use crate::storage::{self, Storage};

/// A challenge that is older is nobody's any more, in seconds.
const MAX_AGE: u64 = 3600;
/// How long other servers that share the directory get to see what is new in it: each looks every second.
pub const SPREAD: Duration = Duration::from_millis(2500);

/// What a handshake for `acme-tls/1` is to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    host: String,
    /// The digest of the key authorization, as base64url.
    digest: String,
    made: u64,
}

impl Challenge {
    /// One that is made now.
    pub fn new(host: &str, digest: &[u8]) -> Challenge {
        Challenge { host: host.to_owned(), digest: URL_SAFE_NO_PAD.encode(digest), made: now() }
    }
}

/// The account, as it is kept.
#[derive(Serialize, Deserialize)]
pub struct Account {
    /// As instant-acme keeps it.
    pub credentials: serde_json::Value,
    /// The thumbprint of its key.
    pub thumbprint: String,
}

/// Makes the responses. It keeps certificates of challenges, so that the same challenge has the same.
#[derive(Default)]
pub struct Maker {
    made: HashMap<(String, String), Certificate>,
}

impl Maker {
    /// What lies in the directory now.
    pub fn make(&mut self, settings: &Settings, storage: &Storage) -> Result<Answers, Fault> {
        let account: Option<Account> = storage::read_json(&storage.account(&settings.directory))?;
        let challenges: Vec<Challenge> = storage.challenges()?;
        let oldest = now().saturating_sub(MAX_AGE);
        let mut made = HashMap::new();
        for one in challenges.into_iter().filter(|one| settings.hosts.contains(&one.host)) {
            if one.made < oldest {
                storage::remove(&storage.challenge(&one.host))?;
                continue;
            }
            let key = (one.host.clone(), one.digest.clone());
            let certificate = match self.made.remove(&key) {
                Some(certificate) => certificate,
                None => certificate(&one).map_err(|error| Fault(format!("a challenge for {}: {error}", one.host)))?,
            };
            made.insert(key, certificate);
        }
        self.made = made;
        let mut certificates: Vec<Certificate> = self.made.values().cloned().collect();
        certificates.sort_by(|one, other| one.hosts.cmp(&other.hosts));
        let thumbprint = account.map(|account| account.thumbprint);
        Ok(Answers { thumbprint, hosts: settings.hosts.clone(), certificates })
    }
}

/// The certificate of a challenge (RFC 8737 §3).
fn certificate(challenge: &Challenge) -> io::Result<Certificate> {
    let digest = URL_SAFE_NO_PAD.decode(&challenge.digest).map_err(io::Error::other)?;
    if digest.len() != 32 {
        return Err(io::Error::other("its digest is none of SHA-256"));
    }
    let mut params = CertificateParams::new(vec![challenge.host.clone()]).map_err(io::Error::other)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let signed = params.self_signed(&key).map_err(io::Error::other)?;
    Ok(Certificate { hosts: vec![challenge.host.clone()], chain: signed.pem(), key: key.serialize_pem(), client: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn each_server_tells_what_lies_in_the_directory() {
        let scratch = Scratch::new();
        let (storage, settings) = (Storage::open(&scratch.0).unwrap(), scratch.settings(&["a.example"]));
        let (mut one, mut two) = (Maker::default(), Maker::default());
        assert_eq!(one.make(&settings, &storage).unwrap().thumbprint, None);
        let account = Account { credentials: serde_json::Value::Null, thumbprint: "thumb".to_owned() };
        storage::write_json(&storage.account(&settings.directory), &account).unwrap();
        for host in ["a.example", "other.example"] {
            storage::write_json(&storage.challenge(host), &Challenge::new(host, &[7; 32])).unwrap();
        }
        let told = one.make(&settings, &storage).unwrap();
        assert_eq!(told.thumbprint.as_deref(), Some("thumb"));
        assert_eq!(told.certificates.iter().map(|one| one.hosts.concat()).collect::<Vec<_>>(), ["a.example"]);
        assert_eq!(one.make(&settings, &storage).unwrap(), told, "it is made once");
        assert_eq!(two.make(&settings, &storage).unwrap().certificates.len(), 1);
        // Of an order that nobody has ended.
        let old = Challenge { made: 1, ..Challenge::new("a.example", &[7; 32]) };
        storage::write_json(&storage.challenge("a.example"), &old).unwrap();
        assert!(one.make(&settings, &storage).unwrap().certificates.is_empty());
        assert!(!storage.challenge("a.example").exists());
    }
}
