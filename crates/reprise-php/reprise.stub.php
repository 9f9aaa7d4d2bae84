<?php

/**
 * The functions that Reprise adds to PHP. The build makes their argument descriptions and the function table from this file.
 * `scripts/docs --functions` makes docs/reference/functions.md and composer/src/stubs.php. The latter declares functions for other
 * servers: behind `@elsewhere` a comment says in a sentence what the function does there, and has its code in the lines below.
 */

/**
 * Sends the response and lets the script go on without its client. Returns false if the response was sent before.
 *
 * @elsewhere Calls PHP-FPM's function if there is one. Otherwise nothing is sent before the end.
 *     return function_exists('fastcgi_finish_request') && fastcgi_finish_request();
 */
function reprise_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function fastcgi_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function frankenphp_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function litespeed_finish_request(): bool {}

/**
 * Writes a line to the server's log. $level is a syslog priority, 0 (emergency) to 7 (debug). $context is appended as JSON.
 *
 * @param array<mixed> $context
 * @elsewhere Writes to PHP's error log.
 *     error_log($context === [] ? $message : $message . ' ' . json_encode($context, JSON_PARTIAL_OUTPUT_ON_ERROR));
 */
function reprise_log(string $message, int $level = 6, array $context = []): void {}

/**
 * Ends the boot: everything before the call runs once, everything after it runs once per request, each time from the same
 * memory. In classic mode the call does nothing.
 *
 * With $per_host there is a snapshot for each host that the option `hosts` names, and for each of http and https. The boot of each
 * runs as a request of that host. Requests of any other host run in classic mode.
 *
 * @elsewhere Does nothing: the script goes on.
 */
function reprise_snapshot(bool $per_host = false): void {}

/**
 * Waits for a request and runs $handler for it. Returns true if the loop is to go on, and false if there will be no further
 * request: the script then ends. In classic mode $handler runs for the one request of the script, and the call returns false.
 *
 * A request that calls exit() ends the script after its response, and a fresh run of the script takes the next request. PHP
 * runs no `finally` block on exit(), so what the application keeps may belong to that request. With $survives_exit the loop goes on:
 * use it in scripts that reset their own state.
 *
 * @elsewhere Runs $handler for the one request of the script.
 *     $handler();
 *
 *     return false;
 */
function reprise_handle_request(callable $handler, bool $survives_exit = false): bool {}

/** @implementation-alias reprise_handle_request */
function frankenphp_handle_request(callable $handler, bool $survives_exit = false): bool {}

/**
 * Returns the requests that the option `warmup` lists, each with `method`, `path` and `headers` (name => value). A boot passes
 * them through its application, so that what they build is part of the snapshot.
 *
 * @return list<array{method: string, path: string, headers: array<string, string>}>
 * @elsewhere Returns an empty list.
 *     return [];
 */
function reprise_warmup_requests(): array {}

/**
 * Returns what runs this request:
 *
 * | key | value |
 * |---|---|
 * | `version` | of Reprise |
 * | `mode` | "classic", "worker" or "snapshot" |
 * | `isolation` | "none", "rewind" or "fork" |
 * | `application` | its name |
 * | `hosts` | the host names that the configuration gives the application, without patterns |
 * | `generation` | the number of the application's generation |
 * | `slot`, `pid` | the worker |
 * | `requests` | how many requests this worker has taken |
 * | `rewinds` | of this worker: `fast`, `scanned`, and the `pages` that they copied |
 * | `recycles` | how many workers of the lane were recycled, by reason |
 *
 * @return array<string, mixed>
 * @elsewhere Returns the mode "none" alone.
 *     return ['mode' => 'none'];
 */
function reprise_info(): array {}

/**
 * Returns the state of the application's workers, of all its lanes, in the form in which PHP-FPM describes a pool. Returns false
 * in a boot, in a child process that the script forked, and if the front does not respond.
 */
function fpm_get_status(): array|false {}

/**
 * Returns the request's headers. The names are in title case.
 */
function getallheaders(): array {}

/** @implementation-alias getallheaders */
function apache_request_headers(): array {}

/**
 * Returns the response's headers that are set so far, by name.
 */
function apache_response_headers(): array {}

/**
 * Purges stored responses of this application from the cache of responses: those with one of $tags, those of $urls (path and query, or
 * with scheme and host before them), those whose URL begins with one of $prefixes, or $all. With $soft they become stale: they may be sent
 * while they are renewed. Returns when that has taken effect. False: it has not, because the server's front does not respond.
 *
 * @param list<string> $tags
 * @param list<string> $urls
 * @param list<string> $prefixes
 * @elsewhere Returns false.
 *     return false;
 */
function reprise_cache_purge(array $tags = [], array $urls = [], array $prefixes = [], bool $all = false, bool $soft = false): bool {}

/**
 * Ends the request with 304 if the client, or the cache that asks for it, has the page already: if If-None-Match has $etag, or if the page was not
 * changed after If-Modified-Since. Otherwise the response gets ETag and Last-Modified, and the script goes on. $etag needs no quotes; $last_modified
 * are seconds since 1970. For a request with a cookie $last_modified counts only beside an $etag: two visitors may see two pages of one time.
 *
 * @elsewhere Does the same with header() and exit.
 *     $tag = $etag === null || preg_match('~^(W/)?".*"$~', $etag) ? $etag : '"' . $etag . '"';
 *     $time = isset($_SERVER['HTTP_COOKIE']) && $tag === null ? null : $last_modified;
 *     $known = $_SERVER['HTTP_IF_NONE_MATCH'] ?? null;
 *     $same = false;
 *     if ($tag !== null) {
 *         header('ETag: ' . $tag);
 *         $bare = static fn (string $one): string => preg_replace('~^W/~', '', trim($one));
 *         $same = $known !== null && ($known === '*' || in_array($bare($tag), array_map($bare, explode(',', $known)), true));
 *     }
 *     if ($time !== null) {
 *         header('Last-Modified: ' . gmdate('D, d M Y H:i:s', $time) . ' GMT');
 *         $since = $known === null ? strtotime($_SERVER['HTTP_IF_MODIFIED_SINCE'] ?? '') : false;
 *         $same = $same || ($since !== false && $time <= $since);
 *     }
 *     if ($same && in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)) {
 *         http_response_code(304);
 *         exit;
 *     }
 */
function reprise_not_modified(?string $etag = null, ?int $last_modified = null): void {}
