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
 * Has $hook called once in each worker that is forked from the snapshot, before its first request. A connection that it opens stays open: after each request
 * the server's side of it is put back to what the hook has left. That is so for plain connections to MariaDB, MySQL, PostgreSQL, Redis and Valkey; if a
 * hook leaves anything else open, all that it has done is undone, and the log says why. With `kept_connections` = 0, in classic mode and in fork isolation
 * no hook is called. docs/guides/connections.md says more.
 *
 * @elsewhere Does nothing.
 */
function reprise_after_fork(callable $hook): void {}

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
 * | `connections` | how many this worker has kept open: see reprise_after_fork() |
 * | `rewinds` | of this worker: `by` ("userfaultfd", "soft-dirty" or ""), `fast`, `scanned`, and the `pages` that they copied |
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

/**
 * Returns the value of $key in the data cache. If there is none, $compute is called, and what it returns is stored and returned; of all workers one
 * computes it, and the others wait for that, at most `data_cache_wait`.
 *
 * $ttl is how many seconds the value is good for; 0: until it is removed. For $stale seconds more it is still returned, and one worker computes it
 * anew after its response. With $early, a value is sometimes computed anew before its end: the sooner, the longer that takes, and the larger $early is;
 * 0: never. $tags are for reprise_cache_invalidate().
 *
 * $compute gets the number of seconds by reference, and may change it; 0 or less: its result is not stored. An exception goes to the caller, and the
 * next who asks computes; if the old value is there, it is returned instead, and the exception goes to the log. A value whose computation began before its
 * tag was invalidated, or its key removed, is returned and not stored.
 *
 * @param callable(int): mixed $compute
 * @param list<string> $tags
 * @elsewhere Keeps values in APCu or Memcached, if there is one (composer/src/Cache).
 *     return \Reprise\Cache\Fallback::of()->compute($key, $compute, $ttl, $stale, $tags, $early);
 */
function reprise_cache(string $key, callable $compute, int $ttl = 0, int $stale = 0, array $tags = [], float $early = 1.0): mixed {}

/**
 * Returns the value of $key, or $default if there is none that is good.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->fetch($key, $default);
 */
function reprise_cache_fetch(string $key, mixed $default = null): mixed {}

/**
 * Returns an array of all $keys with their values, or $default.
 *
 * @param list<string> $keys
 * @return array<string, mixed>
 * @elsewhere Works as reprise_cache() does.
 *     $values = [];
 *     foreach ($keys as $key) {
 *         $values[$key] = reprise_cache_fetch((string) $key, $default);
 *     }
 *
 *     return $values;
 */
function reprise_cache_fetch_many(array $keys, mixed $default = null): array {}

/**
 * Stores a value for $ttl seconds; 0: until it is removed. With $only_if it is stored only if the present value is that string. Returns whether it is
 * stored: it is not if it is larger than an eighth of `data_cache_memory`, or if memory that may be used again comes only when other requests have ended; then the
 * old value is gone, too. A resource, or an array nested deeper than 512 levels, is a ValueError.
 *
 * @param list<string> $tags
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->store($key, $value, $ttl, $tags, $only_if);
 */
function reprise_cache_store(string $key, mixed $value, int $ttl = 0, array $tags = [], ?string $only_if = null): bool {}

/**
 * Stores each value of an array by its key. Returns whether all are stored.
 *
 * @param array<string, mixed> $values
 * @param list<string> $tags
 * @elsewhere Works as reprise_cache() does.
 *     $all = true;
 *     foreach ($values as $key => $value) {
 *         $all = reprise_cache_store((string) $key, $value, $ttl, $tags) && $all;
 *     }
 *
 *     return $all;
 */
function reprise_cache_store_many(array $values, int $ttl = 0, array $tags = []): bool {}

/**
 * Stores a value if there is none that is good. Returns whether it is stored.
 *
 * @param list<string> $tags
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->add($key, $value, $ttl, $tags);
 */
function reprise_cache_add(string $key, mixed $value, int $ttl = 0, array $tags = []): bool {}

/**
 * Removes a value; with $only_if, only if it is that string. Returns whether there was one.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->delete($key, $only_if);
 */
function reprise_cache_delete(string $key, ?string $only_if = null): bool {}

