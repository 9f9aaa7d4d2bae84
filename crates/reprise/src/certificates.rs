//! Certificates: their files are read and checked here, by a child of the supervisor or by `reprise check`. The front gets a
//! sealed memory file with what was read, and never opens one of these files.

use std::fmt::Write;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use certificates::bundle::{Awaited, Checked, Wrong};
use certificates::tickets::{KEY_SIZE, MAX_KEYS};
use certificates::{Bundle, Certificate, ClientPolicy};
use serde::{Deserialize, Serialize};
use supervisor::os::user::Identity;
use supervisor::peers::boot;
use supervisor::peers::errand::Errand;
use supervisor::{CertificatesDraft, LookedAt};

use crate::acme;
use crate::exit::{Code, Failure};
use crate::options::{self, Config};

/// Bytes of a file at most.
const MAX_SIZE: u64 = 1 << 20;
/// Somebody who writes a file in place should do this instead.
const RENAME: &str = "write new files beside the old ones and rename them, the key first";

/// Which files there are.
#[derive(Serialize, Deserialize)]
struct Source {
    certificates: Vec<Files>,
    ticket_keys: Option<PathBuf>,
    /// Whose rights are enough to read certificates that are ordered.
    user: Option<Identity>,
}

/// The files of a certificate.
#[derive(Serialize, Deserialize)]
struct Files {
    /// The certificate is ordered: its file has the key too, and need not be there.
    is_automatic: bool,
    hosts: Vec<String>,
    chain: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    is_required: bool,
    place: String,
}

/// What was read.
pub struct Loaded {
    bundle: Bundle,
    /// What is to be said of it.
    pub notices: Vec<String>,
    /// Names and dates, a line for each certificate.
    pub lines: Vec<String>,
}

impl Source {
    /// What a configuration names; `None`: no certificate.
    fn of(config: &Config, user: Option<&Identity>) -> Result<Option<Source>, Failure> {
        let mut certificates = Vec::new();
        for one in &config.certificates {
            let files = Files {
                is_automatic: one.auto,
                hosts: one.hosts.clone(),
                chain: one.chain.clone(),
                key: one.key.clone(),
                client_ca: one.client_ca.clone(),
                is_required: one.client_ca.is_some() && one.client_certificate == options::ClientCertificate::Require,
                place: one.place.clone(),
            };
            if !one.auto {
                certificates.push(files);
                continue;
            }
            let storage = acme::storage(config)?;
            certificates.extend(one.hosts.iter().map(|host| files.of_host(&storage, host)));
        }
        let ticket_keys = config.tls_ticket_keys.clone();
        Ok((!certificates.is_empty()).then(|| Source { certificates, ticket_keys, user: user.cloned() }))
    }

    fn text(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(|error| Failure::new(Code::Internal, "certificates", error))
    }

    /// How the files are: another text if one of them has changed.
    fn seen(&self) -> String {
        let mut text = String::new();
        self.with_rights(|| self.note(&mut text, true));
        self.note(&mut text, false);
        text
    }

    /// Files that are ordered belong to the user that orders them, who could put a link to others' in their place.
    fn with_rights<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        supervisor::os::sys::as_user(self.user.as_ref(), act).ok()
    }

    fn note(&self, text: &mut String, is_automatic: bool) {
        let of_certificates = self.certificates.iter().flat_map(|one| match one.is_automatic {
            true => [is_automatic.then_some(&one.chain), None, one.client_ca.as_ref().filter(|_| !is_automatic)],
            false if is_automatic => [None; 3],
            false => [Some(&one.chain), Some(&one.key), one.client_ca.as_ref()],
        });
        for path in of_certificates.chain([self.ticket_keys.as_ref().filter(|_| !is_automatic)]).flatten() {
            // Writing to memory cannot fail.
            let _ = match std::fs::metadata(path) {
                Ok(one) => {
                    write!(text, "{} {} {} {} {};", one.dev(), one.ino(), one.size(), one.mtime(), one.mtime_nsec())
                }
                Err(error) => write!(text, "{error};"),
            };
        }
    }

    fn read(&self, now: SystemTime) -> Result<Loaded, Failure> {
        let mut loaded = Loaded { bundle: Bundle::default(), notices: Vec::new(), lines: Vec::new() };
        for files in &self.certificates {
            let read = if files.is_automatic {
                self.ordered(files, &mut loaded)?
            } else {
                Some(files.read(&mut loaded.notices)?)
            };
            let Some((certificate, checked)) = read else { continue };
            let warning = checked.warning(now);
            if let Some(warning) = &warning {
                loaded.notices.push(format!("certificate {}: {warning}", files.chain.display()));
            }
            let dates = warning.unwrap_or_else(|| checked.dates());
            loaded.lines.push(format!("{} ({dates})", certificate.hosts.join(", ")));
            loaded.bundle.certificates.push(certificate);
        }
        if let Some(path) = &self.ticket_keys {
            let keys = read(path, "tls_ticket_keys")?;
            if keys.is_empty() || keys.len() % KEY_SIZE != 0 || keys.len() > KEY_SIZE * MAX_KEYS {
                let why = format!("has {} bytes, and a key has {KEY_SIZE}; there may be {MAX_KEYS} keys", keys.len());
                return Err(wrong(&format!("tls_ticket_keys {}", path.display()), why)
                    .hint("openssl rand 80 makes a key; the first key encrypts, all keys decrypt"));
            }
            loaded.bundle.ticket_keys = keys;
        }
        Ok(loaded)
    }
}

