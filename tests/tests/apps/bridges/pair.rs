//! An application with the Composer package beside the same application without it: two visitors work in both, in turn.

use std::path::Path;

use tests::bridged::HOST;
use tests::compare::Visitor;
use tests::{Response, Server, Setup};

/// A part of a body that is drawn for each visitor, taken out before bodies are compared.
#[derive(Clone, Copy)]
pub struct Drawn {
    /// Where it begins.
    pub before: &'static str,
    /// Where it ends.
    pub after: &'static str,
}

/// Headers of the server and its connection, not of the application; the last counts requests of a process.
const OTHERWISE: [&str; 7] =
    ["connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-served-by-process"];

/// The application in two servers: with its bridge, and as it was, in classic mode.
pub struct Pair {
    /// With the bridge.
    pub bridged: Server,
    plain: Server,
    drawn: Vec<Drawn>,
    /// Answers that were the same.
    pub compared: usize,
}

/// The application as it was.
pub fn plain(root: &Path) -> Setup {
    Setup::root(root).application("front_controller = \"plain.php\"").application("mode.\"plain.php\" = \"classic\"")
}

impl Pair {
    /// Starts both.
    pub fn start(bridged: Setup, plain: Setup, drawn: &[Drawn]) -> Pair {
        // Each page is made for each visitor: what the cache has kept of WordPress' pages would tell nothing of the bridge.
        let [bridged, plain] = [bridged, plain].map(|setup| setup.application("cache_memory = 0").start());
        Pair { bridged, plain, drawn: drawn.to_vec(), compared: 0 }
    }

    /// One identity in both servers.
    pub fn visitor(&self, mark: &'static str) -> [Visitor; 2] {
        self.visitor_of(HOST, mark)
    }

    /// One identity in both servers, at that host.
    pub fn visitor_of(&self, host: &'static str, mark: &'static str) -> [Visitor; 2] {
        [self.bridged.port, self.plain.port].map(|port| Visitor::marked(port, host, mark))
    }

    /// The same visit to both; panics unless status, headers and body are the same, and without the other's mark.
    pub fn same(
        &mut self,
        who: &mut [Visitor; 2],
        other: &str,
        what: &str,
        visit: impl Fn(&mut Visitor) -> Response,
    ) -> Response {
        let (ours, theirs) = (visit(&mut who[0]), visit(&mut who[1]));
        let bodies = [self.normal(&ours.text()), self.normal(&theirs.text())];
        assert_eq!((ours.status, &ours.reason), (theirs.status, &theirs.reason), "{what}: bridged, plain\n{bodies:?}");
        assert_eq!(headers(&ours), headers(&theirs), "{what}: headers, bridged and plain");
        if bodies[0] != bodies[1] {
            let at = bodies[0].bytes().zip(bodies[1].bytes()).take_while(|(a, b)| a == b).count();
            let near = |body: &str| {
                let body = body.as_bytes();
                String::from_utf8_lossy(&body[at.saturating_sub(200)..(at + 300).min(body.len())]).into_owned()
            };
            let [ours, theirs] = [near(&bodies[0]), near(&bodies[1])];
            panic!("{what}: bodies differ at byte {at}\n--- bridged\n{ours}\n--- plain\n{theirs}");
        }
        let whole = format!("{:?}\n{}", ours.headers, ours.text());
        assert!(
            !whole.contains(other),
            "{what}: {other} in an answer for {}\n{whole}",
            who[0].mark.unwrap_or("nobody")
        );
        self.compared += 1;
        ours
    }

    fn normal(&self, body: &str) -> String {
        self.drawn.iter().fold(body.to_owned(), |body, drawn| {
            let mut pieces = body.split(drawn.before);
            let mut whole = pieces.next().unwrap_or("").to_owned();
            for piece in pieces {
                let (part, rest) = piece.split_once(drawn.after).expect("an end");
                assert_ne!(part, "", "{}", drawn.before);
                whole.extend([drawn.before, drawn.after, rest]);
            }
            whole
        })
    }
}

/// The application's headers, sorted. Values of cookies are drawn, and two times are a moment apart.
fn headers(answer: &Response) -> Vec<String> {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !OTHERWISE.contains(&name.as_str()))
        .map(|(name, value)| match name.as_str() {
            "set-cookie" => format!("set-cookie: {}", cookie_but_for_value_and_time(value)),
            // What is long past is no time but a word.
            "expires" if !value.contains(" 1970 ") && !value.contains(" 1981 ") => "expires: a time".to_owned(),
            _ => format!("{name}: {value}"),
        })
        .collect();
    headers.sort();
    headers
}

fn cookie_but_for_value_and_time(cookie: &str) -> String {
    let parts = cookie.split("; ").enumerate().map(|(number, part)| match part.split_once('=') {
        Some((name, value)) if number == 0 && !value.is_empty() => format!("{name}=a value"),
        Some((name, _)) if name.eq_ignore_ascii_case("expires") => format!("{name}=a time"),
        // Counted from a moment too; 0 takes the cookie away.
        Some((name, value)) if name.eq_ignore_ascii_case("max-age") && value != "0" => format!("{name}=a while"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("; ")
}
