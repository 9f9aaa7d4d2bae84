<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * What Fallback needs of a cache. Values are whatever that can serialize; a time of 0 seconds is without an end.
 *
 * @internal
 */
interface Backend
{
    public function get(string $key, mixed $none): mixed;

    /**
     * @param list<string> $keys
     *
     * @return array<string, mixed> the values that are there
     */
    public function getAll(array $keys): array;

    public function set(string $key, mixed $value, int $seconds): bool;

    public function add(string $key, mixed $value, int $seconds): bool;

    public function delete(string $key): bool;

    /**
     * Replaces a value by what $change makes of it, unless another was faster or $change returns null. It gets the value or $none, and returns value and
     * seconds.
     *
     * @param callable(mixed): ?array{mixed, int} $change
     */
    public function swap(string $key, mixed $none, callable $change): bool;
}
