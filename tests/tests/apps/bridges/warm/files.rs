//! WordPress' plugin is a file and a directory: a site that has one of them, or parts of an earlier version, runs in classic mode and says why.

use std::fs;

use tests::bridged::{self, HOST};
use tests::{Setup, wait_until};

#[test]
fn a_plugin_that_is_not_whole_says_what_is_missing() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    let plugins = root.join("wp-content/mu-plugins");
    let says = |expected: &str| {
        let server = Setup::root(&root).application("cache_memory = 0").start();
        for _ in 0..2 {
            let response = server.client().request("GET", "/post-5/", &[("Host", HOST)], b"");
            assert_eq!(response.status, 200, "{}", response.text());
            assert!(response.text().contains("</html>"), "{}", response.text());
        }
        wait_until("the log says it", 10, || server.log().contains(expected));
    };
    for earlier in ["reprise-warm.php", "reprise-classes.php"] {
        let path = plugins.join(earlier);
        fs::write(&path, "<?php namespace Reprise\\WordPress; final class Warm {} class Scripts {}").unwrap();
        says(&format!(
            "Reprise: no snapshot is taken, because {} is of an earlier version: delete it.",
            path.display()
        ));
        fs::remove_file(&path).unwrap();
    }
    says("/index.php is booted");
    fs::remove_dir_all(plugins.join("reprise")).unwrap();
    says(&format!(
        "Reprise: no snapshot is taken, and no page is cached, because {}/reprise is missing: copy that directory, too.",
        plugins.display()
    ));
}
