//! What may differ between a preset and the configuration that it stands for: a closed list, with reasons.

use std::collections::BTreeSet;

use tests::Response;

use super::documented::Site;
use super::planted::{decoded, escaped, plain};

/// What matters of a response: its status, where it leads, and which file or script it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub status: u16,
    pub location: String,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A page of the server's own.
    None,
    /// The file of that path.
    File(String),
    /// The script of that path with a path info and a query.
    Script(String, String, String),
    /// PHP's source.
    Source,
}

impl Seen {
    pub fn of(answer: &Response) -> Seen {
        let location = answer.header("location").unwrap_or("");
        let beyond_host = location.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
        let text = answer.text();
        let body = if text.contains("<?php") {
            Body::Source
        } else if let Some(path) = text.strip_prefix("file ") {
            Body::File(path.to_owned())
        } else if let Some(said) = text.strip_prefix("script ") {
            // Names of scripts have no spaces here, and queries of requests cannot have any.
            let (script, rest) = said.split_once(' ').unwrap_or((said, ""));
            let (info, query) = rest.rsplit_once(' ').unwrap_or((rest, ""));
            Body::Script(script.to_owned(), info.to_owned(), query.to_owned())
        } else {
            Body::None
        };
        Seen { status: answer.status, location: beyond_host.unwrap_or(location).to_owned(), body }
    }

    pub fn is_refusal(&self) -> bool {
        matches!(self.status, 403 | 404)
    }
}

/// Texts that are published for robots.
pub fn is_for_robots(path: &str) -> bool {
    ["/llms.txt", "/ads.txt", "/humans.txt"].contains(&path)
}

/// Both answers to one URL.
pub struct Pair<'a> {
    /// The application.
    pub site: &'a Site,
    /// The path that was asked for: decoded, and without what leads nowhere.
    pub path: &'a str,
    /// Whether there is a file at the path.
    pub is_there: bool,
    pub nginx: &'a Seen,
    pub ours: &'a Seen,
    /// Whether Reprise denies it without a preset.
    pub is_denied_anyway: bool,
}

impl Pair<'_> {
    /// The front controller of the application.
    fn is_front(&self, body: &Body) -> bool {
        let front = if self.site.name == "dokuwiki" { "/doku.php" } else { "/index.php" };
        matches!(body, Body::Script(script, ..) if script == front)
    }

    /// The script whose name the path has, with something behind it or not.
    fn names(&self, body: &Body) -> bool {
        matches!(body, Body::Script(script, ..) if self.path == script || self.path.starts_with(&format!("{script}/")))
    }

    /// Whether it is the index of the directory that was asked for. Here `index.html` is one everywhere.
    fn is_index(&self) -> bool {
        let (Body::File(path) | Body::Script(path, ..)) = &self.ours.body else { return false };
        self.path.ends_with('/') && [".php", ".html"].iter().any(|end| *path == format!("{}index{end}", self.path))
    }

    /// Whether both run the same script with the same parameters, or Reprise with more of them.
    fn is_alike_but_for_the_query(&self) -> bool {
        let parameters = |query: &str| -> BTreeSet<String> {
            query.split('&').filter(|part| !part.is_empty()).map(decoded).collect()
        };
        // Nextcloud's have the spelling of the request.
        let is_one_info = |one: &str, two: &str| plain(one) == plain(two) || decoded(one) == decoded(two);
        match (&self.nginx.body, &self.ours.body) {
            (Body::Script(theirs, info, one), Body::Script(own, own_info, two)) => {
                theirs == own && is_one_info(info, own_info) && parameters(one).is_subset(&parameters(two))
            }
            _ => false,
        }
    }

    /// Why they may differ. `None`: they may not.
    pub fn reason(&self) -> Option<&'static str> {
        let (nginx, ours) = (self.nginx, self.ours);
        let is_sent = matches!(nginx.body, Body::File(_) | Body::Source);
        let has_hidden = self.path.split('/').any(|segment| segment.starts_with('.') && segment != ".well-known");
        let is_slashed = |seen: &Seen| {
            seen.status == 301 && seen.location.split('?').next() == Some(&format!("{}/", escaped(self.path)))
        };
        let is_front = self.is_front(&ours.body);
        let is_redirect = nginx.status / 100 == 3;
        Some(match () {
            // docs/guides/routing.md, "Default denials".
            () if is_sent && self.is_denied_anyway => "default denial",
            // Names with a dot before them are never looked for.
            () if is_sent && has_hidden => "hidden",
            // A name of PHP's that is no script: nginx sends the source of scripts that it does not run.
            () if nginx.body == Body::Source => "source",
            // A control byte in a path: docs/guides/routing.md.
            () if ours.status == 400 && self.path.bytes().any(|byte| byte.is_ascii_control()) => "control byte",
            // Several variables of a script have the path, and all of a request fit in 32 KiB. nginx' patterns give up sooner.
            () if self.path.len() > 5000 && (ours.status == 431 || nginx.status == 500) => "too long",
            // One says 403, the other 404.
            () if nginx.is_refusal() && ours.is_refusal() => "403 or 404",
            // Some rewrites give nginx the query twice, or an empty end of it; `try_files` to a script without `$args` takes it away.
            () if self.is_alike_but_for_the_query() => "query",
            // What the preset's own rules add; documented.rs has it for each.
            () if ours.is_refusal() && self.site.beyond.iter().any(|part| self.path.contains(part)) => "beyond",
            // Drupal's rules deny all texts. Of these robots read more than robots.txt.
            () if nginx.is_refusal() && matches!(&ours.body, Body::File(path) if is_for_robots(path)) => "robots",
            // What lies there is published on purpose. Some of the documented locations give it to the front controller.
            () if matches!(&ours.body, Body::File(path) if path.starts_with("/.well-known/")) => "well-known",
            // Nothing is there, and nginx' rules say so; here the application's own front controller does.
            () if nginx.is_refusal() && !self.is_there && is_front => "nothing there",
            // nginx redirects to a directory before it looks for an index, and does not list one.
            () if is_slashed(nginx) && (is_front || ours.is_refusal()) => "directory",
            () if nginx.is_refusal() && is_slashed(ours) => "directory",
            () if nginx.is_refusal() && self.is_index() => "directory",
            // nginx repeats the request's own spelling in redirects by $request_uri, and redirects if that has a script to leave out.
            () if is_redirect && nginx.status == ours.status && plain(&nginx.location) == plain(&ours.location) => {
                "spelling"
            }
            () if is_redirect && plain(&nginx.location) == self.path => "spelling",
            // Every script has a path info here, so what denies one denies it with that. Many documented locations end at `.php`.
            () if self.path.contains(".php/") && self.names(&ours.body) => "path info",
            () if self.path.contains(".php/") && ours.is_refusal() && self.is_front(&nginx.body) => "path info",
            () if self.path.contains(".php/") && ours.is_refusal() && self.names(&nginx.body) => "path info",
            _ => return None,
        })
    }
}
