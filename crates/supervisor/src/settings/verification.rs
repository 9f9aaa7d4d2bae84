//! What is compared with classic mode before visitors come, and what is found.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long the child may take to compare all pages of an application. It is told less, so that it can say what it has found.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What is to be compared.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// The paths, with the host and further headers of the request.
    pub pages: Vec<VerifiedPage>,
    /// How two users log in, as `POST /login name=anna&password=secret`. Empty: only guests ask. There are passwords in it.
    pub users: Vec<String>,
}

/// A page that is compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifiedPage {
    /// Path and query.
    pub path: String,
    /// The host that it is asked of.
    pub host: String,
    /// Other headers, by name.
    pub headers: BTreeMap<String, String>,
}

/// What was found of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFound {
    /// Its path and query.
    pub path: String,
    /// Why it has to stay in classic mode; `None`: it is as in classic mode.
    pub why: Option<String>,
}
