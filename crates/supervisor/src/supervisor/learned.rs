//! What the front has learned of the pages of applications, as it has told last: those whose responses are shared. It lasts as long as this server; the
//! next front gets it back, without a look at it here.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use ipc::control::ToFront;

use crate::lanes::generation::GenerationId;
use crate::peers::boot;
use crate::supervisor::Supervisor;

/// Bytes that the front tells of an application, at most.
const SIZE: usize = 1 << 16;

/// As the front writes it, by the names of the applications.
pub(crate) type Learned = BTreeMap<String, Vec<u8>>;

impl Supervisor {
    /// The front has learned something else.
    pub(crate) fn front_learned(&mut self, id: GenerationId, attached: &[OwnedFd]) {
        let Some(name) = self.generations.get(id).map(|one| one.application.name.clone()) else { return };
        let Some(Ok(bytes)) = attached.first().map(|file| boot::read(file, SIZE)) else { return };
        self.learned.insert(name, bytes);
    }

    /// A new front gets what those before it have learned for it. Without a descriptor left it learns anew.
    pub(crate) fn introduce_learned(&self) {
        for id in self.reload.current() {
            let name = self.generations.get(*id).map(|one| &one.application.name);
            let learned = name.and_then(|name| self.learned.get(name));
            if let Some(Ok(file)) = learned.map(|bytes| boot::sealed(bytes)) {
                self.front.send(&ToFront::Learned { generation: *id }, &[file.as_fd()]);
            }
        }
    }
}
