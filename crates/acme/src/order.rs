//! An order, from its beginning to the certificate. It is kept in a file with its key as soon as it exists: a process that begins later
//! goes on with it.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error, Identifier, NewOrder,
    Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::answers::{self, Challenge};
use crate::context::Context;
use crate::environment::now;
use crate::fault::{Fault, persist, words};
use crate::lease::Lease;
use crate::storage;

/// How long an attempt may take. The next one goes on with the order.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at what the authority does, at first and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// An order that is older is given up, in seconds.
const MAX_AGE: u64 = 5 * 86400;

/// An order that is under way.
#[derive(Serialize, Deserialize)]
struct Kept {
    directory: String,
    profile: Option<String>,
    url: String,
    /// The key of the certificate, as PEM.
    key: String,
    made: u64,
}

/// A key and its certificate.
pub struct Issued {
    /// As PEM.
    pub key: String,
    /// As PEM, that of the host first.
    pub chain: String,
}

/// Waits between looks, a little longer each time.
struct Looks {
    delay: Duration,
    end: Instant,
}

impl Looks {
    fn new() -> Looks {
        Looks { delay: LOOKS.0, end: Instant::now() + PATIENCE }
    }

    async fn wait(&mut self, what: &str) -> Result<(), Fault> {
        if Instant::now() >= self.end {
            return Err(Fault(format!(
                "the authority has not {what} within {PATIENCE:?}; the order is continued later"
            )));
        }
        sleep(self.delay).await;
        self.delay = (self.delay * 3 / 2).min(LOOKS.1);
        Ok(())
    }
}

/// The name that is asked for.
fn identifier(host: &str) -> Identifier {
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(host.to_owned()),
    }
}

/// Orders a certificate for a host, or goes on with its order. `attempt` counts those that have failed; `replaces` is the certificate
/// that is renewed.
pub async fn run(
    context: &Context,
    account: &Account,
    host: &str,
    attempt: u32,
    replaces: Option<CertificateIdentifier<'static>>,
    lease: &Lease,
) -> Result<Issued, Fault> {
    let path = context.storage.of_host(host, "order");
    let (mut order, key) = match resume(context, account, host).await? {
        Some(known) => known,
        None => begin(context, account, host, replaces).await?,
    };
    let mut looks = Looks::new();
    let mut is_finalized = false;
    let chain = loop {
        if !lease.is_held() {
            return Err(Fault("another server has taken over the order".to_owned()));
        }
        match order.state().status {
            OrderStatus::Pending => authorize(context, &mut order, host, attempt, &mut looks).await?,
            OrderStatus::Ready if !is_finalized => {
                let request = signing_request(host, &key)?;
                persist(async || order.finalize_csr(&request).await).await?;
                is_finalized = true;
                continue;
            }
            OrderStatus::Valid => {
                let chain = persist(async || order.certificate().await).await?;
                break chain.ok_or_else(|| Fault("the authority has no certificate for a valid order".to_owned()))?;
            }
            OrderStatus::Invalid => {
                storage::remove(&path)?;
                let why = order.state().error.as_ref().map(words);
                return Err(Fault(why.unwrap_or_else(|| "the authority has ended the order".to_owned())));
            }
            OrderStatus::Ready | OrderStatus::Processing => {}
        }
        if order.state().status != OrderStatus::Valid {
            looks.wait("issued the certificate").await?;
            persist(async || order.refresh().await.map(|_| ())).await?;
        }
    };
    Ok(Issued { key, chain })
}

