//! A pipe of a child's standard error or output, as lines of the log. A line has nothing in it that a terminal or a reader of the log
//! could take for something else.
//!
//! | what is written | what the log has |
//! |---|---|
//! | a message of reprise-php: [`MESSAGE`], `TIME LEVEL php[PID] NAME: TEXT`, end of line | the same, without the mark |
//! | a long one: several of those, with [`MORE`] before the end of line of all but the last | one line |
//! | anything else, up to the end of a line, the next message, or a pause | `TIME notice stderr NAME: TEXT`, or `stdout` |
//! | the same, if the application's output is not decorated | the same bytes |
//!
//! Messages come by standard error alone.
//!
//! Each part of a message is written by one call and is no longer than what a pipe takes at once, so the parts of several processes
//! do not mix. Any program that writes to the pipe can write such messages too, but none that name another application, or the
//! supervisor.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ipc::shared::{LEVELS, MESSAGE_MARK as MESSAGE, MORE_MARK as MORE};

use crate::logs::log::{self, escape};

/// Bytes of a line; what is longer is cut.
const MAX_LINE: usize = 8 * 1024;
/// The same of a line that is not decorated: programs read those, and cannot read a part. None of its bytes takes more room in the log.
const MAX_BARE_LINE: usize = 64 * 1024;
/// Bytes of a message in several parts: each byte may have been escaped.
const MAX_MESSAGE: usize = 5 * MAX_LINE;
/// Messages that are not complete, at most. A message whose writer was killed never becomes complete.
const MAX_PARTS: usize = 64;
/// Text without a line end becomes a line when nothing has followed for so long.
const PAUSE: Duration = Duration::from_millis(500);

/// The text of one pipe that is not logged yet.
pub struct Lines {
    /// Level and source of text that is no message.
    label: String,
    /// Whether a line may begin with its level.
    has_levels: bool,
    /// Text that is no message gets neither label nor escapes.
    is_bare: bool,
    /// The application whose messages are logged as they are; `None`: no messages are.
    application: Option<String>,
    line: Vec<u8>,
    /// Bytes of this line that are left out.
    cut: usize,
    since: Option<Instant>,
    parts: BTreeMap<String, Vec<u8>>,
}

impl Lines {
    /// Standard error of an application's PHP.
    pub fn of_errors(name: &str, is_decorated: bool) -> Lines {
        let label = format!("notice stderr {}", escape(name.as_bytes()));
        Lines { is_bare: !is_decorated, ..Lines::new(label, Some(name.to_owned())) }
    }

    /// Standard output of an application's PHP.
    pub fn of_output(name: &str, is_decorated: bool) -> Lines {
        Lines { is_bare: !is_decorated, ..Lines::new(format!("notice stdout {}", escape(name.as_bytes())), None) }
    }

    /// Of the front.
    pub fn of_front() -> Lines {
        Lines::new("warning front".to_owned(), None)
    }

    /// Of the process that orders certificates. It begins lines with their level.
    pub fn of_acme() -> Lines {
        Lines { has_levels: true, ..Lines::new("warning acme".to_owned(), None) }
    }

    /// Of the process that watches files. It begins lines with their level.
    pub fn of_watcher() -> Lines {
        Lines { has_levels: true, ..Lines::new("warning watcher".to_owned(), None) }
    }

    /// Of the process that talks to the store of an application. It begins lines with their level.
    pub fn of_store(name: &str) -> Lines {
        Lines { has_levels: true, ..Lines::new(format!("warning store {}", escape(name.as_bytes())), None) }
    }

    /// Of the process that follows the pool of an application's releases. It begins lines with their level.
    pub fn of_follower(name: &str) -> Lines {
        Lines { has_levels: true, ..Lines::new(format!("warning release {}", escape(name.as_bytes())), None) }
    }

    fn new(label: String, application: Option<String>) -> Lines {
        let (line, parts) = (Vec::new(), BTreeMap::new());
        Lines { label, has_levels: false, is_bare: false, application, line, cut: 0, since: None, parts }
    }

