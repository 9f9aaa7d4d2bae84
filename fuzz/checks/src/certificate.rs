//! Files of certificates: whatever stands in them, they are served or explained.

use std::time::SystemTime;

use certificates::bundle::Wrong;
use certificates::{Certificate, ClientPolicy};

/// Chain, key and authorities, with a line of percent signs between them.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("%%\n").map(str::to_owned);
    let [chain, key] = [0; 2].map(|_| parts.next().unwrap_or_default());
    let client = parts.next().map(|authorities| ClientPolicy { authorities, is_required: true });
    let certificate = Certificate { hosts: vec!["a.example".to_owned()], chain, key, client };
    match certificate.check() {
        Ok(checked) => {
            assert!(checked.from <= checked.until || checked.warning(SystemTime::now()).is_some());
            assert!(!checked.dates().is_empty());
        }
        Err(Wrong::Chain(why) | Wrong::Key(why) | Wrong::Authorities(why)) => assert!(!why.is_empty()),
        Err(Wrong::Pair) => {}
    }
}
