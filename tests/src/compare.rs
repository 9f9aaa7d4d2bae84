//! The same visits to Reprise and to nginx with PHP-FPM. Each side has its own copy of the application, its files and its
//! database, so that what a visit changes changes on both; whatever else differs must be on the [`ClosedList`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::client::encode;
use crate::closed_list::{ClosedList, Pattern, difference};
use crate::installed::{self, install, install_wordpress};
use crate::peer::{Database, Fpm};
use crate::server::Directory;
use crate::{Client, Response, Server, Setup};

/// What visitors call the site.
pub const HOST: &str = "blog.test";

/// An application built by tests/apps/setup.sh.
pub struct Build {
    name: String,
    sites: Cell<usize>,
    directory: Directory,
}

/// Two copies of an application, as it was built.
pub struct Site {
    /// For Reprise.
    pub ours: PathBuf,
    /// For PHP-FPM.
    pub theirs: PathBuf,
}

impl Build {
    /// Builds one that needs no database.
    pub fn new(name: &str) -> Build {
        let (directory, _) = install(name, "1", |_| {});
        Build { name: name.to_owned(), sites: Cell::new(0), directory }
    }

    /// Builds WordPress.
    pub fn wordpress() -> (Database, Build) {
        let (database, directory, _) = install_wordpress();
        (database, Build { name: "wordpress".to_owned(), sites: Cell::new(0), directory })
    }

    /// Two new copies.
    pub fn site(&self) -> Site {
        let number = self.sites.replace(self.sites.get() + 2);
        Site { ours: self.copy(number + 1), theirs: self.copy(number + 2) }
    }

    fn copy(&self, number: usize) -> PathBuf {
        let place = |number: usize| self.directory.0.join(number.to_string());
        installed::copy(&self.name, &place(0), &place(number));
        place(number).join(&self.name)
    }
}

/// A visitor with a cookie jar and a kept connection.
pub struct Visitor {
    port: u16,
    client: Client,
    /// By name.
    pub cookies: BTreeMap<String, String>,
    host: &'static str,
    /// What the pages know it by.
    pub mark: Option<&'static str>,
}

impl Visitor {
    /// One that was never here.
    pub fn new(port: u16) -> Visitor {
        Visitor { port, client: Client::new(port), cookies: BTreeMap::new(), host: HOST, mark: None }
    }

    /// One whom the pages of `host` know by `mark`: sent as a header and a cookie with each request.
    pub fn marked(port: u16, host: &'static str, mark: &'static str) -> Visitor {
        Visitor { host, mark: Some(mark), ..Visitor::new(port) }
    }

    /// Takes a new connection: who has been away for long finds the old one closed.
    pub fn reconnect(&mut self) {
        self.client = Client::new(self.port);
    }

