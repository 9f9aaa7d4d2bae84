//! The parts of the documentation that come from tables of the code: whole pages, and tables in pages. `scripts/references`
//! runs the test below with REPRISE_WRITE_REFERENCES, which makes the test write them.

use std::path::PathBuf;

use ipc::layout::{Activity, Recycle};

/// The part of a page that comes from the code.
enum Part {
    /// The whole page.
    Page(String),
    /// The table behind the line `<!-- table: NAME -->`.
    Table(&'static str, String),
}

fn all() -> Vec<(&'static str, Part)> {
    let recycles = Recycle::ALL.map(|why| format!("| `{}` | {} |\n", why.word(), why.text())).concat();
    let states = Activity::ALL.into_iter().filter(|state| *state != Activity::Empty);
    let states: String = states.map(|state| format!("| `{}` | {} |\n", state.word(), state.text())).collect();
    vec![
        ("docs/reference/configuration.md", Part::Page(crate::options::reference())),
        ("docs/reference/exit-codes.md", Part::Page(crate::exit::reference())),
        ("docs/reference/logs.md", Part::Page(front::access::reference())),
        ("docs/reference/status.md", Part::Page(control::reference::page())),
        ("docs/guides/doctor.md", Part::Table("checks", crate::doctor::reference())),
        ("docs/operations/reload.md", Part::Table("restart", crate::options::restart_reference())),
        ("docs/reference/responses.md", Part::Table("refusals", routing::refusal::reference())),
        ("docs/guides/routing.md", Part::Table("denials", routing::rules::denials::reference())),
        (
            "docs/operations/monitoring.md",
            Part::Table("states", format!("| state | the worker |\n|---|---|\n{states}")),
        ),
        ("docs/operations/monitoring.md", Part::Table("http2-limits", inbound::http2_limits::reference())),
        ("docs/reference/recycles.md", Part::Table("recycles", format!("| reason | |\n|---|---|\n{recycles}"))),
    ]
}

/// The page with the part put in.
fn with_part(page: &str, part: &Part) -> String {
    let (name, table) = match part {
        Part::Page(text) => return text.clone(),
        Part::Table(name, table) => (name, table),
    };
    let mark = format!("<!-- table: {name} -->\n");
    let (before, after) = page.split_once(&mark).unwrap_or_else(|| panic!("no line {mark}"));
    let rest = after.find("\n\n").map_or("", |end| &after[end + 1..]);
    format!("{before}{mark}{table}{rest}")
}

#[test]
fn references_in_documents_are_those_of_the_code() {
    let is_written = std::env::var_os("REPRISE_WRITE_REFERENCES").is_some();
    for (name, part) in all() {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect();
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = with_part(&page, &part);
        if is_written {
            std::fs::write(&path, &wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(is_written || page == wanted, "{name} is not as the code has it; run: scripts/references");
    }
}

#[test]
fn a_table_is_put_behind_its_mark() {
    let page = "a\n\n<!-- table: x -->\n| old |\n\nb\n\nc\n";
    let table = Part::Table("x", "| new |\n".to_owned());
    assert_eq!(with_part(page, &table), "a\n\n<!-- table: x -->\n| new |\n\nb\n\nc\n");
    assert_eq!(with_part("<!-- table: x -->\n", &table), "<!-- table: x -->\n| new |\n");
}
