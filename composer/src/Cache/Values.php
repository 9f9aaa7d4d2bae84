<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * The values of one pool in the data cache: their keys have a prefix, and all have a tag by which they are removed together.
 *
 * @internal
 */
final class Values
{
    /** Of a key and of a tag, in bytes. */
    private const LONGEST = 1024;
    /** Of a value; the pool's own is one of them. */
    private const MOST_TAGS = 64;
    private const MOST_SECONDS = 1_000_000_000;

    private static ?object $none = null;
    private readonly string $tag;

    public function __construct(private readonly string $prefix)
    {
        $this->tag = self::short($prefix . '*');
    }

    public function id(string $key): string
    {
        return self::short($this->prefix . $key);
    }

    /** A name of any length as one that the data cache takes. */
    private static function short(string $name): string
    {
        return strlen($name) <= self::LONGEST ? $name : substr($name, 0, 900) . hash('sha256', $name);
    }

    /**
     * The tags of a value, or null if they are too many.
     *
     * @param array<string> $tags
     *
     * @return null|list<string>
     */
    public function tags(array $tags = []): ?array
    {
        $all = [$this->tag];
        foreach (array_unique($tags) as $tag) {
            $all[] = $this->id('#' . $tag);
        }

        return count($all) <= self::MOST_TAGS ? $all : null;
    }

    /** Seconds as the data cache takes them: 0 or less of a framework is for ever here. */
    public static function seconds(int|float $seconds): int
    {
        return (int) min(max(0, ceil($seconds)), self::MOST_SECONDS);
    }

    public function fetch(string $key, mixed $default = null): mixed
    {
        return reprise_cache_fetch($this->id($key), $default);
    }

    public function has(string $key): bool
    {
        self::$none ??= new \stdClass();

        return $this->fetch($key, self::$none) !== self::$none;
    }

    /**
     * @param list<string> $keys
     *
     * @return array<int|string, mixed> the values that are there, by key
     */
    public function fetchMany(array $keys): array
    {
        $none = self::$none ??= new \stdClass();
        $found = [];
        foreach ($keys as $key) {
            $value = $this->fetch((string) $key, $none);
            if ($value !== $none) {
                $found[$key] = $value;
            }
        }

        return $found;
    }

    /**
     * Stores a value. If it cannot be, the old one is gone too: who asks next shall not get what was replaced.
     *
     * @param array<string> $tags
     */
    public function store(string $key, mixed $value, int|float $seconds = 0, array $tags = []): bool
    {
        $id = $this->id($key);
        $stored = false;
        try {
            $tags = $this->tags($tags);

            return $stored = $tags !== null && reprise_cache_store($id, $value, self::seconds($seconds), $tags);
        } finally {
            if (!$stored) {
                reprise_cache_delete($id);
            }
        }
    }

    public function add(string $key, mixed $value, int|float $seconds = 0): bool
    {
        return reprise_cache_add($this->id($key), $value, self::seconds($seconds), $this->tags() ?? []);
    }

    public function increment(string $key, int $by): int|false
    {
        // One that begins here has the pool's tag, too.
        $this->add($key, 0);

        return reprise_cache_increment($this->id($key), $by);
    }

    public function delete(string $key): bool
    {
        return reprise_cache_delete($this->id($key));
    }

    /** @param array<string> $tags */
    public function invalidate(array $tags): bool
    {
        return reprise_cache_invalidate(array_map(fn (string $tag): string => $this->id('#' . $tag), array_values($tags)));
    }

    public function clear(): bool
    {
        return reprise_cache_invalidate([$this->tag]);
    }
}
