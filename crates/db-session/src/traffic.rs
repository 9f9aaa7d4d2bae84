//! Where the messages of a client end. A request that has left one incomplete has changed what the server takes the next bytes for.

use crate::plan::Protocol;

/// How far a client's messages have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes of the head of a message: of a packet, a message, or a line.
    head: [u8; 16],
    head_size: u8,
    is_lost: bool,
    /// The server owes a reply: a message that has one was sent, and nothing was read since.
    awaits_reply: bool,
    /// MySQL: the next byte is the first of a packet, and says which command it is.
    is_command: bool,
    /// Redis: arguments that are still to come.
    arguments: u64,
    /// Bytes of the message behind its head that are still to come.
    rest: u64,
    /// MySQL: the last packet is none of a command, but of a file that the server has asked for.
    is_file: bool,
    /// Redis: the beginnings of a command's first two arguments, and of which one the bytes are.
    said: [[u8; WORD]; 2],
    said_size: [u8; 2],
    argument: u8,
    /// Redis: a command was sent whose effect outlives a reset.
    has_lasting: bool,
    /// MySQL: how far each of the words has come in the last command; a word that was there has its whole length.
    words: [u8; 2],
}

/// Bytes of a command's name that are looked at.
const WORD: usize = 16;
/// Of Redis' `CLIENT` what a reset puts back, or what leaves nothing. What comes with later versions is not known.
const HARMLESS: [&[u8]; 13] = [
    b"SETNAME",
    b"GETNAME",
    b"ID",
    b"INFO",
    b"LIST",
    b"KILL",
    b"REPLY",
    b"PAUSE",
    b"UNPAUSE",
    b"TRACKING",
    b"TRACKINGINFO",
    b"UNBLOCK",
    b"GETREDIR",
];

/// MySQL's commands without a reply: `COM_QUIT`, `COM_STMT_SEND_LONG_DATA`, `COM_STMT_CLOSE`.
const WITHOUT_REPLY: [u8; 3] = [0x01, 0x18, 0x19];
/// A command with both may have the server ask for a file, and take whatever comes next for it.
const FILE_WORDS: [&[u8]; 2] = [b"local", b"infile"];