/// An order of an earlier attempt, with its key, if it is worth going on with.
async fn resume(context: &Context, account: &Account, host: &str) -> Result<Option<(Order, String)>, Fault> {
    let path = context.storage.of_host(host, "order");
    // A file that cannot be read is replaced by a new order.
    let Some(kept) = storage::read_json::<Kept>(&path).ok().flatten() else { return Ok(None) };
    let settings = &context.settings;
    let is_wanted = kept.directory == settings.directory && kept.profile == settings.profile;
    if is_wanted && now() < kept.made + MAX_AGE {
        match persist(async || account.order(kept.url.clone()).await).await {
            Ok(mut order) => {
                if order.state().status != OrderStatus::Invalid {
                    return Ok(Some((order, kept.key)));
                }
            }
            // The authority knows it no more.
            Err(Error::Api(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    storage::remove(&path)?;
    Ok(None)
}

async fn begin(
    context: &Context,
    account: &Account,
    host: &str,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<(Order, String), Fault> {
    let key = KeyPair::generate().map_err(|error| Fault(format!("a key cannot be made: {error}")))?.serialize_pem();
    let identifiers = [identifier(host)];
    let (settings, storage) = (&context.settings, &context.storage);
    let wanted = |replaces: Option<CertificateIdentifier<'static>>| {
        let order = NewOrder::new(&identifiers);
        let order = settings.profile.as_deref().into_iter().fold(order, NewOrder::profile);
        replaces.into_iter().fold(order, NewOrder::replaces)
    };
    let make = async |replaces: Option<CertificateIdentifier<'static>>| {
        persist(async || account.new_order(&wanted(replaces.clone())).await).await
    };
    let order = match make(replaces.clone()).await {
        // The authority does not know the old certificate, or it was replaced already: the new one is wanted all the same.
        Err(error) if replaces.is_some() && !is_refusal(&error) => make(None).await?,
        order => order?,
    };
    let kept = Kept {
        directory: settings.directory.clone(),
        profile: settings.profile.clone(),
        url: order.url().to_owned(),
        key: key.clone(),
        made: now(),
    };
    storage::write_json(&storage.of_host(host, "order"), &kept)?;
    Ok((order, key))
}

/// Whether the authority refuses an order for reasons that have nothing to do with an older certificate.
fn is_refusal(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    let kind = problem.r#type.as_deref().unwrap_or_default();
    [":rateLimited", ":rejectedIdentifier", ":unauthorized", ":invalidProfile"]
        .iter()
        .any(|known| kind.ends_with(known))
}

fn signing_request(host: &str, key: &str) -> Result<Vec<u8>, Fault> {
    let failed = |error: rcgen::Error| Fault(format!("the request for a certificate cannot be made: {error}"));
    let key = KeyPair::from_pem(key).map_err(failed)?;
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let mut params = CertificateParams::new(vec![name]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(failed)?.der().to_vec())
}

/// Which challenges are tried, the best first. After each failure it is another one.
fn kinds(context: &Context, host: &str, attempt: u32) -> Vec<ChallengeType> {
    let of = |word: &String| match word.as_str() {
        "tls-alpn-01" => ChallengeType::TlsAlpn01,
        _ => ChallengeType::Http01,
    };
    let is_address = matches!(identifier(host), Identifier::Ip(_));
    let mut all: Vec<ChallengeType> = context.settings.challenges.iter().map(of).collect();
    // That of an address would be asked for by a name of the DNS' reverse tree (RFC 8738 §6).
    all.retain(|kind| !is_address || *kind != ChallengeType::TlsAlpn01);
    let turns = attempt as usize % all.len().max(1);
    all.rotate_left(turns);
    all
}

/// Has the authority check the name.
async fn authorize(
    context: &Context,
    order: &mut Order,
    host: &str,
    attempt: u32,
    looks: &mut Looks,
) -> Result<(), Fault> {
    let kinds = kinds(context, host, attempt);
    let shown = Shown { context, host };
    let mut is_ready = false;
    loop {
        let (status, why) = look(context, order, host, &kinds, &mut is_ready).await?;
        match status {
            AuthorizationStatus::Pending => looks.wait("checked the name").await?,
            AuthorizationStatus::Valid => break,
            other => {
                storage::remove(&context.storage.of_host(host, "order"))?;
                return Err(Fault(why.unwrap_or_else(|| format!("the authorization is {other:?}").to_lowercase())));
            }
        }
    }
    drop(shown);
    Ok(())
}

/// The challenge of a host is shown no more when this is dropped.
struct Shown<'a> {
    context: &'a Context,
    host: &'a str,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        // A challenge that stays is removed when it is old.
        let _ = storage::remove(&self.context.storage.challenge(self.host));
    }
}

/// Looks at the authorization of an order that has one name, and says once that the challenge can be checked.
async fn look(
    context: &Context,
    order: &mut Order,
    host: &str,
    kinds: &[ChallengeType],
    is_ready: &mut bool,
) -> Result<(AuthorizationStatus, Option<String>), Fault> {
    let is_repeated = *is_ready;
    persist(async || {
        let mut all = order.authorizations();
        let Some(one) = all.next().await else { return Err(Error::Str("an order without an authorization")) };
        let mut one = one?;
        if is_repeated { one.refresh().await.map(|_| ()) } else { Ok(()) }
    })
    .await?;
    let mut all = order.authorizations();
    let one = all.next().await.ok_or_else(|| Fault("an order without an authorization".to_owned()))?;
    let mut one = one?;
    let why = one.challenges.iter().find_map(|challenge| challenge.error.as_ref()).map(words);
    let status = one.status;
    if status != AuthorizationStatus::Pending || *is_ready {
        return Ok((status, why));
    }
    let offered: Vec<&ChallengeType> = one.challenges.iter().map(|challenge| &challenge.r#type).collect();
    let Some(kind) = kinds.iter().find(|kind| offered.contains(kind)).cloned() else {
        return Err(Fault(format!("the authority checks this name by other challenges alone: {offered:?}")));
    };
    let Some(mut challenge) = one.challenge(kind.clone()) else {
        return Err(Fault("the authority has withdrawn the challenge".to_owned()));
    };
    if kind == ChallengeType::TlsAlpn01 {
        let digest = challenge.key_authorization().digest();
        storage::write_json(&context.storage.challenge(host), &Challenge::new(host, digest.as_ref()))?;
    }
    // The front of this server has to know what to tell before the authority asks, and so have those of others.
    context.publish().await?;
    if kind == ChallengeType::TlsAlpn01 {
        sleep(answers::SPREAD).await;
    }
    if challenge.status == ChallengeStatus::Pending {
        match persist(async || challenge.set_ready().await).await {
            // An earlier request has come through whose response was lost, or the next look shows why not.
            Ok(()) | Err(Error::Api(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    *is_ready = true;
    Ok((status, None))
}
