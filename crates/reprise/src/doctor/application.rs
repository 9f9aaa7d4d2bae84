//! What is looked at of one application.

use std::path::Path;

use control::status::Opcache;
use serde_json::Value;
use supervisor::os::programs::PhpVersion;
use supervisor::os::user::{self, Identity};

use super::changes::Changes;
use super::compatible::{self, Spoken};
use super::composer::{self, Platform};
use super::exposed::{self, Users};
use super::findings::{Area, Check, Finding, Place, Severity, counted};
use super::fitting;
use super::host::{self, System, Tuned};
use super::htaccess;
use super::kept::{self, Modes};
use super::printed::Looked;
use super::progress::Progress;
use super::reading::{self, Names, Reader, Script, Told, Wanted};
use super::rights;
use super::secrets;
use super::symbols::Symbols;
use super::tree::{self, Entry, Tree};
use super::unknown;
use crate::exit::Failure;
use crate::installed::Php;
use crate::options::{Application, Config};
use crate::people::People;
use crate::plan;
use crate::survey;

/// What is known of an application before it is looked at.
pub struct Known<'a> {
    /// Its place in the configuration.
    pub number: usize,
    /// Its options.
    pub application: &'a Application,
    /// The whole configuration.
    pub config: &'a Config,
    /// Its file.
    pub config_file: Option<&'a Path>,
    /// The directory that the user has named.
    pub named: Option<&'a Path>,
    /// The PHP that runs it.
    pub php: Option<&'a Php>,
    /// Users and entries, if they could be found.
    pub people: Option<&'a People>,
    /// The front's user.
    pub front: Option<&'a Identity>,
    /// The command lines of PHP.
    pub readers: &'a [Reader],
    /// What to look at.
    pub areas: &'a [Area],
    /// The machine.
    pub system: &'a System,
    /// What the running server says of its opcache.
    pub opcache: Option<&'a Opcache>,
    /// Whether paths have to say which application they belong to.
    pub has_others: bool,
}

/// What was seen.
pub struct Seen {
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was looked at.
    pub looked: Looked,
    /// PHP's settings.
    pub settings: Tuned,
}

