//! The course of reloads, without processes: what is decided after what has happened.

use ipc::layout::RENEW_FULL;

use crate::reload::*;

/// A generation of the tests.
struct Fake {
    application: Rc<Application>,
    ordinal: u32,
    stage: Stage,
    is_ready: bool,
}

impl Facts for BTreeMap<GenerationId, Fake> {
    fn application(&self, id: GenerationId) -> Option<&Application> {
        self.get(&id).map(|one| &*one.application)
    }

    fn ordinal(&self, id: GenerationId) -> Option<u32> {
        self.get(&id).map(|one| one.ordinal)
    }

    fn stage(&self, id: GenerationId) -> Option<Stage> {
        self.get(&id).map(|one| one.stage)
    }

    fn is_ready(&self, id: GenerationId) -> bool {
        self.get(&id).is_some_and(|one| one.is_ready)
    }

    fn drains(&self, application: &str) -> bool {
        self.values().any(|one| matches!(one.stage, Stage::Draining(_)) && one.application.name == application)
    }
}

/// A server that serves some applications by generation 1 of each, with ids from 0.
pub(crate) struct Server {
    pub(crate) reload: Reload,
    generations: BTreeMap<GenerationId, Fake>,
    now: Instant,
}

impl Server {
    pub(crate) fn of(names: &[&str]) -> Server {
        let (plan, now) = (Plan::for_test(names, "old"), Instant::now());
        let fake = |application: &Rc<Application>| Fake {
            application: application.clone(),
            ordinal: 1,
            stage: Stage::Serving,
            is_ready: true,
        };
        let generations: BTreeMap<GenerationId, Fake> = (0..).zip(plan.applications.iter().map(fake)).collect();
        let current = generations.keys().copied().collect();
        Server { reload: Reload::new(plan, current, now), generations, now }
    }

    /// All but the last of those that come without a pause have come already, each within so many seconds.
    fn were_made_in_a_row(&mut self, seconds: u64) {
        (1..crate::reload::pace::IN_A_ROW)
            .for_each(|_| self.reload.pace.made("a", Duration::from_secs(seconds), self.now));
    }

