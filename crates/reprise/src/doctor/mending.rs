//! What `--fix` changes: lines of Reprise's own configuration file, and nothing else.

use std::path::Path;

use serde::Serialize;

use crate::config;
use crate::exit::{Code, Failure};
use crate::flags::What;

/// A change of the configuration file, within the table of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mending {
    /// Which application, by its place in the file.
    #[serde(skip)]
    pub application: usize,
    /// The option, such as `preset` or `ini."opcache.memory_consumption"`.
    pub option: String,
    /// Its new value, as TOML.
    pub value: String,
}

/// Makes the changes in the file, if the file that they make is a valid configuration. The lines that were written.
pub fn mend(file: &Path, mendings: &[Mending]) -> Result<Vec<String>, Failure> {
    let failed = |why: String| Failure::new(Code::Configuration, format!("--fix {}", file.display()), why);
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut written = Vec::new();
    for mending in mendings {
        let line = format!("{} = {}", mending.option, mending.value);
        put(&mut lines, mending, &line).map_err(&failed)?;
        written.push(line);
    }
    let text = lines.join("\n") + "\n";
    // Written beside the file and checked there, because relative paths are relative to it.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    let put = |error: std::io::Error| failed(error.to_string());
    std::fs::write(&beside, &text).map_err(put)?;
    let rights = std::fs::metadata(file).map(|metadata| metadata.permissions()).map_err(put)?;
    std::fs::set_permissions(&beside, rights).map_err(put)?;
    let checked = config::load(&What { config: Some(beside.clone()), ..What::default() });
    if let Err(failure) = checked {
        let _ = std::fs::remove_file(&beside);
        return Err(failed(format!("the changed file would be wrong, so it was left as it was: {failure}")));
    }
    std::fs::rename(&beside, file).map_err(put)?;
    Ok(written)
}

/// Puts a line into the table of its application: in the place of the line that has the option, else below the table's head.
fn put(lines: &mut Vec<String>, mending: &Mending, line: &str) -> Result<(), String> {
    let head = |line: &String| line.split('#').next().is_some_and(|text| text.trim() == "[[application]]");
    let starts: Vec<usize> = (0..lines.len()).filter(|at| head(&lines[*at])).collect();
    let start = *starts.get(mending.application).ok_or("it has no table [[application]] for the application")?;
    let is_table = |line: &String| line.trim_start().starts_with('[');
    let end = (start + 1..lines.len()).find(|at| is_table(&lines[*at])).unwrap_or(lines.len());
    let has = |line: &String| line.split_once('=').is_some_and(|(name, _)| name.trim() == mending.option);
    match (start + 1..end).find(|at| has(&lines[*at])) {
        Some(at) => line.clone_into(&mut lines[at]),
        None => {
            if let Some((table, key)) = mending.option.split_once('.') {
                // A table of its own, [application.ini], takes its keys there.
                let name = format!("[application.{table}]");
                let until = starts.iter().copied().find(|next| *next > start).unwrap_or(lines.len());
                if let Some(at) = (start..until).find(|at| lines[*at].trim() == name) {
                    let value = format!("{key} = {}", mending.value);
                    let known = |line: &String| {
                        line.split_once('=')
                            .is_some_and(|(name, _)| name.trim().trim_matches('"') == key.trim_matches('"'))
                    };
                    let end = (at + 1..until).find(|next| is_table(&lines[*next])).unwrap_or(until);
                    match (at + 1..end).find(|next| known(&lines[*next])) {
                        Some(next) => lines[next] = value,
                        None => lines.insert(at + 1, value),
                    }
                    return Ok(());
                }
            }
            lines.insert(start + 1, line.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, option: &str, value: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mending = Mending { application: 1, option: option.to_owned(), value: value.to_owned() };
        put(&mut lines, &mending, &format!("{option} = {value}")).unwrap();
        lines.join("\n")
    }

    #[test]
    fn a_line_goes_into_the_table_of_its_application() {
        let text = "[[application]]\nroot = \"a\"\n[[application]] # second\nroot = \"b\"\npreset = \"\"\n[[application.route]]\non = \"/x\"";
        let made = after(text, "preset", "\"laravel\"");
        assert!(made.contains("root = \"b\"\npreset = \"laravel\"\n[[application.route]]"), "{made}");
        let made = after(text, "default_denials", "true");
        assert!(made.contains("[[application]] # second\ndefault_denials = true\nroot"), "{made}");
    }

    #[test]
    fn settings_of_php_go_into_their_table() {
        let text = "[[application]]\nroot = \"a\"\n[[application]]\nroot = \"b\"\n[application.ini]\n\"a.b\" = \"1\"";
        let made = after(text, "ini.\"a.b\"", "\"2\"");
        assert!(made.ends_with("[application.ini]\n\"a.b\" = \"2\""), "{made}");
        let made = after(text, "ini.\"a.c\"", "\"3\"");
        assert!(made.contains("[application.ini]\n\"a.c\" = \"3\"\n\"a.b\""), "{made}");
    }

    #[test]
    fn a_file_without_the_table_is_left_alone() {
        let mending = Mending { application: 0, option: "preset".to_owned(), value: "\"\"".to_owned() };
        assert!(put(&mut vec!["listen = []".to_owned()], &mending, "x").is_err());
    }
}
