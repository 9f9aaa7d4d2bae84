//! The test applications, built by tests/apps/setup.sh. That and Composer take seconds of processor time, and a dozen tests
//! need each: in a run of ./test an application is built once, with its database, and each test has a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::once::{once, shared, shared_directory};
use crate::peer::{Database, run_to_end, web_user};
use crate::server::{Directory, project};

/// Below which an application lies in its test's directory. What is compiled in has the length of the whole path in it, so all
/// paths are as long.
const OWN: &str = "0";

/// WordPress as it was built, with its database.
const WORDPRESS: &str = "w";

/// An application that needs no database, in a directory of its own. `variant` is a digit for each way to `finish` what
/// setup.sh has built.
pub fn install(name: &str, variant: &str, finish: impl Fn(&Path)) -> (Directory, PathBuf) {
    let directory = Directory::new();
    let own = directory.0.join(OWN);
    let make = |place: &Path| finish(&build(name, place, vec![]));
    match shared_directory() {
        Some(shared) => {
            let from = shared.join(variant);
            once(&shared.join(format!("{variant}-{name}")), || make(&from));
            copy(name, &from, &own);
        }
        None => make(&own),
    }
    let application = own.join(name);
    (directory, application)
}

/// Symfony's or Laravel's blog with its data in a MariaDB: `url` is `mysql://USER:PASSWORD@HOST:PORT`.
pub fn install_on(url: &str, name: &str, finish: impl Fn(&Path)) -> (Directory, PathBuf) {
    let directory = Directory::new();
    let application = build(name, &directory.0.join(OWN), vec![("BLOG_URL", url.to_owned())]);
    finish(&application);
    (directory, application)
}

/// WordPress in a directory of its own, with a database of its own.
pub fn install_wordpress() -> (Database, Directory, PathBuf) {
    let directory = Directory::new();
    let own = directory.0.join(OWN);
    let built = shared("wordpress", |data| {
        let database = Database::start();
        build("wordpress", &data.with_file_name(WORDPRESS), database.environment().into());
        database.stop(data);
    });
    let database = match built {
        Some(data) => {
            copy("wordpress", &data.with_file_name(WORDPRESS), &own);
            let database = Database::start_on(&data);
            let settings = database.settings("wordpress");
            fs::write(own.join("wordpress/wp-db.php"), settings).expect("the settings of the copy's database");
            database
        }
        None => {
            let database = Database::start();
            build("wordpress", &own, database.environment().into());
            database
        }
    };
    let application = own.join("wordpress");
    (database, directory, application)
}

/// Builds an application in `directory`. Its path.
fn build(name: &str, directory: &Path, environment: Vec<(&str, String)>) -> PathBuf {
    let mut command = Command::new(project().join("tests/apps/setup.sh"));
    command.arg(directory).arg(name).env("WEBUSER", web_user());
    command.envs(environment);
    run_to_end(&mut command);
    directory.join(name)
}

/// Copies an application with its owners. The paths that are compiled in become those of the copy, and are as long.
pub fn copy(name: &str, from: &Path, to: &Path) {
    assert_eq!(from.as_os_str().len(), to.as_os_str().len(), "{} {}", from.display(), to.display());
    fs::create_dir_all(to).expect("a directory");
    run_to_end(Command::new("cp").arg("-a").arg(from.join(name)).arg(to));
    let change = r#"grep -rlIF "$1/" "$2" | xargs -r sed -i "s#$1/#$2/#g""#;
    run_to_end(Command::new("bash").args(["-c", change, "change"]).args([from, to]));
    if name == "laravel" {
        compile_views(&to.join(name));
    }
}

/// Laravel names compiled views by the paths of their sources. A copy would compile all views anew when they are first asked for,
/// in place: of two requests at once one may then find half of a view.
fn compile_views(application: &Path) {
    run_to_end(Command::new("php").args(["artisan", "view:cache"]).current_dir(application));
    let views = application.join("storage/framework/views");
    run_to_end(Command::new("chown").arg("-R").arg(web_user()).arg(views));
}
