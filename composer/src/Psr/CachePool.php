<?php

declare(strict_types=1);

namespace Reprise\Psr;

use Psr\Cache\CacheItemInterface;
use Psr\Cache\CacheItemPoolInterface;
use Reprise\Cache\Values;

/** A pool of PSR-6 in the data cache. Pools of different namespaces do not share items, and clear() removes those of its own. */
final class CachePool implements CacheItemPoolInterface
{
    private readonly Values $values;
    /** @var array<CacheItem> */
    private array $deferred = [];

    /** @param int $seconds how long items last that do not say it; 0: until they are removed */
    public function __construct(string $namespace = '', private readonly int $seconds = 0)
    {
        $this->values = new Values("psr6:$namespace:");
    }

    public function __destruct()
    {
        $this->commit();
    }

    public function getItem($key): CacheItemInterface
    {
        $key = KeyRules::checked($key);
        $deferred = $this->deferred[$key] ?? null;
        if ($deferred !== null && $deferred->secondsLeft($this->seconds) !== null) {
            $value = $deferred->get();

            // As it will be read when it is stored.
            return new CacheItem($key, is_object($value) ? clone $value : $value, true);
        }
        $found = $deferred === null ? $this->values->fetchMany([$key]) : [];

        return new CacheItem($key, $found[$key] ?? null, $found !== []);
    }

    /** @return array<string, CacheItemInterface> */
    public function getItems(array $keys = []): iterable
    {
        $items = [];
        foreach ($keys as $key) {
            $items[KeyRules::checked($key)] = $this->getItem($key);
        }

        return $items;
    }

    public function hasItem($key): bool
    {
        return $this->getItem($key)->isHit();
    }

    public function clear(): bool
    {
        $this->deferred = [];

        return $this->values->clear();
    }

    public function deleteItem($key): bool
    {
        return $this->deleteItems([$key]);
    }

    public function deleteItems(array $keys): bool
    {
        foreach (array_map([KeyRules::class, 'checked'], $keys) as $key) {
            unset($this->deferred[$key]);
            $this->values->delete($key);
        }

        return true;
    }

    public function save(CacheItemInterface $item): bool
    {
        if (!$item instanceof CacheItem) {
            return false;
        }
        unset($this->deferred[$item->getKey()]);
        $seconds = $item->secondsLeft($this->seconds);
        if ($seconds === null) {
            $this->values->delete($item->getKey());

            return false;
        }
        try {
            return $this->values->store($item->getKey(), $item->get(), $seconds);
        } catch (\Exception | \ValueError) {
            // It cannot be serialized.
            return false;
        }
    }

    public function saveDeferred(CacheItemInterface $item): bool
    {
        if (!$item instanceof CacheItem) {
            return false;
        }
        $this->deferred[$item->getKey()] = clone $item;

        return true;
    }

    public function commit(): bool
    {
        $all = true;
        foreach ($this->deferred as $item) {
            $all = $this->save($item) && $all;
        }

        return $all;
    }
}
