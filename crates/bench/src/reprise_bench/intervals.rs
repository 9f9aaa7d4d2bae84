//! The hidden subcommand that computes statistics for the programs of `bench/`.

use std::io::Read;

use bench::stats::{self, Interval};
use serde::Serialize;

use crate::failure::{Code, Failure};

#[derive(Serialize)]
struct Found {
    resamples: usize,
    seed: u64,
    intervals: Vec<Interval>,
}

/// Reads a JSON array of samples, prints the median of each with its interval, and how the intervals were made.
pub fn run() -> Result<(), Failure> {
    let mut text = String::new();
    let samples: Vec<Vec<f64>> = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|why| {
            Failure::new(Code::Usage, "median-intervals", why).hint("write [[NUMBER, …], …] to its input")
        })?;
    if let Some(number) = samples.iter().position(Vec::is_empty) {
        let why = format!("sample {number} has no values");
        return Err(Failure::new(Code::Usage, "median-intervals", why));
    }
    let intervals = samples.iter().map(|values| stats::median_interval(values)).collect();
    let found = Found { resamples: stats::RESAMPLES, seed: stats::SEED, intervals };
    let text =
        serde_json::to_string(&found).map_err(|error| Failure::new(Code::Internal, "median-intervals", error))?;
    println!("{text}");
    Ok(())
}
