//! Between the supervisor and the process that orders certificates.

use super::codec::messages;

/// Supervisor → process that orders certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToAcme {
    /// The front gives these responses to authorities from now on.
    AnswersTaken {
        /// Which of those that were sent.
        number: u64,
    },
}

messages!(ToAcme {
    0x601 => AnswersTaken { number }
});

/// Process that orders certificates → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromAcme {
    /// What the front is to respond to authorities that check names (attached: a sealed file with it). It replaces what was sent before.
    Answers {
        /// Counts what this process has sent.
        number: u64,
    },
    /// There is a new certificate.
    Issued,
}

messages!(FromAcme {
    0x701 => Answers { number }
    0x702 => Issued {}
});
