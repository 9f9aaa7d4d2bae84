//! Every option of the configuration file, one row each. The reference, `reprise check` and the error messages come from
//! these rows.

use std::time::Duration;

/// Where an option may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At the top of the file.
    Server,
    /// Below `[[application]]`.
    Application,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// A whole number within these bounds, of which the lower is negative.
    Signed(i64, i64),
    /// true or false.
    Switch,
    /// A string such as "500ms", "30s", "5m", or a number of seconds; within these seconds.
    Time(u64, u64),
    /// A string such as "512K", "8M", "2G", or a number of bytes; 0: any.
    Size,
    /// A table of strings, numbers and booleans.
    Table,
    /// A list of requests: paths, or tables of method, path and headers.
    Requests,
}

/// One option.
#[derive(Debug)]
pub struct Row {
    /// As written in the file.
    pub name: &'static str,
    /// Where it stands.
    pub scope: Scope,
    /// What it takes.
    pub kind: Kind,
    /// Default, in words.
    pub default: &'static str,
    /// What it does, and why no default could serve everybody.
    pub text: &'static str,
}

const fn row(scope: Scope, name: &'static str, kind: Kind, default: &'static str, text: &'static str) -> Row {
    Row { name, scope, kind, default, text }
}

use Kind::{Number, Requests, Signed, Size, Switch, Table, Text, Texts, Time};
use Scope::{Application, Server};

const DAY: u64 = 86400;

