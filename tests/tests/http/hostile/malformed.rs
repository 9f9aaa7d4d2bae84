//! Requests that nobody should send, each with a second one hidden behind it.

/// What hides behind a refused request.
const HIDDEN: &[u8] = b"GET /mark.php?hidden HTTP/1.1\r\nHost: a\r\n\r\n";

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A request whose first line and headers are given without their ends.
fn request(line: &[u8], headers: &[&[u8]], body: &[u8]) -> Vec<u8> {
    let mut bytes = [line, b"\r\n"].concat();
    for header in headers {
        bytes.extend([header, &b"\r\n"[..]].concat());
    }
    [&bytes, &b"\r\n"[..], body].concat()
}

fn with_line(line: impl AsRef<[u8]>) -> Vec<u8> {
    request(line.as_ref(), &[b"Host: a"], HIDDEN)
}

/// A header line before, between and behind others.
fn with_header(header: &[u8]) -> [Vec<u8>; 3] {
    let line = b"GET /mark.php?header HTTP/1.1";
    let orders: [&[&[u8]]; 3] = [&[header, b"Host: a"], &[b"Host: a", header, b"X: y"], &[b"Host: a", b"X: y", header]];
    orders.map(|headers| request(line, headers, HIDDEN))
}

fn around(before: &[u8], byte: u8, after: &[u8]) -> Vec<u8> {
    [before, &[byte], after].concat()
}

#[rustfmt::skip]
pub fn bad_lines() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for line in [
        "GET", "GET ", "GET /mark.php", "GET /mark.php ", "GET /mark.php HTTP", "GET /mark.php HTTP/", "GET /mark.php HTTP/1",
        "GET /mark.php HTTP/1.", "GET /mark.php HTTP/1.1x", "GET /mark.php HTTP/1.1 x", "GET /mark.php HTTP/1.1 HTTP/1.1",
        "GET /mark.php a HTTP/1.1", "GET\t/mark.php HTTP/1.1", "GET /mark.php\tHTTP/1.1", " GET /mark.php HTTP/1.1",
        "\tGET /mark.php HTTP/1.1", "/mark.php HTTP/1.1", "GETHTTP/1.1", "GET/mark.php HTTP/1.1", "G", ":", "Host: a",
        "HTTP/1.1 200 OK", "SSH-2.0-OpenSSH_9.2", "PRI * HTTP/2.0", "EHLO a", "GET /mark.php HTTP/1.1\r\n Host: b",
        "GET ../mark.php HTTP/1.1", "GET \\mark.php HTTP/1.1", "GET ?x HTTP/1.1",
        "GET http:// HTTP/1.1", "GET http:///mark.php HTTP/1.1", "GET http://a b/mark.php HTTP/1.1",
        "GET http://a:b/mark.php HTTP/1.1", "GET http://[a/mark.php HTTP/1.1", "GET http://@/mark.php HTTP/1.1",
        "GET http://user@a/mark.php HTTP/1.1", "GET http://user:secret@a/mark.php HTTP/1.1", "GET 1http://a/mark.php HTTP/1.1",
        "GET ://a/mark.php HTTP/1.1", "GET :80 HTTP/1.1",
    ] {
        all.push(with_line(line));
    }
    for version in [
        "HTTP/0.9", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/2", "HTTP/3.0", "HTTP/9.9", "HTTP/11.1", "HTTP/1.10", "HTTP/1.11",
        "HTTP/01.1", "HTTP/1.01", "HTTP/-1.1", "HTTP/+1.1", "HTTP/1,1", "HTTP/1 .1", "HTTP/ 1.1", "HTTP /1.1", "http/1.1",
        "Http/1.1", "HTTPS/1.1", "HTTP1.1", "HTTP//1.1", "HTTP/1.1.1", "HTTP/a.b", "HTTP/x", "HTTP\\1.1", "XHTTP/1.1", "HTT/1.1",
        "HTTP/1.1\0", "HTTP/\u{661}.1", "FTP/1.1", "SIP/2.0", "RTSP/1.0", "\u{feff}HTTP/1.1", "1.1", "H",
    ] {
        all.extend(["GET", "POST"].map(|method| with_line(format!("{method} /mark.php {version}"))));
    }
    for byte in (0..=255).filter(|&byte| !is_token(byte)) {
        let method = around(b"GE", byte, b"T");
        all.push(with_line([&method, &b" /mark.php HTTP/1.1"[..]].concat()));
        all.push(with_line(around(b"", byte, b"GET /mark.php HTTP/1.1")).into_iter().collect());
    }
    // Empty lines before a request are allowed (RFC 9112 section 2.2), so these two are none.
    all.retain(|bytes| !bytes.starts_with(b"\nGET"));
    for byte in (0..=0x20).chain([0x7f]) {
        all.push(with_line([&around(b"GET /mark.php/a", byte, b"b")[..], b" HTTP/1.1"].concat()));
        all.push(with_line([&around(b"GET /mark.php?a", byte, b"b")[..], b" HTTP/1.1"].concat()));
    }
    all
}

