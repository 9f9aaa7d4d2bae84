//! The configuration file as a whole, and the files of applications beside it: their sizes, their TOML, their applications.

use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::complete;
use crate::exit::{Code, Failure};
use crate::options::{Acme, Application, Certificate, Config, File, Options, Scope};
use crate::releases::{self, Chosen};

/// Bytes of all files of a configuration together.
const MAX_SIZE: u64 = 4 << 20;
/// Files of applications.
const MAX_FILES: usize = 1024;
const EXAMPLE: &str = "[[application]]\nroot = \"…\"";

/// Reads files, as long as they are not too large together.
struct Reader {
    left: u64,
}

impl Reader {
    fn new() -> Reader {
        Reader { left: MAX_SIZE }
    }

    fn read(&mut self, path: &Path) -> Result<String, Failure> {
        let failed = |error| unreadable(path, error);
        let mut text = String::new();
        let mut source = supervisor::os::files::open_regular(path).map_err(failed)?.take(self.left + 1);
        source.read_to_string(&mut text).map_err(failed)?;
        self.left = self.left.checked_sub(text.len() as u64).ok_or_else(|| {
            failed(std::io::Error::other(format!("the configuration is larger than {MAX_SIZE} bytes")))
        })?;
        Ok(text)
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Code::Configuration, path.display().to_string(), error)
}

/// The table of a file.
fn parse<'a>(file: &File<'a>) -> Result<DeTable<'a>, Failure> {
    let document = DeTable::parse(file.text)
        .map_err(|error| file.fail(error.span().map_or(0, |span| span.start), error.message()))?;
    file.check_names(Scope::Server, document.get_ref())?;
    Ok(document.into_inner())
}

fn file_of<'a>(path: &'a Path, text: &'a str, main: Option<&'a Path>) -> File<'a> {
    File { path, base: path.parent().unwrap_or(Path::new("")), text, main }
}

/// Reads a file and the files of its `conf_d`.
pub(super) fn read(path: &Path, releases: &Chosen) -> Result<Config, Failure> {
    let mut reader = Reader::new();
    let text = reader.read(path)?;
    let file = file_of(path, &text, None);
    let table = parse(&file)?;
    let mut config = Config::defaults();
    config.read(&file, &table)?;
    read_tables(&file, &table, releases, &mut config)?;
    for path in files_of_applications(&file, &table, &config)? {
        let text = reader.read(&path)?;
        let file = file_of(&path, &text, Some(file.path));
        read_tables(&file, &parse(&file)?, releases, &mut config)?;
    }
    if config.applications.is_empty() {
        let beside =
            if config.conf_d.is_empty() { String::new() } else { format!(", nor does a file of {}", config.conf_d) };
        return Err(file.fail(text.len(), format!("describes no [[application]]{beside}")).hint(EXAMPLE));
    }
    Ok(config)
}

/// Reads the options of the server alone.
pub(super) fn read_server(path: &Path) -> Result<Config, Failure> {
    let text = Reader::new().read(path)?;
    let file = file_of(path, &text, None);
    let mut config = Config::defaults();
    config.read(&file, &parse(&file)?)?;
    Ok(config)
}

