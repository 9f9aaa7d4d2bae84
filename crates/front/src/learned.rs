//! What is learned from traffic and has to outlive this process: the supervisor is told it, and keeps it by the names of the applications
//! ([`tell`]). The cache learns which pages are shared ([`crate::stored::known`]). This module learns routes: the pages that visitors who are
//! nobody ask for most often, by which code that is loaded later is warmed up (`learned_routes`).

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use wire::control::FromFront;

use crate::control::Link;
use crate::request::Head;
use crate::settings::Application;

/// Paths of an application that are counted at a time.
const CAPACITY: usize = 1024;
/// Bytes of the longest path that is counted.
const LONGEST: usize = 200;
/// The most paths that are told.
const MOST_TOLD: usize = 256;
/// A page that took longer is not learned: many of them would hold up a boot.
const SLOW: Duration = Duration::from_secs(1);
/// What was asked for less often is not learned.
const LEAST: u32 = 5;
/// Time between two looks at what is asked for most.
const PAUSE: Duration = Duration::from_secs(5);
/// After so long a request counts half.
const HALF: Duration = Duration::from_secs(3600);

/// What pages are: nothing that is sent for as long as its client listens, no pictures, no files.
const PAGES: [&str; 6] = [
    "text/html",
    "application/xhtml+xml",
    "application/json",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
];

/// What is asked for, by the name of the application.
pub struct Learned {
    link: Arc<dyn Link>,
    applications: Mutex<BTreeMap<String, Counts>>,
}

/// How often each path was asked for. Those that are asked for seldom make room for others: when there is none left, all lose one (Misra and
/// Gries), so what is more than one request in [`CAPACITY`] stays.
#[derive(Default)]
struct Counts {
    times: HashMap<String, u32>,
    told: Vec<String>,
    looked: Option<Instant>,
    halved: Option<Instant>,
}

impl Counts {
    fn add(&mut self, path: &str) {
        if let Some(times) = self.times.get_mut(path) {
            *times = times.saturating_add(1);
        } else if self.times.len() < CAPACITY {
            self.times.insert(path.to_owned(), 1);
        } else {
            self.lower(|times| times - 1);
        }
    }

    fn lower(&mut self, by: impl Fn(u32) -> u32) {
        self.times.retain(|_, times| {
            *times = by(*times);
            *times > 0
        });
    }

    /// The paths that are asked for most, in this order, if that is not what was told last.
    fn news(&mut self, most: usize, now: Instant) -> Option<Vec<String>> {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < PAUSE) {
            return None;
        }
        self.looked = Some(now);
        let halved = self.halved.get_or_insert(now);
        let hours = now.duration_since(*halved).as_secs() / HALF.as_secs();
        if hours > 0 {
            *halved = now;
            self.lower(|times| times.checked_shr(hours.try_into().unwrap_or(u32::MAX)).unwrap_or(0));
        }
        let mut all: Vec<(&String, u32)> =
            self.times.iter().map(|(path, times)| (path, *times)).filter(|(_, times)| *times >= LEAST).collect();
        all.sort_unstable_by_key(|(path, times)| (std::cmp::Reverse(*times), *path));
        let first: Vec<String> = all.into_iter().take(most.min(MOST_TOLD)).map(|(path, _)| path.clone()).collect();
        if first.is_empty() || first == self.told {
            return None;
        }
        self.told.clone_from(&first);
        Some(first)
    }
}

impl Learned {
    pub fn new(link: Arc<dyn Link>) -> Learned {
        Learned { link, applications: Mutex::default() }
    }

    /// A page was made for a visitor, whose request came at `began`. `host`: the name that was asked for.
    pub fn count(
        &self,
        application: &Application,
        host: &str,
        request: &Head,
        (status, headers): (StatusCode, &HeaderMap),
        began: Instant,
    ) {
        if application.learned_routes == 0
            || began.elapsed() > SLOW
            || !is_for_all(application, host, request, status, headers)
        {
            return;
        }
        let news = {
            let mut all = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
            let counts = all.entry(application.name.clone()).or_default();
            counts.add(request.target.path());
            // Some of them may be in the warm-up already.
            counts.news(application.learned_routes + application.warmup.len(), Instant::now())
        };
        let told = news.map(|paths| paths.join("\n"));
        told.iter().for_each(|paths| tell(&*self.link, application.generation, false, paths.as_bytes()));
    }
}

/// Tells the supervisor what was learned of the application of a generation. `are_shared`: see [`FromFront::Learned`].
pub fn tell(link: &dyn Link, generation: u32, are_shared: bool, learned: &[u8]) {
    // If there is no descriptor left, the supervisor knows what it was told before.
    let file = rustix::fs::memfd_create("reprise-learned", rustix::fs::MemfdFlags::CLOEXEC);
    let file = file.and_then(|file| rustix::io::pwrite(&file, learned, 0).map(|_| file));
    let message = FromFront::Learned { generation, are_shared };
    file.into_iter().for_each(|file| link.send_with(&message, &[file.as_fd()]));
}

