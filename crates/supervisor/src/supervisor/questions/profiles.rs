//! `reprise profile`: forkers look at their workers over and over, and say what they see to the client, by a socket that goes past this process.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use control::outcome::Outcome;
use ipc::control::ToForker;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::lanes::generation::{Generation, Stage};
use crate::peers::channel::send;
use crate::peers::control_socket::Client;
use crate::supervisor::Supervisor;
use crate::supervisor::carry_out::json;

/// The longest profile, in milliseconds.
const LONGEST: u32 = 3_600_000;
/// Microseconds from one look to the next, at least and at most.
const INTERVAL: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;

impl Supervisor {
    /// Begins a profile of an application; without a name, of the only one.
    pub(crate) fn profile_asked(&mut self, application: &str, duration_ms: u32, interval_us: u32, client: Client) {
        if !(1..=LONGEST).contains(&duration_ms) || !INTERVAL.contains(&interval_us) {
            return self.respond(vec![client], Err("a profile takes up to an hour, with 1 to 1,000 looks a second"));
        }
        match self.begin_profile(application, duration_ms, interval_us) {
            Ok((lanes, socket)) => {
                let text = json(&Outcome::from(Ok(json(&lanes).as_str())));
                if let Some(own) = &mut self.control_socket {
                    own.respond_with(client, text, socket, Instant::now());
                }
            }
            Err(why) => self.respond(vec![client], Err(&why)),
        }
    }

    /// The names of all lanes, by number, and the client's end. The other end is the forkers' alone: the socket ends when they have.
    fn begin_profile(&self, name: &str, duration_ms: u32, interval_us: u32) -> Result<(Vec<String>, OwnedFd), String> {
        let generation = self.serving(name)?;
        let failed = |error: rustix::io::Errno| format!("the profile cannot begin: {error}");
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
        let mut lanes = Vec::new();
        for lane in 0..generation.lanes.len() {
            let of_lane = generation.lanes.get(lane).and_then(|lane| lane.entry.clone());
            lanes.push(of_lane.unwrap_or_else(|| "classic".to_owned()));
            if let Some(forker) = generation.working_forker(lane) {
                let message = ToForker::Profile { lane: lane as u32, interval_us, duration_ms };
                send(&forker.channel, &message, &[theirs.as_fd()]);
            }
        }
        Ok((lanes, ours))
    }

    /// The generation of an application that new requests go to.
    fn serving(&self, name: &str) -> Result<&Generation, String> {
        let all: Vec<&Generation> = self.generations.all().filter(|one| one.stage == Stage::Serving).collect();
        let names = || all.iter().map(|one| one.application.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, all.as_slice()) {
            ("", [one]) => Ok(one),
            ("", []) => Err("no application serves at the moment".to_owned()),
            ("", _) => Err(format!("there are several applications: {}; name one: --application NAME", names())),
            (name, _) => all
                .iter()
                .find(|one| one.application.name == name)
                .copied()
                .ok_or_else(|| format!("there is no application {name:?}; there are: {}", names())),
        }
    }
}
