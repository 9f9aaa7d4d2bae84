//! What was found on a page, for people and as JSON.

use serde_json::json;

use super::Findings;
use super::visitor::Page;

/// Differences and masked places that are printed for a page.
const SHOWN: usize = 6;

/// Everything as JSON.
pub fn json(page: &Page, findings: &Findings) -> serde_json::Value {
    let found = &findings.found;
    let differences: Vec<_> = found
        .differences
        .iter()
        .map(|one| json!({"visitor": one.visitor, "what": one.what, "classic": one.classic, "own": one.own}))
        .collect();
    let masked: Vec<_> = found
        .masks
        .iter()
        .map(|mask| {
            json!({
                "what": mask.what, "place": mask.place, "kind": mask.kind, "values": mask.seen.0, "answers": mask.seen.1,
                "checked": mask.checked, "sure": mask.is_sure,
            })
        })
        .collect();
    json!({
        "page": page.to_string(), "differences": differences, "leaks": found.leaks, "masked": masked,
        "blind": found.is_blind, "classic": findings.is_classic,
    })
}

/// The report for people.
pub fn print(page: &Page, findings: &Findings) {
    let found = &findings.found;
    match findings {
        Findings { is_classic: true, .. } => {
            println!("CLASSIC    {page}: the page ran in classic mode, so it was compared with itself")
        }
        _ if found.is_blind => println!("UNKNOWN    {page}: no two bodies of classic mode are alike"),
        _ if findings.is_fine() => println!("alike      {page}"),
        _ => {}
    }
    for leak in &found.leaks {
        println!("LEAK       {page}: {leak}");
    }
    for difference in found.differences.iter().take(SHOWN) {
        println!("DIFFERENT  {page}: {}, as {}", difference.what, difference.visitor);
        println!("  classic  {}", difference.classic);
        println!("  own mode {}", difference.own);
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
                "  {word}  {}, {}: {values} values in {answers} responses of classic mode; checked instead: {}",
                mask.what, mask.kind, mask.checked
            );
            println!("           {}", mask.place);
        }
        and_more(masks.len());
    }
}
