//! What was seen, put together. Packets are as the application's processes want them to be: names are text of bounded size, and numbers are shares.

use std::collections::{BTreeMap, HashMap};

/// Different stacks that are told apart, and routes; what comes later counts as one.
const MOST_STACKS: usize = 100_000;
const MOST_ROUTES: usize = 500;
const OTHERS: &str = "(others)";
/// While these are the innermost function, a worker has no request, or its page has not begun.
const BETWEEN: [&str; 2] = ["reprise_handle_request()", "reprise_snapshot()"];

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    pub busy: u64,
    pub waiting: u64,
}

impl Time {
    pub fn all(self) -> u64 {
        self.busy.saturating_add(self.waiting)
    }

    pub fn add(&mut self, other: Time) {
        self.busy = self.busy.saturating_add(other.busy);
        self.waiting = self.waiting.saturating_add(other.waiting);
    }
}

/// Microseconds of a route before a request's first connection to a server, and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connecting {
    before: u64,
    after: u64,
}

impl Connecting {
    /// The part before it, of one. `None`: no request was seen that had connected.
    pub fn before(self) -> Option<f64> {
        (self.after > 0).then(|| self.before as f64 / (self.before as f64 + self.after as f64))
    }
}

/// A function: its name, and the file of its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    pub name: String,
    pub file: String,
}

/// Everything.
pub struct Looks {
    route: String,
    is_busy: bool,
    pub functions: Vec<Function>,
    numbers: HashMap<Function, usize>,
    /// Numbers of functions, the outermost first.
    pub stacks: BTreeMap<Vec<usize>, Time>,
    pub routes: BTreeMap<String, Time>,
    /// Of the same routes.
    pub connecting: BTreeMap<String, Connecting>,
    pub samples: u64,
    /// Those of workers that had a processor.
    pub running: u64,
    /// Packets that got lost because this process was too slow.
    pub lost: u64,
    /// Looks at all workers of a lane.
    pub looks: u64,
    /// Microseconds that looking took.
    pub spent: u64,
    pub seconds: f64,
    /// Microseconds in which workers had no processor; they are a part of busy.
    pub ready: u64,
    /// What was seen before [`Looks::end`], by route and stack.
    seen: BTreeMap<String, HashMap<Vec<usize>, Seen>>,
    /// How many stacks that are.
    seen_stacks: usize,
}

/// Microseconds of a stack.
#[derive(Clone, Copy, Default)]
struct Seen {
    running: u64,
    ready: u64,
    waiting: u64,
}

/// What a worker that has a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// It would run if a processor were free.
    Ready,
    Waiting,
}

/// The first line of a packet.
struct Head<'a> {
    state: State,
    has_connected: bool,
    microseconds: u64,
    method: &'a str,
    target: &'a str,
}

impl<'a> Head<'a> {
    fn read(line: &'a str) -> Option<Head<'a>> {
        let mut words = line.split(' ');
        let (_lane, _process) = (words.next()?, words.next()?);
        let word = words.next()?;
        let state = match word {
            "R" | "r" => State::Running,
            "Q" | "q" => State::Ready,
            _ => State::Waiting,
        };
        let has_connected = word.bytes().all(|byte| byte.is_ascii_lowercase());
        let microseconds = words.next()?.parse().ok()?;
        Some(Head { state, has_connected, microseconds, method: words.next()?, target: words.next()? })
    }

    /// Method and path; numbers in the path are one.
    fn route(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        let segment = |segment: &str| {
            let is_number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { "{number}".to_owned() } else { segment.to_owned() }
        };
        let path: Vec<String> = path.split('/').map(segment).collect();
        format!("{} {}", self.method, path.join("/"))
    }
}

impl Looks {
    /// Only of routes that begin so, and without waiting if it `is_busy`.
    pub fn new(route: &str, is_busy: bool) -> Looks {
        Looks {
            route: route.to_owned(),
            is_busy,
            functions: Vec::new(),
            numbers: HashMap::new(),
            stacks: BTreeMap::new(),
            routes: BTreeMap::new(),
            connecting: BTreeMap::new(),
            samples: 0,
            running: 0,
            lost: 0,
            looks: 0,
            spent: 0,
            seconds: 0.0,
            ready: 0,
            seen: BTreeMap::new(),
            seen_stacks: 0,
        }
    }