impl Source {
    /// Reads a certificate that is ordered. One that is not there, or cannot be served, is awaited: its order stops nothing.
    fn ordered(&self, files: &Files, loaded: &mut Loaded) -> Result<Option<(Certificate, Checked)>, Failure> {
        let client = files.policy()?;
        let hosts = files.hosts.clone();
        let read = self.with_rights(|| files.text(&files.chain));
        let read = match read {
            Some(Ok(text)) => {
                let certificate = Certificate { hosts, chain: text.clone(), key: text, client };
                certificate.check().map(|checked| (certificate, checked)).map_err(|wrong| files.explain(wrong))
            }
            Some(Err(failure)) => Err(failure),
            None => Err(files.wrong(&files.chain, "the user that orders it cannot be taken on".to_owned())),
        };
        match read {
            Ok(read) => return Ok(Some(read)),
            // It may not have been issued yet.
            Err(_) if !files.may_be_there(self) => {}
            Err(failure) => loaded.notices.push(failure.to_string()),
        }
        for host in &files.hosts {
            loaded.lines.push(format!("{host} (not issued yet)"));
            loaded.bundle.awaited.push(Awaited { host: host.clone(), is_required: files.is_required });
        }
        Ok(None)
    }
}

impl Files {
    /// The file of a host whose certificate is ordered.
    fn of_host(&self, storage: &Path, host: &str) -> Files {
        let path = ::acme::storage::Storage::certificate(storage, host);
        Files {
            is_automatic: true,
            hosts: vec![host.to_owned()],
            chain: path.clone(),
            key: path,
            client_ca: self.client_ca.clone(),
            is_required: self.is_required,
            place: self.place.clone(),
        }
    }

    fn may_be_there(&self, source: &Source) -> bool {
        let look = || std::fs::symlink_metadata(&self.chain);
        !matches!(source.with_rights(look), Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound)
    }

    fn text(&self, path: &Path) -> Result<String, Failure> {
        let bytes = read(path, &self.place)?;
        String::from_utf8(bytes).map_err(|_| {
            self.wrong(path, "is no PEM text".to_owned())
                .hint("openssl x509 -inform DER -in FILE turns a binary certificate into PEM, openssl pkey a key")
        })
    }

    /// Which clients are let in.
    fn policy(&self) -> Result<Option<ClientPolicy>, Failure> {
        let authorities = self.client_ca.as_ref().map(|path| self.text(path)).transpose()?;
        Ok(authorities.map(|authorities| ClientPolicy { authorities, is_required: self.is_required }))
    }

    fn read(&self, notices: &mut Vec<String>) -> Result<(Certificate, Checked), Failure> {
        let client = self.policy()?;
        let (chain, key) = (self.text(&self.chain)?, self.text(&self.key)?);
        let mut certificate = Certificate { hosts: self.hosts.clone(), chain, key, client };
        let checked = certificate.check().map_err(|wrong| self.explain(wrong))?;
        let is_public = std::fs::metadata(&self.key).is_ok_and(|key| key.mode() & 0o004 != 0);
        if is_public {
            notices.push(format!("every user can read the key {}: chmod 600 closes it", self.key.display()));
        }
        if certificate.hosts.is_empty() {
            certificate.hosts.clone_from(&checked.names);
        }
        if certificate.hosts.is_empty() {
            return Err(self.wrong(&self.chain, "names no host (subjectAltName)".to_owned()).hint("hosts = [\"…\"]"));
        }
        let is_named = |host: &&String| checked.names.contains(host) || checked.names.contains(&above(host));
        let unnamed: Vec<&str> = certificate.hosts.iter().filter(|host| !is_named(host)).map(String::as_str).collect();
        if !unnamed.is_empty() {
            let (chain, hosts) = (self.chain.display(), unnamed.join(", "));
            notices.push(format!("certificate {chain}: it does not name {hosts}, and clients will refuse it there"));
        }
        Ok((certificate, checked))
    }

