//! `reprise profile`: where workers spend their time is where the page says that it does.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tests::modes::modes;
use tests::snapshot::is_sanitized;
use tests::{Client, Server, Setup, amount};

/// Three costs, one of which waits, and the rest; the response says how long each took. The first two lie before a connection.
const BOOT: &str = r#"<?php
function spin(float $ms): void { $until = hrtime(true) + $ms * 1e6; while (hrtime(true) < $until) md5('x'); }
function render(): void { spin(16); }
function query(): void { usleep(8000); }
function small(): void { spin(4); }
function rest(): void { spin(12); }
class Page { public static function show(): void {
    $times = [];
    foreach (['render', 'query', 'small', 'rest'] as $part) {
        if ($part === 'small') stream_socket_client('udp://127.0.0.1:9');
        $from = hrtime(true); $part(); $times[$part] = (hrtime(true) - $from) / 1000;
    }
    echo json_encode($times);
} }
$handle = fn () => Page::show();
"#;

/// Clients ask for pages while `during` runs. What the parts of the pages took together, in microseconds, and what `during` gave.
fn under_load<T>(server: &Server, during: impl FnOnce() -> T) -> (BTreeMap<String, f64>, T) {
    under_load_of(2, server, during)
}

fn under_load_of<T>(clients: usize, server: &Server, during: impl FnOnce() -> T) -> (BTreeMap<String, f64>, T) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, mut sums) = (Client::new(server.port), BTreeMap::new());
                    for page in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let times: BTreeMap<String, f64> =
                            serde_json::from_slice(&client.get(&format!("/page/{page}?x")).body).expect("times");
                        times.into_iter().for_each(|(part, us)| *sums.entry(part).or_insert(0.0) += us);
                    }
                    sums
                })
            })
            .collect();
        let given = during();
        is_over.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for sums in clients.into_iter().map(|client| client.join().expect("a client")) {
            sums.into_iter().for_each(|(part, us): (String, f64)| *all.entry(part).or_insert(0.0) += us);
        }
        (all, given)
    })
}

