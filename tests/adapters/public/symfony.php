<?php

/* Symfony's own tests of adapters and of stores of locks. */

declare(strict_types=1);

use Psr\Cache\CacheItemPoolInterface;
use Reprise\Symfony\Adapter;
use Reprise\Symfony\LockStore;
use Reprise\Symfony\TagAwareAdapter;
use Symfony\Component\Cache\Adapter\AdapterInterface;
use Symfony\Component\Cache\Psr16Cache;
use Symfony\Component\Cache\Tests\Adapter\AdapterTestCase;
use Symfony\Component\Cache\Tests\Adapter\TagAwareTestTrait;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Tests\Store\AbstractStoreTestCase;
use Symfony\Component\Lock\Tests\Store\ExpiringStoreTestTrait;

final class Adapters extends AdapterTestCase
{
    public function createCachePool(int $defaultLifetime = 0, ?string $testMethod = null): CacheItemPoolInterface
    {
        return new Adapter('suite' . $testMethod, $defaultLifetime);
    }
}

final class TagAwareAdapters extends AdapterTestCase
{
    use TagAwareTestTrait;

    public function createCachePool(int $defaultLifetime = 0, ?string $testMethod = null): CacheItemPoolInterface
    {
        return new TagAwareAdapter('tagged' . $testMethod, $defaultLifetime);
    }
}

/** Symfony's tags over the adapter that has none of its own. */
final class TagsOverAdapters extends AdapterTestCase
{
    use TagAwareTestTrait;

    public function createCachePool(int $defaultLifetime = 0, ?string $testMethod = null): CacheItemPoolInterface
    {
        return new Symfony\Component\Cache\Adapter\TagAwareAdapter(new Adapter('below' . $testMethod, $defaultLifetime));
    }
}

final class LockStores extends AbstractStoreTestCase
{
    use ExpiringStoreTestTrait;

    protected function getClockDelay(): int
    {
        return 1_000_000;
    }

    public function getStore(): PersistingStoreInterface
    {
        return new LockStore();
    }
}

return [Adapters::class, TagAwareAdapters::class, TagsOverAdapters::class, LockStores::class];
