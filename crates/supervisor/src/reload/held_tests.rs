//! A generation of a release: it waits for a word, is given up, or fails, and the one that serves goes on.

use crate::reload::reload_tests::Server;
use crate::reload::*;

fn order(ticket: u64) -> Order {
    Order { application: "shop".to_owned(), id: "a".repeat(40), ticket }
}

/// A server with two applications, and a release of one of them that boots.
fn booting() -> Server {
    let mut server = Server::of(&["shop", "blog"]);
    server.reload.order(order(1));
    assert_eq!(server.turn(), [Action::Read(Scope::Release(order(1)))]);
    let actions = server.read(Some(Plan::for_test(&["shop", "blog"], "new")));
    assert_eq!(actions, [Action::MakeSlabs(2), Action::SendSettings("new".to_owned(), vec![2, 1])]);
    server
}

#[test]
fn it_waits_for_a_word() {
    let mut server = booting();
    assert!(server.turn().is_empty(), "it boots");
    server.become_ready();
    assert_eq!(server.turn(), [Action::TellFollower(order(1), ToldFollower::Booted)]);
    assert!(server.after(100).turn().is_empty(), "it waits, and nobody is told twice");
    server.reload.serve_ordered("shop", 9);
    server.reload.serve_ordered("blog", 1);
    assert!(server.turn().is_empty(), "that was another");
    server.reload.serve_ordered("shop", 1);
    assert_eq!(server.turn(), [Action::Switch(vec![2, 1], vec![0])]);
    let actions = server.switched();
    assert!(actions.contains(&Action::TellFollower(order(1), ToldFollower::Switched)), "{actions:?}");
}

#[test]
fn one_that_is_given_up_ends_and_the_old_one_serves() {
    let mut server = booting();
    server.become_ready();
    server.turn();
    server.reload.give_up_ordered("shop", Some(7));
    assert!(server.turn().is_empty(), "that was another");
    server.reload.give_up_ordered("shop", None);
    let actions = server.turn();
    assert!(actions.contains(&Action::Kill(2)) && actions.contains(&Action::WithdrawSettings), "{actions:?}");
    assert_eq!(server.reload.current(), [0, 1]);
}

#[test]
fn one_that_does_not_boot_is_told() {
    let mut server = booting();
    server.reload.generation_failed(2, &"a fatal error");
    let failed = Action::TellFollower(order(1), ToldFollower::Failed("a fatal error".to_owned()));
    assert!(server.turn().contains(&failed));
}

#[test]
fn one_that_is_given_up_while_the_configuration_is_read_does_not_boot() {
    let mut server = Server::of(&["shop"]);
    server.reload.order(order(1));
    server.turn();
    server.reload.give_up_ordered("shop", Some(1));
    server.read(Some(Plan::for_test(&["shop"], "new")));
    assert!(server.turn().contains(&Action::Kill(1)));
    server.reload.order(order(2));
    server.reload.give_up_ordered("shop", Some(2));
    assert!(server.after(100).turn().is_empty(), "nor one that nobody has begun with");
}

#[test]
fn a_configuration_that_cannot_be_read_is_told() {
    let mut server = Server::of(&["shop"]);
    server.reload.order(order(1));
    server.turn();
    let actions = server.reload.reading_failed("line 3");
    assert!(actions.contains(&Action::TellFollower(order(1), ToldFollower::Failed("line 3".to_owned()))));
}

#[test]
fn other_reloads_come_first_and_the_release_after_them() {
    let mut server = Server::of(&["shop"]);
    server.reload.order(order(1));
    server.reload.request_all("test", None);
    assert_eq!(server.turn(), [Action::Read(Scope::All)]);
    server.read(Some(Plan::for_test(&["shop"], "new")));
    server.become_ready();
    server.turn();
    server.switched();
    assert_eq!(server.turn(), [Action::Read(Scope::Release(order(1)))]);
}
