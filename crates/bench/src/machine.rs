//! Describes the machine of a measurement.

use std::collections::BTreeMap;
use std::fs;

/// Names and values, for reports.
pub fn describe() -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    let name = rustix::system::uname();
    let text = |one: &std::ffi::CStr| one.to_string_lossy().into_owned();
    told.insert(
        "kernel".to_owned(),
        format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine())),
    );
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models =
        cpuinfo.lines().filter_map(|line| line.strip_prefix("model name")).filter_map(|rest| rest.split_once(": "));
    let models: Vec<&str> = models.map(|(_, model)| model.trim()).collect();
    let count = models.len().max(cpuinfo.lines().filter(|line| line.starts_with("processor")).count());
    told.insert("processors".to_owned(), format!("{count} x {}", models.first().unwrap_or(&"of unknown model")));
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    told.insert("governor".to_owned(), governor.map_or("not visible".to_owned(), |text| text.trim().to_owned()));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    told.insert(
        "memory".to_owned(),
        total.map_or("not visible".to_owned(), |kib| format!("{:.1} GiB", kib as f64 / 1048576.0)),
    );
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.insert("load before".to_owned(), load.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    let own: Vec<String> = std::env::args().collect();
    told.insert("command".to_owned(), own.join(" "));
    told.insert("version".to_owned(), format!("reprise {}", env!("CARGO_PKG_VERSION")));
    told
}

/// The command line of a process, for reports.
pub fn command_of(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let line: String = words.join(" ").chars().take(200).collect();
    if line.is_empty() { format!("process {pid}") } else { line }
}
