//! What the rules' verdict leads to: a file or a script, a redirect, or a refusal.

use std::sync::Arc;

use crate::refusal::Refusal;
use crate::route::{self, Route, Script, Terms};
use crate::routing::table::{Ending, Verdict};
use crate::settings::Application;

/// What follows from a verdict.
pub enum Lead {
    /// A file, a script, or nothing.
    Route(Route),
    /// A redirect: status and target.
    Redirect(u16, Vec<u8>),
}

/// Follows a verdict to a file or script. `usual` finds what responds to the path as without rules.
pub fn lead(
    application: &Application,
    verdict: &Verdict<'_>,
    path: &[u8],
    usual: impl FnOnce() -> Route,
) -> Result<Lead, Refusal> {
    let mut terms = Terms::of(application);
    terms.has_denials &= !verdict.is_allowed;
    terms.is_php_off = verdict.is_php_off;
    let is_usual = verdict.path.is_none() && !verdict.is_php_off && terms.has_denials == application.default_denials;
    Ok(Lead::Route(match &verdict.ending {
        // What is remembered of scripts holds for these terms alone.
        Ending::Serve if is_usual => usual(),
        Ending::Serve => route::decide(&terms, path),
        Ending::FrontController(name) => {
            terms.front_controller = Some(name.trim_start_matches('/'));
            route::decide(&terms, path)
        }
        Ending::Script(name) => {
            Route::Script(Arc::new(Script { name: name.as_bytes().to_owned(), path_info: Vec::new(), mount: None }))
        }
        Ending::Mount(directory, prefix) => {
            route::mounted(&Terms { root: directory, front_controller: None, ..terms }, *prefix, path)
        }
        Ending::Redirect(status, location) => return Ok(Lead::Redirect(*status, location.clone())),
        Ending::Deny(404) => return Err(Refusal::NotFound),
        Ending::Deny(410) => return Err(Refusal::Gone),
        Ending::Deny(_) => return Err(Refusal::Denied),
        Ending::Maintenance(_) => return Err(Refusal::Maintenance),
        Ending::Exhausted | Ending::Rewrites => return Err(Refusal::RuleFailed),
    }))
}
