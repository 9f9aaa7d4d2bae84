//! Codings of content (RFC 9110 §8.4.1).

use http::HeaderValue;
use serde::{Deserialize, Serialize};

/// A coding of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Br,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All, the best first.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Br, Coding::Gzip];

    /// Its name in headers and in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Br => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// Its name as the value of a header.
    pub const fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.word())
    }

    /// How the names of files with this coding end.
    pub const fn ending(self) -> &'static str {
        match self {
            Coding::Zstd => ".zst",
            Coding::Br => ".br",
            Coding::Gzip => ".gz",
        }
    }
}

/// The codings of an application, the preferred one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codings([Option<Coding>; Coding::ALL.len()]);

impl Codings {
    /// All of them.
    pub const ALL: Codings = Codings([Some(Coding::Zstd), Some(Coding::Br), Some(Coding::Gzip)]);
    /// None: nothing is compressed.
    pub const NONE: Codings = Codings([None; Coding::ALL.len()]);

    /// Adds a coding behind the others. `false`: it is there already.
    pub fn add(&mut self, coding: Coding) -> bool {
        if self.iter().any(|known| known == coding) {
            return false;
        }
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(coding),
            None => return false,
        }
        true
    }

    /// Without that one.
    pub fn without(self, coding: Coding) -> Codings {
        let mut others = Codings::NONE;
        self.iter().filter(|known| *known != coding).for_each(|known| {
            others.add(known);
        });
        others
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = Coding> {
        self.0.into_iter().flatten()
    }

    /// Whether nothing is compressed.
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}
