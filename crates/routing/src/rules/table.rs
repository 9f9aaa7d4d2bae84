//! The rules of an application, compiled, and what they decide of a request.
//!
//! Rules of the configuration come first, in their order, then those of the preset. The first whose action ends matching
//! decides; what accumulates is collected up to there. The preset is looked at after that too: its denials hold unless `allow`
//! lifted them. A rewrite begins again at the first rule with the new path, at most [`MAX_REWRITES`] times.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::limits::Together;
use super::pattern::{Budget, Captures, Exhausted, Pattern, Template, Values};
use super::rule::{Action, Also, Exists, MAX_RULES, Rule, Upstream};
use crate::target;

/// Rewrites of one request.
pub const MAX_REWRITES: usize = 10;

/// What a request asks for, as far as rules can see.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its path, decoded and cleaned.
    pub path: &'a [u8],
    /// Its query as it came.
    pub query: &'a [u8],
    /// Its host, lower-case and without port.
    pub host: &'a str,
    /// Its method.
    pub method: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The verified address of its client; `None`: a unix socket.
    pub address: Option<IpAddr>,
}

/// What there is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file or a script.
    File,
    /// A directory.
    Directory,
    /// Neither, or nothing that is ever served.
    Nothing,
}

/// What knows which files exist.
pub trait Files {
    /// What there is at a cleaned path.
    fn look(&self, path: &[u8]) -> Kind;
}

