//! Programs that the runner starts, each in a process group of its own: a group ends as a whole, also when the run is interrupted.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// In what /proc says of processor time; the kernel's USER_HZ.
const TICKS_PER_SECOND: u64 = 100;

/// The run as a whole.
struct Run {
    /// Groups that have not been reaped.
    groups: BTreeSet<i32>,
    /// What has interrupted the run.
    signal: Option<i32>,
}

static RUN: Mutex<Run> = Mutex::new(Run { groups: BTreeSet::new(), signal: None });

fn run() -> MutexGuard<'static, Run> {
    RUN.lock().expect("no thread panics with the lock")
}

/// From now on SIGINT, SIGTERM and SIGHUP end all groups, and [`interrupted`] says so. Otherwise they would end the runner
/// alone: a signal of the terminal does not reach other process groups.
pub fn end_all_on_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            let mut run = run();
            run.signal.get_or_insert(signal);
            run.groups.iter().for_each(|&group| kill(group));
        }
    });
    Ok(())
}

/// The signal that has interrupted the run.
pub fn interrupted() -> Option<i32> {
    run().signal
}

/// A program that was started, with all that it starts in its group.
pub struct Group {
    /// The program.
    pub child: Child,
}

impl Group {
    /// Starts it. An error, too, if the run is over.
    pub fn start(command: &mut Command) -> io::Result<Group> {
        // With the lock: a signal comes before the group exists, or finds it listed.
        let mut run = run();
        if let Some(signal) = run.signal {
            return Err(io::Error::other(format!("the run was interrupted by signal {signal}")));
        }
        let child = command.process_group(0).spawn()?;
        run.groups.insert(child.id() as i32);
        Ok(Group { child })
    }

    /// Its process, which is the group's name.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether the program runs. It is not reaped: [`Group::finish`] does that.
    pub fn is_running(&self) -> bool {
        let looks = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        matches!(waitid(Id::Pid(Pid::from_raw(self.pid())), looks), Ok(WaitStatus::StillAlive))
    }

    /// Ends all that is in the group.
    pub fn kill(&self) {
        kill(self.pid());
    }

    /// Waits for the program's end; what it has left behind in its group goes with it. Returns its processor time too.
    pub fn finish(mut self) -> io::Result<(ExitStatus, Duration)> {
        let looks = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(Pid::from_raw(self.pid())), looks) == Err(nix::Error::EINTR) {}
        let processor = processor_time(self.pid());
        self.kill();
        // Before it is reaped: then another group may get its number.
        run().groups.remove(&self.pid());
        Ok((self.child.wait()?, processor))
    }
}

/// The time of a process and of all that it has waited for.
fn processor_time(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The first behind the name is the third field; utime, stime, cutime and cstime are 14 to 17.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

fn kill(group: i32) {
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
}
