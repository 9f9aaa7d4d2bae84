//! The users that run the front and each application, and whether they reach the files that they need.

use supervisor::os::user::{self, Identity};

use crate::acme;
use crate::discover::{self, Entry};
use crate::exit::{Code, Failure};
use crate::options::{Application, Config};
use crate::phar_plan;
use crate::php_ini;
use crate::releases;

/// The users. All are `None` if the server does not run as root.
pub struct People {
    /// The front's user.
    pub front: Option<Identity>,
    /// The user of the process that orders certificates, if one does.
    pub acme: Option<Identity>,
    /// The user of the processes that follow pools of releases.
    pub release: Option<Identity>,
    /// Each application's user, and why it was chosen.
    pub applications: Vec<Option<(Identity, &'static str)>>,
    /// The scripts of each application that boot, found with the rights of its user.
    pub entries: Vec<Vec<Entry>>,
}

/// The user that an application's PHP runs as, and why.
fn choose_php_user(application: &Application) -> Result<Option<(Identity, &'static str)>, String> {
    // The owner of a release is who may write it: never who runs it.
    let of_release = application.release_pool.as_ref().filter(|_| user::is_root()).map(|_| "www-data");
    user::for_application(application.user.as_deref().or(of_release), application.root.own())
}

/// The number of that user. If this process could not start PHP as that user, the user is the one that is configured.
pub fn php_user(application: &Application) -> u32 {
    let configured = || Identity::named(application.user.as_deref()?).ok();
    let chosen =
        choose_php_user(application).map(|chosen| chosen.map(|(user, _)| user)).unwrap_or_else(|_| configured());
    chosen.map_or_else(user::own_uid, |user| user.uid)
}

/// Chooses users and checks that they reach the files that they need.
pub fn choose_users(config: &Config) -> Result<People, Failure> {
    let permission = |why: String| Failure::new(Code::Permission, "users", why);
    let front = user::for_front(config.front_user.as_deref()).map_err(permission)?;
    let (mut applications, mut entries) = (Vec::new(), Vec::new());
    phar_plan::open_to(config, front.as_ref())?;
    for application in &config.applications {
        let chosen = choose_php_user(application)
            .map_err(|why| permission(format!("application '{}': {why}", application.name)))?;
        let entry = match &application.front_controller {
            // Of a phar, PHP has to reach its file alone.
            _ if application.root.phar().is_some() => application.root.own().to_path_buf(),
            Some(script) => application.root.join(script),
            None => application.root.to_path_buf(),
        };
        // The directory of a link, and the one that the link leads to.
        let places = std::iter::once(entry.clone()).chain(entry.canonicalize());
        let obstacle = |(user, _): &(Identity, _)| places.clone().find_map(|place| user::obstacle(user, &place));
        if let Some(obstacle) = chosen.as_ref().and_then(obstacle) {
            let hint =
                "PHP never runs as root: move the application, open its directories, or name a user that may read it";
            return Err(permission(format!("application '{}': {obstacle}", application.name)).hint(hint));
        }
        if let Some(obstacle) = front.as_ref().and_then(|user| user::obstacle(user, &application.root)) {
            let hint = "the front serves static files: open the directories to it, or name another front_user";
            return Err(permission(format!("application '{}': {obstacle}", application.name)).hint(hint));
        }
        php_ini::check(application, chosen.as_ref().map(|(user, _)| user))?;
        if let Some(why) = application.process_limits().forbidden() {
            return Err(permission(format!("application '{}': {why}", application.name)));
        }
        entries.push(discover::entries(application, chosen.as_ref().map(|(user, _)| user))?);
        applications.push(chosen);
    }
    let others = front.iter().chain(applications.iter().flatten().map(|(user, _)| user));
    let acme = acme::choose_user(config, &others.collect::<Vec<_>>())?;
    let release = releases::choose_user(config)?;
    let others = front.iter().chain(applications.iter().flatten().map(|(user, _)| user)).chain(&acme);
    releases::check_user(release.as_ref(), others)?;
    Ok(People { front, acme, release, applications, entries })
}
