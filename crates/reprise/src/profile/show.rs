//! A profile as a table, as JSON and as collapsed stacks.

use serde_json::{Value, json};

use super::Sort;
use super::looks::{Function, Looks, Time};

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn sorted(looks: &Looks, sort: Sort) -> Vec<(&Function, Time, Time)> {
    let mut functions = looks.by_function();
    functions.sort_by_key(|(function, total, own)| {
        let first = if sort == Sort::Own { own.all() } else { total.all() };
        (std::cmp::Reverse((first, total.all())), *function)
    });
    functions
}

/// Routes with their time, and the part of it that lies before the first connection.
fn routes(looks: &Looks) -> Vec<(&str, Time, Option<f64>)> {
    let before = |name: &str| looks.connecting.get(name).and_then(|connecting| connecting.before());
    let mut routes: Vec<_> = looks.routes.iter().map(|(name, time)| (name.as_str(), *time, before(name))).collect();
    routes.sort_by_key(|(name, time, _)| (std::cmp::Reverse(time.all()), *name));
    routes
}

/// As few samples of workers that had a processor say little of where the time without one belongs.
const FEW: u64 = 50;

/// For people.
pub fn table(looks: &Looks, sort: Sort, top: usize) -> String {
    let all = looks.all();
    if looks.samples == 0 {
        return format!("in {:.1} s no worker had a request when it was looked at\n", looks.seconds);
    }
    let cost = looks.spent as f64 / 10_000.0 / looks.seconds.max(0.001);
    let mut text = format!(
        "{} samples in {:.1} s; requests took {:.1} workers' time, {:.1}% of it waiting, {:.1}% without a processor; looking took {cost:.2}% of a processor\n",
        looks.samples,
        looks.seconds,
        all.all() as f64 / 1e6 / looks.seconds.max(0.001),
        percent(all.waiting, all.all()),
        percent(looks.ready, all.all()),
    );
    if looks.lost > 0 {
        text.push_str(&format!("{} samples got lost: this command was too slow for them\n", looks.lost));
    }
    if looks.running < FEW && looks.ready > all.busy / 2 {
        text.push_str(&format!(
            "Only {} samples are of workers that had a processor: the machine is too busy for shares to rely on; look for longer (--seconds)\n",
            looks.running
        ));
    }
    text.push_str("\n  TOTAL    SELF   WAITS  FUNCTION\n");
    for (function, total, own) in sorted(looks, sort).into_iter().take(top) {
        let [total_share, own_share, waits] =
            [total.all(), own.all(), total.waiting].map(|part| percent(part, all.all()));
        let file = if function.file == "[internal]" { "" } else { function.file.as_str() };
        let line = format!("{total_share:>6.1}% {own_share:>6.1}% {waits:>6.1}%  {}  {file}", function.name);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("\n  TOTAL   WAITS  BEFORE  ROUTE\n");
    for (route, time, before) in routes(looks).into_iter().take(top) {
        let [share, waits] = [time.all(), time.waiting].map(|part| percent(part, all.all()));
        let before = before.map_or_else(|| "-".to_owned(), |part| format!("{:.1}%", part * 100.0));
        text.push_str(&format!("{share:>6.1}% {waits:>6.1}% {before:>7}  {route}\n"));
    }
    text
}

/// For machines.
pub fn json(looks: &Looks, lanes: &[String], sort: Sort) -> Value {
    let all = looks.all();
    let functions: Vec<Value> = sorted(looks, sort)
        .into_iter()
        .map(|(function, total, own)| {
            json!({ "name": function.name, "file": function.file, "total_us": total.all(), "self_us": own.all(),
                "waiting_us": total.waiting })
        })
        .collect();
    let routes: Vec<Value> = routes(looks)
        .into_iter()
        .map(|(name, time, before)| {
            json!({ "route": name, "total_us": time.all(), "waiting_us": time.waiting, "before_connection": before })
        })
        .collect();
    json!({
        "seconds": looks.seconds, "samples": looks.samples, "running_samples": looks.running, "lost": looks.lost, "looks": looks.looks,
        "looking_us": looks.spent, "total_us": all.all(), "waiting_us": all.waiting, "ready_us": looks.ready, "lanes": lanes,
        "functions": functions, "routes": routes,
    })
}

/// A frame in a line of collapsed stacks: a semicolon would be two frames.
fn word(function: &Function) -> String {
    let name = function.name.replace(';', ":");
    if name == "{main}" || name.starts_with("{closure") {
        let file = function.file.rsplit('/').next().unwrap_or_default().replace(';', ":");
        return format!("{name} {file}");
    }
    name
}

/// A line for each stack: its frames, the outermost first, and its microseconds. What waits has a frame more.
pub fn collapsed(looks: &Looks) -> String {
    let mut text = String::new();
    for (stack, time) in &looks.stacks {
        let names: Vec<String> = stack.iter().map(|number| word(&looks.functions[*number])).collect();
        let names = names.join(";");
        if time.busy > 0 {
            text.push_str(&format!("{names} {}\n", time.busy));
        }
        if time.waiting > 0 {
            text.push_str(&format!("{names};[waiting] {}\n", time.waiting));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks() -> Looks {
        let mut looks = Looks::new("", false);
        looks.take("0 7 R 1000 GET /a\nusleep() [internal]\na;b() /srv/a.php:12\n{main} /srv/index.php:3\n");
        looks.take("0 7 S 2000 GET /b\nusleep() [internal]\n{main} /srv/index.php:3\n");
        looks.take("0 7 s 1000 GET /b\nusleep() [internal]\n{main} /srv/index.php:3\n");
        looks.end();
        looks.seconds = 2.0;
        looks
    }

    #[test]
    fn tables_have_shares() {
        let text = table(&looks(), Sort::Total, 10);
        assert!(text.contains(" 100.0%    0.0%   75.0%  {main}  /srv/index.php"), "{text}");
        assert!(text.contains("\n  75.0%   75.0%   66.7%  GET /b\n"), "{text}");
        let text = table(&looks(), Sort::Own, 1);
        assert!(text.contains(" 100.0%  100.0%   75.0%  usleep()\n") && !text.contains("{main}"), "{text}");
        assert!(table(&Looks::new("", false), Sort::Total, 10).contains("no worker had a request"));
    }

    #[test]
    fn few_samples_of_workers_that_ran_are_told() {
        let with = |ran: usize, ready: usize| {
            let mut looks = Looks::new("", false);
            (0..ran).for_each(|_| looks.take("0 7 R 1000 GET /a\n{main} /srv/index.php:3\n"));
            (0..ready).for_each(|_| looks.take("0 7 Q 1000 GET /a\n{main} /srv/index.php:3\n"));
            looks.end();
            table(&looks, Sort::Total, 10)
        };
        assert!(with(49, 60).contains("\nOnly 49 samples are of workers that had a processor: "), "{}", with(49, 60));
        for (ran, ready) in [(50, 60), (49, 40), (5, 0)] {
            assert!(!with(ran, ready).contains("Only"), "{}", with(ran, ready));
        }
    }

    #[test]
    fn collapsed_stacks_are_lines() {
        assert_eq!(
            collapsed(&looks()),
            "{main} index.php;a:b();usleep() 1000\n{main} index.php;usleep();[waiting] 3000\n"
        );
    }

    #[test]
    fn json_has_microseconds() {
        let value = json(&looks(), &["classic".to_owned()], Sort::Total);
        assert_eq!((&value["total_us"], &value["waiting_us"]), (&json!(4000), &json!(3000)));
        assert_eq!(value["functions"][0]["name"], "usleep()");
        assert_eq!(value["routes"][0]["route"], "GET /b");
        assert_eq!(
            (&value["routes"][0]["before_connection"], &value["routes"][1]["before_connection"]),
            (&json!(2.0 / 3.0), &Value::Null)
        );
    }
}
