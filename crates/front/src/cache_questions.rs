//! What the control socket asks of the cache of responses: `reprise purge`, `reprise cache explain`, for `reprise status` what was done and whether
//! the front is ready, and for `reprise verify` the token by which it passes by. Question and answer are texts of lines in memory files; whoever may write to the control socket
//! may ask.

use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use cache::purge::Purge;
use cache::status::Why;
use ipc::control::FromFront;

use crate::monitoring;
use crate::shared::Shared;
use cache_store::stored::{Cached, asking};
use compression::Coding;
use inbound::control::Link;
use inbound::host;
use routing::route;

/// Bytes of a question.
const MAX_QUESTION: usize = 64 * 1024;

/// Answers a question: `ok` or `failed`, a line feed, and a text.
pub fn answer(shared: &Shared, link: &dyn Link, ticket: u64, attached: &[OwnedFd]) {
    let answer = match read(attached).as_deref().and_then(|text| respond(shared, text)) {
        Some(Ok(text)) => format!("ok\n{text}"),
        Some(Err(text)) => format!("failed\n{text}"),
        None => "failed\nthe question cannot be read".to_owned(),
    };
    let file = rustix::fs::memfd_create(
        "reprise-answer",
        rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING,
    );
    let message = FromFront::Cache { ticket };
    match file.and_then(|file| rustix::io::pwrite(&file, answer.as_bytes(), 0).map(|_| file)) {
        Ok(file) => link.send_with(&message, &[file.as_fd()]),
        // Without a descriptor left there is no text, but whoever has asked learns that.
        Err(_) => link.send(&message),
    }
}

fn read(attached: &[OwnedFd]) -> Option<String> {
    let file = File::from(attached.first()?.try_clone().ok()?);
    let mut bytes = vec![0; MAX_QUESTION];
    let count = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(count);
    String::from_utf8(bytes).ok()
}

fn respond(shared: &Shared, question: &str) -> Option<Result<String, String>> {
    let (verb, rest) = question.split_once('\n')?;
    match verb {
        "purge" => {
            let (application, text) = rest.split_once('\n')?;
            Some(purge(shared, application, &Purge::parse(text.as_bytes())?))
        }
        // What another node has purged, which knows that already. An application that has stored nothing has nothing to purge.
        "elsewhere" => {
            let (application, text) = rest.split_once('\n')?;
            let purge = Purge::parse(text.as_bytes())?;
            shared.stored.named(application).iter().for_each(|cached| cached.responses.purge_here(&purge));
            Some(Ok(String::new()))
        }
        "explain" => {
            let mut lines = rest.split('\n');
            let (scheme, host, target) = (lines.next()?, lines.next()?, lines.next()?);
            Some(explain(shared, scheme == "https", host, target))
        }
        "token" => Some(shared.token.text().map(str::to_owned).ok_or_else(|| "there are no random numbers".to_owned())),
        "rules" => Some(by_rule(shared, rest)),
        "ready" => Some(monitoring::unready(shared).map_or_else(|| Ok("ready".to_owned()), Err)),
        _ => None,
    }
}

/// What the cache of an application has done, a line for each rule that has decided of a request: the numbers in the order of
/// [`cache::status::Result::ALL`], that of the requests that wait now, and the rule's name. The number of rules is limited, and so is the length of a name, so the answer is.
fn by_rule(shared: &Shared, application: &str) -> Result<String, String> {
    let mut text = String::new();
    for one in shared.stored.named(application).iter().flat_map(|cached| cached.by_rule.asked()) {
        for count in one.results {
            let _ = write!(text, "{count} ");
        }
        let _ = writeln!(text, "{} {}", one.waiting, one.rule);
    }
    Ok(text)
}

/// `application`: its name; empty: all that have a cache.
fn purge(shared: &Shared, application: &str, purge: &Purge) -> Result<String, String> {
    let mut meant = shared.stored.all();
    meant.retain(|(name, _)| application.is_empty() || name == application);
    if meant.is_empty() {
        let which = if application.is_empty() { String::new() } else { format!(" '{application}'") };
        return Err(format!("there is no application{which} that has stored anything"));
    }
    meant.iter().for_each(|(_, cached)| cached.responses.purge(purge));
    let names: Vec<String> = meant.iter().map(|(name, _)| format!("'{name}'")).collect();
    Ok(format!("{} {}", if purge.is_soft { "made stale in" } else { "purged in" }, names.join(", ")))
}

fn explain(shared: &Shared, is_https: bool, sent: &str, target: &str) -> Result<String, String> {
    let view = shared.lanes.view();
    let Some((number, application)) = route::application(&view.settings.applications, &host::name(sent)) else {
        return Err(format!("no application has the host {sent}"));
    };
    let mut text = format!("application '{}'\n", application.name);
    let Some(Cached { responses, .. }) = view.stored(number, &shared.stored) else {
        text.push_str("it has no cache: cache_memory is 0\n");
        return Ok(text);
    };
    let url = asking::url(is_https, sent, target.as_bytes(), None);
    let entries = responses.all_of(&url);
    for entry in &entries {
        let age = entry.terms.age.saturating_add(entry.since());
        let is_fresh = entry.terms.lifetime > age;
        let _ = writeln!(
            text,
            "stored: {} {}, {} bytes, age {age} s, {}",
            entry.status.as_u16(),
            entry.status.canonical_reason().unwrap_or(""),
            entry.body.len(),
            if is_fresh { format!("fresh for {} s", entry.terms.lifetime - age) } else { "stale".to_owned() },
        );
        for (name, value) in &entry.asked {
            let _ = writeln!(text, "  for requests with {name}: {}", String::from_utf8_lossy(value.as_bytes()));
        }
        let whom = match (&entry.terms.cookies, entry.terms.is_public) {
            (Some(names), _) => format!("visitors without the cookies {}", names.join(", ")),
            (None, true) => "everybody".to_owned(),
            (None, false) => "visitors without cookies and passwords".to_owned(),
        };
        let _ = writeln!(text, "  for {whom}");
        for coding in Coding::ALL {
            if let Some(bytes) = responses.coded(entry, coding) {
                let _ = writeln!(text, "  compressed by {}: {} bytes", coding.word(), bytes.len());
            }
        }
        if !entry.terms.tags.is_empty() {
            let _ = writeln!(text, "  tags: {}", entry.terms.tags.join(", "));
        }
        let purged = responses.purges.of(entry);
        if purged != cache_store::stored::purges::Purged::No {
            let _ = writeln!(text, "  purged {purged:?}");
        }
    }
    if entries.is_empty() {
        match responses.known.why_not(&url) {
            Some(why) => {
                let row = Why::ALL.iter().find(|(one, ..)| *one == why);
                let _ = writeln!(text, "not stored: {}: {}", why.word(), row.map_or("", |(.., text)| *text));
            }
            None => text.push_str("not stored: nobody has asked for it, or it had to make room\n"),
        }
    }
    Ok(text)
}
