//! `reprise doctor`: faults that are planted are found with file and line, clean applications have no errors, and bad input gets a
//! message.

mod clean;
mod faults_of_code;
mod faults_of_deployment;
mod faults_of_host;
mod input;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tests::server::{Directory, program};

/// A fault: the check that finds it, how bad it is there, the file, the line, and what the file has.
struct Fault {
    id: &'static str,
    severity: &'static str,
    file: &'static str,
    line: u64,
    text: &'static str,
}

const fn fault(id: &'static str, severity: &'static str, file: &'static str, line: u64, text: &'static str) -> Fault {
    Fault { id, severity, file, line, text }
}

/// An application with a configuration of its own.
struct Site {
    directory: Directory,
    options: String,
}

impl Site {
    /// One with a front controller.
    fn new() -> Site {
        let site = Site { directory: Directory::new(), options: String::new() };
        site.write("public/index.php", "<?php\necho 'index';\n");
        site.write("composer.json", "{}");
        site
    }

    /// Writes a file below the application's directory.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Site {
        let path = self.directory.0.join("app").join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
        self
    }

    /// Adds a line to the table of the application.
    fn option(mut self, line: &str) -> Site {
        self.options.push_str(line);
        self.options.push('\n');
        self
    }

    fn config(&self) -> std::path::PathBuf {
        let path = self.directory.0.join("reprise.toml");
        let root = self.directory.0.join("app/public");
        // Not written again: --fix has changed it.
        if !path.exists() {
            let text = format!("[[application]]\nroot = \"{}\"\n{}", root.display(), self.options);
            fs::write(&path, text).expect("a configuration");
        }
        path
    }

    /// What the doctor says with these flags.
    fn look(&self, flags: &[&str]) -> Report {
        report(Command::new(program()).args(["doctor", "--json", "--config"]).arg(self.config()).args(flags))
    }
}

/// What the doctor has said.
struct Report {
    json: Value,
    code: i32,
}

fn output(command: &mut Command) -> Output {
    command.output().expect("reprise doctor")
}

fn report(command: &mut Command) -> Report {
    let output = output(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let json = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    Report { json, code: output.status.code().expect("an exit code") }
}

/// What it says of a directory.
fn report_of(directory: &Path, flags: &[&str]) -> Report {
    report(Command::new(program()).args(["doctor", "--json"]).arg(directory).args(flags))
}

impl Report {
    fn findings(&self) -> &[Value] {
        self.json["findings"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether a finding of that check has evidence in that file, and line if it is not 0.
    fn has(&self, fault: &Fault) -> bool {
        self.findings().iter().any(|finding| {
            finding["id"] == fault.id
                && finding["severity"] == fault.severity
                && finding["evidence"].as_array().is_some_and(|places| {
                    places.iter().any(|place| {
                        let file = place["file"].as_str().unwrap_or("");
                        file.ends_with(fault.file) && (fault.line == 0 || place["line"] == fault.line)
                    })
                })
        })
    }

    /// The findings of a check.
    fn of(&self, id: &str) -> Vec<&Value> {
        self.findings().iter().filter(|finding| finding["id"] == id).collect()
    }

    /// Ids of findings of a severity.
    fn ids(&self, severity: &str) -> Vec<&str> {
        let of = self.findings().iter().filter(|finding| finding["severity"] == severity);
        of.filter_map(|finding| finding["id"].as_str()).collect()
    }

    /// Fails with all faults that were not found.
    #[track_caller]
    fn has_all(&self, faults: &[Fault]) {
        let missing: Vec<String> = faults
            .iter()
            .filter(|fault| !self.has(fault))
            .map(|fault| format!("{} {} at {}:{}", fault.severity, fault.id, fault.file, fault.line))
            .collect();
        let found = serde_json::to_string_pretty(&self.json["findings"]).unwrap_or_default();
        let (planted, lost) = (faults.len(), missing.len());
        assert!(lost == 0, "{lost} of {planted} were not found: {missing:#?}\n{found}");
        for finding in self.findings() {
            for part in ["what", "action", "link"] {
                assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "no {part}: {finding}");
            }
        }
        println!("{planted} of {planted} found");
    }
}
