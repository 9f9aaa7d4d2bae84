//! Request targets: whatever is let through lies below the root and hides nothing.
#![no_main]

use front::target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(path) = target::clean(text) else { return };
    assert!(path.starts_with('/') && !path.contains("//"));
    assert!(!path.split('/').any(|segment| segment == ".." || segment == "."));
    assert!(!path.bytes().any(|byte| byte == 0));
    // Cleaning is final but for a percent sign that was itself escaped.
    if !path.contains('%') {
        assert_eq!(target::clean(&path).as_deref(), Ok(path.as_str()));
    }
    if let Some((script, info)) = target::split_script(&path) {
        assert!(script.ends_with(".php") && target::is_source(script) && (info.is_empty() || info.starts_with('/')));
        assert_eq!([script, info].concat(), path);
    }
});
