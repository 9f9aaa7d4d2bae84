//! What the boot holds when the snapshot is taken: refused in words, forgotten, or every request's own.

use tests::client::multipart;
use tests::snapshot::{ANSWER, HAZARDS, both, isolations, refused, refused_by_both, rewind, snapshot, with_hazards};
use tests::{Response, amount, process, wait_until};

/// A boot that reads something from a session and closes it, in each of the ways there are.
const SESSIONS: [&str; 5] = [
    "session_start(); $_SESSION['boot'] = 1; session_write_close();",
    "session_start(['read_and_close' => true]);",
    "session_start(); $_SESSION['boot'] = 1; session_abort();",
    "session_id('ofTheBoot'); session_start(); $_SESSION['boot'] = 1; session_commit();",
    "class Own extends SessionHandler {} session_set_save_handler(new Own); session_start(); $_SESSION['boot'] = 1; session_regenerate_id(); session_write_close();",
];

const VISITS: &str = r#"
case 'visit': session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo session_id(), ' ', json_encode($_SESSION); break;
case 'before': echo json_encode([session_id(), $_SESSION ?? null, session_status() === PHP_SESSION_NONE, @session_encode()]); break;
"#;

/// The session that the boot has used is nobody's: each visitor has his own, or gets one.
#[test]
fn a_session_of_the_boot_is_nobodys() {
    for session in SESSIONS {
        let boot = format!(
            "session_save_path(getenv('PLACE')); ini_set('session.use_strict_mode', '0'); {session} setcookie('other', 'kept'); $of_boot = session_id();"
        );
        let cases = format!("{VISITS}case 'boot': echo $of_boot; break;\n");
        both(
            || snapshot(&boot, &cases),
            |lane| {
                let of_boot = lane.text("boot");
                let mut client = lane.client();
                let mut ids = std::collections::BTreeSet::new();
                let cookies = |answer: &Response| {
                    let all = answer.all("set-cookie");
                    assert!(all.contains(&"other=kept"), "{session}: the boot's other cookie is in {all:?}");
                    all.iter()
                        .filter(|cookie| cookie.starts_with("PHPSESSID="))
                        .map(|c| c.to_string())
                        .collect::<Vec<_>>()
                };
                for round in 1..=5 {
                    for visitor in ["alice", "bob", "carol"] {
                        let cookie = format!("PHPSESSID={visitor}");
                        let answer = client.request("GET", "/?do=visit", &[("Cookie", &cookie)], b"");
                        assert_eq!(answer.text(), format!("{visitor} {{\"n\":{round}}}"), "{session}");
                        assert_eq!(cookies(&answer), [""; 0], "{session}");
                    }
                    let answer = client.get("/?do=visit");
                    let text = answer.text();
                    let (id, data) = text.split_once(' ').unwrap();
                    assert_eq!(data, "{\"n\":1}", "{session}: a new visitor");
                    assert_eq!(cookies(&answer), [format!("PHPSESSID={id}; path=/")], "{session}");
                    assert!(id != of_boot && ids.insert(id.to_owned()), "{session}: {id} is not new");
                    let answer = client.get("/?do=before");
                    assert_eq!(answer.text(), "[\"\",null,true,false]", "{session}");
                    assert_eq!(cookies(&answer), [""; 0], "{session}");
                }
            },
        );
    }
}

/// One that has no descriptor, so that nothing else would tell.
#[test]
fn an_open_session_is_refused() {
    let handler = "class Own implements SessionHandlerInterface { function open($path, $name): bool { return true; } function close(): bool { return true; } function read($id): string { return ''; } function write($id, $data): bool { return true; } function destroy($id): bool { return true; } function gc($age): int { return 0; } } session_set_save_handler(new Own, true);";
    refused_by_both(&format!("{handler} session_start();"), &["session", "open", "snapshot", "session_write_close"]);
}

