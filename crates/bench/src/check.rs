//! Before anything is measured: does each target answer, always alike, and all of them alike?

use std::time::Duration;

use crate::load::Class;
use crate::response::{Expected, Response, ResponseReader};
use crate::scenario::{Request, Target};
use std::io::{Read, Write};
use std::net::TcpStream;

/// How often each request is made for the check.
const LOOKS: usize = 3;
/// Redirects that are followed to report where they lead.
const REDIRECTS: usize = 10;
/// One response and its body.
#[derive(Clone, Debug)]
pub struct Seen {
    response: Response,
    body: Vec<u8>,
    location: String,
}

/// What a target's responses are checked against.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The requests with what is expected of each.
    pub classes: Vec<Class>,
    /// The checks in words, for the report.
    pub how: Vec<String>,
    lengths: Vec<usize>,
    hashes: Vec<u64>,
}

/// Makes one request on a connection of its own.
///
/// # Errors
///
/// What is wrong with the response, or that there is none.
pub fn ask(target: &Target, class: &Class, timeout: Duration) -> Result<Seen, String> {
    let wrong = |what: String| format!("{}: {}: {what}", target.label, class.name);
    let mut stream = TcpStream::connect_timeout(&target.address, timeout)
        .map_err(|error| format!("{}: cannot connect to {}: {error}", target.label, target.address))?;
    let limits = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
    limits.and_then(|()| stream.write_all(&class.bytes)).map_err(|error| wrong(error.to_string()))?;
    let (mut reader, mut piece) = (ResponseReader::default(), vec![0; 64 << 10]);
    let response = loop {
        let count = match stream.read(&mut piece) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(wrong(format!("no whole response within {timeout:?}")));
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        let response = if count == 0 {
            Some(
                reader
                    .ended(&Expected::Any)
                    .map_err(wrong)?
                    .ok_or_else(|| wrong("closed without a response".to_owned()))?,
            )
        } else {
            reader.feed(&piece[..count], class.is_head, &Expected::Any).map_err(wrong)?
        };
        if let Some(response) = response {
            break response;
        }
    };
    let (body, location) = reader.seen();
    Ok(Seen { response, body: body.to_vec(), location: location.to_owned() })
}

/// Looks at a target's responses and settles what each is compared with.
///
/// # Errors
///
/// A target whose responses are wrong, or never alike.
pub fn target(target: &Target, requests: &[Request], keep_alive: bool, timeout: Duration) -> Result<Checked, String> {
    let mut checked = Checked { classes: Vec::new(), how: Vec::new(), lengths: Vec::new(), hashes: Vec::new() };
    for request in requests {
        let class = request.class(target, keep_alive, Expected::Any);
        // Requests that hang would delay the check.
        let looks = if request.hangs { 0 } else { LOOKS };
        let seen = (0..looks).map(|_| ask(target, &class, timeout)).collect::<Result<Vec<_>, _>>()?;
        if let Some(other) = seen.iter().find(|one| one.response.status != request.status) {
            return Err(wrong_status(target, request, &class, other, timeout));
        }
        let (expected, how) = expectation(target, request, &class, &seen)?;
        checked.lengths.push(seen.first().map_or(0, |one| one.response.length));
        checked.hashes.push(seen.first().map_or(0, |one| one.response.hash));
        checked.how.push(how);
        checked.classes.push(Class { expected, ..class });
    }
    Ok(checked)
}

fn expectation(target: &Target, request: &Request, class: &Class, seen: &[Seen]) -> Result<(Expected, String), String> {
    let Some(first) = seen.first() else { return Ok((Expected::Any, "status only (hangs)".to_owned())) };
    if let Some(told) = request.told() {
        if let Some(other) = seen.iter().find(|one| !told.holds(&one.body)) {
            let shown: String = String::from_utf8_lossy(&other.body).chars().take(200).collect();
            return Err(format!("{}: {}: the body is not what the scenario says: {shown:?}", target.label, class.name));
        }
        let how = match &told {
            Expected::Hash(_) => "hash, as told",
            Expected::Length(_) => "length, as told",
            _ => "text in it, as told",
        };
        return Ok((told, how.to_owned()));
    }
    if seen.iter().all(|one| one.body == first.body) {
        return Ok((Expected::Hash(first.response.hash), "hash of the first".to_owned()));
    }
    if seen.iter().all(|one| one.response.length == first.response.length) {
        return Ok((Expected::Length(first.response.length), "length of the first".to_owned()));
    }
    let lengths: Vec<String> = seen.iter().map(|one| one.response.length.to_string()).collect();
    Err(format!(
        "{}: {}: no two bodies are alike ({} bytes): say what has to be in them, with --contains TEXT or in a scenario",
        target.label,
        class.name,
        lengths.join(", ")
    ))
}

