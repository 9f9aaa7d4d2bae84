//! The rule action `upstream`: `http://HOST:PORT` with a target behind it, or `unix:/PATH`, and its limits.

use std::net::ToSocketAddrs;
use std::time::Duration;

use routing::rules::rule::Upstream;
use toml::de::DeTable;

use super::super::Kind::{Number, Time};
use super::super::reader::{Given, Item};
use super::super::value::Value;
use super::DAY;
use crate::exit::Failure;

/// Keys of a rule that belong to `upstream`.
pub const LIMITS: [&str; 4] = ["connect_timeout", "response_timeout", "idle_timeout", "connections"];
/// Addresses that a name may stand for.
const MAX_ADDRESSES: usize = 8;
/// Bytes of a unix socket's path.
const MAX_PATH: usize = 107;
const FORMS: &str = "http://127.0.0.1:9000, http://127.0.0.1:9000/app/$rest or unix:/run/app.sock";

/// Reads the action.
pub fn upstream(given: &Given<'_, '_>, item: &Item<'_>, table: &DeTable<'_>) -> Result<Upstream, Failure> {
    let fail = |why: &str| given.file.fail(item.span().start, format!("upstream: {why}")).hint(FORMS);
    let text = String::read(&given.part("upstream", item))?;
    let (name, addresses, target) = if let Some(path) = text.strip_prefix("unix:") {
        if !path.starts_with('/') || path.len() > MAX_PATH || path.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(fail(&format!("unix: takes an absolute path of at most {MAX_PATH} bytes")));
        }
        (text.clone(), vec![text], None)
    } else if let Some(rest) = text.strip_prefix("http://") {
        let (host, target) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        if target.as_ref().is_some_and(|target| !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')) {
            return Err(fail("a target is ASCII without spaces and #; write other bytes as %XX"));
        }
        if target.as_deref() == Some("/") {
            return Err(fail(
                "a path that ends at / asks for / alone: write nothing behind the port for the path as it is, or /$rest for what lies behind the prefix",
            ));
        }
        (format!("http://{host}"), resolve(host).map_err(|why| fail(&why))?, target)
    } else if text.starts_with("https://") {
        return Err(fail("https is not spoken to upstreams"));
    } else {
        return Err(fail(&format!("\"{text}\" is neither http://HOST:PORT nor unix:/PATH")));
    };
    let time = |name: &str, seconds: u64| -> Result<u64, Failure> {
        let time = match table.get(name) {
            Some(item) => Duration::read(&Given { kind: Time(1, DAY), ..given.part("a time of upstream", item) })?,
            None => Duration::from_secs(seconds),
        };
        Ok(time.as_millis().try_into().unwrap_or(u64::MAX))
    };
    let connections = match table.get("connections") {
        Some(item) => usize::read(&Given { kind: Number(1, 1_000_000), ..given.part("connections", item) })?,
        None => 1024,
    };
    Ok(Upstream {
        name,
        addresses,
        first_address: 0,
        target,
        connect_ms: time("connect_timeout", 5)?,
        response_ms: time("response_timeout", 60)?,
        idle_ms: time("idle_timeout", 300)?,
        connections,
    })
}

/// What a host and port stand for now.
fn resolve(host: &str) -> Result<Vec<String>, String> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    if !has_port || host.contains('@') {
        return Err(format!("\"{host}\" is no HOST:PORT"));
    }
    let found = host.to_socket_addrs().map_err(|error| format!("\"{host}\": {error}"))?;
    let mut addresses: Vec<String> = Vec::new();
    for address in found.take(MAX_ADDRESSES).filter(|address| !address.ip().is_multicast()) {
        // 0.0.0.0 is where to listen, not where to connect.
        if address.ip().is_unspecified() {
            return Err(format!("\"{host}\" is no address of a server"));
        }
        let text = address.to_string();
        if !addresses.contains(&text) {
            addresses.push(text);
        }
    }
    if addresses.is_empty() { Err(format!("\"{host}\" names no address")) } else { Ok(addresses) }
}
