//! Curves, as SVG.

use std::fmt::Write;

use super::markup::{colour, escape, number};
use super::{Axis, Series};

/// Room for the numbers beside and below the chart.
const LEFT: f64 = 52.0;
const BELOW: f64 = 40.0;
const ABOVE: f64 = 10.0;
const RIGHT: f64 = 26.0;

/// One axis: maps values to positions from 0 to 1.
struct Scale {
    low: f64,
    high: f64,
    bends: Bends,
}

#[derive(Clone, Copy, PartialEq)]
enum Bends {
    No,
    Log,
    /// By the logarithm of the difference to one.
    Nines,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let bends = match (axis.percentiles, axis.log) {
            (true, _) => Bends::Nines,
            (_, true) => Bends::Log,
            _ => Bends::No,
        };
        let fits = |value: &f64| {
            value.is_finite()
                && (bends != Bends::Log || *value > 0.0)
                && (bends != Bends::Nines || (0.0..1.0).contains(value))
        };
        let (mut low, mut high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
        if low > high {
            (low, high) = if bends == Bends::Nines { (0.0, 0.9) } else { (1.0, 10.0) };
        }
        match bends {
            Bends::No => (low, high) = (low.min(0.0), if high > low.min(0.0) { high * 1.05 } else { low + 1.0 }),
            Bends::Log => (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf((high * 1.0001).log10().ceil())),
            Bends::Nines => (low, high) = (0.0, high.max(0.9)),
        }
        Scale { low, high, bends }
    }

    fn bend(&self, value: f64) -> f64 {
        match self.bends {
            Bends::No => value,
            Bends::Log => value.max(self.low).log10(),
            Bends::Nines => -(1.0 - value.min(self.high)).log10(),
        }
    }

    fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.bend(self.low), self.bend(self.high));
        ((self.bend(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn marks(&self) -> Vec<(f64, String)> {
        match self.bends {
            Bends::Nines => {
                let marks = [
                    (0.0, "0 %"),
                    (0.5, "50 %"),
                    (0.9, "90 %"),
                    (0.99, "99 %"),
                    (0.999, "99.9 %"),
                    (0.9999, "99.99 %"),
                ];
                marks
                    .into_iter()
                    .filter(|(at, _)| *at <= self.high + 1e-9)
                    .map(|(at, text)| (at, text.to_owned()))
                    .collect()
            }
            Bends::Log => {
                let (from, to) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                (from..=to).map(|power| 10f64.powi(power)).map(|at| (at, plain(at))).collect()
            }
            Bends::No => {
                let step = nice((self.high - self.low) / 5.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step).floor() as i64;
                (first..=last).map(|count| count as f64 * step).map(|at| (at, plain(at))).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten.
fn nice(about: f64) -> f64 {
    let power = 10f64.powf(about.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= about);
    factor.unwrap_or(10.0) * power
}

/// A number without trailing zeros.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", value / 1e6),
        size if size >= 1e4 => format!("{}k", value / 1e3),
        size if size >= 1.0 && value.fract() == 0.0 => format!("{value}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => number(value).trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// The curves as a chart of that size.
pub(super) fn lines(x: &Axis, y: &Axis, series: &[Series], width: f64, height: f64) -> String {
    let points = || series.iter().flat_map(|one| &one.points);
    let across = Scale::new(x, points().map(|point| point.0));
    let up = Scale::new(y, points().map(|point| point.1));
    let (right, bottom) = (width - RIGHT, height - BELOW);
    let to_x = |value: f64| LEFT + across.place(value) * (right - LEFT);
    let to_y = |value: f64| bottom - up.place(value) * (bottom - ABOVE);
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{} by {}\">",
        escape(&y.label),
        escape(&x.label)
    );
    for (at, text) in up.marks() {
        let place = to_y(at);
        let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>");
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 6.0, place + 4.0);
    }
    // On a phone the first two labels would overlap.
    let marks = across.marks().into_iter().skip(usize::from(width < 500.0 && across.bends == Bends::Nines));
    for (at, text) in marks {
        let place = to_x(at);
        let _ =
            write!(out, "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{ABOVE}\" y2=\"{bottom}\"/>");
        let _ = write!(out, "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", bottom + 15.0);
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        height - 6.0,
        escape(&x.label)
    );
    let _ = write!(
        out,
        "<text x=\"12\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {0:.1})\">{}</text>",
        (ABOVE + bottom) / 2.0,
        escape(&y.label)
    );
    let names: Vec<String> = series.iter().map(|one| one.label.clone()).collect();
    for one in series {
        let path: Vec<String> = one
            .points
            .iter()
            .filter(|point| point.0.is_finite() && point.1.is_finite())
            .map(|point| format!("{:.1},{:.1}", to_x(point.0), to_y(point.1)))
            .collect();
        let colour = colour(&names, &one.label);
        let _ = write!(
            out,
            "<polyline class=\"curve\" style=\"stroke:{colour}\" points=\"{}\"><title>{}</title></polyline>",
            path.join(" "),
            escape(&one.label)
        );
        if path.len() <= 24 {
            for place in &path {
                let (a, b) = place.split_once(',').unwrap_or_default();
                let _ = write!(out, "<circle cx=\"{a}\" cy=\"{b}\" r=\"3\" style=\"fill:{colour}\"/>");
            }
        }
    }
    out.push_str("</svg>");
    out
}
