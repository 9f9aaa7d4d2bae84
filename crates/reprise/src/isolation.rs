//! Whether this system can rewind. `reprise-php --try-needs` tries it out with the rights of the application's user; who forbids it,
//! and what mends it, is [`obstacle`]'s to say. The start and `reprise check` say it once for the whole server.

mod obstacle;

use std::fs::{File, OpenOptions, read_to_string};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use ipc::control::Isolation;
use supervisor::os::user::Identity;

use crate::installed::{Php, Phps};
use crate::options::Config;
use crate::people::People;
use obstacle::{Facts, Needs};

/// What fork isolation costs, as docs/guides/snapshot.md has it.
const COST: &str = "4 to 10 ms of processor time each";

/// What was found.
pub struct Finding {
    /// What reprise-php is told of it (`--needs`): a template that finds the same says nothing. `None`: nothing was tried.
    pub needs: Option<String>,
    /// The ways by which templates can rewind, the best first.
    pub ways: Vec<Isolation>,
    /// The isolation of snapshots, and why.
    pub text: String,
    /// What mends it.
    pub hint: Option<String>,
}

impl Finding {
    /// What a snapshot gets that asks for this isolation.
    pub fn of(&self, wanted: Isolation) -> Isolation {
        match wanted {
            Isolation::Auto | Isolation::Rewind if !self.ways.is_empty() => self.ways[0],
            Isolation::Auto if self.needs.is_some() => Isolation::Fork,
            other => other,
        }
    }

    /// What a snapshot gets that asks for this isolation, as `check` has it.
    pub fn described(&self, wanted: Isolation) -> String {
        match self.of(wanted) {
            Isolation::Fork if self.leaves_to_comparison(wanted) => "fork or classic, measured in use".to_owned(),
            got => said(got),
        }
    }

    /// Whether classic mode may take the requests of such a snapshot: there is only a process for each, which nobody has asked for.
    pub fn leaves_to_comparison(&self, wanted: Isolation) -> bool {
        wanted == Isolation::Auto && self.of(wanted) == Isolation::Fork
    }

    /// All of it, for a line of the log.
    pub fn said(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; hint: {hint}"));
        format!("{}{}", self.text, hint.unwrap_or_default())
    }
}

/// Tries what a rewind needs, if an application wants rewinds.
pub fn look(config: &Config, people: &People, phps: &Phps) -> Finding {
    let mut all = config.applications.iter().zip(&people.applications).zip(phps.each());
    let Some(((_, user), php)) = all.find(|((application, _), _)| application.isolation != Isolation::Fork) else {
        let text = "fork, as the configuration says".to_owned();
        return Finding { needs: None, ways: vec![], text, hint: None };
    };
    match try_needs(php, user.as_ref().map(|(user, _)| user)) {
        Ok((release, needs)) => judge(&release, &needs),
        Err(why) => {
            let text = format!("unknown: reprise-php cannot try what a rewind needs: {why}");
            Finding { needs: None, ways: vec![], text, hint: None }
        }
    }
}

/// An isolation, as the log has it.
pub fn said(isolation: Isolation) -> String {
    match isolation {
        Isolation::Userfaultfd | Isolation::SoftDirty => format!("{} ({})", Isolation::Rewind.word(), isolation.word()),
        other => other.word().to_owned(),
    }
}

fn judge(release: &str, needs: &str) -> Finding {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let line = |path: &str| read_to_string(path).ok().map(|text| text.trim_matches(['\0', '\n', ' ']).to_owned());
    let facts = Facts {
        needs: Needs::parse(needs),
        release: release.to_owned(),
        is_filtered: status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"])),
        sysctl: line("/proc/sys/vm/unprivileged_userfaultfd"),
        modules: line("/sys/kernel/security/lsm"),
        label: line("/proc/self/attr/current"),
    };
    let needs = Some(needs.to_owned());
    let soft_dirty = facts.obstacle_of_soft_dirty();
    let by_soft_dirty = soft_dirty.is_none().then_some(Isolation::SoftDirty);
    match (facts.obstacle(), soft_dirty) {
        (None, _) => {
            let ways = [Isolation::Userfaultfd].into_iter().chain(by_soft_dirty).collect();
            Finding { needs, ways, text: said(Isolation::Userfaultfd), hint: None }
        }
        (Some(obstacle), None) => Finding {
            needs,
            ways: vec![Isolation::SoftDirty],
            text: format!(
                "{}: a request that writes where none wrote before costs more than with userfaultfd, by the size of the process. \
                 userfaultfd is not possible: {}",
                said(Isolation::SoftDirty),
                obstacle.why
            ),
            hint: Some(obstacle.hint),
        },
        (Some(obstacle), Some(besides)) => Finding {
            needs,
            ways: vec![],
            text: format!(
                "fork: a process for each request from a snapshot, {COST}, or classic mode, if that turns out to be cheaper. A rewind is not possible: {}; nor is it without \
                 userfaultfd: {besides}",
                obstacle.why
            ),
            hint: Some(obstacle.hint),
        },
    }
}

/// The kernel's release, and what reprise-php found. It runs as that user, with the device that prototypes get.
fn try_needs(php: &Php, user: Option<&Identity>) -> Result<(String, String), String> {
    // The program is started by its descriptor, as prototypes are: the user may not reach it by its path.
    let program = php.open().map_err(|failure| failure.to_string())?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0(&php.path).env_clear().current_dir("/").stdin(Stdio::null());
    if let Ok(device) = open_device() {
        command.stdin(device).args(["--userfaultfd", "0"]);
    }
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    let output = command.arg("--try-needs").output().map_err(|error| error.to_string())?;
    // If it was killed when it tried userfaultfd, it has said the rest before.
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| text.lines().rev().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    match (line("release "), line("needs ")) {
        (Some(release), Some(needs)) => Ok((release, needs)),
        _ => Err(format!("it ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The device, which works where the system call is not allowed.
pub fn open_device() -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/userfaultfd")
}
