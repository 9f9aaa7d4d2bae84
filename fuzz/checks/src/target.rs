//! Request targets: whatever is let through lies below the root and hides nothing.

use routing::target;

/// Checks what holds for this text.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(path) = target::clean(text) else { return };
    assert!(path.starts_with(b"/") && !path.windows(2).any(|pair| pair == b"//"));
    assert!(!path.split(|byte| *byte == b'/').any(|segment| segment == b".." || segment == b"."));
    assert!(!path.iter().any(u8::is_ascii_control));
    // Cleaning is final but for a percent sign that was itself escaped.
    if let Some(text) = std::str::from_utf8(&path).ok().filter(|text| !text.contains('%')) {
        assert!(target::is_clean(text));
    }
    if let Some((script, info)) = target::split_script(&path) {
        assert!(script.ends_with(b".php") && target::is_source(script) && (info.is_empty() || info.starts_with(b"/")));
        assert_eq!([script, info].concat(), path);
    }
}
