//! What the doctor says of a phar.

use std::process::Command;

use serde_json::Value;
use tests::server::program;

use super::{STUB, phar, setup};

/// Faults in a phar are found as in a directory, and what is looked at is named as the phar.
#[test]
fn the_doctor_looks_into_a_phar() {
    let (_setup, file) = setup();
    let files = [
        ("public/index.php", "<?php\necho 'index';\n"),
        ("src/old.php", "<?php\n$a = create_function('$a', 'return $a;');\n"),
        ("composer.json", "{}"),
    ];
    phar(&file, &files, STUB);
    let look = |root: &std::path::Path| -> (Value, Option<i32>) {
        let output = Command::new(program()).args(["doctor", "--json"]).arg(root).output().expect("reprise doctor");
        let text = String::from_utf8_lossy(&output.stdout);
        let json =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        (json, output.status.code())
    };
    let (report, code) = look(&file);
    let application = &report["applications"][0];
    assert_eq!(application["tree"], format!("phar://{}", file.display()), "{application}");
    assert_eq!(application["scripts"], 2, "{application}");
    let findings = report["findings"].as_array().expect("findings");
    let is_old = |finding: &&Value| finding.to_string().contains("create_function");
    let found = findings.iter().find(is_old).unwrap_or_else(|| panic!("{findings:#?}"));
    assert!(found["evidence"][0]["file"] == "src/old.php" && found["evidence"][0]["line"] == 2, "{found}");
    assert_eq!(code, Some(4), "there is an error");
    assert!(!report.to_string().contains(".phars"), "the place where it was unpacked says nothing to people: {report}");
    // One that is damaged is a finding too.
    let mut bytes = std::fs::read(&file).expect("the phar");
    bytes[10] ^= 1;
    std::fs::write(&file, bytes).expect("the phar");
    let output = Command::new(program()).args(["doctor", "--json"]).arg(&file).output().expect("reprise doctor");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(0) && said.contains("its bytes are not those of its signature"), "{said}");
}
