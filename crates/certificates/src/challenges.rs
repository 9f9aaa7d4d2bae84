//! Responses to authorities that check who has a name before they issue a certificate (ACME, RFC 8555). What they ask for comes from
//! the process that orders certificates, in a sealed memory file ([`Answers`]).
//!
//! | challenge | how the authority asks | response |
//! |---|---|---|
//! | http-01 | `/.well-known/acme-challenge/TOKEN`, in clear | the token and the thumbprint of the account's key: any node that knows the account can respond |
//! | tls-alpn-01 | a handshake for the protocol `acme-tls/1` | a certificate for this challenge alone, then the end of the connection (RFC 8737) |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use serde::{Deserialize, Serialize};

use super::bundle::Certificate;

/// Authorities ask below this path (RFC 8555 §8.3).
pub const PATH: &[u8] = b"/.well-known/acme-challenge/";
/// The protocol of a challenge (RFC 8737 §6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";
/// Bytes of a token at most. Tokens have 128 bits of entropy at least, which are 22.
const MAX_TOKEN: usize = 256;

/// What authorities are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// The thumbprint of the account's key (RFC 7638), if there is an account.
    pub thumbprint: Option<String>,
    /// Hosts whose certificates are ordered here.
    pub hosts: Vec<String>,
    /// Certificates of challenges under way, for one host each.
    pub certificates: Vec<Certificate>,
}

/// The same, ready to be used.
#[derive(Default)]
pub(super) struct Prepared {
    thumbprint: Option<String>,
    hosts: HashSet<String>,
    configs: HashMap<String, Arc<ServerConfig>>,
}

impl Prepared {
    pub(super) fn new(answers: Answers, provider: &Arc<CryptoProvider>) -> Result<Prepared, String> {
        let mut configs = HashMap::new();
        for one in &answers.certificates {
            let certified = one.of_challenge(provider)?;
            let builder = ServerConfig::builder_with_provider(provider.clone());
            let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
            let resolver = Arc::new(SingleCertAndKey::from(certified));
            let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
            config.alpn_protocols = vec![PROTOCOL.to_vec()];
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            let config = Arc::new(config);
            configs.extend(one.hosts.iter().map(|host| (host.clone(), config.clone())));
        }
        Ok(Prepared { thumbprint: answers.thumbprint, hosts: answers.hosts.into_iter().collect(), configs })
    }

    /// The response to a request for a path of a host, if it is a challenge of a host whose certificate is ordered here.
    pub(super) fn response(&self, host: &str, path: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(path.strip_prefix(PATH)?).ok()?;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_fine = (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(is_token);
        let thumbprint = self.thumbprint.as_ref().filter(|_| is_fine && self.hosts.contains(host))?;
        Some(format!("{token}.{thumbprint}"))
    }

    pub(super) fn config(&self, host: &str) -> Option<Arc<ServerConfig>> {
        self.configs.get(host).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gets_its_response_for_hosts_of_its_own() {
        let hosts = vec!["a.example".to_owned()];
        let answers = Answers { thumbprint: Some("thumb".to_owned()), hosts, certificates: Vec::new() };
        let prepared = Prepared::new(answers.clone(), &super::super::bundle::provider()).unwrap();
        let ask = |host, path: &str| prepared.response(host, path.as_bytes());
        assert_eq!(ask("a.example", "/.well-known/acme-challenge/to-k_en9").as_deref(), Some("to-k_en9.thumb"));
        for (host, path) in [
            ("b.example", "/.well-known/acme-challenge/token".to_owned()),
            ("a.example", "/.well-known/acme-challenge/".to_owned()),
            ("a.example", "/.well-known/acme-challenge/to/ken".to_owned()),
            ("a.example", "/.well-known/acme-challenge/<script>".to_owned()),
            ("a.example", format!("/.well-known/acme-challenge/{}", "x".repeat(MAX_TOKEN + 1))),
            ("a.example", "/token".to_owned()),
        ] {
            assert_eq!(ask(host, &path), None, "{host} {path}");
        }
        let without =
            Prepared::new(Answers { thumbprint: None, ..answers }, &super::super::bundle::provider()).unwrap();
        assert_eq!(without.response("a.example", b"/.well-known/acme-challenge/token"), None);
    }
}
