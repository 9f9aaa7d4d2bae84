//! What clients of the control socket ask of an application's data cache. This process maps no application's memory: it passes the question
//! to the application's prototype, a child of which answers into a pipe ([`ToForker::DataQuestion`]). What comes from there is as the
//! application's code wants it to be, and may never end: it is text of a bounded size, or nothing.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ipc::control::{DataCounts, ToForker, ToFront};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::lanes::generation::{Generation, GenerationId, Stage};
use crate::lanes::lane::CLASSIC;
use crate::peers::boot;
use crate::peers::channel::send;
use crate::peers::control_socket::Client;
use crate::supervisor::Supervisor;

/// How long an answer may take, from when the question came.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer. A child writes less.
const MAX_ANSWER: usize = 2 << 20;
/// Questions that children of one prototype answer at a time; others wait.
const AT_ONCE: usize = 4;
/// Questions that wait or are being answered. Clients that are gone may have asked, too.
const MOST: usize = 256;
/// Bytes that are read at once.
const PART: usize = 64 * 1024;

/// A question that is not answered yet.
struct Question {
    client: Client,
    application: String,
    text: String,
    since: Instant,
    /// The pipe, if it is being answered, and what has come.
    answer: Option<(std::fs::File, Vec<u8>)>,
}

/// The questions that are under way, those that came first before the others.
#[derive(Default)]
pub(crate) struct DataQuestions(Vec<Question>);

impl DataQuestions {
    /// Pipes to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = &std::fs::File> {
        self.0.iter().filter_map(|one| Some(&one.answer.as_ref()?.0))
    }

    /// The next one that may be answered now.
    fn next(&self) -> Option<usize> {
        let under_way =
            |name: &str| self.0.iter().filter(|one| one.answer.is_some() && one.application == name).count();
        self.0.iter().position(|one| one.answer.is_none() && under_way(&one.application) < AT_ONCE)
    }

    /// Takes what has come. Returns who has an answer, and those for whom there will be none.
    fn take(&mut self, now: Instant) -> Vec<(Client, Result<String, String>)> {
        let mut ended = Vec::new();
        self.0.retain_mut(|one| {
            let result = match read(one) {
                None if now.saturating_duration_since(one.since) > PATIENCE => Err(format!(
                    "the process of application '{}' that reads its data cache has not answered in {PATIENCE:?}; is it stopped?",
                    one.application
                )),
                None => return true,
                Some(result) => result,
            };
            ended.push((one.client, result));
            false
        });
        ended
    }
}

/// Reads what is there. `None`: more may come.
fn read(one: &mut Question) -> Option<Result<String, String>> {
    let (pipe, bytes) = one.answer.as_mut()?;
    let mut part = [0; PART];
    // At most what one pipe holds in one turn: others wait, too.
    match pipe.read(&mut part) {
        Ok(0) => Some(understand(bytes)),
        Ok(count) => {
            bytes.extend_from_slice(&part[..count]);
            (bytes.len() > MAX_ANSWER).then(|| Err("the answer of the application's process is too long".to_owned()))
        }
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

/// `ok` or `failed`, a text, and `end`, each in lines of their own.
fn understand(bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes).replace(|one: char| one.is_control() && one != '\n', "?");
    match text.strip_suffix("\nend\n").and_then(|text| text.split_once('\n')) {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("failed", text)) => Err(text.to_owned()),
        _ => Err("the application's process has ended before it had answered".to_owned()),
    }
}

impl Supervisor {
    /// A client asks the data cache of an application something; without a name, of the only application that has one.
    pub(crate) fn data_asked(&mut self, application: &str, question: &str, client: Client) {
        let found = self.with_data_cache(application).map(|one| one.application.name.clone());
        match found {
            Ok(_) if self.data_questions.0.len() >= MOST => {
                self.respond(vec![client], Err("too many questions wait for an answer"));
            }
            Ok(application) => {
                let (text, since) = (question.to_owned(), Instant::now());
                self.data_questions.0.push(Question { client, application, text, since, answer: None });
                self.ask_prototypes();
            }
            Err(why) => self.respond(vec![client], Err(&why)),
        }
    }

    /// The generation to ask: the one that new requests go to.
    fn with_data_cache(&self, name: &str) -> Result<&Generation, String> {
        let all = || self.generations.all().filter(|one| one.stage == Stage::Serving);
        let has_one = |one: &&Generation| one.application.data_cache > 0;
        if name.is_empty() {
            let with: Vec<&Generation> = all().filter(has_one).collect();
            return match with.as_slice() {
                [one] => Ok(one),
                [] => Err("no application has a data cache: data_cache_memory is 0".to_owned()),
                several => {
                    let names: Vec<&str> = several.iter().map(|one| one.application.name.as_str()).collect();
                    Err(format!(
                        "several applications have a data cache: {}; name one: --application NAME",
                        names.join(", ")
                    ))
                }
            };
        }
        let of_name = all().find(|one| one.application.name == name);
        let of_name = of_name.ok_or_else(|| format!("there is no application {name:?}"))?;
        let without = || format!("application '{name}' has no data cache: its data_cache_memory is 0");
        Some(of_name).filter(has_one).ok_or_else(without)
    }

