//! Questions of people, and their answers.

mod support;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use data_cache::entries::Condition;
use data_cache::process::Process;
use data_cache::questions::answer;

/// What a process answers.
fn ask(process: &mut Process, question: &[u8]) -> String {
    let name = format!("reprise-question-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, question).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (mut from, to) = UnixStream::pair().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    });
    answer(process, file.as_raw_fd(), to.as_raw_fd(), 1000, &mut |_, found, text| {
        text.string(format!("value of {} bytes", found.entry.size).as_bytes());
    });
    drop(to);
    reader.join().unwrap()
}

fn stored(process: &mut Process, key: &[u8], words: u64, tags: &[&[u8]]) {
    assert_eq!(support::store(process, key, 7, words, tags, 0, Condition::Any), Ok(true));
}

#[test]
fn keys_are_listed_counted_shown_and_removed() {
    let mut process = support::segment(4 << 20);
    for (key, words) in [(&b"menu.en"[..], 10), (b"menu.de", 10), (b"row:1", 500), (b"plain", 1), (b"odd \xff\n", 1)] {
        stored(&mut process, key, words, &[b"t"]);
    }
    let all = ask(&mut process, b"keys\n\n100");
    assert!(all.starts_with("ok\nkey ") && all.ends_with("\nend\n"), "{all}");
    assert!(all.contains("key odd\\x20\\xff\\x0a ") && all.contains("\nall 5 "), "{all}");
    let of_menu = ask(&mut process, b"keys\nmenu.\n1");
    assert_eq!(of_menu.matches("key menu.").count(), 1, "{of_menu}");
    assert!(of_menu.contains("\nall 2 "), "{of_menu}");

    let prefixes = ask(&mut process, b"prefixes\n1");
    let lines: Vec<&str> = prefixes.lines().collect();
    assert!(lines[1].starts_with("prefix row: 1 4"), "{prefixes}");
    assert!(lines[2].starts_with("rest 4 "), "{prefixes}");

    let got = ask(&mut process, b"get\nodd\\x20\\xff\\x0a");
    assert!(got.contains("key odd\\x20\\xff\\x0a ") && got.contains(" 999 - - 0 1 0\n'value of "), "{got}");
    assert_eq!(ask(&mut process, b"get\nnone"), "failed\nthere is no value with this key\nend\n");
    assert_eq!(ask(&mut process, b"delete\nplain"), "ok\nyes\nend\n");
    assert_eq!(ask(&mut process, b"delete\nplain"), "ok\nno\nend\n");
    assert!(ask(&mut process, b"stats").contains("\nentries 4\n"));
    assert_eq!(ask(&mut process, b"invalidate\nother\nt"), "ok\ndone\nend\n");
    assert!(ask(&mut process, b"keys\n\n9").contains("ok\nall 0 0\nend\n"));
    stored(&mut process, b"again", 1, &[]);
    assert_eq!(ask(&mut process, b"flush"), "ok\ndone\nend\n");
    assert!(ask(&mut process, b"prefixes\n9").contains("ok\nrest 0 0\nend\n"));
}

#[test]
fn what_is_no_question_is_refused() {
    let mut process = support::segment(1 << 20);
    let long = [&b"get\n"[..], &[b'k'; 1025]].concat();
    for (question, why) in [
        (&b""[..], "no such question"),
        (b"run", "no such question"),
        (b"get", "1 to 1,024 bytes"),
        (b"get\n", "1 to 1,024 bytes"),
        (&long, "1 to 1,024 bytes"),
        (b"delete\n", "1 to 1,024 bytes"),
        (b"keys\na\nmany", "at most 1,024 bytes"),
        (b"invalidate", "a tag has 1 to 1,024 bytes"),
        (&[b'k'; 65_537], "too long"),
        (b"invalidate\na\n", "a tag has 1 to 1,024 bytes"),
    ] {
        let said = ask(&mut process, question);
        assert!(
            said.starts_with("failed\n") && said.contains(why) && said.ends_with("\nend\n"),
            "{question:?}: {said}"
        );
    }
}

/// More than an answer may have: what is left out is counted.
#[test]
fn a_long_list_is_cut_at_a_line() {
    let mut process = support::segment(64 << 20);
    for number in 0..3000 {
        stored(&mut process, &[&[1; 900][..], format!("{number}").as_bytes()].concat(), 1, &[]);
    }
    let list = ask(&mut process, b"keys\n\n100000");
    assert!(list.len() < 1 << 21 && list.contains("\nall 3000 ") && list.ends_with("\nend\n"));
    let shown = list.lines().filter(|line| line.starts_with("key ")).count();
    assert!(shown > 200 && shown < 3000, "{shown}");
    for number in 0..6000 {
        stored(&mut process, format!("{number}.x").as_bytes(), 1, &[]);
    }
    let prefixes = ask(&mut process, b"prefixes\n5");
    assert_eq!(prefixes.matches("prefix ").count(), 5);
    let rest: u64 = prefixes.split("rest ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(rest > 5000, "{prefixes}");
}