/// How matching ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending<'t> {
    /// Files, scripts and the front controller, as without rules.
    Serve,
    /// The same with another front controller.
    FrontController(&'t str),
    /// This script runs.
    Script(&'t str),
    /// A refusal with this status.
    Deny(u16),
    /// A redirect.
    Redirect(u16, Vec<u8>),
    /// A directory, and the path below it, which begins with a slash.
    Mount(&'t std::path::Path, usize),
    /// 503 with this page.
    Maintenance(&'t str),
    /// Another server responds: to this path and query, if its rule names a target, escaped.
    Upstream(&'t Upstream, Option<Vec<u8>>),
    /// A pattern took too many steps.
    Exhausted,
    /// More than [`MAX_REWRITES`] rewrites, or a rewrite to a path that no URL could name.
    Rewrites,
}

/// What the rules decide.
#[derive(Debug)]
pub struct Verdict<'t> {
    /// The path that was decided of last, if a rule has rewritten it.
    pub path: Option<Vec<u8>>,
    /// The query, if a rule has rewritten it.
    pub query: Option<Vec<u8>>,
    /// How matching ended.
    pub ending: Ending<'t>,
    /// The rule that ended it.
    pub by: Option<&'t Rule>,
    /// The rule for which its request is counted: the last whose action counted, a rewrite too.
    pub counted: Option<usize>,
    /// Whether default denials and those of the preset are lifted.
    pub is_allowed: bool,
    /// Whether scripts do not run by their own names.
    pub is_php_off: bool,
    /// Headers to set or to remove, in this order.
    pub headers: Vec<&'t (HeaderName, Option<HeaderValue>)>,
    /// What else accumulated, in the order of the rules.
    pub also: Vec<&'t Also>,
}

/// A step of matching, for explanations.
#[derive(Debug)]
pub struct Step<'t> {
    /// The path at this step.
    pub path: Vec<u8>,
    /// The rule.
    pub rule: &'t Rule,
    /// Whether it fits.
    pub fits: bool,
    /// What it then did.
    pub did: Option<String>,
}

/// A compiled rule.
#[derive(Clone, Debug)]
struct Compiled {
    rule: Rule,
    pattern: Option<Pattern>,
    header: Vec<(HeaderName, Wanted)>,
    headers: Vec<(HeaderName, Option<HeaderValue>)>,
    template: Option<Template>,
}

#[derive(Clone, Debug)]
enum Wanted {
    Any,
    Exactly(String),
    Like(Pattern),
}

/// The compiled rules of an application.
#[derive(Clone, Debug, Default)]
pub struct Table(Arc<[Compiled]>);

/// What a rule captured.
struct Fit {
    captures: Captures,
    /// Bytes of the path that the rule's prefix takes.
    prefix: usize,
}

impl Table {
    /// Compiles rules. A failure names the rule.
    pub fn new(rules: &[Rule]) -> Result<Table, String> {
        if rules.len() > MAX_RULES {
            return Err(format!("{} rules; {MAX_RULES} are the most", rules.len()));
        }
        let compiled: Result<Vec<_>, _> =
            rules.iter().map(|rule| Compiled::new(rule).map_err(|why| format!("{}: {why}", rule.place))).collect();
        Ok(Table(compiled?.into()))
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the rules decide of a request.
    pub fn decide(&self, asked: &Asked<'_>, files: &dyn Files) -> Verdict<'_> {
        self.decide_with(asked, files, &mut |_| {})
    }

    /// The same; `note` is told of each rule that is looked at.
    pub fn decide_with<'t>(
        &'t self,
        asked: &Asked<'_>,
        files: &dyn Files,
        note: &mut dyn FnMut(Step<'t>),
    ) -> Verdict<'t> {
        let mut verdict = Verdict {
            path: None,
            query: None,
            ending: Ending::Serve,
            by: None,
            counted: None,
            is_allowed: false,
            is_php_off: false,
            headers: Vec::new(),
            also: Vec::new(),
        };
        let budget = Budget::new();
        for _ in 0..=MAX_REWRITES {
            let path = verdict.path.take();
            let at = path.as_deref().unwrap_or(asked.path);
            (verdict.is_allowed, verdict.is_php_off) = (false, false);
            let looked = Looked { asked, path: at, files, budget: &budget, known: None.into() };
            let rewritten = match self.pass(&looked, &mut verdict, note) {
                Ok(rewritten) => rewritten,
                Err(Exhausted) => {
                    verdict.ending = Ending::Exhausted;
                    None
                }
            };
            let Some((next, query)) = rewritten else {
                verdict.path = path;
                return verdict;
            };
            if query.is_some() {
                verdict.query = query;
            }
            let Ok(next) = target::clean_decoded(&next) else {
                verdict.ending = Ending::Rewrites;
                return verdict;
            };
            verdict.path = Some(next);
        }
        verdict.ending = Ending::Rewrites;
        verdict
    }

    /// Looks at the rules once; returns path and query of a rewrite.
    #[allow(clippy::type_complexity, reason = "the pair is what a rewrite is")]
    fn pass<'t>(
        &'t self,
        looked: &Looked<'_>,
        verdict: &mut Verdict<'t>,
        note: &mut dyn FnMut(Step<'t>),
    ) -> Result<Option<(Vec<u8>, Option<Vec<u8>>)>, Exhausted> {
        (verdict.ending, verdict.by) = (Ending::Serve, None);
        let mut is_over = [false, false];
        for (number, one) in self.0.iter().enumerate() {
            let is_preset = one.rule.is_preset;
            if is_over[usize::from(is_preset)] {
                continue;
            }
            let step = |fits, did| Step { path: looked.path.to_vec(), rule: &one.rule, fits, did };
            let Some(fit) = one.fit(looked)? else {
                note(step(false, None));
                continue;
            };
            verdict.collect(one);
            let Some(action) = &one.rule.action else {
                note(step(true, None));
                continue;
            };
            is_over[usize::from(is_preset)] = true;
            // A preset's denial holds over what the configuration decided, unless that was `allow`.
            let is_denial = matches!(action, Action::Deny(_));
            if is_preset && ((verdict.by.is_some() && !is_denial) || (verdict.is_allowed && is_denial)) {
                // The other rules of the preset still have their say.
                is_over[1] = false;
                note(step(true, Some("a rule before it has decided".to_owned())));
                continue;
            }
            verdict.by = (!matches!(action, Action::Allow)).then_some(&one.rule).or(verdict.by);
            let before = verdict.counted.replace(number);
            let values = one.values(&fit, looked, verdict);
            match action {
                Action::Rewrite(_) => {
                    let template = one.template.as_ref();
                    let path = template.map(|template| template.path(&values)).unwrap_or_default();
                    let query = template.and_then(|template| template.query(&values));
                    note(step(true, Some(format!("rewrites to {}", String::from_utf8_lossy(&path)))));
                    // A rewrite that changes nothing is none: matching goes on.
                    if path != looked.path {
                        return Ok(Some((path, query)));
                    }
                    verdict.query = query.or(verdict.query.take());
                    (verdict.by, verdict.counted) = (None, before);
                    is_over[usize::from(is_preset)] = false;
                    continue;
                }
                Action::Redirect(status, _) => {
                    let location = one.template.as_ref().map(|template| template.location(&values)).unwrap_or_default();
                    verdict.ending = Ending::Redirect(*status, location);
                }
                Action::Allow => verdict.is_allowed = true,
                Action::Deny(status) => verdict.ending = Ending::Deny(*status),
                Action::Script(name) => verdict.ending = Ending::Script(name),
                Action::FrontController(name) => verdict.ending = Ending::FrontController(name),
                Action::Mount(directory) => verdict.ending = Ending::Mount(directory, fit.prefix),
                Action::Maintenance(page) => verdict.ending = Ending::Maintenance(page),
                Action::Upstream(upstream) => {
                    let target = one.template.as_ref().map(|template| template.location(&values));
                    verdict.ending = Ending::Upstream(upstream, target);
                }
            }
            note(step(true, Some(action.to_string())));
            // What has its response already has no need of the preset.
            if matches!(action, Action::Deny(_) | Action::Redirect(..) | Action::Maintenance(_) | Action::Upstream(_)) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The names by which requests are counted, in the order of the rules.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let mut last = [0, 0];
        self.rules().map(move |rule| {
            let number = &mut last[usize::from(rule.is_preset)];
            *number += 1;
            rule.name(*number)
        })
    }

    /// The rules, in the order in which they are looked at.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|one| &one.rule)
    }
}

impl<'t> Verdict<'t> {
    /// The limits that its rules set; `None`: they set none.
    pub fn limits(&self) -> Option<Box<Together<'t>>> {
        Together::of(self.also.iter().filter_map(|also| also.limits.as_deref()))
    }

    /// Goes on as decided of the index of a directory, whose path that is. What accumulated there is added. `leads_back` says
    /// whether a redirect leads to the directory.
    pub fn go_on(&mut self, index: Vec<u8>, of_index: Verdict<'t>, leads_back: impl FnOnce(&[u8]) -> bool) {
        self.is_php_off |= of_index.is_php_off;
        for also in of_index.also {
            if !self.also.iter().any(|known| std::ptr::eq(*known, also)) {
                self.also.push(also);
            }
        }
        for header in of_index.headers {
            if !self.headers.iter().any(|known| std::ptr::eq(*known, header)) {
                self.headers.push(header);
            }
        }
        let is_here = match &of_index.ending {
            Ending::Serve | Ending::FrontController(_) => of_index.path.is_none(),
            Ending::Redirect(_, location) => leads_back(location),
            Ending::Mount(..) => of_index.ending == self.ending && of_index.path.is_none(),
            _ => false,
        };
        if !is_here {
            (self.ending, self.by, self.is_allowed) = (of_index.ending, of_index.by, of_index.is_allowed);
            self.counted = of_index.counted.or(self.counted);
            (self.path, self.query) = (of_index.path.or(Some(index)), of_index.query.or(self.query.take()));
        }
    }

    fn collect(&mut self, one: &'t Compiled) {
        let also = &one.rule.also;
        self.is_php_off |= also.is_php_off;
        // After a rewrite the same rule may fit again.
        if self.also.iter().any(|known| std::ptr::eq(*known, also)) {
            return;
        }
        self.headers.extend(&one.headers);
        self.also.push(also);
    }
}

/// What a rule looks at.
struct Looked<'a> {
    asked: &'a Asked<'a>,
    path: &'a [u8],
    files: &'a dyn Files,
    budget: &'a Budget,
    /// What is at the path, once it has been looked for.
    known: std::cell::Cell<Option<Kind>>,
}

impl Looked<'_> {
    fn kind(&self) -> Kind {
        let kind = self.known.get().unwrap_or_else(|| self.files.look(self.path));
        self.known.set(Some(kind));
        kind
    }
}