    fn wrong(&self, path: &Path, why: String) -> Failure {
        wrong(&format!("{}: {}", self.place, path.display()), why)
    }

    fn explain(&self, wrong: Wrong) -> Failure {
        match wrong {
            Wrong::Chain(why) => self.wrong(&self.chain, why).hint(RENAME),
            Wrong::Key(why) => self.wrong(&self.key, why).hint(RENAME),
            Wrong::Authorities(why) => self.wrong(self.client_ca.as_deref().unwrap_or(Path::new("")), why),
            Wrong::Pair => {
                let why = format!("is not the key of the certificate {}", self.chain.display());
                self.wrong(&self.key, why)
                    .hint(format!("{RENAME}; the certificate of the site comes first in its chain"))
            }
        }
    }
}

/// The pattern that stands for a name and its siblings.
fn above(host: &str) -> String {
    host.split_once('.').map_or(String::new(), |(_, rest)| format!("*.{rest}"))
}

fn wrong(what: &str, why: String) -> Failure {
    Failure::new(Code::Configuration, what, why)
}

fn read(path: &Path, place: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Code::Permission,
            _ => Code::Configuration,
        };
        Failure::new(code, format!("{place}: {}", path.display()), error)
    };
    let mut bytes = Vec::new();
    let file = supervisor::os::files::open_regular(path).map_err(failed)?;
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(failed(std::io::Error::other(format!("it is larger than {MAX_SIZE} bytes"))));
    }
    Ok(bytes)
}

/// Reads and checks the certificates of a configuration; `None`: there are none.
pub fn check(config: &Config, user: Option<&Identity>) -> Result<Option<Loaded>, Failure> {
    Source::of(config, user)?.map(|source| source.read(SystemTime::now())).transpose()
}

/// The same, for the supervisor: with the sealed file for the front, and what is to be said.
pub fn draft(
    config: &Config,
    user: Option<&Identity>,
) -> Result<Option<(CertificatesDraft, OwnedFd, Vec<String>)>, Failure> {
    let Some(source) = Source::of(config, user)? else { return Ok(None) };
    // The files are looked at first: what changes while they are read is seen the next time.
    let seen = source.seen();
    let loaded = source.read(SystemTime::now())?;
    seal(source.text()?, seen, loaded).map(Some)
}

fn seal(source: String, seen: String, loaded: Loaded) -> Result<(CertificatesDraft, OwnedFd, Vec<String>), Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Internal, "certificates", error);
    let text = serde_json::to_vec(&loaded.bundle).map_err(|error| failed(error.into()))?;
    let file = boot::sealed(&text).map_err(failed)?;
    Ok((CertificatesDraft { source, seen, shown: loaded.lines.join("; ") }, file, loaded.notices))
}

/// [`draft`] in a child: this process never has a key in its memory.
pub fn draft_in_child(
    config: &Config,
    user: Option<&Identity>,
) -> Result<Option<(CertificatesDraft, OwnedFd, Vec<String>)>, Failure> {
    if config.certificates.is_empty() {
        return Ok(None);
    }
    let failed = |why: String| Failure::new(Code::Internal, "certificates", why);
    let errand = Errand::send(|| match draft(config, user) {
        Ok(None) => Err("there are none".to_owned()),
        Ok(Some((draft, file, notices))) => Ok((Ok((draft, notices)), vec![file])),
        Err(failure) => Ok((Err(failure.parts()), Vec::new())),
    });
    let answer =
        errand.map_err(|error| failed(error.to_string()))?.wait::<Result<(CertificatesDraft, Vec<String>), _>>();
    match answer.map_err(failed)? {
        (Ok((draft, notices)), files) => match files.into_iter().next() {
            Some(file) => Ok(Some((draft, file, notices))),
            None => Err(failed("the process that reads them has sent no file".to_owned())),
        },
        (Err(parts), _) => Err(Failure::of_parts(parts)),
    }
}

/// Looks at the files of a source for the supervisor; runs in a child of it.
pub fn look(source: &str, seen: Option<&str>) -> (LookedAt, Option<OwnedFd>) {
    let parsed: Source = match serde_json::from_str(source) {
        Ok(parsed) => parsed,
        Err(error) => return (LookedAt::Broken(String::new(), error.to_string()), None),
    };
    let now = parsed.seen();
    if seen == Some(now.as_str()) {
        return (LookedAt::Unchanged, None);
    }
    let read = parsed.read(SystemTime::now()).and_then(|loaded| seal(source.to_owned(), now.clone(), loaded));
    match read {
        Ok((draft, file, notices)) => (LookedAt::Read(draft, notices), Some(file)),
        Err(failure) => (LookedAt::Broken(now, failure.to_string()), None),
    }
}
