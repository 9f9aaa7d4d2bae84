//! Faults of what is deployed: Composer, owners and modes, what strangers reach, .htaccess, options.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{User, chown};

use super::{Fault, Site, fault};

const LOCK: &str = r#"{
    "packages": [
        {
            "name": "acme/one",
            "version": "1.0.0",
            "require": {
                "php": "^9.0",
                "ext-acme-nothing": "*"
            }
        },
        {
            "name": "acme/two",
            "version": "2.0.0",
            "provide": { "ext-acme-polyfilled": "*" },
            "require": { "php": ">=7.4", "ext-acme-polyfilled": "*", "ext-json": "*" }
        }
    ],
    "packages-dev": [ { "name": "acme/tests", "version": "3.0.0" } ],
    "platform": {
        "ext-acme-missing": "*"
    }
}
"#;
const INSTALLED: &str =
    r#"{ "packages": [ { "name": "acme/one", "version": "1.1.0" }, { "name": "acme/tests", "version": "3.0.0" } ] }"#;

const HTACCESS: &str = "RewriteEngine On
RewriteCond %{REQUEST_FILENAME} !-f
RewriteRule . /index.php [L]
RewriteRule ^old/(.*)$ /new/$1 [R=301,L]
Redirect 301 /a /b
php_value memory_limit 1G
SetHandler None
Header set X-Frame-Options DENY
";

const UPLOADS: &str = "SetHandler None
SetHandler application/x-httpd-php
RemoveHandler .php
php_flag engine off
";

const FAULTS: [Fault; 32] = [
    fault("deployment.php", "error", "composer.lock", 7, ""),
    fault("deployment.extension", "error", "composer.lock", 8, ""),
    fault("deployment.extension", "error", "composer.lock", 20, ""),
    fault("deployment.lock", "warning", "vendor/composer/installed.json", 0, ""),
    fault("deployment.lock", "notice", "vendor/composer/installed.json", 0, ""),
    fault("deployment.writable", "error", "src/everybody.php", 0, "<?php\n"),
    fault("deployment.writable", "warning", "src/own.php", 0, "<?php\n"),
    fault("deployment.closed", "error", "src/closed.php", 0, "<?php\n"),
    fault("deployment.closed", "warning", "src/closed.php", 0, "<?php\n"),
    fault("deployment.secret", "warning", ".env", 0, "SECRET=1\n"),
    fault(
        "deployment.secret",
        "warning",
        "config/config.inc.php",
        3,
        "<?php\n$cfg['db']['host'] = '127.0.0.1';\n$cfg['db']['pass'] = 'k3s9';\n",
    ),
    fault("deployment.links", "warning", "public/linked.txt", 0, ""),
    fault("deployment.reachable", "error", "public/prod.env", 0, "SECRET=1\n"),
    fault("deployment.reachable", "error", "public/site-backup.tar.gz", 0, "x"),
    fault("deployment.reachable", "error", "public/sub/www.zip", 0, "x"),
    fault("deployment.reachable", "error", "public/database.ini", 0, "password=1\n"),
    fault("deployment.reachable", "notice", "public/settings.yml", 0, "a: 1\n"),
    fault("deployment.phpinfo", "warning", "public/look.php", 3, "<?php\n\nphpinfo();\n"),
    fault("deployment.phpinfo", "warning", "public/adminer.php", 0, "<?php\n"),
    fault("deployment.htaccess", "warning", "public/.htaccess", 4, HTACCESS),
    fault("deployment.htaccess", "warning", "public/.htaccess", 5, HTACCESS),
    fault("deployment.htaccess", "warning", "public/.htaccess", 6, HTACCESS),
    fault("deployment.htaccess", "warning", "public/.htaccess", 7, HTACCESS),
    fault("deployment.htaccess", "notice", "public/.htaccess", 8, HTACCESS),
    fault("deployment.htaccess", "error", "public/admin/.htaccess", 1, "AuthType Basic\nRequire valid-user\n"),
    fault("deployment.htaccess", "error", "public/private/.htaccess", 1, "Require all denied\n"),
    fault("deployment.htaccess", "warning", "public/inner/.htaccess", 1, "Require all denied\n"),
    fault("deployment.htaccess", "error", "public/uploads/.htaccess", 1, UPLOADS),
    fault("deployment.htaccess", "error", "public/uploads/.htaccess", 3, UPLOADS),
    fault("deployment.htaccess", "error", "public/uploads/.htaccess", 4, UPLOADS),
    fault("deployment.reachable", "notice", "public/x.module", 0, "<?php\n"),
    fault("deployment.reachable", "error", "public/examples/x.txt", 0, "<?php\n"),
];

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("permissions");
}

