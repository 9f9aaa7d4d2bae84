//! Servers whose front controller calls `reprise_snapshot()`. Each test runs under rewind and under fork, with every
//! rewind audited, and ends by asking the lane how it went: a worker that had to be recycled without being expected to, or
//! died, has failed the test even if every answer was right.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Client, Response, Server, Setup, amount};

/// Reasons for which workers are recycled though no request left anything behind. `reprise_info()['recycles']` has all the others too,
/// and none of those may come unexpected.
const HARMLESS: [&str; 7] = ["bailout", "requests", "idle", "age", "memory", "learned", "exit"];

/// What stands right behind the snapshot: `?info`, one line per value; `?meet=N&side=a`, which goes on only when
/// `side=b` runs too, so that two clones answer.
const PRELUDE: &str = r#"
if (isset($_GET['info'])) {
    echo "\n";
    foreach (reprise_info() as $key => $value) {
        foreach (is_array($value) ? $value : ['' => $value] as $name => $number) echo $key, $name === '' ? '' : ".$name", '=', $number, "\n";
    }
    exit;
}
if (isset($_GET['meet'])) {
    header('X-Clone: ' . getmypid());
    $meet = getenv('PLACE') . "/meet-{$_GET['meet']}-";
    touch($meet . $_GET['side']);
    for ($i = 0; $i < 4000 && !file_exists($meet . ($_GET['side'] === 'a' ? 'b' : 'a')); $i++) { usleep(2500); clearstatcache(); }
    unset($meet, $i);
}
switch ($_GET['do'] ?? '') {
"#;

/// A front controller: `boot` runs once, then comes the snapshot, then `cases` (`case 'name': …; break;`) by `?do=name`.
/// There are two workers. `getenv('PLACE')` is a directory that PHP may write to.
pub fn snapshot(boot: &str, cases: &str) -> Setup {
    front_controller(&format!("<?php\n{boot}\nreprise_snapshot();\n{PRELUDE}\n{cases}\n}}\n"))
}

/// A front controller as it is. To be checked at the end, it has to include `after.php` behind its snapshot, in which are
/// `?info` and the cases.
pub fn snapshot_script(index: &str, cases: &str) -> Setup {
    front_controller(index).file("after.php", format!("<?php\n{PRELUDE}\n{cases}\n}}\n"))
}

fn front_controller(index: &str) -> Setup {
    let setup = Setup::empty().file("index.php", index).ini("ffi.enable", "1");
    let place = setup.writable("place");
    setup.env("PLACE", &place)
}

/// Adds what an extension or a library might do (hazards.c): in PHP `$hazards`, if the boot begins with [`HAZARDS`].
pub fn with_hazards(setup: Setup) -> Setup {
    let library = setup.directory().join("hazards.so");
    let source = crate::server::project().join("tests/src/hazards.c");
    crate::peer::run_to_end(Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source));
    setup.env("HAZARDS", library.to_str().expect("a plain path"))
}

