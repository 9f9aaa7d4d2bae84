//! sslyze and testssl: what they find, against the table.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use tests::server::project;

use super::{HOSTS, Site};

/// A row of the table: judge, name of the finding, whether every run has it.
struct Known {
    judge: String,
    name: String,
    always: bool,
}

const TABLE: &str = "docs/reference/tls-findings.md";

fn known() -> Vec<Known> {
    let text = fs::read_to_string(project().join(TABLE)).expect(TABLE);
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [judge, name, when, why] = cells.as_slice() else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        assert!(["always", "at times"].contains(when) && why.len() > 20, "{TABLE}: {line}");
        Some(Known { judge: (*judge).to_owned(), name: name.to_owned(), always: *when == "always" })
    });
    rows.collect()
}

/// Fails if a judge has found what the table has not, or if the table has what is not found any more.
fn compare(judge: &str, found: &BTreeSet<(String, String)>) {
    let known: Vec<Known> = known().into_iter().filter(|row| row.judge == judge).collect();
    assert!(!known.is_empty(), "{TABLE} has no row of {judge}");
    let is_known = |name: &str| known.iter().any(|row| row.name == name);
    let new: Vec<_> = found.iter().filter(|(name, _)| !is_known(name)).collect();
    assert!(new.is_empty(), "{judge} finds what {TABLE} has no reason for: {new:#?}");
    let is_found = |row: &Known| found.iter().any(|(name, _)| *name == row.name);
    let gone: Vec<&str> =
        known.iter().filter(|row| row.always && !is_found(row)).map(|row| row.name.as_str()).collect();
    assert!(gone.is_empty(), "{judge} does not find this any more, so it leaves {TABLE}: {gone:?}");
}

/// Judges these hosts, two at once.
fn judge_hosts(
    site: &Site,
    hosts: &[&str],
    judge: impl Fn(&Site, &str) -> BTreeSet<(String, String)> + Sync,
) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for pair in hosts.chunks(2) {
        thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|host| scope.spawn(|| judge(site, host))).collect();
            for one in running {
                found.extend(one.join().expect("a judge"));
            }
        });
    }
    found
}

#[test]
fn sslyze_finds_nothing_new() {
    let built = Command::new(project().join("scripts/sslyze")).output().expect("scripts/sslyze");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = String::from_utf8_lossy(&built.stdout).trim().to_owned();
    let site = Site::start();
    compare("sslyze", &judge_hosts(&site, &HOSTS, |site, host| sslyze(&program, site, host)));
}

/// testssl shows no certificate of its own, so what it judges are the hosts that want none.
#[test]
fn testssl_finds_nothing_new() {
    let site = Site::start();
    compare("testssl", &judge_hosts(&site, &["ecdsa.example", "rsa.example"], testssl));
}

/// All that testssl does not call good or a mere fact.
fn testssl(site: &Site, host: &str) -> BTreeSet<(String, String)> {
    let (report, ca) = (site.place(&format!("testssl-{host}.json")), site.authority.path("ca.pem"));
    let mut command = Command::new("testssl");
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1"]);
    // Its own limits are meant for hosts far away; these are for a machine with other work.
    command.args(["--connect-timeout", "30", "--openssl-timeout", "60"]);
    command.args(["--add-ca", &ca, "--jsonfile", &report, &format!("https://{host}:{}/", site.ports.https)]);
    let output = command.stdin(Stdio::null()).output().expect("testssl");
    let said = String::from_utf8_lossy(&output.stdout);
    let text = fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {said}"));
    let whole: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let lines = whole.as_array().expect("a list");
    let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    // One of the first lines, one of each part, and the last: it has gone through all of them.
    for part in
        ["TLS1_2", "TLS1_3", "ALPN", "PFS", "cert_chain_of_trust", "HSTS_time", "heartbleed", "ROBOT", "scanTime"]
    {
        assert!(lines.iter().any(|line| word(line, "id").starts_with(part)), "nothing about {part}: {said}\n{text}");
    }
    let bad = lines.iter().filter(|line| !["OK", "INFO"].contains(&word(line, "severity").as_str()));
    bad.map(|line| (word(line, "id"), format!("{host}: {} {}", word(line, "severity"), word(line, "finding"))))
        .collect()
}

/// All of sslyze's parts.
const PARTS: [&str; 17] = [
    "--certinfo",
    "--compression",
    "--early_data",
    "--elliptic_curves",
    "--ems",
    "--fallback",
    "--heartbleed",
    "--http_headers",
    "--openssl_ccs",
    "--reneg",
    "--resum",
    "--robot",
    "--sslv2",
    "--sslv3",
    "--tlsv1",
    "--tlsv1_1",
    "--tlsv1_2",
];

