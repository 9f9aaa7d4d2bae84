<?php

declare(strict_types=1);

namespace Reprise\Psr;

use Psr\SimpleCache\CacheInterface;
use Reprise\Cache\Values;

/** A cache of PSR-16 in the data cache. Caches of different namespaces do not share values, and clear() removes those of its own. */
final class SimpleCache implements CacheInterface
{
    private readonly Values $values;

    /** @param int $seconds how long values last that are set without a time; 0: until they are removed */
    public function __construct(string $namespace = '', private readonly int $seconds = 0)
    {
        $this->values = new Values("psr16:$namespace:");
    }

    public function get($key, $default = null): mixed
    {
        return $this->values->fetch(KeyRules::checked($key), $default);
    }

    public function set($key, $value, $ttl = null): bool
    {
        return $this->setMultiple([KeyRules::checked($key) => $value], $ttl);
    }

    public function delete($key): bool
    {
        return $this->deleteMultiple([$key]);
    }

    public function clear(): bool
    {
        return $this->values->clear();
    }

    /** @return array<string, mixed> */
    public function getMultiple($keys, $default = null): iterable
    {
        $values = [];
        foreach (self::checkedKeys($keys) as $key) {
            $values[$key] = $this->values->fetch($key, $default);
        }

        return $values;
    }

    public function setMultiple($values, $ttl = null): bool
    {
        if (!is_iterable($values)) {
            throw new InvalidCacheKey('Values for the cache are an array or a Traversable.');
        }
        $seconds = $this->secondsOf($ttl);
        $checked = [];
        foreach ($values as $key => $value) {
            // An array has numbers where its keys look like some.
            $checked[] = [KeyRules::checked(is_int($key) ? (string) $key : $key), $value];
        }
        $all = true;
        foreach ($checked as [$key, $value]) {
            try {
                $all = ($seconds === null ? $this->delete($key) : $this->values->store($key, $value, $seconds)) && $all;
            } catch (\Exception | \ValueError) {
                // It cannot be serialized.
                $all = false;
            }
        }

        return $all;
    }

    public function deleteMultiple($keys): bool
    {
        foreach (self::checkedKeys($keys) as $key) {
            $this->values->delete($key);
        }

        return true;
    }

    public function has($key): bool
    {
        return $this->values->has(KeyRules::checked($key));
    }

    /** @return list<string> */
    private static function checkedKeys(mixed $keys): array
    {
        if (!is_iterable($keys)) {
            throw new InvalidCacheKey('Keys of the cache are an array or a Traversable.');
        }
        $checked = [];
        foreach ($keys as $key) {
            $checked[] = KeyRules::checked($key);
        }

        return $checked;
    }

    /** Null: what is set has ended already. */
    private function secondsOf(mixed $ttl): ?int
    {
        if ($ttl instanceof \DateInterval) {
            $ttl = KeyRules::seconds($ttl);
        }
        if ($ttl !== null && !is_int($ttl)) {
            throw new InvalidCacheKey(sprintf('A time to live is seconds or an interval, not %s.', get_debug_type($ttl)));
        }
        $seconds = $ttl ?? $this->seconds;

        return $seconds > 0 || $ttl === null ? $seconds : null;
    }
}
