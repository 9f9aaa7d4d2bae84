//! What the rules' verdict leads to: a file or a script, a redirect, or a refusal.

use std::sync::Arc;

use crate::refusal::Refusal;
use crate::route::{self, Existing, Route, Script, Terms};
use crate::routing::rule::Upstream;
use crate::routing::table::{Asked, Ending, Files, Kind, Step, Verdict};
use crate::settings::Application;

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
/// own: what denies or guards that path holds for the directory too.
pub fn settle<'t>(application: &'t Application, asked: &Asked<'_>, note: &mut dyn FnMut(Step<'t>)) -> Verdict<'t> {
    let terms = Terms { has_denials: false, ..Terms::of(application) };
    let files = Existing(&terms);
    let mut verdict = application.table.decide_with(asked, &files, note);
    let path = verdict.path.as_deref().unwrap_or(asked.path);
    let leads_to_index = matches!(verdict.ending, Ending::Serve | Ending::FrontController(_))
        && path.ends_with(b"/")
        && (path != b"/" || application.front_controller.is_none());
    let named = || ["index.php", "index.html"].map(|name| [path, name.as_bytes()].concat());
    let index = leads_to_index.then(|| named().into_iter().find(|index| files.look(index) == Kind::File)).flatten();
    if let Some(index) = index {
        let of_index = application.table.decide_with(&Asked { path: &index, ..*asked }, &files, note);
        verdict.is_php_off |= of_index.is_php_off;
        let further: Vec<_> = of_index
            .also
            .into_iter()
            .filter(|also| {
                (also.users.is_some() || also.limits.is_some())
                    && !verdict.also.iter().any(|known| std::ptr::eq(*known, *also))
            })
            .collect();
        verdict.also.extend(further);
        if matches!(of_index.ending, Ending::Deny(_) | Ending::Exhausted | Ending::Rewrites) {
            (verdict.ending, verdict.by) = (of_index.ending, of_index.by);
        }
    }
    verdict
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
        Ending::Upstream(upstream, target) => return Ok(Lead::Upstream(upstream, target.as_deref())),
        Ending::Deny(404) => return Err(Refusal::NotFound),
        Ending::Deny(410) => return Err(Refusal::Gone),
        Ending::Deny(_) => return Err(Refusal::Denied),
        Ending::Maintenance(_) => return Err(Refusal::Maintenance),
        Ending::Exhausted | Ending::Rewrites => return Err(Refusal::RuleFailed),
    }))
}
