//! The commands: check, dev, doctor, verify, bench, profile; and what the documentation says of them.

mod config;
mod dev;
mod dev_pages;
mod dev_terminal;
mod doctor;
mod documents;
mod guestbook;
mod measuring;
mod profile;
mod survey;
mod verify;
mod verify_on_reload;
mod verify_varying;
