//! What is done for a generation before it gets a client's request, as the supervisor asks for it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::shared::Shared;
use crate::verifying;
use crate::warm::warm_up;
use inbound::control::Link;

/// What the supervisor asks for.
pub enum Wanted {
    /// The requests of a generation's warm-up.
    WarmUp(u32),
    /// To serve what comes by a socket by a generation, so that its pages can be compared.
    Verify(u32, OwnedFd),
}

/// Does what the supervisor asks for: warm-ups one after the other, comparisons beside them.
pub async fn run(shared: Arc<Shared>, link: Arc<dyn Link>, mut wanted: UnboundedReceiver<Wanted>) {
    while let Some(wanted) = wanted.recv().await {
        match wanted {
            Wanted::WarmUp(generation) => warm_up(&shared, &link, generation).await,
            // If the connection fails, the supervisor's process at its other end says so.
            Wanted::Verify(generation, socket) => {
                drop(tokio::spawn(verifying::serve(shared.clone(), generation, socket)));
            }
        }
    }
}
