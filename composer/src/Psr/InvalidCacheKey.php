<?php

declare(strict_types=1);

namespace Reprise\Psr;

use Psr\Cache\InvalidArgumentException as OfPool;
use Psr\SimpleCache\InvalidArgumentException as OfSimpleCache;

// Of the two interfaces those that are there: an application may have one of the packages alone.
if (interface_exists(OfPool::class) && interface_exists(OfSimpleCache::class)) {
    final class InvalidCacheKey extends \InvalidArgumentException implements OfPool, OfSimpleCache
    {
    }
} elseif (interface_exists(OfPool::class)) {
    final class InvalidCacheKey extends \InvalidArgumentException implements OfPool
    {
    }
} else {
    final class InvalidCacheKey extends \InvalidArgumentException implements OfSimpleCache
    {
    }
}
