//! Carries out what [`crate::reload`] decides and what clients of [`crate::peers::control_socket`] ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use control::command::Command;
use control::outcome::Outcome;
use ipc::control::ToFront;
use serde::Serialize;

use crate::lanes::generation::{Generation, GenerationId, Generations, Stage};
use crate::logs::own::log;
use crate::peers::control_socket::Client;
use crate::reload::{Action, Facts, Reload, Successor, Surroundings};
use crate::settings::service::{Application, Plan};
use crate::supervisor::Supervisor;

/// A response as text. If it cannot be written, it is empty, and the client says that the server ended.
pub(crate) fn json(response: &impl Serialize) -> String {
    serde_json::to_string(response).unwrap_or_else(|error| {
        log("error", format_args!("control socket: a response cannot be written: {error}"));
        String::new()
    })
}

impl Facts for Generations {
    fn application(&self, id: GenerationId) -> Option<&Application> {
        self.get(id).map(|generation| &*generation.application)
    }

    fn ordinal(&self, id: GenerationId) -> Option<u32> {
        self.get(id).map(|generation| generation.ordinal)
    }

    fn stage(&self, id: GenerationId) -> Option<Stage> {
        self.get(id).map(|generation| generation.stage)
    }

    fn is_ready(&self, id: GenerationId) -> bool {
        self.get(id).is_some_and(Generation::is_ready)
    }

    fn drains(&self, application: &str) -> bool {
        let is_draining = |one: &Generation| matches!(one.stage, Stage::Draining(_));
        let draining = self.all().filter(|one| is_draining(one) && one.application.name == application);
        draining.count() >= self.may_drain.max(1)
    }
}

impl Supervisor {
    /// Lets the reload decide something, and carries it out.
    pub(crate) fn reload(&mut self, decide: impl FnOnce(&mut Reload, &Generations) -> Vec<Action>) {
        let actions = decide(&mut self.reload, &self.generations);
        self.carry_out(actions);
    }

