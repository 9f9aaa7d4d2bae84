//! php-src's tests of arrays, strings and regular expressions, with their literals fetched from the data cache: what they print is the same, the
//! values in the cache are unchanged, and nothing writes to memory that can only be read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tests::peer::php_version;
use tests::server::project;
use tests::snapshot::isolations;
use tests::{Server, Setup, amount};

const DIRECTORIES: [&str; 5] =
    ["ext/standard/tests/array", "ext/standard/tests/strings", "ext/pcre/tests", "ext/spl/tests", "Zend/tests"];

/// `from_cache()`, and the look at the end whether a value has changed.
const BEFORE: &str = r#"<?php
final class Given { public static array $keys = []; }
function from_cache(mixed $value): mixed {
    $key = md5(serialize($value));
    Given::$keys[$key] = true;
    reprise_cache_add("literal $key", $value);
    return reprise_cache_fetch("literal $key", $value);
}
register_shutdown_function(function () {
    foreach (Given::$keys as $key => $_) {
        $value = reprise_cache_fetch("literal $key", $key);
        if ($value !== $key && md5(serialize($value)) !== $key) echo "\nCHANGED: ", serialize($value);
    }
});
"#;

const SCRIPTS: [(&str, &str); 3] = [
    ("classic", "<?php include $_GET['test'];"),
    ("snapshot", "<?php reprise_snapshot(); include $_GET['test'];"),
    ("worker", "<?php while (reprise_handle_request(function () { include $_GET['test']; }));"),
];

/// They look at where a literal stands, and why.
const DIFFERENT: [(&str, &str); 16] = [
    ("Zend-tests-class_properties_const.php", "a literal is converted, with its warning, when the script is compiled"),
    ("ext-standard-tests-array-array_next_error2.php", "a literal cannot be passed by reference"),
    ("ext-standard-tests-array-prev_error3.php", "a literal cannot be passed by reference"),
    ("ext-pcre-tests-preg_match_all_error3.php", "a literal cannot be passed by reference"),
    ("Zend-tests-list_008.php", "a literal cannot be written to"),
    ("Zend-tests-constant_expressions_dynamic.php", "a constant is what it is about"),
    ("Zend-tests-dynamic_fully_qualified_call.php", "a name that the compiler knows is another in the message"),
    ("Zend-tests-gh13097_a.php", "the name of the class has its place in the file"),
    ("Zend-tests-gh13097_b.php", "the name of the class has its place in the file"),
    ("Zend-tests-halt_compiler1.php", "a place in the file"),
    ("Zend-tests-dynamic_class_const_fetch_const_expr.php", "a constant is what it is about"),
    ("Zend-tests-bug70805.php", "counts what the collector has in its buffer, to which the functions above add"),
    (
        "ext-standard-tests-strings-sprintf_rope_optimization_002.php",
        "of a literal format the compiler makes another instruction, which the stack shows",
    ),
    ("ext-standard-tests-strings-strncmp_basic.php", "the number is memcmp()'s: it depends on where the strings lie"),
    ("ext-standard-tests-strings-strncmp_variation2.php", "the number is memcmp()'s"),
    ("ext-standard-tests-strings-strncmp_variation8.php", "the number is memcmp()'s"),
];

