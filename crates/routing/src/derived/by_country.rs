//! The derived header of a country or a group of countries: by a cookie, else by the client's address.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str;
use std::sync::atomic::{AtomicU64, Ordering};

use cache::cookies;
use http::header::HeaderMap;
use serde::{Deserialize, Serialize};

use super::Client;

/// Which countries the value depends on, and how the country of a client is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCountry {
    /// The cookie that has the country's code, if there is one.
    pub cookie: Option<String>,
    /// The file that has the countries of addresses.
    pub file: Option<PathBuf>,
    /// Which of the front's tables was made of the file.
    pub table: usize,
    /// The value for each declared country, by its code.
    pub values: BTreeMap<String, String>,
    /// The value for all others.
    pub default: String,
}

/// What a value was found by, with the word of the metrics.
#[derive(Clone, Copy)]
enum By {
    Cookie,
    Address,
    Undeclared,
    Unknown,
}

const WORDS: [&str; 4] = ["cookie", "address", "undeclared", "unknown"];

static COUNTS: [AtomicU64; WORDS.len()] = [const { AtomicU64::new(0) }; WORDS.len()];

/// How many values were found by what.
pub fn counted() -> impl Iterator<Item = (&'static str, u64)> {
    WORDS.into_iter().zip(&COUNTS).map(|(word, count)| (word, count.load(Ordering::Relaxed)))
}

impl ByCountry {
    /// The value for a client.
    pub(super) fn value(&self, headers: &HeaderMap, client: &Client<'_>) -> &str {
        let (value, by) = self.find(headers, client);
        COUNTS[by as usize].fetch_add(1, Ordering::Relaxed);
        value.unwrap_or(&self.default)
    }

    fn find(&self, headers: &HeaderMap, client: &Client<'_>) -> (Option<&str>, By) {
        let declared = |code: &str| self.values.get(code).map(String::as_str);
        let said = self.cookie.as_ref().and_then(|name| cookies::value(headers, name));
        if let Some(value) = said.and_then(|code| declared(&code.to_ascii_uppercase())) {
            return (Some(value), By::Cookie);
        }
        let table = self.file.as_ref().and_then(|_| client.countries.get(self.table));
        // A client by a unix socket has no address.
        let code = table.zip(client.address.parse().ok()).and_then(|(table, address)| table.of(address));
        match code.as_ref().and_then(|code| str::from_utf8(code).ok()) {
            None => (None, By::Unknown),
            Some(code) => declared(code).map_or((None, By::Undeclared), |value| (Some(value), By::Address)),
        }
    }
}