/// The first lines of a boot that needs [`with_hazards`]. `$block` is 1 MiB of the snapshot's memory outside PHP's heap,
/// `$page` the address of a page in it. `whole()` tells whether it is as the boot left it.
pub const HAZARDS: &str = r#"
$hazards = FFI::cdef('int vfork_write(size_t, int, size_t); int vfork_unreaped(size_t, int, size_t); int start_thread(void);
    int joined_thread(size_t); int late_child(size_t, const char *); int start_timer(void); int start_itimer(int);
    int start_io_uring(void); int close_all(void); int replace_all(void); int alternate_stack(void); int has_alternate_stack(void);
    int write_to_self(size_t, size_t); int daemonise(void); int overflow(int); int crash(void); size_t address(void *); int byte_at(size_t); int calloc_is_zero(size_t, int);
    size_t malloc_finds(size_t, int);', getenv('HAZARDS'));
$libc = FFI::cdef('int madvise(size_t, size_t, int); size_t mmap(size_t, size_t, int, int, int, long); int munmap(size_t, size_t);
    size_t mremap(size_t, size_t, size_t, int, size_t); int mprotect(size_t, size_t, int); size_t sbrk(long); size_t malloc(size_t);
    void free(size_t); size_t memset(size_t, int, size_t); int open(const char *, int); int close(int); long read(int, size_t, size_t);');
$block = FFI::new('char[1048576]', false, true);
for ($i = 0; $i < 1048576; $i += 64) FFI::memcpy(FFI::addr($block[$i]), sprintf('%064d', $i), 64);
$page = ($hazards->address($block) + 4095) & ~4095;
$digest = md5(FFI::string($block, 1048576));
function whole(): string { global $block, $digest; return md5(FFI::string($block, 1048576)) === $digest ? 'whole' : 'changed'; }
"#;

/// Runs a test under rewind, and in `./test --full` under fork too, as far as [`isolations`] has them: what a rewind has to put back a fork
/// has never seen.
pub fn both(setup: impl Fn() -> Setup, test: impl Fn(&mut Lane)) {
    rewind(&setup, &test);
    let is_trimmed = amount(1, 0) == 1 && isolations().contains(&"rewind");
    if isolations().contains(&"fork") && !is_trimmed {
        fork(&setup, &test);
    }
}

/// Runs a test under rewind and under fork in any case, as far as [`isolations`] has them.
pub fn always_both(setup: impl Fn() -> Setup, test: impl Fn(&mut Lane)) {
    rewind(&setup, &test);
    if isolations().contains(&"fork") {
        fork(&setup, &test);
    }
}

/// Runs a test under rewind, where there is one.
pub fn rewind(setup: impl Fn() -> Setup, test: impl Fn(&mut Lane)) {
    if isolations().contains(&"rewind") {
        run("rewind", setup(), test);
    }
}

/// What keeps requests apart in these binaries on this kernel. AddressSanitizer's memory cannot be rewound, and `reprise-php` refuses it.
/// `REPRISE_ISOLATION` names the only one that is tested.
pub fn isolations() -> &'static [&'static str] {
    match std::env::var("REPRISE_ISOLATION").as_deref() {
        Ok("rewind") => &["rewind"],
        Ok("fork") => &["fork"],
        Ok(other) => panic!("REPRISE_ISOLATION={other}: rewind or fork"),
        Err(_) if best_way().is_empty() => &["fork"],
        Err(_) => &["rewind", "fork"],
    }
}

/// The one that is taken if nobody says which.
pub fn best_isolation() -> &'static str {
    isolations()[0]
}

/// Whether PHP was built with AddressSanitizer: no rewinds, more memory and less speed.
pub fn is_sanitized() -> bool {
    sanitizers().contains("address")
}

/// With which `REPRISE_SANITIZE` the `reprise-php` under test was built; empty: without.
pub fn sanitizers() -> &'static str {
    static SANITIZERS: OnceLock<String> = OnceLock::new();
    SANITIZERS.get_or_init(|| {
        let php = crate::server::program().with_file_name("reprise-php");
        let output = Command::new(&php).arg("--version").output().expect("reprise-php says its version");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().find_map(|line| line.strip_prefix("sanitizers ")).unwrap_or_default().to_owned()
    })
}

/// What reprise-php has found out about this kernel: `--try-needs`.
fn needs() -> &'static str {
    static NEEDS: OnceLock<String> = OnceLock::new();
    NEEDS.get_or_init(|| {
        // With two versions of PHP their programs have the version in their names.
        let own = crate::server::program().with_file_name("reprise-php");
        let php = if own.exists() { own } else { own.with_file_name("reprise-php8.2") };
        let output = Command::new(&php).arg("--try-needs").output().expect("reprise-php tries what a rewind needs");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().rev().find_map(|line| line.strip_prefix("needs ")).unwrap_or_default().to_owned()
    })
}

