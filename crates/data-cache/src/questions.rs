//! What people ask about a segment: `reprise cache`. A process of the application's user answers, which may die of what it reads there:
//! any process of the application can write into the segment. The answer is text, a line for each thing:
//!
//! | question, a line for each word | answer, between `ok` and `end` |
//! |---|---|
//! | `stats` | lines of a name and a number |
//! | `keys`, prefix, limit | a line of terms for each key, then `all` with the number of keys with that prefix, and their bytes |
//! | `prefixes`, limit | `prefix`, the beginning of keys, their number and bytes, the largest first; then `rest` for all others |
//! | `get`, key | a line of terms, then the value as PHP code |
//! | `delete`, key | `yes` or `no` |
//! | `invalidate`, tags | `done` |
//! | `flush` | `done` |
//!
//! Terms are `key`, its text ([`Text::key`]), bytes, age, time to live, time until it is gone (each in milliseconds; `-`: for ever),
//! cost in microseconds, number of tags, kind. `failed` and a sentence in the place of `ok`: why there is no answer.

use core::fmt::Write;

use crate::entries::Found;
use crate::layout::{Entry, LONGEST_KEY, MOST_TAGS};
use crate::process::Process;
use crate::text::{Text, read, unescape};

/// Bytes of a question.
const LONGEST_QUESTION: usize = 64 << 10;
/// Bytes of an answer, without its last line.
const LONGEST_ANSWER: usize = 1 << 20;
/// Different beginnings of keys that are told apart.
const MOST_PREFIXES: usize = 4096;

/// Writes a value as PHP code.
pub type Show<'a> = &'a mut dyn FnMut(&mut Process, &Found, &mut Text);

/// The answer to the question in one file goes to another.
pub fn answer(process: &mut Process, question: i32, to: i32, now: u64, show: Show) {
    let mut bytes = [0; LONGEST_QUESTION + 1];
    let size = read(question, &mut bytes);
    let mut words = bytes[..size].split(|&byte| byte == b'\n');
    let mut text = Text::new(to, LONGEST_ANSWER);
    let verb = words.next().unwrap_or_default();
    if process.reader().is_none() {
        text.last(b"failed\nno process can be added to those that use the data cache\nend\n");
        return;
    }
    let mut room = [0; LONGEST_KEY];
    let done = match verb {
        _ if size > LONGEST_QUESTION => Err("the question is too long"),
        b"stats" => stats(process, now, &mut text),
        b"keys" => match (unescape(words.next().unwrap_or_default(), &mut room), words.next().and_then(number)) {
            (Some(prefix), Some(limit)) => keys(process, now, prefix, limit, &mut text),
            _ => Err("a prefix has at most 1,024 bytes"),
        },
        b"prefixes" => prefixes(process, now, words.next().and_then(number).unwrap_or(0), &mut text),
        b"get" => match name(words.next(), &mut room) {
            Some(key) => get(process, now, key, show, &mut text),
            None => Err("a key has 1 to 1,024 bytes"),
        },
        b"delete" => match name(words.next(), &mut room) {
            Some(key) => {
                text.raw(if process.delete(key, None, now) { b"ok\nyes\n" } else { b"ok\nno\n" });
                Ok(())
            }
            None => Err("a key has 1 to 1,024 bytes"),
        },
        b"invalidate" => invalidate(process, words, &mut text),
        b"flush" => {
            process.flush();
            text.raw(b"ok\ndone\n");
            Ok(())
        }
        _ => Err("there is no such question"),
    };
    if let Err(why) = done {
        let _ = writeln!(text, "failed\n{why}");
    }
    text.last(b"end\n");
}

/// A key or a tag.
fn name<'a>(word: Option<&[u8]>, room: &'a mut [u8]) -> Option<&'a [u8]> {
    unescape(word?, room).filter(|name| !name.is_empty())
}

fn number(word: &[u8]) -> Option<u64> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

fn stats(process: &mut Process, now: u64, text: &mut Text) -> Result<(), &'static str> {
    let names = ["hits", "misses", "stale", "stores", "waits", "computed"];
    let (counted, numbers) = (process.counted(), process.numbers(now));
    let more = [
        ("evicted", numbers.evicted),
        ("refused", numbers.refused),
        ("swept", numbers.swept),
        ("entries", numbers.entries),
        ("bytes", numbers.bytes),
        ("memory", numbers.memory),
        ("held", numbers.held),
        ("holder", u64::from(numbers.holder)),
        ("held_ms", numbers.held_ms),
    ];
    text.raw(b"ok\n");
    for (name, number) in names.into_iter().zip(counted).chain(more) {
        let _ = writeln!(text, "{name} {number}");
    }
    if let Some(store) = process.view.store_numbers(now) {
        let numbers = [
            ("store_ready", Some(u64::from(store.is_ready))),
            ("store_heard_ms", store.heard_ms),
            ("store_untold", Some(store.untold)),
            ("store_requests", Some(store.requests)),
            ("store_failures", Some(store.failures)),
            ("store_forged", Some(store.forged)),
        ];
        for (name, number) in numbers.into_iter().filter_map(|(name, number)| Some((name, number?))) {
            let _ = writeln!(text, "{name} {number}");
        }
    }
    Ok(())
}

