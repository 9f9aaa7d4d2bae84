//! The configuration file as a whole: its size, its TOML, its applications.

use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::complete;
use crate::exit::{Code, Failure};
use crate::options::{Application, Config, File, Options, Scope};

/// Bytes of a configuration file.
const MAX_SIZE: u64 = 4 << 20;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Config, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Configuration, path.display().to_string(), error);
    let mut text = String::new();
    let mut source = process::files::open_regular(path).map_err(failed)?.take(MAX_SIZE + 1);
    source.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(failed(std::io::Error::other(format!("it is larger than {MAX_SIZE} bytes"))));
    }
    let file = File { path, base: path.parent().unwrap_or(Path::new("")), text: &text };
    let document =
        DeTable::parse(&text).map_err(|error| file.fail(error.span().map_or(0, |span| span.start), error.message()))?;
    let document = document.get_ref();
    file.check_names(Scope::Server, document)?;
    let mut config = Config::defaults();
    config.read(&file, document)?;
    let Some(applications) = document.get("application") else {
        return Err(file.fail(text.len(), "describes no [[application]]").hint("[[application]]\nroot = \"…\""));
    };
    let DeValue::Array(list) = applications.get_ref() else {
        return Err(file.fail(applications.span().start, "write [[application]], with two brackets"));
    };
    if list.is_empty() {
        let failure = file.fail(applications.span().start, "describes no [[application]]");
        return Err(failure.hint("[[application]]\nroot = \"…\""));
    }
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(file.fail(item.span().start, "write [[application]], with two brackets"));
        };
        config.applications.push(read_application(&file, table, item.span().start)?);
    }
    Ok(config)
}

fn read_application(file: &File<'_>, table: &DeTable<'_>, at: usize) -> Result<Application, Failure> {
    let Some(root) = table.get("root") else {
        return Err(file.fail(at, "this [[application]] has no root").hint("root = \"/srv/site/public\""));
    };
    file.check_names(Scope::Application, table)?;
    let mut application = Application::defaults();
    application.request.read(file, table)?;
    application.read(file, table)?;
    if let DeValue::String(written) = root.get_ref() {
        application.written_root = file.base.join(&**written);
    }
    complete(&mut application, table.contains_key("name"), table.contains_key("front_controller"));
    Ok(application)
}