/// Whether this kernel has soft-dirty bits.
pub fn has_soft_dirty_bits() -> bool {
    needs().ends_with(" clear=0 soft=0")
}

/// Whether this kernel has what rewinds by userfaultfd need.
pub fn has_userfaultfd() -> bool {
    needs().contains(" userfaultfd=0 ") && needs().contains(" api=0 ") && needs().contains(" scan=0 ")
}

/// The best way of a rewind on this kernel; empty: none.
pub fn best_way() -> &'static str {
    match (is_sanitized(), has_userfaultfd(), has_soft_dirty_bits()) {
        (true, ..) | (false, false, false) => "",
        (false, true, _) => "userfaultfd",
        (false, false, true) => "soft-dirty",
    }
}

/// Whether `REPRISE_SCRUB` has each test of this module run with the option `scrub`.
pub fn scrubs_all() -> bool {
    std::env::var_os("REPRISE_SCRUB").is_some()
}

/// Runs a test under fork.
pub fn fork(setup: impl Fn() -> Setup, test: impl Fn(&mut Lane)) {
    run("fork", setup(), test);
}

/// Runs a test with rewinds that find written pages in that way.
pub fn by(way: &str, setup: Setup, test: impl Fn(&mut Lane)) {
    run_by("rewind", Some(way.to_owned()), setup, test);
}

fn run(isolation: &'static str, setup: Setup, test: impl Fn(&mut Lane)) {
    run_by(isolation, crate::way().filter(|_| isolation == "rewind"), setup, test);
}

fn run_by(isolation: &'static str, way: Option<String>, setup: Setup, test: impl Fn(&mut Lane)) {
    let setup = setup.application(&format!("isolation = \"{}\"", way.as_deref().unwrap_or(isolation)));
    let setup = if scrubs_all() { setup.application("scrub = true") } else { setup };
    // An audit takes a hundred times as long as a rewind: a million requests go without.
    let setup = if std::env::var("REPRISE_AUDIT").as_deref() == Ok("off") { setup } else { setup.flag("--audit") };
    let mut lane = Lane { server: setup.start(), isolation, expected: vec![] };
    let info = lane.info();
    assert_eq!((info.text("mode"), info.text("isolation")), ("snapshot", isolation), "{info:?}");
    way.iter().for_each(|way| assert_eq!(info.text("rewinds.by"), way, "{info:?}"));
    test(&mut lane);
    lane.end();
}

/// The boot is refused in words, and requests are answered in classic mode: `?do=mode` has to say so.
pub fn refused(setup: Setup, words: &[&str]) -> Server {
    let server = setup.start();
    let log = server.log();
    let line = log.lines().find(|line| words.iter().all(|word| line.to_lowercase().contains(&word.to_lowercase())));
    assert!(line.is_some(), "no line with {words:?} in\n{log}");
    for _ in 0..3 {
        let answer = server.get("/?do=mode");
        assert_eq!((answer.status, answer.text().as_str()), (200, "classic"), "{words:?}\n{}", server.log());
    }
    assert!(crate::process::is_alive(server.pid()));
    server
}

/// Under both isolations: a forked clone shares the other end just as a rewound one does.
pub fn refused_by_both(boot: &str, words: &[&str]) {
    for isolation in isolations() {
        refused(snapshot(boot, ANSWER).application(&format!("isolation = \"{isolation}\"")), words);
    }
}

/// The case that [`refused`] asks for.
pub const ANSWER: &str = "case 'mode': echo reprise_info()['mode']; break;\n";

