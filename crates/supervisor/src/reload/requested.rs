//! Requests for a reload: who asks, and what joins a request that waits.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ipc::layout::{RENEW_FULL, RENEW_RESTART};

use crate::reload::{Action, Cause, Client, Facts, GenerationId, Reload, ReloadRequest, Stage};

/// Requests for a reload.
impl Reload {
    pub(super) fn request(&mut self, why: &str) -> (Vec<Action>, &mut ReloadRequest) {
        let log = Action::Log("notice", format!("reload requested: {why}"));
        (vec![log], self.request.get_or_insert_default())
    }

    /// Asks for new generations of everything, by the configuration as it is when it is read.
    pub(crate) fn request_all(&mut self, why: &str, client: Option<Client>) -> Vec<Action> {
        let (actions, request) = self.request(why);
        request.is_for_all = true;
        request.waiting.extend(client);
        actions
    }

    /// Asks for a new generation in place of one, unless that is on its way out already.
    pub(crate) fn renew(&mut self, id: GenerationId, why: &str, facts: &impl Facts) -> Vec<Action> {
        self.renew_because(Cause::Code, id, why, facts)
    }

    /// Files that a generation has loaded have changed.
    pub(crate) fn files_changed(&mut self, id: GenerationId, facts: &impl Facts) -> Vec<Action> {
        self.renew_because(Cause::Files, id, "files have changed", facts)
    }

    fn renew_because(&mut self, cause: Cause, id: GenerationId, why: &str, facts: &impl Facts) -> Vec<Action> {
        let (Some(stage), Some(application)) = (facts.stage(id), facts.application(id)) else { return Vec::new() };
        let is_in_use = stage == Stage::Serving || self.makes(id);
        let covers = |request: &ReloadRequest| {
            request.is_for_all || request.renewals.get(&application.name).is_some_and(|known| known.contains(&cause))
        };
        if !is_in_use || self.is_stopping || self.request.as_ref().is_some_and(covers) {
            return Vec::new();
        }
        let (actions, request) = self.request(&format!("application '{}': {why}", application.name));
        request.renewals.entry(application.name.clone()).or_default().insert(cause);
        actions
    }

    /// A process of a generation wants code loaded anew. What it wants renewed may have been loaded, before it said so,
    /// by the generation that has taken the place of its own meanwhile: then that one is renewed.
    pub(crate) fn opcache_reset(&mut self, id: GenerationId, facts: &impl Facts) -> Vec<Action> {
        let is_draining = matches!(facts.stage(id), Some(Stage::Draining(_)));
        let name = facts.application(id).map(|application| application.name.as_str());
        let successor = name.filter(|_| is_draining).and_then(|name| self.current_of(name, facts));
        self.renew(successor.unwrap_or(id), "a script called opcache_reset()", facts)
    }

    /// The opcache of a generation cannot go on. That concerns no other generation.
    pub(crate) fn opcache_failed(&mut self, id: GenerationId, why: u32, facts: &impl Facts) -> Vec<Action> {
        if self.change.as_ref().is_some_and(|change| !change.ids.contains(&id)) {
            // Another is on its way.
            return Vec::new();
        }
        match why {
            RENEW_RESTART => {
                self.renew(id, "opcache has to restart, and caches nothing while workers hold its lock", facts)
            }
            RENEW_FULL => self.renew(id, "opcache is full", facts),
            other => {
                let text = format!("a worker asked for a new generation with an unknown reason ({other})");
                vec![Action::Log("error", text)]
            }
        }
    }

    /// Asks for a reload if the root of an application leads elsewhere than when its generation began. Once for each place.
    pub(crate) fn roots_lead(&mut self, roots: &BTreeMap<String, PathBuf>, facts: &impl Facts) -> Vec<Action> {
        let leads_elsewhere = |id: &GenerationId| {
            let application = facts.application(*id)?;
            let root = roots.get(&application.name).filter(|root| **root != application.root)?;
            Some((application.name.clone(), root.clone()))
        };
        let Some((name, root)) = self.current.iter().find_map(leads_elsewhere) else { return Vec::new() };
        // One that was refused is not tried again and again.
        if !self.refused_roots.insert(root.clone()) {
            return Vec::new();
        }
        self.request_all(&format!("application '{name}': the root leads to {} now", root.display()), None)
    }
}
