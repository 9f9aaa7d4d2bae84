<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * The workers of one PHP-FPM share it.
 *
 * @internal
 */
final class Apcu implements Backend
{
    /** Seconds after which another may swap: who began has died. */
    private const SWAP_SECONDS = 2;

    public static function isThere(): bool
    {
        return function_exists('apcu_enabled') && apcu_enabled();
    }

    public function get(string $key, mixed $none): mixed
    {
        $value = apcu_fetch($key, $found);

        return $found ? $value : $none;
    }

    public function getAll(array $keys): array
    {
        $values = apcu_fetch($keys);

        return is_array($values) ? $values : [];
    }

    public function set(string $key, mixed $value, int $seconds): bool
    {
        return apcu_store($key, $value, $seconds);
    }

    public function add(string $key, mixed $value, int $seconds): bool
    {
        return apcu_add($key, $value, $seconds);
    }

    public function delete(string $key): bool
    {
        return apcu_delete($key);
    }

    /** APCu compares integers alone, so this is behind a lock; set() does not ask for it. */
    public function swap(string $key, mixed $none, callable $change): bool
    {
        $lock = "$key~swap";
        for ($attempt = 0; !apcu_add($lock, 1, self::SWAP_SECONDS); $attempt++) {
            if ($attempt === 1000) {
                return false;
            }
            usleep(1000);
        }
        try {
            $to = $change($this->get($key, $none));

            return $to !== null && $this->set($key, ...$to);
        } finally {
            apcu_delete($lock);
        }
    }
}
