//! Which certificate serves a name, and which requests its connections may make.
//!
//! The certificate is chosen by the name that the client sends (SNI): the exact name, else `*.` and the rest behind its first
//! label. Without a name, or with an unknown one, it is the first certificate. A connection may make requests to all hosts of its
//! certificate, as browsers do (RFC 9113 §9.1.1), but to none that asks for other certificates of clients.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;

use super::bundle::{Awaited, Bundle, Certificate, provider};
use super::challenges::{Answers, Prepared};
use super::tickets::{KEY_SIZE, KeyRing, MAX_KEYS, Tickets};

/// Bytes of a bundle at most.
const MAX_BUNDLE: u64 = 64 << 20;
/// The policy of certificates that ask clients for none.
const NO_POLICY: [u8; 32] = [0; 32];
/// What connections may speak, the first before the second.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What all threads of a front need for TLS.
pub struct Tls {
    provider: Arc<CryptoProvider>,
    ring: Arc<KeyRing>,
    /// The supervisor's keys, and whether others are used that servers share.
    keys: Mutex<(Vec<u8>, bool)>,
    set: RwLock<Arc<Set>>,
    /// What authorities are told.
    answers: RwLock<Arc<Prepared>>,
    /// The version of the set, as no other set has it.
    version: AtomicU64,
    /// Whether some host is only for clients with a certificate.
    has_required: AtomicBool,
}

/// A certificate as it is served.
pub struct Served {
    hosts: Vec<String>,
    /// What tells certificates apart that let other clients in.
    policy: [u8; 32],
    is_required: bool,
    until: SystemTime,
    /// What rustls needs, without HTTP/2 and with it.
    configs: [Arc<ServerConfig>; 2],
    /// Checks clients' certificates, if there is a policy.
    pub verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// The certificates that are served now.
#[derive(Default)]
struct Set {
    all: Vec<Arc<Served>>,
    by_name: HashMap<String, usize>,
    /// The same for wildcards, by what follows `*.`.
    by_parent: HashMap<String, usize>,
    /// Hosts that have no certificate yet, and whether each will be only for clients with a certificate.
    awaited: HashMap<String, bool>,
}

thread_local! {
    static SEEN: RefCell<(u64, Arc<Set>)> = RefCell::default();
}

/// Counts sets of all fronts in this process: tests have several.
static VERSIONS: AtomicU64 = AtomicU64::new(0);

/// Whether a pattern stands for a name.
fn is_for(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern == name,
        Some(rest) => name.split_once('.').is_some_and(|(first, tail)| !first.is_empty() && tail == rest),
    }
}

impl Served {
    fn new(one: &Certificate, provider: &Arc<CryptoProvider>, ring: &Arc<KeyRing>) -> Result<Served, String> {
        let certified = one.certified(provider).map_err(|wrong| format!("{wrong:?}"))?;
        let verifier = one.client.as_ref().map(|client| client.verifier(provider)).transpose()?;
        let policy = one.client.as_ref().map_or(NO_POLICY, |client| {
            let mut hash = Context::new(&SHA256);
            hash.update(&[u8::from(client.is_required)]);
            hash.update(client.authorities.as_bytes());
            hash.finish().as_ref().try_into().unwrap_or(NO_POLICY)
        });
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.ticketer = Arc::new(Tickets::new(ring.clone(), policy));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let with = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        let configs = [with(&PROTOCOLS[1..]), with(&PROTOCOLS)];
        let is_required = one.client.as_ref().is_some_and(|client| client.is_required);
        let until = one.check().map_err(|wrong| format!("{wrong:?}"))?.until;
        Ok(Served { hosts: one.hosts.clone(), policy, is_required, until, configs, verifier })
    }

    /// What rustls needs for a connection that may speak HTTP/2, or may not.
    pub fn config(&self, may_be_http2: bool) -> Arc<ServerConfig> {
        self.configs[usize::from(may_be_http2)].clone()
    }

    /// Whether a host is one of its own.
    pub fn covers(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| is_for(host, name))
    }
}

