<?php

/**
 * The functions of Reprise for other servers (PHP-FPM, the command line), so that the same code runs there. Under
 * Reprise they exist, and nothing here is declared.
 *
 * Generated from crates/reprise-php/reprise.stub.php by scripts/docs --functions.
 */

declare(strict_types=1);

if (!function_exists('reprise_finish_request')) {
    /** Calls PHP-FPM's function if there is one. Otherwise nothing is sent before the end. */
    function reprise_finish_request(): bool
    {
        return function_exists('fastcgi_finish_request') && fastcgi_finish_request();
    }
}

if (!function_exists('reprise_log')) {
    /**
     * Writes to PHP's error log.
     *
     * @param array<mixed> $context
     */
    function reprise_log(string $message, int $level = 6, array $context = []): void
    {
        error_log($context === [] ? $message : $message . ' ' . json_encode($context, JSON_PARTIAL_OUTPUT_ON_ERROR));
    }
}

if (!function_exists('reprise_snapshot')) {
    /** Does nothing: the script goes on. */
    function reprise_snapshot(bool $per_host = false): void
    {
    }
}

if (!function_exists('reprise_handle_request')) {
    /** Runs $handler for the one request of the script. */
    function reprise_handle_request(callable $handler, bool $survives_exit = false): bool
    {
        $handler();

        return false;
    }
}

if (!function_exists('reprise_warmup_requests')) {
    /**
     * Returns an empty list.
     *
     * @return list<array{method: string, path: string, headers: array<string, string>}>
     */
    function reprise_warmup_requests(): array
    {
        return [];
    }
}

if (!function_exists('reprise_info')) {
    /**
     * Returns the mode "none" alone.
     *
     * @return array<string, mixed>
     */
    function reprise_info(): array
    {
        return ['mode' => 'none'];
    }
}

if (!function_exists('reprise_cache_purge')) {
    /**
     * Returns false.
     *
     * @param list<string> $tags
     * @param list<string> $urls
     * @param list<string> $prefixes
     */
    function reprise_cache_purge(array $tags = [], array $urls = [], array $prefixes = [], bool $all = false, bool $soft = false): bool
    {
        return false;
    }
}

if (!function_exists('reprise_not_modified')) {
    /** Does the same with header() and exit. */
    function reprise_not_modified(?string $etag = null, ?int $last_modified = null): void
    {
        $tag = $etag === null || preg_match('~^(W/)?".*"$~', $etag) ? $etag : '"' . $etag . '"';
        $time = isset($_SERVER['HTTP_COOKIE']) && $tag === null ? null : $last_modified;
        $known = $_SERVER['HTTP_IF_NONE_MATCH'] ?? null;
        $same = false;
        if ($tag !== null) {
            header('ETag: ' . $tag);
            $bare = static fn (string $one): string => preg_replace('~^W/~', '', trim($one));
            $same = $known !== null && ($known === '*' || in_array($bare($tag), array_map($bare, explode(',', $known)), true));
        }
        if ($time !== null) {
            header('Last-Modified: ' . gmdate('D, d M Y H:i:s', $time) . ' GMT');
            $since = $known === null ? strtotime($_SERVER['HTTP_IF_MODIFIED_SINCE'] ?? '') : false;
            $same = $same || ($since !== false && $time <= $since);
        }
        if ($same && in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)) {
            http_response_code(304);
            exit;
        }
    }
}
