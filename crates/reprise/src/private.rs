//! What makes a server one that only `reprise verify --php` reaches: it has another server's configuration and another PHP, all runs in classic mode,
//! and it listens on a socket in a directory of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use routing::settings::Network;

use crate::exit::{Code, Failure};
use crate::options::{Acme, Application, Config, Mode, Options};

/// Workers: verify makes one request at a time, and a page may make a request to itself.
const WORKERS: usize = 4;
/// How long its end waits for requests.
const DRAIN: Duration = Duration::from_secs(2);

/// Where it listens.
pub fn socket(directory: &Path) -> PathBuf {
    directory.join("front.sock")
}

/// Its state directory.
pub fn state_dir(directory: &Path) -> PathBuf {
    directory.join("state")
}

/// What makes a server one of `reprise verify --php`.
pub struct Private {
    /// Of its user alone. The server's socket and its state are there.
    pub directory: PathBuf,
}

impl Private {
    /// Changes a configuration that is complete but for what was checked of several options together: all runs in classic mode, for one client
    /// that says for whom it asks, and nothing goes out but what the application sends by itself.
    pub fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        if let Some(application) = config.applications.iter().find(|one| one.release_pool.is_some()) {
            let why = format!("application '{}' comes from a pool", application.name);
            return Err(Failure::new(Code::Usage, "verify --php", why)
                .hint("verify a server whose root is the directory that the release was built from"));
        }
        config.listen = vec![format!("unix:{}", socket(&self.directory).display())];
        config.admin_listen = Vec::new();
        (config.socket_mode, config.socket_owner, config.socket_group) = (0o600, None, None);
        config.name = "verify".to_owned();
        config.state_dir = Some(state_dir(&self.directory));
        config.access_log = "off".to_owned();
        config.proxy_protocol = vec![Network::Unix];
        (config.certificates, config.acme) = (Vec::new(), Acme::defaults());
        config.front_threads = 1;
        config.drain_timeout = DRAIN;
        config.applications.iter_mut().for_each(in_classic_mode);
        Ok(())
    }
}

fn in_classic_mode(application: &mut Application) {
    application.mode.values_mut().for_each(|mode| *mode = Mode::Classic);
    if let Some(script) = &application.front_controller {
        application.mode.insert(format!("/{script}"), Mode::Classic);
    }
    (application.cache_memory, application.warmup) = (0, Vec::new());
    // Other nodes would get values that another PHP has made.
    (application.data_cache_store, application.data_cache_secret) = (None, None);
    (application.workers, application.min_workers, application.max_workers) = (Some(WORKERS), Some(1), None);
    application.watch = false;
    // PHP's messages come here, where they are collected.
    for (name, value) in [("log_errors", "1"), ("error_log", "")] {
        application.admin_ini.remove(name);
        application.ini.insert(name.to_owned(), value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(application: Application) -> Result<Config, Failure> {
        let mut config = Config { applications: vec![application], ..Config::defaults() };
        (config.listen, config.admin_listen) =
            (vec!["https://0.0.0.0:443".to_owned()], vec!["127.0.0.1:9090".to_owned()]);
        Private { directory: PathBuf::from("/tmp/verify") }.apply(&mut config).map(|()| config)
    }

    /// Nobody but verify reaches it, and it tells nobody anything.
    #[test]
    fn it_listens_to_verify_alone_and_shares_nothing() {
        let text = |text: &str| Some(text.to_owned());
        let mut application = Application { data_cache_store: text("valkey://h:1"), ..Application::defaults() };
        (application.data_cache_secret, application.front_controller) = (text("secret"), text("index.php"));
        application.mode.insert("/other.php".to_owned(), Mode::Worker);
        application.admin_ini.insert("error_log".to_owned(), "/var/log/php.log".to_owned());
        let config = applied(application).expect("it can be changed");
        assert_eq!(config.listen, ["unix:/tmp/verify/front.sock"]);
        assert!(config.admin_listen.is_empty() && config.certificates.is_empty());
        let application = &config.applications[0];
        assert!(application.data_cache_store.is_none() && application.data_cache_secret.is_none());
        assert!(application.mode.len() == 2 && application.mode.values().all(|mode| *mode == Mode::Classic));
        assert!(!application.admin_ini.contains_key("error_log") && application.ini["error_log"].is_empty());
    }

    #[test]
    fn what_comes_from_a_pool_is_refused() {
        let application = Application { release_pool: Some("/pool".to_owned()), ..Application::defaults() };
        assert!(applied(application).is_err_and(|why| why.to_string().contains("comes from a pool")));
    }
}
