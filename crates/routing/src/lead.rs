//! What the rules' verdict leads to: a file or a script, a redirect, or a refusal.

use std::path::Path;
use std::sync::Arc;

use crate::refusal::Refusal;
use crate::route::{self, Existing, Route, Script, Terms};
use crate::rules::rule::Upstream;
use crate::rules::table::{Asked, Ending, Step, Verdict};
use crate::settings::Application;
use crate::target;

/// What follows from a verdict.
pub enum Lead<'t> {
    /// A file, a script, or nothing.
    Route(Route),
    /// A redirect: status and target.
    Redirect(u16, Vec<u8>),
    /// Another server, and what it is asked for if the rule says that.
    Upstream(&'t Upstream, Option<&'t [u8]>),
}

/// What the rules decide of a request; `note` is told of each rule that is looked at. The index of a directory has a path of its
/// own: what the rules decide of that path holds for the directory too, but for a redirect from the index to its directory.
pub fn settle<'t>(application: &'t Application, asked: &Asked<'_>, note: &mut dyn FnMut(Step<'t>)) -> Verdict<'t> {
    let terms = Terms { has_denials: false, ..Terms::of(application) };
    let files = Existing(&terms);
    let mut verdict = application.table.decide_with(asked, &files, note);
    let path = verdict.path.as_deref().unwrap_or(asked.path);
    let Some(index) = index_at(&terms, &verdict, path).map(|name| [path, name.as_bytes()].concat()) else {
        return verdict;
    };
    let directory = path.to_owned();
    let query = verdict.query.clone();
    let query = query.as_deref().unwrap_or(asked.query);
    let of_index = application.table.decide_with(&Asked { path: &index, query, ..*asked }, &files, note);
    verdict.go_on(index, of_index, |location| {
        let location = location.split(|byte| *byte == b'?').next().unwrap_or_default();
        std::str::from_utf8(location).is_ok_and(|path| target::clean(path).is_ok_and(|path| path == directory))
    });
    verdict
}

/// The name of the file that is the index of a directory, if the verdict leads to that.
fn index_at<'t>(terms: &Terms<'t>, verdict: &Verdict<'t>, path: &[u8]) -> Option<&'t str> {
    match verdict.ending {
        Ending::Serve => route::index_of(terms, path),
        Ending::FrontController(name) => route::index_of(&with_controller(terms, name), path),
        Ending::Mount(directory, prefix) => route::index_of(&at_mount(terms, directory), route::below(path, prefix).1),
        _ => None,
    }
}

fn with_controller<'t>(terms: &Terms<'t>, name: &'t str) -> Terms<'t> {
    Terms { front_controller: Some(name.trim_start_matches('/')), ..*terms }
}

fn at_mount<'t>(terms: &Terms<'t>, directory: &'t Path) -> Terms<'t> {
    Terms { root: directory, former: &[], front_controller: None, stub: None, ..*terms }
}

/// Follows a verdict to a file or script. `usual` finds what responds to the path as without rules.
pub fn lead<'t>(
    application: &Application,
    verdict: &'t Verdict<'_>,
    path: &[u8],
    usual: impl FnOnce() -> Route,
) -> Result<Lead<'t>, Refusal> {
    let mut terms = Terms::of(application);
    terms.has_denials &= !verdict.is_allowed;
    terms.is_allowed = verdict.is_allowed;
    terms.is_php_off = verdict.is_php_off;
    let is_usual = verdict.path.is_none() && !verdict.is_php_off && !verdict.is_allowed;
    Ok(Lead::Route(match &verdict.ending {
        // What is remembered of scripts holds for these terms alone.
        Ending::Serve if is_usual => usual(),
        Ending::Serve => route::decide(&terms, path),
        Ending::FrontController(name) => route::decide(&with_controller(&terms, name), path),
        Ending::Script(name) => {
            Route::Script(Arc::new(Script { name: name.as_bytes().to_owned(), path_info: Vec::new(), mount: None }))
        }
        Ending::Mount(directory, prefix) => route::mounted(&at_mount(&terms, directory), *prefix, path),
        Ending::Redirect(status, location) => return Ok(Lead::Redirect(*status, location.clone())),
        Ending::Upstream(upstream, target) => return Ok(Lead::Upstream(upstream, target.as_deref())),
        Ending::Deny(404) => return Err(Refusal::NotFound),
        Ending::Deny(410) => return Err(Refusal::Gone),
        Ending::Deny(_) => return Err(Refusal::Denied),
        Ending::Maintenance(_) => return Err(Refusal::Maintenance),
        Ending::Exhausted | Ending::Rewrites => return Err(Refusal::RuleFailed),
    }))
}
