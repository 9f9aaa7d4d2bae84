//! Says what responds to a request and why, without serving it: every rule that was looked at, and the file or script that
//! was found (`reprise route`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::HeaderMap;
use serde::Serialize;

use crate::fingerprint;
use crate::in_force::{self, Told};
use crate::lead::{Lead, lead, settle};
use crate::refusal::Refusal;
pub use crate::route::links::Refused;
pub use crate::route::source;
use crate::route::{self, Route, Terms};
use crate::rules::denials;
use crate::rules::table::Asked;
use crate::settings::Application;
use crate::target;

/// What is asked for.
pub struct Question<'a> {
    /// Path and query, as a client would send them.
    pub target: &'a str,
    /// The host, without port.
    pub host: &'a str,
    /// The method.
    pub method: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The client's address.
    pub address: Option<IpAddr>,
}

/// A rule that was looked at.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The path at this step.
    pub path: String,
    /// Where the rule is written.
    pub place: String,
    /// Its conditions.
    pub rule: String,
    /// Whether they fit.
    pub fits: bool,
    /// What the rule then did.
    pub did: Option<String>,
}

/// What responds, and why.
#[derive(Debug, Default, Serialize)]
pub struct Explanation {
    /// The application.
    pub application: String,
    /// The path, decoded and cleaned.
    pub path: String,
    /// The path and the query that rules made of it.
    pub rewritten: Option<String>,
    /// The rules that were looked at.
    pub steps: Vec<Step>,
    /// Where the rule is written that decided.
    pub by: Option<String>,
    /// What responds, in words.
    pub result: String,
    /// The status, if the front itself responds.
    pub status: Option<u16>,
    /// The file that is sent.
    pub file: Option<String>,
    /// The script that runs.
    pub script: Option<String>,
    /// Its path info.
    pub path_info: Option<String>,
    /// The server that responds in the place of PHP.
    pub upstream: Option<String>,
    /// Whether scripts do not run by their own names here.
    pub is_php_off: bool,
    /// Whether the file is PHP's source by its first bytes, and is not sent.
    pub is_source: bool,
    /// The symbolic link that is not followed.
    pub link: Option<String>,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// Realms whose password is asked for.
    pub realms: Vec<String>,
    /// The limits in force, if PHP or an upstream responds.
    pub limits: Vec<Told>,
    /// Headers that rules set; an empty value removes one.
    pub headers: BTreeMap<String, String>,
}

/// The application for a host.
pub fn application<'a>(applications: &'a [Application], host: &str) -> Option<&'a Application> {
    route::application(applications, host).map(|(_, application)| application)
}

/// The symbolic link because of which a path is refused, whatever the rules say.
pub fn refused_link(application: &Application, path: &str) -> Option<Refused> {
    match route::decide(&Terms::of(application), path.as_bytes()) {
        Route::Link(refused) => Some(*refused),
        _ => None,
    }
}

