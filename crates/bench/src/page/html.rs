//! The page: one file that fetches nothing, for light and dark screens, down to a phone's width.

use std::fmt::Write;

use super::markup::{colour, escape, number};
use super::{Bars, Chart, Page, Stack, Table, chart, is_number};

/// Colours that differ in both schemes, also for people who see no red or no green (after Okabe and Ito).
const STYLE: &str = "
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--dim:#5b6570;--line:#d7dce1;--soft:#f3f5f7;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#8a6d00;--c5:#56b4e9;--c6:#6b4fbb;--c7:#777}
@media(prefers-color-scheme:dark){:root{--back:#14171a;--text:#e6e9ec;--dim:#9aa5b0;--line:#343b42;--soft:#1e2328;
--c0:#4aa8e0;--c1:#ff8a3d;--c2:#2fc79a;--c3:#e39cc3;--c4:#d9b93b;--c5:#8fd0f5;--c6:#a991f0;--c7:#999}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.15rem;margin:2.2rem 0 .5rem}
p{margin:.4rem 0;max-width:48rem}.summary{font-size:1.05rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .7rem .3rem 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:500}.n{text-align:right}
.group{margin:.9rem 0}.label{font-size:.9rem;color:var(--dim)}
.bar{position:relative;height:1.35rem;margin:2px 0;background:var(--soft);border-radius:2px}
.fill{position:absolute;inset:0 auto 0 0;border-radius:2px;min-width:1px}
.mark{position:absolute;top:50%;height:2px;margin-top:-1px;background:var(--text);min-width:2px}
.row{display:grid;grid-template-columns:minmax(4.5rem,22%) 1fr minmax(4rem,auto);gap:.6rem;align-items:center;font-size:.85rem}
.stack{display:flex;height:1.35rem;margin:2px 0;background:var(--soft)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;margin:.4rem 0}
.key i{display:inline-block;width:.75rem;height:.75rem;margin-right:.35rem;border-radius:2px}
svg{display:block;width:100%;height:auto}svg text{fill:var(--dim);font:11px system-ui,sans-serif}
svg .grid{stroke:var(--line)}svg .curve{fill:none;stroke-width:2}
.narrow{display:none}@media(max-width:38rem){.narrow{display:block}.broad{display:none}}
details{margin:2rem 0}summary{cursor:pointer}dl{display:grid;grid-template-columns:auto 1fr;gap:.2rem 1rem;font-size:.9rem}
dt{color:var(--dim)}dd{margin:0}
";

pub(super) fn page(page: &Page) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>{0}</title><style>{STYLE}</style></head>\n<body><h1>{0}</h1>\n",
        escape(&page.title)
    );
    for line in &page.summary {
        let _ = writeln!(out, "<p class=\"summary\">{}</p>", escape(line));
    }
    for section in &page.sections {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&section.title));
        section.text.iter().for_each(|line| out.push_str(&format!("<p>{}</p>\n", escape(line))));
        match &section.chart {
            Some(Chart::Bars { unit, groups }) => bars(&mut out, unit, groups),
            Some(Chart::Stacked { unit, rows }) => stacked(&mut out, unit, rows),
            Some(Chart::Lines { x, y, series }) => {
                let names: Vec<String> = series.iter().map(|one| one.label.clone()).collect();
                key(&mut out, &names);
                for (class, width, height) in [("broad", 720.0, 320.0), ("narrow", 360.0, 300.0)] {
                    let _ = writeln!(out, "<div class=\"{class}\">{}</div>", chart::lines(x, y, series, width, height));
                }
            }
            None => {}
        }
        section.table.iter().for_each(|one| table(&mut out, one));
    }
    if !page.machine.is_empty() {
        out.push_str("<h2>Measured on</h2><dl>\n");
        for (name, value) in &page.machine {
            let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</body></html>\n");
    out
}

fn key(out: &mut String, names: &[String]) {
    out.push_str("<div class=\"key\">");
    for name in names {
        let _ = write!(out, "<span><i style=\"background:{}\"></i>{}</span>", colour(names, name), escape(name));
    }
    out.push_str("</div>\n");
}

fn table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"wide\"><table>\n<tr>");
    let is_right: Vec<bool> = (0..table.columns.len())
        .map(|column| table.rows.iter().all(|row| row[column].is_empty() || is_number(&row[column])))
        .collect();
    let class = |column: usize| if is_right[column] { " class=\"n\"" } else { "" };
    for (column, heading) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escape(heading));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn bars(out: &mut String, unit: &str, groups: &[Bars]) {
    let series = names(groups.iter().flat_map(|group| group.bars.iter().map(|bar| &bar.series)));
    let all = groups.iter().flat_map(|group| &group.bars);
    let most = all.map(|bar| bar.high.unwrap_or(bar.value).max(bar.value)).fold(0.0, f64::max);
    let share = |value: f64| if most > 0.0 { (value / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    for group in groups {
        let _ = writeln!(out, "<div class=\"group\"><div class=\"label\">{}</div>", escape(&group.label));
        for bar in &group.bars {
            let _ = write!(
                out,
                "<div class=\"row\"><span>{}</span><div class=\"bar\"><div class=\"fill\" style=\"width:{:.2}%;background:{}\"></div>",
                escape(&bar.series),
                share(bar.value),
                colour(&series, &bar.series)
            );
            if let (Some(low), Some(high)) = (bar.low, bar.high) {
                let _ = write!(
                    out,
                    "<div class=\"mark\" style=\"left:{:.2}%;width:{:.2}%\" title=\"95 %: {} to {}\"></div>",
                    share(low),
                    share(high) - share(low),
                    number(low),
                    number(high)
                );
            }
            let _ = writeln!(out, "</div><span>{} {}</span></div>", number(bar.value), escape(unit));
        }
        out.push_str("</div>\n");
    }
}

fn stacked(out: &mut String, unit: &str, rows: &[Stack]) {
    let series = names(rows.iter().flat_map(|row| row.parts.iter().map(|part| &part.series)));
    key(out, &series);
    let sum = |row: &Stack| row.parts.iter().map(|part| part.value.max(0.0)).sum::<f64>();
    let most = rows.iter().map(sum).fold(0.0, f64::max);
    for row in rows {
        let _ = write!(out, "<div class=\"row\"><span>{}</span><div class=\"stack\">", escape(&row.label));
        for part in row.parts.iter().filter(|part| part.value > 0.0 && most > 0.0) {
            let _ = write!(
                out,
                "<div style=\"width:{:.2}%;background:{}\" title=\"{}: {} {}\"></div>",
                part.value / most * 100.0,
                colour(&series, &part.series),
                escape(&part.series),
                number(part.value),
                escape(unit)
            );
        }
        let _ = writeln!(out, "</div><span>{} {}</span></div>", number(sum(row)), escape(unit));
    }
}
