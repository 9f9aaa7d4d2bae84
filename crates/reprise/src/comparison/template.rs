//! What several bodies of different lengths have in common: runs of parts, with anything between them.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::parts::{is_now, is_of_word};

/// Characters that a run between two gaps has at least: shorter runs occur in random values by chance.
const SHORTEST: usize = 8;

/// Runs in order.
pub struct Template {
    runs: Vec<Vec<String>>,
    /// Whether anything may stand before the first run.
    begins_free: bool,
    /// Whether anything may stand behind the last run.
    ends_free: bool,
    /// Characters of the shortest body.
    shortest: usize,
}

/// Seconds that the comparison of two bodies may take. After that it finds less in common.
const PATIENCE: Duration = Duration::from_secs(5);

/// Splits what is between words into characters, because the first may belong to a nonce. All times of about now count as
/// equal.
fn fine<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    let mut fine = Vec::with_capacity(parts.len() * 2);
    for part in parts {
        if is_now(part) {
            fine.push("(now)");
        } else if part.starts_with(is_of_word) {
            fine.push(*part);
        } else {
            fine.extend(part.char_indices().map(|(at, letter)| &part[at..at + letter.len_utf8()]));
        }
    }
    fine
}

impl Template {
    /// Makes the runs from the parts of each body.
    pub fn of<'a>(mut bodies: impl Iterator<Item = Vec<&'a str>>) -> Template {
        let first = fine(&bodies.next().unwrap_or_default());
        // Each part that all bodies so far have, and whether something may stand before it.
        let mut common: Vec<(&str, bool)> = first.iter().map(|part| (*part, false)).collect();
        let letters = |body: &[&str]| body.iter().map(|part| part.len()).sum::<usize>();
        let (mut ends_free, mut shortest) = (false, letters(&first));
        for body in bodies {
            let body = fine(&body);
            shortest = shortest.min(letters(&body));
            let texts: Vec<&str> = common.iter().map(|(part, _)| *part).collect();
            let (mut kept, mut is_gap) = (Vec::new(), false);
            for change in capture_diff_slices_deadline(Algorithm::Myers, &texts, &body, Some(Instant::now() + PATIENCE))
            {
                if let DiffOp::Equal { old_index, len, .. } = change {
                    for (part, was_gap) in &common[old_index..old_index + len] {
                        kept.push((*part, *was_gap || is_gap));
                        is_gap = false;
                    }
                } else {
                    is_gap = true;
                }
            }
            ends_free |= is_gap;
            common = kept;
        }
        let begins_free = common.first().is_none_or(|(_, gap)| *gap);
        let mut runs: Vec<Vec<String>> = Vec::new();
        for (number, (part, gap)) in common.into_iter().enumerate() {
            match runs.last_mut() {
                Some(run) if !gap && number > 0 => run.push(part.to_owned()),
                _ => runs.push(vec![part.to_owned()]),
            }
        }
        let last = runs.len().saturating_sub(1);
        let mut number = 0;
        runs.retain(|run| {
            let is_end = number == 0 && !begins_free || number == last && !ends_free;
            number += 1;
            is_end || run.iter().map(String::len).sum::<usize>() >= SHORTEST
        });
        Template { runs, begins_free, ends_free, shortest }
    }

    /// The places where anything may stand: the text before each of them.
    pub fn gaps(&self) -> Vec<String> {
        let before_first = self.begins_free.then(String::new);
        let closed = self.runs.len().saturating_sub(usize::from(!self.ends_free));
        before_first.into_iter().chain(self.runs.iter().take(closed).map(|run| run.concat())).collect()
    }

    /// Whether most of the shortest body is left out, which an error page among the others would cause, too.
    pub fn is_thin(&self) -> bool {
        self.runs.iter().flatten().map(String::len).sum::<usize>() * 4 < self.shortest.max(1)
    }

    /// The first run that a body does not have in its place, as text, and about the byte where it was expected.
    pub fn missing_in(&self, parts: &[&str]) -> Option<(String, usize)> {
        let texts = fine(parts);
        let fits = |run: &[String], at: usize| {
            texts.get(at..at + run.len()).is_some_and(|found| found.iter().zip(run).all(|(a, b)| a == b))
        };
        let mut from = 0;
        for (number, run) in self.runs.iter().enumerate() {
            let is_last = number + 1 == self.runs.len();
            let at = if number == 0 && !self.begins_free {
                Some(0).filter(|at| fits(run, *at))
            } else if is_last && !self.ends_free {
                texts.len().checked_sub(run.len()).filter(|at| *at >= from && fits(run, *at))
            } else {
                (from..texts.len()).find(|at| fits(run, *at))
            };
            let is_end = |at: usize| !is_last || self.ends_free || at + run.len() == texts.len();
            match at.filter(|at| is_end(*at)) {
                Some(at) => from = at + run.len(),
                None => return Some((run.concat(), texts[..from].iter().map(|part| part.len()).sum())),
            }
        }
        None
    }
}
