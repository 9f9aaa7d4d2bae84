//! Which tests each stage runs, by the beginnings of their names, and what is known of these tests: how long they may take, which
//! want the machine for themselves.

use crate::build::TestProgram;
use crate::harness;
use crate::report::Counts;

/// Which tests run with --full alone, by the beginnings of their names; tests/README.md says what stands for them.
pub const FULL_ONLY: [&str; 51] = [
    "acme_pebble::",
    "apps::mediawiki::",
    "apps::released::",
    "apps::symfony::symfony_from_a_snapshot",
    "apps::unpacked::",
    "balancer::nodes_are_replaced_without",
    "balancer::three_nodes",
    "bridges::changes::changes_from_outside",
    "bridges::hosts::",
    "bridges::laravel_with_its_bridge",
    "bridges::reload::reloads_of_wordpress",
    "bridges::symfony_s_runtime_answers_as_a_snapshot",
    "bridges::wordpress_with_the_plugin",
    "bridges_package::applications_with_their_bridges",
    "cache_applications::of_visitors::laravel",
    "cache_applications::of_visitors::wordpress",
    "cache_applications::of_wordpress::without_the_plugin",
    "cache_applications::of_wordpress::wordpress_without_a_cache",
    "cache_conformance::",
    "connections::bridged::symfony",
    "connections::gone::a_restart_under_load",
    "container::a_container_s_memory_limit",
    "doctor::clean::wordpress",
    "fault_suite::",
    "guestbook::the_readme_s_command",
    "http2_tls::h2spec",
    "interleaved::laravel_s_visitors",
    "measuring::a_standstill",
    "measuring::processor_time",
    "measuring::what_is_alike",
    "packages::chart",
    "packages::image::an",
    "packages::image::rewinds",
    "packages::image::sizes",
    "packages::install",
    "packages::repository",
    "packages::small::checkouts",
    "packages::small::lintian",
    "packages::small::packages_have",
    "phar::symfony::symfony_as_a_phar",
    "profile::looks_take_a_hundredth",
    "release::nodes::four_nodes_switch_together_under_load",
    "slow::the_log_names_the_line_of_a_slow_request",
    "streaming::a_generator_streams_through",
    "survey::a_huge_tree",
    "verify::pages_of_wordpress",
    "verify_on_reload::a_plugin_of_wordpress",
    "verify_varying::pages_of_laravel",
    "verify_varying::pages_of_symfony_with_tokens",
    "verify_varying::pages_of_wordpress",
    "verify_varying::tokens_of_sessions",
];

/// What the stage of packages runs, with what it needs of the system: lintian, podman and roots.
pub const PACKAGES: [&str; 1] = ["packages::"];

/// What the stage of judges runs, with the programs that `scripts/setup full` installs.
pub const JUDGES: [&str; 1] = ["judges::"];

/// What the stage of bench/ runs.
pub const MEASURING: [&str; 1] = ["measuring::"];

/// Which tests measure, and so want the machine for themselves.
pub const ALONE: [&str; 7] = [
    "measuring::a_standstill",
    "measuring::processor_time",
    "measuring::what_is_alike",
    "profile::planted_costs",
    "profile::time_without_a_processor",
    "overload::",
    "hostile::ten_thousand_slow_clients",
];

/// Seconds of a quiet machine that a test may take.
const LIMIT_S: u64 = 60;

/// Those that install applications or send very many requests may take longer.
const LONGER_S: [(&str, u64); 23] = [
    ("packages::small::checkouts", 3000),
    // The images compile Reprise, and one of them PHP.
    ("packages::image::", 3000),
    // helm is compiled once.
    ("packages::chart", 1500),
    ("packages::", 400),
    ("bridges", 200),
    // The suites wait for what runs out.
    ("adapters::of_suites::", 200),
    ("apps::", 200),
    ("cache_applications::of_visitors", 6000),
    ("cache_applications::", 200),
    ("cache_conformance::", 400),
    // All of php-src's tests, with `--full`; in a worker script with a process for each.
    ("data_cache_suites::", 1200),
    ("data_cache_isolation::", 400),
    ("faults::", 120),
    ("http2_floods::responses", 120),
    // On an emulated processor, too.
    ("interleaved::", 200),
    ("acme_pebble::", 400),
    ("http2_tls::h2spec", 300),
    ("judges::scanners::testssl", 900),
    ("judges::", 300),
    ("guestbook::the_readme", 600),
    ("php_versions::changes", 200),
    ("profile::planted_costs", 150),
    // They download six applications, once.
    ("routing::presets::", 400),
];

/// The modules that reach the C part most: settings, each kind of worker, bodies, users, the data cache. In the default run they run with
/// AddressSanitizer alone; what needs rewinds does not, because with AddressSanitizer there are none.
pub const SANITIZED: [&str; 7] =
    ["data_cache::", "data_cache_attacks::", "fpm::", "isolation::", "streaming::", "worker::", "worker_exits::"];

