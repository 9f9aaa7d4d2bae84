//! Certificates and keys as PEM, on their way from who reads their files to the front. Who reads them checks each with
//! [`Certificate::check`], so that the front gets none that it cannot serve.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};
use serde::{Deserialize, Serialize};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// All that the front needs for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The certificates. The first serves clients that name no host, or an unknown one.
    pub certificates: Vec<Certificate>,
    /// Hosts whose certificate has not been issued yet.
    pub awaited: Vec<Awaited>,
    /// Keys of tickets from a file that servers share, each [`super::tickets::KEY_SIZE`] bytes, one after the other. Empty:
    /// the supervisor's keys are used.
    pub ticket_keys: Vec<u8>,
}

/// A host that has no certificate yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// Its name.
    pub host: String,
    /// Whether it will be only for clients with a certificate.
    pub is_required: bool,
}

/// A certificate and whom it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// Lower-case names; `*.example` for all names with one more label; addresses, those of IPv6 in brackets.
    pub hosts: Vec<String>,
    /// The certificate, then those that lead from it to a root, as PEM.
    pub chain: String,
    /// Its private key, as PEM.
    pub key: String,
    /// Which clients are let in, if that takes a certificate.
    pub client: Option<ClientPolicy>,
}

/// Whose certificates clients have to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientPolicy {
    /// Certificates of the authorities, as PEM.
    pub authorities: String,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// What a certificate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The names and addresses that it is for.
    pub names: Vec<String>,
    /// It is not valid before that.
    pub from: SystemTime,
    /// It is not valid after that.
    pub until: SystemTime,
}

/// Which of a certificate's parts is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The chain.
    Chain(String),
    /// The key.
    Key(String),
    /// Both can be read, but do not belong together.
    Pair,
    /// The authorities of clients.
    Authorities(String),
}

/// The only provider of cryptography.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl Certificate {
    /// Chain and key as rustls uses them.
    pub(super) fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Wrong> {
        let chain = chain(&self.chain).map_err(Wrong::Chain)?;
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| Wrong::Key(self.why_no_key(error)))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Wrong::Pair,
            Error::InvalidCertificate(_) => Wrong::Chain(format!("the certificate cannot be used: {error}")),
            _ => Wrong::Key(format!("the key cannot be used: {error}")),
        })
    }

    /// The same for the certificate of a challenge, whose one extension nobody else understands (RFC 8737 §3).
    pub(super) fn of_challenge(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| self.why_no_key(error))?;
        let key = provider.key_provider.load_private_key(key).map_err(|error| error.to_string())?;
        Ok(CertifiedKey::new(chain(&self.chain)?, key))
    }

    fn why_no_key(&self, error: pem::Error) -> String {
        match error {
            pem::Error::NoItemsFound if self.key.contains("ENCRYPTED PRIVATE KEY") => {
                "the key is encrypted; openssl pkey -in KEY -out PLAIN decrypts it".to_owned()
            }
            pem::Error::NoItemsFound => "there is no private key in it (-----BEGIN PRIVATE KEY-----)".to_owned(),
            error => said(error),
        }
    }

    /// Whether the front can serve it, and what it says of itself.
    pub fn check(&self) -> Result<Checked, Wrong> {
        let provider = provider();
        let certified = self.certified(&provider)?;
        if let Some(client) = &self.client {
            client.verifier(&provider).map_err(Wrong::Authorities)?;
        }
        let first = certified.end_entity_cert().map_err(|error| Wrong::Chain(error.to_string()))?;
        let first = x509_cert::Certificate::from_der(first).map_err(|error| Wrong::Chain(error.to_string()))?;
        let validity = &first.tbs_certificate.validity;
        let time = |time: x509_cert::time::Time| SystemTime::UNIX_EPOCH + time.to_unix_duration();
        Ok(Checked { names: names(&first), from: time(validity.not_before), until: time(validity.not_after) })
    }
}

impl Checked {
    /// How long it is valid, for people.
    pub fn dates(&self) -> String {
        format!("until {}", httpdate::fmt_http_date(self.until))
    }

    /// What is wrong with its dates, if anything is.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let date = httpdate::fmt_http_date;
        if now > self.until {
            return Some(format!("it expired on {}", date(self.until)));
        }
        if now < self.from {
            return Some(format!("it is not valid before {}", date(self.from)));
        }
        let left = self.until.duration_since(now).unwrap_or_default();
        // A certificate for six days is renewed within its last two.
        let lifetime = self.until.duration_since(self.from).unwrap_or_default();
        let is_near = left < (lifetime / 10).min(Duration::from_secs(7 * 86400));
        is_near.then(|| format!("it expires on {}", date(self.until)))
    }
}

impl ClientPolicy {
    /// What checks the certificates of clients.
    pub(super) fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for authority in chain(&self.authorities)? {
            roots.add(authority).map_err(|error| format!("an authority cannot be used: {error}"))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = if self.is_required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| error.to_string())
    }
}

/// The certificates of a PEM text; at least one.
fn chain(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().map_err(said)?;
    if all.is_empty() {
        return Err("there is no certificate in it (-----BEGIN CERTIFICATE-----)".to_owned());
    }
    Ok(all)
}

fn said(error: pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it ends within a section: it is written in part".to_owned(),
        pem::Error::IllegalSectionStart { line } => {
            format!("the line {:?} begins no section", String::from_utf8_lossy(&line))
        }
        pem::Error::Base64Decode(_) => "a section is not base64".to_owned(),
        other => other.to_string(),
    }
}

/// The names and addresses of a certificate, as hosts are written. Its common name does not count (RFC 9525 §2).
fn names(certificate: &x509_cert::Certificate) -> Vec<String> {
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let name = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().trim_end_matches('.').to_ascii_lowercase()),
        GeneralName::IpAddress(bytes) => address(bytes.as_bytes()),
        _ => None,
    };
    names.into_iter().filter_map(name).filter(|name| !name.is_empty()).collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(if address.is_ipv6() { format!("[{address}]") } else { address.to_string() })
}
