//! The Symfony application as a phar, and a library in a phar that has its credentials from the configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::backends::Redis;
use tests::installed::install;
use tests::peer::run_to_end;
use tests::{Response, Setup, amount};

/// The kernel in a loop of its own.
const WORKER: &str = "<?php
use App\\Kernel;
use Symfony\\Component\\{Dotenv\\Dotenv, HttpFoundation\\Request};
require dirname(__DIR__) . '/vendor/autoload.php';
(new Dotenv)->bootEnv(dirname(__DIR__) . '/.env');
$kernel = new Kernel($_SERVER['APP_ENV'], (bool) $_SERVER['APP_DEBUG']);
$kernel->boot();
$handle = function () use ($kernel) {
    $response = $kernel->handle($request = Request::createFromGlobals());
    $response->send();
    $kernel->terminate($request, $response);
    $kernel->getContainer()->get('services_resetter')->reset();
};
while (reprise_handle_request($handle)) {}
";

const PAGES: [&str; 22] = [
    "/",
    "/?page=3",
    "/post/5",
    "/category/news",
    "/tag/tag3",
    "/search?q=12",
    "/archive",
    "/authors",
    "/author/2",
    "/feed.xml",
    "/hello",
    "/hello/W%C3%B6rld",
    "/services",
    "/forward",
    "/api/posts?limit=3",
    "/api/posts/7",
    "/api/tags",
    "/report.csv",
    "/error/404",
    "/post/999",
    "/nothing",
    "/away/302",
];

/// What is written lies where the configuration says, not in the phar; the compiled container is in it.
fn prepare(application: &Path) {
    let change = |name: &str, from: &str, to: &str| {
        let path = application.join(name);
        let text = fs::read_to_string(&path).expect("a file of the application");
        assert!(text.contains(from), "{name}");
        fs::write(path, text.replace(from, to)).expect("a file");
    };
    change("config/services.yaml", "'%kernel.project_dir%/%env(DATABASE_PATH)%'", "'%env(DATABASE_PATH)%'");
    change("config/packages/framework.yaml", "save_path: '%kernel.project_dir%/var/sessions'", "save_path: null");
    fs::write(application.join("public/worker.php"), WORKER).expect("a script");
    fs::write(application.join("public/own.css"), "p { color: red }").expect("a file");
    fs::remove_dir_all(application.join("var/cache")).expect("the cache");
    run_to_end(Command::new("php").arg("bin/console").arg("cache:warmup").current_dir(application));
    run_to_end(Command::new("chmod").args(["-R", "a+rX"]).arg(application));
}

/// What of a response has to be the same.
fn what(response: &Response) -> (u16, Option<String>, Option<String>, String) {
    let header = |name: &str| response.header(name).map(str::to_owned);
    (response.status, header("content-type"), header("location"), response.text())
}

/// Its pages are as from the directory, in classic mode, from a snapshot and in a worker script.
#[test]
fn symfony_as_a_phar_answers_as_from_the_directory() {
    let (place, application) = install("symfony", "7", prepare);
    let file = place.0.join("blog.phar");
    let code = format!(
        "$phar->buildFromDirectory('{}', '#^(?!.*/(data|var/sessions|var/uploads)/)#');",
        application.display()
    );
    super::build(&file, &code);
    let modes = [("snapshot.php", "snapshot"), ("worker.php", "worker"), ("index.php", "classic")];
    for (script, mode) in modes.into_iter().take(amount(1, 3)) {
        let start = |root: &Path| {
            let below = |path: &str| application.join(path).display().to_string();
            Setup::root(root)
                .env("DATABASE_PATH", &below("data/blog.sqlite"))
                .ini("session.save_path", &below("var/sessions"))
                .application("hosts = [\"blog.test\"]")
                .application(&format!("front_controller = \"{script}\""))
                .application(&format!("mode.\"{script}\" = \"{mode}\""))
                .start()
        };
        let (directory, phar) = (start(&application.join("public")), start(&file.join("public")));
        for server in [&directory, &phar] {
            assert!(
                mode == "classic" || server.log().contains(&format!("/{script} is booted")),
                "{mode}: {}",
                server.log()
            );
        }
        for _ in 0..2 {
            for page in PAGES.into_iter().chain(["/own.css", "/none.css"]) {
                let ask = |port| {
                    let connection = tests::client::connect(port).expect("a connection");
                    what(&tests::Client::over(connection, "blog.test").get(page))
                };
                let (one, other) = (ask(directory.port), ask(phar.port));
                assert!(one.0 != 500, "{mode}: {page}: {one:?}\n{}", directory.log());
                assert_eq!(other, one, "{mode}: {page}\n{}", phar.log());
            }
        }
        let log = phar.log();
        assert!(
            !log.contains("recycled") && !log.contains("PHP Warning") && !log.contains("PHP Fatal"),
            "{mode}: {log}"
        );
    }
}

/// A client library of others (Predis), in the phar, with a password that the configuration has from the server's environment.
#[test]
fn a_library_in_a_phar_gets_its_credentials_from_the_configuration() {
    let place = Setup::empty();
    let password = "a pass-word of $ome kind";
    let redis = Redis::start(&["--requirepass", password]);
    let file = place.directory().join("app.phar");
    let index = "<?php
        require __DIR__ . '/vendor/Predis/Autoloader.php';
        Predis\\Autoloader::register();
        $client = new Predis\\Client(['host' => '127.0.0.1', 'port' => getenv('STORE_PORT'), 'password' => getenv('STORE_PASSWORD')]);
        try { echo $client->incr('visits'), ' ', (new ReflectionClass($client))->getFileName(); }
        catch (Predis\\PredisException $error) { echo get_class($error); }";
    let code = format!(
        "$phar['index.php'] = '{}'; foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator('/usr/share/php/Predis', FilesystemIterator::SKIP_DOTS)) as $one)
            $phar->addFile($one, 'vendor/Predis/' . substr($one, strlen('/usr/share/php/Predis/')));",
        index.replace('\'', "\\'")
    );
    super::build(&file, &code);
    let start = |password: &str| {
        Setup::root(&file).env("STORE_PORT", &redis.port.to_string()).env("STORE_PASSWORD", password).start()
    };
    let server = start(password);
    for visit in 1..4 {
        let expected = format!("{visit} phar://{}/vendor/Predis/Client.php", file.display());
        assert_eq!(server.get("/").text(), expected, "{}", server.log());
    }
    assert!(!server.log().contains(password) && !server.status(&["--json"]).contains(password));
    assert!(start("another").get("/").text().contains("Predis\\"), "refused with another password");
}