fn wrong_status(target: &Target, request: &Request, class: &Class, seen: &Seen, timeout: Duration) -> String {
    let what = format!("{}: {} answers {}, not {}", target.label, class.name, seen.response.status, request.status);
    if !(300..400).contains(&seen.response.status) || seen.location.is_empty() {
        let shown: String = String::from_utf8_lossy(&seen.body).chars().take(200).collect();
        return format!("{what}: {shown:?}");
    }
    // Where the redirect leads on this server.
    let (mut trail, mut location) = (vec![target.path.clone()], seen.location.clone());
    for _ in 0..REDIRECTS {
        let same = format!("http://{}", target.host);
        let path = location.strip_prefix(&same).unwrap_or(&location).to_owned();
        if !path.starts_with('/') {
            return format!("{what}, and leads to {location}: measure that");
        }
        if trail.contains(&path) {
            trail.push(path);
            return format!("{what}: it redirects in a circle: {}", trail.join(" -> "));
        }
        trail.push(path.clone());
        let request = Request { path: Some(path), ..request.clone() };
        match ask(target, &request.class(target, false, Expected::Any), timeout) {
            Ok(next) if (300..400).contains(&next.response.status) && !next.location.is_empty() => {
                location = next.location
            }
            _ => return format!("{what}, and leads to {}: measure that", trail.join(" -> ")),
        }
    }
    format!("{what}: it redirects on and on: {}", trail.join(" -> "))
}

/// All targets have to send the same bodies, or there is nothing to compare.
///
/// # Errors
///
/// Two targets whose bodies differ.
pub fn alike(targets: &[Target], checked: &[Checked]) -> Result<(), String> {
    let Some(((first, rest), (target, others))) = checked.split_first().zip(targets.split_first()) else {
        return Ok(());
    };
    for (other, label) in rest.iter().zip(others) {
        for (number, class) in first.classes.iter().enumerate() {
            let (a, b) = (first.lengths[number], other.lengths[number]);
            let is_alike = match (&class.expected, &other.classes[number].expected) {
                (Expected::Hash(_), Expected::Hash(_)) => first.hashes[number] == other.hashes[number],
                // Who names the text takes every page that has it for the same.
                (Expected::Contains(_), Expected::Contains(_)) => true,
                (Expected::Any, Expected::Any) => true,
                _ => a == b,
            };
            if !is_alike {
                return Err(format!(
                    "{}: {} has {a} bytes at {}, {b} at {}, and not the same ones: unlike pages are not compared. If they \
                     differ in a name or a date only, say what has to be in them: --contains TEXT",
                    class.name, class.name, target.label, label.label
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two targets' pages of these lengths are taken for alike.
    fn is_alike(expected: &Expected, lengths: [usize; 2]) -> Result<(), String> {
        let urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
        let targets = urls.map(|url| Target::parse(url).expect("a target")).to_vec();
        let checked = targets.iter().zip(lengths).map(|(target, length)| {
            let class = Request::default().class(target, true, expected.clone());
            Checked { classes: vec![class], how: Vec::new(), lengths: vec![length], hashes: vec![length as u64] }
        });
        alike(&targets, &checked.collect::<Vec<_>>())
    }

    #[test]
    fn pages_that_have_the_text_asked_for_are_alike() {
        assert_eq!(is_alike(&Expected::Contains(b"shop".to_vec()), [1000, 90_000]), Ok(()));
        assert_eq!(is_alike(&Expected::Hash(1), [7, 7]), Ok(()));
        for expected in [Expected::Hash(1), Expected::Length(7)] {
            let why = is_alike(&expected, [1000, 1001]).expect_err("unlike pages");
            assert!(why.contains("--contains TEXT"), "{why}");
        }
    }
}
