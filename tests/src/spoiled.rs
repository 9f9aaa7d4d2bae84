//! What requests can change, as rows of PHP code: they become cases of a script that is asked by `?do=name`.

/// Something a request can change: what the boot sets, what a request sees of it, how it spoils it.
pub struct Row {
    pub name: &'static str,
    pub boot: &'static str,
    pub seen: &'static str,
    pub spoil: &'static str,
    pub expected: &'static str,
}

pub const fn row(
    name: &'static str,
    boot: &'static str,
    seen: &'static str,
    spoil: &'static str,
    expected: &'static str,
) -> Row {
    Row { name, boot, seen, spoil, expected }
}

/// What runs once, of all rows.
pub fn boot(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", row.boot)).collect()
}

/// What runs once a request, a case a row.
pub fn cases(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("case '{}': {}\n{}\nbreak;\n", row.name, row.seen, row.spoil)).collect()
}
