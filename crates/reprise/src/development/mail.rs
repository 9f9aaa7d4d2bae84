//! The hidden subcommand `mail`, which PHP runs in the place of sendmail under `reprise dev`: the mail is shown in the terminal.

use std::io::{self, Read, Write};

use crate::exit::{Code, Failure};

/// Bytes of a mail that are shown.
const SHOWN: usize = 64 * 1024;

/// The value of `sendmail_path`, which a shell runs.
pub fn program() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(|error| Failure::new(Code::Internal, "this program's path", error))?;
    Ok(format!("'{}' mail", path.to_string_lossy().replace('\'', "'\\''")))
}

/// Reads a mail, and writes it to the log. All of it is read: PHP takes a broken pipe for a failure.
pub fn run() -> Result<Code, Failure> {
    let failed =
        |error: io::Error| Failure::new(Code::Internal, "mail", error).hint("PHP runs it in the place of sendmail");
    let mut text = Vec::new();
    io::stdin().lock().take(SHOWN as u64).read_to_end(&mut text).map_err(failed)?;
    let rest = io::copy(&mut io::stdin().lock(), &mut io::sink()).map_err(failed)?;
    io::stderr().write_all(shown(&text, rest).as_bytes()).map_err(failed)?;
    Ok(Code::Success)
}

fn shown(text: &[u8], rest: u64) -> String {
    let mut all = String::from("mail, not sent:\n");
    for line in String::from_utf8_lossy(text).trim_end().lines() {
        all.push_str(&format!("  | {line}\n"));
    }
    if rest > 0 {
        all.push_str(&format!("  | … and {rest} bytes more\n"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_mail_is_marked() {
        let mail = b"To: a@b.example\r\nSubject: x\r\n\r\nHello\r\n.\r\n";
        let expected = "mail, not sent:\n  | To: a@b.example\n  | Subject: x\n  | \n  | Hello\n  | .\n";
        assert_eq!(shown(mail, 0), expected);
        assert!(shown(b"x", 3).ends_with("and 3 bytes more\n"));
    }
}