#[rustfmt::skip]
pub fn bad_headers() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for header in [
        "X", "Content-Length", "X y", "X y: z", "X : y", "X\t: y", " X: y", "\tX: y", ": y", ":", "::", " : y", "X\r: y", "X: y\rZ: z",
        "X: y\r\r", "X: \0", "X\0: y", "(X): y", "X,Y: z", "X/Y: z", "[X]: y", "{X}: y", "X;: y", "\"X\": y", "<X>: y", "X=: y",
        "X@: y", "X?: y", "X\\: y", "X\u{e9}: y", "X\u{2028}: y", "X: y\r\n folded", "X: y\r\n\tfolded", "X:\r\n folded", "X: y\n folded",
        "Host : b", "Content-Length : 5", "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding:\r\n chunked",
        "Content-Length: 5\r\n 6", " Transfer-Encoding: chunked", "Content-Length\0: 5",
    ] {
        all.extend(with_header(header.as_bytes()));
    }
    for byte in (0..=255).filter(|&byte| !is_token(byte) && byte != b':') {
        all.extend([around(b"X", byte, b"Y: z"), around(b"XY", byte, b": z")].map(|header| request(b"GET /mark.php?name HTTP/1.1", &[b"Host: a", &header], HIDDEN)));
    }
    let is_control = |byte: &u8| *byte != b'\t' && (*byte < 0x20 || *byte == 0x7f);
    for byte in (0..=255).filter(is_control) {
        for name in [&b"X: a"[..], b"Cookie: a", b"User-Agent: a", b"Content-Type: a", b"Connection: a"] {
            all.push(request(b"GET /mark.php?value HTTP/1.1", &[b"Host: a", &around(name, byte, b"b")], HIDDEN));
        }
    }
    all
}

#[rustfmt::skip]
pub fn bad_hosts() -> Vec<Vec<u8>> {
    let line = b"GET /mark.php?host HTTP/1.1";
    let mut all = vec![
        request(line, &[], HIDDEN),
        request(line, &[b"X-Host: a"], HIDDEN),
        request(line, &[b"Host: a", b"Host: a"], HIDDEN),
        request(line, &[b"Host: a", b"X: y", b"host: b"], HIDDEN),
        request(line, &[b"Host: a", b"Host:"], HIDDEN),
        request(line, &[b"Host:", b"Host:"], HIDDEN),
        request(b"GET /mark.php?host HTTP/1.0", &[b"Host: a", b"Host: b"], HIDDEN),
        request(b"GET http://a/mark.php HTTP/1.1", &[], HIDDEN),
        request(b"GET http://a/mark.php HTTP/1.1", &[b"Host: a", b"Host: b"], HIDDEN),
    ];
    let long = "a".repeat(300);
    for host in [
        "a/b", "/", "a@b", "user:secret@a", "a:b", "a:80:80", "a:999999", "a:-1", "a:+80", "a: 80", "a :80", ":80", ":", "::1", "[::1",
        "::1]", "[]", "[]:80", "[x]", "[::1]x", "[::1]:x", "[::1]]", "x[::1]", "a,b", "a, b", "a;b", "a b", "http://a", "a?b", "a#b", "a\\b", "%61",
        "a%00", "a%20b", "..%2f", "<a>", "\"a\"", "'a'", "a|b", "a^b", "a`b", "{a}", "$a", "(a)", "a=b", "a&b", "a*b", "*", "*.a", "~", "!a", "a+b",
        "\u{e9}.example", "\u{661}", &long,
    ] {
        all.push(request(line, &[format!("Host: {host}").as_bytes()], HIDDEN));
    }
    for byte in 0x80..=255 {
        all.push(request(line, &[&around(b"Host: a", byte, b"b")], HIDDEN));
    }
    all
}

