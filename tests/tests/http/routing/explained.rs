//! `reprise route URL`: what responds, and which rule says so, without a server.

use std::fs;
use std::process::Command;

use tests::server::{Directory, program};

fn ask(directory: &Directory, url: &str, flags: &[&str]) -> (Option<i32>, String) {
    let config = directory.0.join("r.toml");
    let output = Command::new(program()).arg("route").arg(url).arg("--config").arg(&config).args(flags).output();
    let output = output.expect("reprise route");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The explanation names every rule that was looked at, and what was found.
#[test]
fn what_responds_is_explained() {
    let directory = Directory::new();
    for name in ["www/index.php", "www/api.php", "www/a.txt", "www/data/x.sqlite"] {
        let path = directory.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, "").expect("a file");
    }
    let text = "[[application]]\nroot = \"www\"\nhosts = [\"shop.example\"]\n\
        [[application.route]]\nprefix = \"/admin\"\naddress = \"10.0.0.0/8\"\ndeny = true\n\
        [[application.route]]\npattern = '^/v1/(.*)$'\nrewrite = \"/api.php/$1?version=1\"\n\
        [[application.route]]\nprefix = \"/old\"\nredirect = \"/new/$rest\"\nheaders = { \"X-Old\" = \"1\" }\n";
    fs::write(directory.0.join("r.toml"), text).expect("a file");
    for (url, flags, parts) in [
        (
            "http://shop.example/a.txt",
            &[][..],
            &["r.toml:4: prefix /admin, address at /a.txt: does not fit", "the file ", "www/a.txt"][..],
        ),
        (
            "/v1/users?x",
            &[],
            &[
                "rewrites to /api.php/users",
                "rewritten    /api.php/users?version=1",
                "www/api.php with the path info /users",
            ],
        ),
        ("/%2e/v1//users", &[], &["path         /v1/users", "/api.php/users"]),
        ("/old/x?y", &[], &["header       x-old: 1", "decided by   ", "r.toml:11", "302 to /new/x?y"]),
        ("/admin", &["--address", "10.1.2.3"], &["deny = 403", "403 denied"]),
        ("/admin", &[], &["www/index.php"]),
        ("/data/x.sqlite", &[], &["a default denial (database)"]),
        ("/../x", &[], &["400 bad-target"]),
        ("/old/x", &["--json"], &["\"location\": \"/new/x\"", "\"status\": 302", "\"fits\": true"]),
    ] {
        let (code, said) = ask(&directory, url, flags);
        assert_eq!(code, Some(0), "{url}: {said}");
        for part in parts {
            assert!(said.to_lowercase().contains(&part.to_lowercase()), "{url}: no {part} in\n{said}");
        }
    }
    assert_eq!(ask(&directory, "http://other.example/", &[]).0, Some(64));
    assert_eq!(ask(&directory, "shop.example", &[]).0, Some(64));
}