/// A semaphore that the boot still holds refuses the snapshot, in words.
#[test]
fn a_semaphore_is_refused() {
    let key = "touch(getenv('PLACE') . '/key'); $key = ftok(getenv('PLACE') . '/key', 'b');";
    let words = ["semaphore", "snapshot", "sem_get"];
    refused_by_both(&format!("{key} $held = sem_get($key);"), &words);
    refused_by_both(
        &format!("{key} $held = (object) ['deep' => [sem_get($key)]]; sem_acquire($held->deep[0]);"),
        &words,
    );
    // One that is no more is no hindrance.
    both(
        || {
            snapshot(
                &format!("{key} $held = sem_get($key); sem_acquire($held); sem_release($held); unset($held);"),
                &format!(
                    "{ANSWER}case 'use': $held = sem_get($key); echo json_encode(sem_acquire($held, true)); break;\ncase 'remove': sem_remove(sem_get($key)); echo 'x'; break;\n"
                ),
            )
        },
        |lane| {
            assert_eq!(lane.same("use", 20), "true");
            lane.text("remove");
        },
    );
}

/// A writable stream of an application's own wrapper refuses the snapshot, in words.
#[test]
fn a_stream_of_the_applications_own_is_refused() {
    let wrapper = "class Own { public $context; function stream_open($path, $mode, $options, &$opened) { return true; } function stream_write($data) { return strlen($data); } function stream_read($count) { return ''; } function stream_eof() { return true; } function url_stat($path, $flags) { return []; } } stream_wrapper_register('own', 'Own');";
    for open in [
        "$held = fopen('own://kept', 'w');",
        "$held = fopen('own://kept', 'r+');",
        "$held = fopen('own://kept', 'ab');",
        "$held = new SplFileObject('own://kept', 'x');",
    ] {
        refused_by_both(&format!("{wrapper} {open}"), &["stream", "own://kept", "writ", "reprise_snapshot"]);
    }
}

/// Content-Type and bytes.
type Body = Option<(String, Vec<u8>)>;

/// PHP reads a request before any script runs: what it warns about then is no exception of the application.
#[test]
fn warnings_about_the_request_itself_are_not_thrown() {
    let boot = "set_error_handler(function (int $kind, string $text) { throw new ErrorException($text); }); set_exception_handler(function ($error) { http_response_code(500); echo 'handled ', $error->getMessage(); });";
    let cases = "case 'count': echo count($_GET), ' ', count($_POST), ' ', count($_FILES), ' ', count($_COOKIE); break;\ncase 'warn': try { echo $undefined; } catch (ErrorException $error) { echo 'thrown'; } break;\ncase 'uncaught': echo $undefined; break;\n";
    let setup = || {
        snapshot(boot, cases)
            .ini("max_input_vars", "5")
            .ini("max_file_uploads", "2")
            .ini("upload_max_filesize", "100")
            .ini("max_multipart_body_parts", "6")
            .ini("max_input_nesting_level", "3")
            .ini("display_errors", "0")
    };
    let many: String = (0..20).map(|number| format!("&v{number}=x")).collect();
    let files = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "a.txt", "text/plain", &b"bytes"[..])).collect();
        multipart(&[], &files)
    };
    let form = "application/x-www-form-urlencoded".to_owned();
    let requests: Vec<(&str, String, Body)> = vec![
        ("many in the query", format!("/?do=count{many}"), None),
        ("many in the form", "/?do=count".into(), Some((form.clone(), many.as_bytes()[1..].to_vec()))),
        ("too deep", "/?do=count&a[b][c][d][e][f]=1".into(), None),
        ("no boundary", "/?do=count".into(), Some(("multipart/form-data".into(), b"--x\r\n\r\n--x--".to_vec()))),
        ("an empty boundary", "/?do=count".into(), Some(("multipart/form-data; boundary=\"".into(), b"x".to_vec()))),
        ("many files", "/?do=count".into(), Some(files(5))),
        ("many parts", "/?do=count".into(), Some(files(9))),
        ("a torn body", "/?do=count".into(), Some((files(2).0, files(2).1[..150].to_vec()))),
        ("a large file", "/?do=count".into(), Some(multipart(&[], &[("f", "a", "text/plain", &[b'x'; 500])]))),
        ("none", "/?do=count".into(), None),
        ("one of its own", "/?do=warn".into(), None),
        ("one of its own, not caught", "/?do=uncaught".into(), None),
    ];
    let ask = |client: &mut tests::Client, path: &str, body: &Body| {
        let answer = match body {
            Some((kind, body)) => client.request("POST", path, &[("Content-Type", kind), ("Cookie", "a=1; b=2")], body),
            None => client.get(path),
        };
        (answer.status, answer.text())
    };
    let classic = setup().application("mode.\"index.php\" = \"classic\"").start();
    both(setup, |lane| {
        let (mut client, mut other) = (lane.client(), classic.client());
        for round in 0..4 {
            for (what, path, body) in &requests {
                let expected = ask(&mut other, path, body);
                assert_eq!(ask(&mut client, path, body), expected, "{what}, {round}");
                assert_eq!(expected.0, if what.ends_with("not caught") { 500 } else { 200 }, "{what} in classic mode");
            }
        }
        for text in ["Input variables exceeded 5", "Missing boundary", "Maximum number of allowable file uploads"] {
            assert!(lane.log().contains(text), "{text} is not in the log");
        }
    });
}