/// What is not as sslyze says it should be, in each part of its report, and in what Mozilla recommends ("intermediate").
fn sslyze(program: &str, site: &Site, host: &str) -> BTreeSet<(String, String)> {
    let report = site.place(&format!("sslyze-{host}.json"));
    let mut command = Command::new(program);
    command.args(PARTS).args(["--tlsv1_3", "--mozilla_config", "intermediate", "--sni", host, "--json_out", &report]);
    command.args(["--certinfo_ca_file", &site.authority.path("ca.pem")]);
    if ["asked.example", "required.example"].contains(&host) {
        command.args(["--cert", &site.authority.path("client.pem"), "--key", &site.authority.path("client.key")]);
    }
    let output = command.arg(format!("127.0.0.1:{}", site.ports.https)).stdin(Stdio::null()).output().expect("sslyze");
    let said = String::from_utf8_lossy(&output.stdout);
    let text = fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {said}"));
    // The number of an RSA key is longer than a parser of JSON takes.
    let is_long = |value: &str| value.len() > 30 && value.bytes().all(|byte| byte.is_ascii_digit());
    let short = |line: &str| match line.split_once(": ") {
        Some((_, value)) if is_long(value.trim_end_matches(',')) => line.replace(value.trim_end_matches(','), "0"),
        _ => line.to_owned(),
    };
    let text: String = text.lines().map(short).collect();
    let whole: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let scanned = &whole["server_scan_results"][0];
    let parts = scanned["scan_result"].as_object().unwrap_or_else(|| panic!("no result: {said}"));
    assert!(parts.len() > PARTS.len() && scanned["scan_status"] == "COMPLETED", "{said}");
    let mut found = BTreeSet::new();
    let mut add = |name: String, what: &dyn std::fmt::Display| found.insert((name, format!("{host}: {what}")));
    for (part, told) in parts {
        if told["status"] != "COMPLETED" {
            add(format!("{part}.status"), &told["error_reason"]);
            continue;
        }
        for (name, value) in told["result"].as_object().into_iter().flatten() {
            if !is_good(part, name, value) {
                add(format!("{part}.{name}"), value);
            }
        }
    }
    let header = &parts["http_headers"]["result"]["strict_transport_security_header"]["max_age"];
    assert_eq!(header, 31_536_000, "{said}");
    // `127.0.0.1:443: FAILED - Not compliant.`, then lines `* name: what`.
    let (_, judged) = said.split_once("COMPLIANCE AGAINST").unwrap_or_else(|| panic!("nothing about Mozilla: {said}"));
    assert!(judged.contains(": OK - Compliant") || judged.contains(": FAILED - Not compliant"), "{judged}");
    for (name, what) in judged.lines().filter_map(|line| line.trim().strip_prefix("* ")?.split_once(": ")) {
        add(format!("mozilla.{name}"), &what);
    }
    found
}

/// Whether a value of a part is as it should be. A name that is not known is judged as bad, so that a later sslyze's news is looked at.
fn is_good(part: &str, name: &str, value: &Value) -> bool {
    match name {
        "is_tls_version_supported" => *value == ["tls_1_2_cipher_suites", "tls_1_3_cipher_suites"].contains(&part),
        "supports_compression" | "supports_early_data" => *value == false,
        "robot_result" => value.as_str().is_some_and(|text| text.starts_with("NOT_VULNERABLE")),
        _ if name.starts_with("is_vulnerable") => *value == false,
        _ if name.starts_with("supports_") => *value == true,
        _ if name.ends_with("_resumption_result") => value == "FULLY_SUPPORTED",
        "client_renegotiations_success_count" => *value == 0,
        "http_error_trace" => value.is_null(),
        // What was tried and counted; Mozilla's recommendation judges ciphers, curves and certificates.
        "accepted_cipher_suites" | "rejected_cipher_suites" | "tls_version_used" => true,
        "supported_curves" | "rejected_curves" => true,
        "certificate_deployments" => value.as_array().into_iter().flatten().all(is_trusted),
        "certificate_deployment_with_sni_disabled" | "hostname_used_for_server_name_indication" => true,
        "http_request_sent" | "http_path_redirected_to" | "strict_transport_security_header" => true,
        "expect_ct_header" | "public_key_pins_header" | "public_key_pins_report_only_header" => value.is_null(),
        _ => name.ends_with("_count") && part == "session_resumption",
    }
}

/// Whether the authority of the test has signed it, as it was sent, for the name that was asked for.
fn is_trusted(deployment: &Value) -> bool {
    !deployment["verified_certificate_chain"].is_null() && deployment["received_chain_has_valid_order"] == true
}