fn terms(process: &Process, found: &Found, now: u64, text: &mut Text) {
    let entry = found.entry;
    text.raw(b"key ");
    text.key(process.view.key_of(found.offset, entry));
    let _ = write!(text, " {} {}", entry.size, now.saturating_sub(entry.stored));
    for until in [entry.soft, entry.hard] {
        match until {
            0 => text.raw(b" -"),
            until => drop(write!(text, " {}", until.saturating_sub(now))),
        }
    }
    let _ = writeln!(text, " {} {} {}", entry.cost, entry.tags.min(MOST_TAGS as u32), entry.kind);
}

/// Calls for each value that is good.
fn each(process: &mut Process, now: u64, mut visit: impl FnMut(&Process, &Found)) {
    let mut from = 0;
    while let Some(found) = process.next(from, now) {
        visit(process, &found);
        from = found.slot + 1;
    }
}

fn keys(process: &mut Process, now: u64, prefix: &[u8], limit: u64, text: &mut Text) -> Result<(), &'static str> {
    let (mut count, mut bytes) = (0u64, 0u64);
    text.raw(b"ok\n");
    each(process, now, |process, found| {
        if process.view.key_of(found.offset, found.entry).starts_with(prefix) {
            count += 1;
            bytes = bytes.saturating_add(u64::from(found.entry.size));
            // Each line is whole: what is left is more than a line may have.
            if count <= limit && text.room() > 2 * size_of::<Entry>() + 4 * LONGEST_KEY {
                terms(process, found, now, text);
            }
        }
    });
    let _ = writeln!(text, "all {count} {bytes}");
    Ok(())
}

#[derive(Clone, Copy)]
struct Prefix<'a> {
    hash: u64,
    /// It lies in the segment, which changes nothing that this process may be reading.
    text: &'a [u8],
    entries: u64,
    bytes: u64,
}

fn prefixes(process: &mut Process, now: u64, limit: u64, text: &mut Text) -> Result<(), &'static str> {
    let mut all = [Prefix { hash: 0, text: &[], entries: 0, bytes: 0 }; MOST_PREFIXES];
    let mut rest = (0u64, 0u64);
    each(process, now, |process, found| {
        let key = process.view.key_of(found.offset, found.entry);
        let end = key.iter().position(|byte| b".:/".contains(byte)).map_or(0, |at| at + 1);
        let (prefix, size) = (&key[..end], u64::from(found.entry.size));
        let hash = process.view.hash(prefix);
        let places = (0..8).map(|step| (hash as usize).wrapping_add(step) % MOST_PREFIXES);
        let place = places.into_iter().find(|&place| {
            let one = &all[place];
            one.entries == 0 || (one.hash == hash && one.text == prefix)
        });
        let (entries, bytes) = match place {
            Some(place) => {
                let one = &mut all[place];
                (one.hash, one.text) = (hash, prefix);
                (&mut one.entries, &mut one.bytes)
            }
            None => (&mut rest.0, &mut rest.1),
        };
        *entries += 1;
        *bytes = bytes.saturating_add(size);
    });
    all.sort_unstable_by_key(|one| core::cmp::Reverse(one.bytes));
    text.raw(b"ok\n");
    for (number, one) in all.iter().take_while(|one| one.entries > 0).enumerate() {
        if (number as u64) < limit && text.room() > 5 * LONGEST_KEY {
            text.raw(b"prefix ");
            text.key(one.text);
            let _ = writeln!(text, " {} {}", one.entries, one.bytes);
        } else {
            rest = (rest.0 + one.entries, rest.1.saturating_add(one.bytes));
        }
    }
    let _ = writeln!(text, "rest {} {}", rest.0, rest.1);
    Ok(())
}

fn get(process: &mut Process, now: u64, key: &[u8], show: Show, text: &mut Text) -> Result<(), &'static str> {
    let found = process.find(key, now).ok_or("there is no value with this key")?;
    text.raw(b"ok\n");
    terms(process, &found, now, text);
    show(process, &found, text);
    if text.is_cut {
        text.last(b"\n(the rest is left out)");
    }
    text.last(b"\n");
    Ok(())
}

fn invalidate<'a>(
    process: &mut Process,
    tags: impl Iterator<Item = &'a [u8]> + Clone,
    text: &mut Text,
) -> Result<(), &'static str> {
    let mut room = [0; LONGEST_KEY];
    // All or none.
    let mut is_tag = |tag: &[u8]| name(Some(tag), &mut room).is_some();
    if !tags.clone().all(&mut is_tag) || tags.clone().next().is_none() {
        return Err("a tag has 1 to 1,024 bytes");
    }
    for tag in tags {
        if let Some(tag) = name(Some(tag), &mut room) {
            process.invalidate(tag);
        }
    }
    text.raw(b"ok\ndone\n");
    Ok(())
}