/// Whether a warm-up, which is nobody and asks the first host, would have got the same page.
fn is_for_all(application: &Application, host: &str, request: &Head, status: StatusCode, headers: &HeaderMap) -> bool {
    let is_page = |value: &HeaderValue| {
        let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim_end();
        PAGES.contains(&kind)
    };
    // A stream may never end.
    let ends = headers.get("x-accel-buffering").is_none_or(|value| value != "no");
    let mut said = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let may_be_kept = !said.any(|said| said.to_ascii_lowercase().contains("no-store"));
    let path = request.target.path();
    request.method == Method::GET
        && request.target.query().is_none()
        && path.len() <= LONGEST
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && ![header::COOKIE, header::AUTHORIZATION].iter().any(|name| request.headers.contains_key(name))
        && application.hosts.iter().find(|host| !host.starts_with('*')).is_some_and(|first| first == host)
        && status == StatusCode::OK
        && !headers.contains_key(header::SET_COOKIE)
        && headers.get(header::CONTENT_TYPE).is_some_and(is_page)
        && ends
        && may_be_kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(asked: &[(&str, u32)]) -> Counts {
        let mut counts = Counts::default();
        asked.iter().for_each(|(path, times)| (0..*times).for_each(|_| counts.add(path)));
        counts
    }

    #[test]
    fn what_is_asked_for_most_is_told_when_it_changes() {
        let mut counts = counts(&[("/seldom", LEAST - 1), ("/b", 9), ("/a", 7), ("/c", 8)]);
        let now = Instant::now();
        assert_eq!(counts.news(2, now), Some(vec!["/b".to_owned(), "/c".to_owned()]));
        (0..9).for_each(|_| counts.add("/a"));
        assert_eq!(counts.news(2, now), None, "too early");
        assert_eq!(counts.news(2, now + PAUSE), Some(vec!["/a".to_owned(), "/b".to_owned()]));
        (0..9).for_each(|_| counts.add("/b"));
        let other = ["/b", "/a"].map(str::to_owned);
        assert_eq!(counts.news(2, now + 2 * PAUSE).as_deref(), Some(&other[..]), "in another order");
        let three = ["/b", "/a", "/c"].map(str::to_owned);
        assert_eq!(counts.news(3, now + 3 * PAUSE).as_deref(), Some(&three[..]));
        assert_eq!(counts.news(3, now + HALF).as_deref(), Some(&three[..2]), "the third has halved below the least");
    }

    #[test]
    fn invented_paths_do_not_displace_what_is_asked_for() {
        let mut counts = Counts::default();
        for number in 0..200_000 {
            counts.add(&format!("/invented/{number}"));
            if number % 100 == 0 {
                counts.add("/page");
            }
        }
        assert!(counts.times.len() <= CAPACITY);
        assert_eq!(counts.news(3, Instant::now()), Some(vec!["/page".to_owned()]));
    }

    #[test]
    fn only_pages_of_nobody_count() {
        let application =
            Application { hosts: vec!["*.shop.test".into(), "shop.test".into()], ..Application::default() };
        let asked = |method: &str, target: &str, header: &str| {
            let mut headers = HeaderMap::new();
            if let Some((name, value)) = header.split_once(": ") {
                headers.insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
            }
            Head::new(method.parse().unwrap(), target.parse().unwrap(), http::Version::HTTP_11, headers, None)
        };
        let made = |header: &str| {
            let mut headers = HeaderMap::new();
            for line in header.split('\n') {
                let (name, value) = line.split_once(": ").unwrap();
                headers.insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
            }
            headers
        };
        let html = "content-type: text/html; charset=UTF-8";
        let counts = |host: &str, request: &Head, status: u16, header: &str| {
            is_for_all(&application, host, request, StatusCode::from_u16(status).unwrap(), &made(header))
        };
        let get = asked("GET", "/a", "");
        assert!(counts("shop.test", &get, 200, html));
        assert!(counts("shop.test", &get, 200, "content-type: application/rss+xml"));
        assert!(!counts("a.shop.test", &get, 200, html));
        assert!(!counts("shop.test", &get, 404, html));
        assert!(!counts("shop.test", &get, 200, &format!("{html}\nset-cookie: a=b")));
        let more = ["text/html\nx-accel-buffering: no", "text/html\ncache-control: private, No-Store"];
        for header in ["image/png", "text/event-stream", "text/calendar"].into_iter().chain(more) {
            assert!(!counts("shop.test", &get, 200, &format!("content-type: {header}")), "{header}");
        }
        let patterns = Application { hosts: vec!["*.shop.test".into()], ..Application::default() };
        assert!(!is_for_all(&patterns, "a.shop.test", &get, StatusCode::OK, &made(html)));
        for request in [
            asked("HEAD", "/a", ""),
            asked("POST", "/a", ""),
            asked("GET", "/a?b", ""),
            asked("GET", "/a", "cookie: a=b"),
            asked("GET", "/a", "authorization: Basic YTpi"),
            asked("GET", &format!("/{}", "a".repeat(LONGEST)), ""),
        ] {
            assert!(!counts("shop.test", &request, 200, html), "{} {}", request.method, request.target.path());
        }
    }
}
