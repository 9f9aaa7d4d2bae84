//! What the kernel does for a request without a page fault, beside the process, or after it: the next request finds the
//! snapshot's memory all the same, or a fresh clone answers it.

use std::os::unix::fs::PermissionsExt;

use tests::snapshot::{HAZARDS, Lane, best_isolation, both, rewind, snapshot, with_hazards};
use tests::{Setup, process, wait_for, wait_until};

fn hazards(boot: &str, cases: &str) -> Setup {
    with_hazards(snapshot(&format!("{HAZARDS}{boot}"), cases))
}

/// What each way to change memory behind the kernel's back is called, and does to 64 KiB of `$block`.
const CHANGES: [(&str, &str); 27] = [
    ("nothing", ""),
    ("write", "FFI::memset($block, 0x57, 1048576);"),
    ("vfork", "if ($hazards->vfork_write($page, 0x57, 65536) !== 7) echo 'failed';"),
    ("vfork_unreaped", "$hazards->vfork_unreaped($page, 0x57, 65536);"),
    ("joined_thread", "$hazards->joined_thread($page);"),
    ("own_vm_write", "if ($hazards->write_to_self($page, 65536) !== 0) echo 'failed';"),
    (
        "own_mem",
        "$mem = fopen('/proc/self/mem', 'r+b'); fseek($mem, $page); fwrite($mem, str_repeat('M', 65536)); fclose($mem);",
    ),
    ("read_into", "$fd = $libc->open('/dev/zero', 0); $libc->read($fd, $page, 65536);"),
    ("dontneed", "$libc->madvise($page, 65536, 4);"),
    ("dontneed_some", "$libc->madvise($page + 8192, 4096, 4);"),
    ("free", "FFI::memset($block, 0x57, 1048576); $libc->madvise($page, 65536, 8);"),
    ("free_untouched", "$libc->madvise($page, 65536, 8);"),
    ("dontneed_read", "$libc->madvise($page, 65536, 4); if ($hazards->byte_at($page + 100) !== 0) echo 'not dropped';"),
    ("free_read", "$libc->madvise($page, 65536, 8); $hazards->byte_at($page + 100);"),
    ("mergeable", "$libc->madvise($page, 65536, 12); FFI::memset($block, 0x57, 1048576);"),
    ("pageout", "FFI::memset($block, 0x57, 1048576); $libc->madvise($page, 65536, 21);"),
    ("cold", "$libc->madvise($page, 65536, 20); FFI::memset($block, 0x57, 1048576);"),
    (
        "huge",
        "FFI::memset($block, 0x57, 1048576); $libc->madvise($page, 524288, 14); $libc->madvise($page, 524288, 25);",
    ),
    ("guard", "$libc->madvise($page, 65536, 102);"),
    ("unmapped", "$libc->munmap($page, 65536);"),
    ("unmapped_all", "$libc->munmap($page, 1044480);"),
    ("moved", "$libc->mremap($page, 65536, 65536, 3, $libc->mmap(0, 65536, 3, 0x22, -1, 0));"),
    ("shrunk", "$libc->mremap($page, 1044480, 65536, 0, 0);"),
    (
        "moved_onto",
        "$own = $libc->mmap(0, 65536, 3, 0x22, -1, 0); $libc->memset($own, 0x57, 65536); $libc->mremap($own, 65536, 65536, 3, $page);",
    ),
    ("mapped_over", "$libc->mmap($page, 65536, 3, 0x32, -1, 0); $libc->memset($page, 0x57, 65536);"),
    ("file_mapped_over", "$libc->mmap($page, 65536, 1, 0x12, $libc->open('/proc/self/exe', 0), 0);"),
    ("hidden", "$libc->mmap($page, 65536, 0, 0x32, -1, 0);"),
];

/// Protections are not contents: the next request has to be able to write.
const PROTECTIONS: [(&str, &str); 4] = [
    ("read_only", "$libc->mprotect($page, 65536, 1);"),
    ("no_access", "$libc->mprotect($page, 65536, 0);"),
    ("executable", "$libc->mprotect($page, 65536, 7); FFI::memset($block, 0x57, 1048576);"),
    ("read_only_written", "FFI::memset($block, 0x57, 1048576); $libc->mprotect($page, 65536, 1);"),
];

