//! PHP's source in files whose names do not say so: modules, templates and installers of applications (`x.module`, `x.install`). Under
//! other servers it is sent as text, or a handler for its ending runs it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// First bytes of a file that are looked at.
const LOOKED_AT: usize = 256;
/// A longer file is not looked at: no source is that long, and the first page of a film may have to come from a disk.
const LONGEST: u64 = 1 << 20;

/// Whether a file of that many bytes is PHP's source by the first of them. What cannot be read is taken for source.
pub fn is_in(file: &File, size: u64) -> bool {
    let mut bytes = [0; LOOKED_AT];
    size <= LONGEST && file.read_at(&mut bytes, 0).map_or(true, |count| opens_php(&bytes[..count]))
}

/// Whether a text opens PHP before anything else: behind a byte order mark, a line `#!` and white space.
fn opens_php(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = match text.starts_with(b"#!") {
        true => memchr::memchr(b'\n', text).map_or(&text[..0], |end| &text[end + 1..]),
        false => text,
    };
    let Some(rest) = text.trim_ascii_start().strip_prefix(b"<?") else { return false };
    let is_long = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"php"));
    let rest = if is_long { &rest[3..] } else { rest };
    // `<?=`, and `<?` alone with short_open_tag; not `<?xml`.
    let is_short = rest.first() == Some(&b'=') && !is_long;
    is_short || rest.first().is_none_or(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_say_what_is_source() {
        for text in [
            "<?php",
            "<?php\necho 1;",
            "<?PHP /* x */",
            "<?= $a ?>",
            "<?\nphpinfo();",
            "\n  <?php ",
            "\u{feff}<?php\r\n",
            "#!/usr/bin/env php\n<?php\n",
        ] {
            assert!(opens_php(text.as_bytes()), "{text:?}");
        }
        for text in [
            "",
            "<",
            "<?xml version=\"1.0\"?>",
            "<!-- <?php -->",
            "#!/bin/sh\necho",
            "#!x",
            "a <?php",
            "<?phpx",
            "<?php=",
            "<? php",
        ] {
            assert_eq!(opens_php(text.as_bytes()), text == "<? php", "{text:?}");
        }
    }
}
