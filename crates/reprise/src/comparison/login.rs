//! How a visitor logs in: the page with the form is asked for first, and what is hidden in the form is sent back with the name and the password.

use super::visitor::{How, Page, Response, Visitor};

/// A request that logs a user in.
pub struct LogIn {
    /// The page that shows the form, which is sent to the same path.
    path: String,
    host: String,
    /// Names and values, encoded: `log=anna&pwd=secret`.
    form: String,
}

impl LogIn {
    /// `POST PATH FORM`.
    pub fn parse(text: &str, host: &str) -> Result<LogIn, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["POST", path, form] if path.starts_with('/') && form.contains('=') => {
                Ok(LogIn { path: path.to_owned(), host: host.to_owned(), form: form.to_owned() })
            }
            // There may be a password in the rest.
            _ => Err("a user is 'POST /path name=anna&password=secret'".to_owned()),
        }
    }

    /// Logs a session of a visitor in.
    pub fn of(&self, visitor: &mut Visitor, how: How) -> Result<(), String> {
        let failed = |why: String| format!("POST {}: {why}", self.path);
        let page = Page::of(&self.path, &self.host, &Default::default())?;
        let shown = visitor.ask(&page, how).map_err(failed)?;
        let mut form = self.form.clone();
        for (name, value) in hidden(&shown.body) {
            if !self.form.split('&').any(|field| field.split('=').next() == Some(&encoded(&name))) {
                form.push_str(&format!("&{}={}", encoded(&name), encoded(&value)));
            }
        }
        let answer = visitor.ask(&page.with_form(form), how).map_err(failed)?;
        if answer.status >= 400 || !sets_cookie(&answer) {
            return Err(failed(format!(
                "the answer is {} and sets {} cookie: are name and password those of a user?",
                answer.status,
                if sets_cookie(&answer) { "a" } else { "no" }
            )));
        }
        Ok(())
    }
}

fn sets_cookie(answer: &Response) -> bool {
    answer.headers.iter().any(|(name, _)| name == "set-cookie")
}

/// Names and values of the hidden fields of a page, in their order.
fn hidden(body: &str) -> Vec<(String, String)> {
    let fields = body.split("<input").skip(1).filter_map(|rest| rest.split('>').next());
    let is_hidden = |field: &&str| attribute(field, "type").is_some_and(|kind| kind.eq_ignore_ascii_case("hidden"));
    let field = |field: &str| Some((attribute(field, "name")?, attribute(field, "value").unwrap_or_default()));
    fields.filter(is_hidden).filter_map(field).collect()
}

/// The value of an attribute, without HTML's escapes.
fn attribute(field: &str, name: &str) -> Option<String> {
    let from = field.match_indices(name).find_map(|(at, _)| {
        let is_begin = field[..at].ends_with(char::is_whitespace);
        field[at + name.len()..].trim_start().strip_prefix('=').filter(|_| is_begin)
    })?;
    let from = from.trim_start();
    let value = match from.chars().next()? {
        quote @ ('"' | '\'') => from[1..].split_once(quote)?.0,
        _ => from.split_whitespace().next()?.trim_end_matches('/'),
    };
    let escapes = [("&quot;", "\""), ("&#039;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    Some(escapes.iter().fold(value.to_owned(), |value, (escape, letter)| value.replace(escape, letter)))
}

/// As a form sends it.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => encoded.push(byte.into()),
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_fields_are_found() {
        let page = r#"<form><input name=user><input type="hidden" name="_token" value="a&amp;b &quot;c&quot;">
            <INPUT><input data-name="no" value='x y' type='hidden' name='other'/><input type=hidden name=plain value=1/></form>"#;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(hidden(page), [pair("_token", "a&b \"c\""), pair("other", "x y"), pair("plain", "1")]);
        assert_eq!(hidden("no form <input"), []);
        assert_eq!(hidden("<input type=hidden name=\"open"), []);
    }

    #[test]
    fn values_are_encoded() {
        assert_eq!(encoded("a b&c=ä[1]"), "a+b%26c%3D%C3%A4%5B1%5D");
    }

    #[test]
    fn only_a_request_with_a_form_is_a_login() {
        assert!(LogIn::parse("POST /login name=anna&password=x", "localhost").is_ok());
        for wrong in ["", "GET /login a=b", "POST /login", "POST login a=b", "POST /login ab", "POST /login a=b c=d"] {
            assert!(LogIn::parse(wrong, "localhost").is_err(), "{wrong}");
        }
    }
}