/// What AddressSanitizer has nothing to find in: the front, the command, and what PHP code does; and calls that Reprise
/// takes from libc, which sanitizers take themselves; and libraries that are preloaded, where sanitizers have to come first.
pub const NOT_SANITIZED: [&str; 35] = [
    "acme",
    "bridges",
    "cache_conformance::",
    "config::",
    "doctor::",
    "documents::",
    "files::",
    "guestbook::",
    "hostile::",
    "http::",
    "measuring::",
    "packages::",
    "probes::",
    "systemd::",
    "attributes::",
    "host_headers::",
    "leaving::",
    "linked_scripts::",
    "starting::",
    "supervisor_waits::",
    "survey::",
    "targets::",
    "verify",
    "rewind_planted::",
    // They expect rewinds or kept connections, and with AddressSanitizer there are none.
    "apps::unpacked::",
    "connections::bridged::",
    "connections::mysql::the_next_visitor",
    "connections::refused::encrypted",
    "rewind_fast::openssl",
    // Calls that Reprise takes from libc.
    "phar::damaged::keys_are_checked",
    "phar::replaced::a_phar_that_is_overwritten",
    "phar::served::opcache_keeps",
    "release::one::compiled_code",
    // It reads all of a process's memory: AddressSanitizer's shadow memory is terabytes.
    "data_cache_tables::",
    // With AddressSanitizer process_vm_readv() fails even on the attacker's own child, so the test proves nothing; why it fails is not known.
    "neighbours::an_application_reaches_nothing",
];

/// What depends on PHP's version most: what the snapshot does with PHP's engine, audited requests, random numbers. In the default run they
/// run there alone, where there is such a platform.
pub const ON_OTHER_PLATFORM: [&str; 14] = [
    "attributes::",
    "rewind::",
    "rewind_ends::",
    "rewind_fast::",
    "rewind_free::",
    "rewind_held::",
    "rewind_input::",
    "rewind_mixed::",
    "rewind_php84::",
    "rewind_prepend::",
    "rewind_random::",
    "rewind_refused::",
    "rewind_resources::",
    "rewind_state::",
];

/// What needs two versions of PHP in one root directory; no other stage runs it.
pub const WITH_TWO_VERSIONS: [&str; 1] = ["php_versions::"];

/// One test for each thing that a server does.
pub const ON_ARM64: [&str; 1] = ["smoke::"];

/// What runs on the kernels of users, in an emulated machine: isolation by rewinds, and the same in applications.
pub const ON_KERNELS: [&str; 15] = [
    "bridges::symfony_with_its_runtime_answers_as_without",
    "bridges::wordpress_with_the_plugin",
    "interleaved::symfony_s_visitors_are_kept_apart_from_a_snapshot",
    "interleaved::wordpress_s_visitors",
    "rewind::",
    "rewind_ends::",
    "rewind_fast::",
    "rewind_free::",
    "rewind_held::",
    "rewind_kernel::",
    "rewind_planted::",
    "rewind_resources::",
    "rewind_shared::",
    "rewind_state::",
    "soft_dirty::",
];

/// Tests of what is shipped.
pub const SMOKE: [&str; 4] = ["guestbook::", "reload::", "sapi::", "rewind::"];

/// Tests of what not every machine has: what that is, the beginnings of their names, whether this machine has it.
pub struct Needing {
    pub what: &'static str,
    pub names: &'static [&'static str],
    pub is_here: fn() -> bool,
    /// The other platform has it, and stages of its own run these tests there.
    pub is_of_other_platform: bool,
}

/// All of them.
pub const NEEDING: [Needing; 2] = [
    // And of what `tests/apps/fetch.sh` has for it.
    Needing {
        what: "PHP 8.4",
        names: &["rewind_php84::", "apps::mediawiki::"],
        is_here: knows_php_8_4,
        is_of_other_platform: true,
    },
    Needing {
        what: "a kernel with soft-dirty bits",
        names: &["soft_dirty::"],
        is_here: tests::snapshot::has_soft_dirty_bits,
        is_of_other_platform: false,
    },
];

/// Whether the distribution's PHP has what it has since that version.
fn knows_php_8_4() -> bool {
    let version = tests::peer::php_version();
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    parts >= vec![8, 4]
}

/// How long a test may take, in seconds of a quiet machine.
pub fn limit_s(name: &str) -> u64 {
    let longer = LONGER_S.iter().find(|(word, _)| name.starts_with(word));
    longer.map_or(LIMIT_S, |(_, seconds)| *seconds)
}

/// Each beginning of a name that is listed here is that of a test.
pub fn check_names(programs: &[TestProgram]) -> Counts {
    let black_box: Vec<&TestProgram> = programs.iter().filter(|program| program.is_black_box()).collect();
    let longer = LONGER_S.iter().map(|(word, _)| word);
    let words = FULL_ONLY.iter().chain(&ALONE).chain(longer);
    let words = words
        .chain(&PACKAGES)
        .chain(&JUDGES)
        .chain(&MEASURING)
        .chain(&SANITIZED)
        .chain(&NOT_SANITIZED)
        .chain(&ON_OTHER_PLATFORM);
    let words = words.chain(&WITH_TWO_VERSIONS).chain(&ON_ARM64).chain(&SMOKE);
    let words = words.chain(NEEDING.iter().flat_map(|needing| needing.names)).chain(&ON_KERNELS);
    let why = match harness::unknown(words.copied(), &black_box) {
        Ok(unknown) if unknown.is_empty() => return Counts { passed: 1, ..Counts::default() },
        Ok(unknown) => format!("runner/selection.rs names tests that do not exist: {}", unknown.join(", ")),
        Err(why) => why,
    };
    println!("{why}");
    Counts::FAILED
}