/// How many requests a long test sends; REPRISE_REQUESTS wins.
pub fn requests(default: usize) -> usize {
    std::env::var("REPRISE_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What `reprise_info()` says.
#[derive(Debug)]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// From the lines of `?info`.
    pub fn parse(text: &str) -> Info {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Info(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// A value.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("reprise_info() has no {name}: {self:?}"))
    }

    /// A number.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name} is no number: {self:?}"))
    }

    /// Reasons for which no worker is recycled unless a request left something behind.
    fn reasons(&self) -> Vec<&str> {
        let all: Vec<&str> = self.0.keys().filter_map(|name| name.strip_prefix("recycles.")).collect();
        assert!(HARMLESS.iter().all(|reason| all.contains(reason)), "{HARMLESS:?} are not all in {all:?}");
        all.into_iter().filter(|reason| !HARMLESS.contains(reason)).collect()
    }

    /// Recycled workers, all those reasons together.
    pub fn recycles(&self) -> u64 {
        self.reasons().iter().map(|reason| self.number(&format!("recycles.{reason}"))).sum()
    }
}

/// A running server with a snapshot.
pub struct Lane {
    server: Server,
    /// "rewind" or "fork".
    pub isolation: &'static str,
    expected: Vec<&'static str>,
}

impl Deref for Lane {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Lane {
    /// Whether it rewinds.
    pub fn rewinds(&self) -> bool {
        self.isolation == "rewind"
    }

    /// Reasons for which workers may be recycled here; "crash": they may die.
    pub fn expect(&mut self, reasons: &[&'static str]) {
        self.expected.extend(reasons);
    }

    /// `?do=WHAT`, which has to be answered 200.
    pub fn text(&self, what: &str) -> String {
        text(&mut self.client(), what)
    }

    /// `?do=WHAT` so many times.
    pub fn repeat(&self, what: &str, times: usize) -> Vec<String> {
        let mut client = self.client();
        (0..times).map(|_| text(&mut client, what)).collect()
    }

    /// All of so many answers are the first, which is returned.
    pub fn same(&self, what: &str, times: usize) -> String {
        let mut answers = self.repeat(what, times);
        let first = answers.swap_remove(0);
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(answer, &first, "{what}: answer {number} of {} differs", self.isolation);
        }
        first
    }

    /// `?do=WHAT` by two clones at the same time.
    pub fn pair(&self, what: &str) -> [String; 2] {
        static MEETING: AtomicU32 = AtomicU32::new(0);
        let meeting = MEETING.fetch_add(1, Ordering::Relaxed);
        let ask = |side: &str| {
            let answer = self.get(&format!("/?do={what}&meet={meeting}&side={side}"));
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            (answer.header("x-clone").expect("a process").to_owned(), answer.text())
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| ask("b"));
            (ask("a"), other.join().expect("an answer"))
        });
        assert_ne!(a.0, b.0, "{what}: two clones answer");
        [a.1, b.1]
    }

    /// What the lane says of itself.
    pub fn info(&self) -> Info {
        let answer = self.get("/?info");
        assert!(answer.status < 300, "{}", answer.text());
        Info::parse(&answer.text())
    }

    /// How many workers were recycled for that reason.
    pub fn recycled(&self, reason: &str) -> u64 {
        self.info().number(&format!("recycles.{reason}"))
    }

    /// It still serves, nothing differed in any audit, and no worker ended without being expected to.
    fn end(&self) {
        let info = self.info();
        let log = self.log();
        assert_eq!((info.text("mode"), info.text("isolation")), ("snapshot", self.isolation), "{info:?}");
        assert_eq!(info.number("recycles.audit"), 0, "{}: memory differed:\n{log}", self.isolation);
        assert!(!log.contains("recycled: audit"), "{}: memory differed:\n{log}", self.isolation);
        for reason in info.reasons().into_iter().filter(|reason| !self.expected.contains(reason)) {
            let count = info.number(&format!("recycles.{reason}"));
            assert_eq!(count, 0, "{}: recycled for {reason}:\n{log}", self.isolation);
        }
        assert!(self.expected.contains(&"crash") || !log.contains("was killed by"), "a worker died:\n{log}");
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- under isolation = \"{}\"", self.isolation);
        }
    }
}

fn text(client: &mut Client, what: &str) -> String {
    let answer: Response = client.get(&format!("/?do={what}"));
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    answer.text()
}