#[rustfmt::skip]
pub fn bad_lengths() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for length in [
        "-1", "-0", "+5", "+0", "0x5", "5x", "x5", "five", "5 5", "5,5", "5, 5", "5,", ",5", "5;", "5;q=1", "5.0", "5e0", "1e1", ".5", "5.", "\"5\"", "'5'",
        "(5)", "5-", "5_0", "0b1", "0o5", "\u{665}", "\u{ff15}", "", " ", "\t", ",", "-", "+", "NaN", "inf", "null", "true", "5\t5", "5\u{a0}", "$5", "%35",
        "99999999999999999999", "18446744073709551616", "18446744073709551621", "18446744073709551615", "18446744073709551610",
        "9223372036854775808", "99999999999999999999999999999999999999999999999999999999999999999",
    ] {
        all.extend(METHODS.map(|method| {
            let line = format!("{method} /mark.php?length HTTP/1.1");
            request(line.as_bytes(), &[b"Host: a", format!("Content-Length: {length}").as_bytes()], &[b"abcde", HIDDEN].concat())
        }));
    }
    for (one, two) in [("5", "6"), ("0", "5"), ("5", "0"), ("5", "x"), ("x", "5"), ("5", "5,5"), ("5", "-5"), ("5", ""), ("", "5"), ("5", "+5")] {
        all.extend(METHODS.map(|method| {
            let line = format!("{method} /mark.php?lengths HTTP/1.1");
            let lengths = [format!("Content-Length: {one}"), format!("content-length: {two}")];
            request(line.as_bytes(), &[b"Host: a", lengths[0].as_bytes(), b"X: y", lengths[1].as_bytes()], &[b"abcde", HIDDEN].concat())
        }));
    }
    all
}

/// Transfer codings, also beside a length. Bodies end where a chunked one would.
#[rustfmt::skip]
pub fn bad_codings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let body = [b"0\r\n\r\n", HIDDEN].concat();
    for coding in [
        "xchunked", "chunkedx", "x-chunked", "chunk", "chunked chunked", "chun ked", "chunked, chunked", "chunked,chunked", "chunked, identity",
        "identity", "identity, chunked", "gzip", "gzip, chunked", "chunked, gzip", "deflate", "compress", "br, chunked", "x, chunked", "chunked, x", "",
        "chunked;q=1", "chunked;x", "\"chunked\"", "'chunked'", "chunked.", "chunked\\", "chunked:", "[chunked]", "chunked\u{a0}", "\u{e7}hunked", "0", "true", "none",
        "\u{b}chunked", "chunked\u{c}", "chunked\0", "\0chunked", "chunked\r", "chunked\rx",
    ] {
        all.extend(METHODS.map(|method| {
            let line = format!("{method} /mark.php?coding HTTP/1.1");
            request(line.as_bytes(), &[b"Host: a", format!("Transfer-Encoding: {coding}").as_bytes()], &body)
        }));
    }
    for (one, two) in [("chunked", "chunked"), ("identity", "chunked"), ("chunked", "identity"), ("gzip", "chunked"), ("chunked", "gzip"), ("x", "chunked"), ("chunked", "")] {
        let codings = [format!("Transfer-Encoding: {one}"), format!("Transfer-Encoding: {two}")];
        all.push(request(b"POST /mark.php?codings HTTP/1.1", &[b"Host: a", codings[0].as_bytes(), codings[1].as_bytes()], &body));
    }
    let (chunked, spaced) = (&b"Transfer-Encoding: chunked"[..], &b"transfer-encoding:  Chunked \t"[..]);
    for coding in [chunked, spaced] {
        for length in [&b"Content-Length: 5"[..], b"content-length: 0", b"CONTENT-LENGTH:5", b"Content-Length: 999", b"Content-Length: x", b"Content-Length:", b"Content-Length: 5, 5"] {
            let padding = [b"X_Pad: ", &vec![b'x'; 33 * 1024][..]].concat();
            for headers in [&[&b"Host: a"[..], coding, length][..], &[b"Host: a", length, coding], &[length, b"Host: a", coding], &[length, coding, length, b"Host: a"], &[b"Host: a", coding, &padding, length]] {
                all.push(request(b"POST /mark.php?both HTTP/1.1", headers, &body));
                all.push(request(b"GET /mark.php?both HTTP/1.1", headers, &body));
                all.push(request(b"POST /mark.php?both HTTP/1.0", headers, &body));
            }
        }
        all.push(request(b"POST /mark.php?old HTTP/1.0", &[b"Host: a", coding], &body));
        all.push(request(b"POST /mark.php?old HTTP/1.0", &[b"Host: a", b"Connection: keep-alive", coding], &body));
    }
    // Lines that end with a bare line feed hide nothing.
    all.push([b"POST /mark.php?feed HTTP/1.1\nHost: a\nContent-Length: 5\nTransfer-Encoding: chunked\n\n", &body[..]].concat());
    all.push([b"POST /mark.php?feed HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nContent-Length: 5\n\n", &body[..]].concat());
    all
}

