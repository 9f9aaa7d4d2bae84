//! The test applications with the Composer package, as docs/guides/frameworks.md tells to add it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{install, install_on, install_wordpress};
use crate::peer::{Database, run_to_end};
use crate::server::{Directory, copy, project};
use crate::{Server, Setup};

/// With a port: where Host has none, Slim's URI gets that of the server.
pub const HOST: &str = "blog.test:8080";

/// Slim's front controller, as docs/guides/frameworks.md has it.
pub const SLIM: &str = r"<?php
require __DIR__ . '/../vendor/autoload.php';
$app = require __DIR__ . '/../src/app.php';
$container = $app->getContainer();
Reprise\beforeSnapshot(function () use ($container) {
    $make = $container->raw('db');
    unset($container['db']);
    $container['db'] = $make;
});
Reprise\Psr\run(
    fn ($request) => $app->process($request, $container->raw('response')($container)),
    [Slim\Psr7\Factory\ServerRequestFactory::class, 'createFromGlobals'],
);
";

/// Symfony's APP_RUNTIME, with TOML's own escape.
pub const RUNTIME: &str = r"Reprise\\Symfony\\Runtime";

/// What the package's command makes of a line of Laravel's front controller, as docs/guides/frameworks.md has it.
pub const LARAVEL_LINES: &str = "bootstrap/app.php';\n\\Reprise\\Laravel\\serve($app);\n";

/// Pages that are made before the first visitor comes.
pub const SLIM_WARM: &str = "/hello / /post/5 /nowhere";
/// Symfony's.
pub const SYMFONY_WARM: &str = "/hello / /post/5 /api/posts /about /hello/you /login /session /error/404";
/// Laravel's.
pub const LARAVEL_WARM: &str = "/ /post/5 /api/posts /hello /session /nowhere /search?q=12";

/// An application's directory, as tests/apps/setup.sh builds it.
pub fn build(name: &str) -> (Directory, PathBuf) {
    install(name, "1", |_| {})
}

/// Slim, Symfony or Laravel with its bridge.
pub fn build_bridged(name: &str) -> (Directory, PathBuf) {
    install(name, "2", |application| add_bridge(name, application))
}

/// Symfony or Laravel with its bridge, and its data in a MariaDB: `url` is `mysql://USER:PASSWORD@HOST:PORT`.
pub fn build_bridged_on(url: &str, name: &str) -> (Directory, PathBuf) {
    install_on(url, name, |application| add_bridge(name, application))
}

fn add_bridge(name: &str, application: &Path) {
    require_package(application);
    change(&application.join("public"), |script| if name == "slim" { SLIM.to_owned() } else { script.to_owned() });
    if name == "laravel" {
        run_to_end(Command::new("vendor/bin/reprise-laravel").arg("--write").current_dir(application));
        let script = fs::read_to_string(application.join("public/index.php")).expect("a front controller");
        assert!(script.contains(LARAVEL_LINES), "{script}");
    }
}

/// WordPress with the plugin.
pub fn build_wordpress() -> (Database, Directory, PathBuf) {
    // A site's address is fixed; the test application's follows the request.
    build_wordpress_at(&format!("'http://{HOST}'"))
}

/// WordPress with the plugin, and its address as wp-config.php makes it of the request.
pub fn build_wordpress_at(address: &str) -> (Database, Directory, PathBuf) {
    let (database, place, application) = install_wordpress();
    let root = application.join("htdocs");
    configure_wordpress(&application, "'http://' . $_SERVER['HTTP_HOST']", address);
    let plugins = root.join("wp-content/mu-plugins");
    fs::create_dir_all(&plugins).expect("mu-plugins");
    for name in ["reprise.php", "reprise"] {
        copy(&project().join("composer/wordpress").join(name), &plugins.join(name));
    }
    (database, place, application)
}

/// Replaces a text in wp-config.php.
pub fn configure_wordpress(application: &Path, from: &str, to: &str) {
    let path = application.join("htdocs/wp-config.php");
    let config = fs::read_to_string(&path).expect("wp-config.php");
    assert!(config.contains(from), "{from} is not in wp-config.php");
    fs::write(path, config.replace(from, to)).expect("wp-config.php");
}

/// Adds WordPress' authors of these names. Returns COOKIEHASH.
pub fn add_authors(names: [&str; 2], application: &Path) -> String {
    let [a, b] = names;
    let code = format!(
        "$_SERVER += ['HTTP_HOST' => 'a', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
        require 'htdocs/wp-load.php';
        foreach (['{a}', '{b}'] as $name) {{
            $id = wp_insert_user(['user_login' => $name, 'user_pass' => \"$name pw\", 'role' => 'author', 'user_email' => \"$name@example.org\"]);
            if (is_wp_error($id)) {{ exit(1); }}
        }}
        echo COOKIEHASH;"
    );
    php(&code, application)
}

/// Installs the package with Composer, from its directory.
pub fn require_package(application: &Path) {
    let composer = |arguments: &[&str]| {
        let mut command = Command::new("composer");
        command.args(["--no-interaction", "--quiet"]).args(arguments).current_dir(application);
        run_to_end(command.env("COMPOSER_ALLOW_SUPERUSER", "1").env("COMPOSER_DISABLE_NETWORK", "1"));
    };
    let place = project().join("composer");
    let repository = format!(r#"{{"type":"path","url":"{}","options":{{"symlink":false}}}}"#, place.display());
    composer(&["config", "repositories.packagist.org", "false"]);
    composer(&["config", "repositories.reprise", &repository]);
    composer(&["require", "--optimize-autoloader", "--classmap-authoritative", "reprise/reprise:*@dev"]);
    let status = Command::new("chmod").args(["-R", "a+rX"]).arg(application.join("vendor")).status().expect("chmod");
    assert!(status.success());
}

/// A script's output; panics unless it succeeds.
pub fn php(code: &str, directory: &Path) -> String {
    let output = Command::new("php").arg("-r").arg(code).current_dir(directory).output().expect("php");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Keeps the front controller as `plain.php` and changes it.
pub fn change(root: &Path, edit: impl Fn(&str) -> String) {
    let path = root.join("index.php");
    let before = fs::read_to_string(&path).expect("a front controller");
    fs::write(root.join("plain.php"), &before).expect("a file");
    fs::write(path, edit(&before)).expect("a file");
}

/// The application with its bridge, in `mode`.
pub fn bridged(root: &Path, mode: &str, warm_up: &str) -> Setup {
    let setup = Setup::root(root).application(&format!("mode.\"index.php\" = \"{mode}\""));
    setup.env("REPRISE_MODE", mode).env("REPRISE_WARMUP", warm_up)
}

/// That the server has served all of it in that mode, and no worker was lost but by `exit()`.
pub fn served_in(server: &Server, mode: &str) {
    let log = server.log();
    let word = if mode == "worker" { "worker mode" } else { "is booted, isolation" };
    assert!(log.contains(word), "{log}");
    let is_lost = |line: &str| line.contains("recycled") && !line.contains("recycled: exit");
    assert!(!log.lines().any(is_lost) && !log.contains("warm-up"), "{log}");
    assert!(!log.contains("of its own request"), "the boot has kept what a visitor would get:\n{log}");
}
