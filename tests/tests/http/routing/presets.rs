//! Presets beside what the makers of the applications document for nginx: one nginx with PHP-FPM, and one Reprise, over the
//! same trees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::disguises::disguises;
use tests::peer::Fpm;
use tests::server::{Directory, Server, program};
use tests::{Client, Response, Setup};

use super::differences::{Body, Pair, Seen, is_for_robots};
use super::documented::{SITES, Site};
use super::planted::{detours, escaped, evenly, plain, plant, urls};

/// A connection that is made anew when the server has closed it, as nginx does after what it calls a bad request.
struct Connection {
    port: u16,
    client: Client,
}

impl Connection {
    fn new(port: u16) -> Connection {
        Connection { port, client: Client::new(port) }
    }

    fn ask(&mut self, host: &str, target: &[u8]) -> Response {
        let head = format!(" HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let request = [b"GET ", target, head.as_bytes()].concat();
        self.client.send(&request).expect("a connection");
        let answer = self
            .client
            .read(false)
            .unwrap_or_else(|error| panic!("{host}{}: {error}", String::from_utf8_lossy(target)));
        if answer.header("connection") == Some("close") {
            self.client = Client::new(self.port);
        }
        answer
    }
}

/// Both servers over the trees of all applications.
struct Both {
    roots: Vec<(&'static Site, PathBuf)>,
    nginx: Connection,
    ours: Connection,
    /// What nginx gives for a file or a script by its own name.
    by_name: HashMap<(&'static str, String), Seen>,
    _server: Server,
    _fpm: Fpm,
    _directory: Directory,
}

impl Both {
    fn start() -> Both {
        let directory = Directory::new();
        let roots: Vec<(&Site, PathBuf)> = SITES.iter().map(|site| (site, plant(&directory.0, site))).collect();
        let sites: Vec<_> = roots.iter().map(|(site, root)| (host(site), root.as_path(), site.nginx)).collect();
        let fpm = Fpm::with_sites(&sites);
        let mut setup = Setup::empty().application("hosts = [\"none.example\"]");
        for (site, root) in &roots {
            let (name, root) = (site.name, root.display());
            // Beside each one without a preset, which says what is denied anyway.
            for (name, host, preset) in [(name.to_owned(), host(site), name), (format!("{name}-bare"), bare(site), "")]
            {
                setup = setup.another(&format!(
                    "name = \"{name}\"\nroot = \"{root}\"\nhosts = [\"{host}\"]\nworkers = 1\npreset = \"{preset}\""
                ));
            }
        }
        let server = setup.start();
        let (nginx, ours) = (Connection::new(fpm.port), Connection::new(server.port));
        Both { roots, nginx, ours, by_name: HashMap::new(), _server: server, _fpm: fpm, _directory: directory }
    }

    /// Whether nginx gives what Reprise has given, if it is asked for it by its own name.
    fn is_given(&mut self, site: &'static Site, seen: &Seen) -> bool {
        let path = match &seen.body {
            Body::None => return true,
            Body::Source => return false,
            // What lies there is published on purpose; some of the documented rules forget it.
            Body::File(path) if path.starts_with("/.well-known/") => return true,
            Body::File(path) if is_for_robots(path) => return true,
            Body::File(path) | Body::Script(path, ..) => path,
        };
        let nginx = &mut self.nginx;
        let by_name = self
            .by_name
            .entry((site.name, path.clone()))
            .or_insert_with(|| Seen::of(&nginx.ask(&host(site), escaped(path).as_bytes())));
        match (&by_name.body, &seen.body) {
            (Body::File(theirs), Body::File(own)) => theirs == own,
            (Body::Script(theirs, ..), Body::Script(own, ..)) => theirs == own,
            _ => false,
        }
    }
}

fn host(site: &Site) -> String {
    format!("{}.example", site.name)
}

fn bare(site: &Site) -> String {
    format!("{}.bare.example", site.name)
}

/// What was asked, why answers differ that may, and answers that may not.
#[derive(Default)]
struct Findings {
    asked: BTreeMap<&'static str, usize>,
    reasons: BTreeMap<(&'static str, &'static str), BTreeSet<String>>,
    wrong: Vec<String>,
}

impl Findings {
    /// Asks both servers for a target.
    fn compare(&mut self, both: &mut Both, site: &'static Site, root: &Path, target: &[u8]) {
        *self.asked.entry(site.name).or_default() += 1;
        let host = host(site);
        let nginx = Seen::of(&both.nginx.ask(&host, target));
        let ours = Seen::of(&both.ours.ask(&host, target));
        let url = String::from_utf8_lossy(target).into_owned();
        if !both.is_given(site, &ours) {
            self.wrong.push(format!("{host}{url}: sent: nginx {nginx:?}, Reprise {ours:?}"));
        } else if nginx != ours {
            let path = plain(&url);
            let is_there = root.join(&path[1..]).is_file();
            let is_denied_anyway = ours.is_refusal() && {
                let answer = both.ours.ask(&bare(site), target);
                answer.status == 403 && answer.header("reprise-refused") == Some("denied")
            };
            let pair = Pair { site, path: &path, is_there, nginx: &nginx, ours: &ours, is_denied_anyway };
            match pair.reason() {
                Some(reason) => drop(self.reasons.entry((site.name, reason)).or_default().insert(path)),
                None => self.wrong.push(format!("{host}{url}: nginx {nginx:?}, Reprise {ours:?}")),
            }
        }
    }

    /// Says what differed, and fails if something did that may not.
    fn judge(self) {
        println!("{:?}", self.asked);
        for ((site, reason), paths) in &self.reasons {
            // All default denials, and an example of the others.
            let shown = if *reason == "default denial" { paths.len() } else { 1 };
            let shown: Vec<String> = paths.iter().take(shown).map(|path| path.escape_debug().to_string()).collect();
            println!("{site}: {reason}: {}: {}", paths.len(), shown.join(" "));
        }
        // Some of each application.
        let mut shown = BTreeMap::<_, usize>::new();
        let first = self.wrong.iter().filter(|line| {
            let count = shown.entry(line.split('.').next()).or_default();
            *count += 1;
            *count <= 30
        });
        let text = first.cloned().collect::<Vec<_>>().join("\n");
        assert!(self.wrong.is_empty(), "{} of {:?}\n{text}", self.wrong.len(), self.asked);
    }
}

/// Every preset beside the documented configuration.
#[test]
fn presets_answer_as_the_documented_configurations() {
    let (mut both, mut findings) = (Both::start(), Findings::default());
    let most = tests::amount(50, 5000);
    for (site, root) in both.roots.clone() {
        let all = urls(&root, site, most);
        assert!(all.len() >= most, "{}: {} URLs", site.name, all.len());
        for url in all {
            findings.compare(&mut both, site, &root, url.as_bytes());
        }
    }
    findings.judge();
}

/// Spellings of what each preset denies, 500 and more in the full run, get nothing of it, nor anything else that nginx denies.
#[test]
fn no_spelling_gets_past_a_preset() {
    let (mut both, mut findings) = (Both::start(), Findings::default());
    for (site, root) in both.roots.clone() {
        let host = host(site);
        for name in site.denied {
            for connection in [&mut both.nginx, &mut both.ours] {
                let seen = Seen::of(&connection.ask(&host, format!("/{name}").as_bytes()));
                let is_it = matches!(&seen.body, Body::File(path) | Body::Script(path, ..) if path[1..] == **name);
                assert!(!is_it, "{host}/{name}: {seen:?}");
            }
        }
        let tricks = site.denied.iter().flat_map(|name| [disguises(name), detours(name)].concat()).collect();
        for target in evenly(tricks, tests::amount(80, usize::MAX)) {
            findings.compare(&mut both, site, &root, &target);
        }
        assert!(findings.asked[site.name] >= tests::amount(80, 500), "{:?}", findings.asked);
    }
    findings.judge();
}

/// A tree says which application it is; `reprise check` says which preset that is and what it denies, and `preset = ""` ends it.
#[test]
fn a_tree_says_which_preset_it_has() {
    let directory = Directory::new();
    for site in SITES.iter().filter(|site| !["symfony", "laravel"].contains(&site.name)) {
        let root = plant(&directory.0, site);
        let config = directory.0.join("r.toml");
        let check = |more: &str| {
            fs::write(&config, format!("[[application]]\nroot = \"{}\"\n{more}\n", root.display())).expect("a file");
            let output =
                Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise check");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        let said = check("");
        assert!(said.contains(&format!("{} (the tree says so)", site.name)), "{said}");
        assert!(said.contains("deny = 40"), "{said}");
        assert!(!check("preset = \"\"").contains("the tree says so"));
        assert!(check("preset = \"wordpres\"").contains("did you mean 'wordpress'?"));
    }
}