impl Set {
    fn new(all: Vec<Arc<Served>>, awaited: &[Awaited]) -> Set {
        let (mut by_name, mut by_parent) = (HashMap::new(), HashMap::new());
        for (number, one) in all.iter().enumerate() {
            // Of several certificates for a name the first serves it.
            for host in &one.hosts {
                match host.strip_prefix("*.") {
                    Some(parent) => by_parent.entry(parent.to_owned()).or_insert(number),
                    None => by_name.entry(host.clone()).or_insert(number),
                };
            }
        }
        let awaited = awaited.iter().map(|one| (one.host.clone(), one.is_required)).collect();
        Set { all, by_name, by_parent, awaited }
    }

    /// The certificate for a name, and whether it is for that name.
    fn choose(&self, name: Option<&str>) -> Option<(&Arc<Served>, bool)> {
        match name.and_then(|name| self.named(name)) {
            Some(one) => Some((one, true)),
            None => self.all.first().map(|one| (one, false)),
        }
    }

    fn named(&self, name: &str) -> Option<&Arc<Served>> {
        let wildcard = || name.split_once('.').and_then(|(_, parent)| self.by_parent.get(parent));
        self.by_name.get(name).or_else(wildcard).and_then(|number| self.all.get(*number))
    }

    /// If a name has no certificate yet: whether it will be only for clients with a certificate.
    fn awaited(&self, name: &str) -> Option<bool> {
        self.awaited.get(name).copied().filter(|_| self.named(name).is_none())
    }
}

impl Default for Tls {
    /// Without certificates and keys yet.
    fn default() -> Tls {
        Tls {
            provider: provider(),
            ring: Arc::default(),
            keys: Mutex::default(),
            set: RwLock::default(),
            answers: RwLock::default(),
            version: AtomicU64::new(0),
            has_required: AtomicBool::new(false),
        }
    }
}

impl Tls {
    /// Serves these certificates from now on. Connections that there are go on. An error changes nothing.
    pub fn take(&self, file: &OwnedFd) -> Result<(), String> {
        let bytes = read(file, MAX_BUNDLE).map_err(|error| error.to_string())?;
        let bundle: Bundle = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        self.serve(&bundle)
    }

    fn serve(&self, bundle: &Bundle) -> Result<(), String> {
        let served = |one| Served::new(one, &self.provider, &self.ring).map(Arc::new);
        let all: Vec<Arc<Served>> = bundle.certificates.iter().map(served).collect::<Result<_, _>>()?;
        let has_required = all.iter().any(|one| one.is_required) || bundle.awaited.iter().any(|one| one.is_required);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.1 = !bundle.ticket_keys.is_empty();
        self.ring.set(if keys.1 { &bundle.ticket_keys } else { &keys.0 });
        drop(keys);
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Set::new(all, &bundle.awaited));
        self.version.store(VERSIONS.fetch_add(1, Ordering::AcqRel) + 1, Ordering::Release);
        self.has_required.store(has_required, Ordering::Release);
        Ok(())
    }

    /// Takes the supervisor's keys of tickets.
    pub fn take_ticket_keys(&self, file: &OwnedFd) -> std::io::Result<()> {
        let bytes = read(file, (KEY_SIZE * MAX_KEYS) as u64)?;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.1 {
            self.ring.set(&bytes);
        }
        keys.0 = bytes;
        Ok(())
    }

    /// Gives authorities these responses from now on. An error changes nothing.
    pub fn take_answers(&self, file: &OwnedFd) -> Result<(), String> {
        let bytes = read(file, MAX_BUNDLE).map_err(|error| error.to_string())?;
        let answers: Answers = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let prepared = Prepared::new(answers, &self.provider)?;
        *self.answers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(prepared);
        Ok(())
    }

    fn answers(&self) -> Arc<Prepared> {
        self.answers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The response to an authority that asks a host for a path, if the host's certificate is ordered here.
    pub fn challenge_response(&self, host: &str, path: &[u8]) -> Option<String> {
        self.answers().response(host, path)
    }

    /// What rustls needs for an authority that checks a name by a handshake.
    pub fn challenge_config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.answers().config(name)
    }

    fn with_set<R>(&self, use_it: impl FnOnce(&Set) -> R) -> R {
        SEEN.with_borrow_mut(|seen| {
            let version = self.version.load(Ordering::Acquire);
            if seen.0 != version {
                *seen = (version, self.set.read().unwrap_or_else(PoisonError::into_inner).clone());
            }
            use_it(&seen.1)
        })
    }

    /// The certificate for the name that a client has sent, and whether it is for that name.
    pub fn choose(&self, name: Option<&str>) -> Option<(Arc<Served>, bool)> {
        self.with_set(|set| set.choose(name).map(|(one, is_named)| (one.clone(), is_named)))
    }

    /// Whether a client has to wait until the certificate for the name that it has sent is issued, or any certificate.
    pub fn is_awaited(&self, name: Option<&str>) -> bool {
        let is_empty = |set: &Set| set.all.is_empty() && !set.awaited.is_empty();
        self.with_set(|set| is_empty(set) || name.is_some_and(|name| set.awaited(name).is_some()))
    }

    /// The first host of each certificate, and the second of the epoch at which it expires.
    pub fn ends(&self) -> Vec<(String, u64)> {
        let end = |one: &Arc<Served>| {
            let until = one.until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            (one.hosts.first().cloned().unwrap_or_default(), until)
        };
        self.with_set(|set| set.all.iter().map(end).collect())
    }

    /// Whether there is a certificate for a host.
    pub fn has(&self, name: &str) -> bool {
        self.with_set(|set| set.choose(Some(name)).is_some_and(|(_, is_named)| is_named))
    }

    /// Whether a host is only for clients with a certificate.
    pub fn is_closed(&self, name: &str) -> bool {
        let is_closed = |set: &Set| match set.named(name) {
            Some(one) => one.is_required,
            None => set.awaited(name) == Some(true),
        };
        self.has_required.load(Ordering::Acquire) && self.with_set(is_closed)
    }

    /// Whether the certificate that serves a host now lets in the same clients as another.
    pub fn lets_in_as(&self, name: &str, other: &Served) -> bool {
        self.with_set(|set| set.choose(Some(name)).is_some_and(|(one, _)| one.policy == other.policy))
    }
}

