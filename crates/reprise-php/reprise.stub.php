<?php

/**
 * The functions Reprise adds to PHP. The build generates their argument descriptions from this file.
 */

/** Sends the answer and lets the script go on without its client. False if that was done before. */
function reprise_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function fastcgi_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function frankenphp_finish_request(): bool {}

/** @implementation-alias reprise_finish_request */
function litespeed_finish_request(): bool {}

/** Writes a line to the server's log. $level is a syslog priority, 0 (emergency) to 7 (debug); $context is appended as JSON. */
function reprise_log(string $message, int $level = 6, array $context = []): void {}

/**
 * Ends the boot: everything before the call runs once, everything behind it once per request, each time from the same
 * memory. Without effect where the script is run anew for each request.
 *
 * With $per_host there is a snapshot for each host that `hosts` names and for each of http and https, booted as a request of
 * that host, and requests of any other host are run anew.
 */
function reprise_snapshot(bool $per_host = false): void {}

/**
 * Waits for a request and runs $handler for it. True if the loop is to go on; false when there will be no further request:
 * the script then ends. Where the script is run anew for each request, $handler runs for that one, and false is returned.
 *
 * A request that calls exit() ends the script once it is answered, as exit() does, and a fresh run of it takes the next: no `finally` has run, and what the application
 * keeps may be of that request. With $survives_exit the loop goes on: for scripts that put their own state in order.
 */
function reprise_handle_request(callable $handler, bool $survives_exit = false): bool {}

/** @implementation-alias reprise_handle_request */
function frankenphp_handle_request(callable $handler, bool $survives_exit = false): bool {}

/**
 * The requests that the configuration's `warmup` lists, each with method, path and headers (name => value): a boot runs
 * them through its application, so that what they build is part of the snapshot.
 */
function reprise_warmup_requests(): array {}

/**
 * What runs this request: version, mode ("classic", "worker" or "snapshot"), isolation ("none", "rewind" or "fork"), application,
 * hosts (the names it is configured for, without patterns), generation, slot, pid and the number of requests this worker has taken; rewinds of this worker so far ("fast",
 * "scanned", and "pages" copied by them); recycles of the lane's workers so far, by reason.
 */
function reprise_info(): array {}

/**
 * The application's workers, of all its lanes, as PHP-FPM describes those of a pool. False where no worker runs the script, as
 * in a boot and in a child process that it forked, and if the front does not answer.
 */
function fpm_get_status(): array|false {}

/** The request's headers as the client named them, in title case. */
function getallheaders(): array {}

/** @implementation-alias getallheaders */
function apache_request_headers(): array {}

/** The headers set so far, by name. */
function apache_response_headers(): array {}
