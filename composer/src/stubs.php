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

if (!function_exists('reprise_after_fork')) {
    /** Does nothing. */
    function reprise_after_fork(callable $hook): void
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

if (!function_exists('reprise_cache')) {
    /**
     * Keeps values in APCu or Memcached, if there is one (composer/src/Cache).
     *
     * @param callable(int): mixed $compute
     * @param list<string> $tags
     */
    function reprise_cache(string $key, callable $compute, int $ttl = 0, int $stale = 0, array $tags = [], float $early = 1.0): mixed
    {
        return \Reprise\Cache\Fallback::of()->compute($key, $compute, $ttl, $stale, $tags, $early);
    }
}

if (!function_exists('reprise_cache_fetch')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_fetch(string $key, mixed $default = null): mixed
    {
        return \Reprise\Cache\Fallback::of()->fetch($key, $default);
    }
}

if (!function_exists('reprise_cache_fetch_many')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param list<string> $keys
     * @return array<string, mixed>
     */
    function reprise_cache_fetch_many(array $keys, mixed $default = null): array
    {
        $values = [];
        foreach ($keys as $key) {
            $values[$key] = reprise_cache_fetch((string) $key, $default);
        }

        return $values;
    }
}

if (!function_exists('reprise_cache_store')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param list<string> $tags
     */
    function reprise_cache_store(string $key, mixed $value, int $ttl = 0, array $tags = [], ?string $only_if = null): bool
    {
        return \Reprise\Cache\Fallback::of()->store($key, $value, $ttl, $tags, $only_if);
    }
}

if (!function_exists('reprise_cache_store_many')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param array<string, mixed> $values
     * @param list<string> $tags
     */
    function reprise_cache_store_many(array $values, int $ttl = 0, array $tags = []): bool
    {
        $all = true;
        foreach ($values as $key => $value) {
            $all = reprise_cache_store((string) $key, $value, $ttl, $tags) && $all;
        }

        return $all;
    }
}

if (!function_exists('reprise_cache_add')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param list<string> $tags
     */
    function reprise_cache_add(string $key, mixed $value, int $ttl = 0, array $tags = []): bool
    {
        return \Reprise\Cache\Fallback::of()->add($key, $value, $ttl, $tags);
    }
}

if (!function_exists('reprise_cache_delete')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_delete(string $key, ?string $only_if = null): bool
    {
        return \Reprise\Cache\Fallback::of()->delete($key, $only_if);
    }
}

if (!function_exists('reprise_cache_delete_many')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param list<string> $keys
     */
    function reprise_cache_delete_many(array $keys): bool
    {
        foreach ($keys as $key) {
            reprise_cache_delete((string) $key);
        }

        return true;
    }
}

if (!function_exists('reprise_cache_increment')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_increment(string $key, int $by = 1, int $ttl = 0): int|false
    {
        return \Reprise\Cache\Fallback::of()->increment($key, $by, $ttl);
    }
}

if (!function_exists('reprise_memo')) {
    /**
     * Calls the function.
     *
     * @param list<mixed> $arguments
     */
    function reprise_memo(callable $function, array $arguments, ?string $version = null): mixed
    {
        return $function(...$arguments);
    }
}

if (!function_exists('reprise_cache_invalidate')) {
    /**
     * Works as reprise_cache() does.
     *
     * @param list<string> $tags
     */
    function reprise_cache_invalidate(array $tags): bool
    {
        return \Reprise\Cache\Fallback::of()->invalidate($tags);
    }
}

if (!function_exists('reprise_cache_lock')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_lock(string $name, float $lease = 30.0): bool
    {
        return \Reprise\Cache\Fallback::of()->lock($name, $lease);
    }
}

if (!function_exists('reprise_cache_unlock')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_unlock(string $name): bool
    {
        return \Reprise\Cache\Fallback::of()->unlock($name);
    }
}

if (!function_exists('reprise_cache_flush')) {
    /** Works as reprise_cache() does. */
    function reprise_cache_flush(): bool
    {
        return \Reprise\Cache\Fallback::of()->flush();
    }
}

if (!function_exists('reprise_store_read')) {
    /**
     * There is no store.
     *
     * @return string|false|null
     */
    function reprise_store_read(string $key): mixed
    {
        return false;
    }
}

if (!function_exists('reprise_store_write')) {
    /** There is no store. */
    function reprise_store_write(string $key, string $value, int $ttl): bool
    {
        return false;
    }
}

if (!function_exists('reprise_store_remove')) {
    /** There is no store. */
    function reprise_store_remove(string $key): bool
    {
        return false;
    }
}

if (!function_exists('reprise_cache_stats')) {
    /**
     * Returns an empty array.
     *
     * @return array<string, int|string>
     */
    function reprise_cache_stats(): array
    {
        return [];
    }
}
