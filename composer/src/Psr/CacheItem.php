<?php

declare(strict_types=1);

namespace Reprise\Psr;

use Psr\Cache\CacheItemInterface;

/** An item of a CachePool. */
final class CacheItem implements CacheItemInterface
{
    /** Seconds since 1970 at which it ends; null: as the pool has it. */
    private ?float $end = null;

    /** @internal a pool makes it */
    public function __construct(private readonly string $key, private mixed $value, private readonly bool $isHit)
    {
    }

    public function getKey(): string
    {
        return $this->key;
    }

    public function get(): mixed
    {
        return $this->value;
    }

    public function isHit(): bool
    {
        return $this->isHit;
    }

    public function set($value): static
    {
        $this->value = $value;

        return $this;
    }

    public function expiresAt($expiration): static
    {
        if ($expiration !== null && !$expiration instanceof \DateTimeInterface) {
            throw new InvalidCacheKey(sprintf('An item of the cache ends at a time, not at %s.', get_debug_type($expiration)));
        }
        $this->end = $expiration === null ? null : (float) $expiration->format('U.u');

        return $this;
    }

    public function expiresAfter($time): static
    {
        if ($time instanceof \DateInterval) {
            $time = KeyRules::seconds($time);
        }
        if ($time !== null && !is_int($time)) {
            throw new InvalidCacheKey(sprintf('An item of the cache ends after seconds or an interval, not after %s.', get_debug_type($time)));
        }
        $this->end = $time === null ? null : microtime(true) + $time;

        return $this;
    }

    /** @internal the seconds that are left; null: it has ended */
    public function secondsLeft(int $otherwise): ?float
    {
        if ($this->end === null) {
            return $otherwise;
        }
        $left = $this->end - microtime(true);

        return $left > 0 ? $left : null;
    }
}
