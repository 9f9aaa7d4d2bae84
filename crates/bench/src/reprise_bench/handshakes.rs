//! Opens TLS connections one after the other, with a request on each, for `bench/edge`. Each connection has a thread, which waits;
//! so what is measured is the server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, SignatureScheme, StreamOwned};

use crate::failure::{Code, Failure};

/// What is given on the command line.
#[derive(Args)]
pub struct Options {
    /// Address of the server
    server: SocketAddr,
    /// Connections at once
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How long
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// What is asked for on each connection
    #[arg(long, default_value = "/")]
    path: String,
    /// Whether connections are resumed
    #[arg(long)]
    resume: bool,
}

/// The server under test shows any certificate; its signature is checked, as a browser does.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 alone".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// One group and one cipher, so that all servers do the same work.
fn settings(resume: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(CryptoProvider {
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    });
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&rustls::version::TLS13])?;
    let verifier = Arc::new(AnyCertificate(provider));
    let mut settings = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    settings.resumption = match resume {
        true => Resumption::store(Arc::new(ClientSessionMemoryCache::new(8))),
        false => Resumption::disabled(),
    };
    Ok(settings)
}

/// One connection with one request; how its handshake went.
fn connect(options: &Options, settings: &Arc<ClientConfig>) -> io::Result<Option<HandshakeKind>> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection = ClientConnection::new(settings.clone(), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(options.server)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream = StreamOwned::new(connection, socket);
    write!(stream, "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", options.path)?;
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        // A server may end a connection without saying so.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    if !response.starts_with(b"HTTP/1.1 200 ") {
        return Err(io::Error::other("the response is no 200"));
    }
    Ok(stream.conn.handshake_kind())
}

/// One thread: connection after connection. The first is full, and is not counted where connections are to be resumed.
fn work(options: &Options, until: Instant, count: &AtomicU64) -> io::Result<()> {
    let settings = Arc::new(settings(options.resume).map_err(io::Error::other)?);
    if options.resume {
        connect(options, &settings)?;
    }
    while Instant::now() < until {
        let kind = connect(options, &settings)?;
        let wanted = if options.resume { HandshakeKind::Resumed } else { HandshakeKind::Full };
        if kind != Some(wanted) {
            return Err(io::Error::other(format!("a handshake was {kind:?}, not {wanted:?}")));
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Prints how many connections there were, and in which time.
pub fn run(options: &Options) -> Result<(), Failure> {
    let began = Instant::now();
    let until = began + Duration::from_secs(options.seconds);
    let count = AtomicU64::new(0);
    let results: Vec<io::Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.connections).map(|_| scope.spawn(|| work(options, until, &count))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|ended| ended.unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))).collect()
    });
    if let Some(error) = results.into_iter().find_map(Result::err) {
        return Err(Failure::new(Code::NotMeasured, format!("handshakes with {}", options.server), error));
    }
    println!("{{\"connections\": {}, \"seconds\": {:.6}}}", count.into_inner(), began.elapsed().as_secs_f64());
    Ok(())
}