impl Known<'_> {
    /// Looks at it.
    pub fn look(&self) -> Result<Seen, Failure> {
        let application = self.application;
        let tree = tree::walk(&tree::base(&application.root, self.named));
        let user = self.user();
        let mut findings = Vec::new();
        let settings = host::look_at_settings(self.system, application, self.php);
        let symbols = self.php.and_then(|php| match Symbols::ask(application, user.as_ref(), php) {
            Ok(symbols) => symbols,
            Err(why) => {
                findings.push(Finding::new(Check::NoPhp, why.to_string(), "correct what PHP's message names"));
                None
            }
        });
        let loaded = symbols.as_ref().map(|symbols| &symbols.extensions);
        let mut looked = Looked {
            application: application.name.clone(),
            tree: application.root.shown_base(&tree.base),
            php: self.php.map(|php| php.version.clone()),
            user: user.as_ref().map(|user| user.name.clone()),
            scripts: tree.scripts().count(),
            files: tree.entries.iter().filter(|entry| !entry.is_directory).count(),
            htaccess: tree.entries.iter().filter(|entry| entry.path.ends_with(".htaccess")).count(),
            compiled_by: Vec::new(),
            opcache: self.opcache.cloned(),
            left_out: left_out(&tree),
        };
        let (entries, large): (Vec<&Entry>, Vec<&Entry>) =
            tree.scripts().partition(|entry| entry.size <= tree::MOST_BYTES);
        let names: Vec<String> = entries.iter().map(|entry| entry.name()).collect();
        let changes = Changes::read();
        let has = symbols.as_ref().map_or(Value::Null, Symbols::names);
        let wanted = Names { changed: changes.names(), has };
        let is_code = [Area::Version, Area::Worker, Area::Deployment].iter().any(|area| self.areas.contains(area));
        // What is unpacked of a phar is for the front alone.
        let reader = self.front.filter(|_| application.root.phar().is_some());
        let spoken = if is_code {
            self.read(&tree, &entries, reader.or(user.as_ref()), &wanted, &mut findings)?
        } else {
            Vec::new()
        };
        looked.compiled_by = spoken.iter().map(|one| format!("PHP {}", one.reader.release)).collect();
        let told: &[Told] = spoken.first().map_or(&[], |one| &one.told);
        if self.areas.contains(&Area::Version) {
            let large = large.iter().map(|entry| Place::new(&entry.path, 0, format!("{} MB", entry.size >> 20)));
            let large: Vec<Place> = large.collect();
            if !large.is_empty() {
                let what = format!("{} larger than {} MB not read", large.len(), tree::MOST_BYTES >> 20);
                findings.push(Finding::new(Check::Unread, what, "php -l FILE checks one").at(large));
            }
            let runs = self.php.map(|php| php.minor).or(application.php.as_ref().map(|wanted| wanted.version));
            let facts = compatible::Facts { names: &names, spoken: &spoken, runs, symbols: symbols.as_ref() };
            findings.extend(compatible::judge(&facts, &changes));
            if let Some(php) = self.php {
                let file = |entry: &Entry| Some(entry.path.file_name()?.to_string_lossy().into_owned());
                let files = tree.entries.iter().filter(|entry| !entry.is_directory).filter_map(file).collect();
                findings.extend(unknown::judge(&names, told, &files, &tree.base, &php.version));
            }
            findings.extend(self.without_reader(runs));
        }
        if self.areas.contains(&Area::Worker) {
            findings.extend(kept::judge(&names, told, &self.modes(told)));
        }
        if self.areas.contains(&Area::Deployment) {
            let platform = self.php.map(|php| Platform {
                release: &php.version,
                version: php.minor.to_string(),
                extensions: loaded,
            });
            let secrets = secrets::find(&tree);
            findings.extend(composer::judge(&tree.base, platform.as_ref()));
            // Without root PHP runs as this user.
            let own = || user::current().and_then(|user| Identity::named(&user.name).ok());
            let runs = user.clone().or_else(own);
            findings.extend(rights::judge(&tree, runs.as_ref(), &secrets));
            findings.extend(unreadable(&names, told));
            findings.extend(self.surveyed());
            let front = plan::front_applications(self.config)?;
            if let Some(front) = front.get(self.number) {
                let users = Users { front: self.front, php: runs.as_ref() };
                findings.extend(exposed::judge(&tree, &application.root, front, &users, &names, told, &secrets));
                findings.extend(htaccess::judge(&tree, &application.root, front, &users));
            }
            findings.extend(fitting::judge(&tree, application));
        }
        if let Some(php) = self.php.filter(|_| self.areas.contains(&Area::Host)) {
            let bytes = entries.iter().map(|entry| entry.size).sum();
            let scripts = (entries.len(), bytes);
            let judged = host::judge_settings(&settings, self.number, scripts, loaded, php, self.opcache);
            findings.extend(judged);
        }
        for finding in &mut findings {
            // Only a file that describes this application is changed.
            let own =
                application.places.of("").and_then(|place| place.rsplit_once(':').map(|(file, _)| file.to_owned()));
            let is_own = self.config_file.zip(own).is_some_and(|(file, own)| file == Path::new(&own));
            finding.fix = finding.fix.take().filter(|_| is_own);
            if let Some(fix) = &mut finding.fix {
                fix.application = self.number;
            }
            let is_below = |place: &&mut Place| self.has_others && tree.base.join(&place.file).exists();
            for place in finding.evidence.iter_mut().filter(is_below) {
                place.file = tree.base.join(&place.file).display().to_string();
            }
        }
        Ok(Seen { findings, looked, settings })
    }

    /// The user that PHP runs as; as root, never root.
    fn user(&self) -> Option<Identity> {
        let chosen = self.people.and_then(|people| people.applications.get(self.number)?.as_ref());
        if let Some((user, _)) = chosen {
            return Some(user.clone());
        }
        if !user::is_root() {
            return None;
        }
        let found = user::for_application(self.application.user.as_deref(), self.application.root.own()).ok().flatten();
        found.map(|(user, _)| user).or_else(|| Identity::named("nobody").ok())
    }

    /// Has each PHP read the scripts. The one that runs the application comes first, and looks at tokens.
    fn read(
        &self,
        tree: &Tree,
        entries: &[&Entry],
        user: Option<&Identity>,
        names: &Names,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Spoken>, Failure> {
        if user.is_none() && user::is_root() {
            let what = "there is no user that could read the scripts: PHP does not run as root";
            findings.push(Finding::new(Check::Users, what, "name a user (user = \"…\")"));
            return Ok(Vec::new());
        }
        let scripts: Vec<Script> =
            entries.iter().map(|entry| Script { path: tree.whole(entry), size: entry.size }).collect();
        let own = self.php.map(|php| php.minor);
        let mut readers: Vec<&Reader> = self.readers.iter().collect();
        readers.sort_by_key(|reader| Some(reader.version) != own);
        if !self.areas.contains(&Area::Version) {
            readers.truncate(1);
        }
        let mut spoken: Vec<Spoken> = Vec::new();
        for reader in readers {
            let wanted = Wanted { names: spoken.is_empty().then_some(names), user };
            let progress = Progress::new(format!("PHP {} reads scripts", reader.release), scripts.len());
            match reading::read(reader, &scripts, &wanted, &progress) {
                Ok(told) => spoken.push(Spoken { reader: reader.clone(), told }),
                Err(why) => {
                    let finding =
                        Finding::new(Check::NoPhp, why.to_string(), "install what is missing, then ask again");
                    findings.push(finding.but(Severity::Warning));
                }
            }
        }
        Ok(spoken)
    }

    /// That the PHP which runs the application cannot compile its scripts here.
    fn without_reader(&self, runs: Option<PhpVersion>) -> Option<Finding> {
        let runs = runs.filter(|runs| self.readers.iter().all(|reader| reader.version != *runs))?;
        let what =
            format!("PHP {runs} runs the application, and its command line is not installed: it has compiled nothing");
        let action = format!("apt-get install php{runs}-cli");
        Some(Finding::new(Check::NoPhp, what, action).but(Severity::Warning))
    }

    /// Whether scripts run in loops or from snapshots.
    fn modes(&self, told: &[Told]) -> Modes {
        let calls = |names: &[&str]| {
            told.iter()
                .flat_map(|told| &told.facts)
                .any(|(what, _, _, detail)| what == "call" && names.contains(&detail.as_str()))
        };
        let entries = self.people.and_then(|people| people.entries.get(self.number));
        let has = |is_worker: bool| {
            entries.is_some_and(|entries| entries.iter().any(|entry| entry.is_worker_mode == is_worker))
        };
        Modes {
            has_worker: has(true)
                || (entries.is_none() && calls(&["reprise_handle_request", "frankenphp_handle_request"])),
            has_snapshot: has(false) || calls(&["reprise_snapshot"]),
        }
    }

    /// Directories that the front cannot enter, and symbolic links that it does not follow.
    fn surveyed(&self) -> Vec<Finding> {
        let application = plan::front_application(self.application);
        let found = survey::look(&application, self.front, std::time::Duration::from_secs(5));
        let mut findings = Vec::new();
        if let Some(text) = found.closed(self.front.map_or("this user", |user| user.name.as_str())) {
            let action = "chmod o+rx, or another front_user";
            findings.push(Finding::new(Check::Closed, text, action).but(Severity::Warning));
        }
        if !found.links.is_empty() {
            let what = format!("{} that the front does not follow", counted(found.links.len(), "symbolic link"));
            let places = found.links.iter().map(|(_, refused)| Place::new(&refused.link, 0, refused.to_string()));
            let action = "remove them, or do what the text of each says";
            findings.push(Finding::new(Check::Links, what, action).at(places));
        }
        findings
    }
}

/// What was not looked at in a tree.
fn left_out(tree: &Tree) -> Vec<String> {
    let mut left_out = Vec::new();
    if tree.links > 0 {
        left_out.push(format!("{} to directories: not followed", counted(tree.links, "link")));
    }
    if tree.is_cut {
        left_out.push("a part of the tree: it has more entries or levels than are looked at".to_owned());
    }
    left_out
}

/// Scripts that PHP could not open as the application's user, though their modes may let it.
fn unreadable(names: &[String], told: &[Told]) -> Option<Finding> {
    let place = |(name, told): (&String, &Told)| Some(Place::new(name, 0, told.unreadable.clone()?));
    let places: Vec<Place> = names.iter().zip(told).filter_map(place).collect();
    if places.is_empty() {
        return None;
    }
    let what = format!("PHP could not open {} as the application's user", counted(places.len(), "script"));
    Some(
        Finding::new(Check::Closed, what, "chmod or chown the files and their directories")
            .but(Severity::Warning)
            .at(places),
    )
}
