<?php
// adapter.php PORT: a TCP proxy before Reprise at PORT; prints its own port, and ends when standard input does. The tests of the dev server print whole heads, to the letter as the dev server
// writes them. Here they get that form. Nothing else is changed:
//
//   connections     one answer each, then they are closed, as by the dev server
//   Host            is repeated in the answer, as by the dev server; a request without gets one (RFC 9112, 3.2)
//   order of lines  Host, Date, Connection, then what PHP sent as it sent it; no Server
//   names           Content-type and the like as PHP spells them; HTTP does not tell the case apart
//   framing         Transfer-Encoding is undone; Content-Length goes where PHP has not sent it
//   reason          PHP has no words for 422 (main/http_status_codes.h); those of an answer mean nothing (RFC 9112, 4)

class Connection {
    public $server;
    private string $head = '';
    private int $sent = 0;
    private bool $head_is_sent = false;
    private bool $has_host = true;
    private string $answer = '';

    public function __construct(public $client, int $port) {
        $this->server = stream_socket_client("tcp://127.0.0.1:$port", timeout: 10.0);
    }

    /** What the client sends goes on at once; only the line ends that may be the head's last wait for what follows. */
    public function forward(string $data): void {
        if ($this->head_is_sent) {
            $this->write($this->server, $data);
            return;
        }
        $this->head .= $data;
        if (!preg_match('/\r?\n(?=\r?\n)/', $this->head, $match, PREG_OFFSET_CAPTURE)) {
            $ready = strlen(rtrim($this->head, "\r\n"));
            $this->write($this->server, substr($this->head, $this->sent, max(0, $ready - $this->sent)));
            $this->sent = max($ready, $this->sent);
            return;
        }
        $end = $match[0][1] + strlen($match[0][0]);
        $this->has_host = (bool) preg_match('/^Host:/mi', substr($this->head, 0, $end));
        $host = $this->has_host ? '' : "Host: localhost\r\n";
        $this->write($this->server, substr($this->head, $this->sent, $end - $this->sent) . $host . substr($this->head, $end));
        $this->head_is_sent = true;
    }

    /** True when the answer is whole and has been passed on. */
    public function answer(string $data): bool {
        $this->answer .= $data;
        $parts = explode("\r\n\r\n", $this->answer, 2);
        if (count($parts) < 2) {
            return $data === '';
        }
        $lines = explode("\r\n", $parts[0]);
        $status = array_shift($lines);
        $headers = array_map(fn($line) => explode(': ', $line, 2), $lines);
        $body = $this->body($status, array_column($headers, 1, 0), $parts[1], $data === '');
        if ($body === null) {
            return false;
        }
        $status = preg_replace('/(?<= 422) .*/', ' Unknown Status Code', $status);
        $this->write($this->client, implode("\r\n", [$status, ...$this->dress($headers), '', $body]));
        return true;
    }

    /** Null unless it is whole. */
    private function body(string $status, array $headers, string $bytes, bool $is_end): ?string {
        if (str_starts_with($this->head, 'HEAD ') || preg_match('/^\S+ (204|304)/', $status)) {
            return '';
        }
        if (isset($headers['content-length'])) {
            return strlen($bytes) >= (int) $headers['content-length'] ? $bytes : null;
        }
        if (!isset($headers['transfer-encoding'])) {
            return $is_end ? $bytes : null;
        }
        for ($body = ''; preg_match('/^([0-9a-f]+)\r\n/i', $bytes, $match); $bytes = substr($bytes, $size + 2)) {
            $size = hexdec($match[1]);
            $bytes = substr($bytes, strlen($match[0]));
            if ($size === 0) {
                return $body;
            }
            if (strlen($bytes) < $size + 2) {
                return null;
            }
            $body .= substr($bytes, 0, $size);
        }
        return null;
    }

    private function dress(array $headers): array {
        $names = array_column($headers, 0);
        // From 8.4 on the dev server's own pages, which prepend.php marks, have X-Powered-By too.
        $is_php = in_array('x-powered-by', $names, true) && !in_array('x-dev-server', $names, true);
        // The front's own Date is the last line; one of PHP's stays where it is.
        $date = end($headers)[0] === 'date' ? [array_pop($headers)] : [];
        $host = $this->has_host && preg_match('/^Host:[ \t]*(\S+)/mi', $this->head, $match) ? [['Host', $match[1]]] : [];
        $lines = [];
        foreach ([...$host, ...$date, ['Connection', 'close'], ...$headers] as [$name, $value]) {
            $is_lengths = $is_php && $name === 'content-length';
            if (!in_array($name, ['server', 'connection', 'transfer-encoding', 'x-dev-server'], true) && !$is_lengths) {
                $name = strtr(ucwords($name, '-'), ['Www-' => 'WWW-']);
                $lines[] = ($is_php && $name === 'Content-Type' ? 'Content-type' : $name) . ": $value";
            }
        }
        return $lines;
    }

    private function write($stream, string $data): void {
        for (; $data !== ''; $data = substr($data, $written)) {
            $written = @fwrite($stream, $data);
            if (!$written) {
                return;
            }
        }
    }
}

/** Passes on what comes, until standard input ends. */
function serve($listener, int $port): void {
    /** @var Connection[] */
    $connections = [];
    for (;;) {
        $read = ['end ' => STDIN, 'new ' => $listener];
        foreach ($connections as $key => $connection) {
            $read["client $key"] = $connection->client;
            $read["server $key"] = $connection->server;
        }
        $write = $except = null;
        stream_select($read, $write, $except, null);
        foreach ($read as $name => $stream) {
            [$side, $key] = explode(' ', $name);
            if ($side === 'end') {
                return;
            } elseif ($side === 'new') {
                $connections[] = new Connection(stream_socket_accept($listener), $port);
            } elseif (isset($connections[$key])) {
                $connection = $connections[$key];
                $data = (string) fread($stream, 65536);
                if ($side === 'client' && $data !== '') {
                    $connection->forward($data);
                } elseif ($side === 'client' || $connection->answer($data) || $data === '') {
                    fclose($connection->client);
                    fclose($connection->server);
                    unset($connections[$key]);
                }
            }
        }
    }
}

[, $port] = $argv;
$listener = stream_socket_server('tcp://127.0.0.1:0');
echo (int) substr(strrchr(stream_socket_get_name($listener, false), ':'), 1), "\n";
serve($listener, (int) $port);
