//! Checks that found nothing, each with the value that it looked at.

use super::findings::{Area, Check, Finding, counted};
use super::host::{System, Tuned};
use super::printed::{Looked, Passed};
use crate::isolation;
use crate::options::Config;

/// What has been looked at.
pub struct Seen<'a> {
    pub config: &'a Config,
    pub system: &'a System,
    pub isolation: Option<&'a isolation::Finding>,
    pub looked: &'a [Looked],
    pub settings: &'a [Tuned],
}

/// The checks of these areas that have found nothing, in the order of the report.
pub fn list(areas: &[Area], findings: &[Finding], seen: &Seen<'_>) -> Vec<Passed> {
    let is_passed = |check: &&Check| {
        areas.contains(&check.row().area) && findings.iter().all(|finding| finding.id != check.row().id)
    };
    let passed = |check: &Check| Passed { id: check.row().id, area: check.row().area, value: seen.value(*check) };
    Check::ALL.iter().filter(is_passed).map(passed).collect()
}

impl Seen<'_> {
    /// What a check has seen.
    fn value(&self, check: Check) -> String {
        let scripts = |looked: &Looked| counted(looked.scripts, "script");
        let by = |looked: &Looked| looked.php.as_ref().map_or("no PHP".to_owned(), |php| format!("PHP {php}"));
        let user = |looked: &Looked| looked.user.clone().unwrap_or_else(|| "this user".to_owned());
        match check {
            Check::NoPhp => self.each(|looked| format!("{} runs it", by(looked))),
            Check::Syntax | Check::CompilerSays => {
                self.each(|looked| format!("{}, compiled by {}", scripts(looked), looked.compiled_by.join(", ")))
            }
            Check::Unread => self.each(|looked| format!("{}, all read to their ends", scripts(looked))),
            Check::Removed | Check::Added | Check::Deprecated => {
                self.each(|looked| format!("names in {}, by the tables of PHP 5.4 to 8.6", scripts(looked)))
            }
            Check::Missing => {
                self.each(|looked| format!("names in {}, by what {} and the tree have", scripts(looked), by(looked)))
            }
            Check::Exit
            | Check::Statics
            | Check::StaticProperties
            | Check::Globals
            | Check::Handlers
            | Check::Held
            | Check::Random
            | Check::Captured => self.each(scripts),
            Check::Users => self.each(|looked| format!("PHP runs as {}", user(looked))),
            Check::Lock | Check::Platform | Check::Extension => self.each(|looked| {
                let files = ["composer.lock", "composer.json"];
                let base = std::path::Path::new(&looked.tree);
                let file = files.iter().find(|file| base.join(file).is_file());
                file.map_or_else(|| "there is no composer.json".to_owned(), |file| format!("{file}, by {}", by(looked)))
            }),
            Check::Closed => self.each(|looked| format!("{}, for {}", scripts(looked), user(looked))),
            Check::Writable | Check::Secret | Check::Links => self.each(|looked| counted(looked.files, "file")),
            Check::Reachable | Check::Shown => {
                self.each(|looked| format!("{}, asked of the routing", counted(looked.files, "file")))
            }
            Check::Htaccess => self.each(|looked| counted(looked.htaccess, ".htaccess file")),
            Check::Preset => self.of_applications(|application| match application.preset.as_deref() {
                Some("") | None => "no preset, and none fits".to_owned(),
                Some(name) => format!("preset = \"{name}\""),
            }),
            Check::Denials => {
                self.of_applications(|application| format!("default_denials = {}", application.default_denials))
            }
            Check::Rewind => self.isolation.map_or("not asked: no PHP or no user".to_owned(), |isolation| {
                format!("isolation: {}", isolation.text)
            }),
            Check::Opcache => self.settings_of(&[
                "opcache.enable",
                "opcache.memory_consumption",
                "opcache.max_accelerated_files",
                "opcache.interned_strings_buffer",
            ]),
            Check::Jit => self.settings_of(&["opcache.jit_buffer_size"]),
            Check::RealpathCache => self.settings_of(&["realpath_cache_size"]),
            Check::Memory => {
                let workers = self.of_applications(|application| counted(application.workers(), "worker"));
                format!(
                    "{workers}, {}, {}",
                    self.settings_of(&["memory_limit"]),
                    self.line("/proc/meminfo", "MemTotal:")
                )
            }
            Check::Swappiness => {
                format!(
                    "vm.swappiness = {}, {}",
                    self.read("/proc/sys/vm/swappiness"),
                    self.line("/proc/meminfo", "SwapTotal:")
                )
            }
            Check::HugePages => self.read("/sys/kernel/mm/transparent_hugepage/enabled"),
            Check::Backlog => format!("net.core.somaxconn = {}", self.read("/proc/sys/net/core/somaxconn")),
            Check::Files => self.line("/proc/self/limits", "Max open files"),
            Check::Atime => self.each(|looked| format!("the file system of {}", looked.tree)),
            Check::Tmpfs => "/run".to_owned(),
            Check::Time => "a program that sets the clock runs, or the host of this container sets it".to_owned(),
            Check::Services => "no other server of HTTP or PHP runs".to_owned(),
            Check::Port => self.config.listen.join(", "),
        }
    }

    /// Of each application; with its name if there are several.
    fn each(&self, value: impl Fn(&Looked) -> String) -> String {
        let with_name = |looked: &Looked| match self.looked.len() {
            1 => value(looked),
            _ => format!("{}: {}", looked.application, value(looked)),
        };
        self.looked.iter().map(with_name).collect::<Vec<_>>().join("; ")
    }

    fn of_applications(&self, value: impl Fn(&crate::options::Application) -> String) -> String {
        self.config.applications.iter().map(value).collect::<Vec<_>>().join("; ")
    }

    fn settings_of(&self, names: &[&str]) -> String {
        let of = |tuned: &Tuned| {
            names.iter().map(|name| format!("{name} = {}", tuned.get(name))).collect::<Vec<_>>().join(", ")
        };
        let mut all: Vec<String> = self.settings.iter().map(of).collect();
        all.dedup();
        all.join("; ")
    }

    fn read(&self, path: &str) -> String {
        self.system.read(path).unwrap_or_else(|| format!("{path} is not there"))
    }

    /// The line of a file that begins so, with single spaces.
    fn line(&self, path: &str, start: &str) -> String {
        let text = self.system.read(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or(start);
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