fn source() -> PathBuf {
    let target = project().join("target/foreign");
    let output = Command::new(project().join("tests/foreign/fetch")).arg(php_version()).arg(target).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A server for one mode, with the tests and their names.
fn server(source: &Path, mode: &str, script: &str, jit: bool, [step, first]: [usize; 2]) -> (Server, Vec<String>) {
    let mut setup = Setup::empty().file("index.php", script).file("before.php", BEFORE);
    let root = setup.document_root().to_owned();
    for kind in ["plain", "cache"] {
        setup = setup.file(&format!("{kind}/.keep"), "");
    }
    let through = project().join("tests/tests/data_cache/data_cache/through_cache.php");
    let output = Command::new("php")
        .arg(through)
        .args([source, &root])
        .args([step, first].map(|number| number.to_string()))
        .args(DIRECTORIES)
        .output()
        .unwrap();
    let names: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(names.len() > 2000 / step, "{}\n{}", names.len(), String::from_utf8_lossy(&output.stderr));
    let before = root.join("before.php").display().to_string();
    for (name, value) in
        [("auto_prepend_file", before.as_str()), ("display_errors", "1"), ("html_errors", "0"), ("log_errors", "0")]
    {
        setup = setup.ini(name, value);
    }
    for (name, value) in
        [("error_reporting", "32767"), ("memory_limit", "256M"), ("precision", "14"), ("serialize_precision", "-1")]
    {
        setup = setup.ini(name, value);
    }
    if jit {
        for (name, value) in [
            ("jit", "tracing"),
            ("jit_buffer_size", "32M"),
            ("jit_hot_loop", "2"),
            ("jit_hot_func", "2"),
            ("jit_hot_return", "1"),
            ("jit_hot_side_exit", "1"),
        ] {
            setup = setup.ini(&format!("opcache.{name}"), value);
        }
    }
    let lines = if mode == "worker" { "max_requests = 1".to_owned() } else { String::new() };
    let isolation = if mode == "snapshot" { format!("\nisolation = \"{}\"", isolations()[0]) } else { String::new() };
    (setup.application(&format!("workers = 3\n{lines}{isolation}")).start(), names)
}

fn run(server: &Server, kind: &str, name: &str) -> String {
    let root = server.directory().join("app/public");
    let response = server.get(&format!("/index.php?test={}/{kind}/{name}", root.display()));
    format!("{}\n{}", response.status, response.text().replace("/cache/", "/plain/"))
}

fn do_the_same(mode: &str, jit: bool) {
    // In `./test --full`: php-src has to be fetched.
    if amount(0, 1) == 0 {
        return;
    }
    let source = source();
    let different: BTreeSet<&str> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    let script = SCRIPTS.iter().find(|(name, _)| *name == mode).expect("a mode").1;
    let first = SCRIPTS.iter().position(|(name, _)| *name == mode).unwrap_or(0) * 2 + usize::from(jit);
    let step = amount(40, 1);
    let (server, chosen) = server(&source, mode, script, jit, [step, first % step]);
    let (next, failed, changing) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(name) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let plain = run(&server, "plain", name);
                    let cached = run(&server, "cache", name);
                    if plain == cached || different.contains(name.as_str()) {
                        continue;
                    }
                    if plain == run(&server, "plain", name) && cached == run(&server, "cache", name) {
                        failed.lock().unwrap().push(format!("--- {name}\n{plain}\n--- from the cache\n{cached}"));
                    } else {
                        changing.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let log = server.log();
    assert!(!log.contains("was killed by") && !log.contains("Segmentation"), "{log}");
    assert!(failed.is_empty(), "{} of {}\n{}", failed.len(), chosen.len(), failed.join("\n"));
    println!("{mode}, JIT {jit}: {} tests, {} are not alike twice", chosen.len(), changing.into_inner());
}

#[test]
fn tests_of_php_do_the_same_in_classic_mode() {
    do_the_same("classic", false);
}

#[test]
fn tests_of_php_do_the_same_in_classic_mode_with_jit() {
    do_the_same("classic", true);
}

#[test]
fn tests_of_php_do_the_same_after_a_snapshot() {
    do_the_same("snapshot", false);
}

#[test]
fn tests_of_php_do_the_same_after_a_snapshot_with_jit() {
    do_the_same("snapshot", true);
}

#[test]
fn tests_of_php_do_the_same_in_a_worker_script() {
    do_the_same("worker", false);
}

#[test]
fn tests_of_php_do_the_same_in_a_worker_script_with_jit() {
    do_the_same("worker", true);
}
