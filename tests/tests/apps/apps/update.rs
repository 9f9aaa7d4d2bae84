//! Code that is replaced while it is served: the new code runs at once, in all workers, where it does under PHP-FPM.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tests::compare::{HOST, Pair, Site, between, value};
use tests::peer::{Fpm, run_to_end};
use tests::snapshot::isolations;
use tests::{Client, Setup, wait_until};

use super::upload;

/// Asks several at a time until two workers have answered; whether all of them said what is expected.
fn both_say(port: u16, path: &str, expected: &str) -> bool {
    let (mut processes, mut right) = (BTreeSet::new(), true);
    wait_until("two workers answer", 60, || {
        let ask = || Client::new(port).request("GET", path, &[("Host", HOST)], b"");
        let answers = std::thread::scope(|scope| {
            let all = [scope.spawn(ask), scope.spawn(ask), scope.spawn(ask)];
            all.map(|one| one.join().expect("an answer"))
        });
        for answer in answers {
            assert_eq!(answer.status, 200, "{}", answer.text());
            processes.insert(answer.header("x-process").expect("a process").to_owned());
            right &= answer.text() == expected;
        }
        processes.len() >= 2
    });
    right
}

/// An archive of another version of the plugin.
fn archive(plugin: &Path, version: &str, target: &Path) {
    let program = r#"
        [, $plugin, $version, $target] = $argv;
        $zip = new ZipArchive;
        $zip->open($target, ZipArchive::CREATE);
        foreach (['marker.php', 'includes/class-marker.php'] as $name) {
            $text = str_replace(['Version: 1.0', "'1.0'"], ["Version: $version", "'$version'"], file_get_contents("$plugin/$name"));
            $zip->addFromString("marker/$name", $text);
        }
        $zip->close();"#;
    run_to_end(Command::new("php").args(["-r", program, "--"]).arg(plugin).arg(version).arg(target));
}

/// WordPress replaces its plugin Marker, which is active in version 1.0, and tells opcache so.
pub fn by_wordpress(pair: &mut Pair, site: &Site) {
    let plugin = site.ours.join("plugins/marker");
    let all_say = |pair: &mut Pair, version: &str| {
        for port in pair.ports() {
            assert!(both_say(port, "/?marker=version", &format!("Marker {version}")), "{version}");
        }
        assert!(pair.get("/").text().contains(&format!("Marker {version}")));
    };
    pair.go_on("updates of a plugin");
    all_say(pair, "1.0");

    let zip = site.ours.join("marker-1.1.zip");
    archive(&plugin, "1.1", &zip);
    let zip = fs::read(&zip).expect("an archive");
    let replaced = pair.same("by an archive that is uploaded", |visitor| {
        let page = visitor.get("/wp-admin/plugin-install.php?tab=upload").text();
        let nonce = value("_wpnonce")(&page);
        let file = [("pluginzip", "marker.zip", "application/zip", &*zip)];
        let page = upload(visitor, "/wp-admin/update.php?action=upload-plugin", &[("_wpnonce", &nonce)], &file).text();
        assert!(page.contains("This plugin is already installed."), "{page}");
        let link =
            between(&page, "update-from-upload-overwrite\" href=\"", "\"").replace("&#038;", "&").replace("&amp;", "&");
        visitor.get(&format!("/wp-admin/{}", link.rsplit('/').next().expect("a path")))
    });
    let page = replaced.text();
    assert!(
        page.contains("Plugin updated successfully."),
        "{}",
        between(&page, "<div class=\"wrap\">", "<div class=\"clear\">")
    );
    all_say(pair, "1.1");

    for place in [&site.ours, &site.theirs] {
        archive(&plugin, "1.2", &place.join("marker-1.2.zip"));
    }
    let find = |page: &str| between(page, "\"ajax_nonce\":\"", "\"").to_owned();
    let updated = pair.submit("by a click in the list of plugins", "/wp-admin/plugins.php", find, |visitor, nonce| {
        let form =
            [("action", "update-plugin"), ("plugin", "marker/marker.php"), ("slug", "marker"), ("_ajax_nonce", nonce)];
        visitor.post_form("/wp-admin/admin-ajax.php", &form)
    });
    assert!(updated.text().contains("\"newVersion\":\"Version 1.2\""), "{}", updated.text());
    all_say(pair, "1.2");
}

const INDEX: &str = r#"<?php
if (function_exists('reprise_snapshot')) { reprise_snapshot(); }
if (isset($_GET['invalidate'])) { opcache_invalidate(__DIR__ . '/code/version.php', true); }
require __DIR__ . '/code/version.php';
header('X-Process: ' . getmypid());
// So that the next request finds this worker busy.
usleep(20000);
echo VERSION;
"#;

/// A directory is put in the place of another, as upgraders do.
fn replace(root: &Path, version: u64) {
    let (code, new) = (root.join("code"), root.join("new"));
    fs::create_dir(&new).expect("a directory");
    let file = new.join("version.php");
    fs::write(&file, format!("<?php const VERSION = 'version {version}';")).expect("a file");
    // Not within one second of the other, which is all that opcache can see.
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + version * 100);
    File::options().write(true).open(&file).and_then(|file| file.set_modified(time)).expect("a time");
    let _ = fs::remove_dir_all(&code);
    fs::rename(&new, &code).expect("the new directory");
}

/// With `opcache.revalidate_freq` 0 at once; with its default when a request invalidates the file, or within its two seconds.
#[test]
fn replaced_files_are_served_as_under_fpm() {
    std::thread::scope(|scope| {
        for mode in ["classic", "PHP-FPM"].iter().chain(isolations()) {
            for frequency in ["0", "2"] {
                scope.spawn(move || replaced(mode, frequency));
            }
        }
    });
}

fn replaced(mode: &str, frequency: &str) {
    let what = format!("{mode}, revalidate_freq {frequency}");
    let ini = ("opcache.revalidate_freq", frequency);
    let setup = Setup::empty().file("index.php", INDEX).ini(ini.0, ini.1);
    let root = setup.document_root().to_owned();
    replace(&root, 1);
    let (fpm, reprise);
    let port = if mode == "PHP-FPM" {
        fpm = Fpm::with(&root, &[ini]);
        fpm.port
    } else {
        let setup = match mode {
            "classic" => setup.application("mode.\"index.php\" = \"classic\""),
            isolation => setup.application(&format!("isolation = \"{isolation}\"")).flag("--audit"),
        };
        reprise = setup.start();
        reprise.port
    };
    assert!(both_say(port, "/", "version 1"), "{what}");

    replace(&root, 2);
    if frequency == "0" {
        assert!(both_say(port, "/", "version 2"), "{what}: at once");
        return;
    }
    wait_until("the file is looked at again", 60, || both_say(port, "/", "version 2"));
    replace(&root, 3);
    Client::new(port).get("/?invalidate");
    assert!(both_say(port, "/", "version 3"), "{what}: invalidated");
}
