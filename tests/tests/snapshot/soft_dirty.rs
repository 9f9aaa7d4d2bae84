//! Rewinds that find written pages by soft-dirty bits, on a kernel that has them (`scripts/kernel`, `./test --kernel`): who clears these bits
//! besides the rewind can hide what a request has written, and is found out.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tests::snapshot::{HAZARDS, Lane, snapshot, with_hazards};
use tests::{Setup, wait_until};

/// `?do=write` writes to memory of the snapshot, and waits then until `cleared` is there.
const CASES: &str = r#"
case 'write':
    FFI::memset($block, 0x57, 1048576);
    file_put_contents(getenv('PLACE') . '/written', getmypid());
    while (!file_exists(getenv('PLACE') . '/cleared')) { usleep(1000); clearstatcache(); }
    echo 'written';
    break;
case 'clear':
    FFI::memset($block, 0x57, 1048576);
    echo file_put_contents('/proc/self/clear_refs', '4');
    break;
case 'raw_clear':
    FFI::memset($block, 0x57, 1048576);
    $fd = $libc->open('/proc/self/clear_refs', 1);
    $four = FFI::new('char[1]');
    $four[0] = '4';
    echo $libc->write($fd, FFI::addr($four), 1);
    break;
case 'open': echo (int) is_resource(fopen('/proc/self/clear_refs', 'w')); break;
case 'seen': echo whole(); break;
"#;

fn setup() -> Setup {
    let write = "$libc = FFI::cdef('int open(const char *, int); long write(int, void *, size_t);');";
    with_hazards(snapshot(&format!("{HAZARDS}{write}"), CASES))
}

/// Runs a test with rewinds by soft-dirty bits.
fn by_soft_dirty_bits(test: impl Fn(&mut Lane)) {
    tests::snapshot::by("soft-dirty", setup(), test);
}

/// A process of the application's user clears the bits while a request runs. The worker is recycled: what was written before cannot be
/// known.
#[test]
fn bits_that_another_process_clears_end_the_worker() {
    by_soft_dirty_bits(|lane| {
        lane.expect(&["protection"]);
        let place = lane.directory().join("place");
        for round in 1..=3 {
            std::thread::scope(|scope| {
                let request = scope.spawn(|| lane.text("write"));
                let written = place.join("written");
                let pid = || std::fs::read_to_string(&written).ok().filter(|pid| !pid.is_empty());
                wait_until("the request has written", 30, || pid().is_some());
                std::fs::write(Path::new("/proc").join(pid().expect("a process")).join("clear_refs"), "4")
                    .expect("cleared");
                std::fs::remove_file(&written).expect("removed");
                std::fs::write(place.join("cleared"), "").expect("the request goes on");
                assert_eq!(request.join().expect("an answer"), "written");
            });
            std::fs::remove_file(place.join("cleared")).expect("removed");
            lane.repeat("seen", 10).iter().for_each(|seen| assert_eq!(seen, "whole"));
            wait_until("the worker is recycled", 30, || lane.recycled("protection") == round);
        }
        assert!(lane.log().contains("soft-dirty bits were cleared by somebody else"), "{}", lane.log());
    });
}

/// PHP itself clears the bits, by a function of PHP or by one of libc, or only opens the file for that: the worker is recycled.
#[test]
fn bits_that_php_clears_end_the_worker() {
    by_soft_dirty_bits(|lane| {
        lane.expect(&["attributes", "protection"]);
        for (how, reason, count) in
            [("clear", "protection", 1), ("raw_clear", "protection", 2), ("open", "attributes", 1)]
        {
            assert_eq!(lane.text(how), "1");
            lane.repeat("seen", 10).iter().for_each(|seen| assert_eq!(seen, "whole"));
            wait_until("the worker is recycled", 30, || lane.recycled(reason) == count);
        }
        assert!(lane.log().contains("opened a file of /proc for writing"), "{}", lane.log());
    });
}

/// In pages of hugetlb nothing that is written shows: the boot is refused, and requests run in classic mode.
#[test]
fn memory_that_cannot_be_watched_is_refused() {
    tests::process::needs_root();
    let (pool, had) = (Path::new("/proc/sys/vm/nr_hugepages"), || std::fs::read_to_string("/proc/sys/vm/nr_hugepages"));
    let before = had().expect("the pool");
    std::fs::write(pool, "16").expect("a pool of large pages");
    let boot =
        "$huge = FFI::cdef('size_t mmap(size_t, size_t, int, int, int, long);')->mmap(0, 2097152, 3, 0x40022, -1, 0);
        if ($huge + 1 === 0) throw new Exception('there is no large page');";
    let setup = snapshot(boot, tests::snapshot::ANSWER).application("isolation = \"soft-dirty\"");
    tests::snapshot::refused(setup, &["hugetlb", "soft-dirty"]);
    std::fs::write(pool, before.trim()).expect("the pool as it was");
}

