//! Warm-up: when the lanes of a generation serve, the front makes the configured requests there, before any visitor's.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ipc::control::ToFront;

use crate::lanes::generation::{Generation, GenerationId, WarmupState};
use crate::logs::own::log;
use crate::peers::boot;
use crate::shutdown::Outcome;
use crate::supervisor::Supervisor;

/// Bytes of a response that are logged.
const SHOWN: usize = 2048;

/// What the front reports of a request of a warm-up.
pub(crate) struct WarmUpResult {
    /// Which of the configured ones.
    pub(crate) index: u32,
    /// 0 if it could not be made.
    pub(crate) status: u32,
    pub(crate) took_us: u64,
}

impl Supervisor {
    /// Has the front warm up each generation that can be.
    pub(crate) fn warm_up(&mut self) {
        if !self.front.is_ready() {
            return;
        }
        for id in self.generations.ids() {
            if self.generations.get_mut(id).is_some_and(Generation::begin_warm_up) {
                self.front.send(&ToFront::WarmUp { generation: id }, &[]);
            }
        }
    }

    /// The front reports a request of a warm-up.
    pub(crate) fn warmed_up(&mut self, id: GenerationId, result: WarmUpResult, attached: &[OwnedFd]) {
        let Some(generation) = self.generations.get_mut(id).filter(|one| one.warmup == WarmupState::UnderWay) else {
            return;
        };
        let application = generation.application.clone();
        let (index, count) = (result.index as usize, application.warmup.len());
        let Some(request) = application.warmup.get(index) else { return };
        let (name, took) = (&application.name, Duration::from_micros(result.took_us));
        let is_optional = application.is_warmup_optional;
        let is_answered = (100..500).contains(&result.status);
        let what = format!("application '{name}': warm-up {} of {count}: {request}: {}", index + 1, result.status);
        if index + 1 == count && (is_answered || is_optional) {
            generation.is_warmed_up();
        }
        if !self.announced {
            self.tell_booting();
        }
        if is_answered {
            return log("notice", format_args!("{what} after {} ms", took.as_millis()));
        }
        let body = attached.first().and_then(|file| boot::read(file, SHOWN).ok()).unwrap_or_default();
        let body = String::from_utf8_lossy(&body).replace(|one: char| one.is_control(), " ");
        let shown = if body.trim().is_empty() { "the response has no body" } else { body.trim() };
        log("error", format_args!("{what}: {shown}"));
        if is_optional {
            return;
        }
        self.reload.generation_failed(id, &format_args!("{what}: {shown}"));
        if !self.announced && self.reload.current().contains(&id) {
            self.shutdown.fail(Outcome::WarmUpFailed(name.clone(), request.clone()));
        }
    }
}
