//! The call in `auto_prepend_file`: a procedural application gets a snapshot and is not changed.

use tests::client::Response;
use tests::snapshot::{Lane, always_both, isolations, refused_by_both, snapshot_script};
use tests::{Server, Setup, wait_until};

const PREPENDED: &str = r#"<?php
$boots = ($boots ?? 0) + 1;
$at = basename(__FILE__) . ' in ' . basename(getcwd());
reprise_snapshot();
if (isset($_GET['stop'])) { echo 'stopped'; exit; }
"#;

const CASES: &str = r#"
case 'count': $boots++; $GLOBALS['seen'][] = 1; echo "$boots ", count($seen), " $at, ", basename(getcwd()), ' ', basename(__DIR__); break;
case 'files': echo implode(' ', array_map('basename', get_included_files())); break;
case 'path': echo $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['SCRIPT_NAME'], ' ', $_POST['v'] ?? '-'; break;
case 'throw': throw new Exception('its own');
case 'exit': echo 'left'; exit;
case 'mode': echo reprise_info()['mode']; break;
"#;

/// `index.php` is the application, which knows nothing of snapshots.
fn application() -> Setup {
    let setup = snapshot_script("<?php include 'after.php';\n", CASES)
        .file("prepend.php", PREPENDED)
        .file("append.php", "<?php echo ', appended';")
        .application("mode.\"index.php\" = \"snapshot\"");
    let append = setup.document_root().join("append.php");
    setup.ini("auto_append_file", append.to_str().unwrap())
}

fn by_ini() -> Setup {
    let setup = application();
    let prepend = setup.document_root().join("prepend.php");
    setup.ini("auto_prepend_file", prepend.to_str().unwrap())
}

fn by_user_ini() -> Setup {
    application().file(".user.ini", "auto_prepend_file = prepend.php\n")
}

fn serves_the_script_behind_it(lane: &mut Lane) {
    assert_eq!(lane.same("count", 20), "2 1 prepend.php in public, public public, appended");
    assert_eq!(lane.same("files", 3), "prepend.php index.php after.php, appended");
    assert_eq!(lane.same("exit", 3), "left");
    assert_eq!(lane.pair("count"), ["2 1 prepend.php in public, public public, appended"; 2]);
    let mut client = lane.client();
    for _ in 0..3 {
        assert_eq!(client.get("/?stop").text(), "stopped");
        assert_eq!(client.get("/index.php/a/b?do=path").text(), "/a/b /index.php -, appended");
        let form = client.post_form("/?do=path", &[], &[("v", "posted")]);
        assert_eq!(form.text(), "- /index.php posted, appended");
        let own: Response = client.get("/?do=throw");
        assert_eq!(own.status, 500, "{}", own.text());
    }
    assert_eq!(lane.text("mode"), "snapshot, appended");
}

/// The call in a file of `auto_prepend_file` gives the script behind it a snapshot.
#[test]
fn the_call_may_stand_in_a_prepended_file() {
    always_both(by_ini, serves_the_script_behind_it);
}

/// The call in a file that a `.user.ini` prepends gives the script behind it a snapshot.
#[test]
fn the_call_may_stand_in_a_file_that_user_ini_prepends() {
    always_both(by_user_ini, serves_the_script_behind_it);
}

/// The call in a prepended file works without opcache, too.
#[test]
fn the_call_may_stand_in_a_prepended_file_without_opcache() {
    always_both(|| by_ini().ini("opcache.enable", "0"), serves_the_script_behind_it);
}

/// Each script is a lane, found when it is asked for; until it is booted it runs as ever.
#[test]
fn each_script_behind_a_prepended_call_gets_a_lane() {
    const SCRIPT: &str = "<?php echo basename(__FILE__), ' ', $boots++, ' ', reprise_info()['mode'];";
    for isolation in isolations() {
        let setup = Setup::empty()
            .file("prepend.php", PREPENDED)
            .file("index.php", SCRIPT)
            .file("a.php", SCRIPT)
            .file("sub/b.php", SCRIPT)
            .application(&format!("isolation = \"{isolation}\""));
        let prepend = setup.document_root().join("prepend.php");
        let server: Server = setup.ini("auto_prepend_file", prepend.to_str().unwrap()).start();
        for path in ["/index.php", "/a.php", "/sub/b.php"] {
            let name = path.rsplit('/').next().unwrap();
            wait_until("the script is served from its snapshot", 20, || {
                let answer = server.get(path);
                let (text, booted) = (answer.text(), format!("{name} 1 snapshot"));
                assert!(text == booted || text == format!("{name} 1 classic"), "{path}: {} {text}", answer.status);
                text == booted
            });
        }
    }
}

/// The loop would leave the script itself for when there are no more requests.
#[test]
fn a_loop_in_a_prepended_file_is_refused() {
    let setup = Setup::empty()
        .file("prepend.php", "<?php while (reprise_handle_request(function () { echo 'prepended '; })) {}")
        .file("index.php", "<?php echo reprise_info()['mode'];");
    let prepend = setup.document_root().join("prepend.php");
    let server = setup.ini("auto_prepend_file", prepend.to_str().unwrap()).start();
    wait_until("it is refused", 20, || {
        assert_eq!(server.get("/").text(), "prepended classic");
        server.log().contains("the file of auto_prepend_file calls reprise_handle_request()")
    });
    assert_eq!(server.get("/").text(), "prepended classic");
}

/// What no worker can take over from the boot is found before the first request waits for one.
#[test]
fn a_snapshot_whose_workers_cannot_start_is_none() {
    refused_by_both(
        "$name = getenv('PLACE') . '/secret'; touch($name); $file = fopen($name, 'r'); chmod($name, 0);",
        &["cannot be booted", "cannot be opened again"],
    );
}

/// The boot has not come to the script itself. What then cannot be served from the snapshot is the classic mode's to answer.
#[test]
fn a_snapshot_that_no_request_can_go_on_from_gives_way_to_classic_mode() {
    for isolation in isolations() {
        let setup = Setup::empty()
            .file("prepend.php", "<?php reprise_snapshot();")
            .file("index.php", "<?php echo 'never read';")
            .application(&format!("isolation = \"{isolation}\"\nmode.\"index.php\" = \"snapshot\""));
        let script = setup.document_root().join("index.php");
        let prepend = setup.document_root().join("prepend.php");
        let server = setup.ini("auto_prepend_file", prepend.to_str().unwrap()).start();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        wait_until("classic mode answers", 20, || {
            let answer = server.get("/");
            // What another worker ran when the template ended is lost with it.
            assert!([403, 500, 502].contains(&answer.status), "{}", answer.text());
            answer.status == 403
        });
        let log = server.log();
        assert!(log.contains("a request cannot continue from the snapshot: "), "{log}");
        assert!(log.contains("its requests run in classic mode"), "{log}");
    }
}
