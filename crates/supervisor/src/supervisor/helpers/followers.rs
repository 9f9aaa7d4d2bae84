//! The processes that follow pools of releases: one for each application that comes from one, with a user of their own. They order
//! generations of releases ([`crate::reload`]) and say when new requests go to them. Without them everything else goes on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use ipc::control::{FromFollower, ToFollower, ToFront};

use crate::logs::output::Output;
use crate::logs::own::{log, log_again};
use crate::os::capabilities;
use crate::os::exited::Ending;
use crate::os::sys;
use crate::os::user::Identity;
use crate::peers::attendant::Attendant;
use crate::peers::boot;
use crate::peers::channel::Channel;
use crate::peers::channel::send;
use crate::peers::child::Child;
use crate::reload::{Order, ToldFollower};
use crate::settings::service::{Plan, ReleaseDraft};
use crate::supervisor::Supervisor;

/// Bytes of a release's id, and of a reason.
const MOST: usize = 4096;

struct Follower {
    settings: String,
    user: Option<Identity>,
    process: Attendant<ToFollower, FromFollower>,
    /// Why the server is not to get requests; empty: it is.
    unfit: String,
}

/// One for each application that comes from a pool, by its name.
#[derive(Default)]
pub(crate) struct Followers(BTreeMap<String, Follower>);

impl Followers {
    /// What the plan in force wants. Returns applications whose orders nobody stands behind any more.
    fn planned<'a>(&mut self, wanted: impl Iterator<Item = (&'a str, &'a ReleaseDraft)>, now: Instant) -> Vec<String> {
        let wanted: BTreeMap<&str, &ReleaseDraft> = wanted.collect();
        let mut left = Vec::new();
        for (name, follower) in &mut self.0 {
            let is_same = |draft: &&ReleaseDraft| draft.settings == follower.settings && draft.user == follower.user;
            if wanted.get(name.as_str()).is_some_and(is_same) {
                continue;
            }
            follower.process.kill();
            left.push(name.clone());
            if let Some(draft) = wanted.get(name.as_str()) {
                (follower.settings, follower.user) = (draft.settings.clone(), draft.user.clone());
            }
        }
        self.0.retain(|name, _| wanted.contains_key(name.as_str()));
        for (name, draft) in wanted {
            if self.0.contains_key(name) {
                continue;
            }
            match Output::of_follower(name) {
                Ok(output) => {
                    let (settings, user) = (draft.settings.clone(), draft.user.clone());
                    let process = Attendant::new(output, now);
                    let new = Follower { settings, user, process, unfit: String::new() };
                    self.0.insert(name.to_owned(), new);
                }
                Err(error) => log("error", format_args!("{name}: its pool cannot be followed: {error}")),
            }
        }
        left
    }

    /// The same, of a plan.
    pub(crate) fn follow(&mut self, plan: &Plan, now: Instant) -> Vec<String> {
        let drafts = plan.applications.iter().filter_map(|one| Some((one.name.as_str(), one.release.as_ref()?)));
        self.planned(drafts, now)
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = &Child<ToFollower, FromFollower>> {
        self.0.values().filter_map(|one| one.process.child.as_ref())
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        self.children().any(|child| child.pid == pid)
    }

    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Output> {
        self.0.values().map(|one| &one.process.output)
    }

    pub(crate) fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.0.values_mut().map(|one| &mut one.process.output)
    }

    /// When one that is missing may be started, if that is not yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.0.values().filter_map(|one| one.process.wakes(now)).min()
    }

    /// Tells a process what has come of its order.
    pub(crate) fn tell(&self, order: &Order, told: &ToldFollower) {
        let Some(child) = self.0.get(&order.application).and_then(|one| one.process.child.as_ref()) else { return };
        let ticket = order.ticket;
        match told {
            ToldFollower::Booted => send(&child.channel, &ToFollower::Booted { ticket }, &[]),
            ToldFollower::Switched => send(&child.channel, &ToFollower::SwitchedTo { ticket }, &[]),
            ToldFollower::Failed(why) => match boot::sealed(why.as_bytes()) {
                Ok(file) => send(&child.channel, &ToFollower::BootFailed { ticket }, &[file.as_fd()]),
                Err(error) => log("error", format_args!("{}: its process is not told: {error}", order.application)),
            },
        }
    }

    /// It was reaped. Returns its application, and whether that was expected.
    fn died(&mut self, pid: i32, now: Instant) -> Option<(String, bool)> {
        self.0.iter_mut().find_map(|(name, one)| {
            let is_expected = one.process.died(pid, now)?;
            one.unfit.clear();
            Some((name.clone(), is_expected))
        })
    }

    /// The server ends.
    pub(crate) fn end(&mut self) {
        self.0.values_mut().for_each(|one| one.process.kill());
    }

    fn reasons(&self) -> String {
        let unfit = self.0.iter().filter(|(_, one)| !one.unfit.is_empty());
        unfit.map(|(name, one)| format!("{name}: {}\n", one.unfit)).collect()
    }
}

