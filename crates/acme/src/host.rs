//! A host's certificate: it is ordered, renewed, and the authority is asked when that is to be.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use certificates::Certificate;
use instant_acme::{Account, CertificateIdentifier, Error};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, Der};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

use crate::context::Context;
use crate::environment::{now, say};
use crate::fault::{Fault, persist};
use crate::lease::Lease;
use crate::order::{self, Issued};
use crate::schedule::{Next, State, Validity};
use crate::storage;

/// How often it is looked whether a server that has the lease is ready.
const LOOK: u64 = 1;
/// The longest sleep: the clock may be set meanwhile.
const MAX_SLEEP: u64 = 3600;

/// A certificate that is there.
struct Present {
    validity: Validity,
    chain: String,
}

/// Tends the certificate of a host for ever.
pub async fn tend(host: String, context: Rc<Context>) {
    loop {
        let until = match turn(&host, &context).await {
            Ok(until) => until,
            Err(fault) => {
                // The directory cannot be used: the state cannot be kept either.
                say("error", format_args!("{host}: {fault}"));
                now() + context.settings.retry.max(10)
            }
        };
        let rest = until.saturating_sub(now()).clamp(1, MAX_SLEEP);
        tokio::time::sleep(Duration::from_secs(rest)).await;
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a text of a key and a chain is, if it can be served for a host.
fn check(host: &str, key: &str, chain: &str) -> Result<Validity, String> {
    let certificate =
        Certificate { hosts: vec![host.to_owned()], chain: chain.to_owned(), key: key.to_owned(), client: None };
    let checked = certificate.check().map_err(|wrong| format!("{wrong:?}"))?;
    match checked.names.iter().any(|name| name == host) {
        true => Ok(Validity { from: seconds(checked.from), until: seconds(checked.until) }),
        false => Err(format!("the certificate is for {}", checked.names.join(", "))),
    }
}

/// What lies in the directory for a host.
fn look(host: &str, context: &Context) -> Result<(State, Option<Present>), Fault> {
    // A state that cannot be read is written anew with the next step.
    let state = storage::read_json(&context.storage.of_host(host, "json")).ok().flatten().unwrap_or_default();
    let text = storage::read(&context.storage.of_host(host, "pem"))?;
    let present = text.and_then(|text| Some(Present { validity: check(host, &text, &text).ok()?, chain: text }));
    Ok((state, present))
}

/// Does what is to be done now. Returns when there is more.
async fn turn(host: &str, context: &Context) -> Result<u64, Fault> {
    let settings = &context.settings;
    let next = |state: &State, present: Option<&Present>| {
        let validity = present.map(|present| present.validity);
        state.next(validity, &settings.directory, settings.profile.as_deref(), now())
    };
    let (state, present) = look(host, context)?;
    if let Next::Wait(until) = next(&state, present.as_ref()) {
        return Ok(until);
    }
    let Ok(_permit) = context.orders.acquire().await else { return Ok(now() + LOOK) };
    let Some(lease) = context.leases.take(&context.storage.lease(host))? else { return Ok(now() + LOOK) };
    // Another server may have done it before.
    let (mut state, present) = look(host, context)?;
    let next = next(&state, present.as_ref());
    let done = match (next, &present) {
        (Next::Wait(until), _) => return Ok(until),
        (Next::Ask, Some(present)) => ask(host, context, &mut state, present).await,
        (Next::Ask | Next::Order, _) => obtain(host, context, &mut state, present.as_ref(), &lease).await,
    };
    if let Err(fault) = done {
        failed(host, context, &mut state, fault).await?;
    }
    storage::write_json(&context.storage.of_host(host, "json"), &state)?;
    Ok(now())
}

/// Notes and logs what has failed.
async fn failed(host: &str, context: &Context, state: &mut State, fault: Fault) -> Result<(), Fault> {
    if fault.is_about_account() {
        context.forget_account().await?;
    }
    let least = context.client.retry_after().map_or(0, |until| seconds(until).saturating_sub(now()));
    state.failed(fault.0.clone(), context.settings.retry, least, fastrand::f64(), now());
    let (count, rest) = (state.failures, state.not_before.saturating_sub(now()));
    say(
        "warning",
        format_args!("{host}: no certificate was issued: {fault} (attempt {count}; the next one follows in {rest} s)"),
    );
    Ok(())
}

/// Orders a certificate and keeps it.
async fn obtain(
    host: &str,
    context: &Context,
    state: &mut State,
    present: Option<&Present>,
    lease: &Lease,
) -> Result<(), Fault> {
    let settings = &context.settings;
    let account = context.account().await?;
    let replaces = present.filter(|_| state.directory == settings.directory).and_then(|one| identifier(&one.chain));
    let Issued { key, chain } = order::run(context, &account, host, state.failures, replaces, lease).await?;
    let path = context.storage.of_host(host, "order");
    let validity = match check(host, &key, &chain) {
        Ok(validity) => validity,
        Err(why) => {
            storage::remove(&path)?;
            return Err(Fault(format!("the authority's certificate cannot be used: {why}")));
        }
    };
    storage::write(&context.storage.of_host(host, "pem"), &format!("{key}{chain}"))?;
    *state = State::issued(&settings.directory, settings.profile.as_deref(), validity, fastrand::f64(), now());
    storage::write_json(&context.storage.of_host(host, "json"), state)?;
    storage::remove(&path)?;
    context.link.send_issued()?;
    let days = validity.until.saturating_sub(now()) as f64 / 86400.0;
    say("notice", format_args!("{host}: a certificate was issued, for {days:.1} days"));
    advise(context, &account, host, state, validity, &chain).await
}

/// Asks the authority when a certificate is to be renewed.
async fn ask(host: &str, context: &Context, state: &mut State, present: &Present) -> Result<(), Fault> {
    let account = match context.account().await {
        Ok(account) => account,
        Err(fault) => {
            say(
                "notice",
                format_args!("{host}: {} cannot be asked when to renew: {fault}", context.settings.directory),
            );
            state.not_advised(now());
            return Ok(());
        }
    };
    advise(context, &account, host, state, present.validity, &present.chain).await
}

/// The same, with the account. What fails is no reason not to serve the certificate.
async fn advise(
    context: &Context,
    account: &Account,
    host: &str,
    state: &mut State,
    validity: Validity,
    chain: &str,
) -> Result<(), Fault> {
    let Some(identifier) = identifier(chain) else {
        state.not_advised(now());
        return Ok(());
    };
    match persist(async || account.renewal_info(&identifier).await).await {
        Ok((info, after)) => {
            let window = &info.suggested_window;
            let second = |time: i64| u64::try_from(time).unwrap_or_default();
            let window = (second(window.start.unix_timestamp()), second(window.end.unix_timestamp()));
            let before = state.renew_at;
            state.advised(window, after.as_secs(), validity, fastrand::f64(), now());
            if let (Some(url), true) = (&info.explanation_url, before != state.renew_at) {
                say("notice", format_args!("{host}: the authority explains its time of renewal: {url}"));
            }
        }
        Err(Error::Unsupported(_)) => state.not_advised(now()),
        Err(error) => {
            let fault = Fault::from(error);
            say("notice", format_args!("{host}: {} does not say when to renew: {fault}", context.settings.directory));
            state.not_advised(now());
        }
    }
    Ok(())
}

/// How the authority names a certificate when its renewal is spoken of (RFC 9773 §4.1).
fn identifier(chain: &str) -> Option<CertificateIdentifier<'static>> {
    let first = CertificateDer::pem_slice_iter(chain.as_bytes()).next()?.ok()?;
    let parsed = x509_cert::Certificate::from_der(&first).ok()?.tbs_certificate;
    let (_, authority) = parsed.get::<AuthorityKeyIdentifier>().ok()??;
    let key = authority.key_identifier?;
    let mut serial = parsed.serial_number.as_bytes().to_vec();
    if serial.first().is_some_and(|first| first & 0x80 != 0) {
        // A positive number, as DER writes it.
        serial.insert(0, 0);
    }
    Some(CertificateIdentifier::new(Der::from_slice(key.as_bytes()), Der::from_slice(&serial)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, Issuer, KeyPair, SerialNumber};

    use super::*;

    /// The example's form: base64url of the authority's key identifier and of the serial number, with its leading zero.
    #[test]
    fn a_certificate_is_named_as_the_authority_names_it() {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(vec![0x69, 0x88]);
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = Issuer::new(authority, &key);
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65, 0x43, 0x21]));
        params.use_authority_key_identifier_extension = true;
        let own = KeyPair::generate().unwrap();
        let chain = params.signed_by(&own, &issuer).unwrap().pem();
        assert_eq!(identifier(&chain).map(|one| one.to_string()).as_deref(), Some("aYg.AIdlQyE"));
        assert!(check("a.example", &own.serialize_pem(), &chain).is_ok());
        assert!(check("b.example", &own.serialize_pem(), &chain).is_err());
        assert!(check("a.example", &key.serialize_pem(), &chain).is_err());
        assert!(identifier("no certificate").is_none());
    }
}
