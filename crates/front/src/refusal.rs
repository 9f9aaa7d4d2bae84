//! The front's own answers: why a request was refused, as status, header and page. The words are the same in the access
//! log, the header `Reprise-Refused` and the documentation.

use http::StatusCode;

/// The header that says so.
pub const HEADER: &str = "reprise-refused";

/// Why the front answered by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A request line or a header is malformed.
    BadRequest,
    /// No Host header, two of them, or one that is no host.
    BadHost,
    /// Two lines of a header that has one value.
    RepeatedHeader,
    /// Malformed target, or `..` above the root.
    BadTarget,
    /// A target that begins neither with `/` nor with `http://` or `https://`.
    BadScheme,
    /// Both Content-Length and Transfer-Encoding, or a body that breaks its framing.
    BadFraming,
    /// A method the front does not pass on (CONNECT, TRACE).
    BadMethod,
    /// The first head of a connection did not come in time.
    HeadTimeout,
    /// The body did not come in time.
    BodyTimeout,
    /// The body is longer than allowed.
    BodyTooLarge,
    /// The target is longer than allowed.
    TargetTooLong,
    /// The head is larger than allowed.
    HeadTooLarge,
    /// No application has this host.
    UnknownHost,
    /// There is nothing of that name.
    NotFound,
    /// The front's user may not read the file.
    Forbidden,
    /// A file answers only GET and HEAD.
    FileMethod,
    /// If-Match or If-Unmodified-Since did not hold.
    Precondition,
    /// The range is not in the file.
    Range,
    /// All places for waiting requests are taken.
    QueueFull,
    /// Its client has as many requests as it may have at once.
    ClientBusy,
    /// It waited too long for a worker.
    QueueTimeout,
    /// Its worker died.
    WorkerDied,
    /// It ran longer than allowed, and its worker was killed.
    RequestTimeout,
    /// Its worker held more memory than allowed, and was killed.
    RequestMemory,
    /// PHP's answer made no sense.
    BadAnswer,
    /// Its client left before it was answered.
    ClientGone,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 26] = [
        Refusal::BadRequest,
        Refusal::BadHost,
        Refusal::RepeatedHeader,
        Refusal::BadTarget,
        Refusal::BadScheme,
        Refusal::BadFraming,
        Refusal::BadMethod,
        Refusal::HeadTimeout,
        Refusal::BodyTimeout,
        Refusal::BodyTooLarge,
        Refusal::TargetTooLong,
        Refusal::HeadTooLarge,
        Refusal::UnknownHost,
        Refusal::NotFound,
        Refusal::Forbidden,
        Refusal::FileMethod,
        Refusal::Precondition,
        Refusal::Range,
        Refusal::QueueFull,
        Refusal::ClientBusy,
        Refusal::QueueTimeout,
        Refusal::WorkerDied,
        Refusal::RequestTimeout,
        Refusal::RequestMemory,
        Refusal::BadAnswer,
        Refusal::ClientGone,
    ];

    /// Status and words.
    pub fn describe(self) -> (StatusCode, &'static str) {
        match self {
            Refusal::BadRequest => (StatusCode::BAD_REQUEST, "bad-request"),
            Refusal::BadHost => (StatusCode::BAD_REQUEST, "bad-host"),
            Refusal::RepeatedHeader => (StatusCode::BAD_REQUEST, "repeated-header"),
            Refusal::BadTarget => (StatusCode::BAD_REQUEST, "bad-target"),
            Refusal::BadScheme => (StatusCode::BAD_REQUEST, "bad-scheme"),
            Refusal::BadFraming => (StatusCode::BAD_REQUEST, "bad-framing"),
            Refusal::BadMethod => (StatusCode::METHOD_NOT_ALLOWED, "bad-method"),
            Refusal::HeadTimeout => (StatusCode::REQUEST_TIMEOUT, "head-timeout"),
            Refusal::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "body-timeout"),
            Refusal::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
            Refusal::TargetTooLong => (StatusCode::URI_TOO_LONG, "target-too-long"),
            Refusal::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large"),
            Refusal::UnknownHost => (StatusCode::MISDIRECTED_REQUEST, "unknown-host"),
            Refusal::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            Refusal::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Refusal::FileMethod => (StatusCode::METHOD_NOT_ALLOWED, "file-method"),
            Refusal::Precondition => (StatusCode::PRECONDITION_FAILED, "precondition"),
            Refusal::Range => (StatusCode::RANGE_NOT_SATISFIABLE, "range"),
            Refusal::QueueFull => (StatusCode::SERVICE_UNAVAILABLE, "queue-full"),
            Refusal::ClientBusy => (StatusCode::TOO_MANY_REQUESTS, "client-busy"),
            Refusal::QueueTimeout => (StatusCode::SERVICE_UNAVAILABLE, "queue-timeout"),
            Refusal::WorkerDied => (StatusCode::BAD_GATEWAY, "worker-died"),
            Refusal::RequestTimeout => (StatusCode::GATEWAY_TIMEOUT, "request-timeout"),
            Refusal::RequestMemory => (StatusCode::BAD_GATEWAY, "request-memory"),
            Refusal::BadAnswer => (StatusCode::BAD_GATEWAY, "bad-answer"),
            // nginx's status for it, which only the log shows.
            Refusal::ClientGone => (StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST), "client-gone"),
        }
    }

    /// Whether its worker is being killed for it: until that is reaped, it may still answer.
    pub const fn is_of_limit(self) -> bool {
        matches!(self, Refusal::RequestTimeout | Refusal::RequestMemory)
    }

    /// Whether the connection cannot be used for another request. Behind one whose client has only ended its input more may wait.
    pub const fn closes(self) -> bool {
        matches!(
            self,
            Refusal::BadRequest
                | Refusal::BadHost
                | Refusal::RepeatedHeader
                | Refusal::TargetTooLong
                | Refusal::BadScheme
                | Refusal::BadFraming
                | Refusal::HeadTimeout
                | Refusal::BodyTimeout
                | Refusal::BodyTooLarge
                | Refusal::HeadTooLarge
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_row_in_the_documentation() {
        let rows = include_str!("../../../docs/reference/responses.md");
        for (status, word) in Refusal::ALL.map(Refusal::describe) {
            assert!(
                rows.contains(&format!("\n| {} | `{word}` |", status.as_u16())),
                "docs/reference/responses.md has no {word}"
            );
        }
    }
}