    /// Takes bytes that were read, and adds the lines that are complete now to `out`.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        let has_messages = self.application.is_some();
        let ends = |byte: &u8| *byte == b'\n' || *byte == MESSAGE && has_messages;
        while let Some(at) = rest.iter().position(ends) {
            self.add(&rest[..at]);
            self.end_line(out);
            if rest[at] == MESSAGE {
                self.add(&rest[at..=at]);
            }
            rest = &rest[at + 1..];
        }
        self.add(rest);
        self.since = (!self.line.is_empty()).then(Instant::now);
    }

    /// When a line without an end is logged all the same.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + PAUSE)
    }

    /// Ends a line that has no end, if its time has come.
    pub fn end_overdue(&mut self, now: Instant, out: &mut Vec<u8>) {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.end(out);
        }
    }

    /// Ends a line that has no end.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.end_line(out);
        self.since = None;
    }

    fn add(&mut self, bytes: &[u8]) {
        let most = if self.is_bare { MAX_BARE_LINE } else { MAX_LINE };
        let room = most.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..room]);
        self.cut += bytes.len() - room;
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        let (line, cut) = (std::mem::take(&mut self.line), std::mem::take(&mut self.cut));
        if line.is_empty() {
            return;
        }
        let Some((head, text)) = self.message(&line) else {
            let mark = if cut > 0 { format!(" [cut: {cut} more bytes]") } else { String::new() };
            if self.is_bare {
                out.extend_from_slice(&line);
                out.extend_from_slice(mark.as_bytes());
                out.push(b'\n');
                return;
            }
            let (label, text) = self.with_level(&line);
            out.extend_from_slice(format!("{} {label}: {}{mark}\n", log::now(), escape(text)).as_bytes());
            return;
        };
        let (text, is_part) = text.strip_suffix(&[MORE]).map_or((text, false), |text| (text, true));
        if is_part && (self.parts.contains_key(&head) || self.parts.len() < MAX_PARTS) {
            let all = self.parts.entry(head).or_default();
            let room = MAX_MESSAGE.saturating_sub(all.len()).min(text.len());
            all.extend_from_slice(&text[..room]);
            return;
        }
        let mut all = self.parts.remove(&head).unwrap_or_default();
        all.extend_from_slice(text);
        if self.parts.len() >= MAX_PARTS {
            // Most of their writers have been killed in between.
            self.parts.clear();
        }
        out.extend_from_slice(format!("{head}{}\n", escape(&all)).as_bytes());
    }

    /// Level and source of a line that is no message, and its text.
    fn with_level<'a>(&self, line: &'a [u8]) -> (String, &'a [u8]) {
        let of = |level: &'static str| Some((level, line.strip_prefix(level.as_bytes())?.strip_prefix(b" ")?));
        match LEVELS.into_iter().filter(|_| self.has_levels).find_map(of) {
            Some((level, text)) => {
                (format!("{level} {}", self.label.split_once(' ').map_or("", |(_, rest)| rest)), text)
            }
            None => (self.label.clone(), line),
        }
    }

    /// Head and text of a message of this application.
    fn message<'a>(&self, line: &'a [u8]) -> Option<(String, &'a [u8])> {
        let name = self.application.as_deref()?;
        let rest = line.strip_prefix(&[MESSAGE])?;
        let mark = format!("] {name}: ");
        let end = rest.windows(mark.len()).position(|window| window == mark.as_bytes())?;
        let (head, text) = rest.split_at(end + mark.len());
        let head = std::str::from_utf8(head).ok()?;
        let mut words = head[..end].splitn(3, ' ');
        let (time, level, source) = (words.next()?, words.next()?, words.next()?);
        let is_time = time.len() == 20 && time.bytes().all(|byte| byte.is_ascii_digit() || b"-T:Z".contains(&byte));
        let is_pid = source
            .strip_prefix("php[")
            .is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()));
        (is_time && is_pid && LEVELS.contains(&level)).then(|| (head.to_owned(), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "2026-01-31T23:59:59Z error php[7] app: ";

    fn text(mut lines: Lines, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| lines.take(piece, &mut out));
        lines.end(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let out = text(Lines::of_errors("app", true), pieces);
        let of_now = |line: &str| line.get(21..).unwrap_or_default().to_owned();
        out.lines()
            .map(|line| if line.starts_with("2026-01-31T23:59:59Z") { line.to_owned() } else { of_now(line) })
            .collect()
    }

    #[test]
    fn messages_stay_and_the_rest_is_labelled() {
        let message = format!("\x1e{HEAD}text\n");
        assert_eq!(lines(&[message.as_bytes()]), [format!("{HEAD}text")]);
        assert_eq!(lines(&[b"a\nb"]), ["notice stderr app: a", "notice stderr app: b"]);
        // Without its end, before a message.
        assert_eq!(lines(&[b"a", message.as_bytes()]), ["notice stderr app: a".to_owned(), format!("{HEAD}text")]);
        assert_eq!(lines(&[b"a", b"b\n\n"]), ["notice stderr app: ab"]);
    }

    #[test]
    fn a_level_is_taken_from_who_may_say_one() {
        let read = |lines: Lines| {
            let out = text(lines, &[b"notice issued\nerror supervisor: x\nother\n"]);
            out.lines().map(|line| line.get(21..).unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let expected = ["notice acme: issued", "error acme: supervisor: x", "warning acme: other"];
        assert_eq!(read(Lines::of_acme()), expected);
        assert_eq!(read(Lines::of_front())[0], "warning front: notice issued");
    }

    #[test]
    fn nobody_speaks_for_others() {
        for forged in [
            "2026-01-31T23:59:59Z error supervisor: x",
            "\x1e2026-01-31T23:59:59Z error supervisor: x",
            "\x1e2026-01-31T23:59:59Z error php[7] other: x",
            "\x1e2026-01-31T23:59:59Z error php[7] other: x] app: y",
            "\x1enow error php[7] app: x",
        ] {
            let found = lines(&[forged.as_bytes(), b"\n"]);
            assert!(found.len() == 1 && !found[0].starts_with("2026"), "{found:?}");
        }
        assert_eq!(
            lines(&["a\x1b[2J\r\u{2028}\u{85}\\".as_bytes(), b"\xff"]),
            ["notice stderr app: a\\x1b[2J\\r\\u{2028}\\u{85}\\\\xff"]
        );
    }

    /// Only standard error has messages; what is not decorated is passed on as it is, each line with its end.
    #[test]
    fn standard_output_is_text_and_may_be_left_as_it_is() {
        let message = format!("\x1e{HEAD}text\n");
        let shown = text(Lines::of_output("app", true), &[message.as_bytes(), b"\x1e{\"a\":1}"]);
        let after: Vec<_> = shown.lines().filter_map(|line| line.get(21..)).collect();
        assert_eq!(
            after,
            [format!("notice stdout app: \\x1e{HEAD}text").as_str(), "notice stdout app: \\x1e{\"a\":1}"]
        );
        assert_eq!(text(Lines::of_output("app", false), &[b"\x1b[1m\t", b"x\n\n{}"]), "\x1b[1m\tx\n{}\n");
        let both = text(Lines::of_errors("app", false), &[b"{}\n", message.as_bytes()]);
        assert_eq!(both, format!("{{}}\n{HEAD}text\n"));
        let long = text(Lines::of_output("app", false), &[&vec![b'x'; MAX_BARE_LINE + 5]]);
        assert!(long.ends_with("x [cut: 5 more bytes]\n") && long.len() < MAX_BARE_LINE + 50, "{}", long.len());
    }

    #[test]
    fn long_messages_are_joined_and_long_lines_cut() {
        let part = |text: &str, more: &str| format!("\x1e{HEAD}{text}{more}\n").into_bytes();
        let other = b"\x1e2026-01-31T23:59:59Z error php[8] app: other\n";
        let found = lines(&[&part("one ", "\x1f"), other, &part("two", "")]);
        assert_eq!(found, ["2026-01-31T23:59:59Z error php[8] app: other".to_owned(), format!("{HEAD}one two")]);
        let long = vec![b'x'; MAX_LINE + 5];
        let found = lines(&[&long, b"\nshort\n"]);
        assert!(found[0].ends_with("x [cut: 5 more bytes]") && found[1] == "notice stderr app: short", "{}", found[1]);
        // Parts whose ends never come are bounded.
        let (mut kept, mut out) = (Lines::of_errors("app", true), Vec::new());
        for pid in 0..1000 {
            let head = HEAD.replace("[7]", &format!("[{pid}]"));
            kept.take(format!("\x1e{head}{}\x1f\n", "y".repeat(4000)).as_bytes(), &mut out);
        }
        assert!(
            kept.parts.len() <= MAX_PARTS && out.split(|byte| *byte == b'\n').all(|line| line.len() < MAX_LINE),
            "{}",
            kept.parts.len()
        );
    }
}
