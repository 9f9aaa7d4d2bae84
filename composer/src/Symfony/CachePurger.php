<?php

declare(strict_types=1);

namespace Reprise\Symfony;

/**
 * A service that purges pages from Reprise's cache of responses; `Reprise\Symfony\CachePurger: ~` in services.yaml makes it one. False: nothing was
 * purged, because the server is another one or its front does not respond.
 */
class CachePurger
{
    /** Pages with one of these tags. */
    public function purgeTags(string ...$tags): bool
    {
        return reprise_cache_purge(tags: array_values($tags));
    }

    /** Pages of these URLs: path and query, or with scheme and host before them. */
    public function purgeUrls(string ...$urls): bool
    {
        return reprise_cache_purge(urls: array_values($urls));
    }

    public function purgeAll(): bool
    {
        return reprise_cache_purge(all: true);
    }
}
