//! `reprise-laravel`, which adds the package's call to public/index.php: the forms of Laravel 8 to 13, and what it refuses.

use std::fs;
use std::process::{Command, Output};

use tests::server::{Directory, project};

/// What the forms have above the application.
const HEAD: &str = "<?php\n\nuse Illuminate\\Contracts\\Http\\Kernel;\nuse Illuminate\\Http\\Request;\n\ndefine('LARAVEL_START', microtime(true));\n\n\
    if (file_exists($down = __DIR__.'/../storage/framework/maintenance.php')) {\n    require $down;\n}\n\nrequire __DIR__.'/../vendor/autoload.php';\n\n";

/// An application that tells what happens to it.
const APPLICATION: &str = "<?php namespace { echo 'made '; function tap($value) { return $value; } }
namespace Illuminate\\Http { class Request { static function capture() { echo 'captured '; return new self; } } }
namespace Reprise\\Laravel { function serve($app) { echo 'served '; } }
namespace { return new class {
    function make($name) { return $this; }
    function handle($request) { echo 'handled'; return $this; }
    function handleRequest($request) { $this->handle($request); }
    function send() { return $this; }
    function terminate() {}
    function run() {}
}; }";

/// Behind the line of Laravel 8 to 10.
const KERNEL: &str = "$kernel = $app->make(Kernel::class);\n\n$response = tap($kernel->handle(\n    $request = Request::capture()\n))->send();\n\n$kernel->terminate($request, $response);\n";

struct Site(Directory);

impl Site {
    fn new() -> Site {
        let directory = Directory::new();
        for (name, text) in
            [("bootstrap/app.php", APPLICATION), ("vendor/autoload.php", "<?php\n"), ("public/index.php", "")]
        {
            let path = directory.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Site(directory)
    }

    fn php(&self, script: &std::path::Path, arguments: &[&str]) -> Output {
        Command::new("php").arg(script).args(arguments).current_dir(&self.0.0).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Output {
        self.php(&project().join("composer/bin/reprise-laravel"), arguments)
    }

    fn read(&self) -> String {
        fs::read_to_string(self.0.0.join("public/index.php")).unwrap()
    }

    fn write(&self, text: &str) {
        fs::write(self.0.0.join("public/index.php"), text).unwrap();
    }

    /// What a request does.
    fn run(&self) -> String {
        let output = self.php(&self.0.0.join("public/index.php"), &[]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Without `--write` nothing changes; what is printed is a patch in both directions; the second run changes nothing.
#[test]
fn laravels_front_controllers_get_the_call() {
    let made = "$app = require_once __DIR__.'/../bootstrap/app.php';\n";
    let two_lines = "(require_once __DIR__.'/../bootstrap/app.php')\n    ->handleRequest(Request::capture());\n";
    let forms = [
        (
            "8",
            format!(
                "{HEAD}{made}\n{}",
                KERNEL.replace("make(Kernel::class)", "make(Illuminate\\Contracts\\Http\\Kernel::class)")
            ),
        ),
        ("8.x to 10", format!("{HEAD}{made}\n{KERNEL}")),
        ("11", format!("{HEAD}// The application.\n{two_lines}")),
        (
            "12 and 13",
            format!("{HEAD}/** @var Application $app */\n{made}\n$app->handleRequest(Request::capture());\n"),
        ),
        ("carriage returns", format!("{HEAD}{two_lines}").replace('\n', "\r\n")),
        ("no last line break", format!("{HEAD}{}", two_lines.trim_end())),
        ("a comment behind it", format!("{HEAD}{}{KERNEL}", made.replace(";\n", "; // made\n"))),
        (
            "a name of its own",
            format!(
                "{HEAD}$laravel = require dirname(__DIR__) . '/bootstrap/app.php';\n$laravel->handleRequest(Request::capture());\n"
            ),
        ),
        ("a namespace", format!("{}{two_lines}", HEAD.replace("<?php\n", "<?php\nnamespace Site;\n"))),
        (
            "one line",
            format!("{HEAD}(require_once __DIR__.'/../bootstrap/app.php')->handleRequest(Request::capture());"),
        ),
    ];
    let site = Site::new();
    for (form, before) in &forms {
        site.write(before);
        let shown = site.command(&[]);
        assert!(shown.status.success() && site.read() == *before, "{form}: {shown:?}");
        let written = site.command(&["--write"]);
        let after = site.read();
        assert!(written.status.success() && written.stdout == shown.stdout && after != *before, "{form}: {written:?}");
        assert_eq!(site.run(), "made served captured handled", "{form}: {after}");
        let again = site.command(&["--write"]);
        assert!(again.status.success() && text(&again.stdout).contains("has the call already"), "{form}: {again:?}");
        assert_eq!(site.read(), after, "{form}");
        assert!(
            !after.replace("\r\n", "").contains('\r') && after.contains("\r\n") == before.contains("\r\n"),
            "{form}: {after:?}"
        );

        fs::write(site.0.0.join("patch"), &written.stdout).unwrap();
        let back = "patch --binary -sR public/index.php patch";
        let patched = Command::new("bash").args(["-c", back]).current_dir(&site.0.0).output().unwrap();
        assert!(patched.status.success() && site.read() == *before, "{form}: {patched:?}\n{}", text(&written.stdout));
    }
}

/// What it does not know stays as it is, and the message has the lines.
#[test]
fn a_front_controller_of_another_form_is_refused() {
    let made = "$app = require_once __DIR__.'/../bootstrap/app.php';\n";
    let handled = "$app->handleRequest(Request::capture());\n";
    let refused = [
        ("no line of it requires", format!("{HEAD}$app = make_application();\n{handled}")),
        ("several lines of it require", format!("{HEAD}{made}{made}{handled}")),
        ("within something else", format!("{HEAD}function application() {{\n    {made}    return $app;\n}}\n")),
        ("within something else", format!("{HEAD}if (true) {{\n    {made}}}\n{handled}")),
        ("does something else", format!("{HEAD}return require_once __DIR__.'/../bootstrap/app.php';\n{handled}")),
        (
            "within something else",
            format!(
                "{HEAD}$response = (require __DIR__.'/../bootstrap/app.php')->handleRequest(Request::capture());\n"
            ),
        ),
        ("gives no request to a kernel", format!("{HEAD}{made}$app->run();\n")),
        (
            "uses $app for something else",
            format!(
                "{HEAD}$app = 'shop';\n(require __DIR__.'/../bootstrap/app.php')->handleRequest(Request::capture());\n"
            ),
        ),
        (
            "line 16 reads the request (capture)",
            format!("{HEAD}\n\n$request = Request::capture();\n{made}$app->handleRequest($request);\n"),
        ),
        ("is no PHP", format!("{HEAD}$app = = 1;\n")),
    ];
    let site = Site::new();
    for (why, before) in &refused {
        site.write(before);
        let output = site.command(&["--write"]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why) && site.read() == *before, "{why}: {said}");
        let lines = "hint: have it make the application by these two lines, and use $app below them:\n";
        assert!(
            *why == "is no PHP" || said.contains(&format!("{lines}{made}\\Reprise\\Laravel\\serve($app);")),
            "{why}: {said}"
        );
    }
    let missing = site.command(&["--write", "index.php"]);
    assert!(
        missing.status.code() == Some(1) && text(&missing.stderr).contains("cannot be read\nhint: "),
        "{missing:?}"
    );
    assert_eq!(site.command(&["--rewrite"]).status.code(), Some(64));
}