/// Page faults of a server's processes so far, of those that have ended too.
fn faults(lane: &Lane) -> u64 {
    let of = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap_or("").split(' ').map(|text| text.parse().unwrap_or(0)).collect();
        fields.get(8).unwrap_or(&0) + fields.get(9).unwrap_or(&0)
    };
    lane.processes().iter().filter(|pid| tests::process::is_php(**pid)).map(of).sum()
}

/// A request that uses the same of a large array of the boot each time takes a tenth of the page faults that it takes with a process of its own.
/// If each request writes elsewhere (to a count of references here), all that is written often has to be touched again, and it still takes fewer.
#[test]
fn a_rewind_takes_a_tenth_of_the_faults_of_a_fork() {
    const REQUESTS: u64 = 50;
    const CASES: &str =
        "case 'one': echo $all[4711][0]; break;\ncase 'any': echo $all[mt_rand(0, 19999)][0] > 0; break;\n";
    let setup = || snapshot("$all = range(1, 20000); foreach ($all as &$one) $one = [$one];", CASES);
    let taken = |lane: &mut Lane| {
        let of = |case: &str| {
            lane.repeat(case, 50);
            let before = faults(lane);
            lane.repeat(case, REQUESTS as usize);
            (faults(lane) - before) / REQUESTS
        };
        [of("one"), of("any")]
    };
    let [by_fork, by_rewind] = [const { Cell::new([0; 2]) }, const { Cell::new([u64::MAX; 2]) }];
    tests::snapshot::fork(setup, |lane| by_fork.set(taken(lane)));
    tests::snapshot::by("soft-dirty", setup(), |lane| by_rewind.set(taken(lane)));
    let (fork, rewind) = (by_fork.get(), by_rewind.get());
    println!("page faults of a request: {fork:?} by fork, {rewind:?} by rewind");
    assert!(rewind[0] * 10 <= fork[0] && rewind[1] < fork[1], "{rewind:?} {fork:?}");
}

/// Moves pages of a process from one node of memory to the other and back, until standard input ends: PID ADDRESS COUNT.
const MOVER: &str = r#"
import ctypes, os, random, select, sys, time
pid, address, count = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
pages = (ctypes.c_void_p * count)(*[address + number * 4096 for number in range(count)])
status = (ctypes.c_int * count)()
moved = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    nodes = (ctypes.c_int * count)(*[moved & 1] * count)
    if libc.syscall(279, pid, ctypes.c_ulong(count), pages, nodes, status, 4) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    moved += 1
    print(moved, flush=True)
    time.sleep(random.uniform(0.0002, 0.003))
"#;

/// What moves the pages of one worker. Its first move is done when it is made.
struct Mover {
    process: Child,
    moves: Lines<BufReader<ChildStdout>>,
}

impl Mover {
    fn of(place: &str, pages: usize) -> Mover {
        let (pid, address) = place.split_once(' ').expect("two numbers");
        let mut command = Command::new("python3");
        command.args(["-c", MOVER, pid, address, &pages.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3");
        let mut moves = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        moves.next().expect("a first move").expect("a line");
        Mover { process, moves }
    }

    /// Ends it; how often it has moved them.
    fn end(mut self) -> usize {
        drop(self.process.stdin.take());
        let moved = self.moves.count();
        self.process.wait().expect("the mover");
        moved
    }
}

/// The kernel moves pages of a worker at any time, for itself or because somebody asks it to. A page that is moved in the moment in which bits are
/// cleared must not come back writable. Each page here is written by two requests, one after the other: what the second one writes would be left.
/// Linux 6.1 marks what it moves, so that a worker is recycled now and then.
#[test]
fn pages_that_the_kernel_moves_meanwhile_are_put_back() {
    const PAGES: usize = 2048;
    const STEP: usize = 40;
    let boot = format!("$big = FFI::new('char[{}]', false); FFI::memset($big, 1, {0});", PAGES * 4096);
    let cases = format!(
        "case 'where': echo getmypid(), ' ', FFI::cast('uintptr_t', FFI::addr($big))->cdata; break;
        case 'step': for ($i = max(0, ($_GET['n'] - 1) * {STEP}); $i < ($_GET['n'] + 1) * {STEP} && $i < {PAGES}; $i++) $big[$i * 4096 + 7] = 'x'; break;
        case 'look': for ($i = 0; $i < {PAGES}; $i++) if ($big[$i * 4096 + 7] !== \"\\1\") die(\"page $i\"); echo 'whole'; break;\n"
    );
    let setup = snapshot(&boot, &cases).application("workers = 1");
    tests::snapshot::by("soft-dirty", setup, |lane| {
        lane.expect(&["protection"]);
        let (mut place, mut moved) = (lane.text("where"), 0);
        let mut mover = Mover::of(&place, PAGES);
        for step in 0..PAGES / STEP {
            lane.text(&format!("step&n={step}"));
            assert_eq!(lane.text("look"), "whole", "after step {step}");
            let now = lane.text("where");
            if now != place {
                moved += mover.end();
                mover = Mover::of(&now, PAGES);
                place = now;
            }
        }
        moved += mover.end();
        println!("moved {moved} times, {} workers recycled", lane.recycled("protection"));
        assert!(moved > PAGES / STEP, "{moved}");
    });
}
