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
//! | [`copied`] | a copy of a response, made while its client gets it |

pub mod asking;
pub mod copied;
pub mod entry;
pub mod flight;
pub mod responses;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::Application;
use responses::Responses;

/// The stored responses of all applications. They are lost with the front.
#[derive(Default)]
pub struct Stored {
    applications: Mutex<HashMap<String, Arc<Responses>>>,
}

impl Stored {
    /// Those of an application, if it has a cache. It outlives generations; another size begins anew.
    pub fn of(&self, application: &Application) -> Option<Arc<Responses>> {
        let budget = application.cache_memory;
        if budget == 0 {
            return None;
        }
        let mut all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&application.name) {
            Some(known) if known.budget == budget => Some(known.clone()),
            _ => {
                let new = Arc::new(Responses::new(budget));
                all.insert(application.name.clone(), new.clone());
                Some(new)
            }
        }
    }
}