    /// A GET.
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    /// A POST of a form.
    pub fn post_form(&mut self, path: &str, form: &[(&str, &str)]) -> Response {
        let body: Vec<String> =
            form.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        self.request("POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], body.join("&").as_bytes())
    }

    /// Any request, with the cookies that were set before.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mark = self.mark.map(|mark| format!("mark={mark}"));
        let jar = mark.into_iter().chain(self.cookies.iter().map(|(name, value)| format!("{name}={value}")));
        let jar = jar.collect::<Vec<_>>().join("; ");
        let mut headers = headers.to_vec();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            headers.push(("Host", self.host));
        }
        headers.extend(self.mark.map(|mark| ("X-Mark", mark)));
        if !jar.is_empty() {
            headers.push(("Cookie", &jar));
        }
        let answer = self.client.request(method, path, &headers, body);
        for cookie in answer.all("set-cookie") {
            let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            if cookie.to_ascii_lowercase().contains("max-age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

/// Reprise and nginx with PHP-FPM, each with a visitor.
pub struct Pair {
    /// Reprise's visitor.
    pub ours: Visitor,
    /// PHP-FPM's.
    pub theirs: Visitor,
    /// Reprise.
    pub reprise: Server,
    fpm: Fpm,
    list: ClosedList,
    pages: usize,
    flows: usize,
    answers: usize,
    within: String,
}

impl Pair {
    /// Starts both; `configure` adds to Reprise's configuration.
    pub fn start(site: &Site, root: &str, patterns: &[&[Pattern]], configure: impl Fn(Setup) -> Setup) -> Pair {
        let fpm = Fpm::start(&site.theirs.join(root));
        let reprise = configure(Setup::root(&site.ours.join(root))).start();
        let (ours, theirs) = (Visitor::new(reprise.port), Visitor::new(fpm.port));
        let list = ClosedList::new(patterns);
        Pair { ours, theirs, reprise, fpm, list, pages: 0, flows: 0, answers: 0, within: String::new() }
    }

    /// Where Reprise and nginx listen.
    pub fn ports(&self) -> [u16; 2] {
        [self.reprise.port, self.fpm.port]
    }

    /// What else may differ in what comes now: so nothing that was compared before was compared less closely.
    pub fn allow(&mut self, patterns: &[Pattern]) {
        self.list.add(patterns);
    }

    /// Two visitors that have not been here yet.
    pub fn forget(&mut self) {
        self.ours = Visitor::new(self.reprise.port);
        self.theirs = Visitor::new(self.fpm.port);
    }

    /// A GET of the same page by visitors without cookies.
    pub fn page(&mut self, path: &str, status: u16) -> Response {
        self.request(path, status, |visitor| visitor.get(path))
    }

    /// Pages that answer 200.
    pub fn pages(&mut self, paths: &[&str]) {
        for path in paths {
            self.page(path, 200);
        }
    }

    /// Any single request by visitors without cookies.
    pub fn request(&mut self, what: &str, status: u16, visit: impl Fn(&mut Visitor) -> Response) -> Response {
        self.forget();
        self.within.clear();
        self.pages += 1;
        let answer = self.same(what, visit);
        assert_eq!(answer.status, status, "{what}: {:.2000}", answer.text());
        answer
    }

    /// Begins a flow of several visits by the same two new visitors.
    pub fn flow(&mut self, name: &str) {
        self.forget();
        self.go_on(name);
    }

    /// Begins a flow with the visitors there are.
    pub fn go_on(&mut self, name: &str) {
        self.within = format!("{name}: ");
        self.flows += 1;
    }

    /// A GET within a flow.
    pub fn get(&mut self, path: &str) -> Response {
        self.same(path, |visitor| visitor.get(path))
    }

    /// The same visit to both; panics unless status, headers and body are the same. Returns Reprise's answer.
    pub fn same(&mut self, what: &str, visit: impl Fn(&mut Visitor) -> Response) -> Response {
        let answers = [visit(&mut self.ours), visit(&mut self.theirs)];
        let [ours, _] = self.compare(what, answers);
        ours
    }

    /// Opens a page with a form and sends it, with what `find` finds in each side's page: its token, mostly.
    pub fn submit(
        &mut self,
        what: &str,
        path: &str,
        find: impl Fn(&str) -> String,
        send: impl Fn(&mut Visitor, &str) -> Response,
    ) -> Response {
        let pages = [self.ours.get(path), self.theirs.get(path)];
        let [a, b] = self.compare(&format!("{what}: its form"), pages).map(|page| find(&page.text()));
        let answers = [send(&mut self.ours, &a), send(&mut self.theirs, &b)];
        let [ours, _] = self.compare(what, answers);
        ours
    }

    fn compare(&mut self, what: &str, answers: [Response; 2]) -> [Response; 2] {
        let what = format!("{}{what}", self.within);
        let [ours, theirs] = &answers;
        let line = |answer: &Response| format!("{} {}", answer.status, answer.reason);
        assert_eq!(
            line(ours),
            line(theirs),
            "{what}: Reprise, PHP-FPM\n{:.2000}\n{:.2000}",
            ours.text(),
            theirs.text()
        );
        let [left, right] = [ours, theirs].map(|answer| self.list.headers(answer).join("\n"));
        assert!(left == right, "{what}: headers differ\n--- Reprise\n{left}\n--- PHP-FPM\n{right}");
        let [left, right] = [ours, theirs].map(|answer| self.list.body(&answer.body));
        assert!(left == right, "{what}: bodies differ at {}", difference(&left, &right));
        self.answers += 1;
        answers
    }

    /// Both directories hold the same files with the same bytes.
    pub fn same_files(&mut self, ours: &Path, theirs: &Path) -> Vec<String> {
        let [left, right] = [files(ours, ours), files(theirs, theirs)];
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&left), names(&right), "files of Reprise, of PHP-FPM");
        assert!(left == right, "files of the same names differ: {:?}", names(&left));
        names(&left)
    }

    /// Prints what was compared, and the closed list. Returns Reprise's log.
    pub fn report(&self, name: &str) -> String {
        println!("{name}: {} pages, {} flows, {} answers: the same", self.pages, self.flows, self.answers);
        assert!(self.pages + self.flows >= 20 && self.flows >= 3, "{name}: too little to compare");
        self.list.report(name);
        self.reprise.log()
    }
}

fn files(top: &Path, directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            found.extend(files(top, &entry));
        } else {
            let name = entry.strip_prefix(top).expect("a path below it").display().to_string();
            found.insert(name, fs::read(&entry).expect("a file"));
        }
    }
    found
}

/// What stands between two texts of a page.
pub fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    let rest = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("no {after} behind {before}")).0
}

/// Finds the value of a field in a page.
pub fn value(name: &str) -> impl Fn(&str) -> String {
    let before = format!("name=\"{name}\" value=\"");
    move |page| between(page, &before, "\"").to_owned()
}
