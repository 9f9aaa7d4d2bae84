//! What was found on a page, for people and as JSON.

use serde_json::json;

use super::beside::Messages;
use crate::comparison::Findings;
use crate::comparison::visitor::Page;

/// Differences and masked places that are printed for a page.
const SHOWN: usize = 6;

/// The names of what is compared.
pub struct Compared {
    /// What is taken for right: "classic mode", or a version of PHP.
    pub base: String,
    /// The other: "own mode", or a version of PHP.
    pub own: String,
}

impl Compared {
    /// A text about classic mode, as one about what is taken for right.
    fn worded(&self, text: &str) -> String {
        text.replace("classic mode", &self.base).replace("the own mode", &self.own)
    }

    /// The name of each member of the JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({ "classic": self.base, "own": self.own })
    }
}

/// Everything as JSON.
pub fn json(page: &Page, findings: &Findings, compared: &Compared) -> serde_json::Value {
    let worded = |text: &str| compared.worded(text);
    let found = &findings.found;
    let differences: Vec<_> = found
        .differences
        .iter()
        .map(|one| json!({"visitor": one.visitor, "what": worded(&one.what), "classic": one.classic, "own": one.own}))
        .collect();
    let masked: Vec<_> = found
        .masks
        .iter()
        .map(|mask| {
            json!({
                "what": mask.what, "place": mask.place, "kind": mask.kind, "values": mask.seen.0, "answers": mask.seen.1,
                "checked": worded(mask.checked), "sure": mask.is_sure,
            })
        })
        .collect();
    let leaks: Vec<_> = found.leaks.iter().map(|leak| worded(leak)).collect();
    json!({
        "page": page.to_string(), "differences": differences, "leaks": leaks, "masked": masked,
        "blind": found.is_blind, "classic": findings.is_classic, "error": findings.error,
    })
}

/// The report for people.
pub fn print(page: &Page, findings: &Findings, compared: &Compared) {
    let worded = |text: &str| compared.worded(text);
    let base = compared.base.trim_end_matches(" mode");
    let width = base.len().max(compared.own.len());
    let found = &findings.found;
    match findings {
        Findings { error: Some(status), .. } => {
            println!(
                "ERROR      {page}: every response is {status}, so pages of an error were compared with each other"
            )
        }
        Findings { is_classic: true, .. } => {
            println!("CLASSIC    {page}: the page ran in classic mode, so it was compared with itself")
        }
        _ if found.is_blind => println!("UNKNOWN    {page}: no two bodies of {} are alike", compared.base),
        _ if findings.is_fine() => println!("alike      {page}"),
        _ => {}
    }
    for leak in &found.leaks {
        println!("LEAK       {page}: {}", worded(leak));
    }
    for difference in found.differences.iter().take(SHOWN) {
        println!("DIFFERENT  {page}: {}, as {}", worded(&difference.what), difference.visitor);
        println!("  {base:width$} {}", difference.classic);
        println!("  {:width$} {}", compared.own, difference.own);
    }
    let and_more = |count: usize| {
        if count > SHOWN {
            println!("           and {} more (--json has them)", count - SHOWN);
        }
    };
    and_more(found.differences.len());
    for is_sure in [false, true] {
        let masks: Vec<_> = found.masks.iter().filter(|mask| mask.is_sure == is_sure).collect();
        for mask in masks.iter().take(SHOWN) {
            let word = if is_sure { "masked " } else { "unsure " };
            let (values, answers) = mask.seen;
            println!(
                "  {word}  {}, {}: {values} values in {answers} responses of {}; checked instead: {}",
                mask.what,
                mask.kind,
                compared.base,
                worded(mask.checked)
            );
            println!("           {}", mask.place);
        }
        and_more(masks.len());
    }
}

/// What the other PHP wrote to its log.
pub fn print_messages(messages: &Messages, compared: &Compared) {
    if messages.is_empty() {
        println!("{} logged nothing", compared.own);
    }
    for (text, count) in messages {
        println!("logged     by {}, {count} times: {text}", compared.own);
    }
}
