<?php

declare(strict_types=1);

namespace Reprise\Laravel;

/** Purges pages from Reprise's cache of responses. False: nothing was purged, because the server is another one or its front does not respond. */
final class Cache
{
    /** Pages with one of these tags. */
    public static function purge(string ...$tags): bool
    {
        return reprise_cache_purge(tags: array_values($tags));
    }

    /** Pages of these URLs: path and query, or with scheme and host before them. */
    public static function purgeUrls(string ...$urls): bool
    {
        return reprise_cache_purge(urls: array_values($urls));
    }

    public static function purgeAll(): bool
    {
        return reprise_cache_purge(all: true);
    }
}