    /// A packet.
    pub fn take(&mut self, packet: &str) {
        let mut lines = packet.lines();
        let first = lines.next().unwrap_or_default();
        if let Some(rest) = first.strip_prefix("end ") {
            let numbers: Vec<u64> = rest.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
            if let [lost, looks, spent] = numbers[..] {
                self.lost = self.lost.saturating_add(lost);
                self.looks = self.looks.saturating_add(looks);
                self.spent = self.spent.saturating_add(spent);
            }
            return;
        }
        let Some(head) = Head::read(first) else { return };
        let route = head.route();
        let mut frames: Vec<Function> = lines.map(frame).collect();
        let is_between = frames.first().is_some_and(|frame| BETWEEN.contains(&frame.name.as_str()));
        if is_between || !route.starts_with(&self.route) || (self.is_busy && head.state == State::Waiting) {
            return;
        }
        if frames.is_empty() {
            frames.push(Function { name: "(no PHP code runs)".to_owned(), file: "[internal]".to_owned() });
        }
        self.samples += 1;
        self.running += u64::from(head.state == State::Running);
        let stack = frames.into_iter().rev().map(|frame| self.number(frame)).collect();
        let route = self.counted(route);
        let connecting = self.connecting.entry(route.clone()).or_default();
        let part = if head.has_connected { &mut connecting.after } else { &mut connecting.before };
        *part = part.saturating_add(head.microseconds);
        let time = self.stack(route, stack);
        let part = match head.state {
            State::Running => &mut time.running,
            State::Ready => &mut time.ready,
            State::Waiting => &mut time.waiting,
        };
        *part = part.saturating_add(head.microseconds);
    }

    /// There are no more packets. Time without a processor is given to what runs of the same route: where workers stood meanwhile tells of the kernel, which
    /// takes processors away at the end of a system call.
    pub fn end(&mut self) {
        for (route, stacks) in std::mem::take(&mut self.seen) {
            let sum = |part: fn(&Seen) -> u64| stacks.values().map(part).fold(0, u64::saturating_add);
            let (running, ready) = (sum(|seen| seen.running), sum(|seen| seen.ready));
            self.ready = self.ready.saturating_add(ready);
            let of_route = self.routes.entry(route).or_default();
            for (stack, seen) in &stacks {
                let with = u128::from(seen.running).saturating_mul(u128::from(running) + u128::from(ready));
                let busy = with.checked_div(u128::from(running)).unwrap_or(u128::from(seen.ready));
                let time = Time { busy: u64::try_from(busy).unwrap_or(u64::MAX), waiting: seen.waiting };
                of_route.add(time);
                self.stacks.entry(stack.clone()).or_default().add(time);
            }
        }
    }

    /// A route, or what stands for all for which there is no room.
    fn counted(&self, route: String) -> String {
        let is_known = self.seen.len() < MOST_ROUTES || self.seen.contains_key(&route);
        if is_known { route } else { OTHERS.to_owned() }
    }

    /// The time of a stack, or of all for which there is no room.
    fn stack(&mut self, route: String, stack: Vec<usize>) -> &mut Seen {
        let is_known = self.seen.get(&route).is_some_and(|stacks| stacks.contains_key(&stack));
        let is_new = !is_known && self.seen_stacks < MOST_STACKS;
        let stack = if is_known || is_new { stack } else { vec![self.number(frame(OTHERS))] };
        self.seen_stacks += usize::from(is_new);
        self.seen.entry(route).or_default().entry(stack).or_default()
    }

    fn number(&mut self, function: Function) -> usize {
        if let Some(number) = self.numbers.get(&function) {
            return *number;
        }
        let number = self.functions.len();
        self.functions.push(function.clone());
        self.numbers.insert(function, number);
        number
    }

    /// All time.
    pub fn all(&self) -> Time {
        let mut all = Time::default();
        self.stacks.values().for_each(|time| all.add(*time));
        all
    }

