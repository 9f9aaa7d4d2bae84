//! One line of the access log, in either format.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cache::status::Did;
use http::header::{self, HeaderName};
use ipc::layout::Usage;

use inbound::head::Decimal;
use inbound::request::Head;
use routing::settings::LogFormat;

/// Bytes of the longest text of a line; a longer one is cut off.
pub const MAX_FIELD: usize = 2048;

/// A field of a JSON line.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// What it means.
    pub text: &'static str,
}

const fn field(name: &'static str, kind: &'static str, text: &'static str) -> Field {
    Field { name, kind, text }
}

/// All fields of a JSON line, in their order.
pub const FIELDS: [Field; 19] = [
    field("time", "text", "when the response ended, RFC 3339 in UTC"),
    field("client", "text", "address of the client; behind a declared proxy the address that the proxy names"),
    field("method", "text", "empty if a malformed request line has none; so are the next fields"),
    field("host", "text or null", "Host header"),
    field("target", "text", "path and query as they came"),
    field("protocol", "text", "`HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`; of a malformed request the text in its place"),
    field("status", "number", ""),
    field("sent", "bytes", "bytes of the response's body that were sent"),
    field("duration_us", "microseconds", "from the end of the request's head to the end of the response"),
    field("processor_us", "microseconds or null", "processor time of PHP; null if PHP did not run to its end"),
    field("memory_kib", "KiB or null", "peak memory of PHP, as in memory_get_peak_usage(true)"),
    field("referer", "text or null", ""),
    field("user_agent", "text or null", ""),
    field("refused", "text or null", "why the front refused the request (docs/reference/responses.md)"),
    field("reason", "text or null", "the reason phrase of the status line if PHP set one"),
    field("upstream", "text or null", "the upstream that responded in the place of PHP"),
    field("cache", "text or null", "what the cache of responses did (docs/guides/cache.md#what-the-cache-did)"),
    field("cache_detail", "text or null", "why the response was not stored, or a stored one not sent"),
    field("request_id", "text", "the id of the request, as PHP has it in `$_SERVER['REQUEST_ID']`"),
];

/// The current time as both formats write it, renewed once a second.
#[derive(Default)]
pub struct Clock {
    second: u64,
    /// 06/Nov/1994:08:49:37 +0000
    combined: String,
    /// 1994-11-06T08:49:37
    json: String,
}

impl Clock {
    /// No time yet.
    pub const fn new() -> Clock {
        Clock { second: 0, combined: String::new(), json: String::new() }
    }

    /// Makes both current; returns the milliseconds of the second.
    fn update(&mut self) -> u32 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if now.as_secs() != self.second || self.combined.is_empty() {
            self.second = now.as_secs();
            // Sun, 06 Nov 1994 08:49:37 GMT
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(self.second));
            let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
            self.combined = format!("{day}/{month}/{year}:{time} +0000");
            const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
            let number = MONTHS.find(month).map_or(0, |at| at / 3 + 1);
            self.json = format!("{year}-{number:02}-{day}T{time}");
        }
        now.subsec_millis()
    }
}

/// What a line has besides the request itself.
pub struct Facts<'a> {
    /// Address of the client.
    pub client: &'a str,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the response's body.
    pub sent: u64,
    /// Time since the request's head was complete.
    pub took: Duration,
    /// What PHP has used for it.
    pub usage: Usage,
    /// Why the front refused it.
    pub refused: Option<&'a str>,
    /// The reason phrase, if PHP chose one.
    pub reason: Option<&'a str>,
    /// The upstream that responded.
    pub upstream: Option<&'a str>,
    /// What the cache did.
    pub cache: Option<Did>,
}

