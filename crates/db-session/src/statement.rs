//! SQL that a reset can say again, and SQL that leaves nothing behind in its session.
//!
//! This reads a few statements that drivers and frameworks send when they connect. All others are refused, so it need not understand
//! them: no comment, no backslash, no dollar quote and no call of a function but a few gets through.

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// So many statements that set something in the session.
    Sets(u16),
    /// It asks for something, and leaves nothing.
    Asks,
    /// It prepares nothing and ends a prepared statement (PostgreSQL).
    Deallocates,
    /// Anything else.
    Other,
}

/// Words that make of SET something that outlives the session, that a transaction ends, or that is no setting.
const NOT_IN_SET: [&str; 7] = ["GLOBAL", "PERSIST", "PERSIST_ONLY", "PASSWORD", "STATEMENT", "LOCAL", "SELECT"];
/// Words that make of a question something else.
const NOT_IN_QUESTION: [&str; 6] = ["INTO", "FROM", "FOR", "LOCK", "PROCEDURE", "CALL"];
/// Functions that may be asked for.
const QUESTIONS: [&str; 6] =
    ["VERSION", "DATABASE", "CURRENT_SCHEMA", "CURRENT_DATABASE", "CURRENT_USER", "CONNECTION_ID"];

/// A statement as it is read: its first word, and what it may not have.
#[derive(Clone, Copy, Default)]
struct Reading {
    first: First,
    is_bad: bool,
    is_bad_set: bool,
    is_bad_question: bool,
    calls: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum First {
    #[default]
    None,
    Set,
    Use,
    Question,
    Deallocate,
    Other,
}

impl Reading {
    fn word(&mut self, word: &[u8], is_called: bool) {
        let is = |one: &&str| word.eq_ignore_ascii_case(one.as_bytes());
        if self.first == First::None {
            self.first = match () {
                () if is(&"SET") => First::Set,
                () if is(&"USE") => First::Use,
                () if is(&"SELECT") || is(&"SHOW") => First::Question,
                () if is(&"DEALLOCATE") => First::Deallocate,
                () => First::Other,
            };
            self.is_bad |= is_called;
            return;
        }
        self.is_bad_set |= NOT_IN_SET.iter().any(is);
        self.is_bad_question |= NOT_IN_QUESTION.iter().any(is);
        self.calls |= is_called && !QUESTIONS.iter().any(is);
    }