/// How many of so many requests ended with a fast rewind.
fn fast(lane: &tests::snapshot::Lane, what: &str, times: usize) -> u64 {
    let mut client = lane.client();
    let before = lane.info().number("rewinds.fast");
    for _ in 0..times {
        assert_eq!(client.get(&format!("/?do={what}")).status, 200, "{what}");
    }
    lane.info().number("rewinds.fast") - before
}

/// A locale costs a look at all mappings only when it changes.
#[test]
fn a_locale_that_stays_costs_nothing() {
    const CASES: &str = r#"
case 'plain': echo 'plain'; break;
case 'utf16': echo iconv('UTF-8', 'UTF-16LE', 'text'); break;
case 'ask': echo setlocale(LC_ALL, 0); break;
case 'iconv': echo iconv('UTF-8', 'UTF-16LE', 'text'), iconv('UTF-8', 'ASCII//TRANSLIT', 'text'); break;
"#;
    let converts = "iconv('UTF-8', 'UTF-16LE', 'text'); iconv('UTF-8', 'ASCII//TRANSLIT', 'text');";
    for (boot, answers) in [
        (String::new(), vec!["plain", "ask"]),
        ("setlocale(LC_ALL, 'C.UTF-8');".to_owned(), vec!["plain", "ask"]),
        (format!("setlocale(LC_ALL, 'C.UTF-8'); {converts}"), vec!["plain", "ask", "iconv", "utf16"]),
    ] {
        rewind(
            || snapshot(&boot, CASES).application("workers = 1"),
            |lane| {
                for &what in &answers {
                    // First those in which it learns what is written.
                    fast(lane, what, 60);
                    let count = fast(lane, what, 60);
                    assert!(count >= 30, "{count} of 60 rewinds after {what} were fast, booted with {boot}");
                }
            },
        );
    }
}

/// The boot's timers are its own: they end nobody, neither the template nor a request.
#[test]
fn an_alarm_of_the_boot_ends_nobody() {
    let cases = "case 'parent': echo posix_getppid(); break;\ncase 'burn': $until = hrtime(true) + 2000000000; while (hrtime(true) < $until); echo 'burnt'; break;\n";
    let all = format!("{HAZARDS} $hazards->start_itimer(1); $hazards->start_itimer(2);");
    for boot in &["pcntl_alarm(1);", &all][amount(1, 0)..] {
        both(
            || with_hazards(snapshot(boot, cases)),
            |lane| {
                let template = lane.text("parent");
                assert_eq!(lane.text("burn"), "burnt", "{boot}");
                assert_eq!(lane.text("parent"), template, "another template: {boot}\n{}", lane.log());
                assert!(process::is_alive(template.parse().unwrap()));
                assert!(!lane.log().contains("SIGALRM"), "{}", lane.log());
            },
        );
    }
}

