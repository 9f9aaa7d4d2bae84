//! What makes a server one of development (`reprise dev`): files are followed, errors are shown in the browser, nothing is cached, and there is
//! no limit that a debugger would run into.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`watcher`], [`watched`], [`ignored`], [`notes`] | the process that watches files |
//! | [`terminal`] | the keys |
//! | [`mail`] | mails that PHP sends, shown in the terminal |
//! | [`local_authority`] | the certificate of `--https` |
//! | [`editor`] | links to the editor in the page of an error |

pub mod editor;
mod ignored;
pub mod local_authority;
pub mod mail;
mod notes;
mod terminal;
mod watched;
pub mod watcher;

use std::path::PathBuf;
use std::time::Duration;

use supervisor::{Console, WatcherDraft};

use crate::exit::{Code, Failure};
use crate::listen;
use crate::options::{Application, Certificate, Config, Options, cpus};
use crate::people::People;

/// Generations that may drain at once: a debugger may hold a request of each.
pub const MAY_DRAIN: usize = 8;
/// How long the end of the server waits for requests.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request that has begun may go on when its files have changed: for as long as somebody looks at it in a debugger.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a request waits for a worker, while all may be held by a debugger.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(600);
/// Workers of a lane that are always there; more start by need.
const LEAST_WORKERS: usize = 2;

/// php.ini settings on which it depends that no response is of old code. Nothing can change them.
const FIXED: [(&str, &str); 7] = [
    ("opcache.validate_timestamps", "1"),
    ("opcache.revalidate_freq", "0"),
    ("opcache.revalidate_path", "1"),
    ("opcache.file_update_protection", "2"),
    ("opcache.file_cache", ""),
    ("opcache.preload", ""),
    ("user_ini.cache_ttl", "0"),
];
/// Those that show what is wrong. The application may change them.
const SHOWN: [(&str, &str); 8] = [
    ("display_errors", "1"),
    ("display_startup_errors", "1"),
    ("error_reporting", "E_ALL"),
    ("html_errors", "1"),
    ("log_errors", "1"),
    ("zend.assertions", "1"),
    ("zend.exception_ignore_args", "0"),
    ("zend.exception_string_param_max_len", "40"),
];

/// What makes a server one of development.
pub struct Dev {
    /// The application's directory, resolved.
    pub directory: PathBuf,
    pub hosts: Vec<String>,
    pub is_public: bool,
    pub ignored: Vec<PathBuf>,
    pub certificates: Option<PathBuf>,
    /// The page of errors, with the link to the editor.
    pub error_page: String,
    pub opens: bool,
}

