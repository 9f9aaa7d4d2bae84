//! Requests of `reprise verify`: they choose the mode that they run in, and pass by the cache of responses. A header says so, with a token that only
//! the control socket gives out. Without the token, or with another one, a request is answered as if it had no such header; and PHP never sees one.
//!
//! The token holds for as long as this process lives. Until somebody asks for it there is none.

use std::fmt::Write as _;
use std::sync::OnceLock;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;

use crate::head::MODE;
use crate::request::{By, Request};

/// Random bytes of a token.
const BYTES: usize = 32;

/// The token, in hexadecimal digits.
#[derive(Default)]
pub struct Token(OnceLock<String>);

/// The mode that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Classic mode.
    Classic,
    /// That of its script.
    Own,
}

impl Token {
    /// The token, which is made if there is none; `None`: there are no random numbers.
    pub fn text(&self) -> Option<&str> {
        if self.0.get().is_none() {
            let mut bytes = [0; BYTES];
            rand::fill(&mut bytes).ok()?;
            let text = bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            // If two ask at once, both get the first one.
            let _ = self.0.set(text);
        }
        self.0.get().map(String::as_str)
    }

    /// The mode that a request asks for, if it may: it comes from this machine and has the token. A hole of its page may as well.
    pub fn mode(&self, request: &Request) -> Option<Mode> {
        let mut values = request.head.headers.get_all(MODE).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        let value = value.to_str().ok()?;
        let (mode, sent) = value.split_once(' ').unwrap_or((value, ""));
        let mode = match mode {
            "classic" => Mode::Classic,
            "own" => Mode::Own,
            _ => return None,
        };
        if request.is_warm_up() {
            // The supervisor's own, by a socket that no client reaches.
            return Some(mode);
        }
        // How long the comparison takes says nothing of where the two differ.
        let is_right = verify_slices_are_equal(self.0.get()?.as_bytes(), sent.as_bytes()).is_ok();
        (is_right && request.by != By::Fetch && request.comes_from_here()).then_some(mode)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue, Method, Version};

    use super::*;
    use crate::connection::{Connection, Nobody, Peer};
    use crate::request::{Head, RequestBody};

    fn request(values: &[String], by: By) -> Request {
        let mut peer = Peer::ourselves(None);
        peer.is_proxy = false;
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(MODE, HeaderValue::from_str(value).unwrap());
        }
        let head = Head::new(Method::GET, "/".parse().unwrap(), Version::HTTP_11, headers, None);
        let connection = Arc::new(Connection { peer: Arc::new(peer), client: Box::new(Nobody) });
        Request { head, body: RequestBody::None, connection, behind: None, refusal: None, by }
    }

    #[test]
    fn only_the_token_opens() {
        let (token, other) = (Token::default(), Token::default());
        let mode = |value: &str| token.mode(&request(&[value.to_owned()], By::Client));
        // Nobody has asked for it yet.
        assert_eq!([mode("classic"), mode("classic "), mode("own")], [None; 3]);
        let right = token.text().unwrap();
        assert!(right.len() == 2 * BYTES && token.text() == Some(right) && other.text() != Some(right));
        assert_eq!(mode(&format!("classic {right}")), Some(Mode::Classic));
        assert_eq!(mode(&format!("own {right}")), Some(Mode::Own));
        for wrong in [
            "classic".to_owned(),
            "classic ".to_owned(),
            right.to_owned(),
            format!("classic  {right}"),
            format!("classic {right} "),
            format!("classic {}", &right[1..]),
            format!("classic {right}0"),
            format!("classic {}", right.to_uppercase()),
            format!("classic {}", other.text().unwrap()),
            format!("other {right}"),
        ] {
            assert_eq!(mode(&wrong), None, "{wrong}");
        }
        let twice = [format!("own {right}"), format!("classic {right}")];
        assert_eq!(token.mode(&request(&twice, By::Client)), None);
    }

    #[test]
    fn it_opens_on_this_machine_alone_and_not_for_the_cache_itself() {
        let token = Token::default();
        let value = format!("own {}", token.text().unwrap());
        let request = |by| request(std::slice::from_ref(&value), by);
        assert_eq!(token.mode(&request(By::Client)), Some(Mode::Own));
        assert_eq!(token.mode(&request(By::Fragment)), Some(Mode::Own));
        assert_eq!(token.mode(&request(By::Fetch)), None);
        let mut passed_on = request(By::Client);
        passed_on.head.headers.insert("x-forwarded-for", HeaderValue::from_static("127.0.0.1"));
        assert_eq!(token.mode(&passed_on), None);
    }
}
