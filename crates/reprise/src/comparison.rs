//! Compares pages with the same pages in classic mode, and looks for data of other visitors in them: for `reprise verify`, and before visitors come.
//!
//! Two visitors, each with marks of its own (a cookie, a header, a user agent), ask for each page in turn, in the
//! application's mode and in classic mode. In each mode a visitor has
//! two sessions, each with a cookie jar of its own. Parts that vary between the responses of classic mode are masked and
//! checked in another way: a value of one session must not appear in another, times must go on, drawn values must not
//! repeat.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`visitor`] | makes requests, and keeps cookies |
//! | [`login`] | logs a visitor in |
//! | [`compare`] | headers and bodies of all responses to a page |
//! | [`places`] | responses of one shape, part by part |
//! | [`template`] | what bodies of several lengths have in common |
//! | [`parts`] | words of a text, and their kinds |
//! | [`found`] | what a comparison has found |
//! | [`on_reload`] | the comparison before visitors come (`verify_on_reload`), as guests and as users |

mod compare;
pub mod found;
mod login;
mod on_reload;
mod parts;
mod places;
mod template;
pub mod visitor;

use std::time::{Duration, Instant};

use crate::exit::{Code, Failure};
use found::{Found, Visit};
use visitor::{How, NAMES, Page, Response, Visitor};

pub use compare::CLOSED_LIST;
pub use login::LogIn;
pub use on_reload::judge;

/// The least time between the first and the last request of a page that shows a clock, so that a clock that stands still is
/// found.
const TURN_OF_CLOCK: Duration = Duration::from_millis(1100);

/// What was found on a page.
#[derive(Default)]
pub struct Findings {
    /// Differences, leaks, and places that vary.
    pub found: Found,
    /// Whether PHP has run for it.
    pub is_php: bool,
    /// Whether it has run in classic mode only.
    pub is_classic: bool,
    /// How many responses were compared.
    pub responses: usize,
    /// The status, if all of them were errors of the server: then pages of errors were compared, not the page.
    pub error: Option<u16>,
}

/// Asks for a page so many times as each visitor in each mode, and compares.
pub fn examine(page: &Page, rounds: usize, visitors: &mut [Visitor; 2]) -> Result<Findings, Failure> {
    let mut visits = Vec::new();
    ask(page, rounds, visitors, &mut visits)?;
    let mut found = compare::compare(&visits);
    if !found.differences.is_empty() {
        // Classic mode may vary there too, but seldom.
        ask(page, rounds, visitors, &mut visits)?;
        found = compare::compare(&visits);
    }
    let not_classic =
        |visit: &&Visit| visit.is_classic && visit.response.mode.as_deref().is_some_and(|mode| mode != "classic");
    if let Some(Visit { response: Response { mode: Some(mode), .. }, .. }) = visits.iter().find(not_classic) {
        let why = format!("a request for classic mode ran in mode {mode}: there is nothing to compare with");
        return Err(Failure::new(Code::Internal, page.to_string(), why));
    }
    let own = || visits.iter().filter(|visit| !visit.is_classic);
    let mut modes = own().filter_map(|visit| visit.response.mode.as_deref()).peekable();
    let is_php = modes.peek().is_some();
    let is_classic = is_php && modes.all(|mode| mode == "classic");
    let marks = [visitors[0].marks(), visitors[1].marks()];
    for visit in &visits {
        let other = 1 - visit.visitor;
        let seen = marks[other].iter().filter(|(_, mark)| visit.response.contains(mark));
        found.leaks.extend(seen.map(|(what, _)| format!("{} sees {}'s {what}", NAMES[visit.visitor], NAMES[other])));
    }
    found.leaks.sort();
    found.leaks.dedup();
    let is_error = visits.iter().all(|visit| visit.response.status >= 500);
    let error = visits.first().map(|visit| visit.response.status).filter(|_| is_error);
    Ok(Findings { found, is_php, is_classic, responses: visits.len(), error })
}

/// Requests a page as both visitors, in both modes. Each request of a visitor is between two requests of the other, and
/// each request in the application's mode is between two requests in classic mode.
fn ask(page: &Page, rounds: usize, visitors: &mut [Visitor; 2], visits: &mut Vec<Visit>) -> Result<(), Failure> {
    let failed = |why: String| Failure::new(Code::Internal, page.to_string(), why);
    let (began, before) = (Instant::now(), visits.len() / 8);
    for round in 0..rounds {
        let is_padded = round + 1 == rounds;
        if is_padded && visits.iter().any(|visit| compare::shows_clock(&visit.response)) {
            std::thread::sleep(TURN_OF_CLOCK.saturating_sub(began.elapsed()));
        }
        for (is_classic, session) in [(true, 0), (false, 0), (false, 1), (true, 1)] {
            for (number, visitor) in visitors.iter_mut().enumerate() {
                let response = visitor.ask(page, How { is_classic, session, is_padded }).map_err(failed)?;
                visits.push(Visit { visitor: number, session, round: before + round, is_classic, is_padded, response });
            }
        }
    }
    Ok(())
}

impl Findings {
    /// Whether the page was compared, and there is neither a difference nor a leak.
    pub fn is_fine(&self) -> bool {
        self.error.is_none() && self.found.differences.is_empty() && self.found.leaks.is_empty()
    }
}