/// The combined format, then the duration in seconds and the request's id.
fn combined(lines: &mut Vec<u8>, clock: &mut Clock, head: &Head, facts: &Facts<'_>) {
    clock.update();
    lines.extend_from_slice(facts.client.as_bytes());
    lines.extend_from_slice(b" - - [");
    lines.extend_from_slice(clock.combined.as_bytes());
    lines.extend_from_slice(b"] \"");
    for (part, is_first) in head.line().into_iter().zip([true, false, false]) {
        if !is_first && !part.is_empty() {
            lines.push(b' ');
        }
        escape(lines, part);
    }
    lines.extend_from_slice(b"\" ");
    lines.extend_from_slice(Decimal::new(facts.status.into()).digits());
    lines.push(b' ');
    lines.extend_from_slice(Decimal::new(facts.sent).digits());
    lines.extend_from_slice(b" \"");
    for (name, end) in [(header::REFERER, &b"\" \""[..]), (header::USER_AGENT, &b"\" "[..])] {
        match head.headers.get(name) {
            Some(value) => escape(lines, value.as_bytes()),
            None => lines.push(b'-'),
        }
        lines.extend_from_slice(end);
    }
    lines.extend_from_slice(Decimal::new(facts.took.as_secs()).digits());
    lines.push(b'.');
    // A million is added and the first digit left out, so that there are six digits with leading zeros.
    lines.extend_from_slice(&Decimal::new(1_000_000 + u64::from(facts.took.subsec_micros())).digits()[1..]);
    lines.push(b' ');
    lines.extend_from_slice(head.id.as_bytes());
    lines.push(b'\n');
}

/// Writes quotes, backslashes and unprintable bytes as `\xHH`, so that nothing in a request can end the line.
fn escape(lines: &mut Vec<u8>, field: &[u8]) {
    for &byte in &field[..field.len().min(MAX_FIELD)] {
        if byte == b'"' || byte == b'\\' || !(0x20..0x7f).contains(&byte) {
            // Writing to memory cannot fail.
            let _ = write!(lines, "\\x{byte:02X}");
        } else {
            lines.push(byte);
        }
    }
}

/// An object with all of [`FIELDS`].
fn json(lines: &mut Vec<u8>, clock: &mut Clock, head: &Head, facts: &Facts<'_>) {
    let milliseconds = clock.update();
    let usage = facts.usage;
    let mut time = clock.json.clone();
    // Writing to memory cannot fail.
    let _ = write!(time, ".{milliseconds:03}Z");
    let header = |name: HeaderName| head.headers.get(name).map(|value| value.as_bytes());
    let measured = |value: u32| (value > 0).then_some(u64::from(value));
    let mut fields = Fields { lines, names: FIELDS.iter() };
    fields.text(Some(time.as_bytes()));
    fields.text(Some(facts.client.as_bytes()));
    let [method, target, protocol] = head.line();
    fields.text(Some(method));
    fields.text(header(header::HOST));
    fields.text(Some(target));
    fields.text(Some(protocol));
    fields.number(Some(facts.status.into()));
    fields.number(Some(facts.sent));
    fields.number(Some(facts.took.as_micros() as u64));
    // A request always takes some memory, so 0 means that it was not measured. Processor time may be less than a
    // microsecond.
    fields.number(measured(usage.peak_kib).map(|_| usage.processor_us.into()));
    fields.number(measured(usage.peak_kib));
    fields.text(header(header::REFERER));
    fields.text(header(header::USER_AGENT));
    fields.text(facts.refused.map(str::as_bytes));
    fields.text(facts.reason.map(str::as_bytes));
    fields.text(facts.upstream.map(str::as_bytes));
    fields.text(facts.cache.map(|did| did.result().word().as_bytes()));
    fields.text(facts.cache.and_then(|did| did.detail()).map(|why| why.word().as_bytes()));
    fields.text(Some(head.id.as_bytes()));
    lines.extend_from_slice(b"}\n");
}

struct Fields<'a> {
    lines: &'a mut Vec<u8>,
    names: std::slice::Iter<'static, Field>,
}

impl Fields<'_> {
    fn name(&mut self) {
        let is_first = self.names.len() == FIELDS.len();
        let Some(field) = self.names.next() else { return };
        self.lines.extend_from_slice(if is_first { b"{\"" } else { b",\"" });
        self.lines.extend_from_slice(field.name.as_bytes());
        self.lines.extend_from_slice(b"\":");
    }

    fn number(&mut self, value: Option<u64>) {
        self.name();
        match value {
            Some(value) => self.lines.extend_from_slice(Decimal::new(value).digits()),
            None => self.lines.extend_from_slice(b"null"),
        }
    }

    fn text(&mut self, value: Option<&[u8]>) {
        self.name();
        match value {
            Some(value) => {
                let text = String::from_utf8_lossy(&value[..value.len().min(MAX_FIELD)]);
                // Writing to memory cannot fail, and a text is always a JSON text.
                let _ = serde_json::to_writer(&mut *self.lines, &text);
            }
            None => self.lines.extend_from_slice(b"null"),
        }
    }
}