/// All of them. A change needs a restart.
pub const ROWS: [Row; 42] = [
    row(Server, "listen", Texts, "[\"127.0.0.1:8080\"]", "Addresses: HOST:PORT, or unix:/PATH."),
    row(
        Server,
        "socket_mode",
        Text,
        "\"0666\"",
        "Permissions of unix sockets, in octal: open to all local users or not.",
    ),
    row(
        Server,
        "socket_owner",
        Text,
        "who starts the server",
        "Owner of unix sockets; another than oneself needs root.",
    ),
    row(Server, "socket_group", Text, "the owner's", "Group of unix sockets."),
    row(
        Server,
        "name",
        Text,
        "the first address",
        "Names the state directory; two servers on one machine need two names.",
    ),
    row(
        Server,
        "state_dir",
        Text,
        "/run/reprise/NAME; without root $XDG_RUNTIME_DIR/reprise/NAME",
        "Lock and process id. Made with mode 0700.",
    ),
    row(Server, "access_log", Text, "\"stdout\"", "\"stdout\", \"off\" or a file; SIGUSR1 opens it again."),
    row(
        Server,
        "access_log_format",
        Text,
        "\"combined\"",
        "\"combined\": the combined format with the duration in seconds behind it; \"json\": one object a line, with \
         processor time and memory of PHP too (docs/logs.md).",
    ),
    row(
        Server,
        "proxies",
        Texts,
        "[]",
        "Addresses and networks (10.0.0.0/8, unix:) whose forwarding headers say who the client is and what it asked; PHP \
         sees that in $_SERVER. From others such headers are dropped.",
    ),
    row(
        Server,
        "proxy_headers",
        Text,
        "\"x-forwarded\"",
        "Which headers the proxies write: \"x-forwarded\" (X-Forwarded-For, -Proto, -Port) or \"forwarded\" (RFC 7239). The \
         others can only come from a client, and are dropped.",
    ),
    row(
        Server,
        "front_user",
        Text,
        "reprise if there is such a user, else nobody",
        "User of the HTTP front when started as root. It must be able to read static files.",
    ),
    row(Server, "front_threads", Number(1, 16), "one per four CPUs", "Threads of the HTTP front."),
    row(
        Server,
        "max_connections",
        Number(1, 1_000_000),
        "65536, but no more than open files allow",
        "Connections at once; further ones wait in the kernel.",
    ),
    row(
        Server,
        "header_timeout",
        Time(1, DAY),
        "\"15s\"",
        "Time to send a request's head, and idle time of a kept connection.",
    ),
    row(Server, "body_timeout", Time(1, DAY), "\"60s\"", "Time between two parts of a request's body, then 408."),
    row(
        Server,
        "send_timeout",
        Time(1, DAY),
        "\"60s\"",
        "Time in which a client must take some of its answer; then it is cut off.",
    ),
    row(Server, "drain_timeout", Time(0, DAY), "\"30s\"", "How long a stop waits for running requests."),
    row(Application, "name", Text, "name of the root's directory", "For messages and logs."),
    row(Application, "root", Text, "required", "Document root. Relative paths count from the configuration file."),
    row(
        Application,
        "front_controller",
        Text,
        "\"index.php\" if the root has one",
        "Script below the root that answers what is no file; \"\" for none.",
    ),
    row(
        Application,
        "hosts",
        Texts,
        "[] (any host)",
        "Host names, \"*.example.org\" for all below; others are answered 421.",
    ),
    row(
        Application,
        "user",
        Text,
        "owner of the root; www-data if that is root",
        "User PHP runs as when started as root; never root.",
    ),
    row(
        Application,
        "workers",
        Number(1, 1024),
        "four per CPU",
        "PHP workers of each lane. Each runs one request at a time. Beside a snapshot lane classic mode has four per CPU at most.",
    ),
    row(
        Application,
        "queue",
        Number(1, 3000),
        "1024",
        "Requests that may wait for a worker; one more is answered 503.",
    ),
    row(Application, "queue_timeout", Time(1, DAY), "\"30s\"", "How long a request waits for a worker, then 503."),
    row(
        Application,
        "request_timeout",
        Time(0, DAY),
        "\"5m\"",
        "Wall-clock time of a request in PHP; then its worker is killed and 504 answered. 0: none.",
    ),
    row(
        Application,
        "max_body",
        Size,
        "PHP's post_max_size",
        "Bytes of a request's body; more is answered 413. 0: any number.",
    ),
    row(Application, "follow", Texts, "[]", "Directories outside the root that symbolic links may lead to."),
    row(
        Application,
        "mode",
        Table,
        "{}",
        "How a script runs: mode.\"index.php\" = \"auto\" (from a snapshot if it calls reprise_snapshot(), in a loop if it calls \
         reprise_handle_request()), \"classic\" (never), or \"snapshot\" or \"worker\" (booted before the server is ready, \
         which does not start without).",
    ),
    row(
        Application,
        "isolation",
        Text,
        "\"auto\"",
        "How requests are kept apart after a snapshot: \"rewind\" (memory is put back), \"fork\" (a process each) or \
         \"auto\" (rewind where the kernel can and requests leave no threads).",
    ),
    row(
        Application,
        "warmup",
        Requests,
        "[]",
        "Requests that reprise_warmup_requests() tells a boot of: it runs them through the application before its snapshot.",
    ),
    row(
        Application,
        "max_requests",
        Number(0, 1_000_000_000),
        "0 (any number)",
        "Requests after which a worker of a worker script is replaced, a tenth more or less; for code that leaks.",
    ),
    row(
        Application,
        "boot_timeout",
        Time(1, DAY),
        "\"60s\"",
        "How long a script may take to its snapshot; then its requests run in classic mode and another try follows.",
    ),
    row(
        Application,
        "ini",
        Table,
        "{}",
        "php.ini settings; they win over php.ini. Scripts and .user.ini may change them. Error levels may be written as in \
         php.ini: \"E_ALL & ~E_DEPRECATED\".",
    ),
    row(
        Application,
        "admin_ini",
        Table,
        "{}",
        "php.ini settings that neither scripts nor .user.ini can change (PHP-FPM's php_admin_value).",
    ),
    row(
        Application,
        "env",
        Table,
        "{}",
        "Environment of PHP, beside USER and HOME. \"$NAME\" takes the value from the server's own environment.",
    ),
    row(
        Application,
        "clear_env",
        Switch,
        "true",
        "Whether PHP is kept from seeing the rest of the server's environment, which may hold secrets of others.",
    ),
    row(
        Application,
        "rlimit_files",
        Number(1100, 1_048_576),
        "the server's hard limit",
        "Open files of each PHP process. Reprise's own are numbered above 1000: they need some room.",
    ),
    row(Application, "rlimit_core", Size, "what the server was started with", "Bytes of a core file of PHP; 0: none."),
    row(
        Application,
        "priority",
        Signed(-20, 19),
        "0",
        "Nice value of PHP's processes; below that of the server needs root.",
    ),
    row(
        Application,
        "ping_path",
        Text,
        "\"\" (none)",
        "Path that answers \"pong\" while PHP workers are there, else 503. For load balancers; open to all.",
    ),
    row(
        Application,
        "status_path",
        Text,
        "\"\" (none)",
        "Path of PHP-FPM's status page: text, ?json, ?openmetrics, and ?full with each worker. Only for this machine: 403 to others.",
    ),
];