    fn kind(self) -> Kind {
        let is_bad = self.is_bad || self.calls;
        match self.first {
            First::Set if !is_bad && !self.is_bad_set => Kind::Sets(1),
            First::Use if !is_bad => Kind::Sets(1),
            First::Question if !is_bad && !self.is_bad_question => Kind::Asks,
            First::Deallocate if !is_bad => Kind::Deallocates,
            _ => Kind::Other,
        }
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Kinds of statements in one text: all of them set, or all of them ask.
fn both(so_far: Option<Kind>, next: Kind) -> Kind {
    match (so_far, next) {
        (None, next) => next,
        (Some(Kind::Sets(count)), Kind::Sets(more)) => Kind::Sets(count.saturating_add(more)),
        _ => Kind::Other,
    }
}

/// What a text of SQL is.
pub fn kind(text: &[u8]) -> Kind {
    let mut reading = Reading::default();
    let mut all = None;
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'\'' | b'"' | b'`' => {
                let Some(end) = rest.iter().position(|other| other == byte) else { return Kind::Other };
                let quoted = rest.get(..end).unwrap_or_default();
                reading.is_bad |= quoted.contains(&b'\\') || reading.first == First::None;
                rest = rest.get(end + 1..).unwrap_or_default();
                // A quoted name that is called.
                reading.calls |= rest.trim_ascii_start().first() == Some(&b'(');
            }
            b';' => {
                if reading.first != First::None {
                    all = Some(both(all, reading.kind()));
                }
                reading = Reading::default();
            }
            // Comments may be code (MySQL), and other quotes are those of PostgreSQL.
            b'#' | b'\\' | b'$' | b'{' | b'}' | 0 => return Kind::Other,
            b'-' if rest.first() == Some(&b'-') => return Kind::Other,
            b'/' if rest.first() == Some(&b'*') => return Kind::Other,
            // An assignment in a question; one in SET is a setting.
            b':' => reading.is_bad_question = true,
            byte if is_of_word(*byte) => {
                let size = 1 + rest.iter().take_while(|byte| is_of_word(**byte)).count();
                let from = text.len() - rest.len() - 1;
                let word = text.get(from..from + size).unwrap_or_default();
                rest = rest.get(size - 1..).unwrap_or_default();
                reading.word(word, rest.trim_ascii_start().first() == Some(&b'('));
            }
            // A list or a subquery in parentheses, which no setting needs.
            b'(' if reading.first != First::Question => reading.is_bad = true,
            _ => {}
        }
    }
    match (reading.first, all) {
        (First::None, Some(all)) => all,
        (First::None, None) => Kind::Other,
        (_, all) => both(all, reading.kind()),
    }
}

/// Whether a text is `SET NAMES`, with or without a collation, and nothing else: it sets all that another one, or a login, has set of
/// character sets (MariaDB, MySQL).
pub fn is_names(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_name = |word: &[u8]| {
        let bare = match word {
            [open @ (b'\'' | b'"'), bare @ .., close] if open == close => bare,
            bare => bare,
        };
        !bare.is_empty() && bare.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let mut is = |expected: &str| words.next().is_some_and(|word| word.eq_ignore_ascii_case(expected.as_bytes()));
    if !is("SET") || !is("NAMES") || !words.next().is_some_and(is_name) {
        return false;
    }
    match words.next() {
        None => true,
        Some(word) => {
            word.eq_ignore_ascii_case(b"COLLATE") && words.next().is_some_and(is_name) && words.next().is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frameworks_say_is_known() {
        for (text, expected) in [
            ("SET NAMES utf8mb4", Kind::Sets(1)),
            ("set names 'utf8mb4' collate 'utf8mb4_unicode_ci'", Kind::Sets(1)),
            ("set session sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES'", Kind::Sets(1)),
            ("SET time_zone = '+00:00';", Kind::Sets(1)),
            ("set names 'utf8'; set time_zone='+02:00'", Kind::Sets(2)),
            ("use `shop`;", Kind::Sets(1)),
            ("set search_path to \"public\", 'other'", Kind::Sets(1)),
            ("SET @tenant := 5", Kind::Sets(1)),
            ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", Kind::Sets(1)),
            ("SELECT @@SESSION.sql_mode", Kind::Asks),
            ("SELECT VERSION()", Kind::Asks),
            ("select version ( )", Kind::Asks),
            ("SHOW server_version", Kind::Asks),
            ("DEALLOCATE pdo_stmt_00000001", Kind::Deallocates),
        ] {
            assert_eq!(kind(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn names_are_told_from_more_than_names() {
        for text in ["SET NAMES utf8mb4", " set\tnames 'utf8'\n", "set names \"a_b\" collate 'c'", "SET NAMES DEFAULT"]
        {
            assert!(is_names(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "SET NAMES",
            "SET NAMES utf8,@a=1",
            "SET NAMES utf8 , @a=1",
            "SET NAMES 'utf8' COLLATE",
            "SET NAMES 'utf8' COLLATE 'a', @a=1",
            "SET NAMES 'utf8' COLLATE 'a' x",
            "SET NAMES ''",
            "SET NAMES 'a\"",
            "SET NAMES utf8; SET a=1",
            "SET CHARACTER SET utf8",
            "SET time_zone='+00:00'",
        ] {
            assert!(!is_names(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn all_else_is_refused() {
        for text in [
            "",
            ";",
            "BEGIN",
            "SET GLOBAL sql_mode=''",
            "SET @@global.sql_mode=''",
            "SET PASSWORD = 'x'",
            "SET LOCAL search_path = a",
            "SET @x = (SELECT GET_LOCK('a', 1))",
            "SET @x = GET_LOCK('a', 1)",
            "SET @x = `GET_LOCK` ('a', 1)",
            "SET STATEMENT max_statement_time=1 FOR SELECT 1",
            "SELECT GET_LOCK('a', 1)",
            "SELECT @a := 1",
            "SELECT 1 INTO @a",
            "SELECT * FROM t FOR UPDATE",
            "SELECT `GET_LOCK`('a', 1)",
            "SELECT version(), nextval('s')",
            "SET NAMES utf8; DROP TABLE t",
            "SET NAMES utf8; SELECT 1",
            "SET a = 'x\\'; DROP TABLE t; -- '",
            "SET a = 1 /*!; DROP TABLE t */",
            "SET a = 1 -- b",
            "SET a = $$x$$",
            "SET a = 'open",
            "'SET' a",
            "CREATE TEMPORARY TABLE t (a INT)",
            "PREPARE a FROM 'SELECT 1'",
            "LISTEN a",
            "RESET ALL",
        ] {
            assert_eq!(kind(text.as_bytes()), Kind::Other, "{text}");
        }
    }
}
