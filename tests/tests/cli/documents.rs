//! What the documentation tells people to write works as it stands there.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use tests::bridged::{LARAVEL_LINES, RUNTIME};
use tests::peer::{Program, php_version};
use tests::server::{Directory, free_port, program, project};
use tests::{Client, Setup, wait_for, wait_until};

/// The code blocks of a page in that language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(project().join("docs/guides").join(page)).unwrap();
    let begin = format!("```{language}\n");
    let parts = text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    parts.collect()
}

/// Links, the table of contents, the tests of docs/promises.md, and the reference of PHP functions.
#[test]
fn links_promises_and_the_reference_of_functions_are_true() {
    let output = Command::new(project().join("scripts/docs")).arg("--check").output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{why}");
}

/// What README tells to do for WordPress, Symfony and Laravel is what the tests of the bridges do.
#[test]
fn the_quickstarts_of_the_readme_are_those_of_the_bridges_tests() {
    let page = fs::read_to_string(project().join("README.md")).unwrap();
    let command = |start: &str| page.lines().find(|line| line.starts_with(start)).expect(start).to_owned();
    let run = |command: &str, place: &std::path::Path| {
        let status = Command::new("bash").args(["-ec", command]).current_dir(place).status().unwrap();
        assert!(status.success(), "{command}");
    };
    assert!(command("reprise serve . --env").contains(&format!("'APP_RUNTIME={}'", RUNTIME.replace(r"\\", r"\"))));

    let directory = Directory::new();
    let script = directory.0.join("public/index.php");
    fs::create_dir(script.parent().unwrap()).unwrap();
    fs::copy(project().join("tests/apps/laravel/public/index.php"), &script).unwrap();
    fs::create_dir(directory.0.join("vendor")).unwrap();
    std::os::unix::fs::symlink(project().join("composer/bin"), directory.0.join("vendor/bin")).unwrap();
    run(command("vendor/bin/").split(" && ").next().unwrap(), &directory.0);
    assert!(fs::read_to_string(&script).unwrap().contains(LARAVEL_LINES));

    let place = directory.0.join("blog");
    for start in ["mkdir -p /srv/blog", "cp -r composer/wordpress"] {
        run(&command(start).replace("/srv/blog", place.to_str().unwrap()), &project());
    }
    for name in ["reprise.php", "reprise/snapshot.php", "reprise/scripts.php"] {
        let installed = fs::read(place.join("wp-content/mu-plugins").join(name)).unwrap();
        assert_eq!(installed, fs::read(project().join("composer/wordpress").join(name)).unwrap());
    }
}

/// The pool file of the page is one for PHP-FPM, its translation one for Reprise.
#[test]
fn the_pool_file_and_its_translation_are_accepted() {
    let directory = Directory::new();
    let root = directory.0.join("shop/public");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("index.php"), "<?php").unwrap();
    let place = directory.0.display().to_string();
    let here = |text: &str| {
        text.replace("/srv/shop", &format!("{place}/shop"))
            .replace("/run/php", &place)
            .replace("/var/log", &place)
            .replace("user = shop", "user = www-data")
            .replace("group = shop", "group = www-data")
            .replace("\"shop\"\nmax_workers", "\"www-data\"\nmax_workers")
    };
    let pool = directory.0.join("pool.conf");
    fs::write(&pool, format!("[global]\nerror_log = {place}/fpm.log\n{}\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n", here(&blocks("from-php-fpm.md", "ini")[0]))).unwrap();
    let output = Command::new(format!("php-fpm{}", php_version())).arg("-t").arg("-y").arg(&pool).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("test is successful"), "{said}");

    let config = directory.0.join("reprise.toml");
    let mut text = here(&blocks("from-php-fpm.md", "toml")[0]);
    if !nix::unistd::Uid::effective().is_root() {
        text = text.replace("user = \"www-data\"\n", "");
    }
    fs::write(&config, text).unwrap();
    let output =
        Command::new(program()).args(["check", "--config"]).arg(&config).env("HOSTNAME", "here").output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{why}");
    for line in
        ["at most 24 workers", "memory_limit = 256M", "open_basedir", "(fixed)", "shop.example, www.shop.example"]
    {
        assert!(said.contains(line), "{line} in\n{said}");
    }
}

/// Every option of a pool in Debian's own file is in the table.
#[test]
fn every_line_of_a_pool_file_is_spoken_of() {
    let page = fs::read_to_string(project().join("docs/guides/from-php-fpm.md")).unwrap();
    let pool = fs::read_to_string(format!("/etc/php/{}/fpm/pool.d/www.conf", php_version())).unwrap();
    let mut known = 0;
    for line in pool.lines() {
        let line = line.trim_start_matches(';').trim_start();
        let Some((name, _)) = line.split_once('=') else { continue };
        let name = name.trim().split('[').next().unwrap();
        let is_option =
            name.chars().all(|letter| letter.is_ascii_lowercase() || "._".contains(letter)) && !name.is_empty();
        if !is_option || !line.contains(" = ") || name == "include" {
            continue;
        }
        // `php_value` stands for all of its kind, and so does `env`.
        let is_spoken_of = page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}["));
        assert!(is_spoken_of, "{name} is not in docs/guides/from-php-fpm.md");
        known += 1;
    }
    assert!(known > 25, "{known}");
}

/// nginx in front, with the configuration of the page.
#[test]
fn nginx_in_front_works_as_written() {
    let script = "<?php if (isset($_GET['stream'])) { echo 'first'; while (ob_get_level()) ob_end_flush(); flush(); while (!file_exists(getenv('GO'))) { usleep(5000); clearstatcache(); } exit('last'); }
        echo json_encode([$_SERVER['REMOTE_ADDR'], $_SERVER['HTTPS'] ?? 'off', $_SERVER['SERVER_PORT'], $_SERVER['HTTP_HOST'], $_SERVER['SERVER_NAME'], $_SERVER['REQUEST_SCHEME'], strlen(file_get_contents('php://input'))]);";
    let toml = blocks("behind-nginx.md", "toml").remove(0);
    let setup = Setup::empty().file("index.php", script);
    let place = setup.directory().display().to_string();
    let go = setup.directory().join("go");
    let mut setup = setup.env("GO", go.to_str().unwrap());
    for line in toml.split("[[application]]").next().unwrap().lines() {
        setup = setup.server(&line.replace("/run/reprise", &place));
    }
    let hosts = toml.lines().find(|line| line.starts_with("hosts")).unwrap();
    let server = setup.application(hosts).start();

    let (port, tls_port) = (free_port(), free_port());
    let directory = Directory::new();
    let own = directory.0.display();
    let certificate = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.example", "-keyout"])
        .arg(directory.0.join("key"))
        .arg("-out")
        .arg(directory.0.join("cert"))
        .output()
        .unwrap();
    assert!(certificate.status.success());
    let site = blocks("behind-nginx.md", "nginx").remove(0).replace("/run/reprise", &place);
    // Both: by HTTP, and by TLS as the comment says.
    let (upstream, http) = site.split_once("server {\n    listen").unwrap();
    let http = format!("server {{\n    listen{http}").replace("listen 80;", &format!("listen 127.0.0.1:{port};"));
    let tls = http.replace(
        &format!("listen 127.0.0.1:{port};"),
        &format!("listen 127.0.0.1:{tls_port} ssl; ssl_certificate {own}/cert; ssl_certificate_key {own}/key;"),
    );
    let user = if nix::unistd::Uid::effective().is_root() { "user www-data;" } else { "" };
    let text = format!(
        "daemon off; {user} worker_processes 1; pid {own}/pid; error_log stderr; events {{ worker_connections 64; }}
        http {{ access_log off; client_body_temp_path {own}/b; proxy_temp_path {own}/p; fastcgi_temp_path {own}/f; uwsgi_temp_path {own}/u; scgi_temp_path {own}/s;
        {upstream}{http}{tls} }}"
    );
    fs::write(directory.0.join("nginx.conf"), text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory.0).arg("-c").arg(directory.0.join("nginx.conf")).args(["-e", "stderr"]);
    let mut nginx = Program::start(&mut command, &directory.0.join("nginx.log"));
    nginx.await_ready(30, || TcpStream::connect(("127.0.0.1", port)).is_ok());

    let seen = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")) };
    let mut client = Client::new(port);
    let headers = [
        ("Host", "shop.example"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=6.6.6.6"),
    ];
    let plain = seen(&client.request("GET", "/", &headers, b"").text());
    let expected = serde_json::json!(["127.0.0.1", "off", port.to_string(), "shop.example", "shop.example", "http", 0]);
    assert_eq!(plain, expected);
    // A client that claims to be somebody is that, but for nginx: its own address comes last.
    let claimed =
        seen(&client.request("GET", "/", &[("Host", "shop.example"), ("X-Forwarded-For", "6.6.6.6")], b"").text());
    assert_eq!(claimed[0], "127.0.0.1");
    let big = vec![b'x'; 3 << 20];
    let posted = client.request("POST", "/", &[("Host", "shop.example"), ("Content-Type", "text/plain")], &big);
    assert_eq!(seen(&posted.text())[6], 3 << 20);
    let curl = Command::new("curl")
        .args([
            "-sk",
            "--resolve",
            &format!("shop.example:{tls_port}:127.0.0.1"),
            &format!("https://shop.example:{tls_port}/"),
        ])
        .output()
        .unwrap();
    let tls = seen(&String::from_utf8_lossy(&curl.stdout));
    let expected = serde_json::json!([
        "127.0.0.1",
        "on",
        tls_port.to_string(),
        format!("shop.example:{tls_port}"),
        "shop.example",
        "https",
        0
    ]);
    assert_eq!(tls, expected);
    // The first part comes before there is a last.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /?stream=1 HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut got = Vec::new();
    wait_for("the first part", 10, || {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        got.extend_from_slice(&bytes[..count]);
        String::from_utf8_lossy(&got).contains("first").then_some(())
    });
    fs::write(&go, "").unwrap();
    stream.read_to_end(&mut got).unwrap();
    assert!(String::from_utf8_lossy(&got).contains("last"));
    wait_until("all are logged", 5, || server.access_log().lines().count() >= 5);
}
