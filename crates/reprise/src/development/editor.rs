//! The page that PHP's errors get under `reprise dev`, with its links to an editor.

use crate::exit::{Code, Failure};

/// The page, as PHP code: an expression that is a function (`csrc/error_page.c`).
const PAGE: &str = include_str!("error_page.php");

/// Editors by name, and the URLs by which they open a file (%f) at a line (%l).
const EDITORS: [(&str, &str); 9] = [
    ("vscode", "vscode://file/%f:%l"),
    ("vscodium", "vscodium://file/%f:%l"),
    ("phpstorm", "phpstorm://open?file=%f&line=%l"),
    ("idea", "idea://open?file=%f&line=%l"),
    ("sublime", "subl://open?url=file://%f&line=%l"),
    ("vim", "mvim://open?url=file://%f&line=%l"),
    ("emacs", "emacs://open?url=file://%f&line=%l"),
    ("zed", "zed://file/%f:%l"),
    ("none", ""),
];

/// The editor that the environment names.
pub fn of_environment() -> Option<String> {
    std::env::var("REPRISE_EDITOR").ok()
}

/// The page for an editor that is named, or given by its URL.
pub fn error_page(editor: &str) -> Result<String, Failure> {
    let editor = if editor.is_empty() { EDITORS[0].0 } else { editor };
    let known = EDITORS.iter().find(|(name, _)| *name == editor).map(|(_, url)| *url);
    let url = match known {
        Some(url) => url,
        None if is_url(editor) => editor,
        None => {
            let names = EDITORS.map(|(name, _)| name).join(", ");
            return Err(Failure::new(Code::Usage, "--editor", format!("'{editor}' is no editor that is known"))
                .hint(format!("{names}, or a URL such as vscode://file/%f:%l")));
        }
    };
    let quoted = url.replace('\\', "\\\\").replace('\'', "\\'");
    let (_, page) = PAGE.split_once("\nreturn ").unwrap_or_default();
    let page = page.trim_end().trim_end_matches(';');
    Ok(page.replace("'EDITOR_URL'", &format!("'{quoted}'")))
}

/// Whether this is a URL with a place for the file, of a scheme that runs nothing in the page itself.
fn is_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    let is_scheme =
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let runs = ["javascript", "data", "vbscript"].iter().any(|bad| scheme.eq_ignore_ascii_case(bad));
    is_scheme && !runs && text.contains("%f") && !text.chars().any(|one| one.is_control() || one.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_are_known_by_name_or_url() {
        for (name, url) in EDITORS {
            assert!(error_page(name).unwrap().contains(&format!("'{url}'")), "{name}");
        }
        assert!(error_page("x-my+editor://%f?l=%l'").unwrap().contains("'x-my+editor://%f?l=%l\\''"));
        for bad in ["word", "javascript:alert('%f')", "http://nothing", "a b://%f", "://%f", "x://%f\n"] {
            assert!(error_page(bad).is_err(), "{bad}");
        }
    }
}
