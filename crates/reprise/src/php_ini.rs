//! The php.ini that PHP reads in place of its profile's, and configured settings that PHP does not have.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use supervisor::os::user::{self, Identity};

use crate::exit::{Code, Failure};
use crate::installed::Php;
use crate::options::Application;

/// Where opcache keeps compiled code in files.
const FILE_CACHE: &str = "opcache.file_cache";

/// The file that the configuration or else PHPRC names, and which of them names it. As with PHP-FPM PHPRC may also name a
/// directory, which need not have a php.ini.
pub fn chosen(application: &Application) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = &application.php_ini {
        return Some((path.clone(), "php_ini"));
    }
    let named = std::env::var_os("PHPRC").filter(|value| !value.is_empty()).map(PathBuf::from)?;
    let named = std::path::absolute(&named).unwrap_or(named);
    if !named.is_dir() {
        return Some((named, "PHPRC"));
    }
    let files = ["php-fpm-fcgi.ini", "php.ini"].map(|name| named.join(name));
    files.into_iter().find(|file| file.is_file()).map(|file| (file, "PHPRC"))
}

/// Checks that PHP's user can read the file.
pub fn check(application: &Application, user: Option<&Identity>) -> Result<(), Failure> {
    let has_file_cache = [&application.ini, &application.admin_ini]
        .into_iter()
        .any(|ini| ini.get(FILE_CACHE).is_some_and(|value| !value.is_empty()));
    if application.root.phar().is_some() && has_file_cache {
        let why = "keeps code by path and time, and two versions of a phar may have the same: the old code would run with the new files";
        return Err(Failure::new(
            Code::Configuration,
            format!("application '{}': {FILE_CACHE}", application.name),
            why,
        )
        .hint("leave it out; a release has compiled code of its own (docs/guides/releases.md)"));
    }
    let Some((path, source)) = chosen(application) else { return Ok(()) };
    let failed = |code, why: String| {
        Failure::new(code, format!("application '{}': {source} {}", application.name, path.display()), why)
            .hint("name a php.ini that PHP's user may read, or none: then PHP reads that of its profile")
    };
    let metadata = path.metadata().map_err(|error| failed(Code::Configuration, error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed(Code::Configuration, "is no file".to_owned()));
    }
    let is_forbidden = match user {
        Some(user) => user::obstacle(user, &path),
        None => rustix::fs::access(&path, rustix::fs::Access::READ_OK).err().map(|error| error.to_string()),
    };
    is_forbidden.map_or(Ok(()), |why| Err(failed(Code::Permission, why)))
}

/// The configured settings in the form that reprise-php reads from a memory file. Arguments would be visible to every user
/// of the machine.
pub fn settings(application: &Application) -> Vec<(String, String)> {
    let pair =
        |option: &'static str| move |(name, value): (&String, &String)| (option.to_owned(), format!("{name}={value}"));
    let file = chosen(application).map(|(path, _)| ("php-ini".to_owned(), path.to_string_lossy().into_owned()));
    let of_ini = application.ini.iter().map(pair("ini")).chain(application.admin_ini.iter().map(pair("admin-ini")));
    file.into_iter().chain(of_ini).collect()
}

/// Settings of PHP that an application in a phar has besides those of its configuration: nobody writes to the phar or leaves its signature unchecked, and its
/// manifest is read once, not by each request.
pub fn of_phar(application: &Application) -> Vec<(String, String)> {
    let Some(phar) = application.root.phar() else { return Vec::new() };
    let is_set = |name: &str| application.ini.contains_key(name) || application.admin_ini.contains_key(name);
    let listed =
        (!is_set("phar.cache_list")).then(|| ("ini".to_owned(), format!("phar.cache_list={}", phar.file.display())));
    let fixed = ["phar.readonly", "phar.require_hash"].into_iter().filter(|name| !is_set(name));
    let fixed = fixed.map(|name| ("admin-ini".to_owned(), format!("{name}=1")));
    // One of php.ini would have the code of another version under the same path with the same time. That of a release is of its phar alone.
    let no_file_cache = application.unpacked.is_none().then(|| ("admin-ini".to_owned(), format!("{FILE_CACHE}=")));
    listed.into_iter().chain(fixed).chain(no_file_cache).collect()
}

/// What PHP says of itself with an application's settings: `--settings`, or `--symbols` for all that code may name besides. PHP runs as the
/// application's user for this, because it loads its extensions. `None`: there is no user, and PHP does not run as root.
pub fn ask(
    application: &Application,
    user: Option<&Identity>,
    php: &Php,
    question: &str,
) -> Result<Option<String>, Failure> {
    let what = || format!("application '{}': PHP's settings", application.name);
    let failed = |error: std::io::Error| Failure::new(Code::NotBooted, what(), error);
    let settings = supervisor::settings_file(&settings(application)).map_err(failed)?;
    // The program is started by its descriptor, as prototypes are: the user may not reach it by its path, for example in
    // root's home.
    let program = php.open()?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0(&php.path).arg(question).args(["--settings-file", "0"]).stdin(settings);
    command.env_clear().current_dir(Path::new("/"));
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    } else if user::current().is_some_and(|user| user.uid == 0) {
        return Ok(None);
    }
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(Code::NotBooted, what(), format!("PHP does not start: {why}")));
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// A line for each configured setting that PHP does not have.
pub fn unknown_settings(application: &Application, user: Option<&Identity>, php: &Php) -> Result<Vec<String>, Failure> {
    let text = ask(application, user, php, "--settings")?.unwrap_or_default();
    let unknown = text.lines().filter_map(|line| line.strip_prefix("unknown ")?.split_once(' '));
    let line = |(name, nearest): (&str, &str)| {
        let nearest = if nearest == "-" { String::new() } else { format!(", the nearest is '{nearest}'") };
        format!(
            "application '{}': ini: PHP has no setting '{name}'{nearest}; is its extension loaded?",
            application.name
        )
    };
    Ok(unknown.map(line).collect())
}