/// Reads a memory file whose position is shared with others.
fn read(file: &OwnedFd, limit: u64) -> std::io::Result<Vec<u8>> {
    let file = File::from(file.try_clone()?);
    let size = file.metadata()?.len();
    if size > limit {
        return Err(std::io::Error::other("it is too large"));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_one_label() {
        for (pattern, name, expected) in [
            ("a.example", "a.example", true),
            ("a.example", "b.a.example", false),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("[::1]", "[::1]", true),
        ] {
            assert_eq!(is_for(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn set(hosts: &[&[&str]]) -> Set {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let resolver = Arc::new(rustls::server::ResolvesServerCertUsingSni::new());
        let config = Arc::new(config.with_no_client_auth().with_cert_resolver(resolver));
        let served = |hosts: &&[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let (until, configs) = (SystemTime::UNIX_EPOCH, [config.clone(), config.clone()]);
            Arc::new(Served { hosts, policy: NO_POLICY, is_required: false, until, configs, verifier: None })
        };
        let awaited = [
            Awaited { host: "new.b.example".to_owned(), is_required: false },
            Awaited { host: "new.example".to_owned(), is_required: true },
        ];
        Set::new(hosts.iter().map(served).collect(), &awaited)
    }

    #[test]
    fn the_exact_name_comes_before_the_wildcard_and_the_first_serves_the_rest() {
        let set = set(&[&["first.example"], &["*.b.example", "b.example"], &["x.b.example", "first.example"]]);
        let chosen = |name| {
            let (one, is_named) = set.choose(name).unwrap();
            (set.all.iter().position(|other| Arc::ptr_eq(one, other)).unwrap(), is_named)
        };
        assert_eq!(chosen(Some("x.b.example")), (2, true));
        assert_eq!(chosen(Some("y.b.example")), (1, true));
        assert_eq!(chosen(Some("b.example")), (1, true));
        assert_eq!(chosen(Some("y.x.b.example")), (0, false));
        assert_eq!(chosen(Some("first.example")), (0, true));
        assert_eq!(chosen(Some("elsewhere.example")), (0, false));
        assert_eq!(chosen(None), (0, false));
        assert!(Set::default().choose(None).is_none());
        // The wildcard serves a host until it has a certificate of its own.
        let awaited = ["new.example", "new.b.example", "x.b.example"].map(|name| set.awaited(name));
        assert_eq!(awaited, [Some(true), None, None]);
    }
}
