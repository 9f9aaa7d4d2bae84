<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Psr\Log\LoggerInterface;
use Reprise\Cache\Values;
use Symfony\Component\Cache\CacheItem;
use Symfony\Contracts\Cache\CacheInterface;
use Symfony\Contracts\Cache\ItemInterface;

/**
 * What the two adapters have in common: Symfony's abstract classes do the rest. get() computes by a lease of the data cache in the place of Symfony's
 * LockRegistry: one worker computes, the others wait for its value, and a worker that dies delays nobody.
 *
 * @internal
 */
trait SharedValues
{
    private readonly Values $values;
    /** An item whose value the data cache stores itself, when its computation has ended: the id, and what came of it. */
    private ?string $computed = null;
    /** @var null|array{mixed, int} */
    private ?array $result = null;
    /** When the computation began that runs now. */
    private ?float $began = null;
    /** The caller of get() wants it computed. */
    private bool $isForced = false;

    /** @param int $defaultLifetime seconds; 0: until it is removed */
    public function __construct(string $namespace = '', int $defaultLifetime = 0)
    {
        parent::__construct($namespace, $defaultLifetime);
        $this->values = new Values("symfony:$namespace:");
        // Static: a pool in a circle would commit what is deferred late.
        $this->setCallbackWrapper(
            static fn (callable $callback, ItemInterface $item, bool &$save, CacheInterface $pool, \Closure $setMetadata, ?LoggerInterface $logger)
                => $pool instanceof self ? $pool->computeOnce($callback, $item, $save, $setMetadata) : $callback($item, $save),
        );
    }

    public function get(string $key, callable $callback, ?float $beta = null, ?array &$metadata = null): mixed
    {
        $outer = $this->isForced;
        $this->isForced = $beta === \INF;
        try {
            return parent::get($key, $callback, $beta, $metadata);
        } finally {
            $this->isForced = $outer;
        }
    }

    /** What get() calls for an item that is not there, or is to be renewed shortly before its end, as $beta says. */
    private function computeOnce(callable $callback, ItemInterface $item, bool &$save, \Closure $setMetadata): mixed
    {
        $compute = function () use ($callback, $item, &$save, $setMetadata): mixed {
            [$outer, $this->began] = [$this->began, microtime(true)];
            try {
                $value = $callback($item, $save);
                if ($save) {
                    $setMetadata($item);
                    $this->save($item->set($value));
                    $save = false;
                }

                return $value;
            } finally {
                $this->began = $outer;
            }
        };
        if ($this->isForced) {
            $this->isForced = false;

            return $compute();
        }
        $id = $this->values->id($this->idOf($item->getKey()));
        if ($item->isHit()) {
            // Another renews it.
            if (!reprise_cache_lock($id, 60.0)) {
                $save = false;

                return $item->get();
            }
            try {
                return $compute();
            } finally {
                reprise_cache_unlock($id);
            }
        }
        $isComputed = false;
        $value = null;
        try {
            reprise_cache($id, function (int &$ttl) use ($compute, $id, &$isComputed, &$value): mixed {
                $ttl = 0;
                [$outer, $this->computed, $this->result] = [$this->computed, $id, null];
                try {
                    $value = $compute();
                    $isComputed = true;
                    [$packed, $ttl] = $this->result ?? [null, 0];

                    return $packed;
                } finally {
                    [$this->computed, $this->result] = [$outer, null];
                }
            }, tags: $this->values->tags());
        } catch (\Throwable $thrown) {
            if (!$isComputed) {
                throw $thrown;
            }
            CacheItem::log($this->logger, 'Failed to save key "{key}": ' . $thrown->getMessage(), ['key' => $item->getKey(), 'exception' => $thrown]);
        }
        if ($isComputed) {
            return $value;
        }
        $save = false;
        $there = $this->getItem($item->getKey());

        // It may be gone again.
        return $there->isHit() ? $there->get() : $compute();
    }

    /** Symfony's own name of a key, with the namespace. Symfony's classes keep it to themselves. */
    private function idOf(string $key): string
    {
        return \Closure::bind(fn (): string => $this->getId($key), $this, parent::class)();
    }

    /** @param array<string> $tags */
    private function store(string $id, mixed $value, int $lifetime, array $tags = []): bool
    {
        if ($this->computed !== null && $tags === [] && $this->computed === $this->values->id($id)) {
            // The data cache does, and knows of what was removed meanwhile.
            $this->result = [$value, $lifetime > 0 ? $lifetime : PHP_INT_MAX];

            return true;
        }

        return $this->values->store($id, $value, $lifetime, $tags);
    }

    protected function doFetch(array $ids): iterable
    {
        return $this->values->fetchMany($ids);
    }

    protected function doHave(string $id): bool
    {
        return $this->values->has($id);
    }

    /** All of the pool's, also if a prefix is named: there is no list of keys. */
    protected function doClear(string $namespace): bool
    {
        return $this->values->clear();
    }

    protected function doDelete(array $ids): bool
    {
        foreach ($ids as $id) {
            $this->values->delete($id);
        }

        return true;
    }
}