    /// Passes on those questions whose turn it is.
    fn ask_prototypes(&mut self) {
        while let Some(number) = self.data_questions.next() {
            let question = &self.data_questions.0[number];
            let asked = self.ask_prototype(&question.application, &question.text);
            match asked {
                Ok(pipe) => self.data_questions.0[number].answer = Some((pipe.into(), Vec::new())),
                Err(why) => {
                    let client = self.data_questions.0.remove(number).client;
                    self.respond(vec![client], Err(&why));
                }
            }
        }
    }

    /// Where the answer comes from.
    fn ask_prototype(&self, application: &str, question: &str) -> Result<OwnedFd, String> {
        let generation = self.with_data_cache(application)?;
        let forker = generation.working_forker(CLASSIC);
        let forker = forker.ok_or_else(|| format!("application '{application}' has no prototype at the moment"))?;
        let failed = |error: std::io::Error| format!("the question cannot be passed on: {error}");
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        // The answerer waits until there is room.
        rustix::fs::fcntl_setfl(&to, rustix::fs::OFlags::empty()).map_err(|error| failed(error.into()))?;
        let file = boot::sealed(question.as_bytes()).map_err(failed)?;
        send(&forker.channel, &ToForker::DataQuestion, &[file.as_fd(), to.as_fd()]);
        Ok(from)
    }

    /// Answers that have come, or never will.
    pub(crate) fn take_data_answers(&mut self) {
        for (client, result) in self.data_questions.take(Instant::now()) {
            self.respond(vec![client], result.as_ref().map(String::as_str).map_err(String::as_str));
        }
        self.ask_prototypes();
    }

    /// A prototype says what its application's data cache has done: for the metrics.
    pub(crate) fn data_counted(&mut self, id: GenerationId, counts: DataCounts) {
        let is_serving = self.generations.get(id).is_some_and(|one| one.stage == Stage::Serving);
        if is_serving {
            self.front.send(&ToFront::DataCounts { generation: id, counts }, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn question(client: Client, application: &str, since: Instant) -> Question {
        Question { client, application: application.to_owned(), text: String::new(), since, answer: None }
    }

    fn begin(questions: &mut DataQuestions) -> std::fs::File {
        let number = questions.next().expect("a question");
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        questions.0[number].answer = Some((from.into(), Vec::new()));
        to.into()
    }

    #[test]
    fn an_answer_is_whole_or_none() {
        for (text, result) in [
            (&b"ok\na 1\nb 2\nend\n"[..], Ok("a 1\nb 2")),
            (b"ok\n\x1b[2Ja\xffb\x07\nend\n", Ok("?[2Ja\u{fffd}b?")),
            (b"failed\nno\nend\n", Err("no")),
            (b"ok\na 1\nb", Err("the application's process has ended before it had answered")),
            (b"", Err("the application's process has ended before it had answered")),
            (b"yes\nno\nend\n", Err("the application's process has ended before it had answered")),
        ] {
            assert_eq!(understand(text), result.map(str::to_owned).map_err(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn few_are_asked_at_once_and_all_get_an_answer() {
        let (mut questions, now) = (DataQuestions::default(), Instant::now());
        for client in 0..6 {
            questions.0.push(question(client, "a", now));
        }
        questions.0.push(question(6, "b", now));
        let mut pipes: Vec<_> = (0..5).map(|_| begin(&mut questions)).collect();
        assert!(
            questions.next().is_none() && questions.0[6].answer.is_some(),
            "the other application is not kept waiting"
        );
        pipes[0].write_all(b"ok\nx\n").expect("room");
        assert!(questions.take(now).is_empty());
        pipes[0].write_all(b"end\n").expect("room");
        drop(pipes.remove(0));
        assert!(questions.take(now).is_empty(), "the text was read, not its end");
        assert_eq!(questions.take(now), [(0, Ok("x".to_owned()))]);
        assert_eq!(questions.next(), Some(3));
        drop(pipes.remove(0));
        assert!(matches!(questions.take(now).as_slice(), [(1, Err(why))] if why.contains("has ended")));
        let late = questions.take(now + PATIENCE + Duration::from_millis(1));
        assert_eq!(late.len(), 5);
        assert!(late.iter().all(|(_, result)| result.as_ref().is_err_and(|why| why.contains("is it stopped?"))));
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let (mut questions, now) = (DataQuestions::default(), Instant::now());
        questions.0.push(question(1, "a", now));
        let mut pipe = begin(&mut questions);
        let ended = (0..100).find_map(|_| {
            pipe.write_all(&[b'x'; PART]).expect("room");
            questions.take(now).pop()
        });
        assert!(matches!(ended, Some((1, Err(why))) if why.contains("too long")));
    }
}