impl Supervisor {
    /// A plan has come into force: processes with other settings end, and others follow.
    pub(crate) fn followers_planned(&mut self) {
        for name in self.followers.follow(self.reload.plan(), Instant::now()) {
            self.reload.give_up_ordered(&name, None);
        }
        self.introduce_fitness();
    }

    /// Starts the processes that are missing, when the server has been ready and unless it ends.
    pub(crate) fn start_followers(&mut self) {
        let now = Instant::now();
        if !self.announced || self.shutdown.is_begun() {
            return;
        }
        let (program, lifeline) = (self.service.front.as_fd(), self.lifeline.0.as_fd());
        for (name, one) in &mut self.followers.0 {
            if one.process.is_due(now) {
                let child = spawn(program, lifeline, one);
                one.process.started(child, &named(name), now);
            }
        }
    }

    pub(crate) fn listen_to_followers(&mut self) {
        let mut received = Vec::new();
        for (name, one) in &mut self.followers.0 {
            while let Some((message, attached)) = one.process.receive(&named(name)) {
                received.push((name.clone(), message, attached));
            }
        }
        for (name, message, attached) in received {
            self.follower_said(name, message, &attached);
        }
    }

    fn follower_said(&mut self, application: String, message: FromFollower, attached: &[OwnedFd]) {
        let text = || {
            let bytes = attached.first().and_then(|file| boot::read(file, MOST).ok()).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.chars().filter(|one| !one.is_control()).collect::<String>()
        };
        match message {
            FromFollower::Boot { ticket } => {
                let order = Order { application, id: text(), ticket };
                self.reload(|reload, _| reload.order(order));
            }
            FromFollower::SwitchTo { ticket } => self.reload.serve_ordered(&application, ticket),
            FromFollower::GiveUpBoot { ticket } => self.reload.give_up_ordered(&application, Some(ticket)),
            FromFollower::Unfit => {
                let why = text();
                self.followers.0.get_mut(&application).into_iter().for_each(|one| one.unfit.clone_from(&why));
                self.introduce_fitness();
            }
        }
    }

    /// Tells the front whether this server is to get requests.
    pub(crate) fn introduce_fitness(&self) {
        if self.followers.0.is_empty() {
            return;
        }
        match boot::sealed(self.followers.reasons().as_bytes()) {
            Ok(file) => self.front.send(&ToFront::Unfit, &[file.as_fd()]),
            Err(error) => log("error", format_args!("the front is not told whether it is ready: {error}")),
        }
    }

    pub(crate) fn follower_died(&mut self, pid: i32, ending: Ending) {
        let Some((name, is_expected)) = self.followers.died(pid, Instant::now()) else { return };
        // Nobody can say any more that it is to be served.
        self.reload.give_up_ordered(&name, None);
        self.introduce_fitness();
        if !is_expected && !self.shutdown.is_begun() {
            let what = named(&name);
            log_again("error", &what, format_args!("{what} {ending}"), format_args!("; another one follows"));
        }
    }

    /// Kills those that read no messages.
    pub(crate) fn end_unresponsive_followers(&mut self) {
        for (name, one) in &mut self.followers.0 {
            one.process.end_unresponsive(&named(name));
        }
    }
}

fn named(application: &str) -> String {
    format!("{application}: the process that follows its pool")
}

fn spawn(
    program: BorrowedFd<'_>,
    lifeline: BorrowedFd<'_>,
    one: &Follower,
) -> io::Result<Child<ToFollower, FromFollower>> {
    let (ours, theirs) = Channel::pair()?;
    let settings = boot::sealed(one.settings.as_bytes())?;
    let pid = sys::start(&sys::Program {
        executable: program,
        arguments: ["reprise-release", "release-follow"].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        descriptors: vec![theirs.as_fd(), lifeline, settings.as_fd()],
        messages: Some(one.process.output.writer()),
        output: None,
        user: one.user.as_ref(),
        limits: sys::ProcessLimits { no_capabilities: capabilities::may_limit(), ..sys::ProcessLimits::default() },
    })?;
    Ok(Child::new(pid, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(settings: &str) -> ReleaseDraft {
        ReleaseDraft { settings: settings.to_owned(), user: None, id: None }
    }

    #[test]
    fn one_process_for_each_application_with_the_settings_of_the_plan() {
        let (mut followers, now) = (Followers::default(), Instant::now());
        let (one, two) = (draft("one"), draft("two"));
        assert!(followers.planned([("shop", &one), ("blog", &two)].into_iter(), now).is_empty());
        assert_eq!(followers.0.keys().collect::<Vec<_>>(), ["blog", "shop"]);
        assert!(followers.planned([("shop", &one), ("blog", &two)].into_iter(), now).is_empty(), "as before");
        let served = ReleaseDraft { id: Some("a".to_owned()), ..draft("one") };
        assert!(followers.planned([("shop", &served), ("blog", &two)].into_iter(), now).is_empty(), "another release");
        assert_eq!(followers.planned([("shop", &two)].into_iter(), now), ["blog", "shop"]);
        assert_eq!(followers.0["shop"].settings, "two");
        assert!(!followers.0.contains_key("blog"));
    }
}