/**
 * Removes all of $keys.
 *
 * @param list<string> $keys
 * @elsewhere Works as reprise_cache() does.
 *     foreach ($keys as $key) {
 *         reprise_cache_delete((string) $key);
 *     }
 *
 *     return true;
 */
function reprise_cache_delete_many(array $keys): bool {}

/**
 * Adds $by to a stored integer, and returns the sum. If there is none, $by is stored for $ttl seconds. Returns false if the value is no integer.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->increment($key, $by, $ttl);
 */
function reprise_cache_increment(string $key, int $by = 1, int $ttl = 0): int|false {}

/**
 * Returns what $function returns for $arguments. The result is computed once and read by all workers, without a copy if it consists of arrays and strings;
 * objects are unserialized each time. Only for pure functions: the result has to depend on the arguments alone, and on the code. Whatever depends on a visitor, the
 * language or a setting is an argument, or the function must not be used: all visitors share the results.
 *
 * A result is found by a digest of the arguments, of the function's class, name, file and line, and of the release. Without a release it depends on size and
 * times of the function's file, and ends at a reload, unless $version says that the code is the same. After a change of that file the function is called each
 * time until the next reload. What the function calls is the caller's to know: put its version into $version.
 *
 * Results have a quarter of the data cache at most. Nothing that the application stores leaves for them, and they leave first. One that is larger than a
 * 128th of the data cache is not kept, nor is one whose function throws. Two workers that need it at the same time compute it twice.
 *
 * Throws ValueError if $function is a closure, has an object or static variables, or is declared by eval(), and TypeError if $arguments has other values than null, booleans, numbers,
 * strings, and arrays of such, which may be 64 within each other.
 *
 * @param list<mixed> $arguments
 * @elsewhere Calls the function.
 *     return $function(...$arguments);
 */
function reprise_memo(callable $function, array $arguments, ?string $version = null): mixed {}

/**
 * All values with one of $tags are gone, those that are being computed too. Returns whether there is a data cache.
 *
 * @param list<string> $tags
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->invalidate($tags);
 */
function reprise_cache_invalidate(array $tags): bool {}

/**
 * Takes a lock for at most $lease seconds. Returns whether it is this request's now: false if any has it, also this one. It ends with the request, and with
 * the process.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->lock($name, $lease);
 */
function reprise_cache_lock(string $name, float $lease = 30.0): bool {}

/**
 * Gives a lock back. Returns whether it was this request's.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->unlock($name);
 */
function reprise_cache_unlock(string $name): bool {}

/**
 * All values of the application are gone.
 *
 * @elsewhere Works as reprise_cache() does.
 *     return \Reprise\Cache\Fallback::of()->flush();
 */
function reprise_cache_flush(): bool {}

/**
 * Returns a string that reprise_store_write() has put into `data_cache_store`; null: there is none; false: the store cannot be asked, or there is none.
 *
 * @return string|false|null
 * @elsewhere There is no store.
 *     return false;
 */
function reprise_store_read(string $key): mixed {}

/**
 * Puts a string into `data_cache_store`, for $ttl seconds; 0: for thirty days. It lies there alone: no worker keeps a copy, and neither reprise_cache_flush()
 * nor eviction in this server removes it. It is for what must not be lost, such as sessions. Returns false if the store has not taken it.
 *
 * @elsewhere There is no store.
 *     return false;
 */
function reprise_store_write(string $key, string $value, int $ttl): bool {}

/**
 * Removes what reprise_store_write() has put there. Returns false if the store cannot be asked.
 *
 * @elsewhere There is no store.
 *     return false;
 */
function reprise_store_remove(string $key): bool {}

/**
 * Returns what the data cache holds and has counted: `hits`, `misses`, `stale`, `stores`, `waits`, `computed`, `entries`, `bytes` of them, `memory`, the
 * `largest` value in bytes, `evicted` entries, `refused` stores, bytes `held` by requests that may still use removed values, the process that is the `holder`
 * of the oldest, and `swept` and `taken_over`: processes that died in the middle of something. With `data_cache_store` also whether the `store` is
 * `ready` or `away`. An empty array if there is no data cache.
 *
 * @return array<string, int|string>
 * @elsewhere Returns an empty array.
 *     return [];
 */
function reprise_cache_stats(): array {}
