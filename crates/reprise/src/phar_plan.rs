//! What a plan has of the phars of a configuration: descriptors, and what is to be said of them.

use std::os::fd::OwnedFd;

use supervisor::os::user::Identity;
use supervisor::plan::MAX_PHARS;

use crate::exit::{Code, Failure};
use crate::options::{Application, Config};
use crate::phars;
use crate::root::Phar;

/// The phars of a configuration.
fn of(config: &Config) -> impl Iterator<Item = (&Application, &Phar)> {
    config.applications.iter().filter_map(|application| Some((application, application.root.phar()?)))
}

/// What a draft's applications have of their phars: the sealed copies, in their order, then what keeps the directories, those of former releases
/// too.
pub fn descriptors(config: &Config) -> Result<Vec<OwnedFd>, Failure> {
    let failed = |error| Failure::new(Code::Internal, "phars", error);
    if let Some((application, _)) = of(config).nth(MAX_PHARS) {
        let why = format!(
            "there may be {MAX_PHARS} applications whose root is a phar, and '{}' is one more",
            application.name
        );
        return Err(Failure::new(Code::Configuration, "root", why).hint("a second server, or a directory"));
    }
    let held = || of(config).filter_map(|(_, phar)| phar.held.as_deref());
    let former = config.applications.iter().filter_map(|application| application.unpacked.as_ref());
    let former = former.flat_map(|unpacked| &unpacked.former_phars).filter_map(|phar| phar.held.as_deref());
    let locks = held().chain(former.take(MAX_PHARS)).map(|held| &held.lock);
    let all = held().map(|held| &held.copy).chain(locks);
    all.map(|one| one.try_clone().map_err(failed)).collect()
}

/// Has the front read what is unpacked.
pub fn open_to(config: &Config, front: Option<&Identity>) -> Result<(), Failure> {
    let Some(front) = front else { return Ok(()) };
    let former = config.applications.iter().filter_map(|application| application.unpacked.as_ref());
    let former = former.flat_map(|unpacked| &unpacked.former_phars);
    let held = of(config).map(|(_, phar)| phar).chain(former).filter_map(|phar| phar.held.as_deref());
    let failed = |why: String| Failure::new(Code::Permission, "phars", why);
    held.into_iter().try_for_each(|held| phars::open_to(&held.lock, front).map_err(failed))
}

/// Closes what a configuration holds of phars: a plan has it.
pub fn let_go(config: &mut Config) {
    for application in &mut config.applications {
        application.root.let_go();
        let former = application.unpacked.iter_mut().flat_map(|unpacked| &mut unpacked.former_phars);
        former.for_each(|phar| phar.held = None);
    }
}

/// What is to be said of phars at the start and after a reload.
pub fn notices(config: &Config) -> impl Iterator<Item = &String> {
    of(config).flat_map(|(_, phar)| &phar.notices)
}