/// The files of `conf_d`, in the order of their names. Without the option the directory need not be there.
fn files_of_applications(file: &File<'_>, table: &DeTable<'_>, config: &Config) -> Result<Vec<PathBuf>, Failure> {
    if config.conf_d.is_empty() {
        return Ok(Vec::new());
    }
    let directory = file.base.join(&config.conf_d);
    let written = table.get("conf_d");
    let failed = |error: std::io::Error| match written {
        Some(item) => file.fail(item.span().start, format!("conf_d {}: {error}", directory.display())),
        None => unreadable(&directory, error),
    };
    let entries = match directory.read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && written.is_none() => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
            paths.push(directory.join(name));
        }
        if paths.len() > MAX_FILES {
            return Err(failed(std::io::Error::other(format!("more than {MAX_FILES} files"))));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads the applications and certificates of a file, of which there may be none, and the authority.
fn read_tables(file: &File<'_>, table: &DeTable<'_>, releases: &Chosen, to: &mut Config) -> Result<(), Failure> {
    if let Some(item) = table.get("acme") {
        to.acme = read_acme(file, item)?;
    }
    for (table, at) in each(file, table, "application")? {
        let application = read_application(file, table, at, to, releases)?;
        to.applications.push(application);
    }
    for (table, at) in each(file, table, "certificate")? {
        to.certificates.push(read_certificate(file, table, at)?);
    }
    Ok(())
}

/// The tables of a list, each with the byte at which it begins.
fn each<'t, 'i>(file: &File<'_>, table: &'t DeTable<'i>, name: &str) -> Result<Vec<(&'t DeTable<'i>, usize)>, Failure> {
    let Some(list) = table.get(name) else { return Ok(Vec::new()) };
    let one_bracket = |at| file.fail(at, format!("write [[{name}]], with two brackets"));
    let DeValue::Array(items) = list.get_ref() else { return Err(one_bracket(list.span().start)) };
    let item = |item: &'t toml::Spanned<DeValue<'i>>| match item.get_ref() {
        DeValue::Table(table) => Ok((table, item.span().start)),
        _ => Err(one_bracket(item.span().start)),
    };
    items.iter().map(item).collect()
}

fn read_certificate(file: &File<'_>, table: &DeTable<'_>, at: usize) -> Result<Certificate, Failure> {
    file.check_names(Scope::Certificate, table)?;
    let is_auto = matches!(table.get("auto").map(|auto| auto.get_ref()), Some(DeValue::Boolean(true)));
    let files = ["chain", "key"];
    if let Some((name, item)) = files.into_iter().filter(|_| is_auto).find_map(|name| Some((name, table.get(name)?))) {
        let why = format!("this [[certificate]] has auto = true and a {name}");
        return Err(file
            .fail(item.span().start, why)
            .hint("auto orders certificates; chain and key are files of another tool's"));
    }
    if is_auto && !table.contains_key("hosts") {
        let failure = file.fail(at, "this [[certificate]] has auto = true, and no hosts");
        return Err(failure.hint("hosts = [\"shop.example\", \"www.shop.example\"]"));
    }
    if let Some(missing) = files.into_iter().find(|name| !is_auto && !table.contains_key(*name)) {
        let example = "chain = \"/etc/ssl/site.pem\" and key = \"/etc/ssl/private/site.key\"";
        return Err(file.fail(at, format!("this [[certificate]] has no {missing}")).hint(example));
    }
    let mut certificate = Certificate { place: file.place(at), ..Certificate::defaults() };
    certificate.read(file, table)?;
    if let (Some(given), None) = (table.get("client_certificate"), &certificate.client_ca) {
        let why = "client_certificate says nothing without client_ca";
        return Err(file.fail(given.span().start, why).hint("client_ca = \"/etc/ssl/clients.pem\""));
    }
    Ok(certificate)
}

fn read_acme(file: &File<'_>, item: &toml::Spanned<DeValue<'_>>) -> Result<Acme, Failure> {
    let at = item.span().start;
    if file.main.is_some() {
        return Err(file.fail(at, "[acme] belongs to the main file: there is one authority for all"));
    }
    let DeValue::Table(table) = item.get_ref() else { return Err(file.fail(at, "write [acme], with one bracket")) };
    file.check_names(Scope::Acme, table)?;
    let mut acme = Acme::defaults();
    acme.read(file, table)?;
    if acme.eab_key_id.is_some() != acme.eab_key_file.is_some() {
        let failure = file.fail(at, "eab_key_id and eab_key_file belong together");
        return Err(failure.hint("the authority gives out both: an identifier, and a key in base64url"));
    }
    Ok(acme)
}

fn read_application(
    file: &File<'_>,
    table: &DeTable<'_>,
    at: usize,
    config: &Config,
    releases: &Chosen,
) -> Result<Application, Failure> {
    let Some(root) = table.get("root") else {
        return Err(file.fail(at, "this [[application]] has no root").hint("root = \"/srv/site/public\""));
    };
    file.check_names(Scope::Application, table)?;
    let mut application = Application { places: file.places(table, at), ..Application::defaults() };
    application.request.read(file, table)?;
    application.read(file, table)?;
    if let DeValue::String(written) = root.get_ref() {
        application.written_root = file.base.join(&**written);
    }
    if application.release_pool.is_some() {
        releases::resolve(config, &mut application, releases)?;
    }
    let has = |option| table.contains_key(option);
    complete(&mut application, has("front_controller"), has("preset"))?;
    Ok(application)
}