/// Whether a host is one of a list, in which `*.example` is all below.
fn is_host(list: &[String], host: &str) -> bool {
    list.iter().any(|one| match one.strip_prefix('*') {
        None => one == host,
        Some(tail) => host.len() > tail.len() && host.ends_with(tail),
    })
}

/// Bytes of the path that the first fitting prefix takes.
fn prefix_length(list: &[String], path: &[u8]) -> Option<usize> {
    let fits = |prefix: &&String| match path.strip_prefix(prefix.as_bytes()) {
        Some(rest) => prefix.ends_with('/') || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    };
    list.iter().filter(fits).map(String::len).max()
}

impl Compiled {
    fn new(rule: &Rule) -> Result<Compiled, String> {
        let pattern =
            rule.on.pattern.as_deref().map(|text| Pattern::new(text).map_err(|why| format!("pattern {text:?}: {why}")));
        let pattern = pattern.transpose()?;
        let target = match &rule.action {
            Some(Action::Rewrite(target) | Action::Redirect(_, target)) => Some(target),
            Some(Action::Upstream(upstream)) => upstream.target.as_ref(),
            _ => None,
        };
        let template = target.map(|target| Template::new(target, pattern.as_ref())).transpose()?;
        let name = |name: &String| name.parse::<HeaderName>().map_err(|_| format!("{name:?} is no name of a header"));
        let wanted = |(header, value): (&String, &String)| {
            let wanted = match value.strip_prefix('~') {
                _ if value == "*" => Wanted::Any,
                None => Wanted::Exactly(value.clone()),
                Some(text) => Wanted::Like(Pattern::new(text).map_err(|why| format!("header {header}: {why}"))?),
            };
            Ok::<_, String>((name(header)?, wanted))
        };
        let set = |(header, value): (&String, &String)| {
            let text = HeaderValue::from_str(value).map_err(|_| format!("{value:?} is no value of a header"))?;
            Ok::<_, String>((name(header)?, (!value.is_empty()).then_some(text)))
        };
        Ok(Compiled {
            header: rule.on.header.iter().map(wanted).collect::<Result<_, _>>()?,
            headers: rule.also.headers.iter().map(set).collect::<Result<_, _>>()?,
            rule: rule.clone(),
            pattern,
            template,
        })
    }

