//! The chart for Kubernetes.

use super::*;

/// helm takes it, what it makes is valid for Kubernetes, KEDA and the operator of Prometheus, and the server takes the configuration in it.
#[test]
fn manifests_are_valid_and_wrong_values_are_refused() {
    let said = run(Command::new("scripts/chart").current_dir(project()).arg(program()));
    assert!(said.contains("chart: 13 sets of values"), "{said}");
}