/// Targets are refused without closing: their framing is sound. So these ask for the close themselves.
#[rustfmt::skip]
pub fn bad_targets() -> Vec<Vec<u8>> {
    let mut targets: Vec<Vec<u8>> = Vec::new();
    // Bytes that are no UTF-8 are names of files like others: targets.rs has them.
    for byte in (0u8..0x20).chain([0x7f]) {
        targets.push(format!("/mark.php/a%{byte:02X}b").into());
        targets.push(format!("/%{byte:02x}/../mark.php").into());
    }
    for tail in [
        "%", "%1", "%g0", "%0g", "%zz", "%%", "%%30", "%u0041", "% 1", "%-1", "%+1", "%0x", "a%", "%2", "%00", "a%00.txt", "%0d%0aX:%20y", "%0a", "%7f",
    ] {
        targets.push(format!("/mark.php/{tail}").into());
        targets.push(format!("/{tail}/mark.php").into());
    }
    for above in ["..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "./..", "..%2f", "%2e%2e%2f", "../.", "..//", "%2f..", "./%2e%2e/."] {
        for depth in [1, 2, 5, 20] {
            targets.push(format!("/{}/mark.php", vec![above; depth].join("/")).into());
            targets.push(format!("/mark.php/../{}/etc/passwd", vec![above; depth].join("/")).into());
            targets.push(format!("/a/b/{}/mark.php", vec![above; depth + 2].join("/")).into());
        }
    }
    for bytes in [17_000, 30_000, 70_000] {
        targets.push(format!("/mark.php/{}", "x".repeat(bytes)).into());
        targets.push(format!("/mark.php?{}", "x".repeat(bytes)).into());
        targets.push(format!("/mark.php/{}", "a/".repeat(bytes / 2)).into());
    }
    targets.extend(["mark.php", ".", "..", "*"].map(Vec::from));
    let line = |target: Vec<u8>| [b"GET ", &target[..], b" HTTP/1.1"].concat();
    targets.into_iter().map(|target| request(&line(target), &[b"Host: a", b"Connection: close"], HIDDEN)).collect()
}

/// Bodies that break off or break their framing.
#[rustfmt::skip]
pub fn bad_bodies() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let huge = "f".repeat(40);
    let long = format!("3;{}", "x".repeat(100_000));
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for size in [
        "", " ", "zz", "g", "x3", "3x", "-3", "+3", "0x3", " 3", "\t3", "3\0", "\u{3}", "3.0", "3,", "3:", "3_", "'3'", "\u{663}", "3\u{a0}", "3 3", "3\rx", "3\r\r",
        "fffffffffffffffff", "10000000000000000", "10000000000000003", &huge, &long, "3;a\rb", "3;a\nb",
    ] {
        bodies.push(format!("{size}\r\nabc\r\n0\r\n\r\n").into());
        bodies.push(format!("3\r\nabc\r\n{size}\r\nabc\r\n0\r\n\r\n").into());
    }
    for tail in ["", "\n", "\r", "\n\r", "xx", "x\r\n", "\r\r\n", "\r\n\r\n", "d\r\n", " \r\n", "\0\0", ";\r\n"] {
        bodies.push(format!("3\r\nabc{tail}0\r\n\r\n").into());
    }
    for end in ["0\r\nX\r\n\r\n", "0\r\nX y: z\r\n\r\n", "0\r\n: z\r\n\r\n", "0\r\nX: \0\r\n\r\n", "0\rX", "0\r\n\rX", "00x\r\n\r\n", "-0\r\n\r\n"] {
        bodies.push(format!("3\r\nabc\r\n{end}").into());
    }
    bodies.push(format!("3\r\nabc\r\n0\r\n{}\r\n", "X: y\r\n".repeat(100_000)).into());
    for body in bodies {
        for kind in ["text/plain", "application/x-www-form-urlencoded"] {
            let headers = [&b"Host: a"[..], b"Transfer-Encoding: chunked", &[b"Content-Type: ", kind.as_bytes()].concat()];
            all.push(request(b"POST /mark.php?chunks HTTP/1.1", &headers, &[&body[..], HIDDEN].concat()));
        }
    }
    all
}
