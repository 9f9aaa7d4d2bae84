//! The cache of responses: what may be shared is kept in memory, and one request asks for many. The rules are those of the crate `cache`.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`asking`] | what a request asks the cache for: its key, and whether it may share |
//! | [`entry`] | a stored response |
//! | [`responses`] | the stored responses of an application, within a number of bytes |
//! | [`flight`] | a response on its way that several requests wait for |
//! | [`by_rule`] | what was done, by the rule that has decided of a request |
//! | [`purges`] | what was purged |
//! | [`coded`] | compressed bodies of stored responses |
//! | [`heeded`] | headers of requests that could make a page for others |
//! | [`known`] | what the last response to each URL has said |
//! | [`in_flight`] | what responses on their way hold |
//! | [`teller`] | what other nodes are to purge, too |
//! | [`copied`] | a copy of a response, made while its client gets it |

pub mod asking;
pub mod by_rule;
pub mod coded;
pub mod copied;
pub mod entry;
pub mod flight;
pub mod heeded;
pub mod in_flight;
pub mod known;
pub mod purges;
pub mod responses;
pub mod teller;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::learned;
use by_rule::ByRule;
use inbound::control::Link;
use responses::Responses;
use routing::settings::Application;
use teller::Teller;

/// The stored responses of all applications. They are lost with the front.
pub struct Stored {
    link: Arc<dyn Link>,
    applications: Mutex<HashMap<String, Known>>,
    /// What an earlier front has learned of applications that are not in use yet.
    earlier: Mutex<HashMap<String, Vec<u8>>>,
}

struct Known {
    /// The last generation that was seen: those before it do not change the size any more.
    generation: u32,
    cached: Cached,
}

/// The stored responses of an application, and what was done by its rules.
#[derive(Clone)]
pub struct Cached {
    /// The responses. They outlive generations.
    pub responses: Arc<Responses>,
    /// What was done. Each generation has rules of its own.
    pub by_rule: ByRule,
}

impl Stored {
    /// Nothing yet.
    pub fn new(link: Arc<dyn Link>) -> Stored {
        Stored { link, applications: Mutex::default(), earlier: Mutex::default() }
    }

    /// That of an application, if it has a cache. [`crate::lanes::View::stored`] remembers it.
    pub fn of(&self, application: &Application) -> Option<Cached> {
        let (budget, object) = (application.cache_memory, application.cache_object);
        let mut all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get_mut(&application.name) {
            if known.generation == application.generation {
                return (budget > 0).then(|| known.cached.clone());
            }
            let by_rule = || ByRule::new(&application.table, Some(&known.cached.by_rule));
            if known.generation > application.generation {
                return (budget > 0).then(|| Cached { by_rule: by_rule(), ..known.cached.clone() });
            }
            if budget > 0 {
                known.cached.by_rule = by_rule();
                known.generation = application.generation;
                known.cached.responses.resize(budget);
                known.cached.responses.tells_others(application.shares_purges);
                return Some(known.cached.clone());
            }
            all.remove(&application.name);
        }
        if budget == 0 {
            return None;
        }
        let teller = Teller::new(self.link.clone(), &application.name);
        let responses = Arc::new(Responses::new(budget, object).with_teller(teller));
        responses.tells_others(application.shares_purges);
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner).remove(&application.name);
        earlier.iter().for_each(|told| responses.known.restore(told));
        let cached = Cached { responses, by_rule: ByRule::new(&application.table, None) };
        all.insert(application.name.clone(), Known { generation: application.generation, cached: cached.clone() });
        Some(cached)
    }

    /// What an earlier front has learned of the pages of an application. It comes before the first request.
    pub fn restore(&self, application: &str, attached: &[OwnedFd]) {
        let mut told = vec![0; known::SIZE];
        let Some(Ok(size)) = attached.first().map(|file| rustix::io::pread(file, &mut told, 0)) else { return };
        told.truncate(size);
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner).insert(application.to_owned(), told);
    }

    /// Has the supervisor keep which pages are shared, of those applications for which that has changed.
    pub fn tell_learned(&self) {
        let all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        for Known { generation, cached } in all.values() {
            let news = cached.responses.known.news();
            news.iter().for_each(|news| learned::tell(&*self.link, *generation, news));
        }
    }

    /// The applications that have a cache, and what it has.
    pub fn all(&self) -> Vec<(String, Cached)> {
        let all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = all.iter().map(|(name, known)| (name.clone(), known.cached.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Those of the application with that name, if it has a cache now.
    pub fn named(&self, application: &str) -> Option<Cached> {
        let all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(application).map(|known| known.cached.clone())
    }
}
