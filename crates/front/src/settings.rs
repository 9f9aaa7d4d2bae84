//! What the front is told by the supervisor: resolved, checked, with absolute paths. Descriptors are numbers of files
//! the supervisor has opened for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Descriptors of the listeners and what they are.
    pub listeners: Vec<Listener>,
    /// Descriptor of the access log, if there is one.
    pub access_log: Option<i32>,
    /// Threads.
    pub threads: usize,
    /// Limits.
    pub limits: Limits,
    /// In the supervisor's order.
    pub applications: Vec<Application>,
}

/// A listening socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listener {
    /// Its descriptor.
    pub descriptor: i32,
    /// Whether it is a unix socket.
    pub unix: bool,
}

/// Limits and time-outs; times in milliseconds. docs/configuration.md has the defaults.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Time for a request head, and idle time of a kept connection.
    pub header_timeout_ms: u64,
    /// Time between two parts of a request body.
    pub body_timeout_ms: u64,
    /// Time in which a client must take some of its answer.
    pub send_timeout_ms: u64,
    /// Connections at once.
    pub max_connections: usize,
}

/// One application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Application {
    /// For messages and logs.
    pub name: String,
    /// Document root, absolute and resolved.
    pub root: PathBuf,
    /// Other directories that symbolic links in the root may lead to, resolved.
    pub follow: Vec<PathBuf>,
    /// Path of the front controller below the root, for example `index.php`.
    pub front_controller: Option<String>,
    /// Lower-case host names; `*.example` for all below. Empty: any.
    pub hosts: Vec<String>,
    /// Requests at once, waiting ones included.
    pub max_requests: usize,
    /// How long a request may wait for a worker.
    pub queue_timeout_ms: u64,
    /// How long PHP may take for a request; 0: for ever.
    pub request_timeout_ms: u64,
    /// Bytes of body; `None`: what PHP's post_max_size says.
    pub max_body: Option<u64>,
}
