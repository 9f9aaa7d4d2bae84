//! Why the front refuses a request: the status, header and page of the response. The words are the same in the access log,
//! the header `Reprise-Refused` and the documentation.

use http::StatusCode;
use http::header::{self, HeaderName};

pub use ipc::shared::REFUSED_HEADER as HEADER;

use Connection::{Close, Keep};

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Another request may follow. Even if the client has ended its input, further requests of it may wait.
    Keep,
    /// The connection cannot be used for another request.
    Close,
}

/// The other columns of a refusal.
pub struct Row {
    /// Status of the response.
    pub status: u16,
    /// What becomes of the connection behind the response.
    pub connection: Connection,
    /// A header that the response has besides the usual ones.
    pub header: Option<(HeaderName, &'static str)>,
}

const RETRY: Option<(HeaderName, &str)> = Some((header::RETRY_AFTER, "1"));
const READ_ONLY: Option<(HeaderName, &str)> = Some((header::ALLOW, "GET, HEAD"));
const ANY_METHOD: Option<(HeaderName, &str)> = Some((header::ALLOW, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));

ipc::table! {
    /// Why the front refused a request. 499 is nginx's status for a client that left; only the log shows it.
    pub enum Refusal: u8 as Row {
        BadRequest, "bad-request": "a malformed request line or header", { status: 400, connection: Close, header: None };
        BadHost, "bad-host": "no Host header, two, or one that is no host, such as `a..b`", { status: 400, connection: Close, header: None };
        RepeatedHeader, "repeated-header": "two lines of Authorization, If-Modified-Since, If-Unmodified-Since or If-Range", { status: 400, connection: Close, header: None };
        BadTarget, "bad-target": "a malformed escape, a control byte, or `..` above the root", { status: 400, connection: Keep, header: None };
        BadScheme, "bad-scheme": "the target begins neither with / nor with http:// or https://", { status: 400, connection: Close, header: None };
        BadFraming, "bad-framing": "Content-Length together with Transfer-Encoding, or a body that breaks its chunks", { status: 400, connection: Close, header: None };
        Forbidden, "forbidden": "the front's user may not read the file; `status_path` asked for from another machine", { status: 403, connection: Keep, header: None };
        Unauthorized, "unauthorized": "a rule wants a password: none was sent, or a wrong one", { status: 401, connection: Keep, header: None };
        Denied, "denied": "a rule or a default denial (docs/guides/routing.md)", { status: 403, connection: Keep, header: None };
        Source, "source": "the file's first bytes open PHP, though its name is no script's; a rule with `allow` has it sent (docs/guides/routing.md#phps-source)", { status: 403, connection: Keep, header: None };
        Link, "link": "a symbolic link leads out of the document root and is not followed (docs/guides/routing.md#symbolic-links); the log says which, and why", { status: 403, connection: Keep, header: None };
        Gone, "gone": "a rule: `deny = 410`", { status: 410, connection: Keep, header: None };
        RuleFailed, "rule-failed": "a rule's pattern took too many steps, or rules rewrote the path more than ten times", { status: 500, connection: Keep, header: None };
        AuthenticationBusy, "authentication-busy": "too many passwords are being checked already; with Retry-After", { status: 503, connection: Keep, header: RETRY };
        Maintenance, "maintenance": "a rule: `maintenance`", { status: 503, connection: Keep, header: RETRY };
        NotFound, "not-found": "there is no such file and no front controller", { status: 404, connection: Keep, header: None };
        BadMethod, "bad-method": "CONNECT or TRACE", { status: 405, connection: Keep, header: ANY_METHOD };
        FileMethod, "file-method": "files, `ping_path`, `status_path` and `admin_listen` take only GET and HEAD", { status: 405, connection: Keep, header: READ_ONLY };
        HeadTimeout, "head-timeout": "the first request head of a connection did not arrive within `header_timeout`. If a later head is late, or no byte arrives at all, the connection is closed without a response", { status: 408, connection: Close, header: None };
        BodyTimeout, "body-timeout": "the request body did not arrive in time", { status: 408, connection: Close, header: None };
        OnlyIfCached, "only-if-cached": "the client wants a stored response, and there is none", { status: 504, connection: Keep, header: None };
        Precondition, "precondition": "the condition of If-Match or If-Unmodified-Since was false", { status: 412, connection: Keep, header: None };
        BodyTooLarge, "body-too-large": "the body is longer than `max_body`, or php.ini's post_max_size where no `.user.ini` may raise it", { status: 413, connection: Close, header: None };
        TargetTooLong, "target-too-long": "the target is longer than 8 KiB", { status: 414, connection: Close, header: None };
        Range, "range": "the requested range lies outside the file", { status: 416, connection: Keep, header: None };
        UnknownHost, "unknown-host": "no application has this host", { status: 421, connection: Keep, header: None };
        Misdirected, "misdirected": "the host is none of the connection's certificate, or only for clients with another certificate; a client repeats the request on a connection of its own", { status: 421, connection: Keep, header: None };
        HeadTooLarge, "head-too-large": "the head is larger than 32 KiB, or its host than 255 bytes", { status: 431, connection: Close, header: None };
        SentFile, "sent-file": "the script named a file by X-Sendfile or X-Accel-Redirect that lies outside of the directories declared for that; the log says which", { status: 500, connection: Keep, header: None };
        WorkerDied, "worker-died": "the worker died while it ran this request", { status: 502, connection: Keep, header: None };
        BadResponse, "bad-answer": "PHP's response is malformed", { status: 502, connection: Keep, header: None };
        QueueFull, "queue-full": "`queue` requests are waiting already; with Retry-After", { status: 503, connection: Keep, header: RETRY };
        ClientBusy, "client-busy": "the client's address has as many PHP requests at once as `client_requests` says; Retry-After: 1", { status: 429, connection: Keep, header: RETRY };
        RateLimit, "rate-limit": "the client's address has asked more often than one of `rate_limits` allows; Retry-After says when it may ask again", { status: 429, connection: Keep, header: None };
        QueueTimeout, "queue-timeout": "no worker was free within `queue_timeout`; with Retry-After", { status: 503, connection: Keep, header: RETRY };
        RequestMemory, "request-memory": "the worker held more memory than `request_memory`, and was killed", { status: 502, connection: Keep, header: None };
        ClientGone, "client-gone": "the client left before the response; only the access log has this status", { status: 499, connection: Keep, header: None };
        UpstreamDown, "upstream-down": "the upstream cannot be connected to; the log says why", { status: 502, connection: Keep, header: None };
        BadUpstream, "upstream-bad-response": "the upstream closed the connection without a response, or its response is malformed; the log says what is wrong", { status: 502, connection: Keep, header: None };
        UpstreamBusy, "upstream-busy": "the upstream has as many requests at once as `connections` of its rule says; with Retry-After", { status: 503, connection: Keep, header: RETRY };
        UpstreamTimeout, "upstream-timeout": "the upstream did not accept the connection or did not respond in time", { status: 504, connection: Keep, header: None };
        RequestTimeout, "request-timeout": "the request ran longer than `request_timeout`, and its worker was killed", { status: 504, connection: Keep, header: None };
    }
}

impl Refusal {
    /// Status and word.
    pub fn describe(self) -> (StatusCode, &'static str) {
        (StatusCode::from_u16(self.row().status).unwrap_or(StatusCode::BAD_REQUEST), self.word())
    }

    /// Whether the worker is being killed for this reason. Until the worker is reaped, its response may still come.
    pub const fn is_of_limit(self) -> bool {
        matches!(self, Refusal::RequestTimeout | Refusal::RequestMemory)
    }
}

/// The table in docs/reference/responses.md.
pub fn reference() -> String {
    let row = |one: Refusal| format!("| {} | `{}` | {} |\n", one.row().status, one.word(), one.text());
    "| status | word | when |\n|---|---|---|\n".to_owned() + &Refusal::ALL.map(row).concat()
}
