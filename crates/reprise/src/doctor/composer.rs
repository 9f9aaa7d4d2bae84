//! What composer.lock asks for: versions of PHP, extensions, and the packages that lie in vendor/.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::constraint;
use super::findings::{Check, Finding, Place, Severity, counted};

/// A longer file is not read.
const MOST_BYTES: u64 = 64 << 20;
/// What Composer calls platform packages besides PHP itself and extensions.
const LOCK: &str = "composer.lock";

/// The PHP that runs the application.
pub struct Platform<'a> {
    /// Its release.
    pub release: &'a str,
    /// Its minor version, for names of packages.
    pub version: String,
    /// The extensions that it loads, in lower case. `None`: PHP could not be asked.
    pub extensions: Option<&'a BTreeSet<String>>,
}

/// All findings about Composer's files below `base`.
pub fn judge(base: &Path, platform: Option<&Platform<'_>>) -> Vec<Finding> {
    let path = base.join(LOCK);
    if !path.exists() {
        return without_lock(base, platform);
    }
    let lock = match read(&path) {
        Ok(lock) => lock,
        Err(why) => {
            let what = format!("{LOCK} cannot be read: {why}");
            return vec![
                Finding::new(Check::Lock, what, "composer update --lock writes it anew").at([Place::new(LOCK, 0, why)]),
            ];
        }
    };
    let (text, lock) = lock;
    let mut findings = Vec::new();
    if let Some(platform) = platform {
        let demands = demands(&lock, &text);
        findings.extend(of_php(&demands, platform));
        findings.extend(of_extensions(&demands, &provided(&lock), platform));
    }
    findings.extend(of_vendor(base, &lock));
    findings
}

fn read(path: &Path) -> Result<(String, Value), String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("it has {size} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok((text, value))
}

/// Something that a package requires of the platform.
struct Demand {
    package: String,
    name: String,
    constraint: String,
    place: Place,
}

/// What composer.json asks for, where there is no lock.
fn without_lock(base: &Path, platform: Option<&Platform<'_>>) -> Vec<Finding> {
    let path = base.join("composer.json");
    if !path.is_file() {
        return Vec::new();
    }
    let (text, json) = match read(&path) {
        Ok(read) => read,
        Err(why) => {
            let what = format!("composer.json cannot be read: {why}");
            return vec![Finding::new(Check::Lock, what, "correct it").at([Place::new("composer.json", 0, why)])];
        }
    };
    let Some(platform) = platform else { return Vec::new() };
    let demands: Vec<Demand> = required(&json["require"], "the application", &text, 0, "composer.json");
    let mut findings = of_php(&demands, platform);
    findings.extend(of_extensions(&demands, &BTreeSet::new(), platform));
    findings
}

/// What is required of PHP and its extensions in one `require`, with its lines.
fn required(require: &Value, package: &str, text: &str, from: usize, file: &str) -> Vec<Demand> {
    let pairs = require.as_object().into_iter().flatten();
    let is_platform = |name: &str| name == "php" || name == "php-64bit" || name.starts_with("ext-");
    let demand = |(name, constraint): (&String, &Value)| {
        let constraint = constraint.as_str().unwrap_or("*").to_owned();
        let quoted = format!("\"{name}\":");
        let line = text.lines().enumerate().skip(from).find(|(_, line)| line.trim_start().starts_with(&quoted));
        let line = line.map_or(0, |(number, _)| number + 1);
        let place = Place::new(file, line as u32, format!("{package} requires {name} {constraint}"));
        Demand { package: package.to_owned(), name: name.to_ascii_lowercase(), constraint, place }
    };
    pairs.filter(|(name, _)| is_platform(name)).map(demand).collect()
}

fn packages(lock: &Value) -> impl Iterator<Item = &Value> {
    lock["packages"].as_array().into_iter().flatten()
}

fn demands(lock: &Value, text: &str) -> Vec<Demand> {
    let mut lines = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.trim().strip_prefix("\"name\": \"").and_then(|rest| rest.split('"').next()) {
            lines.entry(name).or_insert(number);
        }
    }
    let all = packages(lock).flat_map(|package| {
        let name = package["name"].as_str().unwrap_or("a package");
        let from = lines.get(name).copied().unwrap_or(0);
        required(&package["require"], name, text, from, LOCK)
    });
    let from = text.lines().position(|line| line.trim_start().starts_with("\"platform\":")).unwrap_or(0);
    all.chain(required(&lock["platform"], "the application", text, from, LOCK)).collect()
}

