<?php

declare(strict_types=1);

namespace Reprise;

/**
 * Requests that the boot makes of its own, so that what an application builds lazily is built: services, compiled
 * templates, patterns. They come from the server (reprise_warmup_requests()) and from REPRISE_WARMUP, paths with spaces
 * between. The application sees them in the superglobals, as it sees any other.
 *
 * @internal
 */
final class WarmUp
{
    /**
     * @param callable(array{method: string, path: string, headers: array<string, string>}): mixed $handle returns the status, or nothing
     * @param null|string $otherwise the path that is requested if there are no warm-up requests
     */
    public static function run(callable $handle, ?string $otherwise = null): void
    {
        $requests = self::requests();
        if ($requests === [] && $otherwise !== null) {
            $requests = [['method' => 'GET', 'path' => $otherwise, 'headers' => []]];
        }
        foreach ($requests as $request) {
            self::one($request, $handle);
        }
    }

    /** @return list<array{method: string, path: string, headers: array<string, string>}> */
    public static function requests(): array
    {
        $paths = (string) ($_SERVER['REPRISE_WARMUP'] ?? (getenv('REPRISE_WARMUP') ?: ''));
        $requests = reprise_warmup_requests();
        foreach (preg_split('/\s+/', $paths, -1, PREG_SPLIT_NO_EMPTY) ?: [] as $path) {
            $requests[] = ['method' => 'GET', 'path' => $path, 'headers' => []];
        }

        return $requests;
    }

    /** @param array{method: string, path: string, headers: array<string, string>} $request */
    private static function one(array $request, callable $handle): void
    {
        $kept = [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST];
        [$level, $headers] = [ob_get_level(), headers_list()];
        self::pretend($request);
        ob_start();
        try {
            $status = $handle($request);
        } finally {
            while (ob_get_level() > $level) {
                ob_end_clean();
            }
            self::forgetSession();
            // What the boot has sent is part of every answer; this is not of the boot.
            header_remove();
            http_response_code(200);
            foreach ($headers as $header) {
                header($header, false);
            }
            [$_SERVER, $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST] = $kept;
        }
        if (is_int($status) && $status >= 500) {
            reprise_log("warm-up: {$request['method']} {$request['path']} answers $status", LOG_WARNING);
        }
    }

    /**
     * Has the superglobals ask for it.
     *
     * @param array{method: string, path: string, headers: array<string, string>} $request
     */
    public static function pretend(array $request): void
    {
        $query = (string) parse_url('http://host' . $request['path'], PHP_URL_QUERY);
        $_SERVER['REQUEST_METHOD'] = $request['method'];
        $_SERVER['REQUEST_URI'] = $request['path'];
        $_SERVER['QUERY_STRING'] = $query;
        parse_str($query, $_GET);
        [$_POST, $_COOKIE, $_FILES] = [[], [], []];
        foreach ($request['headers'] as $name => $value) {
            $key = strtoupper(strtr($name, '-', '_'));
            $_SERVER[in_array($key, ['CONTENT_TYPE', 'CONTENT_LENGTH'], true) ? $key : "HTTP_$key"] = $value;
            if ($key === 'COOKIE') {
                parse_str(strtr($value, ['&' => '%26', '+' => '%2B', '; ' => '&', ';' => '&']), $_COOKIE);
            }
        }
        $_REQUEST = $_GET;
    }

    /** As the end of a request does. */
    private static function forgetSession(): void
    {
        if (!extension_loaded('session')) {
            return;
        }
        if (session_status() === PHP_SESSION_ACTIVE) {
            session_write_close();
        }
        unset($_SESSION);
        if (session_id() !== '') {
            session_id('');
        }
    }
}
