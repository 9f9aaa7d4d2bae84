//! Whether a forker still answers: counted in turns of the supervisor, not in time alone (see [`crate::supervisor::workers::unresponsive`]).

/// Turns between an answer and the next question.
const PAUSE: u32 = 5;
/// Turns that an answer may take.
pub(crate) const PATIENCE: u32 = 10;

/// What is known of whether a child answers.
#[derive(Default)]
pub(crate) struct Liveness {
    is_asked: bool,
    /// Since it was asked, or has answered.
    turns: u32,
    /// It was sent SIGKILL for that.
    pub(crate) is_killed: bool,
}

impl Liveness {
    /// Another turn has passed. True: it is to be asked now.
    pub(crate) fn turn(&mut self) -> bool {
        self.turns += 1;
        let is_due = !self.is_asked && self.turns >= PAUSE;
        if is_due {
            (self.is_asked, self.turns) = (true, 0);
        }
        is_due
    }

    /// It has answered.
    pub(crate) fn answered(&mut self) {
        (self.is_asked, self.turns) = (false, 0);
    }

    pub(crate) fn is_unresponsive(&self) -> bool {
        self.is_asked && self.turns >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_answers_is_never_unresponsive_and_one_that_does_not_is() {
        let mut liveness = Liveness::default();
        for _ in 0..1000 {
            if liveness.turn() {
                liveness = Liveness::default();
            }
            assert!(!liveness.is_unresponsive());
        }
        let turns = (1..).find(|_| {
            liveness.turn();
            liveness.is_unresponsive()
        });
        assert!(turns.is_some_and(|turns| turns <= PAUSE + PATIENCE), "{turns:?}");
    }
}
