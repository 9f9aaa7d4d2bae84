//! The Composer package by itself, on the command line: without the server it does nothing, and warm-up requests leave nothing.

use std::process::Command;

use tests::Client;
use tests::bridged::{self, HOST, RUNTIME, build, build_bridged};
use tests::closed_list::difference;
use tests::peer::Fpm;
use tests::server::{Directory, copy, project};

/// What the code prints, with one space between words.
fn php(code: &str) -> String {
    let load = "foreach (['stubs', 'functions', 'Hooks', 'WarmUp'] as $file) require \"composer/src/$file.php\";";
    let code = code.replace("LOAD;", load);
    let output = Command::new("php").arg("-r").arg(code).current_dir(project()).output().expect("php");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// On the command line the package's functions exist, do nothing, and run handlers once.
#[test]
fn without_the_server_its_functions_do_nothing() {
    let text = php(r#"LOAD;
        Reprise\beforeSnapshot(fn () => print 'never'); Reprise\afterRestore(fn () => print 'never');
        Reprise\snapshot(); reprise_snapshot();
        var_dump(reprise_handle_request(fn () => print 'handled '), reprise_finish_request(), reprise_info(), reprise_warmup_requests());
        Reprise\run(fn () => print 'ran ', fn () => print 'never');
        putenv('REPRISE_MODE=worker'); Reprise\run(fn () => print 'ran');"#);
    let expected = "handled bool(false) bool(false) array(1) { [\"mode\"]=> string(4) \"none\" } array(0) { } ran ran";
    assert_eq!(text, expected);
}

/// The server's list, then the environment's; each in superglobals of its own, and gone with them.
#[test]
fn warm_up_requests_are_seen_in_the_superglobals_and_leave_nothing() {
    let text = php(r#"
        function reprise_warmup_requests(): array {
            return [['method' => 'HEAD', 'path' => '/a?x[]=1&y=%C3%A4', 'headers' => ['Accept-Language' => 'de', 'Content-Type' => 'text/plain', 'Cookie' => 'c=1; d=a+b%20c&e']]];
        }
        LOAD;
        putenv('REPRISE_WARMUP= /b  /c?d=1 ');
        $_SERVER['REPRISE_BOOT'] = '1'; $_SERVER['KEPT'] = 'kept'; $_GET = ['own' => '1'];
        $before = [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST];
        $seen = [];
        ob_start();
        Reprise\run(fn () => print 'ran', function (array $request) use (&$seen) {
            $seen[] = [$request['path'], $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], $_SERVER['QUERY_STRING'], $_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? null,
                $_SERVER['CONTENT_TYPE'] ?? null, $_GET, $_COOKIE, $_REQUEST, $_SERVER['KEPT']];
            ob_start();
            echo 'never';
            http_response_code(500);
        });
        echo ob_get_clean(), ' ', var_export($before === [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST], true), ' ', http_response_code(), ' ';
        foreach ($seen as $one) echo json_encode($one, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE), "\n";"#);
    let expected = r#"ran true 200 ["/a?x[]=1&y=%C3%A4","HEAD","/a?x[]=1&y=%C3%A4","x[]=1&y=%C3%A4","de","text/plain",{"x":["1"],"y":"ä"},{"c":"1","d":"a+b c&e"},{"x":["1"],"y":"ä"},"kept"]
        ["/b","GET","/b","",null,null,[],[],[],"kept"] ["/c?d=1","GET","/c?d=1","d=1",null,null,{"d":"1"},[],{"d":"1"},"kept"]"#;
    assert_eq!(text, expected.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// An exception of a warm-up request ends the boot, with the superglobals in order; a 5xx answer is in the log.
#[test]
fn a_warm_up_request_that_fails_is_reported() {
    let text = php(r#"LOAD;
        ini_set('error_log', '/dev/stdout');
        putenv('REPRISE_WARMUP=/a /b');
        $_SERVER['REPRISE_BOOT'] = '1';
        $before = $_SERVER;
        try {
            Reprise\run(fn () => print 'never', function (array $request) { if ($request['path'] === '/b') { echo 'x'; throw new Exception('no b'); } return 503; });
        } catch (Exception $error) {
            echo ' ', $error->getMessage(), ' ', var_export($before === $_SERVER, true), ' ', ob_get_level();
        }"#);
    assert!(text.ends_with("no b true 0") && text.contains("warm-up: GET /a answers 503"), "{text}");
}

/// Nor does it under PHP-FPM: what it wraps runs once, for the request there is.
#[test]
fn under_php_fpm_it_does_nothing() {
    let directory = Directory::new();
    copy(&project().join("composer/src"), &directory.0.join("src"));
    let root = directory.0.join("public");
    std::fs::create_dir(&root).unwrap();
    let load = "foreach (['stubs', 'functions', 'Hooks', 'WarmUp'] as $file) require __DIR__ . \"/../src/$file.php\";";
    let script = format!(
        "<?php {load} $n = 0;
        Reprise\\beforeSnapshot(fn () => print 'never'); Reprise\\afterRestore(fn () => print 'never');
        if (isset($_GET['loop'])) {{ putenv('REPRISE_MODE=worker'); }}
        Reprise\\run(function () use (&$n) {{ echo 'ran ', ++$n, ' ', $_GET['v']; }}, fn () => print 'never');
        echo ' ', reprise_info()['mode'], reprise_finish_request() ? ' after' : ' not';"
    );
    std::fs::write(root.join("index.php"), script).unwrap();
    let fpm = Fpm::start(&root);
    for path in ["/?v=5", "/?v=5&loop=1"] {
        let answer = tests::client::get(fpm.port, path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ran 1 5 none"), "{path}");
    }
}

/// Whole applications with their bridges, under nginx and PHP-FPM: they answer as without.
#[test]
fn applications_with_their_bridges_are_served_by_php_fpm_too() {
    let pages = |server: &Fpm, paths: &[&str], header: &[(&str, &str)]| -> Vec<(u16, String)> {
        let mut client = Client::new(server.port);
        let mut ask = |path: &&str| client.request("GET", path, header, b"");
        let port = server.port.to_string();
        paths.iter().map(&mut ask).map(|answer| (answer.status, answer.text().replace(&port, "PORT"))).collect()
    };
    for name in ["slim", "symfony", "laravel"] {
        let ((place, bridged), (_other, plain)) = (build_bridged(name), build(name));
        let first = place.0.join("first.php");
        let runtime = RUNTIME.replace("\\\\", "\\");
        std::fs::write(&first, format!("<?php $_SERVER['APP_RUNTIME'] = $_ENV['APP_RUNTIME'] = '{runtime}';")).unwrap();
        let with = Fpm::with(&bridged.join("public"), &[("auto_prepend_file", first.to_str().unwrap())]);
        let without = Fpm::start(&plain.join("public"));
        let paths = ["/hello", "/api/posts", "/nowhere", "/hello"];
        let (ours, theirs) = (pages(&with, &paths, &[]), pages(&without, &paths, &[]));
        for ((ours, theirs), path) in ours.iter().zip(&theirs).zip(paths) {
            assert!(ours == theirs, "{name}, {path}: {}", difference(ours.1.as_bytes(), theirs.1.as_bytes()));
        }
        assert_eq!((ours[0].0, ours[0].1.as_str(), ours[1].0, ours[2].0), (200, "Hello World!", 200, 404), "{name}");
    }
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let server = Fpm::start(&root);
    let paths = ["/feed/", "/post-5/", "/wp-json/wp/v2/posts?per_page=2", "/wp-login.php"];
    let with = pages(&server, &paths, &[("Host", HOST)]);
    std::fs::remove_file(root.join("wp-content/mu-plugins/reprise.php")).unwrap();
    assert_eq!(with, pages(&server, &paths, &[("Host", HOST)]));
    assert!(with.iter().all(|(status, text)| *status == 200 && text.len() > 500), "{with:?}");
}

/// Nor does the runtime on the command line, where Symfony answers the request that the environment describes.
#[test]
fn symfony_s_runtime_answers_on_the_command_line() {
    let (_place, application) = build_bridged("symfony");
    let mut command = Command::new("php");
    command.args(["-d", "variables_order=EGPCS", "public/index.php"]).current_dir(&application);
    command.env("APP_RUNTIME", RUNTIME.replace("\\\\", "\\")).env("REQUEST_URI", "/hello").env("REQUEST_METHOD", "GET");
    let output = command.output().expect("php");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello World!", "{output:?}");
}
