//! A generation of a release, which boots like any other and then waits until the other nodes are ready too. The process that follows the
//! application's pool orders it, says when new requests go to it, or gives it up.

use crate::reload::{Action, Application, Client, Facts, GenerationId, Reading, Reload, ReloadRequest, Scope};

/// Why one ends that nobody waits for any more.
pub(super) const GIVEN_UP: &str = "the release is not to be served";

/// A release that is to be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Of which application.
    pub(crate) application: String,
    /// The release's id.
    pub(crate) id: String,
    /// By which its process calls it.
    pub(crate) ticket: u64,
}

/// What has come of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToldFollower {
    /// It is booted and warmed, and waits.
    Booted,
    /// It cannot serve; why.
    Failed(String),
    /// New requests go to it.
    Switched,
}

/// A change that waits for a word before the switch.
pub(super) struct Held {
    order: Order,
    is_told: bool,
    may_switch: bool,
}

impl Held {
    pub(super) fn of(scope: Scope) -> Option<Held> {
        match scope {
            Scope::Release(order) => Some(Held { order, is_told: false, may_switch: false }),
            Scope::All | Scope::Application(_) => None,
        }
    }

    pub(super) fn may_switch(&self) -> bool {
        self.may_switch
    }

    /// Says once that it waits.
    pub(super) fn tell_booted(&mut self) -> Vec<Action> {
        match std::mem::replace(&mut self.is_told, true) {
            true => Vec::new(),
            false => vec![Action::TellFollower(self.order.clone(), ToldFollower::Booted)],
        }
    }

    pub(super) fn switched(self) -> Action {
        Action::TellFollower(self.order, ToldFollower::Switched)
    }

    pub(super) fn failed(self, why: &str) -> Action {
        Action::TellFollower(self.order, ToldFollower::Failed(why.to_owned()))
    }
}

/// What is said if a reload of that scope fails.
pub(super) fn failed(scope: &Scope, why: &str) -> Option<Action> {
    Held::of(scope.clone()).map(|held| held.failed(why))
}

impl Reading {
    pub(super) fn new(scope: Scope, waiting: Vec<Client>) -> Reading {
        Reading { scope, waiting, is_given_up: false }
    }
}

impl ReloadRequest {
    /// Whether nothing is asked for any more.
    pub(super) fn is_done(&self) -> bool {
        !self.is_for_all && self.renewals.is_empty() && self.releases.is_empty()
    }
}

impl Reload {
    /// Takes the request for everything. Releases that are asked for stay asked for.
    pub(super) fn take_all(&mut self) -> Option<Reading> {
        let request = self.request.take()?;
        if !request.releases.is_empty() {
            self.request = Some(ReloadRequest { releases: request.releases, ..ReloadRequest::default() });
        }
        Some(Reading::new(Scope::All, request.waiting))
    }

    /// Whether an application keeps its generation. When a release is booted, the others do, unless the configuration has changed.
    pub(super) fn may_stay(&self, scope: &Scope, next: &Application, old: GenerationId, facts: &impl Facts) -> bool {
        let is_unchanged = || facts.application(old).is_some_and(|old| old.is_same(next));
        !scope.includes(&next.name) && (matches!(scope, Scope::Application(_)) || is_unchanged())
    }

    /// Asks for a generation of a release. An earlier order for the application has been given up before.
    pub(crate) fn order(&mut self, order: Order) -> Vec<Action> {
        let (actions, request) =
            self.request(&format!("application '{}': the release {}", order.application, order.id));
        request.releases.retain(|other| other.application != order.application);
        request.releases.push(order);
        actions
    }

    /// What was ordered is served as soon as it can be.
    pub(crate) fn serve_ordered(&mut self, application: &str, ticket: u64) {
        let held = self.change.as_mut().and_then(|change| change.held.as_mut());
        let is_it = |held: &&mut Held| held.order.application == application && held.order.ticket == ticket;
        held.filter(is_it).into_iter().for_each(|held| held.may_switch = true);
    }

    /// What was ordered is not wanted any more; `None`: whatever it was. A switch cannot be taken back.
    pub(crate) fn give_up_ordered(&mut self, application: &str, ticket: Option<u64>) {
        let is_it =
            |order: &Order| order.application == application && ticket.is_none_or(|ticket| order.ticket == ticket);
        if let Some(request) = &mut self.request {
            request.releases.retain(|order| !is_it(order));
        }
        if self.request.as_ref().is_some_and(ReloadRequest::is_done) {
            self.request = None;
        }
        if let Some(reading) = &mut self.reading {
            let is_its = matches!(&reading.scope, Scope::Release(order) if is_it(order));
            reading.is_given_up = reading.is_given_up || is_its;
        }
        let held = self.change.as_ref().filter(|change| !change.is_switched).and_then(|change| change.held.as_ref());
        if held.is_some_and(|held| is_it(&held.order)) {
            self.fail(GIVEN_UP.to_owned());
        }
    }
}
