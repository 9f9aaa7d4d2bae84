//! Reports: one document of text, tables and charts, as a page that stands alone, as text, as CSV. Scripts write such
//! documents as JSON too; `reprise bench --render FILE --html OUT` makes a page of one.

mod chart;
mod html;
mod markup;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// A report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// What was measured.
    pub title: String,
    /// The result, in a few sentences.
    #[serde(default)]
    pub summary: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
    /// The machine and the settings of the measurement.
    #[serde(default)]
    pub machine: BTreeMap<String, String>,
}

/// A part of a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Paragraphs.
    #[serde(default)]
    pub text: Vec<String>,
    /// Numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    /// A chart of the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
}

/// A table: each row has as many cells as there are columns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Headings.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

/// A chart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Chart {
    /// Values side by side, with intervals.
    Bars {
        /// The axis of all values.
        unit: String,
        /// Groups of bars that are compared.
        groups: Vec<Bars>,
    },
    /// Values that add up.
    Stacked {
        /// The axis of all values.
        unit: String,
        /// One stacked bar each.
        rows: Vec<Stack>,
    },
    /// Curves.
    Lines {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The curves.
        series: Vec<Series>,
    },
}

/// Bars that stand together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    /// Their common label.
    pub label: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Its label.
    pub series: String,
    /// Its value.
    pub value: f64,
    /// Lower end of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// Values that add up to a bar.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Its label.
    pub label: String,
    /// From left to right.
    pub parts: Vec<Part>,
}

/// A part of a stacked bar.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its label.
    pub series: String,
    /// Its value.
    pub value: f64,
}

/// An axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The label, with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Whether the values are shares below one that are shown as percentiles, with more nines to the right.
    #[serde(default)]
    pub percentiles: bool,
}

/// A curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its label.
    pub label: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

impl Page {
    /// From JSON.
    ///
    /// # Errors
    ///
    /// A key that is missing or unknown.
    pub fn parse(text: &str) -> Result<Page, String> {
        let page: Page = serde_json::from_str(text).map_err(|error| format!("no report: {error}"))?;
        for section in &page.sections {
            let Some(table) = &section.table else { continue };
            if let Some(row) = table.rows.iter().position(|row| row.len() != table.columns.len()) {
                return Err(format!(
                    "no report: row {} of '{}' is not as long as its headings",
                    row + 1,
                    section.title
                ));
            }
        }
        Ok(page)
    }

    /// The report as a page in one file.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        self.summary.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        // A section with only a chart is left out on a terminal.
        for section in self.sections.iter().filter(|one| one.table.is_some()) {
            let _ = write!(out, "\n{}\n", section.title);
            section.text.iter().for_each(|line| out.push_str(&format!("{line}\n")));
            section.table.iter().for_each(|table| table.text(&mut out));
        }
        if !self.machine.is_empty() {
            out.push('\n');
            let width = self.machine.keys().map(|key| key.chars().count()).max().unwrap_or(0);
            self.machine.iter().for_each(|(key, value)| out.push_str(&format!("{key:width$}  {value}\n")));
        }
        out
    }

    /// All tables, with the section in the first column.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            let Some(table) = &section.table else { continue };
            for (first, row) in std::iter::once(("section", &table.columns))
                .chain(table.rows.iter().map(|row| (section.title.as_str(), row)))
            {
                let cells = std::iter::once(first).chain(row.iter().map(String::as_str)).map(quoted);
                out.push_str(&cells.collect::<Vec<_>>().join(","));
                out.push_str("\r\n");
            }
        }
        out
    }
}

/// A field by RFC 4180.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Whether a cell is a number, which is aligned to the right.
fn is_number(cell: &str) -> bool {
    let first = cell.trim_start_matches('±').split(' ').next().unwrap_or_default();
    first == "-" || first.trim_end_matches(['%', 'k', 'M']).parse::<f64>().is_ok()
}

impl Table {
    fn text(&self, out: &mut String) {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&self.columns[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_right = |column: usize| self.rows.iter().all(|row| row[column].is_empty() || is_number(&row[column]));
        let rights: Vec<bool> = (0..self.columns.len()).map(is_right).collect();
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let cells = row.iter().enumerate().map(|(column, cell)| match (rights[column], widths[column]) {
                (true, width) => format!("{cell:>width$}"),
                (false, width) => format!("{cell:width$}"),
            });
            out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Page {
        Page::parse(
            r#"{"title": "A <b> & B", "summary": ["One."], "machine": {"kernel": "6"}, "sections": [
            {"title": "Rates", "table": {"columns": ["target", "rate"], "rows": [["a, \"b\"", "12.5"], ["c", "3"]]},
             "chart": {"kind": "bars", "unit": "/s", "groups": [{"label": "closed", "bars": [
                {"series": "a", "value": 12.5, "low": 12, "high": 13}, {"series": "c", "value": 3}]}]}},
            {"title": "CPU", "chart": {"kind": "stacked", "unit": "ms", "rows": [{"label": "a", "parts": [
                {"series": "web", "value": 1}, {"series": "php", "value": 2}]}]}},
            {"title": "Latency", "chart": {"kind": "lines", "x": {"label": "percentile", "percentiles": true},
                "y": {"label": "ms", "log": true}, "series": [{"label": "a", "points": [[0.5, 1], [0.99, 10], [0.999, 5000]]}]}}
            ]}"#,
        )
        .expect("a report")
    }

    #[test]
    fn a_page_stands_alone() {
        let html = example().html();
        assert!(html.contains("A &lt;b&gt; &amp; B") && !html.contains("A <b>"), "{html}");
        assert!(
            !html.contains("http://") && !html.contains("https://") && !html.contains("src="),
            "nothing is fetched"
        );
        assert!(html.contains("<svg") && html.contains("99.9 %") && html.contains("12.5"), "{html}");
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }

    #[test]
    fn text_and_csv() {
        let text = example().text();
        assert!(text.contains("target  rate\na, \"b\"  12.5\nc          3\n"), "{text}");
        assert_eq!(example().csv(), "section,target,rate\r\nRates,\"a, \"\"b\"\"\",12.5\r\nRates,c,3\r\n");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"title": "x", "sections": [{"title": "y", "pie": 1}]}"#,
            r#"{"title": "x", "sections": [{"title": "y", "table": {"columns": ["a"], "rows": [["1", "2"]]}}]}"#,
        ] {
            Page::parse(text).expect_err(text);
        }
        let empty = r#"{"title": "x", "sections": [{"title": "y", "chart": {"kind": "bars", "unit": "s", "groups": []}},
            {"title": "z", "chart": {"kind": "lines", "x": {"label": "a", "log": true}, "y": {"label": "b", "log": true}, "series": [{"label": "q", "points": [[0, 0]]}]}}]}"#;
        assert!(!Page::parse(empty).expect("a report").html().contains("NaN"));
    }
}
