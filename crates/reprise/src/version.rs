//! `reprise version`.

use std::collections::BTreeSet;

use supervisor::os::user;

use crate::exit::{Code, Failure};
use crate::extensions;
use crate::installed::{self, Php};
use crate::options::{Application, Options};

/// Prints the versions of Reprise and of each PHP, and the extensions that one PHP has and another lacks. What does not start is
/// reported after the others.
pub fn run() -> Result<Code, Failure> {
    println!("reprise {}", env!("CARGO_PKG_VERSION"));
    let (mut versions, mut failures) = (Vec::new(), Vec::new());
    for php in installed::all() {
        match php {
            Ok(php) => versions.push(php),
            Err(why) => failures.push(why),
        }
    }
    for php in &versions {
        println!("php {} ({})", php.version, php.path.display());
        println!("libphp {} (built with {})", php.libphp.display(), php.built);
        println!("ini {}", php.ini);
    }
    if versions.len() > 1 {
        compare(versions)?;
    }
    for failure in &failures {
        failure.report();
    }
    Ok(if failures.is_empty() { Code::Success } else { Code::NotBooted })
}

/// Each version is compared with all others, with the settings of its own php.ini.
fn compare(versions: Vec<Php>) -> Result<(), Failure> {
    let user = user::for_front(None).map_err(|why| Failure::new(Code::Permission, "users", why))?;
    let application = Application { name: "none".to_owned(), ..Application::defaults() };
    let mut all: Vec<(Php, BTreeSet<String>)> = Vec::new();
    for php in versions {
        let own = extensions::of(&application, user.as_ref(), &php)?;
        all.push((php, own));
    }
    for (php, own) in &all {
        let others = all.iter().filter(|(other, _)| other.minor != php.minor);
        others
            .filter_map(|(other, theirs)| extensions::lacking(php, own, other, theirs))
            .for_each(|line| println!("{line}"));
    }
    Ok(())
}