impl Dev {
    /// Changes a configuration that is complete but for what was checked of several options together.
    pub fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        self.refuse_public(&config.listen)?;
        (config.file_cache_files, config.file_cache_memory) = (0, 0);
        config.drain_timeout = DRAIN_TIMEOUT;
        config.is_dev = true;
        if let Some(directory) = &self.certificates {
            let (chain, key) = (directory.join("site.pem"), directory.join("site.key"));
            config.certificates =
                vec![Certificate { chain, key, place: "--https".to_owned(), ..Certificate::defaults() }];
        }
        let hosts = self.hosts(&config.listen);
        config.applications.iter_mut().try_for_each(|application| self.apply_to(application, &hosts))
    }

    fn apply_to(&self, application: &mut Application, hosts: &[String]) -> Result<(), Failure> {
        application.hosts = hosts.to_vec();
        (application.cache_memory, application.data_cache_memory) = (0, 0);
        (application.precompressed, application.fingerprinted) = (false, Some(Vec::new()));
        application.verify_on_reload = false;
        (application.watch, application.clear_env, application.https_redirect) = (false, false, Some(false));
        let request = &mut application.request;
        (request.request_timeout, request.queue_timeout) = (Duration::ZERO, QUEUE_TIMEOUT);
        let workers = application.workers.unwrap_or((4 * cpus()).max(16));
        application.workers = Some(workers);
        application.min_workers = Some(LEAST_WORKERS.min(workers));
        for (name, value) in FIXED {
            if application.ini.contains_key(name) {
                return Err(Failure::new(
                    Code::Usage,
                    "--ini",
                    format!("{name} is always {value:?} under development"),
                ));
            }
            application.admin_ini.insert(name.to_owned(), value.to_owned());
        }
        for (name, value) in SHOWN {
            application.ini.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        if !application.ini.contains_key("sendmail_path") {
            application.ini.insert("sendmail_path".to_owned(), mail::program()?);
        }
        application.error_page = Some(self.error_page.clone());
        Ok(())
    }

    /// The names that the application answers to, so that no page of the web can read it through a name of its own that leads here.
    /// Empty: any.
    fn hosts(&self, addresses: &[String]) -> Vec<String> {
        if self.is_public && self.hosts.is_empty() {
            return Vec::new();
        }
        let mut hosts = ["localhost", "127.0.0.1", "[::1]", "*.localhost"].map(str::to_owned).to_vec();
        let ip = |address: &String| match listen::resolve(address).ok()?.ip() {
            ip if ip.is_unspecified() => None,
            std::net::IpAddr::V6(ip) => Some(format!("[{ip}]")),
            ip => Some(ip.to_string()),
        };
        hosts.extend(self.hosts.iter().cloned().chain(addresses.iter().filter_map(ip)));
        let mut seen = std::collections::BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        hosts
    }

    /// Other machines are let in only if that was said twice.
    fn refuse_public(&self, addresses: &[String]) -> Result<(), Failure> {
        for address in addresses.iter().filter(|address| !address.starts_with("unix:")) {
            if !self.is_public && !listen::resolve(address)?.ip().is_loopback() {
                let why = "other machines could connect there: they would see the source around each error, stack traces with arguments, \
                    and they could run what is not finished";
                return Err(Failure::new(Code::Usage, format!("--listen {address}"), why)
                    .hint("--public, if that is what you want; 127.0.0.1 otherwise"));
            }
        }
        Ok(())
    }

    /// Sockets that a service manager has opened are refused as public addresses are: nobody has looked where they lead.
    pub fn refuse_handed_over(&self, count: usize) -> Result<(), Failure> {
        if count == 0 || self.is_public {
            return Ok(());
        }
        Err(Failure::new(Code::Usage, "sockets of the service manager", "may be open to other machines")
            .hint("--public, if that is what you want"))
    }

    /// The process that watches files.
    pub fn watcher(&self, people: &People) -> Result<WatcherDraft, Failure> {
        let settings = watcher::Settings { directory: self.directory.clone(), ignored: self.ignored.clone() };
        let settings = serde_json::to_string(&settings);
        let settings = settings.map_err(|error| Failure::new(Code::Internal, "watcher", error))?;
        let user = people.applications.first().and_then(|user| user.as_ref().map(|(user, _)| user.clone()));
        Ok(WatcherDraft { settings, user })
    }

    /// The terminal, if there is one whose keys are for this process.
    pub fn console(&self, url: &str) -> Option<Box<dyn Console>> {
        terminal::Terminal::take(url).map(|terminal| Box::new(terminal) as Box<dyn Console>)
    }

    /// What is said when the server is ready, and done.
    pub fn ready(&self, url: &str, has_keys: bool) {
        if self.is_public {
            supervisor::logs::log::write(
                "warning: --public: other machines can see source and stack traces of errors\n",
            );
        }
        if has_keys {
            supervisor::logs::log::write("keys: r restart, o open the browser, l show requests or not, q quit\n");
        }
        if self.opens {
            if let Err(why) = terminal::open(url) {
                supervisor::logs::log::write(&format!("warning: --open: {why}\n"));
            }
        }
    }
}

/// The address of the first listener, as one types it into a browser.
pub fn url(addresses: &[String]) -> String {
    let first = addresses.iter().find(|address| !address.starts_with("unix:"));
    let named = |url: &String| {
        ["127.0.0.1:", "0.0.0.0:", "[::]:", "[::1]:"]
            .iter()
            .fold(url.clone(), |url, ip| url.replacen(&format!("//{ip}"), "//localhost:", 1))
    };
    first.map_or_else(String::new, named)
}