    pub(crate) fn after(&mut self, seconds: u64) -> &mut Server {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn turn_with(&mut self, is_front_open: bool) -> Vec<Action> {
        let around = Surroundings { is_announced: true, is_front_open, looks_at_roots: true };
        let actions = self.reload.turn(&around, &self.generations, self.now);
        for action in &actions {
            let (serving, draining) = match action {
                Action::Switch(serving, draining) => (serving.as_slice(), draining.as_slice()),
                _ => continue,
            };
            serving.iter().for_each(|id| self.set(*id, Stage::Serving));
            draining.iter().for_each(|id| self.set(*id, Stage::Draining(self.now)));
        }
        actions
    }

    pub(crate) fn turn(&mut self) -> Vec<Action> {
        self.turn_with(true)
    }

    fn set(&mut self, id: GenerationId, stage: Stage) {
        self.generations.get_mut(&id).unwrap().stage = stage;
    }

    pub(crate) fn become_ready(&mut self) {
        self.generations.values_mut().for_each(|one| one.is_ready = true);
    }

    fn renew(&mut self, id: GenerationId) -> Vec<Action> {
        self.reload.renew(id, "why", &self.generations)
    }

    fn files_changed(&mut self, id: GenerationId) -> Vec<Action> {
        self.reload.files_changed(id, &self.generations)
    }

    /// The configuration was read: new generations are made as the reload says, and begin to boot.
    pub(crate) fn read(&mut self, read: Option<Plan>) -> Vec<Action> {
        let (plan, successors) = self.reload.next_plan(read, &self.generations).unwrap();
        let mut ids = Vec::new();
        for successor in successors {
            ids.push(match successor {
                Successor::Same(id) => id,
                Successor::New { application, ordinal, .. } => {
                    let id = self.generations.last_key_value().map_or(0, |(last, _)| last + 1);
                    let fake = Fake { application, ordinal, stage: Stage::Booting, is_ready: false };
                    self.generations.insert(id, fake);
                    id
                }
            });
        }
        self.reload.begin(plan, ids, &self.generations, self.now)
    }

    pub(crate) fn switched(&mut self) -> Vec<Action> {
        self.reload.switched(&self.generations, self.now)
    }

    /// A reload of everything, up to the generations that boot.
    fn begin_all(&mut self, client: Option<Client>) {
        self.reload.request_all("test", client);
        assert_eq!(self.turn(), [Action::Read(Scope::All)]);
        let names: Vec<String> = self.generations.values().map(|one| one.application.name.clone()).collect();
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.read(Some(Plan::for_test(&names.into_iter().collect::<Vec<_>>(), "new")));
    }

    fn settings(&self) -> &str {
        &self.reload.plan().settings
    }
}

fn respond(clients: &[Client], result: Result<&str, &str>) -> Action {
    Action::Respond(clients.to_vec(), result.map(str::to_owned).map_err(str::to_owned))
}

/// What a refusal consists of, without the generations that it kills.
fn refusal(clients: &[Client], why: &str) -> [Action; 3] {
    let line = format!("reload refused, the server goes on as before: {why}");
    [Action::Log("error", line), respond(clients, Err(why)), Action::NotifyReady(Some(why.to_owned()))]
}

#[test]
fn requests_that_come_before_a_reload_begins_are_one_reload() {
    let mut server = Server::of(&["a", "b"]);
    assert_eq!(server.renew(0), [Action::Log("notice", "reload requested: application 'a': why".to_owned())]);
    for client in [7, 8] {
        let log = Action::Log("notice", "reload requested: reprise reload".to_owned());
        assert_eq!(server.reload.request_all("reprise reload", Some(client)), [log]);
    }
    // A reload of everything covers it.
    assert_eq!(server.renew(1), []);
    assert_eq!(server.turn(), [Action::Read(Scope::All)]);
    assert_eq!(server.turn(), []);
    let begun = server.read(Some(Plan::for_test(&["a", "b"], "new")));
    let settings = Action::SendSettings("new".to_owned(), vec![2, 3]);
    assert_eq!(begun, [Action::MakeSlabs(2), Action::MakeSlabs(3), settings]);
    assert_eq!(server.after(1).turn(), []);
    server.become_ready();
    assert_eq!(server.after(1).turn(), [Action::Switch(vec![2, 3], vec![0, 1])]);
    let text = "a generation 2, b generation 2 after 2000 ms";
    let done =
        [Action::Log("notice", format!("reloaded: {text}")), respond(&[7, 8], Ok(text)), Action::NotifyReady(None)];
    assert_eq!(server.switched(), done);
    assert_eq!((server.turn(), server.settings(), server.reload.current()), (vec![], "new", &[2, 3][..]));
}

#[test]
fn a_request_that_comes_during_a_reload_is_the_next_one() {
    let mut server = Server::of(&["a"]);
    server.begin_all(Some(1));
    server.reload.request_all("test", Some(2));
    assert_eq!(server.turn(), []);
    server.become_ready();
    assert_eq!(server.turn(), [Action::Switch(vec![1], vec![0])]);
    assert!(server.switched().contains(&respond(&[1], Ok("a generation 2 after 0 ms"))));
    assert_eq!(server.turn(), [Action::Read(Scope::All)]);
}

#[test]
fn a_refused_change_leaves_the_old_plan_and_its_generations() {
    let mut server = Server::of(&["a", "b"]);
    server.begin_all(Some(3));
    server.reload.generation_failed(0, &"not one that is being made");
    assert_eq!(server.turn(), []);
    server.reload.generation_failed(3, &"it did not boot");
    server.reload.generation_failed(2, &"nor did this; the first reason counts");
    server.become_ready();
    let expected: Vec<Action> = [Action::Kill(2), Action::Kill(3), Action::WithdrawSettings].into();
    let expected: Vec<Action> = expected.into_iter().chain(refusal(&[3], "it did not boot")).collect();
    assert_eq!(server.turn(), expected);
    assert_eq!((server.settings(), server.reload.current(), server.reload.is_changing()), ("old", &[0, 1][..], false));
    assert_eq!(server.turn(), []);
}

#[test]
fn a_configuration_that_cannot_be_read_is_refused() {
    let mut server = Server::of(&["a"]);
    server.reload.request_all("test", Some(1));
    server.turn();
    assert_eq!(server.reload.reading_failed("line 3"), refusal(&[1], "line 3"));
    assert!(server.reload.next_plan(None, &server.generations).is_none());
    assert_eq!((server.turn(), server.settings()), (vec![], "old"));
}

/// Each renewal waits for a multiple of the time that the last one took; a request of somebody does not.
#[test]
fn a_renewal_waits_for_its_pause() {
    for (is_by_files, pause) in [(false, 30), (true, 3)] {
        let mut server = Server::of(&["a"]);
        server.begin_all(None);
        server.become_ready();
        server.after(3).turn();
        server.were_made_in_a_row(3);
        server.switched();
        server.set(0, Stage::Killed(server.now));
        let asked = if is_by_files { server.files_changed(1) } else { server.renew(1) };
        assert_eq!(asked.len(), 1);
        assert_eq!(server.after(pause - 1).turn(), [], "{is_by_files}");
        assert_eq!(server.after(1).turn(), [Action::Read(Scope::Application("a".to_owned()))], "{is_by_files}");
    }
}

/// A refusal counts like a success: a script must not have the machine boot generations all the time that never serve.
#[test]
fn a_renewal_waits_after_a_refusal_too() {
    let mut server = Server::of(&["a"]);
    server.begin_all(None);
    server.reload.generation_failed(1, &"it did not boot");
    server.after(3).turn();
    assert_eq!(server.renew(0).len(), 1);
    assert_eq!(server.after(29).turn(), []);
    assert_eq!(server.after(1).turn(), [Action::Read(Scope::Application("a".to_owned()))]);
}

#[test]
fn a_shorter_pause_replaces_a_longer_one_and_a_request_for_all_waits_for_none() {
    let mut server = Server::of(&["a"]);
    server.begin_all(None);
    server.become_ready();
    server.after(5).turn();
    server.were_made_in_a_row(5);
    server.switched();
    assert_eq!(server.renew(1).len(), 1);
    assert_eq!(server.renew(1), [], "known already");
    assert_eq!(server.files_changed(1).len(), 1);
    assert_eq!(server.after(4).turn(), []);
    server.reload.request_all("signal SIGHUP", None);
    assert_eq!(server.turn(), [Action::Read(Scope::All)]);
}

#[test]
fn a_renewal_keeps_the_generations_of_other_applications() {
    let mut server = Server::of(&["a", "b"]);
    server.renew(1);
    assert_eq!(server.turn(), [Action::Read(Scope::Application("b".to_owned()))]);
    assert_eq!(server.read(None), [Action::MakeSlabs(2), Action::SendSettings("old".to_owned(), vec![0, 2])]);
    // The other application is in trouble; the renewal does not wait for it.
    server.become_ready();
    server.generations.get_mut(&0).unwrap().is_ready = false;
    assert_eq!(server.turn(), [Action::Switch(vec![0, 2], vec![1])]);
}

#[test]
fn a_change_that_is_not_ready_in_time_is_refused() {
    let mut server = Server::of(&["a"]);
    server.begin_all(Some(1));
    // Twice the boot timeout of 30 s, and what else a start takes.
    assert_eq!(server.after(180).turn(), []);
    let expected: Vec<Action> = [Action::Kill(1), Action::WithdrawSettings].into();
    let expected: Vec<Action> = expected.into_iter().chain(refusal(&[1], "it was not ready after 181s")).collect();
    assert_eq!(server.after(1).turn(), expected);
    assert_eq!((server.settings(), server.reload.current()), ("old", &[0][..]));
}

#[test]
fn a_switch_waits_for_the_front_and_for_an_earlier_drain() {
    let mut server = Server::of(&["a"]);
    server.begin_all(None);
    server.become_ready();
    assert_eq!(server.turn_with(false), []);
    assert_eq!(server.turn(), [Action::Switch(vec![1], vec![0])]);
    assert_eq!(server.turn(), [], "the front has not gone over yet");
    server.switched();
    server.begin_all(None);
    server.become_ready();
    assert_eq!(server.turn(), [], "generation 0 drains");
    server.set(0, Stage::Ending(server.now));
    assert_eq!(server.turn(), [Action::Switch(vec![2], vec![1])]);
}

#[test]
fn a_stop_refuses_a_change_and_what_waits() {
    let stopping = "the server is stopping";
    let mut server = Server::of(&["a"]);
    server.begin_all(Some(1));
    server.reload.request_all("test", Some(2));
    server.become_ready();
    server.reload.stop();
    assert_eq!(server.renew(0), []);
    let expected: Vec<Action> = [Action::Kill(1), Action::WithdrawSettings].into();
    let mut expected: Vec<Action> = expected.into_iter().chain(refusal(&[1], stopping)).collect();
    expected.push(respond(&[2], Err(stopping)));
    assert_eq!(server.turn(), expected);
    assert_eq!((server.turn(), server.settings()), (vec![], "old"));
}

#[test]
fn a_stop_refuses_a_reload_that_is_read_and_lets_a_switch_be_completed() {
    let stopping = "the server is stopping";
    let mut server = Server::of(&["a"]);
    server.reload.request_all("test", Some(1));
    server.turn();
    server.reload.stop();
    assert_eq!(server.turn(), [respond(&[1], Err(stopping))]);
    assert_eq!(server.renew(0), [], "no new request while the server stops");
    let mut server = Server::of(&["a"]);
    server.begin_all(Some(1));
    server.become_ready();
    server.turn();
    server.reload.stop();
    assert_eq!(server.turn(), []);
    assert!(server.switched().contains(&respond(&[1], Ok("a generation 2 after 0 ms"))));
}

#[test]
fn a_generation_on_its_way_out_is_not_renewed_but_its_successor_may_be() {
    let mut server = Server::of(&["a"]);
    server.begin_all(None);
    assert_eq!(server.reload.opcache_failed(0, RENEW_FULL, &server.generations), [], "another is on its way");
    assert_eq!(server.reload.opcache_failed(1, RENEW_FULL, &server.generations).len(), 1);
    server.become_ready();
    server.turn();
    server.switched();
    let mut server = Server { reload: server.reload, ..server };
    server.reload.request = None;
    assert_eq!(server.renew(0), []);
    assert_eq!(server.reload.opcache_reset(0, &server.generations).len(), 1);
    assert!(server.reload.request.as_ref().is_some_and(|request| request.renewals.contains_key("a")));
    let unknown = server.reload.opcache_failed(1, 99, &server.generations);
    assert!(matches!(&unknown[..], [Action::Log("error", _)]), "{unknown:?}");
}

#[test]
fn a_root_that_leads_elsewhere_asks_for_a_reload_once() {
    let mut server = Server::of(&["a"]);
    let roots = |to: &str| BTreeMap::from([("a".to_owned(), PathBuf::from(to))]);
    assert_eq!(server.reload.roots_lead(&roots("/srv/a"), &server.generations), []);
    assert_eq!(server.reload.roots_lead(&roots("/srv/b"), &server.generations).len(), 1);
    server.turn();
    server.reload.reading_failed("refused");
    assert_eq!(server.reload.roots_lead(&roots("/srv/b"), &server.generations), []);
    assert_eq!(server.reload.roots_lead(&roots("/srv/c"), &server.generations).len(), 1);
    // A reload that succeeds forgets which were refused.
    server.turn();
    server.read(None);
    server.become_ready();
    server.turn();
    server.switched();
    assert_eq!(server.reload.roots_lead(&roots("/srv/b"), &server.generations).len(), 1);
}

#[test]
fn roots_are_looked_at_each_second_unless_something_is_under_way() {
    let mut server = Server::of(&["a"]);
    let around = |is_announced, looks_at_roots| Surroundings { is_announced, is_front_open: true, looks_at_roots };
    let mut look = |around: Surroundings, seconds| {
        let now = server.now + Duration::from_secs(seconds);
        server.reload.turn(&around, &server.generations, now) == [Action::LookAtRoots]
    };
    let rows = [(0, false, false, false), (0, true, true, false), (0, true, false, true), (1, true, false, true)];
    for (seconds, is_announced, looks_at_roots, is_due) in rows {
        assert_eq!(look(around(is_announced, looks_at_roots), seconds), is_due, "{seconds} {is_announced}");
    }
    assert!(!look(around(true, false), 1));
}
