//! The terminal of `reprise dev`: single keys as commands, and the browser.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr};
use supervisor::{Console, Key};

/// Keys that are read at once.
const KEYS: usize = 64;

/// Standard input, which gives keys as they are pressed. It is put back when this is dropped.
pub struct Terminal {
    before: Termios,
    url: String,
    is_gone: bool,
}

impl Terminal {
    /// `None`: standard input is no terminal, or belongs to another program at the moment.
    pub fn take(url: &str) -> Option<Terminal> {
        let is_ours = || tcgetpgrp(stdin()).ok() == Some(rustix::process::getpgrp());
        if !isatty(stdin()) || !isatty(rustix::stdio::stderr()) || !is_ours() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut wanted = before.clone();
        // Ctrl-C and Ctrl-Z stay what they are.
        wanted.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &wanted).ok()?;
        Some(Terminal { before, url: url.to_owned(), is_gone: false })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // In the background this would stop the process.
        if tcgetpgrp(stdin()).ok() == Some(rustix::process::getpgrp()) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
        }
    }
}

impl Console for Terminal {
    fn descriptor(&self) -> BorrowedFd<'_> {
        stdin()
    }

    fn keys(&mut self) -> Vec<Key> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let input = stdin();
        let mut polled = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        if self.is_gone || !matches!(poll(&mut polled, Some(&at_once)), Ok(1..)) {
            return Vec::new();
        }
        let mut bytes = [0; KEYS];
        match rustix::io::read(stdin().as_fd(), &mut bytes) {
            Ok(count @ 1..) => bytes[..count].iter().filter_map(|byte| key(*byte)).collect(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Vec::new(),
            // The terminal is gone.
            Ok(_) | Err(_) => {
                self.is_gone = true;
                vec![Key::Quit]
            }
        }
    }

    fn open(&mut self) -> Result<(), String> {
        open(&self.url)
    }
}

fn key(byte: u8) -> Option<Key> {
    match byte.to_ascii_lowercase() {
        b'r' => Some(Key::Restart),
        b'o' => Some(Key::Open),
        b'l' => Some(Key::Requests),
        b'q' => Some(Key::Quit),
        _ => None,
    }
}

/// Shows a URL in the browser: that of BROWSER, else the desktop's.
pub fn open(url: &str) -> Result<(), String> {
    let named = std::env::var("BROWSER").ok().filter(|name| !name.is_empty() && !name.contains(':'));
    let program = named.unwrap_or_else(|| "xdg-open".to_owned());
    let mut command = Command::new(&program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The supervisor reaps all its children.
    match command.spawn() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{program}: {error}; open {url} yourself, or name a browser in BROWSER")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_the_same_with_shift() {
        assert_eq!(b"rOlQ".map(key), [Some(Key::Restart), Some(Key::Open), Some(Key::Requests), Some(Key::Quit)]);
        assert_eq!(b"x \x1b\n\x03".map(key), [None; 5]);
    }
}