fn changes(lane: &Lane, changes: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (name, _) in changes {
        for round in 0..3 {
            for what in [*name, *name, "seen", "seen", "seen"] {
                let answer = lane.text(what);
                if answer != "whole" {
                    wrong.push(format!("{what} after {name} in round {round}: {answer}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", lane.isolation);
}

/// Each begins by looking, so it sees what the one before left.
fn cases(changes: &[(&str, &str)]) -> String {
    let case = |(name, change): &(&str, &str)| format!("case '{name}': echo whole(); {change} break;\n");
    changes.iter().map(case).collect::<String>()
        + "case 'seen': echo whole(); FFI::memset($block, 0x53, 1048576); if (FFI::string($block, 9) !== 'SSSSSSSSS') echo 'not written'; break;\n"
}

/// Memory that the kernel changes without a page fault is the snapshot's again in the next request.
#[test]
fn memory_changed_without_a_fault_is_the_snapshots_again() {
    both(
        || hazards("", &cases(&CHANGES)),
        |lane| {
            // Where the mapping itself is another, a fresh clone may take over.
            lane.expect(&["mappings", "size", "children"]);
            changes(lane, &CHANGES);
        },
    );
}

/// Protection of memory that a request changes is the snapshot's again in the next request.
#[test]
fn protection_changed_is_the_snapshots_again() {
    both(
        || hazards("", &cases(&PROTECTIONS)),
        |lane| {
            lane.expect(&["mappings", "size"]);
            changes(lane, &PROTECTIONS);
        },
    );
}

/// A read-only mapping of the snapshot that a request makes writable: no fault of ours tells.
#[test]
fn a_read_only_mapping_written_to_is_not_seen_again() {
    let boot = "file_put_contents($name = getenv('PLACE') . '/mapped', str_repeat('R', 8192)); $fd = $libc->open($name, 0); $at = $libc->mmap(0, 8192, 1, 2, $fd, 0); $anonymous = $libc->mmap(0, 8192, 3, 0x22, -1, 0); $libc->memset($anonymous, 0x52, 8192); $libc->mprotect($anonymous, 8192, 1); $libc->close($fd);\nfunction letters(): string { global $hazards, $at, $anonymous; return chr($hazards->byte_at($at)) . chr($hazards->byte_at($at + 4096)) . chr($hazards->byte_at($anonymous + 100)); }";
    let cases = "case 'file': echo letters(); $libc->mprotect($at, 8192, 3); $libc->memset($at, 0x57, 8192); break;\ncase 'back': echo letters(); $libc->mprotect($at, 4096, 3); $libc->memset($at, 0x57, 4096); $libc->mprotect($at, 4096, 1); break;\ncase 'anonymous': echo letters(); $libc->mprotect($anonymous, 4096, 3); $libc->memset($anonymous, 0x57, 4096); $libc->mprotect($anonymous, 4096, 1); break;\n";
    both(
        || hazards(boot, cases),
        |lane| {
            lane.expect(&["mappings", "size", "attributes"]);
            for kind in ["file", "back", "anonymous", "file"] {
                assert_eq!(lane.same(kind, 8), "RRR", "{kind}");
            }
        },
    );
}

/// Each spoils its own worker; whoever comes next is served.
fn spoiled(lane: &Lane, what: &str, times: usize) {
    for round in 0..times {
        let answer = lane.get(&format!("/?do={what}"));
        assert!(answer.status == 200 || answer.status == 502, "{what}: {}", answer.status);
        for _ in 0..4 {
            assert_eq!(lane.text("fine"), "fine 1", "after {what} in round {round} of {}", lane.isolation);
        }
    }
}

const FINE: &str = "case 'fine': static $count = 0; echo 'fine ', ++$count; break;\n";

/// A thread that a request leaves behind ends its worker, and the log says so.
#[test]
fn a_thread_costs_its_worker() {
    both(
        || hazards("", &format!("case 'thread': echo $hazards->start_thread(); break;\n{FINE}")),
        |lane| {
            lane.expect(&["threads"]);
            spoiled(lane, "thread", 5);
            if lane.rewinds() {
                wait_until("each was recycled", 10, || lane.recycled("threads") == 5);
                wait_until("the log says so", 5, || lane.log().contains("recycled: threads"));
            }
        },
    );
}

/// An agent that starts its thread in every request: rewinding makes no sense, so the lane forks.
#[test]
fn threads_in_every_request_make_the_lane_fork() {
    if best_isolation() == "fork" {
        return;
    }
    let cases = format!("case 'thread': echo $hazards->start_thread(); break;\n{FINE}");
    let server = hazards("", &cases).application("isolation = \"auto\"").flag("--audit").start();
    let isolation = || server.get("/?info").text();
    assert!(isolation().contains("isolation=rewind"), "{}", isolation());
    wait_until("the lane forks", 60, || {
        (0..20).for_each(|_| assert_eq!(server.get("/?do=thread").status, 200));
        isolation().contains("isolation=fork")
    });
    let log = server.log();
    let said =
        log.lines().any(|line| line.contains(" requests left threads running; it boots again with isolation fork"));
    assert!(said, "{log}");
    (0..20).for_each(|_| assert_eq!(server.get("/?do=fine").text(), "fine 1"));
}

/// A request that closes or replaces all descriptors ends its worker, and no other request.
#[test]
fn descriptors_closed_or_replaced_cost_their_worker() {
    let cases = format!(
        "case 'close': echo 'x'; $hazards->close_all(); break;\ncase 'replace': echo 'x'; $hazards->replace_all(); break;\n{FINE}"
    );
    both(
        || hazards("", &cases),
        |lane| {
            lane.expect(&["descriptors", "protection", "crash"]);
            spoiled(lane, "close", 4);
            spoiled(lane, "replace", 4);
        },
    );
}

/// An io_uring is refused, or ends the worker of the request that made it.
#[test]
fn io_uring_is_refused_or_costs_its_worker() {
    both(
        || {
            hazards(
                "",
                &format!("case 'ring': echo $hazards->start_io_uring() < 0 ? 'refused' : 'made'; break;\n{FINE}"),
            )
        },
        |lane| {
            lane.expect(&["io_uring", "descriptors"]);
            let answer = lane.text("ring");
            spoiled(lane, "ring", 4);
            if answer == "made" && lane.rewinds() {
                wait_until("it was recycled", 10, || lane.recycled("io_uring") >= 5);
            }
        },
    );
}

/// No timer of a request fires in another.
#[test]
fn timers_of_one_request_hit_no_other() {
    const CASES: &str = r#"
case 'limit': set_time_limit(1); echo 'set'; break;
case 'alarm': pcntl_alarm(1); echo 'set'; break;
case 'itimers': echo $hazards->start_itimer(0), $hazards->start_itimer(1), $hazards->start_itimer(2); break;
case 'timer': echo $hazards->start_timer(); break;
case 'burn': $until = hrtime(true) + 1300000000; while (hrtime(true) < $until); echo 'burnt'; break;
case 'short': $until = hrtime(true) + 450000000; while (hrtime(true) < $until); echo 'burnt'; break;
"#;
    both(
        || hazards("", CASES).application("workers = 1"),
        |lane| {
            lane.expect(&["timers"]);
            assert_eq!((lane.text("limit"), lane.text("alarm")), ("set".into(), "set".into()));
            assert_eq!(lane.text("burn"), "burnt", "a limit or an alarm of an earlier request");
            for what in ["itimers", "timer"] {
                lane.text(what);
                assert_eq!(lane.text("short"), "burnt", "{what} of an earlier request");
            }
        },
    );
}

/// The limit counts from the request, not from the boot or from the request before.
#[test]
fn each_request_has_the_whole_time_limit() {
    let cases = "case 'half': $until = hrtime(true) + 400000000; while (hrtime(true) < $until); echo 'done'; break;\ncase 'loop': while (true); break;\n";
    both(
        || {
            snapshot("set_time_limit(1); $until = hrtime(true) + 500000000; while (hrtime(true) < $until);", cases)
                .application("workers = 1")
        },
        |lane| {
            assert!(lane.repeat("half", 3).iter().all(|text| text == "done"));
            let answer = lane.get("/?do=loop");
            assert_eq!(answer.status, 500, "{}", answer.text());
            assert_eq!(lane.text("half"), "done");
            assert!(lane.log().contains("Maximum execution time of 1 second exceeded"), "{}", lane.log());
        },
    );
}

/// Handlers, masks and alternate stacks: none is left, and no signal meets memory that is not there any more.
#[test]
fn an_alternate_signal_stack_is_gone() {
    both(
        || {
            hazards(
                "",
                "case 'stack': echo $hazards->has_alternate_stack(); $hazards->alternate_stack(); echo $hazards->has_alternate_stack(); break;\n",
            )
        },
        |lane| {
            lane.expect(&["attributes"]);
            assert_eq!(lane.same("stack", 12), "01");
        },
    );
}

/// A child that was killed has no status.
const ENDED: &str =
    "function ended(int $status): string { return pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 'killed'; }";

const CHILDREN: &str = r#"
case 'exec': exec('echo from a child', $out, $code); echo $out[0], $code, trim(shell_exec('echo more')); system('echo x >/dev/null'); break;
case 'popen': $pipe = popen('cat', 'w'); fwrite($pipe, ''); echo 'open'; break;
case 'proc': $process = proc_open(['cat'], [['pipe', 'r']], $pipes); echo proc_get_status($process)['running'] ? 'runs' : 'ended'; $process = (object) ['kept' => $process]; exit;
case 'background': exec('sleep 5 >/dev/null 2>&1 &'); echo 'started'; break;
case 'fork': echo 'parent '; ob_flush(); flush(); if (pcntl_fork() === 0) { echo 'child '; $count = 7; } else pcntl_wait($status); echo isset($count) ? 'wrong' : 'end'; break;
case 'fork_left': if (pcntl_fork() === 0) { usleep(20000); echo 'child'; break; } echo 'parent'; break;
case 'fork_exit': if (pcntl_fork() === 0) { register_shutdown_function(fn () => print('child')); exit('child'); } pcntl_wait($status); echo 'parent', ended($status); break;
case 'fork_fatal': if (pcntl_fork() === 0) { nowhere(); } pcntl_wait($status); echo 'parent', ended($status); break;
case 'fork_finish': if (pcntl_fork() === 0) { reprise_finish_request(); exit; } pcntl_wait($status); echo 'parent', ended($status); break;
case 'fork_deep': if (pcntl_fork() === 0) { if (pcntl_fork() === 0) { echo 'grandchild'; exit; } pcntl_wait($status); echo 'child'; exit(pcntl_wifexited($status) ? 3 : 4); } pcntl_wait($status); echo 'parent', ended($status); break;
case 'fork_many': for ($i = 0; $i < 20; $i++) if (pcntl_fork() === 0) break; if ($i === 20) { echo 'parent'; while (pcntl_wait($status) > 0) echo ended($status); } break;
case 'daemon': echo $hazards->daemonise(); break;
case 'where': echo getmypid(); break;
"#;

/// Children of a request are reaped or killed, and none of them writes into a response.
#[test]
fn children_are_reaped_or_killed_and_answer_nothing() {
    let expected = [
        ("exec", "from a child0more"),
        ("popen", "open"),
        ("proc", "runs"),
        ("background", "started"),
        ("fork", "parent end"),
        ("fork_left", "parent"),
        ("fork_exit", "parent0"),
        ("fork_fatal", "parent255"),
        ("fork_finish", "parent0"),
        ("fork_deep", "parent3"),
        ("fork_many", "parent00000000000000000000"),
        ("daemon", "0"),
    ];
    both(
        || hazards(ENDED, &format!("{CHILDREN}{FINE}")).ini("display_errors", "0"),
        |lane| {
            lane.expect(&["children"]);
            let mut client = lane.client();
            for round in 0..4 {
                for (what, answer) in expected {
                    let got = client.get(&format!("/?do={what}"));
                    assert_eq!((got.status, got.text().as_str()), (200, answer), "{what} in round {round}");
                    assert_eq!(client.get("/?do=fine").text(), "fine 1", "after {what} in round {round}");
                }
            }
            let pids = (0..3).flat_map(|_| lane.pair("where"));
            for pid in pids.map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>() {
                wait_until("no child is left", 10, || process::children(pid).is_empty());
            }
        },
    );
}

/// What a request's child keeps is not the way to answers of others.
#[test]
fn a_grandchild_does_not_hold_the_slab() {
    let cases = format!("case 'daemon': $hazards->daemonise(); echo 'made'; break;\n{FINE}");
    both(
        || hazards("", &cases),
        |lane| {
            lane.expect(&["children"]);
            let before = process_ids();
            assert_eq!(lane.text("daemon"), "made");
            // Whatever is left of it, if anything is.
            for pid in process_ids().difference(&before) {
                let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
                let own = maps.contains("hazards.so") && process::parent(*pid) == Some(lane.pid());
                assert!(!own || !maps.contains("reprise-slab"), "{pid} holds the slab");
                if own {
                    process::kill(*pid, nix::sys::signal::Signal::SIGKILL);
                }
            }
            assert_eq!(lane.text("fine"), "fine 1");
        },
    );
}

fn process_ids() -> std::collections::BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A child that shares the memory and writes to it when the request is over.
#[test]
fn a_child_with_the_same_memory_writes_to_nobodys() {
    rewind(
        || {
            hazards(
                "posix_mkfifo(getenv('PLACE') . '/fifo', 0666);",
                &format!(
                    "case 'late': echo $hazards->late_child($page, getenv('PLACE') . '/fifo') > 0 ? 'made' : 'failed'; break;\ncase 'seen': echo whole(); break;\n{FINE}"
                ),
            )
        },
        |lane| {
            lane.expect(&["children", "threads", "mappings"]);
            assert_eq!(lane.text("late"), "made");
            let fifo = lane.directory().join("place/fifo");
            std::fs::set_permissions(&fifo, std::fs::Permissions::from_mode(0o666)).unwrap();
            let writer = std::thread::spawn(move || {
                // If the child is gone there is no reader, and nothing to wait for.
                use std::os::unix::fs::OpenOptionsExt;
                let open = || std::fs::OpenOptions::new().write(true).custom_flags(0o4000).open(&fifo).ok();
                if let Some(mut fifo) = open() {
                    let _ = std::io::Write::write_all(&mut fifo, b"!");
                }
            });
            writer.join().unwrap();
            for _ in 0..20 {
                assert_eq!(lane.text("seen"), "whole");
            }
            wait_for("a worker for it", 5, || (lane.text("fine") == "fine 1").then_some(()));
        },
    );
}
