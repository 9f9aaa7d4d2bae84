//! Checks of passwords for basic authentication. A check takes up to a second of processor time, so a thread of the runtime's
//! pool does it, few at once; what waits has a limit. A password that was right is remembered for a minute, by a keyed digest.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap};
use sha1::{Digest, Sha1};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use routing::refusal::Refusal;
use routing::rules::rule::Users;
use routing::rules::users::Compared;

/// Passwords that are checked at once. The pool has more threads, which files need.
const CHECKS: usize = 2;
/// Requests that may wait for a check.
const WAITING: usize = 64;
/// How long a right password is remembered, and how many.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 1024;

/// A name and a password, keyed and hashed.
type Print = [u8; 20];

/// All checks of a front.
pub struct Passwords {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    secret: [u64; 4],
    right: Mutex<HashMap<Print, Instant>>,
}

impl Passwords {
    /// Nothing is remembered.
    pub fn new() -> Passwords {
        Passwords {
            permits: Arc::new(Semaphore::new(CHECKS)),
            waiting: AtomicUsize::new(0),
            // Each state has keys of its own, drawn by the system.
            secret: [0_u8; 4].map(|zero| RandomState::new().hash_one(zero)),
            right: Mutex::new(HashMap::new()),
        }
    }

    /// The user that a request names, if the password is right.
    pub async fn check(&self, wanted: &Users, headers: &HeaderMap) -> Result<String, Refusal> {
        let (name, password) = credentials(headers).ok_or(Refusal::Unauthorized)?;
        let print = self.print(wanted.hashes.get(&name).map_or("", String::as_str), &name, &password);
        if self.is_known(&print) {
            return Ok(name);
        }
        let queued = Queued::enter(&self.waiting)?;
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Refusal::AuthenticationBusy)?;
        drop(queued);
        let compared = Compared::of(&wanted.hashes, &name).ok_or(Refusal::Unauthorized)?;
        let check = spawn_blocking(move || {
            // A check goes on when its client leaves, and so does its permit.
            let _permit = permit;
            compared.is_right(&password)
        });
        match check.await {
            Ok(true) => {
                self.remember(print);
                Ok(name)
            }
            Ok(false) => Err(Refusal::Unauthorized),
            // The runtime ends.
            Err(_) => Err(Refusal::AuthenticationBusy),
        }
    }

    fn print(&self, hash: &str, name: &str, password: &[u8]) -> Print {
        let mut digest = Sha1::new();
        self.secret.iter().for_each(|part| digest.update(part.to_ne_bytes()));
        for part in [hash.as_bytes(), name.as_bytes(), password] {
            digest.update(part.len().to_ne_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    fn is_known(&self, print: &Print) -> bool {
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.get(print).is_some_and(|since| since.elapsed() < REMEMBERED_FOR)
    }

    fn remember(&self, print: Print) {
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.len() >= REMEMBERED {
            right.retain(|_, since| since.elapsed() < REMEMBERED_FOR);
        }
        if right.len() >= REMEMBERED {
            right.clear();
        }
        right.insert(print, Instant::now());
    }
}

/// A request that waits for a check.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Result<Queued<'a>, Refusal> {
        let queued = Queued(waiting);
        if waiting.fetch_add(1, Ordering::AcqRel) >= WAITING { Err(Refusal::AuthenticationBusy) } else { Ok(queued) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Name and password (RFC 7617).
pub fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let (scheme, text) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut bytes = STANDARD.decode(text.trim()).ok()?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let password = bytes.split_off(colon + 1);
    bytes.pop();
    Some((String::from_utf8(bytes).ok()?, password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::rules::users;

    fn with(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, text.parse().unwrap());
        headers
    }

    #[test]
    fn credentials_are_read_as_they_are_sent() {
        assert_eq!(credentials(&with("Basic YTpiOmM=")), Some(("a".to_owned(), b"b:c".to_vec())));
        assert_eq!(credentials(&with("basic YTo=")), Some(("a".to_owned(), Vec::new())));
        for wrong in ["Basic", "Basic YQ==", "Bearer YTpi", "Basic ====", "Basic /zph"] {
            assert_eq!(credentials(&with(wrong)), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_right_password_is_remembered_and_a_wrong_one_is_not() {
        let hashes = users::parse("a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=").unwrap();
        let wanted = Users { realm: "r".to_owned(), hashes };
        let passwords = Passwords::new();
        let (right, wrong) = (with("Basic YTpwYXNzd29yZA=="), with("Basic YTpwYXNzd29yZQ=="));
        for _ in 0..2 {
            assert_eq!(passwords.check(&wanted, &right).await, Ok("a".to_owned()));
            assert_eq!(passwords.check(&wanted, &wrong).await, Err(Refusal::Unauthorized));
            assert_eq!(passwords.check(&wanted, &HeaderMap::new()).await, Err(Refusal::Unauthorized));
        }
        assert_eq!(passwords.right.lock().unwrap().len(), 1);
        // Another file with the same user and another hash has its own.
        let other =
            Users { realm: "r".to_owned(), hashes: users::parse("a:{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap() };
        assert_eq!(passwords.check(&other, &right).await, Err(Refusal::Unauthorized));
    }

    #[tokio::test]
    async fn what_waits_has_a_limit() {
        let hashes = users::parse("a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=").unwrap();
        let wanted = Users { realm: "r".to_owned(), hashes };
        let passwords = Passwords::new();
        let held = passwords.permits.clone().acquire_many_owned(CHECKS as u32).await.unwrap();
        let headers = with("Basic YTpwYXNzd29yZA==");
        passwords.waiting.store(WAITING, Ordering::Release);
        assert_eq!(passwords.check(&wanted, &headers).await, Err(Refusal::AuthenticationBusy));
        assert_eq!(passwords.waiting.load(Ordering::Acquire), WAITING);
        passwords.waiting.store(0, Ordering::Release);
        drop(held);
        assert_eq!(passwords.check(&wanted, &headers).await, Ok("a".to_owned()));
    }
}
