<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * Locks of Symfony's LockFactory in Reprise's data cache. They last beyond a request, until they are released or their time is over, in whole seconds. The
 * data cache may evict one when it is full.
 */
final class LockStore implements PersistingStoreInterface
{
    use ExpiringStoreTrait;

    /** @param int $initialTtl seconds that a lock lasts until it is refreshed */
    public function __construct(private readonly int $initialTtl = 300)
    {
        if ($initialTtl < 1) {
            throw new InvalidTtlException(sprintf('A lock lasts one second or more, not %d.', $initialTtl));
        }
    }

    public function save(Key $key): void
    {
        $key->reduceLifetime($this->initialTtl);
        if (!reprise_cache_add(self::id($key), self::token($key), $this->initialTtl)) {
            // It may be this key's own.
            $this->prolong($key, $this->initialTtl);
        }
        $this->checkNotExpired($key);
    }

    public function putOffExpiration(Key $key, float $ttl): void
    {
        if ($ttl < 1) {
            throw new InvalidTtlException(sprintf('A lock lasts one second or more, not %s.', $ttl));
        }
        $key->reduceLifetime($ttl);
        $seconds = (int) ceil($ttl);
        if (!reprise_cache_add(self::id($key), self::token($key), $seconds)) {
            $this->prolong($key, $seconds);
        }
        $this->checkNotExpired($key);
    }

    public function delete(Key $key): void
    {
        reprise_cache_delete(self::id($key), only_if: self::token($key));
    }

    public function exists(Key $key): bool
    {
        return reprise_cache_fetch(self::id($key)) === self::token($key);
    }

    private function prolong(Key $key, int $seconds): void
    {
        if (!reprise_cache_store(self::id($key), self::token($key), $seconds, only_if: self::token($key))) {
            throw new LockConflictedException();
        }
    }

    private static function id(Key $key): string
    {
        $name = (string) $key;

        return 'symfony-lock:' . (strlen($name) <= 900 ? $name : hash('sha256', $name));
    }

    /** Who holds the lock. */
    private static function token(Key $key): string
    {
        if (!$key->hasState(self::class)) {
            $key->setState(self::class, base64_encode(random_bytes(24)));
        }

        return $key->getState(self::class);
    }
}
