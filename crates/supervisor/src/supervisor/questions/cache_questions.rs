//! What clients of the control socket ask of the front's cache of responses. The supervisor passes questions and answers on, and reads neither.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::ToFront;

use crate::peers::boot;
use crate::peers::control_socket::Client;
use crate::supervisor::Supervisor;

/// How long the front may take: it answers at once, unless it stands still.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const MAX_ANSWER: usize = 256 * 1024;

/// Questions that the front has not answered yet.
#[derive(Default)]
pub(crate) struct CacheQuestions {
    last: u64,
    waiting: Vec<(u64, Client, Instant)>,
}

impl CacheQuestions {
    /// A client asks. Returns the ticket by which the front answers.
    fn asked(&mut self, client: Client, now: Instant) -> u64 {
        self.last += 1;
        self.waiting.push((self.last, client, now));
        self.last
    }

    /// The front has answered. Returns who had asked, unless that is overdue.
    fn came(&mut self, ticket: u64) -> Option<Client> {
        let at = self.waiting.iter().position(|(one, ..)| *one == ticket)?;
        Some(self.waiting.remove(at).1)
    }

    /// Whom no answer is going to reach.
    fn overdue(&mut self, now: Instant) -> Vec<Client> {
        let is_overdue = |since: &Instant| now.saturating_duration_since(*since) > PATIENCE;
        let gone = self.waiting.iter().filter(|(.., since)| is_overdue(since)).map(|(_, client, _)| *client).collect();
        self.waiting.retain(|(.., since)| !is_overdue(since));
        gone
    }
}

impl Supervisor {
    /// A client asks the cache something.
    pub(crate) fn cache_asked(&mut self, question: &str, client: Client) {
        if !self.front.is_ready() {
            return self.respond(vec![client], Err("there is no front at the moment"));
        }
        match boot::sealed(question.as_bytes()) {
            Ok(file) => {
                let ticket = self.cache_questions.asked(client, Instant::now());
                self.front.send(&ToFront::Cache { ticket }, &[file.as_fd()]);
            }
            Err(error) => self.respond(vec![client], Err(&format!("the question cannot be passed on: {error}"))),
        }
    }

    /// The front has answered: `ok` or `failed`, a line feed, and a text.
    pub(crate) fn cache_answered(&mut self, ticket: u64, attached: &[OwnedFd]) {
        let Some(client) = self.cache_questions.came(ticket) else { return };
        let answer = attached.first().and_then(|file| boot::read(file, MAX_ANSWER).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&answer);
        match text.split_once('\n') {
            Some(("ok", text)) => self.respond(vec![client], Ok(text)),
            Some((_, text)) => self.respond(vec![client], Err(text)),
            None => self.respond(vec![client], Err("the front's answer cannot be read")),
        }
    }

    pub(crate) fn end_overdue_questions(&mut self) {
        let overdue = self.cache_questions.overdue(Instant::now());
        if !overdue.is_empty() {
            self.respond(overdue, Err("the front does not answer"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_its_own_answer_or_none() {
        let (mut questions, now) = (CacheQuestions::default(), Instant::now());
        let (first, second) = (questions.asked(7, now), questions.asked(8, now + PATIENCE));
        assert_eq!((questions.came(second + 1), questions.overdue(now + PATIENCE)), (None, vec![]));
        assert_eq!(questions.overdue(now + PATIENCE + Duration::from_millis(1)), [7]);
        assert_eq!((questions.came(first), questions.came(second), questions.came(second)), (None, Some(8), None));
    }
}