    pub(crate) fn carry_out(&mut self, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            match action {
                Action::Log(level, text) => log(level, format_args!("{text}")),
                Action::LookAtRoots => self.look_at_roots(),
                Action::Read(scope) => self.read_for(scope),
                Action::MakeSlabs(id) => self.make_slabs_of_change(id),
                Action::SendSettings(settings, ids) => self.send_settings(&settings, &ids),
                Action::WithdrawSettings => self.front.send(&ToFront::SettingsWithdrawn, &[]),
                Action::Switch(serving, draining) => self.switch(&serving, &draining),
                Action::Kill(id) => self.kill_generation(id),
                Action::Respond(clients, result) => {
                    self.respond(clients, result.as_deref().map_err(String::as_str));
                }
                Action::NotifyReady(refused) => {
                    self.tell_ready(refused.as_deref());
                    self.boot_ended(refused.as_deref());
                }
                Action::TellFollower(order, told) => self.followers.tell(&order, &told),
            }
        }
    }

    /// Carries out the commands that came on the control socket.
    pub(crate) fn serve_control_socket(&mut self) {
        let now = Instant::now();
        let commands = self.control_socket.as_mut().map_or_else(Vec::new, |socket| socket.commands(now));
        for (client, command) in commands {
            match command {
                Ok(Command::Reload) => {
                    self.reload(|reload, _| reload.request_all("command `reprise reload`", Some(client)))
                }
                Ok(Command::ReloadCertificates) => self.certificates_asked(client),
                Ok(Command::Status) => {
                    let status = json(&self.status());
                    self.control_socket.iter_mut().for_each(|socket| socket.respond(client, status.clone(), now));
                }
                Ok(Command::Stop) => {
                    self.await_end.push(client);
                    // A second one waits for the same drain; it is no second signal.
                    if !self.shutdown.is_begun() {
                        self.stop("command `reprise stop`");
                    }
                }
                Ok(Command::Trace(process)) => self.trace_for(process, client),
                Ok(Command::Profile { application, duration_ms, interval_us }) => {
                    self.profile_asked(&application, duration_ms, interval_us, client);
                }
                Ok(Command::Cache(question)) => self.cache_asked(&question, client),
                Ok(Command::Data { application, question }) => self.data_asked(&application, &question, client),
                Err(line) => {
                    log("warning", format_args!("control socket: there is no command {line:?}"));
                    self.respond(vec![client], Err("there is no such command"));
                }
            }
        }
        self.control_socket.iter_mut().for_each(|socket| socket.flush(now));
    }

    /// Tells clients of the control socket how it went.
    pub(crate) fn respond(&mut self, clients: Vec<Client>, how: Result<&str, &str>) {
        let Some(socket) = &mut self.control_socket else { return };
        let outcome = json(&Outcome::from(how));
        clients.into_iter().for_each(|client| socket.respond(client, outcome.clone(), Instant::now()));
    }

    /// Does of a reload what can be done now.
    pub(crate) fn advance_reload(&mut self) {
        if self.shutdown.is_begun() {
            // Nobody waits for their results any more.
            self.errands.end();
        }
        let around = Surroundings {
            is_announced: self.announced,
            is_front_open: self.front.is_open(),
            looks_at_roots: self.errands.looks_at_roots(),
        };
        self.reload(|reload, generations| reload.turn(&around, generations, Instant::now()));
    }

    /// Asks for a new generation in place of one.
    pub(crate) fn renew(&mut self, id: GenerationId, why: &str) {
        self.reload(|reload, generations| reload.renew(id, why, generations));
    }

    /// Asks for a new generation where an unused lane is in the way of another.
    pub(crate) fn evict_lanes(&mut self) {
        if !self.announced || self.shutdown.is_begun() || self.reload.is_changing() {
            return;
        }
        let now = Instant::now();
        for id in self.reload.current().to_vec() {
            // While a request waits, no lane is evicted. An eviction whose reload was refused is decided anew.
            let may_evict = !self.reload.is_requested();
            let generation = self.generations.get_mut(id);
            if let Some(why) = generation.and_then(|generation| generation.look_for_eviction(may_evict, now)) {
                self.renew(id, &why);
            }
        }
    }

    /// The configuration was read, if it was to be: the generations of a reload are made. `present` names the scripts that
    /// are files, by application.
    pub(crate) fn configuration_read(&mut self, read: Option<Plan>, present: &BTreeMap<String, BTreeSet<String>>) {
        let notices = read.iter().flat_map(|plan| plan.notices.clone()).collect::<Vec<String>>();
        let Some((plan, successors)) = self.reload.next_plan(read, &self.generations) else { return };
        notices.iter().for_each(|notice| log("notice", format_args!("{notice}")));
        if plan.isolation != self.reload.plan().isolation {
            log("notice", format_args!("isolation of snapshots: {}", plan.isolation));
        }
        let mut ids = Vec::new();
        for successor in successors {
            match self.make_generation(&plan, successor, present) {
                Ok(id) => ids.push(id),
                Err(why) => {
                    let current = self.reload.current();
                    ids.retain(|id| !current.contains(id));
                    ids.into_iter().for_each(|id| self.generations.remove(id));
                    return self.reload(|reload, _| reload.reading_failed(&why));
                }
            }
        }
        self.reload(|reload, generations| reload.begin(plan, ids, generations, Instant::now()));
    }

    fn make_generation(
        &mut self,
        plan: &Plan,
        successor: Successor,
        present: &BTreeMap<String, BTreeSet<String>>,
    ) -> Result<GenerationId, String> {
        let (application, ordinal, old): (Rc<Application>, _, _) = match successor {
            Successor::Same(id) => return Ok(id),
            Successor::New { application, ordinal, old } => (application, ordinal, old),
        };
        let made = plan
            .programs(&application)
            .and_then(|programs| Generation::new(&application, programs, ordinal, Stage::Booting));
        let mut generation = made.map_err(|error| format!("application '{}': {error}", application.name))?;
        if let Some(old) = old.and_then(|old| self.generations.get(old)) {
            generation.inherit(old, present.get(&application.name).unwrap_or(&BTreeSet::new()));
        }
        let id = self.generations.add(generation);
        self.following.is_made(id);
        Ok(id)
    }

    fn make_slabs_of_change(&mut self, id: GenerationId) {
        // Without a front, the slabs are made when the next front is started.
        if !self.front.is_running() {
            return;
        }
        if let Err(error) = self.make_mailboxes(id) {
            self.reload.generation_failed(id, &format_args!("a slab cannot be made: {error}"));
        }
    }

    fn send_settings(&mut self, settings: &str, ids: &[GenerationId]) {
        if !self.front.is_running() {
            return;
        }
        match (self.service.settings)(settings, ids) {
            Ok(file) => {
                let next = self.reload.next();
                let files = next.iter().flat_map(|plan| &plan.files).map(AsFd::as_fd).collect();
                let sockets = self.listeners.of(next.map_or(&[][..], |plan| &plan.listeners));
                self.front.send(&ToFront::Settings, &[vec![file.as_fd()], files, sockets].concat());
            }
            Err(error) => self.reload.fail(format!("the front's settings cannot be written: {error}")),
        }
    }

    /// Closes sockets that neither the configuration in force nor one that is to follow has. A front that has got them closes its
    /// copies by itself.
    pub(crate) fn close_listeners(&mut self) {
        let ids = if self.shutdown.is_begun() { BTreeSet::new() } else { self.reload.listeners() };
        self.listeners.keep(&ids);
    }

    fn switch(&mut self, serving: &[GenerationId], draining: &[GenerationId]) {
        self.certificates_planned();
        self.acme_planned();
        self.followers_planned();
        self.front.send(&ToFront::Switch, &[]);
        let since = Instant::now();
        for (ids, stage) in [(serving, Stage::Serving), (draining, Stage::Draining(since))] {
            for id in ids {
                self.generations.get_mut(*id).into_iter().for_each(|generation| generation.stage = stage);
            }
        }
    }
}
