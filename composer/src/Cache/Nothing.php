<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * There is no cache.
 *
 * @internal
 */
final class Nothing implements Backend
{
    public function get(string $key, mixed $none): mixed
    {
        return $none;
    }

    public function getAll(array $keys): array
    {
        return [];
    }

    public function set(string $key, mixed $value, int $seconds): bool
    {
        return false;
    }

    public function add(string $key, mixed $value, int $seconds): bool
    {
        return false;
    }

    public function delete(string $key): bool
    {
        return false;
    }

    public function swap(string $key, mixed $none, callable $change): bool
    {
        return false;
    }
}