#[test]
fn faults_of_deployments_are_found() {
    tests::process::needs_root();
    let site = Site::new();
    FAULTS.iter().filter(|fault| !fault.text.is_empty()).for_each(|fault| _ = site.write(fault.file, fault.text));
    site.write("composer.lock", LOCK).write("vendor/composer/installed.json", INSTALLED);
    site.write("public/admin/report.php", "<?php\n").write("public/private/list.txt", "a");
    site.write("public/inner/a.php", "<?php\n")
        .write("public/inner/CHANGELOG.md", "a")
        .write("public/inner/c.php", "<?php\n");
    // What is no fault: below a directory that nothing is sent of, hidden, denied by default, or guarded.
    site.write("secret/.htaccess", "Deny from all\n").write("secret/a.txt", "a");
    site.write("public/.git/HEAD", "ref").write("public/dump.sql", "x").write("public/composer.lock", "{}");
    site.write("public/guarded/phpinfo.php", "<?php phpinfo();\n");
    let app = site.directory.0.join("app");
    mode(&app.join("src/everybody.php"), 0o666);
    mode(&app.join("src/closed.php"), 0o600);
    let www = User::from_name("www-data").expect("users").expect("www-data");
    chown(&app.join("src/own.php"), Some(www.uid), Some(www.gid)).expect("chown");
    for (target, name, owner) in [("../composer.lock", "linked.txt", www.uid.as_raw()), ("../vendor", "followed", 0)] {
        let link = app.join("public").join(name);
        std::os::unix::fs::symlink(target, &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(owner), None).expect("lchown");
    }
    chown(&app.join("public/uploads"), Some(www.uid), None).expect("chown");
    // The same where PHP cannot write, or a rule says it, too.
    site.write("public/fixed/.htaccess", UPLOADS).write("public/ruled/.htaccess", UPLOADS);
    chown(&app.join("public/ruled"), Some(www.uid), None).expect("chown");
    // A denial and a dump that the front cannot read.
    site.write("public/closed/.htaccess", "Require all denied\n").write("public/closed/list.txt", "a");
    mode(&app.join("public/closed"), 0o700);
    site.write("public/backup.zip", "x");
    mode(&app.join("public/backup.zip"), 0o600);
    let rules = ["\"/guarded/\"\ndeny = true", "\"/ruled\"\nphp = false", "\"/examples\"\nallow = true"];
    let rules = rules.map(|rule| format!("[[application.route]]\nprefix = {rule}\n"));
    let site = site.option(&rules.concat());
    let report = site.look(&["--only", "deployment"]);
    assert_eq!(report.code, 4);
    report.has_all(&FAULTS);
    for file in ["public/dump.sql", ".git/HEAD", "public/composer.lock"] {
        assert!(!report.has(&fault("deployment.reachable", "error", file, 0, "")), "{file} is never sent");
    }
    for file in ["public/fixed/.htaccess", "public/ruled/.htaccess", "public/closed/.htaccess"] {
        assert!(!report.has(&fault("deployment.htaccess", "error", file, 0, "")), "{file}");
    }
    assert!(
        !report.has(&fault("deployment.reachable", "error", "public/backup.zip", 0, "")),
        "it is closed to the front"
    );
    assert!(!report.has(&fault("deployment.links", "warning", "public/followed", 0, "")));
    assert!(!report.has(&fault("deployment.phpinfo", "warning", "guarded/phpinfo.php", 0, "")));
    assert!(!report.has(&fault("deployment.htaccess", "error", "secret/.htaccess", 0, "")));
    assert!(
        !report.has(&fault("deployment.htaccess", "warning", "public/.htaccess", 3, "")),
        "a front controller is the default"
    );
    let extensions: Vec<_> =
        report.of("deployment.extension").iter().map(|one| one["what"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(extensions.len(), 2, "what a package provides, and what is loaded, is there: {extensions:?}");
}

/// Options that would fit are findings with a fix, which changes that line of the configuration and nothing else.
#[test]
fn fixes_change_the_configuration_alone() {
    let site = Site::new().option("default_denials = false").option("ini.\"opcache.enable\" = \"0\"");
    site.write("artisan", "#!/usr/bin/env php\n").write("bootstrap/app.php", "<?php\n").write("public/dump.sql", "x");
    let faults = [
        fault("deployment.preset", "notice", "reprise.toml", 0, ""),
        fault("deployment.denials", "warning", "reprise.toml", 3, ""),
        fault("deployment.reachable", "error", "public/dump.sql", 0, ""),
        fault("host.opcache", "warning", "reprise.toml", 4, ""),
    ];
    let before = site.look(&[]);
    before.has_all(&faults);
    assert_eq!(before.of("deployment.preset")[0]["fix"]["value"], "\"laravel\"");
    let after = site.look(&["--fix"]);
    assert_eq!(after.json["fixed"].as_array().map(Vec::len), Some(3), "{}", after.json);
    for fault in &faults {
        assert!(!after.has(fault), "{}", fault.id);
    }
    let text = fs::read_to_string(site.config()).expect("the configuration");
    assert!(text.contains("preset = \"laravel\"") && text.contains("default_denials = true"), "{text}");
    assert!(text.contains("ini.\"opcache.enable\" = \"1\"") && !text.contains("false"), "{text}");
    assert_eq!(fs::read_dir(&site.directory.0).expect("a directory").count(), 2, "no other file is left");
    let again = site.look(&["--fix"]);
    assert_eq!(again.json["fixed"].as_array().map(Vec::len), Some(0));
}

/// Files with secrets are known by what they have, whatever they are called; texts and options that only look alike are none.
#[test]
fn secrets_are_found_by_what_files_have() {
    let site = Site::new();
    let faults = [
        fault(
            "deployment.secret",
            "warning",
            "shop/config.php",
            3,
            "<?php\ndefine('DB_HOSTNAME', 'localhost');\ndefine('DB_PASSWORD', 'k3s9');\n",
        ),
        fault(
            "deployment.secret",
            "warning",
            "Settings.php",
            3,
            "<?php\n$db_server = 'localhost';\n$db_passwd = 'k3s9';\n",
        ),
        fault(
            "deployment.secret",
            "warning",
            "site.php",
            2,
            "<?php\n$database = 'mysql://shop:k3s9@localhost/shop';\n",
        ),
        fault("deployment.secret", "warning", "keys/deploy", 0, "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n"),
        fault("deployment.secret", "warning", "old.sql", 0, "-- MySQL dump 10.13\nINSERT INTO a VALUES (1);\n"),
        fault("deployment.reachable", "error", "public/conf/db.txt", 2, "host = localhost\npassword = k3s9\n"),
        fault(
            "deployment.reachable",
            "error",
            "public/conf/db.json",
            1,
            "{\"host\": \"db\", \"password\": \"k3s9\"}\n",
        ),
    ];
    faults.iter().for_each(|fault| _ = site.write(fault.file, fault.text));
    site.write("lang.php", "<?php\nreturn ['host' => 'Host', 'user' => 'User', 'password' => 'Password'];\n");
    site.write(
        "theme.php",
        "<?php\n$options = ['header_text' => 'a', 'password_hint' => 'none', 'secret' => 'box'];\n",
    );
    site.write("config.sample.php", "<?php\n$db_host = 'localhost';\n$db_password = 'k3s9';\n");
    site.write("closed.php", "<?php\n$db_host = 'localhost';\n$db_password = 'k3s9';\n");
    let app = site.directory.0.join("app");
    mode(&app.join("closed.php"), 0o640);
    let report = site.look(&["--only", "deployment"]);
    report.has_all(&faults);
    let text = report.json["findings"].to_string();
    assert!(!text.contains("k3s9"), "no secret is printed: {text}");
    for file in ["lang.php", "theme.php", "config.sample.php", "closed.php"] {
        assert!(!report.has(&fault("deployment.secret", "warning", file, 0, "")), "{file}");
    }
}

/// Denials of .htaccess are a finding where the front sends what Apache would not, once each.
#[test]
fn denials_of_htaccess_are_decided_as_apache_does() {
    let site = Site::new();
    let faults = [
        fault(
            "deployment.htaccess",
            "error",
            "public/status/.htaccess",
            2,
            "RewriteEngine On\nRewriteRule ^conf/ - [R=404,L]\n",
        ),
        fault(
            "deployment.htaccess",
            "error",
            "public/gone/.htaccess",
            3,
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule \\.txt$ - [G]\n",
        ),
        fault("deployment.htaccess", "error", "public/match/.htaccess", 1, "RedirectMatch 403 ^/match/conf\n"),
        fault(
            "deployment.htaccess",
            "error",
            "public/files/.htaccess",
            4,
            "Order allow,deny\nAllow from all\n<FilesMatch \"\\.(txt|ini)$\">\nRequire all denied\n</FilesMatch>\n",
        ),
        fault(
            "deployment.htaccess",
            "error",
            "public/pair/.htaccess",
            2,
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n",
        ),
    ];
    let right = [
        ("later", "Order deny,allow\nDeny from all\nAllow from all\n"),
        ("comment", "# Require all denied\n"),
        ("other", "<Files other.ini>\nRequire all denied\n</Files>\n"),
        ("old", "<IfVersion < 2.4>\nDeny from all\n</IfVersion>\n"),
        ("method", "<LimitExcept GET POST>\nDeny from all\n</LimitExcept>\n"),
        ("pass", "RewriteEngine On\nRewriteRule ^conf - [L]\nRewriteRule . - [F]\n"),
    ];
    for fault in &faults {
        site.write(fault.file, fault.text);
        site.write(&fault.file.replace(".htaccess", "conf/a.txt"), "a");
    }
    for (name, text) in right {
        site.write(&format!("public/{name}/.htaccess"), text).write(&format!("public/{name}/conf/a.txt"), "a");
    }
    let report = site.look(&["--only", "deployment"]);
    report.has_all(&faults);
    let denied: Vec<&serde_json::Value> =
        report.of("deployment.htaccess").into_iter().filter(|finding| finding["severity"] == "error").collect();
    let places = denied.iter().flat_map(|finding| finding["evidence"].as_array()).flatten().count();
    assert_eq!(places, faults.len(), "each once, and nothing that is open: {denied:#?}");
}

/// phpinfo() behind a question of who asks, or in a function that is not called, is not for anybody.
#[test]
fn a_guarded_phpinfo_is_not_for_anybody() {
    let site = Site::new();
    let faults = [
        fault("deployment.phpinfo", "warning", "public/open.php", 2, "<?php\nif (isset($_GET['q'])) { phpinfo(); }\n"),
        fault(
            "deployment.phpinfo",
            "warning",
            "public/called.php",
            2,
            "<?php\nfunction g() { phpinfo(); }\nif (!extension_loaded('a')) { echo 1; }\ng();\n",
        ),
        fault(
            "deployment.phpinfo",
            "warning",
            "public/config.php",
            3,
            "<?php\nrequire __DIR__ . '/settings.php';\nphpinfo();\n",
        ),
    ];
    faults.iter().for_each(|fault| _ = site.write(fault.file, fault.text));
    let right = [
        ("session", "<?php\nsession_start();\nif (empty($_SESSION['admin'])) {\n    exit;\n}\nphpinfo();\n"),
        ("address", "<?php\nif ($_SERVER['REMOTE_ADDR'] === '127.0.0.1') { phpinfo(); }\n"),
        ("method", "<?php\nclass Info { function show() { phpinfo(); } }\n"),
        ("login", "<?php\nrequire 'ask.php';\nphpinfo();\n"),
        ("call", "<?php\nrequire_admin();\nphpinfo();\n"),
        ("cli", "<?php\nPHP_SAPI === 'cli' or die;\nphpinfo();\n"),
    ];
    right.iter().for_each(|(name, text)| _ = site.write(&format!("public/{name}.php"), text));
    site.write("public/ask.php", "<?php\nif (!asked()) { die; }\n").write("public/settings.php", "<?php\n$a = 1;\n");
    let report = site.look(&["--only", "deployment"]);
    report.has_all(&faults);
    let places = report.of("deployment.phpinfo")[0]["evidence"].as_array().map_or(0, Vec::len);
    assert_eq!(places, faults.len(), "{:#}", report.json["findings"]);
}
