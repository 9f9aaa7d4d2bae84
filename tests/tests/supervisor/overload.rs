//! Three times what the workers can take: what is too much is told so, what was taken is answered, and afterwards all is well.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tests::{Client, Response, Setup};

const MODES: [(&str, &str); 3] = [
    ("classic", "work();"),
    ("snapshot", "reprise_snapshot(); work();"),
    ("worker", "while (reprise_handle_request(function () { work(); })) {}"),
];

/// Workers and queue take 22 requests; the last of the queue would wait for 1.5 s.
const CLIENTS: usize = 66;
const ROUNDS: usize = 3;

/// Its status and why; accepted ones have their own number, refused ones say when to come again.
fn judge(answer: &Response, number: &str, took: Duration) -> String {
    match answer.status {
        200 => {
            assert_eq!(answer.text(), number);
            // The time in the queue is limited; the rest is one request's own and a busy machine's.
            assert!(took < Duration::from_secs(5), "{took:?}");
            "answered".to_owned()
        }
        503 => {
            let seconds = answer.header("retry-after").and_then(|text| text.parse::<u32>().ok());
            assert!(seconds.is_some_and(|seconds| seconds > 0), "Retry-After: {:?}", answer.headers);
            answer.header("reprise-refused").unwrap_or_default().to_owned()
        }
        other => panic!("{number}: {other} {}", answer.text()),
    }
}

/// At three times the load that workers can take each request is served or refused at once, in every mode.
#[test]
fn three_times_too_many_requests_are_refused_or_answered() {
    // Beside each other: they wait, most of the time.
    std::thread::scope(|scope| {
        for mode in MODES {
            scope.spawn(move || overload(mode));
        }
    });
}

fn overload((mode, call): (&str, &str)) {
    let script = format!("<?php function work() {{ usleep(150000); echo $_GET['n']; }}\n{call}\n");
    let limits = "workers = 2\nqueue = 20\nqueue_timeout = \"1s\"";
    let mut setup = Setup::empty().file("index.php", script).application(limits).server("front_threads = 1");
    if mode != "classic" {
        setup = setup.application(&format!("mode.\"index.php\" = \"{mode}\""));
    }
    let server = setup.start();
    let barrier = Barrier::new(CLIENTS);
    // Judged when all are done: who fails in the middle would let the others wait.
    let run = |client: usize| -> Vec<(String, io::Result<Response>, Duration)> {
        // Refused or not, the connection is kept.
        let mut connection = Client::new(server.port);
        let ask = |round: usize| {
            let number = format!("{client}-{round}");
            barrier.wait();
            let began = Instant::now();
            let answer = connection.try_request("GET", &format!("/?n={number}"), &[], b"");
            (number, answer, began.elapsed())
        };
        (0..ROUNDS).map(ask).collect()
    };
    let run = &run;
    let all: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || run(client))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let began = Instant::now();
    assert_eq!(server.get("/?n=next").text(), "next", "{mode}");
    assert!(began.elapsed() < tests::seconds(1), "{mode}: {:?}", began.elapsed());
    let said: Vec<String> =
        all.into_iter().map(|(number, answer, took)| judge(&answer.expect("an answer"), &number, took)).collect();
    let count = |what: &str| said.iter().filter(|one| *one == what).count();
    let (answered, full, late) = (count("answered"), count("queue-full"), count("queue-timeout"));
    println!("{mode}: {answered} answered, {full} refused at once, {late} after their time");
    assert_eq!(answered + full + late, CLIENTS * ROUNDS, "{mode}: {said:?}");
    // Of each round workers and queue take 22, or more if some are done before the last has come.
    assert!(answered >= 2 * ROUNDS && late > 0 && full >= 22, "{mode}: {answered} {full} {late}");
    assert!(answered + late >= 22 * ROUNDS, "{mode}: {answered} {full} {late}");
}