/// Extensions that a package stands in for (symfony/polyfill-mbstring).
fn provided(lock: &Value) -> BTreeSet<String> {
    let of = |package: &Value| {
        let names = ["provide", "replace"].map(|key| {
            package[key]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.to_ascii_lowercase())
                .collect::<Vec<_>>()
        });
        names.concat()
    };
    packages(lock).flat_map(of).collect()
}

fn of_php(demands: &[Demand], platform: &Platform<'_>) -> Vec<Finding> {
    let refuses = |demand: &&Demand| {
        demand.name.starts_with("php") && constraint::allows(&demand.constraint, platform.release) == Some(false)
    };
    let places: Vec<Place> = demands.iter().filter(refuses).map(|demand| demand.place.clone()).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let names = demands.iter().filter(refuses).map(|demand| demand.package.as_str()).collect::<Vec<_>>().join(", ");
    let what = format!("PHP {} is not allowed by {names}", platform.release);
    let action = "run it with a PHP that they allow (php = \"8.x\" in the configuration), or composer update";
    vec![Finding::new(Check::Platform, what, action).at(places)]
}

fn of_extensions(demands: &[Demand], provided: &BTreeSet<String>, platform: &Platform<'_>) -> Vec<Finding> {
    let Some(loaded) = platform.extensions else { return Vec::new() };
    let mut missing: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for demand in demands {
        let Some(name) = demand.name.strip_prefix("ext-") else { continue };
        let known = if name == "zend-opcache" || name == "opcache" { "zend opcache" } else { name };
        if !loaded.contains(known) && !provided.contains(&demand.name) {
            missing.entry(name).or_default().push(demand.place.clone());
        }
    }
    let finding = |(name, places): (&str, Vec<Place>)| {
        let package = crate::extensions::package(name);
        let what = format!("PHP {} lacks the extension {name}", platform.release);
        let action = format!("apt-get install php{}-{package}", platform.version);
        Finding::new(Check::Extension, what, action).at(places)
    };
    missing.into_iter().map(finding).collect()
}

/// Packages of the lock that are not installed, or in another version.
fn of_vendor(base: &Path, lock: &Value) -> Vec<Finding> {
    let wanted = packages(lock).filter_map(|package| Some((package["name"].as_str()?, package["version"].as_str()?)));
    let wanted: BTreeMap<&str, &str> = wanted.collect();
    let file = "vendor/composer/installed.json";
    let action = "composer install --no-dev --optimize-autoloader";
    if !base.join("vendor").is_dir() {
        return match wanted.is_empty() {
            true => Vec::new(),
            false => {
                let what = format!("{LOCK} names {}, and there is no vendor/", counted(wanted.len(), "package"));
                vec![Finding::new(Check::Lock, what, action).at([Place::new(LOCK, 0, "vendor/ is missing")])]
            }
        };
    }
    // A distribution's package has no list of Composer's.
    let Ok((_, installed)) = read(&base.join(file)) else { return Vec::new() };
    let list = installed["packages"].as_array().or_else(|| installed.as_array());
    let there: BTreeMap<&str, &str> = list
        .into_iter()
        .flatten()
        .filter_map(|package| Some((package["name"].as_str()?, package["version"].as_str()?)))
        .collect();
    let differs = |(name, version): (&&str, &&str)| match there.get(*name) {
        None => Some(Place::new(file, 0, format!("{name} {version} is not installed"))),
        Some(other) if other != version => {
            Some(Place::new(file, 0, format!("{name} is {other}, {LOCK} has {version}")))
        }
        Some(_) => None,
    };
    let places: Vec<Place> = wanted.iter().filter_map(differs).collect();
    let mut findings = Vec::new();
    if !places.is_empty() {
        let what = format!("vendor/ is not as {LOCK} says in {}", counted(places.len(), "package"));
        findings.push(Finding::new(Check::Lock, what, action).at(places));
    }
    let of_development: Vec<Place> = lock["packages-dev"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| package["name"].as_str())
        .filter(|name| there.contains_key(name))
        .map(|name| Place::new(file, 0, name))
        .collect();
    if !of_development.is_empty() {
        let what = format!("{} of development installed", counted(of_development.len(), "package"));
        findings.push(Finding::new(Check::Lock, what, action).but(Severity::Notice).at(of_development));
    }
    findings
}
