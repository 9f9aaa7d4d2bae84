//! A page with a flame graph. It is one file, and asks for nothing from elsewhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::looks::{Looks, Time};

const PAGE: &str = include_str!("flame.html");
/// Of less than this share of all time nobody sees a rectangle: one in so many.
const SMALLEST: u64 = 20_000;

#[derive(Default)]
struct Node {
    own: Time,
    all: Time,
    called: BTreeMap<usize, Node>,
}

impl Node {
    fn add(&mut self, stack: &[usize], time: Time) {
        self.all.add(time);
        match stack.split_first() {
            Some((first, rest)) => self.called.entry(*first).or_default().add(rest, time),
            None => self.own.add(time),
        }
    }

    /// `[function, busy, waiting, [called…]]`; times are those in all that it calls.
    fn json(&self, function: Option<usize>, least: u64) -> Value {
        let called: Vec<Value> = self
            .called
            .iter()
            .filter(|(_, node)| node.all.all() >= least)
            .map(|(number, node)| node.json(Some(*number), least))
            .collect();
        json!([function, self.all.busy, self.all.waiting, called])
    }
}

/// The page.
pub fn page(looks: &Looks, title: &str) -> String {
    let mut root = Node::default();
    for (stack, time) in &looks.stacks {
        root.add(stack, *time);
    }
    let functions: Vec<Value> = looks.functions.iter().map(|function| json!([function.name, function.file])).collect();
    let data = json!({
        "title": title, "seconds": looks.seconds, "samples": looks.samples, "functions": functions,
        "root": root.json(None, root.all.all() / SMALLEST),
    });
    // Names are the application's: nothing in them ends the script.
    let data = data.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    PAGE.replace("/*DATA*/null", &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_no_script() {
        let mut looks = Looks::new("", false);
        looks.take("0 7 R 1000 GET /\n</script><b>() /srv/a.php:12\n{main} /srv/index.php:3\n");
        looks.end();
        let page = page(&looks, "</title><i>");
        assert!(!page.contains("</script><b>") && !page.contains("</title><i>"), "{page}");
        assert!(page.contains(r#"[null,1000,0,[[0,1000,0,[[1,1000,0,[]]]]]]"#), "{page}");
        assert!(
            !page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org").count()
        );
    }

    #[test]
    fn what_nobody_sees_is_left_out() {
        let mut looks = Looks::new("", false);
        looks.take("0 7 R 1000000 GET /\nbig() /a:1\n");
        looks.take("0 7 R 1 GET /\nsmall() /a:1\n");
        looks.end();
        assert!(page(&looks, "x").contains(r#""root":[null,1000001,0,[[0,1000000,0,[]]]]"#));
    }
}
