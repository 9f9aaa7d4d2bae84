//! Scripts that ask for a lane while they run in classic mode.

use std::os::fd::OwnedFd;
use std::time::Instant;

use ipc::control::{Isolation, MAX_LANES};
use ipc::key::{Key, MAX_ORIGIN};

use crate::lanes::generation::{GenerationId, WarmupState};
use crate::lanes::lane::Lane;
use crate::logs::own::log;
use crate::peers::boot;
use crate::plan::{MAX_NAME, script_name};
use crate::supervisor::Supervisor;
use crate::supervisor::questions::errands::Sought;
use crate::supervisor::workers::starting::new_mailbox;

/// Keys of a generation that may be refused. After so many nothing is discovered in it any more.
const MAX_REFUSED: usize = 64;

impl Supervisor {
    /// A script in classic mode has called one of the functions that want a lane, in so many requests. It gets a lane if its key is valid,
    /// there is such a file, and a lane is left.
    pub(crate) fn discovered(&mut self, id: GenerationId, name: &OwnedFd, is_worker_mode: bool, times: u64) {
        let bytes = match boot::read(name, MAX_NAME + MAX_ORIGIN + 1) {
            Ok(bytes) => bytes,
            Err(error) => return log("error", format_args!("a lane key from the front cannot be read: {error}")),
        };
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let (Some(generation), Some(key)) = (self.generations.get_mut(id), Key::parse(&shown)) else { return };
        let application = generation.application.clone();
        let is_sought = self.errands.sought(id).any(|key| key == shown);
        let is_refused = generation.refused.len() >= MAX_REFUSED || generation.refused.contains(&shown);
        if application.classic.contains(key.script) || is_sought || is_refused || generation.has_lane_for(&shown) {
            return;
        }
        let refused = match script_name(key.script.as_bytes()) {
            Err(why) => Some(why),
            Ok(_) if !key.origin.is_none_or(|origin| application.answers_to(origin)) => {
                Some("the option hosts does not name its host")
            }
            Ok(_) => None,
        };
        if let Some(why) = refused {
            return self.stays_classic(id, &shown, why);
        }
        if generation.lanes.len() + self.errands.sought(id).count() >= MAX_LANES {
            // Whether there is such a file is looked at when a new generation may have a lane for it.
            return self.waits_for_lane(id, &shown, is_worker_mode, times);
        }
        // A lane that the warm-up has discovered serves before visitors come.
        let is_awaited = generation.warmup != WarmupState::Done;
        generation.sought += usize::from(is_awaited);
        let sought = Sought { generation: id, key: shown.clone(), is_worker_mode, is_awaited };
        self.look_for_script(&application, key.script, sought);
    }

    fn stays_classic(&mut self, id: GenerationId, key: &str, why: &str) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.refused.insert(key.to_owned());
        generation.say_classic(key, why);
    }

    fn waits_for_lane(&mut self, id: GenerationId, key: &str, is_worker_mode: bool, times: u64) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        if generation.eviction.wait(key, is_worker_mode, times) {
            generation.say_classic(key, "the application has the most lanes it may have");
        }
    }

    /// A child has looked whether a script is a file: the script gets its lane, or stays in classic mode.
    pub(crate) fn script_found(&mut self, sought: &Sought, found: Result<bool, String>) {
        let id = sought.generation;
        let Some(generation) = self.generations.get_mut(id) else { return };
        if sought.is_awaited {
            generation.sought = generation.sought.saturating_sub(1);
        }
        let why_not = match found {
            Err(why) => Some(why),
            Ok(_) if generation.is_ending() => return,
            Ok(false) => Some("it is not a file below the root".to_owned()),
            Ok(true) if generation.lanes.len() >= MAX_LANES => {
                return self.waits_for_lane(id, &sought.key, sought.is_worker_mode, 0);
            }
            Ok(true) => None,
        };
        if let Some(why) = why_not {
            return self.stays_classic(id, &sought.key, &why);
        }
        let is_sought = self.errands.sought(id).any(|key| key == sought.key);
        if !is_sought && !generation.has_lane_for(&sought.key) {
            self.add_lane(sought);
        }
    }

    fn add_lane(&mut self, sought: &Sought) {
        let Some(generation) = self.generations.get(sought.generation) else { return };
        let (name, key) = (generation.application.name.clone(), &sought.key);
        let mut lane = Lane {
            entry: Some(key.clone()),
            is_awaited: sought.is_awaited,
            isolation: if sought.is_worker_mode { Isolation::WorkerMode } else { Isolation::Auto },
            ..Lane::classic(Instant::now())
        };
        if self.front.is_running() {
            lane.mailbox =
                match new_mailbox(&generation.application, generation.lanes.len(), self.service.front_threads) {
                    Ok(mailbox) => Some(mailbox),
                    Err(error) => return log("error", format_args!("a lane of '{name}' cannot be made: {error}")),
                };
        }
        let what = if sought.is_worker_mode { "is a worker script" } else { "asks for a snapshot" };
        log(
            "notice",
            format_args!("application '{name}': {key} {what}; requests run in classic mode until it is booted"),
        );
        if let Some(generation) = self.generations.get_mut(sought.generation) {
            generation.lanes.push(lane);
        }
    }
}
