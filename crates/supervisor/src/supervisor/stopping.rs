//! The end of the server: a drain, or everything at once.

use std::time::{Duration, Instant};

use ipc::control::ToFront;
use nix::sys::signal::Signal;

use crate::logs::own::log;
use crate::os::sys;
use crate::plan::Slot;
use crate::shutdown::{Outcome, Stop};
use crate::supervisor::Supervisor;

impl Supervisor {
    pub(crate) fn stop(&mut self, why: &str) {
        let limit = self.stop_timeout();
        // No load balancer uses a server that does not serve yet.
        let delay = if self.announced { self.reload.plan().shutdown_delay } else { Duration::ZERO };
        self.reload.stop();
        match self.shutdown.request(delay, limit, self.has_processes(), Instant::now()) {
            Stop::Leave => {
                log(
                    "notice",
                    format_args!("{why}: serving on for {delay:?} (shutdown_delay), not ready for new clients"),
                );
                self.tell_stopping(delay);
                self.front.send(&ToFront::Leave, &[]);
            }
            Stop::Drain => {
                log("notice", format_args!("{why}: draining, at most {limit:?}"));
                self.tell_stopping(Duration::ZERO);
                // When the front has closed its copies too, new connections are refused.
                self.service.front_descriptors.clear();
                self.close_listeners();
                self.end_acme();
                self.end_watcher();
                self.followers.end();
                match self.front.is_running() {
                    true => self.front.send(&ToFront::Drain, &[]),
                    false => self.end_forkers(),
                }
            }
            Stop::CutOff => log("warning", format_args!("{why}: ending now")),
            Stop::Nothing => {}
        }
    }

    /// Ends a delay that is over, or a drain that takes too long.
    pub(crate) fn end_overdue_drain(&mut self) {
        if self.shutdown.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            if self.shutdown.is_leaving() {
                return self.stop("shutdown_delay is over");
            }
            let limit = self.stop_timeout();
            log("warning", format_args!("drain took longer than {limit:?}; ending now"));
            self.stop("deadline");
        }
    }

    fn stop_timeout(&self) -> Duration {
        self.service.stop_timeout.unwrap_or(self.reload.plan().drain_timeout)
    }

    fn has_processes(&self) -> bool {
        self.front.is_running() || self.forkers().next().is_some()
    }

    /// Lets all forkers end, because the front has finished or is gone. Workers end when their lane is drained, a template ends with
    /// its last worker, a prototype with the last of its workers and templates.
    pub(crate) fn end_forkers(&mut self) {
        for id in self.generations.ids() {
            self.end_generation(id);
        }
    }

    /// The outcome, if the supervisor can end now.
    pub(crate) fn finished(&mut self) -> Option<Outcome> {
        let end = self.shutdown.end(self.has_processes())?;
        if end.kills {
            self.kill_everything();
        }
        self.stores.end();
        // The last output of processes that have just ended.
        self.pass_on_last_output(&self.generations.ids());
        self.tell_end(&end.outcome);
        Some(end.outcome)
    }

    /// Tells clients that wait for the end of the server how it came, as far as their connections take it at once.
    fn tell_end(&mut self, outcome: &Outcome) {
        let how = match outcome {
            Outcome::CutOff => {
                Err("requests were cut off: the drain took longer than drain_timeout, or a signal ended it")
            }
            _ => Ok("all requests have ended"),
        };
        let clients = std::mem::take(&mut self.await_end);
        self.respond(clients, how);
        self.control_socket.iter_mut().for_each(|socket| socket.flush(Instant::now()));
    }

    /// Ends all children and waits for them, so that no process is left. Prototypes end first: then their templates become children of
    /// this process, and then the templates' workers. Processes that PHP code has started in the background are not waited for.
    fn kill_everything(&mut self) {
        for id in self.generations.ids() {
            let Some(generation) = self.generations.get(id) else { continue };
            let mut workers = Vec::new();
            for (lane, of_lane) in generation.lanes.iter().enumerate() {
                let live = |slot: &Slot| if let Slot::Live(pid) = *slot { Some(pid) } else { None };
                let from = workers.len();
                workers.extend(of_lane.mailbox.iter().flat_map(|mailbox| &mailbox.slots).filter_map(live));
                workers.extend(of_lane.retired.iter().map(|(pid, _)| *pid));
                workers[from..].iter().for_each(|&pid| self.kill_worker(id, lane, pid));
            }
            if let Some(prototype) = &generation.prototype {
                end(prototype.pid, true);
            }
            for lane in 1..generation.lanes.len() {
                self.kill_template(id, lane);
                generation.forker(lane).into_iter().for_each(|template| end(template.pid, false));
            }
            workers.into_iter().for_each(|pid| end(pid, false));
        }
        if let Some(acme) = self.acme.child() {
            end(acme.pid, true);
        }
        self.followers.children().for_each(|follower| end(follower.pid, true));
        if let Some(front) = self.front.child() {
            end(front.pid, true);
        }
    }
}

/// Waits for a child's end, after killing it if the supervisor has started it (`ours`). A worker that its forker had reaped is no
/// child, and is not waited for.
fn end(pid: i32, ours: bool) {
    if ours {
        sys::kill(pid, Signal::SIGKILL);
    }
    if pid > 0 {
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
    }
}
