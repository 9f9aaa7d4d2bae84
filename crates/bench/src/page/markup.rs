//! Formats text, numbers and colours for a page.

/// Number of colours.
const COLOURS: usize = 8;

/// Text with the characters escaped that HTML reserves.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The colour of a series, by its index.
pub(super) fn colour(series: &[String], name: &str) -> String {
    let number = series.iter().position(|one| one == name).unwrap_or(COLOURS - 1);
    format!("var(--c{})", number % COLOURS)
}

/// A number with its significant digits.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size >= 1e6 => format!("{:.2}M", value / 1e6),
        _ if size >= 1e4 => format!("{:.1}k", value / 1e3),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