impl Traffic {
    /// Follows bytes that the client has sent.
    pub fn follow(&mut self, protocol: Protocol, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_lost {
            if self.rest > 0 {
                let count = usize::try_from(self.rest).unwrap_or(usize::MAX).min(bytes.len());
                self.rest -= count as u64;
                self.await_reply(protocol, bytes.first());
                match protocol {
                    Protocol::Mysql => self.look_for_files(bytes.get(..count).unwrap_or_default()),
                    Protocol::Redis => self.remember(bytes.get(..count).unwrap_or_default()),
                    Protocol::Postgres => {}
                }
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            let [byte, after @ ..] = bytes else { return };
            bytes = after;
            match self.head.get_mut(usize::from(self.head_size)) {
                Some(room) => *room = *byte,
                None => self.is_lost = true,
            }
            self.head_size = self.head_size.saturating_add(1);
            self.read_head(protocol);
        }
    }

    /// Whether the client has sent whole messages, and nothing that is none; and whether the server can wait for nothing but a command.
    pub fn is_at_end(&self) -> bool {
        let may_want_file = self.words.iter().zip(FILE_WORDS).all(|(seen, word)| usize::from(*seen) == word.len());
        let is_whole = self.head_size == 0 && self.rest == 0 && self.arguments == 0;
        is_whole && !self.is_lost && !self.is_file && !may_want_file
    }

    /// Something was read.
    pub fn heard(&mut self) {
        self.awaits_reply = false;
    }

    /// Whether nothing was read since the last message that has a reply. What the server does then, and for how long, is not known.
    pub fn awaits_reply(&self) -> bool {
        self.awaits_reply
    }

    /// `first` of the bytes of a message that have come. MySQL's first of all is the command.
    fn await_reply(&mut self, protocol: Protocol, first: Option<&u8>) {
        let has_none = protocol == Protocol::Mysql
            && (!self.is_command || first.is_some_and(|command| WITHOUT_REPLY.contains(command)));
        self.is_command = false;
        self.awaits_reply |= !has_none;
    }

    /// Whether something was sent whose effect no reset puts back.
    pub fn has_lasting(&self) -> bool {
        self.has_lasting
    }

    /// Redis: the bytes of an argument, with the end of its line.
    fn remember(&mut self, bytes: &[u8]) {
        let at = usize::from(self.argument);
        if let (Some(word), Some(size)) = (self.said.get_mut(at), self.said_size.get_mut(at)) {
            for byte in bytes {
                if let Some(room) = word.get_mut(usize::from(*size)) {
                    *room = byte.to_ascii_uppercase();
                    *size += 1;
                }
            }
        }
        if self.rest == 0 {
            self.argument = self.argument.saturating_add(1);
            if self.arguments == 0 {
                self.judge_command();
            }
        }
    }

    fn judge_command(&mut self) {
        let word = |at: usize| {
            let size = usize::from(*self.said_size.get(at).unwrap_or(&0));
            self.said.get(at).and_then(|word| word.get(..size)).unwrap_or_default().trim_ascii_end()
        };
        let (name, first) = (word(0), word(1));
        self.has_lasting |= match name {
            b"CLIENT" => !HARMLESS.contains(&first),
            b"SCRIPT" => first == b"DEBUG",
            b"SYNC" | b"PSYNC" | b"REPLCONF" => true,
            _ => false,
        };
        (self.said_size, self.argument) = ([0; 2], 0);
    }

    fn look_for_files(&mut self, bytes: &[u8]) {
        for (seen, word) in self.words.iter_mut().zip(FILE_WORDS) {
            for byte in bytes {
                let expected = word.get(usize::from(*seen));
                *seen = match byte.to_ascii_lowercase() {
                    _ if expected.is_none() => break,
                    byte if Some(&byte) == expected => *seen + 1,
                    // No beginning of a word is in the word again, but its first letter.
                    byte => u8::from(Some(&byte) == word.first()),
                };
            }
        }
    }

    /// MySQL: commands are numbered from 0 on, and a file goes on with the number of the server's question. Its last packet is empty.
    fn begin_packet(&mut self, number: u8, size: u64) {
        self.is_file = number != 0 && size > 0;
        self.is_command = number == 0 && size > 0;
        // The rest of a long command, or a file, whose end has a reply.
        self.awaits_reply |= number != 0;
        if number == 0 || size == 0 {
            self.words = [0; 2];
        }
    }

    fn read_head(&mut self, protocol: Protocol) {
        let [a, b, c, d, e, ..] = self.head;
        let size = match (protocol, self.head_size) {
            (Protocol::Mysql, 4) => {
                let size = u64::from(u32::from_le_bytes([a, b, c, 0]));
                self.begin_packet(d, size);
                size
            }
            (Protocol::Postgres, 5) => match u32::from_be_bytes([b, c, d, e]).checked_sub(4) {
                Some(size) => u64::from(size),
                None => return self.is_lost = true,
            },
            (Protocol::Redis, _) => return self.read_line(),
            _ => return,
        };
        self.rest = size;
        self.head_size = 0;
    }

    /// A line of Redis' protocol: how many arguments a command has, or how many bytes an argument.
    fn read_line(&mut self) {
        let Some(line) = self.head.get(..usize::from(self.head_size)) else { return };
        let Some(text) = line.strip_suffix(b"\r\n") else { return };
        let number = |digits: &[u8]| core::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
        self.head_size = 0;
        match text {
            [b'*', digits @ ..] if self.arguments == 0 => match number(digits) {
                Some(count) if count > 0 => self.arguments = u64::from(count),
                _ => self.is_lost = true,
            },
            [b'$', digits @ ..] if self.arguments > 0 => match number(digits) {
                Some(size) => {
                    self.arguments -= 1;
                    self.rest = u64::from(size) + 2;
                }
                None => self.is_lost = true,
            },
            _ => self.is_lost = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(protocol: Protocol, message: &[u8]) {
        let mut whole = Traffic::default();
        whole.follow(protocol, message);
        assert!(whole.is_at_end());
        for cut in 1..message.len() {
            let mut traffic = Traffic::default();
            let (first, second) = message.split_at(cut);
            traffic.follow(protocol, first);
            assert!(!traffic.is_at_end(), "{protocol:?} {cut}");
            traffic.follow(protocol, second);
            assert!(traffic.is_at_end(), "{protocol:?} {cut}");
        }
    }

    #[test]
    fn messages_end_where_they_end() {
        ends(Protocol::Mysql, b"\x09\0\0\0\x03SELECT 1");
        ends(Protocol::Postgres, b"Q\0\0\0\x0dSELECT 1\0");
        ends(Protocol::Redis, b"*2\r\n$3\r\nGET\r\n$4\r\nk\r\nk\r\n");
    }

    #[test]
    fn a_reply_is_awaited_until_something_was_read() {
        let (query, close) = (&b"\x09\0\0\0\x03SELECT 1"[..], &b"\x05\0\0\0\x19\x01\0\0\0"[..]);
        for (protocol, message, expected) in [
            (Protocol::Mysql, query, true),
            (Protocol::Mysql, close, false),
            (Protocol::Mysql, &[close, query, close].concat(), true),
            // A file that begins as a command without a reply, and the empty packet that ends one.
            (Protocol::Mysql, b"\x02\0\0\x02\x19b", true),
            (Protocol::Mysql, b"\0\0\0\x03", true),
            (Protocol::Postgres, b"Q\0\0\0\x0dSELECT 1\0", true),
            (Protocol::Redis, b"*1\r\n$4\r\nPING\r\n", true),
        ] {
            for size in [1, 3, message.len()] {
                let mut traffic = Traffic::default();
                message.chunks(size).for_each(|part| traffic.follow(protocol, part));
                assert_eq!(traffic.awaits_reply(), expected, "{protocol:?} {message:?}");
                traffic.heard();
                assert!(!traffic.awaits_reply());
            }
        }
    }

    #[test]
    fn redis_commands_whose_effect_lasts_are_known() {
        let command = |words: &[&str]| {
            let parts: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
            format!("*{}\r\n{parts}", words.len())
        };
        for (words, expected) in [
            (&["GET", "client"][..], false),
            (&["client", "setName", "a"], false),
            (&["CLIENT", "NO-EVICT", "on"], true),
            (&["client", "setinfo", "lib-name", "a"], true),
            (&["SCRIPT", "load", "return 1"], false),
            (&["script", "debug", "yes"], true),
            (&["PSYNC", "?", "-1"], true),
            (&["SET", "SCRIPT", "DEBUG"], false),
            (&["SET", "a", "SYNC"], false),
        ] {
            let text = [command(&["PING"]), command(words), command(&["PING"])].concat();
            for size in [1, 3, text.len()] {
                let mut traffic = Traffic::default();
                text.as_bytes().chunks(size).for_each(|part| traffic.follow(Protocol::Redis, part));
                assert!(traffic.is_at_end());
                assert_eq!(traffic.has_lasting(), expected, "{words:?}");
            }
        }
    }

    #[test]
    fn a_server_that_waits_for_a_file_waits_for_no_command() {
        let command = |text: &str| [&[u8::try_from(text.len() + 1).unwrap(), 0, 0, 0, 3], text.as_bytes()].concat();
        let (load, data, end) = (command("load data LOCAL InFile 'a' into table b"), b"\x02\0\0\x02ab", b"\0\0\0\x03");
        for (parts, expected) in [
            (vec![&load[..]], false),
            (vec![&load, data], false),
            (vec![&load, data, end], true),
            (vec![&load, b"\0\0\0\x02"], true),
            (vec![&load, &command("select 1")], true),
            (vec![&command("select 'infile'")], true),
            (vec![&command("select 'local' iinfile")], false),
        ] {
            let mut traffic = Traffic::default();
            parts.iter().for_each(|part| traffic.follow(Protocol::Mysql, part));
            assert_eq!(traffic.is_at_end(), expected, "{parts:?}");
        }
    }

    #[test]
    fn what_is_no_message_never_ends() {
        for (protocol, bytes) in [
            (Protocol::Redis, &b"PING\r\n"[..]),
            (Protocol::Redis, b"*1\r\n*1\r\n$4\r\nPING\r\n"),
            (Protocol::Redis, b"*0\r\n"),
            (Protocol::Redis, b"*1\r\n$-1\r\n"),
            (Protocol::Redis, b"*00000000000000000001\r\n"),
            (Protocol::Postgres, b"Q\0\0\0\x03"),
        ] {
            let mut traffic = Traffic::default();
            traffic.follow(protocol, bytes);
            assert!(!traffic.is_at_end(), "{bytes:?}");
        }
    }
}