/// Explains what responds to a request.
pub fn explain(application: &Application, question: &Question<'_>) -> Explanation {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut told = Explanation { application: application.name.clone(), ..Explanation::default() };
    let (raw, query) = question.target.split_once('?').unwrap_or((question.target, ""));
    let Ok(path) = target::clean(raw) else {
        refuse(&mut told, Refusal::BadTarget);
        return told;
    };
    told.path = text(&path);
    for (monitoring, what) in [(&application.ping_path, "ping_path"), (&application.status_path, "status_path")] {
        if monitoring.as_ref().is_some_and(|known| known.as_bytes() == path) {
            told.result = format!("monitoring: {what}");
            return told;
        }
    }
    let asked = Asked {
        path: &path,
        query: query.as_bytes(),
        host: question.host,
        method: question.method,
        headers: question.headers,
        address: question.address,
    };
    let verdict = settle(application, &asked, &mut |step| {
        told.steps.push(Step {
            path: text(&step.path),
            place: step.rule.place.clone(),
            rule: step.rule.on.to_string(),
            fits: step.fits,
            did: step.did.or_else(|| step.fits.then(|| "adds to the response".to_owned())),
        });
    });
    told.by = verdict.by.map(|rule| rule.place.clone());
    let at = verdict.path.as_deref().unwrap_or(&path);
    if verdict.path.is_some() || verdict.query.is_some() {
        let query = verdict.query.as_deref().map(|query| format!("?{}", text(query)));
        told.rewritten = Some(format!("{}{}", text(at), query.unwrap_or_default()));
    }
    told.realms = verdict.also.iter().filter_map(|also| also.users.as_ref()).map(|users| users.realm.clone()).collect();
    told.headers = verdict.also.iter().flat_map(|also| also.headers.clone()).collect();
    told.is_php_off = verdict.is_php_off;
    let limits = verdict.limits();
    let limits = |is_php| in_force::tell(application, &path, question.method, limits.as_deref(), is_php);
    match lead(application, &verdict, at, || route::decide(&Terms::of(application), at)) {
        Err(refusal) => refuse(&mut told, refusal),
        Ok(Lead::Redirect(status, location)) => redirect(&mut told, status, text(&location)),
        Ok(Lead::Upstream(upstream, target)) => {
            let made = target.map(text);
            let target = made.unwrap_or_else(|| text(&target::for_upstream(raw, &path, verdict.path.as_deref())));
            told.result = format!("the upstream {}, which is asked for {target}", upstream.name);
            told.upstream = Some(upstream.name.clone());
            told.limits = limits(false);
        }
        Ok(Lead::Route(found)) => {
            let why = if verdict.is_php_off { None } else { denials::of_name(at) };
            told.limits = if matches!(found, Route::Script(_)) { limits(true) } else { Vec::new() };
            tell(application, &mut told, found, why.map(denials::Denial::word));
        }
    }
    told
}

fn refuse(told: &mut Explanation, refusal: Refusal) {
    let (status, word) = refusal.describe();
    told.status = Some(status.as_u16());
    told.result = format!("{} {word}: {}", status.as_u16(), refusal.text());
}

fn redirect(told: &mut Explanation, status: u16, location: String) {
    told.status = Some(status);
    told.result = format!("{status} to {location}");
    told.location = Some(location);
}

fn tell(application: &Application, told: &mut Explanation, found: Route, denial: Option<&str>) {
    match found {
        Route::File(found) => {
            if told.realms.is_empty() && fingerprint::is_in(application, told.path.as_bytes()) {
                let value = "public, max-age=31536000, immutable";
                told.headers.entry("Cache-Control".to_owned()).or_insert_with(|| value.to_owned());
            }
            told.file = Some(found.path.display().to_string());
            told.result = format!("the file {}", found.path.display());
        }
        Route::Script(script) => {
            let (directory, name) = script.file(application);
            let file = format!("{}{}", directory.display(), String::from_utf8_lossy(name));
            let info = String::from_utf8_lossy(&script.path_info).into_owned();
            let with = if info.is_empty() { String::new() } else { format!(" with the path info {info}") };
            told.result = format!("the script {file}{with}");
            told.script = Some(String::from_utf8_lossy(&script.name).into_owned());
            told.path_info = (!info.is_empty()).then_some(info);
        }
        Route::Directory(path) => redirect(told, 301, format!("{}/", String::from_utf8_lossy(&path))),
        Route::Denied => {
            refuse(told, Refusal::Denied);
            told.result = match denial {
                Some(word) => format!("403 denied: a default denial ({word})"),
                None => {
                    "403 denied: a default denial (vendor, or the name that a link leads to), or php = false".to_owned()
                }
            };
        }
        Route::Source => {
            refuse(told, Refusal::Source);
            told.is_source = true;
        }
        Route::Link(refused) => {
            refuse(told, Refusal::Link);
            told.result = format!("403 link: {refused}");
            told.link = Some(refused.link.display().to_string());
        }
        Route::Nobody => refuse(told, Refusal::NotFound),
        Route::Closed => refuse(told, Refusal::Forbidden),
        Route::Ping | Route::Status => told.result = "monitoring".to_owned(),
    }
}
