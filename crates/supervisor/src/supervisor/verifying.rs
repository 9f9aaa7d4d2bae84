//! The comparison of a generation's pages with those of classic mode, when it is warmed up and before visitors come (`verify_on_reload`). A child
//! makes the requests and compares; the front serves them by that generation, over a socket that nobody else has. What differs stays in classic
//! mode for as long as the generation lives, and so does what could not be compared.

use std::os::fd::AsFd;

use ipc::control::ToFront;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::lanes::generation::{GenerationId, WarmupState};
use crate::logs::own::log;
use crate::peers::boot;
use crate::peers::errand::Errand;
use crate::settings::verification::{PATIENCE, PageFound};
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Has a child compare the pages of each generation that is warmed up and wants that.
    pub(crate) fn verify(&mut self) {
        if !self.front.is_ready() {
            return;
        }
        for id in self.generations.ids() {
            let Some(generation) = self.generations.get_mut(id) else { continue };
            if generation.warmup != WarmupState::Unverified || generation.is_ending() {
                continue;
            }
            generation.warmup = WarmupState::Verifying;
            if let Err(error) = self.begin_verifying(id) {
                self.verified(id, Err(format!("a process cannot be started: {error}")));
            }
        }
    }

    fn begin_verifying(&mut self, id: GenerationId) -> std::io::Result<()> {
        let Some(generation) = self.generations.get(id) else { return Ok(()) };
        let application = generation.application.clone();
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let (verify, user) = (&self.service.verify, self.service.front_user.as_ref());
        let errand = Errand::send_with(theirs.as_fd(), PATIENCE, |socket| {
            Ok((verify(&application.verification, user, socket)?, Vec::new()))
        })?;
        self.front.send(&ToFront::Verify { generation: id }, &[ours.as_fd()]);
        self.await_verification(id, errand);
        Ok(())
    }

    /// The child has compared the pages, or why it has not.
    pub(crate) fn verified(&mut self, id: GenerationId, found: Result<Vec<PageFound>, String>) {
        let is_meant = |one: &&mut crate::lanes::generation::Generation| one.warmup == WarmupState::Verifying;
        let Some(generation) = self.generations.get_mut(id).filter(is_meant) else { return };
        generation.warmup = WarmupState::Done;
        let application = generation.application.clone();
        let name = &application.name;
        let pages = &application.verification.pages;
        let found = found.unwrap_or_else(|why| {
            let why = format!("the comparison with classic mode has failed: {why}");
            pages.iter().map(|page| PageFound { path: page.path.clone(), why: Some(why.clone()) }).collect()
        });
        for PageFound { path, why } in &found {
            if let Some(why) = why {
                log("warning", format_args!("application '{name}': {path} stays in classic mode: {why}"));
            }
        }
        let path_of = |page: &PageFound| page.path.split('?').next().unwrap_or_default().to_owned();
        generation.stays_classic = found.iter().filter(|page| page.why.is_some()).map(path_of).collect();
        let alike = found.iter().filter(|page| page.why.is_none()).count();
        let who = if application.verification.users.is_empty() { "" } else { " and two users" };
        log(
            "notice",
            format_args!(
                "application '{name}': {alike} of {} pages are as in classic mode, for guests{who}",
                found.len()
            ),
        );
        self.tell_what_stays_classic(id);
    }

    /// Tells the front which paths of a generation stay in classic mode.
    pub(crate) fn tell_what_stays_classic(&self, id: GenerationId) {
        let Some(generation) = self.generations.get(id).filter(|one| !one.stays_classic.is_empty()) else { return };
        if !self.front.is_running() {
            return;
        }
        let list = serde_json::to_vec(&generation.stays_classic).map_err(std::io::Error::from);
        match list.and_then(|list| boot::file(&list)) {
            Ok(file) => self.front.send(&ToFront::StayClassic { generation: id }, &[file.as_fd()]),
            Err(error) => {
                log("error", format_args!("the front cannot be told which paths stay in classic mode: {error}"))
            }
        }
    }
}