    /// Whether everything fits that the rule names, the cheap conditions first.
    fn fit(&self, looked: &Looked<'_>) -> Result<Option<Fit>, Exhausted> {
        let (on, asked, path) = (&self.rule.on, looked.asked, looked.path);
        let prefix = if on.prefix.is_empty() { Some(0) } else { prefix_length(&on.prefix, path) };
        let Some(prefix) = prefix else { return Ok(None) };
        let is_one = |list: &[String], one: &[u8]| list.is_empty() || list.iter().any(|known| known.as_bytes() == one);
        let within = |networks: &[crate::network::Network]| {
            networks.iter().any(|network| match asked.address {
                Some(address) => network.contains(address),
                None => *network == crate::network::Network::Unix,
            })
        };
        if !is_one(&on.path, path)
            || !is_one(&on.method, asked.method.as_bytes())
            || !(on.host.is_empty() || is_host(&on.host, asked.host))
            || !(on.address.is_empty() || within(&on.address))
            || within(&on.not_address)
        {
            return Ok(None);
        }
        for (name, wanted) in &self.header {
            let mut values = asked.headers.get_all(name).iter();
            let fits = match wanted {
                Wanted::Any => values.next().is_some(),
                Wanted::Exactly(text) => values.any(|value| value.as_bytes() == text.as_bytes()),
                Wanted::Like(pattern) => {
                    let mut found = false;
                    for value in values {
                        found |= pattern.is_in(value.as_bytes(), looked.budget)?;
                    }
                    found
                }
            };
            if !fits {
                return Ok(None);
            }
        }
        let captures = match &self.pattern {
            None => Captures::new(),
            Some(pattern) if self.template.is_none() => {
                if !pattern.is_in(path, looked.budget)? {
                    return Ok(None);
                }
                Captures::new()
            }
            Some(pattern) => match pattern.captures(path, looked.budget)? {
                Some(captures) => captures,
                None => return Ok(None),
            },
        };
        let exists = match &on.exists {
            None => true,
            Some(Exists::File) => looked.kind() == Kind::File,
            Some(Exists::Directory) => looked.kind() == Kind::Directory,
            Some(Exists::Any) => looked.kind() != Kind::Nothing,
            Some(Exists::Nothing) => looked.kind() == Kind::Nothing,
            Some(Exists::Other(other)) => looked.files.look(other.as_bytes()) == Kind::File,
        };
        Ok(exists.then_some(Fit { captures, prefix }))
    }

    fn values<'a>(&self, fit: &'a Fit, looked: &'a Looked<'_>, verdict: &'a Verdict<'_>) -> Values<'a> {
        let rest = looked.path.get(fit.prefix..).unwrap_or_default();
        Values {
            captures: &fit.captures,
            rest: rest.strip_prefix(b"/").unwrap_or(rest),
            path: looked.path,
            query: verdict.query.as_deref().unwrap_or(looked.asked.query),
            host: looked.asked.host,
        }
    }
}
