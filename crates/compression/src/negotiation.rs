//! Which coding a client wants (RFC 9110 §12.5.3).

use http::header::{self, HeaderMap};

use super::{Coding, Codings};

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The coding that it likes best; `None`: none.
    pub coding: Option<Coding>,
    /// Whether it takes nothing that has no coding.
    pub refuses_identity: bool,
}

/// What a client wants of these codings. Among those that it likes equally the first counts.
pub fn wanted(headers: &HeaderMap, codings: Codings) -> Wanted {
    let nothing = Wanted { coding: None, refuses_identity: false };
    // Without the header a client takes everything, but such a client seldom knows of codings.
    if !headers.contains_key(header::ACCEPT_ENCODING) {
        return nothing;
    }
    let Some(members) = cache::list::members(headers, header::ACCEPT_ENCODING) else { return nothing };
    let weight = |wanted: &str| {
        members.iter().find_map(|member| {
            let (coding, parameters) = member.split_once(';').unwrap_or((member, ""));
            let coding = coding.trim();
            let is_it =
                coding.eq_ignore_ascii_case(wanted) || wanted == "gzip" && coding.eq_ignore_ascii_case("x-gzip");
            is_it.then(|| weight(parameters))
        })
    };
    let others = weight("*");
    let identity = weight("identity");
    let refuses_identity = identity.or(others) == Some(0);
    let mut best: Option<(Coding, u16)> = None;
    for coding in codings.iter() {
        let weight = weight(coding.word()).or(others).unwrap_or(0);
        if weight > best.map_or(0, |(_, best)| best) {
            best = Some((coding, weight));
        }
    }
    // Who names identity with more weight wants it.
    let coding = best.filter(|(_, weight)| *weight >= identity.unwrap_or(0)).map(|(coding, _)| coding);
    Wanted { coding, refuses_identity }
}

/// The weight in thousandths. What is malformed counts as a refusal.
fn weight(parameters: &str) -> u16 {
    let parameters = parameters.trim();
    if parameters.is_empty() {
        return 1000;
    }
    let Some(text) = parameters.strip_prefix("q=").or_else(|| parameters.strip_prefix("Q=")) else { return 0 };
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    let thousandths = format!("{digits:0<3}").parse().unwrap_or(0);
    match whole {
        "1" if thousandths == 0 => 1000,
        "0" => thousandths,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_a_client_likes_best_is_chosen() {
        use Coding::{Br, Gzip, Zstd};
        for (text, coding, refuses_identity) in [
            ("", None, false),
            ("gzip, deflate, br, zstd", Some(Zstd), false),
            ("gzip, deflate, br", Some(Br), false),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip), false),
            ("GZIP", Some(Gzip), false),
            ("x-gzip", Some(Gzip), false),
            ("gzip ; q=0.5 , br ; q=0.500", Some(Br), false),
            ("*", Some(Zstd), false),
            ("*;q=0.5, zstd;q=0", Some(Br), false),
            ("gzip;q=0, *", Some(Zstd), false),
            ("gzip;q=0", None, false),
            ("gzip;q=0.000", None, false),
            ("gzip;q=0.001", Some(Gzip), false),
            ("identity", None, false),
            ("identity, gzip", Some(Gzip), false),
            ("identity;q=1, gzip;q=0.5", None, false),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip), false),
            ("identity;q=0", None, true),
            ("identity;q=0, br;q=0.1", Some(Br), true),
            ("*;q=0", None, true),
            ("gzip, *;q=0", Some(Gzip), true),
            ("identity;q=0.1, *;q=0", None, false),
            ("deflate, compress", None, false),
            ("gzip;q=1.1", None, false),
            ("gzip;q=-1", None, false),
            ("gzip;q=0.1234", None, false),
            ("gzip;q=", None, false),
            ("gzip;level=9", None, false),
            ("gzip;q=0.5;x=1", None, false),
            ("\"gzip", None, false),
            ("gzipped, br2", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(text).unwrap());
            assert_eq!(wanted(&headers, Codings::ALL), Wanted { coding, refuses_identity }, "{text}");
            assert_eq!(wanted(&headers, Codings::NONE).coding, None, "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), Codings::ALL), Wanted { coding: None, refuses_identity: false });
    }

    #[test]
    fn the_order_of_the_configuration_counts_among_equals() {
        let mut codings = Codings::NONE;
        assert!(codings.add(Coding::Gzip) && codings.add(Coding::Zstd) && !codings.add(Coding::Gzip));
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static("br"));
        headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static("zstd, gzip"));
        assert_eq!(wanted(&headers, codings).coding, Some(Coding::Gzip));
    }
}
