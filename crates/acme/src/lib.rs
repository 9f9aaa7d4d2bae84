//! Orders certificates from an authority (ACME, RFC 8555), and renews them. It is a process of its own, under a user of its own.
//!
//! Servers may share the directory in which everything lies. For each host one of them orders; the others find the certificate. What fails
//! is logged with the authority's words and tried again later; nothing else waits for it.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`schedule`] | when what is to be done: pure |
//! | [`host`] | does it, for one host |
//! | [`order`] | an order, from its beginning to the certificate |
//! | [`context`] | what all hosts share: account, directory, the way to the front |
//! | [`answers`] | what the front is to tell the authority |
//! | [`storage`], [`lease`] | the directory, and who of those that share it may act |
//! | [`environment`] | what the process is told, its clock and its log |
//! | [`client`], [`fault`] | HTTP to the authority, and what it says |

#![forbid(unsafe_code)]

mod answers;
mod client;
pub mod context;
mod environment;
mod fault;
mod host;
mod lease;
mod order;
mod schedule;
pub mod storage;

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::LocalSet;

pub use context::Link;
pub use environment::Settings;

use context::Context;
use environment::say;

/// How often the directory is looked at for what other servers have put there.
const TICK: Duration = Duration::from_secs(1);

/// A descriptor to wait on. The function is deprecated because someone else could close the descriptor; this one is owned. The
/// alternative is unsafe code.
#[allow(deprecated)]
fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Orders and renews until the supervisor is gone.
pub fn run(settings: Settings, link: Rc<dyn Link>, lifeline: OwnedFd) -> io::Result<()> {
    let context = Rc::new(Context::new(settings, link).map_err(|fault| io::Error::other(fault.0))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        for host in context.settings.hosts.clone() {
            tokio::task::spawn_local(host::tend(host, context.clone()));
        }
        let link = watch(context.link.descriptor().try_clone_to_owned()?)?;
        let lifeline = watch(lifeline)?;
        let (mut tick, mut said) = (tokio::time::interval(TICK), None);
        loop {
            tokio::select! {
                _ = lifeline.readable() => return Ok(()),
                ready = link.readable() => {
                    loop {
                        match context.link.receive() {
                            Ok(Some(number)) => context.was_taken(number),
                            Ok(None) => break,
                            // The supervisor is gone, though another process may still hold its end of the lifeline.
                            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                            Err(error) => return Err(error),
                        }
                    }
                    ready?.clear_ready();
                }
                _ = tick.tick() => {
                    let failed = context.refresh().err().map(|fault| fault.0);
                    if let Some(why) = failed.as_ref().filter(|why| said.as_ref() != Some(*why)) {
                        say("error", format_args!("{why}"));
                    }
                    said = failed;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory that goes with the test.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new() -> Scratch {
            let path = std::env::temp_dir().join(format!("reprise-acme-{:032x}", fastrand::u128(..)));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        pub fn settings(&self, hosts: &[&str]) -> Settings {
            Settings {
                directory: "https://ca.example/dir".to_owned(),
                contact: Vec::new(),
                profile: None,
                challenges: vec!["http-01".to_owned()],
                external_account: None,
                ca: None,
                storage: self.0.clone(),
                hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                retry: 60,
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Runs something that starts tasks.
    pub fn local<T>(what: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, what)
    }
}
