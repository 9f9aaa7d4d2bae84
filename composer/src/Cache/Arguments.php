<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * What the functions of the data cache accept, as Reprise itself does.
 *
 * @internal
 */
final class Arguments
{
    private const LONGEST = 1024;
    private const MOST_TAGS = 64;
    private const MOST_SECONDS = 1_000_000_000;
    private const DEEPEST = 512;

    public static function key(string $key): void
    {
        if ($key === '' || strlen($key) > self::LONGEST) {
            throw new \ValueError(sprintf('A key of the data cache must be 1 to %d bytes long', self::LONGEST));
        }
    }

    /** @param array<mixed> $tags */
    public static function tags(array $tags): void
    {
        if (count($tags) > self::MOST_TAGS) {
            throw new \ValueError(sprintf('A value of the data cache must have at most %d tags', self::MOST_TAGS));
        }
        foreach ($tags as $tag) {
            if (!is_string($tag) || $tag === '' || strlen($tag) > self::LONGEST) {
                throw new \ValueError(sprintf('Tags of the data cache must be strings of 1 to %d bytes', self::LONGEST));
            }
        }
    }

    public static function seconds(int $seconds): void
    {
        if ($seconds < 0 || $seconds > self::MOST_SECONDS) {
            throw new \ValueError(sprintf('A time of the data cache must be 0 to %d seconds', self::MOST_SECONDS));
        }
    }

    public static function early(float $early): void
    {
        if (!($early >= 0 && $early <= 1000)) {
            throw new \ValueError('reprise_cache(): Argument #6 ($early) must be between 0 and 1000');
        }
    }

    public static function lease(float $seconds): void
    {
        if (!($seconds > 0 && $seconds <= self::MOST_SECONDS)) {
            throw new \ValueError(sprintf('A lock of the data cache must last more than 0 and at most %d seconds', self::MOST_SECONDS));
        }
    }

    public static function value(mixed $value, int $depth = 0): void
    {
        if (is_resource($value)) {
            throw new \ValueError('a resource cannot be stored in the data cache');
        }
        if (!is_array($value)) {
            return;
        }
        if ($depth === self::DEEPEST) {
            throw new \ValueError(sprintf('an array that is nested deeper than %d levels cannot be stored in the data cache', self::DEEPEST));
        }
        foreach ($value as $each) {
            if (is_array($each) || is_resource($each)) {
                self::value($each, $depth + 1);
            }
        }
    }
}
