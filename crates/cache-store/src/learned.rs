//! What is learned from traffic and has to outlive this process: the supervisor is told it, and keeps it by the names of the applications. The cache
//! learns which pages are shared ([`crate::stored::known`]).

use std::os::fd::AsFd;

use ipc::control::FromFront;

use inbound::control::Link;

/// Tells the supervisor what was learned of the application of a generation.
pub fn tell(link: &dyn Link, generation: u32, learned: &[u8]) {
    // If there is no descriptor left, the supervisor knows what it was told before.
    let file = rustix::fs::memfd_create("reprise-learned", rustix::fs::MemfdFlags::CLOEXEC);
    let file = file.and_then(|file| rustix::io::pwrite(&file, learned, 0).map(|_| file));
    let message = FromFront::Learned { generation };
    file.into_iter().for_each(|file| link.send_with(&message, &[file.as_fd()]));
}
