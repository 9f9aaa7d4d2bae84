//! The options of the authority that issues certificates with `auto = true`.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeTable;

use super::super::Kind::{Text, Texts, Time};
use super::super::option_table::{Options, option_table};
use super::super::reader::{File, Given};
use super::super::value::Value;
use super::super::{Challenge, Change, Row};
use super::DAY;
use super::readers::{mail_addresses, optional_file, url};
use crate::exit::Failure;

option_table! {
    /// The authority that issues certificates, and how it is asked.
    pub struct Acme => () {
        directory: String = "https://acme-v02.api.letsencrypt.org/directory".to_owned(), "Let's Encrypt's", Text, Reload,
            "URL of the authority's ACME directory. To let it issue certificates is to accept its terms of service.", by url;
        contact: Vec<String> = Vec::new(), "[]", Texts, Reload,
            "Mail addresses that the authority may write to.", by mail_addresses;
        profile: Option<String> = None, "the authority's", Text, Reload,
            "Profile of certificates, of those that the authority has: Let's Encrypt has \"classic\", \"tlsserver\" and \"shortlived\".";
        challenges: Vec<Challenge> = vec![Challenge::Http01, Challenge::TlsAlpn01], "[\"http-01\", \"tls-alpn-01\"]", Texts, Reload,
            "How the authority may check that a host is this one: \"http-01\" (by port 80) and \"tls-alpn-01\" (by port 443), the \
             preferred one first. After a failure the other one is tried.";
        eab_key_id: Option<String> = None, "none", Text, Reload,
            "Identifier of an account with the authority, if it asks for an external account binding.";
        eab_key_file: Option<PathBuf> = None, "none", Text, Reload,
            "File with the key of that account, as base64url. `user` has to be able to read it.", by optional_file;
        ca: Option<PathBuf> = None, "those of the system", Text, Reload,
            "PEM file with the root certificates by which the authority's own server is verified, for an authority of one's own. `user` has to be able to read it.", by optional_file;
        storage: Option<PathBuf> = None, "/var/lib/reprise/acme; without root $XDG_DATA_HOME/reprise/acme or ~/.local/share/reprise/acme", Text, Reload,
            "Directory for the account, keys and certificates. It belongs to `user` and is closed to others. Servers may share it: one of \
             them orders a certificate, and all serve it.", by optional_file;
        user: Option<String> = None, "reprise-acme", Text, Reload,
            "User of the process that orders certificates, if the server starts as root. It is neither the front's user nor that of an \
             application.";
        retry: Duration = Duration::from_secs(60), "\"1m\"", Time(1, DAY), Reload,
            "Time after a first failure to the next attempt. It doubles with each failure, up to twelve hours, a fifth more or less.";
    }
    beside {}
}
