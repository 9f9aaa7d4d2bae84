<?php

declare(strict_types=1);

namespace Reprise\Laravel;

/**
 * Methods of Laravel's cache that compute a value: one worker does, and the others wait for it.
 *
 * @internal
 */
trait Remembers
{
    public function remember($key, $ttl, \Closure $callback): mixed
    {
        $value = $this->get($key);
        if ($value !== null) {
            return $value;
        }

        return $this->store->computeOnce($this->itemKey(self::name($key)), function () use ($key, $ttl, $callback): mixed {
            $value = $callback();
            $this->put($key, $value, value($ttl, $value));

            return $value;
        });
    }

    public function rememberForever($key, \Closure $callback): mixed
    {
        return $this->remember($key, null, $callback);
    }

    public function sear($key, \Closure $callback): mixed
    {
        return $this->rememberForever($key, $callback);
    }

    /**
     * The value is fresh for $ttl[0] seconds. Until $ttl[1] it is returned too, and computed anew after a response. Events, $lock and $alwaysDefer are
     * Laravel's way to do that, and are not used.
     *
     * @param array{\DateTimeInterface|\DateInterval|int, \DateTimeInterface|\DateInterval|int} $ttl
     */
    public function flexible($key, $ttl, $callback, $lock = null, $alwaysDefer = false): mixed
    {
        return $this->store->flexible($this->itemKey(self::name($key)), (int) $this->getSeconds($ttl[0]), (int) $this->getSeconds($ttl[1]), $callback);
    }

    /** A newer Laravel takes enums, too. */
    private static function name(mixed $key): string
    {
        return (string) ($key instanceof \BackedEnum ? $key->value : ($key instanceof \UnitEnum ? $key->name : $key));
    }
}
