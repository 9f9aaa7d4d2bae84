//! What is known of a connection by TLS, and PHP's variables for it, by the names that Apache's mod_ssl has given them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::time::Time;

use super::served::Served;

/// A client's certificate that is larger is not passed on: the head of a request has a limit.
const MAX_CERTIFICATE: usize = 8 * 1024;
/// The common name (RFC 4519 §2.3).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// What is known of a connection.
pub struct Secure {
    /// The certificate that the client has seen.
    pub served: Arc<Served>,
    /// The name that the client has sent, if the certificate was chosen by it.
    name: Option<String>,
    /// Whether the client has resumed an earlier connection.
    pub is_resumed: bool,
    /// Whether the client has negotiated HTTP/2.
    pub is_http2: bool,
    /// PHP's variables.
    pub variables: Vec<(&'static str, String)>,
}

impl Secure {
    /// Of a connection whose handshake is complete. `None`: the client's certificate is none that would be let in now. `name`: what
    /// the client has sent.
    pub fn new(
        connection: &ServerConnection,
        served: Arc<Served>,
        name: Option<String>,
        is_named: bool,
    ) -> Option<Secure> {
        let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let chain = connection.peer_certificates().unwrap_or_default();
        // A ticket remembers the client's certificate, which may have expired since.
        if let (Some(verifier), true, [first, rest @ ..]) = (&served.verifier, is_resumed, chain) {
            verifier.verify_client_cert(first, rest, UnixTime::now()).ok()?;
        }
        let mut variables = vec![("SSL_PROTOCOL", protocol(connection).to_owned()), ("SSL_CIPHER", cipher(connection))];
        variables.extend(name.iter().map(|name| ("SSL_TLS_SNI", name.clone())));
        if served.verifier.is_some() {
            variables.extend(of_client(chain.first()));
        }
        let is_http2 = connection.alpn_protocol() == Some(b"h2");
        Some(Secure { served, name: name.filter(|_| is_named), is_resumed, is_http2, variables })
    }

    /// Whether the connection's certificate is for a host.
    pub fn is_for(&self, host: &str) -> bool {
        self.name.as_deref() == Some(host) || self.served.covers(host)
    }
}

fn protocol(connection: &ServerConnection) -> &'static str {
    match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    }
}

/// The name that OpenSSL gives to the cipher suite, as PHP knows it from other servers.
fn cipher(connection: &ServerConnection) -> String {
    let Some(suite) = connection.negotiated_cipher_suite().map(|suite| suite.suite()) else { return String::new() };
    let name = match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => return format!("{other:?}"),
    };
    name.to_owned()
}

/// The variables for the certificate that a client has shown, which the handshake has verified.
fn of_client(shown: Option<&CertificateDer<'_>>) -> Vec<(&'static str, String)> {
    let parsed = shown.and_then(|shown| Some((shown, x509_cert::Certificate::from_der(shown).ok()?)));
    let Some((shown, certificate)) = parsed else { return vec![("SSL_CLIENT_VERIFY", "NONE".to_owned())] };
    let certificate = &certificate.tbs_certificate;
    let serial: String = certificate.serial_number.as_bytes().iter().map(|byte| format!("{byte:02X}")).collect();
    let mut variables = vec![
        ("SSL_CLIENT_VERIFY", "SUCCESS".to_owned()),
        ("SSL_CLIENT_S_DN", one_line(&certificate.subject.to_string())),
        ("SSL_CLIENT_I_DN", one_line(&certificate.issuer.to_string())),
        ("SSL_CLIENT_M_SERIAL", serial),
        ("SSL_CLIENT_V_START", date(&certificate.validity.not_before)),
        ("SSL_CLIENT_V_END", date(&certificate.validity.not_after)),
    ];
    variables.extend(common_name(&certificate.subject).map(|name| ("SSL_CLIENT_S_DN_CN", one_line(&name))));
    if shown.len() <= MAX_CERTIFICATE {
        variables.push(("SSL_CLIENT_CERT", pem(shown)));
    }
    variables
}

/// The last common name of a subject, which is the most specific.
fn common_name(subject: &x509_cert::name::Name) -> Option<String> {
    let mut all = subject.0.iter().flat_map(|part| part.0.iter());
    let value = &all.rfind(|one| one.oid == COMMON_NAME)?.value;
    let is_text = [Tag::Utf8String, Tag::PrintableString, Tag::Ia5String, Tag::TeletexString].contains(&value.tag());
    is_text.then(|| String::from_utf8_lossy(value.value()).into_owned())
}

/// A certificate's text may have any bytes in it. A variable of PHP has no control bytes.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A date as OpenSSL prints it.
fn date(time: &Time) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let date = time.to_date_time();
    let month = MONTHS.get(usize::from(date.month()).wrapping_sub(1)).copied().unwrap_or("");
    let (day, hour, minute, second, year) = (date.day(), date.hour(), date.minutes(), date.seconds(), date.year());
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
