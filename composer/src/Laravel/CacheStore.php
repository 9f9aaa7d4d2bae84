<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\TaggableStore;
use Illuminate\Contracts\Cache\LockProvider;
use Reprise\Cache\Values;

/** The driver `reprise` of Laravel's cache: values and locks are in Reprise's data cache. */
class CacheStore extends TaggableStore implements LockProvider
{
    private readonly Values $values;
    /** A key whose value the data cache stores itself, when its computation has ended, and for how many seconds. */
    private ?string $computed = null;
    private int $seconds = 0;

    public function __construct(private readonly string $prefix = '')
    {
        $this->values = new Values("laravel:$prefix");
    }

    public function get($key): mixed
    {
        return $this->values->fetch((string) $key);
    }

    public function many(array $keys): array
    {
        return array_replace(array_fill_keys($keys, null), $this->values->fetchMany($keys));
    }

    public function put($key, $value, $seconds): bool
    {
        if ($this->computed === (string) $key) {
            $this->seconds = $seconds > 0 ? (int) $seconds : PHP_INT_MAX;

            return true;
        }

        return $this->values->store((string) $key, $value, $seconds);
    }

    public function putMany(array $values, $seconds): bool
    {
        $all = true;
        foreach ($values as $key => $value) {
            $all = $this->put($key, $value, $seconds) && $all;
        }

        return $all;
    }

    /** Stores a value if there is none. */
    public function add($key, $value, $seconds): bool
    {
        return $this->values->add((string) $key, $value, $seconds);
    }

    public function increment($key, $value = 1): int|bool
    {
        return $this->values->increment((string) $key, (int) $value);
    }

    public function decrement($key, $value = 1): int|bool
    {
        return $this->values->increment((string) $key, -(int) $value);
    }

    public function forever($key, $value): bool
    {
        return $this->put($key, $value, 0);
    }

    /** Since Laravel 12.50: the value lasts longer. */
    public function touch($key, $seconds): bool
    {
        $value = $this->get($key);

        return $value !== null && $this->put($key, $value, $seconds);
    }

    public function forget($key): bool
    {
        return $this->values->delete((string) $key);
    }

    /** Locks stay. */
    public function flush(): bool
    {
        return $this->values->clear();
    }

    public function getPrefix(): string
    {
        return $this->prefix;
    }

    public function tags($names): TaggedRepository
    {
        return new TaggedRepository($this, new TagSet($this, is_array($names) ? $names : func_get_args()));
    }

    public function lock($name, $seconds = 0, $owner = null): CacheLock
    {
        return new CacheLock($this->values->id((string) $name), (int) $seconds, $owner);
    }

    public function restoreLock($name, $owner): CacheLock
    {
        return $this->lock($name, 0, $owner);
    }

    /**
     * The value of a key, computed by one worker: $compute hands it to put(), which tells how long it lasts.
     *
     * @internal
     */
    public function computeOnce(string $key, callable $compute): mixed
    {
        return reprise_cache($this->values->id($key), function (int &$ttl) use ($key, $compute): mixed {
            [$outer, $this->computed, $this->seconds] = [$this->computed, $key, 0];
            try {
                $value = $compute();
                if ($value === null) {
                    // For Laravel it is not there.
                    $this->seconds = 0;
                }

                return $value;
            } finally {
                [$ttl, $this->computed, $this->seconds] = [$this->seconds, $outer, 0];
            }
        }, tags: $this->values->tags(), early: 0.0);
    }

    /**
     * The value of a key, which is computed anew after a response when it is not fresh.
     *
     * @internal
     */
    public function flexible(string $key, int $fresh, int $stale, callable $compute): mixed
    {
        if ($fresh <= 0) {
            return $compute();
        }

        return reprise_cache($this->values->id($key), static fn (): mixed => $compute(), $fresh, max(0, $stale - $fresh), $this->values->tags());
    }
}