    /// Of each function the time in it and in all that it calls, and the time in itself.
    pub fn by_function(&self) -> Vec<(&Function, Time, Time)> {
        let mut times = vec![(Time::default(), Time::default()); self.functions.len()];
        for (stack, time) in &self.stacks {
            // A function that calls itself has its time once.
            let mut seen: Vec<usize> = stack.clone();
            seen.sort_unstable();
            seen.dedup();
            seen.into_iter().for_each(|number| times[number].0.add(*time));
            if let Some(last) = stack.last() {
                times[*last].1.add(*time);
            }
        }
        self.functions.iter().zip(times).map(|(function, (total, own))| (function, total, own)).collect()
    }
}

/// `Class::method() /path/file.php:12`.
fn frame(line: &str) -> Function {
    let (name, place) = line.rsplit_once(' ').unwrap_or((line, ""));
    let is_line = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let file = match place.rsplit_once(':') {
        Some((file, line)) if is_line(line) => file,
        _ => place,
    };
    Function { name: name.to_owned(), file: file.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks() -> Looks {
        let mut looks = Looks::new("", false);
        looks.take("0 7 R 1000 GET /post/12?a=1\nstrlen() [internal]\nA::b() /srv/a.php:12\n{main} /srv/index.php:3\n");
        looks.take("0 7 S 3000 GET /post/13\nA::b() /srv/a.php:14\n{main} /srv/index.php:3\n");
        looks.take("end 0 2 100 5000\n");
        looks.end();
        looks
    }

    #[test]
    fn times_are_those_of_functions_and_routes() {
        let looks = looks();
        assert_eq!((looks.samples, looks.lost, looks.looks, looks.spent), (2, 2, 100, 5000));
        assert_eq!(looks.all(), Time { busy: 1000, waiting: 3000 });
        assert_eq!(looks.routes.keys().collect::<Vec<_>>(), ["GET /post/{number}"]);
        let by = looks.by_function();
        let of = |name: &str| by.iter().find(|(function, ..)| function.name == name).map(|(_, all, own)| (*all, *own));
        assert_eq!(of("A::b()"), Some((looks.all(), Time { busy: 0, waiting: 3000 })));
        assert_eq!(of("{main}"), Some((looks.all(), Time::default())));
        assert_eq!(of("strlen()").map(|(all, _)| all.busy), Some(1000));
    }

    #[test]
    fn time_without_a_processor_is_given_to_what_runs() {
        let mut looks = Looks::new("", false);
        for packet in [
            "0 7 Q 2000 GET /a\ngetrusage() [internal]\n{main} /x:1\n",
            "0 7 S 500 GET /a\nusleep() [internal]\n{main} /x:1\n",
            "0 8 R 100 GET /b\nother() /x:1\n{main} /x:1\n",
            "0 7 Q 1000 GET /a\nusleep() [internal]\n{main} /x:1\n",
            "0 9 R 1000 GET /a\nwork() /x:1\n{main} /x:1\n",
            "0 9 R 2000 GET /a\nmore() /x:1\n{main} /x:1\n",
            "0 9 Q 7 GET /c\ngetrusage() [internal]\n{main} /x:1\n",
        ] {
            looks.take(packet);
        }
        looks.end();
        let of = |name: &str| looks.by_function().into_iter().find(|(one, ..)| one.name == name).map(|(_, all, _)| all);
        assert_eq!(of("work()"), Some(Time { busy: 2000, waiting: 0 }));
        assert_eq!(of("more()"), Some(Time { busy: 4000, waiting: 0 }));
        assert_eq!(of("getrusage()"), Some(Time { busy: 7, waiting: 0 }));
        assert_eq!(of("usleep()"), Some(Time { busy: 0, waiting: 500 }));
        assert_eq!(of("other()"), Some(Time { busy: 100, waiting: 0 }));
        assert_eq!(looks.routes["GET /a"], Time { busy: 6000, waiting: 500 });
        assert_eq!((looks.ready, looks.all()), (3007, Time { busy: 6107, waiting: 500 }));
        assert_eq!((looks.samples, looks.running), (7, 3));
    }

    #[test]
    fn what_lies_before_the_first_connection_is_told() {
        let mut looks = Looks::new("", false);
        for packet in ["0 7 R 300 GET /a\n", "0 7 s 500 GET /a\n", "0 7 r 200 GET /a\n", "0 7 R 9 GET /b\n"] {
            looks.take(packet);
        }
        looks.end();
        assert_eq!(["GET /a", "GET /b"].map(|route| looks.connecting[route].before()), [Some(0.3), None]);
        assert_eq!(looks.routes["GET /a"], Time { busy: 500, waiting: 500 });
    }

    #[test]
    fn what_is_not_meant_is_left_out() {
        let mut looks = Looks::new("GET /a", true);
        for packet in [
            "0 7 R 1 GET /b\n{main} /x:1\n",
            "0 7 S 1 GET /a\n{main} /x:1\n",
            "0 7 R 1 GET /a\nreprise_handle_request() [internal]\n{main} /x:1\n",
            "",
            "0 7 R x GET /a\n",
            "rubbish",
            "end",
            "end 0 a b c",
        ] {
            looks.take(packet);
        }
        looks.end();
        assert_eq!((looks.samples, looks.all()), (0, Time::default()));
        looks.take("0 7 R 5 GET /a/b\n");
        looks.end();
        assert_eq!(looks.all().busy, 5);
    }

    #[test]
    fn a_recursion_counts_once() {
        let mut looks = Looks::new("", false);
        looks.take("0 1 R 10 GET /\nf() /a:1\nf() /a:1\n{main} /a:9\n");
        looks.end();
        assert!(looks.by_function().iter().all(|(_, all, _)| all.busy == 10));
    }
}
