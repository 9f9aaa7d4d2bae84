<?php

declare(strict_types=1);

namespace Reprise;

/** @internal */
final class Hooks
{
    /** @var list<callable> */
    public static array $before = [];
    /** @var list<callable> */
    public static array $after = [];

    /** @param list<callable> $hooks */
    public static function run(array $hooks): void
    {
        foreach ($hooks as $hook) {
            $hook();
        }
    }
}
