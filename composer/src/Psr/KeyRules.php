<?php

declare(strict_types=1);

namespace Reprise\Psr;

/**
 * What PSR-6 and PSR-16 say of keys and times alike.
 *
 * @internal
 */
final class KeyRules
{
    private const RESERVED = '{}()/\@:';

    public static function checked(mixed $key): string
    {
        if (!is_string($key)) {
            throw new InvalidCacheKey(sprintf('A key of the cache is a string, not %s.', get_debug_type($key)));
        }
        if ($key === '' || strpbrk($key, self::RESERVED) !== false) {
            throw new InvalidCacheKey(sprintf('"%s" is no key of the cache: it is empty or has one of %s.', $key, self::RESERVED));
        }

        return $key;
    }

    /** The seconds of an interval from now. */
    public static function seconds(\DateInterval $interval): int
    {
        $now = new \DateTimeImmutable();

        return $now->add($interval)->getTimestamp() - $now->getTimestamp();
    }
}
