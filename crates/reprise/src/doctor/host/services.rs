//! Other programs: what they take, and who listens where Reprise is to listen.

use std::collections::BTreeMap;

use super::System;
use crate::doctor::findings::{Check, Finding, Place, Severity};
use crate::options::Config;

/// Programs by the beginning of their names, and what Reprise does in their place.
const NEEDLESS: [(&str, &str, &str); 7] = [
    ("php-fpm", "Reprise runs PHP itself", "php8.x-fpm"),
    ("apache2", "Reprise speaks HTTP and TLS itself", "apache2"),
    ("httpd", "Reprise speaks HTTP and TLS itself", "httpd"),
    ("lighttpd", "Reprise speaks HTTP and TLS itself", "lighttpd"),
    ("varnishd", "Reprise has a cache of responses", "varnish"),
    ("frankenphp", "Reprise runs PHP itself", "frankenphp"),
    ("rr", "Reprise runs PHP itself", "roadrunner"),
];

/// All findings.
pub fn judge(system: &System, config: &Config) -> Vec<Finding> {
    let mut found: BTreeMap<usize, (usize, u64, Vec<Place>)> = BTreeMap::new();
    for (pid, program) in programs(system) {
        let is_it = |(name, _, _): &(&str, &str, &str)| {
            if name.len() < 4 { program == *name } else { program.starts_with(name) }
        };
        let Some(at) = NEEDLESS.iter().position(is_it) else { continue };
        let status = system.read(&format!("/proc/{pid}/status")).unwrap_or_default();
        let kilobytes =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        let entry = found.entry(at).or_default();
        entry.0 += 1;
        entry.1 += kilobytes.unwrap_or(0);
        entry.2.push(Place::new(format!("/proc/{pid}"), 0, program));
    }
    let mut findings = Vec::new();
    for (at, (count, kilobytes, places)) in found {
        let (name, why, unit) = NEEDLESS[at];
        let what = format!("{name} runs ({count} processes, {} MB): {why}", kilobytes >> 10);
        let action = format!("if nothing else needs it: systemctl disable --now {unit}");
        findings.push(Finding::new(Check::Services, what, action).at(places));
    }
    findings.extend(ports(system, config));
    findings
}

/// The programs that run, by their process ids.
pub fn programs(system: &System) -> impl Iterator<Item = (u32, String)> + '_ {
    let entries = std::fs::read_dir(system.path("/proc")).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, system.read(&format!("/proc/{pid}/comm"))?)))
}

/// Addresses to listen on that another program has.
fn ports(system: &System, config: &Config) -> Vec<Finding> {
    let mut listening: BTreeMap<u16, String> = BTreeMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in system.read(table).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&"0A"), Some(inode)) = (words.get(1), words.get(3), words.get(9)) else { continue };
            let port = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            if let Some(port) = port {
                listening.insert(port, (*inode).to_owned());
            }
        }
    }
    let mut findings = Vec::new();
    for address in config.listen.iter().chain(&config.admin_listen) {
        let port = crate::listen::resolve(address).ok().map(|resolved| resolved.port());
        let Some((port, inode)) = port.and_then(|port| Some((port, listening.get(&port)?))) else { continue };
        let owner = owner(system, inode);
        if owner.as_deref().is_some_and(|owner| owner.starts_with("reprise")) {
            continue;
        }
        let (who, severity) = match &owner {
            Some(program) => (program.clone(), Severity::Warning),
            None => ("a program that cannot be seen from here, perhaps this server,".to_owned(), Severity::Notice),
        };
        let what = format!("{who} listens on port {port}, where this server is to listen ({address})");
        let action = "stop that program, or another address in listen";
        findings.push(Finding::new(Check::Port, what, action).but(severity).at([Place::new(
            "/proc/net/tcp",
            0,
            address.clone(),
        )]));
    }
    findings
}

/// The program that has a socket.
fn owner(system: &System, inode: &str) -> Option<String> {
    let socket = format!("socket:[{inode}]");
    programs(system).find_map(|(pid, program)| {
        let descriptors = std::fs::read_dir(system.path(&format!("/proc/{pid}/fd"))).ok()?;
        let has = descriptors
            .flatten()
            .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == socket.as_str()));
        has.then_some(program)
    })
}
