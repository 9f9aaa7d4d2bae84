//! A libphp that is not what `reprise-php` was compiled for is refused, in words: each probe fails when what it looks at
//! is wrong.

use std::process::Command;

use tests::peer::php_version;
use tests::{Setup, wait_until};

/// PHP's constant PHP_VERSION is another version's.
const OTHER_VERSION: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
struct { unsigned references, kind; unsigned long hash, length; char text[8]; } text = {1, 0x40, 0, 5, "8.9.1"};
struct { void *text; unsigned type, more; } value = {&text, 6, 0};
void *zend_get_constant_str(const char *name, size_t length)
{
	void *(*next)(const char *, size_t) = (void *(*)(const char *, size_t))dlsym(RTLD_NEXT, "zend_get_constant_str");
	return strcmp(name, "PHP_VERSION") == 0 ? &value : next(name, length);
}
"#;

/// PHP's core module was compiled for another API.
const OTHER_API: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
struct value { void *pointer; unsigned type, more; };
static _Alignas(16) unsigned char core[168];
static struct value value = {core, 13, 0};
void *zend_hash_str_find(const void *table, const char *name, size_t length)
{
	typedef struct value *find(const void *, const char *, size_t);
	struct value *found = ((find *)dlsym(RTLD_NEXT, "zend_hash_str_find"))(table, name, length);
	if (!found || length != 4 || memcmp(name, "core", 4) != 0) {
		return found;
	}
	memcpy(core, found->pointer, sizeof core);
	memcpy(core + 4, &(unsigned){20990101}, 4);
	return &value;
}
"#;

/// A smaller structure under the name of PHP's: what another version's library would have.
const OTHER_SIZE: &str = "char ps_globals[64];\n";

/// The name of the instruction of `exit()` differs.
const OTHER_NAMES: &str = "const char *zend_get_opcode_name(unsigned char opcode) { return \"ZEND_OTHER\"; }\n";

/// From 8.4 on `exit()` is a function. There is none.
const NO_EXIT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *zend_hash_str_find(const void *table, const char *name, size_t length)
{
	typedef void *find(const void *, const char *, size_t);
	return strcmp(name, "exit") == 0 ? NULL : ((find *)dlsym(RTLD_NEXT, "zend_hash_str_find"))(table, name, length);
}
"#;

/// opcache says another release.
const OTHER_OPCACHE: &str = r#"
struct extension { const char *name, *version; };
void *zend_get_extension(const char *name) { static struct extension other = {"other", "8.0.99"}; return &other; }
"#;

/// The heap has its free lists elsewhere.
const OTHER_HEAP: &str = "static void *heap[512]; void *zend_mm_get_heap(void) { return heap; }\n";

/// The start fails, and the log says what differs and what to do.
fn is_refused(source: &str, words: &str) {
    let setup = Setup::empty().file("index.php", "<?php echo 'never';").file("other.c", source);
    let library = setup.directory().join("other.so");
    let source = setup.document_root().join("other.c");
    tests::peer::run_to_end(Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source));
    let mut server = setup.env("LD_PRELOAD", library.to_str().expect("a plain path")).launch();
    let words = [words, "hint: "];
    wait_until(&format!("the log says {words:?}"), 20, || words.iter().all(|word| server.log().contains(word)));
    assert_eq!(server.wait(20), 70, "{}", server.log());
}

/// A libphp of another minor version is refused before any of its code runs, each time, and both versions are named.
#[test]
fn a_libphp_of_another_minor_version_is_refused() {
    let php = tests::server::program().with_file_name("reprise-php");
    let said = Command::new(&php).arg("--version").output().expect("reprise-php says its version");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let line = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).expect(name).to_owned();
    let (version, library) = (line("php "), line("libphp "));
    let minor = version.rsplit_once('.').expect("three numbers").0;
    // The library, except that it says another version of the same length.
    let mut bytes = std::fs::read(&library).expect("libphp");
    let other = version.replacen(minor, &format!("{}9", &minor[..minor.len() - 1]), 1);
    let places: Vec<usize> =
        (0..bytes.len() - version.len()).filter(|at| bytes[*at..].starts_with(version.as_bytes())).collect();
    places.into_iter().for_each(|at| bytes[at..at + other.len()].copy_from_slice(other.as_bytes()));
    let setup = Setup::empty().file("index.php", "<?php echo 'never';").file("libphp.so", bytes);
    let library = setup.document_root().join("libphp.so");
    let words = format!("libphp.so is PHP {other}, and this reprise-php was built for PHP {minor} (");
    for _ in 0..100 {
        let refused = Command::new(&php).arg("--version").env("LD_PRELOAD", &library).output().expect("reprise-php");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(70) && refused.stdout.is_empty() && said.contains(&words), "{said}");
        assert!(said.contains(&format!("hint: install libphp{minor}-embed")), "{said}");
    }
    let mut server = setup.env("LD_PRELOAD", library.to_str().expect("a plain path")).launch();
    wait_until("the log says it", 20, || server.log().contains(&words));
    assert_eq!(server.wait(20), 70, "{}", server.log());
}

/// A library that lacks what `reprise-php` uses is refused with its name.
#[test]
fn a_libphp_without_a_function_is_refused() {
    let php = tests::server::program().with_file_name("reprise-php");
    let setup = Setup::empty();
    let copy = setup.document_root().join("reprise-php");
    // A name that no library has, in place of one that libphp has.
    let mut bytes = std::fs::read(php).expect("reprise-php");
    let name = b"\0php_request_startup\0";
    let at = (0..bytes.len() - name.len()).find(|at| bytes[*at..].starts_with(name)).expect("a name");
    bytes[at + 1] = b'q';
    std::fs::write(&copy, bytes).expect("a program");
    tests::peer::run_to_end(Command::new("chmod").arg("755").arg(&copy));
    let refused = Command::new(&copy).arg("--version").output().expect("reprise-php");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(70) && said.contains("has no qhp_request_startup, which libphp 8."),
        "{said}"
    );
}

/// opcache of another release than libphp, as while packages are upgraded, is refused with both releases.
#[test]
fn an_opcache_of_another_release_is_refused() {
    is_refused(OTHER_OPCACHE, "reprise-php: opcache is of PHP 8.0.99, and /");
}

/// A libphp of another version or API number is refused, with both numbers.
#[test]
fn another_version_is_refused() {
    is_refused(OTHER_VERSION, "PHP's version is 8.9.1, expected 8.");
    is_refused(OTHER_API, "PHP's API number is 20990101, expected 20");
}

/// A libphp with other structures, instruction names or heap layout is refused, with what differs.
#[test]
fn another_engine_is_refused() {
    is_refused(OTHER_SIZE, "the size of ps_globals is 64, expected");
    match php_version() {
        "8.2" => is_refused(OTHER_NAMES, "the instruction of exit() is ZEND_OTHER, expected ZEND_EXIT"),
        _ => is_refused(NO_EXIT, "the function exit() is missing, expected there"),
    }
    is_refused(OTHER_HEAP, "the heap's list of free slots is not found, expected at its beginning");
}
