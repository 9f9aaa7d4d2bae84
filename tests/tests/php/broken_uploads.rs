//! Files of uploads whose worker is killed go with it; whatever else the request has made stays.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::client::multipart;
use tests::modes::modes;
use tests::{Setup, wait_until};

/// Moves the first of three files, makes one beside the others, says which files there are, and ends as it is asked to.
const HANDLE: &str = r#"$handle = function () {
    if (!$_FILES) { echo 'ready'; return; }
    $place = getenv('PLACE');
    move_uploaded_file($_FILES['a']['tmp_name'], "$place/moved");
    $own = tempnam(ini_get('upload_tmp_dir'), 'php');
    $seen = [dirname($_FILES['b']['tmp_name']), preg_match('/^php\w{6}$/', basename($_FILES['b']['tmp_name'])), file_get_contents($_FILES['c']['tmp_name']), is_uploaded_file($_FILES['c']['tmp_name'])];
    file_put_contents("$place/seen.new", json_encode([getmypid(), basename($own), ...$seen]));
    rename("$place/seen.new", "$place/seen");
    match ($_GET['end']) {
        'kill' => posix_kill(getmypid(), SIGKILL),
        'crash' => posix_kill(getmypid(), SIGSEGV),
        'late' => (function () { while (true) { usleep(1000); } })(),
        'well' => print 'done',
    };
};
"#;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Killed by a signal, by a crash, by the server because it takes too long, and while it reads the body, in every mode. Each time the next upload of the lane is as ever.
#[test]
fn files_of_a_killed_workers_upload_go_with_it() {
    for (mode, end, lines) in modes() {
        let mut setup = Setup::empty().file("index.php", format!("<?php {HANDLE} {end}"));
        let (uploads, place) = (setup.writable("uploads"), setup.writable("place"));
        setup = setup
            .env("PLACE", &place)
            .application(&format!("request_timeout = \"1s\"\nini.upload_tmp_dir = \"{uploads}\""));
        let server = lines.iter().fold(setup, |setup, line| setup.application(line)).start();
        let directory = Path::new(&uploads);
        let files: [(&str, &str, &str, &[u8]); 3] = [
            ("a", "a.txt", "text/plain", b"of a"),
            ("b", "b.txt", "text/plain", b"of b"),
            ("c", "c.txt", "text/plain", b"of c"),
        ];
        let (kind, body) = multipart(&[("field", "value")], &files);
        wait_until("the mode", 20, || mode != "snapshot" || server.log().contains("is booted"));
        for (end, status) in [("well", 200), ("kill", 502), ("crash", 502), ("late", 504), ("well", 200)] {
            let path = format!("/?end={end}");
            let answer = server.client().request("POST", &path, &[("Content-Type", &kind)], &body);
            assert_eq!(answer.status, status, "{mode}, {end}: {}", server.log());
            let seen: serde_json::Value = serde_json::from_slice(&fs::read(format!("{place}/seen")).unwrap()).unwrap();
            assert_eq!(
                (&seen[2], &seen[3], &seen[4], &seen[5]),
                (&uploads.clone().into(), &1.into(), &"of c".into(), &true.into())
            );
            let own = seen[1].as_str().unwrap();
            wait_until(&format!("the files of {mode}, {end} are gone"), 10, || names(directory) == [own]);
            assert_eq!(fs::read_to_string(format!("{place}/moved")).unwrap(), "of a");
            fs::remove_file(directory.join(own)).unwrap();
            fs::remove_file(format!("{place}/seen")).unwrap();
        }
        // While the body is still on its way.
        let mut client = server.client();
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 1900000\r\n\r\n");
        let half = &body[..body.len() - 100];
        client.send(&[head.as_bytes(), half, &vec![b'x'; 1_000_000]].concat()).unwrap();
        wait_until("a file is begun", 10, || !names(directory).is_empty());
        let status: serde_json::Value = serde_json::from_str(&server.status(&["--json"])).unwrap();
        let lanes = status["applications"]["app"][0]["lanes"].as_array().unwrap();
        let workers = lanes.iter().flat_map(|lane| lane["workers"].as_array().unwrap());
        let reading =
            workers.filter(|worker| !worker["request"].is_null()).map(|worker| worker["pid"].as_i64().unwrap());
        for pid in reading {
            kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
        }
        wait_until(&format!("the half file of {mode} is gone"), 10, || names(directory).is_empty());
    }
}
