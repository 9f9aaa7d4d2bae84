<?php

/* The suite of php-cache/integration-tests, with the two caches of PSR. */

declare(strict_types=1);

use Cache\IntegrationTests\CachePoolTest;
use Cache\IntegrationTests\SimpleCacheTest;
use Psr\Cache\CacheItemPoolInterface;
use Psr\SimpleCache\CacheInterface;
use Reprise\Psr\CachePool;
use Reprise\Psr\SimpleCache;

final class Pools extends CachePoolTest
{
    public function createCachePool(): CacheItemPoolInterface
    {
        return new CachePool('suite');
    }
}

final class SimpleCaches extends SimpleCacheTest
{
    public function createSimpleCache(): CacheInterface
    {
        return new SimpleCache('suite');
    }
}

return [Pools::class, SimpleCaches::class];
