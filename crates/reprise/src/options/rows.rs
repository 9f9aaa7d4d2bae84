//! The rows.

use super::Kind::{self, Number, Requests, Signed, Size, Switch, Table, Text, Texts, Time};
use super::Row;
use super::Scope::{self, Application, Server};

const fn row(scope: Scope, name: &'static str, kind: Kind, default: &'static str, text: &'static str) -> Row {
    Row { name, scope, kind, default, text }
}

const DAY: u64 = 86400;

/// All of them.
pub(super) const ROWS: [Row; 63] = [
    row(Server, "listen", Texts, "[\"127.0.0.1:8080\"]", "Addresses: HOST:PORT, or unix:/PATH."),
    row(
        Server,
        "admin_listen",
        Texts,
        "[]",
        "Addresses of the metrics listener: /healthz, /readyz and /metrics (docs/operations/monitoring.md). Whoever \
         reaches them may read them.",
    ),
    row(
        Server,
        "socket_mode",
        Text,
        "\"0666\"",
        "Permissions of unix sockets, in octal. They decide which local users may connect.",
    ),
    row(
        Server,
        "socket_owner",
        Text,
        "who starts the server",
        "Owner of unix sockets. An owner other than the server's user needs root.",
    ),
    row(Server, "socket_group", Text, "the owner's", "Group of unix sockets."),
    row(
        Server,
        "name",
        Text,
        "the first address",
        "Names the state directory. Two servers on one machine need two names.",
    ),
    row(
        Server,
        "state_dir",
        Text,
        "/run/reprise/NAME; without root $XDG_RUNTIME_DIR/reprise/NAME, or /tmp/reprise-UID/NAME",
        "Directory for lock, process id and control socket, removed at a clean end. It is created with mode 0700. \
         Its path has 90 bytes at most.",
    ),
    row(Server, "access_log", Text, "\"stdout\"", "\"stdout\", \"off\" or a file; SIGUSR1 opens it again."),
    row(
        Server,
        "access_log_format",
        Text,
        "\"combined\"",
        "\"combined\": the combined format, then the duration in seconds. \"json\": one object per line, with PHP's \
         processor time and memory (docs/reference/logs.md).",
    ),
    row(
        Server,
        "proxies",
        Texts,
        "[]",
        "Addresses and networks of proxies (10.0.0.0/8, unix:). Their forwarding headers say who the client is and \
         what it asked for; PHP sees that in $_SERVER. Such headers from others are dropped.",
    ),
    row(
        Server,
        "proxy_headers",
        Text,
        "\"x-forwarded\"",
        "Which headers the proxies write: \"x-forwarded\" (X-Forwarded-For, -Proto, -Port) or \"forwarded\" (RFC \
         7239). The other kind can only come from a client, and is dropped.",
    ),
    row(
        Server,
        "front_user",
        Text,
        "reprise if there is such a user, else nobody",
        "User of the HTTP front if the server starts as root. This user must be able to read static files.",
    ),
    row(Server, "front_threads", Number(1, 16), "one per four CPUs", "Threads of the HTTP front."),
    row(
        Server,
        "max_connections",
        Number(1, 1_000_000),
        "65536, but no more than open files allow",
        "Most connections at once. Further ones wait in the kernel.",
    ),
    row(
        Server,
        "client_connections",
        Number(0, 1_000_000),
        "0",
        "Most connections at once from one client address (for IPv6 from one /64); 0: no limit. Further ones are \
         closed at once, and counted. Declared `proxies`, unix sockets and `admin_listen` have no such limit.",
    ),
    row(
        Server,
        "header_timeout",
        Time(1, DAY),
        "\"15s\"",
        "Longest time in which a client may send a request's head, and longest idle time of a kept connection.",
    ),
    row(
        Server,
        "body_timeout",
        Time(1, DAY),
        "\"60s\"",
        "Longest time between two parts of a request's body. After \
    that the response is 408.",
    ),
    row(
        Server,
        "send_timeout",
        Time(1, DAY),
        "\"60s\"",
        "Time in which a client must read a part of its response. After that its connection is closed.",
    ),
    row(Server, "drain_timeout", Time(0, DAY), "\"30s\"", "Longest time that a stop waits for running requests."),
    row(Application, "name", Text, "name of the root's directory", "For messages and logs."),
    row(Application, "root", Text, "required", "Document root. Relative paths count from the configuration file."),
    row(
        Application,
        "watch",
        Switch,
        "false",
        "Whether Reprise reloads by itself, within a second or two, when the root's symbolic link leads elsewhere or \
         a file that opcache has loaded changes.",
    ),
    row(
        Application,
        "watch_except",
        Texts,
        "[]",
        "Directories whose files may change without a reload, such as caches of PHP files that the application \
         writes. Relative paths count from the configuration file.",
    ),
    row(
        Application,
        "front_controller",
        Text,
        "\"index.php\" if the root has one",
        "Script below the root that gets all paths without a file; \"\" for none.",
    ),
    row(
        Application,
        "hosts",
        Texts,
        "[] (any host)",
        "Host names; \"*.example.org\" matches all names below. Other hosts get 421. Snapshots per host \
         (docs/guides/snapshot.md) exist for names without a pattern.",
    ),
    row(
        Application,
        "user",
        Text,
        "owner of the root; www-data if that is root",
        "User of PHP's processes if the server starts as root; never root.",
    ),
    row(
        Application,
        "workers",
        Number(1, 1024),
        "`max_workers`; four per CPU",
        "PHP workers of each lane. Each runs one request at a time. Without `max_workers`, classic mode beside a \
         snapshot lane has at most four per CPU, and lanes of scripts that `mode` does not name share this number by \
         need.",
    ),
    row(
        Application,
        "min_workers",
        Number(1, 1024),
        "as `workers`; 1 with `max_workers`",
        "Workers of each lane that always run; with `max_workers` at most that number divided by the number of \
         lanes. If it is lower than `workers`, more workers start within some 50 ms when requests wait. One worker a \
         second ends when no request has waited for ten seconds, or when other lanes need workers.",
    ),
    row(
        Application,
        "max_workers",
        Number(1, 1024),
        "any number",
        "Most PHP workers of all lanes of a generation together. A lane with waiting requests takes the places of \
         idle workers of other lanes. If all lanes have waiting requests, each gets the same number. A busy worker \
         ends after its request. Each lane has at least one worker, so the limit may be exceeded for a while. During \
         a reload there are two generations.",
    ),
    row(
        Application,
        "queue",
        Number(1, 3000),
        "1024",
        "Requests that may wait for a worker, when all `workers` are there; one more is answered 503.",
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
        "soft_timeout",
        Time(0, DAY),
        "0 (none)",
        "Wall-clock time of a request after which PHP ends it with a fatal error that says where it was. It cannot where it waits \
         outside of PHP, in a database for one; then request_timeout ends it.",
    ),
    row(
        Application,
        "request_memory",
        Size,
        "0 (any)",
        "Memory that a worker may hold while it runs a request, beyond what the process has that it was forked from (with a \
         snapshot: the snapshot's); looked at four times a second. Then it is killed and 502 answered.",
    ),
    row(
        Application,
        "limits",
        Table,
        "{}",
        "Other values of request_timeout, soft_timeout, request_memory, queue, queue_timeout and client_requests for \
         a path and all paths below it. The longest matching path counts: limits.\"/export\" = { request_timeout = \"10m\", queue = 4 }. `queue` \
         is then the number of requests of the lane that may wait when a request for the path comes. \
         `client_requests` counts only requests for the path.",
    ),
    row(
        Application,
        "client_requests",
        Number(0, 1_000_000),
        "0 (any number)",
        "PHP requests at once of one client address, waiting ones included; one more is answered 429.",
    ),
    row(
        Application,
        "slow_timeout",
        Time(0, DAY),
        "0 (never)",
        "Wall-clock time after which the log shows a request once, with its target and PHP's backtrace, while it \
         runs.",
    ),
    row(
        Application,
        "slow_headers",
        Texts,
        "[]",
        "Request headers that the log shows with a slow request: [\"User-Agent\"].",
    ),
    row(
        Application,
        "server_timing",
        Switch,
        "false",
        "Whether responses have a header Server-Timing with the time that the request waited and the time that PHP \
         took. Clients see it.",
    ),
    row(
        Application,
        "max_body",
        Size,
        "php.ini's post_max_size",
        "Longest request body in bytes; a longer one gets 413. 0: no limit. If this option is missing, PHP decides \
         for scripts with a .user.ini in their directory or above it.",
    ),
    row(
        Application,
        "follow",
        Texts,
        "[]",
        "Directories outside the root that symbolic links may lead to: files, scripts and the front controller.",
    ),
    row(
        Application,
        "mode",
        Table,
        "{}",
        "How a script runs: mode.\"index.php\" = \"auto\" (from a snapshot if it calls reprise_snapshot(), as a \
         worker script if it calls reprise_handle_request()), \"classic\" (neither), or \"snapshot\" or \"worker\" \
         (it boots before the server is ready; if the boot fails, the server does not start).",
    ),
    row(
        Application,
        "classic_paths",
        Texts,
        "[]",
        "Paths that run in classic mode, with all paths below them: \"/cart\" is /cart and /cart/checkout. For pages \
         in which `reprise verify` finds differences.",
    ),
    row(
        Application,
        "isolation",
        Text,
        "\"auto\"",
        "How requests from a snapshot are isolated: \"rewind\" (memory is restored after each), \"fork\" (a process \
         for each) or \"auto\" (rewind if the kernel supports it and requests leave no threads).",
    ),
    row(
        Application,
        "warmup",
        Requests,
        "[]",
        "Requests that the server makes to the application before it is ready, and to new code before a reload \
         switches to it. They go to the first host by http, unless their headers name another host (Host) or https \
         (X-Forwarded-Proto). A boot gets them from reprise_warmup_requests(), and can run them before its snapshot.",
    ),
    row(
        Application,
        "warmup_failure",
        Text,
        "\"refuse\"",
        "What a 5xx response to a warm-up request does: \"refuse\" (the server does not start; a reload is refused) or \"log\".",
    ),
    row(
        Application,
        "max_requests",
        Number(0, 1_000_000_000),
        "0 (any number)",
        "Number of requests after which a worker is replaced, a tenth more or less. For code that leaks. Workers \
         from a snapshot keep nothing and ignore it.",
    ),
    row(
        Application,
        "max_age",
        Time(0, 30 * DAY),
        "0 (any)",
        "Age at which a worker is replaced after its request, a tenth more or less. Workers from a snapshot ignore \
         it.",
    ),
    row(
        Application,
        "max_memory",
        Size,
        "0 (any)",
        "Most private memory that a worker may hold after a request; a worker that holds more is replaced. Workers \
         from a snapshot ignore it, because their memory is restored.",
    ),
    row(
        Application,
        "boot_timeout",
        Time(1, DAY),
        "\"60s\"",
        "Longest time a script may take to reach its snapshot or loop. After that its requests run in classic mode, \
         and Reprise tries again.",
    ),
    row(
        Application,
        "lane_timeout",
        Time(1, DAY),
        "\"10m\"",
        "Time without a request after which one of the eight lanes with a snapshot or a loop may be replaced by \
         another, in a new generation. The lane that was used least recently is replaced; a lane that the \
         configuration names is never replaced.",
    ),
    row(
        Application,
        "php_ini",
        Text,
        "that of PHP's profile",
        "A php.ini that replaces the profile's (/etc/php/8.2/fpm/php.ini); the profile's conf.d is still read. \
         Without this option, PHPRC in the server's environment may name a php.ini, or its directory, for all \
         applications.",
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
        "Environment variables for PHP, besides USER and HOME. \"$NAME\" takes the value from the server's own \
         environment.",
    ),
    row(
        Application,
        "clear_env",
        Switch,
        "true",
        "Whether the rest of the server's environment, which may contain secrets, is hidden from PHP.",
    ),
    row(
        Application,
        "rlimit_files",
        Number(1100, 1_048_576),
        "the server's hard limit",
        "Most open files of each PHP process. Reprise's own descriptors have numbers above 1000 and need some room.",
    ),
    row(
        Application,
        "rlimit_core",
        Size,
        "what the server was started with",
        "Largest core file of PHP in bytes; 0: \
    none.",
    ),
    row(
        Application,
        "rlimit_processes",
        Number(16, 1_048_576),
        "what the server was started with",
        "Most processes and threads of PHP's user, in all programs and applications of this user. A fork above the \
         limit fails. Each worker and each lane is a process; a reload has them twice.",
    ),
    row(
        Application,
        "priority",
        Signed(-20, 19),
        "0",
        "Nice value of PHP's processes. A value below the server's needs root.",
    ),
    row(
        Application,
        "capabilities",
        Text,
        "\"keep\"",
        "Capabilities of programs that PHP starts: \"keep\" (a set-user-ID program such as sudo, or a mailer, has \
         its rights) or \"none\" (the bounding set is empty: such a program runs as its user, without root's \
         capabilities). \"none\" needs root with CAP_SETPCAP.",
    ),
    row(
        Application,
        "ping_path",
        Text,
        "\"\" (none)",
        "Path with the response \"pong\" while PHP workers run, else 503. For load balancers; open to all clients.",
    ),
    row(
        Application,
        "status_path",
        Text,
        "\"\" (none)",
        "Path of PHP-FPM's status page: text, ?json, ?openmetrics, and ?full with each worker. Only for clients on \
         this machine; others get 403.",
    ),
];
