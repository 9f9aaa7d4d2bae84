//! HTTP to the authority: one connection at a time, time limits, bounded bodies. An error has the words of who made it.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a response.
const MAX_BODY: usize = 1 << 20;
/// Characters of a response that is no message of the protocol, in the log.
const SHOWN: usize = 200;

/// What went wrong on the way to the authority: another attempt may go better.
#[derive(Debug)]
pub struct Transport(pub String);

impl fmt::Display for Transport {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl StdError for Transport {}

fn transport(what: impl fmt::Display) -> Error {
    Error::Other(Box::new(Transport(what.to_string())))
}

/// A connection that is open, and to whom.
type Idle = Option<(String, SendRequest<BodyWrapper<Bytes>>)>;

/// The client. Its copies share a connection.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    idle: Arc<Mutex<Idle>>,
    retry_after: Arc<Mutex<Option<SystemTime>>>,
}

/// The certificates by which the authority's server is verified: those of a file, else those of the system.
fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
            let text = std::fs::read(path).map_err(|error| failed(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| failed(&error))?;
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    match roots.is_empty() {
        true if file.is_none() => {
            Err("the system has no root certificates (Debian: the package ca-certificates)".to_owned())
        }
        true => Err("the file of `ca` has no certificate".to_owned()),
        false => Ok(roots),
    }
}

impl Client {
    /// With these roots.
    pub fn new(ca: Option<&Path>) -> Result<Client, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config =
            builder.map_err(|error| error.to_string())?.with_root_certificates(roots(ca)?).with_no_client_auth();
        Ok(Client { tls: TlsConnector::from(Arc::new(config)), idle: Arc::default(), retry_after: Arc::default() })
    }

    /// When the authority wants to be asked again, if it has said that since this was called last.
    pub fn retry_after(&self) -> Option<SystemTime> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn take_idle(&self, authority: &str) -> Option<SendRequest<BodyWrapper<Bytes>>> {
        let (of, sender) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (of == authority && sender.is_ready()).then_some(sender)
    }

    async fn connect(&self, host: &str, port: u16) -> Result<SendRequest<BodyWrapper<Bytes>>, Error> {
        let at = |what: &str, error: &dyn fmt::Display| transport(format!("{host}:{port}: {what}: {error}"));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(|error| at("no connection", &error))?;
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| at("no server name", &error))?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| at("TLS", &error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| at("HTTP", &error))?;
        // What is wrong with the connection, its request sees.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn exchange(&self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let uri = request.uri().clone();
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| transport(format!("{uri}: no URL of https")))?;
        let mut sender = match self.take_idle(authority.as_str()) {
            Some(sender) => sender,
            None => self.connect(authority.host(), authority.port_u16().unwrap_or(443)).await?,
        };
        let host = HeaderValue::from_str(authority.as_str()).map_err(|error| transport(format!("{uri}: {error}")))?;
        request.headers_mut().insert(HOST, host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>()?;
        let failed = |error: &dyn fmt::Display| transport(format!("{authority}{path}: {error}"));
        let response: Response<Incoming> = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| failed(&error))?.to_bytes();
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some((authority.to_string(), sender));
        self.note_delay(&parts);
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // Parameters may follow.
        let is_message = kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json"));
        if !parts.status.is_success() && !is_message {
            let text: String = String::from_utf8_lossy(&body).chars().take(SHOWN).collect();
            return Err(failed(&format!("the response is {}: {}", parts.status, text.trim())));
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }

    /// Notes how long an authority that has enough wants to be left alone.
    fn note_delay(&self, parts: &http::response::Parts) {
        let is_refusal = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&parts.status);
        let after = parts.headers.get(RETRY_AFTER).filter(|_| is_refusal).and_then(|value| value.to_str().ok());
        let seconds = after.and_then(|text| text.trim().parse().ok());
        if let Some(until) = seconds.and_then(|after| SystemTime::now().checked_add(Duration::from_secs(after))) {
            *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (client, target) = (self.clone(), request.uri().clone());
        Box::pin(async move {
            let response = tokio::time::timeout(PATIENCE, client.exchange(request)).await;
            response.unwrap_or_else(|_| Err(transport(format!("{target}: no response within {PATIENCE:?}"))))
        })
    }
}