/// A POSIX timer that the boot has made refuses the snapshot, in words.
#[test]
fn a_timer_object_is_refused() {
    for isolation in isolations() {
        let setup = with_hazards(snapshot(&format!("{HAZARDS} $hazards->start_timer();"), ANSWER));
        let setup = setup.application(&format!("isolation = \"{isolation}\""));
        let server = setup.start();
        assert!(server.log().contains("a timer (timer_create) exists at the snapshot"), "{}", server.log());
    }
}

/// Not in the image, as nobody is expected to write there. Whoever takes it away takes it from nobody else.
#[test]
fn read_only_memory_of_the_boot_is_not_lost() {
    let boot = format!(
        "{HAZARDS} $sealed = $libc->mmap(0, 65536, 3, 0x22, -1, 0); $libc->memset($sealed, 0x42, 65536); $libc->mprotect($sealed, 65536, 1);"
    );
    const CASES: &str = r#"
case 'seen': $bytes = ''; for ($at = 0; $at < 65536; $at += 2048) $bytes .= chr($hazards->byte_at($sealed + $at)); echo $bytes === str_repeat('B', 32) ? 'whole' : 'changed'; break;
case 'unmap': $libc->munmap($sealed, 65536); echo 'done'; break;
case 'unmap_part': $libc->munmap($sealed + 16384, 4096); echo 'done'; break;
case 'write': $libc->mprotect($sealed, 65536, 3); $libc->memset($sealed + 8192, 0x43, 4096); echo 'done'; break;
case 'anew': $libc->munmap($sealed, 65536); $libc->mmap($sealed, 65536, 3, 0x32, -1, 0); echo 'done'; break;
case 'none': $libc->mprotect($sealed, 65536, 0); echo 'done'; break;
case 'move': $libc->mremap($sealed, 65536, 65536, 3, $sealed + 1048576 * 1024); echo 'done'; break;
case 'anew_sealed': $libc->munmap($sealed, 65536); $libc->mmap($sealed, 65536, 1, 0x32, -1, 0); echo 'done'; break;
case 'write_and_seal': $libc->mprotect($sealed, 65536, 3); $libc->memset($sealed + 8192, 0x43, 4096); $libc->mprotect($sealed, 65536, 1); echo 'done'; break;
"#;
    both(
        || with_hazards(snapshot(&boot, CASES)),
        |lane| {
            lane.expect(&["mappings"]);
            assert_eq!(lane.same("seen", 3), "whole");
            for what in ["unmap", "unmap_part", "write", "anew", "none", "move", "anew_sealed", "write_and_seal"] {
                for _ in 0..4 {
                    assert_eq!(lane.text(what), "done");
                    assert_eq!(lane.pair("seen"), ["whole", "whole"], "after {what} of {}", lane.isolation);
                }
            }
        },
    );
}

/// What a request brings goes before what the boot has changed, and the log tells who relies on the opposite.
#[test]
fn a_changed_header_of_the_boot_is_noticed() {
    let boot =
        "$_SERVER['HTTP_HOST'] = 'of.the.boot'; $_SERVER['ADDED'] = 'by the boot'; $_ENV['ADDED'] = 'by the boot';";
    both(
        || snapshot(boot, "case 'host': echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['ADDED']; break;\n"),
        |lane| {
            let mut client = lane.client();
            for host in ["a.example", "b.example", "a.example"] {
                let answer = client.request("GET", "/?do=host", &[("Host", host)], b"");
                assert_eq!(answer.text(), format!("{host} by the boot"));
            }
            let notice = "the boot has changed $_SERVER['HTTP_HOST']";
            wait_until("the notice is there", 5, || lane.log().contains(notice));
            assert!(!lane.log().contains("changed $_SERVER['ADDED']"), "{}", lane.log());
            assert!(lane.log().lines().any(|line| line.contains(notice) && line.contains("notice")));
        },
    );
    let plain = refused(snapshot("$_SERVER['HTTP_HOST'] .= ''; $held = tmpfile();", ANSWER), &["descriptor"]);
    assert!(!plain.log().contains("the boot has changed"), "{}", plain.log());
}