/// The row of a name.
pub fn find(scope: Scope, name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.scope == scope && row.name == name)
}

/// The name nearest to a wrong one, if any is near.
pub fn nearest(scope: Scope, wrong: &str) -> Option<&'static str> {
    let names = ROWS.iter().filter(|row| row.scope == scope).map(|row| row.name);
    let names = names.chain((scope == Server).then_some("application"));
    names
        .map(|name| (distance(name, wrong), name))
        .filter(|(distance, name)| *distance <= 3.max(name.len() / 3))
        .min()
        .map(|(_, name)| name)
}

/// Edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut line: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = line[0];
        line[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = line[j + 1];
            line[j + 1] = changed.min(line[j] + 1).min(diagonal + 1);
        }
    }
    line[b.len()]
}

/// "500ms", "30s", "5m", "1h".
pub fn parse_time(text: &str) -> Option<Duration> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let milliseconds = match &text[split..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// "512K", "8M", "2G", plain bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let unit = match text[split..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// What a kind takes, for messages and the reference.
pub fn describe(kind: Kind) -> String {
    match kind {
        Text => "text".to_owned(),
        Texts => "list of texts".to_owned(),
        Number(low, high) => format!("number, {low} to {high}"),
        Signed(low, high) => format!("number, {low} to {high}"),
        Switch => "true or false".to_owned(),
        Time(..) => "time (\"500ms\", \"30s\", \"5m\")".to_owned(),
        Size => "size (\"512K\", \"8M\")".to_owned(),
        Table => "table".to_owned(),
        Requests => "list of paths, or of tables { method, path, headers }".to_owned(),
    }
}

/// The reference, as in docs/configuration.md.
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration\n\nGenerated by `reprise check --options`. The file is TOML; options of the server stand at its \
         top, each application\nbegins with `[[application]]`. Flags win over the file, the file over defaults. A change \
         needs a restart.\n",
    );
    for (scope, title) in [(Server, "Server"), (Application, "Application")] {
        text.push_str(&format!("\n## {title}\n\n| option | takes | default | |\n|---|---|---|---|\n"));
        for row in ROWS.iter().filter(|row| row.scope == scope) {
            text.push_str(&format!("| `{}` | {} | {} | {} |\n", row.name, describe(row.kind), row.default, row.text));
        }
    }
    text.push_str(
        "\n## Fixed limits\n\n| what | limit | answer |\n|---|---|---|\n| request head as PHP gets it | 32 KiB | 431 |\n\
         | header lines | 100 | 431 |\n| request target | 8 KiB | 414 |\n| answer's head | 256 KiB | 500 |\n\
         | header name passed to PHP | 250 bytes, letters, digits and `-` | dropped |\n\
         | rate of a body larger than 16 KiB, on average, after `body_timeout` | 500 bytes a second | 408 |\n\
         | requests in flight per lane | 4096 | 503 |\n| workers per lane | 1024 | |\n\
         | lanes per application | classic and 8 with a snapshot | the others run in classic mode |\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest(Server, "lisen"), Some("listen"));
        assert_eq!(nearest(Application, "worker"), Some("workers"));
        assert_eq!(nearest(Application, "front_controler"), Some("front_controller"));
        assert_eq!(nearest(Server, "applications"), Some("application"));
        assert_eq!(nearest(Server, "zzzzzzzzz"), None);
    }

    #[test]
    fn times_and_sizes_are_understood() {
        assert_eq!(parse_time("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_time("5m"), Some(Duration::from_secs(300)));
        assert_eq!(parse_time("5 m"), None);
        assert_eq!(parse_time(""), None);
        assert_eq!(parse_size("8M"), Some(8 << 20));
        assert_eq!(parse_size("99999999999G"), None);
        assert_eq!(parse_size("8X"), None);
    }

    #[test]
    fn the_reference_in_docs_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == reference(), "run: target/release/reprise check --options > docs/configuration.md");
    }
}
