//! `reprise dev` in the browser: the script by which pages listen, what they are told, and the page of an error.

use std::fs;

use tests::{Client, Response, Setup, modes::modes, wait_until};

const BROWSER: [(&str, &str); 2] = [("Accept", "text/html,*/*;q=0.8"), ("Accept-Encoding", "gzip, br")];

fn browse(client: &mut Client, path: &str) -> Response {
    client.request("GET", path, &BROWSER, b"")
}

/// What a page says of where it stands.
fn stands(page: &str) -> String {
    let (_, rest) = page.split_once("data-after=\"").unwrap_or_else(|| panic!("no script: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

fn has_script(response: &Response) -> bool {
    response.text().contains("<script src=\"/.reprise/listen.js\"")
}

#[test]
fn pages_get_the_script_and_nothing_else_does() {
    let script = "<?php
        switch ($_SERVER['PATH_INFO'] ?? $_SERVER['REQUEST_URI']) {
            case '/json': header('Content-Type: application/json'); exit('{}');
            case '/length': header('Content-Length: 24'); exit('<body>0123456789</body>\n');
            case '/packed': ini_set('zlib.output_compression', '1'); exit('<body>packed</body>');
            case '/nonce': header(\"Content-Security-Policy: script-src 'nonce-a+b/c='; style-src 'self'\"); exit('<body></body>');
            case '/closed': header(\"Content-Security-Policy: default-src 'none'\"); exit('<body></body>');
            case '/tagged': header('ETag: \"1\"'); exit('<body></body>');
        }
        echo '<html><body>page</BODY></html>';";
    let server = Setup::empty().file("index.php", script).file("a.html", "<p>file</p>").develop(&[]);
    let mut client = server.client();
    let page = browse(&mut client, "/");
    assert!(
        page.text().starts_with("<html><body>page<script src=") && page.text().ends_with("</script></BODY></html>")
    );
    assert_eq!((page.header("cache-control"), page.header("etag")), (Some("no-store"), None));
    assert!(has_script(&browse(&mut client, "/a.html")));
    let sized = browse(&mut client, "/length");
    assert!(has_script(&sized) && sized.header("content-length") == Some(&sized.body.len().to_string()), "{sized:?}");
    assert!(has_script(&browse(&mut client, "/packed")));
    assert!(browse(&mut client, "/nonce").text().contains(" nonce=\"a+b/c=\""));
    let closed = browse(&mut client, "/closed");
    assert!(!has_script(&closed) && closed.header("reprise-dev").unwrap().contains("default-src without 'self'"));
    wait_until("the log says why", 20, || server.log().contains("/closed does not reload by itself"));
    // A browser that has the page asks for it anew.
    let tagged = client.request("GET", "/tagged", &[BROWSER[0], ("If-None-Match", "\"1\"")], b"");
    assert!(tagged.status == 200 && has_script(&tagged));
    assert!(!has_script(&browse(&mut client, "/json")));
    // Programs, and scripts of pages, get what the application says.
    for headers in [
        &[("Accept", "*/*")][..],
        &[BROWSER[0], ("Sec-Fetch-Dest", "empty")],
        &[BROWSER[0], ("X-Requested-With", "XMLHttpRequest")],
    ] {
        assert_eq!(client.request("GET", "/", headers, b"").text(), "<html><body>page</BODY></html>");
    }
    let listen = client.get("/.reprise/listen.js");
    assert!(listen.text().contains("EventSource") && listen.header("content-type").unwrap().contains("javascript"));
}

#[test]
fn what_streams_is_not_held_back() {
    let script = "<?php header('X-Accel-Buffering: no'); echo '<body>first', str_repeat(' ', 5000); flush();
        while (!file_exists(__DIR__ . '/go.log')) { usleep(1000); clearstatcache(); }
        echo 'last</body>';";
    let server = Setup::empty().file("index.php", script).develop(&[]);
    let mut client = server.client();
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}: {}\r\n\r\n", BROWSER[0].0, BROWSER[0].1);
    client.send(head.as_bytes()).unwrap();
    let mut response = client.read_head().unwrap();
    let first = client.read_chunk().unwrap().unwrap();
    assert!(first.starts_with(b"<body>first"));
    fs::write(server.root.join("go.log"), "").unwrap();
    client.read_body(&mut response, false).unwrap();
    assert!(response.text().contains("last<script") && response.text().ends_with("</body>"), "{}", response.text());
}

/// A page that listens.
struct Events(Client);

impl Events {
    fn open(server: &tests::Server, stands: &str) -> Events {
        let mut client = server.client();
        let head = format!("GET /.reprise/changes?after={stands} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let head = client.read_head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
        Events(client)
    }

    /// The word of the next event, and where the page stands then.
    fn next(&mut self) -> (String, String) {
        let chunk = String::from_utf8(self.0.read_chunk().unwrap().expect("an event")).unwrap();
        let field = |name: &str| chunk.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        assert!(chunk.starts_with("event: "), "{chunk:?}");
        (field("event: "), field("data: "))
    }
}

#[test]
fn pages_are_told_what_has_changed() {
    let server =
        Setup::empty().file("index.php", "<body>x</body>").file("a.css", "a {}").file("b.twig", "").develop(&[]);
    let stood = stands(&browse(&mut server.client(), "/").text());
    let mut events = Events::open(&server, &stood);
    fs::write(server.root.join("a.css"), "b {}").unwrap();
    let (word, at) = events.next();
    assert_eq!(word, "style");
    for name in ["index.php", "b.twig", "new.js"] {
        fs::write(server.root.join(name), "<body>y</body>").unwrap();
        assert_eq!(events.next().0, "page", "{name}");
    }
    // A page that was made before is told at once; so is one whose connection was lost, and one of another server.
    assert_eq!(Events::open(&server, &stood).next().0, "page");
    assert_eq!(Events::open(&server, &at).next().0, "page");
    assert_eq!(Events::open(&server, "123.4").next().0, "page");
    assert_eq!(Events::open(&server, "").next().0, "page");
    // One that was made since is not told of the past.
    let mut events = Events::open(&server, &stands(&browse(&mut server.client(), "/").text()));
    fs::write(server.root.join("a.css"), "c {}").unwrap();
    assert_eq!(events.next().0, "style");
    // The end of the server does not wait for pages that listen.
    let began = std::time::Instant::now();
    drop(server);
    assert!(began.elapsed() < tests::seconds(5));
}

/// A save while the page is being made, by the code of before: the page is told.
#[test]
fn a_page_that_was_under_way_is_told() {
    let script = "<?php touch(sys_get_temp_dir() . '/NAME');
        while (!file_exists(__DIR__ . '/go.log')) { usleep(1000); clearstatcache(); } echo '<body>old</body>';";
    let setup = Setup::empty();
    let begun = setup.writable("begun");
    let script = script.replace("sys_get_temp_dir() . '/NAME'", &format!("'{begun}/run'"));
    let server = setup.file("index.php", script).develop(&[]);
    let page = std::thread::scope(|scope| {
        let asked = scope.spawn(|| browse(&mut server.client(), "/").text());
        wait_until("it runs", 20, || std::path::Path::new(&begun).join("run").exists());
        fs::write(server.root.join("other.php"), "<?php").unwrap();
        wait_until("the change is seen", 20, || server.log().contains("other.php"));
        fs::write(server.root.join("go.log"), "").unwrap();
        asked.join().unwrap()
    });
    assert!(page.contains("old"));
    assert_eq!(Events::open(&server, &stands(&page)).next().0, "page");
}

#[test]
fn an_error_shows_its_source_stack_and_request() {
    let lib = "<?php\n\nfunction fails(string $why) {\n    throw new RuntimeException(\"a <b>bad</b> & '\\\"$why\", 1, new LogicException('the cause'));\n}\n";
    for (mode, end, _) in modes().into_iter().take(3) {
        let script = format!(
            "<?php require __DIR__ . '/lib.php'; ob_start();
            $handle = function () {{ header('X-Before: 1'); echo 'be', 'fore'; if ($_GET) {{ fails('reason'); }} }};
            {end}"
        );
        let server = Setup::empty().file("index.php", script).file("lib.php", lib).develop(&["--editor", "phpstorm"]);
        let mut client = server.client();
        wait_until("it is booted", 20, || mode == "classic" || server.log().contains("is booted"));
        let headers =
            [BROWSER[0], ("Cookie", "secret=monster"), ("X-Api-Key", "hidden-key"), ("X-Note", "<i>note</i>")];
        let response = client.request("GET", "/?a=%3Cscript%3E&password=hunter2", &headers, b"");
        let page = response.text();
        assert_eq!(
            (response.status, response.header("content-type")),
            (500, Some("text/html; charset=UTF-8")),
            "{mode}"
        );
        for part in [
            "RuntimeException",
            "a &lt;b&gt;bad&lt;/b&gt; &amp; &apos;&quot;reason",
            "Caused by",
            "the cause",
            "<div class=\"row here\"><b>4</b><code>    throw new RuntimeException",
            "fails(&apos;reason&apos;)",
            &format!("href=\"phpstorm://open?file={}/lib.php&amp;line=4\"", server.root.display()),
            "&lt;script&gt;",
            "&lt;i&gt;note&lt;/i&gt;",
            "Copy as text",
            "/.reprise/listen.js",
        ] {
            assert!(page.contains(part), "{mode}: {part} in {page}");
        }
        for part in ["<b>bad", "<script>&", "monster", "hidden-key", "hunter2</td>", "before", "<i>note"] {
            assert!(!page.contains(part), "{mode}: {part}");
        }
        let plain = client.get("/?a=1");
        assert_eq!((plain.status, plain.header("content-type")), (500, Some("text/plain; charset=UTF-8")));
        assert!(plain.text().contains("RuntimeException: a <b>bad</b>") && plain.text().contains("lib.php:4"));
        assert_eq!(client.get("/").text(), "before", "{mode}");
    }
}

#[test]
fn fatal_errors_of_all_kinds_have_a_page_and_handled_ones_have_not() {
    let server = Setup::empty()
        .file("parse.php", "<?php\n$x = ;\n")
        .file("class.php", "<?php interface I { function f(); } class C implements I {}")
        .file("memory.php", "<?php ini_set('memory_limit', '8M'); $a = str_repeat('x', 100 << 20);")
        .file("missing.php", "<?php require __DIR__ . '/nowhere.php';")
        .file("type.php", "<?php strlen([]);")
        .file("sent.php", "<?php echo '<body><p>begun', str_repeat(' ', 9000); flush(); throw new Exception('late');")
        .file(
            "handled.php",
            "<?php set_exception_handler(fn ($e) => print('own page: ' . $e->getMessage())); throw new Exception('x');",
        )
        .file(
            "shutdown.php",
            "<?php register_shutdown_function(function () { if (error_get_last()) { echo 'own page'; } }); nothing();",
        )
        .file("caught.php", "<?php try { nothing(); } catch (Error) { echo 'caught'; }")
        .file("user.php", "<?php set_error_handler(fn () => true); trigger_error('x', E_USER_ERROR); echo 'went on';")
        .file("notice.php", "<?php echo $undefined; echo 'went on';")
        .develop(&[]);
    let mut client = server.client();
    for (path, status, part) in [
        ("parse", 500, "<p class=kind>Parse error</p>"),
        ("class", 500, "abstract method"),
        ("memory", 500, "Allowed memory size"),
        ("missing", 500, "nowhere.php"),
        ("type", 500, "<p class=kind>TypeError</p>"),
        ("sent", 200, "position:fixed;inset:0"),
        ("handled", 200, "own page: x"),
        ("shutdown", 500, "own page"),
        ("caught", 200, "caught"),
        ("user", 200, "went on"),
        ("notice", 200, "Undefined variable $undefined"),
    ] {
        let response = browse(&mut client, &format!("/{path}.php"));
        let text = response.text();
        assert!(response.status == status && text.contains(part), "{path}: {} {text}", response.status);
        let is_ours = text.contains("only here, never with reprise serve");
        assert_eq!(is_ours, ["parse", "class", "memory", "missing", "type", "sent"].contains(&path), "{path}: {text}");
    }
}

/// The same application, served: nobody sees the source.
#[test]
fn no_error_page_and_no_script_where_it_is_served() {
    let setup =
        Setup::empty().file("index.php", "<?php if ($_GET) { throw new Exception('secret'); } echo '<body></body>';");
    let server = setup.ini("display_errors", "0").start();
    let mut client = server.client();
    let response = browse(&mut client, "/?a=1");
    assert!(response.status == 500 && !response.text().contains("secret"), "{}", response.text());
    assert!(!has_script(&browse(&mut client, "/")));
    assert!(!client.get("/.reprise/listen.js").text().contains("EventSource"));
}