fn profile(server: &Server, arguments: &[&str]) -> Value {
    let output = server.output(&[&["profile", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn percent_of(profile: &Value, name: &str, what: &str) -> f64 {
    let of = |one: &&Value| one["name"] == name;
    let function = profile["functions"].as_array().expect("functions").iter().find(of);
    let time = function.and_then(|one| one[what].as_f64()).unwrap_or(0.0);
    time * 100.0 / profile["total_us"].as_f64().expect("a number")
}

/// Planted costs are found, in each mode; waiting is told from running.
#[test]
fn planted_costs_are_found() {
    // Load is what this costs: a mode in the default run.
    for (mode, end, lines) in modes().into_iter().skip(amount(2, 0)).take(amount(1, 4)) {
        let server = Setup::empty()
            .file("index.php", format!("{BOOT}{end}"))
            .application(&format!("workers = 2\n{}", lines.join("\n")))
            .start();
        // Few looks on a machine that is busy with other tests say little, so they are repeated; `--full` looks once, for a minute.
        let attempts = amount(3, 1);
        let wrong: Vec<String> = (0..attempts).map_while(|_| find_planted_costs(mode, &server).err()).collect();
        assert!(wrong.len() < attempts, "{mode}: {}", wrong.join("\n"));
    }
}

/// What a profile says wrongly of the planted costs.
fn find_planted_costs(mode: &str, server: &Server) -> Result<(), String> {
    // With few samples chance moves a share by some points.
    let (seconds, points) =
        if is_sanitized() { ("5", 20.0) } else { (["3", "60"][amount(0, 1)], amount(15, 3) as f64) };
    let (times, profile) = under_load(server, || profile(server, &["--seconds", seconds, "--rate", "400"]));
    let all: f64 = times.values().sum();
    let samples = profile["samples"].as_u64().expect("a number");
    let holds = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(format!("{what}: {profile}")) };
    holds(samples > 100, "samples")?;
    // Time without a processor is given to what was seen running: three and a half standard deviations of that.
    let ready = profile["ready_us"].as_f64().expect("a number") / profile["total_us"].as_f64().expect("a number");
    let points = f64::max(points, 350.0 * (0.25 / (samples as f64 * (1.0 - ready)).max(1.0)).sqrt());
    let before = (times["render"] + times["query"]) * 100.0 / all;
    let told = profile["routes"][0]["before_connection"].as_f64().unwrap_or(0.0) * 100.0;
    println!("{mode}: {before:.1} % before the connection, told {told:.1} %");
    holds((before - told).abs() < points, "what lies before the first connection")?;
    for (part, us) in times {
        let (is, seen) = (us * 100.0 / all, percent_of(&profile, &format!("{part}()"), "total_us"));
        println!("{mode}: {part} {is:.1} %, seen {seen:.1} % in {samples} samples");
        holds((is - seen).abs() < points, &format!("{part} took {is:.1} %, not {seen:.1} %"))?;
    }
    let waiting = percent_of(&profile, "query()", "waiting_us");
    let asleep = percent_of(&profile, "query()", "total_us");
    holds(waiting > asleep * 0.6, &format!("{waiting} of {asleep} is waiting"))?;
    holds(percent_of(&profile, "Page::show()", "total_us") > 80.0, "Page::show()")?;
    holds(profile["routes"][0]["route"] == "GET /page/{number}", "the route")
}

/// For most of its time the engine's innermost frame is a planted one whose function has bytes for a name that are no string of PHP, as
/// when a worker leaves a frame while it is read. No call is made meanwhile: it would set the frame right.
const LEAVING: &str = r#"<?php
function address(FFI\CData $of): int { return FFI::cast('uint64_t', FFI::addr($of))->cdata; }
function leaving(): void {
    $engine = FFI::cdef('extern char executor_globals[2048];');
    $words = FFI::cast('uint64_t[256]', $engine->executor_globals);
    // The size of the stack's pages, and behind it the innermost frame.
    for ($at = 1; $words[$at - 1] !== 262144; $at++);
    [$name, $function, $frame] = [FFI::new('uint64_t[8]'), FFI::new('uint64_t[64]'), FFI::new('uint64_t[10]')];
    // A string's count and type, hash, length, bytes: the type is another.
    [$name[0], $name[2], $name[3]] = [-1, 8, 0x2a2a2a2a2a2a2a2a];
    for ($n = 0; $n < 64; $n++) $function[$n] = address($name);
    $function[0] = 2;
    $function[2] = 0;
    [$right, $wrong] = [$words[$at], address($frame)];
    [$frame[3], $frame[6]] = [address($function), $right];
    $words[$at] = $wrong;
    for ($i = 0; $i < 1000000; $i++);
    $words[$at] = $right;
}
$until = hrtime(true) + 3e7;
while (hrtime(true) < $until) leaving();
echo '{"pages": 1}';
"#;

/// A frame that a worker has left while it is read is no function with a name of what lies there now.
#[test]
fn names_are_those_of_functions() {
    let server = Setup::empty().file("index.php", LEAVING).ini("ffi.enable", "1").application("workers = 2").start();
    let profile = under_load(&server, || profile(&server, &["--seconds", "2", "--rate", "100"])).1;
    let names =
        profile["functions"].as_array().expect("functions").iter().map(|one| one["name"].as_str().expect("a name"));
    let known = ["leaving()", "address()", "hrtime()", "{main}", "(no PHP code runs)"];
    let others: Vec<&str> = names.filter(|name| !known.contains(name) && !name.starts_with("FFI::")).collect();
    assert!(others.is_empty(), "{others:?} in {} samples", profile["samples"]);
    assert!(percent_of(&profile, "leaving()", "total_us") > 50.0, "{profile}");
}

/// Hardly any of its time is in system calls.
const CALLING: &str = r#"<?php
function work(): void { for ($i = 0; $i < 500; $i++) md5('x'); }
$until = hrtime(true) + 3e7;
while (hrtime(true) < $until) { work(); getrusage(); }
echo '{"pages": 1}';
"#;

/// The kernel takes a processor away at the end of a system call: a cheap one is not shown as the place where time goes.
#[test]
fn time_without_a_processor_counts_where_workers_run() {
    let server = Setup::empty().file("index.php", CALLING).application("workers = 6").start();
    let seconds = amount(3, 20);
    let look =
        || under_load_of(6, &server, || profile(&server, &["--seconds", &seconds.to_string(), "--rate", "200"])).1;
    // What runs beside this test may leave these workers no processor for as long as one look lasts.
    let enough = if is_sanitized() { 10 } else { 6 * seconds as u64 };
    let ran = |profile: &Value| profile["running_samples"].as_u64() >= Some(enough);
    let profile = (0..6).map(|_| look()).find(ran).expect("a look with workers that had a processor");
    let (work, calls) = (percent_of(&profile, "work()", "total_us"), percent_of(&profile, "getrusage()", "total_us"));
    let ready =
        profile["ready_us"].as_f64().expect("a number") * 100.0 / profile["total_us"].as_f64().expect("a number");
    println!("work() {work:.1} %, getrusage() {calls:.1} %, ready {ready:.1} %, {} samples", profile["samples"]);
    // Beside other tests few samples are of workers that run, and chance moves a share by much. It was three quarters.
    let (least, most) = if is_sanitized() { (50, 40.0) } else { (200, amount(30, 10) as f64) };
    assert!(profile["samples"].as_u64() > Some(least) && ready > 20.0, "{profile}");
    assert!(calls < most, "{calls}: {profile}");
}

/// Tables, files and filters.
#[test]
fn a_profile_is_for_people_and_for_other_programs() {
    let server = Setup::empty().file("index.php", format!("{BOOT}$handle();")).application("workers = 2").start();
    let (text, code) = server.reprise(&["profile", "--seconds", "1"]);
    assert!(code == 0 && text.contains("no worker had a request"), "{text}");
    let [page, stacks] = ["profile.html", "stacks.txt"].map(|name| server.directory().join(name).display().to_string());
    let arguments = [
        "profile",
        "--seconds",
        "2",
        "--rate",
        "400",
        "--html",
        &page,
        "--collapsed",
        &stacks,
        "--route",
        "GET /page/",
    ];
    let (_, (text, code)) = under_load(&server, || server.reprise(&arguments));
    assert!(code == 0 && text.contains("  TOTAL    SELF   WAITS  FUNCTION\n") && text.contains("render()"), "{text}");
    assert!(text.contains("of a processor\n") && text.contains("GET /page/{number}\n"), "{text}");
    let written = std::fs::read_to_string(&page).expect("a page");
    assert!(written.contains("\"render()\"") && !written.contains("/*DATA*/null"));
    let written = std::fs::read_to_string(&stacks).expect("stacks");
    assert!(written.lines().any(|line| line.contains(";query();usleep();[waiting] ")), "{written}");
    let (_, other) = under_load(&server, || profile(&server, &["--seconds", "1", "--route", "POST /"]));
    assert_eq!((&other["samples"], &other["functions"]), (&0.into(), &Value::Array(Vec::new())));
    let (_, busy) = under_load(&server, || profile(&server, &["--seconds", "1", "--rate", "400", "--busy"]));
    assert_eq!(busy["waiting_us"], 0, "{busy}");
}

/// What is wrong is said in words; a client that leaves disturbs nobody, and a second profile ends the first one.
/// Frames that come and go, in memory that holds zeroes and their types in between: what is taken for a function there is none.
const TANGLED: &str = r#"<?php
function leaf($a) { return $a + 1; }
function frames($n) { return $n ? frames($n - 1) + 1 : leaf(1); }
function numbers(NAMES) { return $v7; }
$until = hrtime(true) + 3e6;
while (hrtime(true) < $until) { numbers(); frames(12); numbers(); leaf(2); }
echo json_encode(['pages' => 1]);
"#;

/// Deep in its stack for nearly all of its time.
const DEEP: &str = r#"<?php
function deep($n) { if ($n) { return deep($n - 1); } for ($until = hrtime(true) + 2e7; hrtime(true) < $until;) md5('x'); return '{"pages": 1}'; }
echo deep(100);
"#;

/// Looks that find nobody at work cost nearly nothing: those that come then are as seldom as what they cost asks for.
#[test]
fn looks_take_a_hundredth_of_a_processor_after_a_pause_too() {
    let server = Setup::empty().file("index.php", DEEP).application("workers = 2").start();
    let profile = thread::scope(|scope| {
        let asked = scope.spawn(|| profile(&server, &["--seconds", "8", "--rate", "1000"]));
        thread::sleep(std::time::Duration::from_secs(3));
        under_load(&server, || asked.join().expect("a profile")).1
    });
    let [looking, looks, samples] =
        ["looking_us", "looks", "samples"].map(|name| profile[name].as_u64().expect("a number"));
    println!("{looks} looks, {samples} samples, {looking} us");
    assert!(looks > 500 && samples > 20, "{profile}");
    assert!(looking < 160_000, "{looking} us of 8 s: {profile}");
}

/// The process that looks at workers does not trust what it finds.
#[test]
fn frames_that_change_while_they_are_read_harm_nobody() {
    let names: String = (0..200).map(|number| format!("$v{number} = 0, ")).collect();
    let script = TANGLED.replace("NAMES", &names);
    let server = Setup::empty().file("index.php", &script).application("workers = 2").start();
    let seconds = amount(2, 30).to_string();
    let (pages, found) = under_load(&server, || profile(&server, &["--seconds", &seconds, "--rate", "1000"]));
    assert!(found["samples"].as_u64().expect("a number") > 20, "{found}");
    assert!(pages["pages"] > 100.0, "{pages:?}");
    let log = server.log();
    assert!(!log.contains(" died") && !log.contains("killed"), "{log}");
}

#[test]
fn wrong_questions_and_clients_that_leave() {
    let server = Setup::empty().file("index.php", format!("{BOOT}$handle();")).application("workers = 2").start();
    for (arguments, words) in [
        (&["--application", "shop"][..], "there is no application \"shop\"; there are: app"),
        (&["--seconds", "0"], "0 is not in 1..=3600"),
        (&["--rate", "5000"], "5000 is not in 1..=1000"),
        (&["--html", "/nowhere/page.html"], "/nowhere/page.html: No such file or directory"),
    ] {
        let (text, code) = server.reprise(&[&["profile"], arguments].concat());
        assert!(code == 64 && text.contains(words), "{code}: {text}");
    }
    let (times, ()) = under_load(&server, || {
        let first = thread::scope(|scope| {
            let first = scope.spawn(|| profile(&server, &["--seconds", "300", "--rate", "400"]));
            tests::wait_until("the first one has ended", 60, || {
                profile(&server, &["--seconds", "1", "--rate", "400"]);
                first.is_finished()
            });
            first.join().expect("a profile")
        });
        assert!(first["seconds"].as_f64() < Some(200.0));
        // One that wants no packets: the socket ends here.
        let socket = server.directory().join("state/admin.sock");
        let mut leaves = UnixStream::connect(socket).expect("the control socket");
        leaves.write_all(b"profile [\"\", 600000, 1000]\n").expect("a command");
        let answer: Value = serde_json::from_reader(leaves).expect("an answer");
        assert_eq!((&answer["ok"], &answer["message"]), (&true.into(), &"[\"classic\"]".into()));
        // The forker goes on with its work.
        assert!(profile(&server, &["--seconds", "1", "--rate", "400"])["samples"].as_u64() > Some(0));
    });
    assert!(times["render"] > 0.0);
    assert_eq!(server.get("/").status, 200);
    assert!(!server.log().contains("error"), "{}", server.log());
}
