//! A libphp that is not what `reprise-php` was compiled for is refused, in words.

use std::process::Command;

use tests::{Setup, wait_until};

/// The name of the instruction of `exit()` differs: the probe of it fails.
const OTHER_NAMES: &str = "const char *zend_get_opcode_name(unsigned char opcode) { return \"ZEND_OTHER\"; }\n";
/// A smaller structure under the name of PHP's: what another version's library would have.
const OTHER_SIZE: &str = "char ps_globals[64];\n";

/// The start fails, and the log says what differs and what to do.
fn is_refused(source: &str, words: &[&str]) {
    let setup = Setup::empty().file("index.php", "<?php echo 'never';").file("other.c", source);
    let library = setup.directory().join("other.so");
    let source = setup.document_root().join("other.c");
    tests::peer::run_to_end(Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source));
    let mut server = setup.env("LD_PRELOAD", library.to_str().expect("a plain path")).launch();
    wait_until(&format!("the log says {words:?}"), 20, || words.iter().all(|word| server.log().contains(word)));
    assert_eq!(server.wait(20), 70, "{}", server.log());
}

#[test]
fn another_php_is_refused() {
    let hint = "hint: install the libphp of PHP";
    is_refused(OTHER_NAMES, &["the instruction of exit() is ZEND_OTHER, expected ZEND_EXIT", hint]);
    is_refused(OTHER_SIZE, &["the size of ps_globals is 64, expected", hint]);
}
