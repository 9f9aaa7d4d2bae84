//! The comparison before visitors come (`verify_on_reload`): the supervisor has a child make it, and the front serves the child's requests by the
//! generation that is to be compared, over a socket that the child gets.
//!
//! Bytes of the application are parsed here. So the child has that socket and nothing else: it opens no file, reaches no network, starts no
//! program, and if the server is root's it is the front's user.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use supervisor::os::user::Identity;
use supervisor::os::{confine, sys};
use supervisor::{PageFound, VERIFY_PATIENCE, Verification};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::login::LogIn;
use super::visitor::{How, NAMES, Page, Side, Via, Visitor};
use super::{Findings, examine};

/// How often each session asks for a page. A page with differences is asked for so often again.
const ROUNDS: usize = 2;
/// What is left of the time when no other page is begun, because the supervisor then waits no longer.
const SPARE: Duration = Duration::from_secs(20);
/// How long a connection may be closed before its front is known to have ended.
const UNTIL_ENDED: Duration = Duration::from_secs(3);

const AS_USER: &str = " (as a user who has logged in)";

/// Compares the pages that are served at the other end of the socket.
pub fn judge(what: &Verification, user: Option<&Identity>, socket: OwnedFd) -> Result<Vec<PageFound>, String> {
    confine(user).map_err(|error| format!("the process cannot be confined: {error}"))?;
    let until = Instant::now() + VERIFY_PATIENCE - SPARE;
    let held = Rc::new(UnixStream::from(socket));
    let sides = ["own", "classic"].map(|mode| Side { via: Via::Held(held.clone()), token: String::new(), mode });
    let pages: Vec<Page> =
        what.pages.iter().map(|page| Page::of(&page.path, &page.host, &page.headers)).collect::<Result<_, _>>()?;
    let mut whys: Vec<Option<String>> = vec![None; pages.len()];
    let mut compare = |visitors: &mut [Visitor; 2], who: &str| -> Result<(), String> {
        let all = what.pages.iter().zip(&pages).zip(&mut whys);
        let some = all.filter(|(_, why)| why.is_none());
        for ((_, page), why) in some {
            if Instant::now() >= until {
                *why = Some(format!("there was no time left to compare it, of {} s", VERIFY_PATIENCE.as_secs()));
                continue;
            }
            let found = examine(page, ROUNDS, visitors).map_err(|failure| failure.parts().2);
            if found.is_err() {
                check(&held)?;
            }
            *why = found.map_or_else(Some, |found| said(&found)).map(|why| format!("{why}{who}"));
        }
        Ok(())
    };
    let visitors = || NAMES.map(|name| Visitor::new(name, &sides));
    compare(&mut visitors(), "")?;
    if let [one, other] = &what.users[..] {
        let host = what.pages.first().map_or("localhost", |page| &page.host);
        let logins = [LogIn::parse(one, host)?, LogIn::parse(other, host)?];
        let mut users = visitors();
        for (visitor, login) in users.iter_mut().zip(&logins) {
            for (is_classic, session) in [(true, 0), (false, 0), (false, 1), (true, 1)] {
                let how = How { is_classic, session, is_padded: false };
                login.of(visitor, how).or_else(|why| check(&held).and(Err(why)))?;
            }
        }
        compare(&mut users, AS_USER)?;
    }
    Ok(what.pages.iter().zip(whys).map(|(page, why)| PageFound { path: page.path.clone(), why }).collect())
}

/// Whether the front can still be asked.
fn check(held: &UnixStream) -> Result<(), String> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(held, &mut [0; 1][..], flags).map(|(_, read)| read);
    if !matches!(peeked, Ok(0) | Err(Errno::CONNRESET)) {
        return Ok(());
    }
    // If it has ended, the supervisor has this comparison begun again, and ends this process when it learns of it.
    std::thread::sleep(UNTIL_ENDED);
    Err("the front has closed the connection".to_owned())
}

/// Why a page has to stay in classic mode.
fn said(findings: &Findings) -> Option<String> {
    let found = &findings.found;
    let leak = found.leaks.first().cloned();
    leak.or_else(|| {
        let one = found.differences.first()?;
        Some(format!("{}, as {}: in classic mode '{}', here '{}'", one.what, one.visitor, one.classic, one.own))
    })
}

/// No byte of the application is read before this.
fn confine(user: Option<&Identity>) -> std::io::Result<()> {
    sys::set_name(c"reprise-verify");
    if let Some(user) = user.filter(|_| supervisor::os::user::is_root()) {
        sys::become_user(user)?;
        sys::start_no_more()?;
    }
    sys::end_with_parent()?;
    sys::protect_memory()?;
    // The front has said what this kernel cannot do.
    confine::nothing_below(None).map(drop)
}