/// One line, for the reference and tests.
pub fn format(format: LogFormat, head: &Head, facts: &Facts<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    append(&mut lines, &mut Clock::new(), format, head, facts);
    lines
}

/// Appends a line.
pub fn append(lines: &mut Vec<u8>, clock: &mut Clock, format: LogFormat, head: &Head, facts: &Facts<'_>) {
    match format {
        LogFormat::Combined => combined(lines, clock, head, facts),
        LogFormat::Json => json(lines, clock, head, facts),
    }
}

/// The reference, as in docs/reference/logs.md.
pub fn reference() -> String {
    let mut text = String::from(
        "# Logs\n\nGenerated by `reprise check --log-fields`.\n\n## Access log\n\n`access_log` says where it goes, \
         `access_log_format` how its lines look. SIGUSR1 to the process of `reprise serve` opens the file again (after\n\
         logrotate); within a quarter of a second all lines go to the new one. If nobody reads the log, lines are \
         dropped after 1 MiB of\nwaiting lines, with a message; requests never wait. Texts are cut off at 2048 bytes.\n\n\
         `combined`: `CLIENT - - [TIME] \"METHOD TARGET PROTOCOL\" STATUS SENT \"REFERER\" \"USER_AGENT\" SECONDS REQUEST_ID`; unprintable \
         bytes, quotes and\nbackslashes are written as `\\xHH`.\n\n`json`: one object a line. The fields about \
         PHP cost two system calls\nper request, which the combined format does not need.\n\nEach request has an id, \
         REQUEST_ID: what a declared proxy (`proxies`) says in X-Request-Id, if that is one value of up to 128 letters,\ndigits and \
         `-._:+/=@`, else 128 random bits, in hexadecimal. PHP has it in `$_SERVER['REQUEST_ID']`. A client \
         that is\nno declared proxy cannot choose it; PHP finds its header in `$_SERVER['HTTP_X_REQUEST_ID']`, as under PHP-FPM.\n\n| field | type | |\n|---|---|---|\n",
    );
    for field in &FIELDS {
        let _ = writeln!(text, "| `{}` | {} | {} |", field.name, field.kind, field.text);
    }
    text.push_str(
        "\n## Messages\n\nReprise's own messages and PHP's error log (unless `error_log` names a file) go to standard \
         error, a line each: `TIME LEVEL SOURCE: TEXT`.\n\n| part | |\n|---|---|\n| TIME | RFC 3339 in UTC, to the second \
         |\n| LEVEL | emergency, alert, critical, error, warning, notice, info or debug, as syslog has them |\n| SOURCE | \
         `supervisor`; `front`; `php[PID] APPLICATION` for messages of PHP and its worker; \
         `stderr APPLICATION` and `stdout APPLICATION` for everything else that is written to PHP's standard error and standard output |\n\nTexts contain no \
         control characters: ends of lines are written as `\\n`, others as `\\t`, `\\r` or `\\xHH`, and bytes that \
         are not UTF-8 as `\\xHH`. Further lines of a message of the supervisor, such as a trace, are indented. So a \
         script cannot write a line that looks like the supervisor's or another application's. It can write lines \
         that look like its own application's.\n\nA message of PHP that comes while a request runs ends with ` [METHOD PATH; client ADDRESS; request ID]`: the path as it \
         came, without its query, which may contain secrets, 512 bytes at most; the id is that of the access log. Lines of \
         `reprise_log()` have no such end.\n\nA message of \
         PHP is cut after 8 KiB, and a line of its standard error or output too; ` [cut: N more bytes]` says so. Text that a \
         script writes to `php://stderr` or `php://stdout`, or that a program started by PHP writes, becomes a line at an end of line, \
         at the next message, or after a pause of half a second. Such a line may contain text of several processes.\n\nAn \
         error that comes again and again (of a boot, a fork, a start) is written when it comes first, and then each time that its \
         number has doubled, with that number.\n\nWith \
         `decorate_output = false` such a line is passed on as it was written, for collectors that read JSON: nothing stands \
         before it, nothing is escaped, and it is cut after 64 KiB. Messages of PHP stay as they are. Then scripts can write lines \
         that look like any others.\n\nThe \
         supervisor does not wait for the reader of standard error: 256 KiB are kept for a slow reader. Further \
         lines are dropped, and a line says how many when there is room again.\n",
    );
    text
}
