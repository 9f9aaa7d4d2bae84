<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * What registers a script on `init` has WordPress register all of its own in the boot, and put nonces, the user's number and settings beside their files as
 * for a guest. That is exchanged where another registration, in the request, puts something else there.
 */
final class Scripts
{
    /** @var array<string, array<string, mixed>> `extra` of each script of a registration in the boot, by the script's name */
    private readonly array $booted;

    /** @var list<mixed> of forGuests() */
    private readonly array $bootedFor;

    /** Null: the boot has registered no script. */
    public static function ofBoot(): ?self
    {
        return isset($GLOBALS['wp_scripts']) ? new self() : null;
    }

    private function __construct()
    {
        $this->booted = self::registered();
        $this->bootedFor = self::forGuests();
    }

    /** At the begin of a request, when its visitor is known. */
    public function renew(): void
    {
        if (!is_user_logged_in() && self::forGuests() === $this->bootedFor) {
            return;
        }
        $scripts = wp_scripts()->registered;
        foreach (self::registered() as $name => $extra) {
            foreach (array_intersect_key($extra, $this->booted[$name] ?? [], $scripts[$name]->extra ?? []) as $key => $fresh) {
                $scripts[$name]->extra[$key] = self::exchanged($scripts[$name]->extra[$key], $this->booted[$name][$key], $fresh);
            }
        }
    }

    /** @return array<string, array<string, mixed>> */
    private static function registered(): array
    {
        return array_map(static fn (\_WP_Dependency $script) => $script->extra, (new \WP_Scripts())->registered);
    }

    /** What plugins have added before and behind it stays there. A value that they have changed itself stays as it is. */
    private static function exchanged(mixed $value, mixed $booted, mixed $fresh): mixed
    {
        if ($booted === $fresh) {
            return $value;
        }
        if (is_string($value) && is_string($booted) && is_string($fresh)) {
            return $booted === '' ? $value : match (substr_count($value, $booted)) {
                1 => str_replace($booted, $fresh, $value),
                0 => self::exchangedAtAnyTime($value, $booted, $fresh),
                default => $value,
            };
        }
        if (is_array($value) && is_array($booted) && is_array($fresh)) {
            // The first of a list that had nothing is false.
            [$booted, $fresh] = [self::withoutFalse($booted), self::withoutFalse($fresh)];
            for ($at = 0; $at + count($booted) <= count($value); $at++) {
                if (array_slice($value, $at, count($booted)) === $booted) {
                    return [...array_slice($value, 0, $at), ...$fresh, ...array_slice($value, $at + count($booted))];
                }
            }
        }

        return $value === $booted ? $fresh : $value;
    }

    /** The two registrations of the boot were not in the same second, which WordPress says in the user's settings. */
    private static function exchangedAtAnyTime(string $value, string $booted, string $fresh): string
    {
        $moment = '/(?<!\d)\d{10}(?!\d)/';
        $pattern = '/' . preg_replace($moment, '\d{10}', preg_quote($booted, '/'), -1, $moments) . '/';
        if (!$moments || preg_match_all($pattern, $value) !== 1) {
            return $value;
        }

        return preg_replace_callback($pattern, static fn (): string => $fresh, $value) ?? $value;
    }

    /** @param array<mixed> $list @return array<mixed> */
    private static function withoutFalse(array $list): array
    {
        return array_slice($list, (int) (reset($list) === false));
    }

    /** @return list<mixed> what the scripts of anonymous visitors depend on */
    private static function forGuests(): array
    {
        return [wp_create_nonce('wp_rest'), determine_locale(), get_option('date_format'), get_option('time_format'), get_option('start_of_week')];
    }
}
