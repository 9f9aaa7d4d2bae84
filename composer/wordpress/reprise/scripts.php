<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * Takes the place of WP_Scripts in the snapshot. What registers a script on `init` has WordPress register all of its own in the boot, and print nonces, the
 * user's number and settings beside their files as for a guest. That is made anew for users, and where it is another for guests.
 */
class Scripts extends \WP_Scripts
{
    /** @var array<string, array{\_WP_Dependency, array<string, mixed>}> scripts of the boot, and what registering has put beside the file of each */
    private static array $said = [];

    /** @var list<mixed> of forGuests() */
    private static array $saidFor = [];

    public function init()
    {
        $extras = static fn (\WP_Scripts $scripts) => array_map(static fn ($script) => $script->extra, $scripts->registered);
        $before = isset($_SERVER['REPRISE_BOOT']) ? $extras($this) : null;
        parent::init();
        if ($before === null) {
            return;
        }
        foreach ($extras($this) as $name => $extra) {
            foreach ($extra as $key => $value) {
                $said = self::added($before[$name][$key] ?? null, $value);
                if ($said !== null) {
                    self::$said[$name] = [$this->registered[$name], [$key => $said] + (self::$said[$name][1] ?? [])];
                }
            }
        }
        if (did_action('init')) {
            // Earlier nobody may ask for the user, and nothing that depends on him is said.
            self::$saidFor = self::forGuests();
        }
    }

    /** At the begin of a request, when its visitor is known. */
    public static function renew(): void
    {
        if (self::$said === [] || (!is_user_logged_in() && self::forGuests() === self::$saidFor)) {
            return;
        }
        $fresh = (new self())->registered;
        foreach (self::$said as $name => [$script, $said]) {
            foreach (array_intersect_key($said, $fresh[$name]->extra ?? [], $script->extra) as $key => $value) {
                $script->extra[$key] = self::exchanged($script->extra[$key], $value, $fresh[$name]->extra[$key]);
            }
        }
    }

    /** What is behind that which was there before; null: nothing. */
    private static function added(mixed $before, mixed $value): mixed
    {
        return match (true) {
            $value === $before => null,
            is_string($value) && is_string($before) && str_starts_with($value, $before) => ltrim(substr($value, strlen($before)), "\n"),
            is_array($value) && is_array($before) && array_slice($value, 0, count($before)) === $before => array_slice($value, count($before)),
            default => $value,
        };
    }

    /** What plugins have added before and behind it stays there. A value that they have changed itself stays as it is. */
    private static function exchanged(mixed $value, mixed $said, mixed $fresh): mixed
    {
        if (is_string($value) && is_string($said) && is_string($fresh)) {
            return $said !== '' && substr_count($value, $said) === 1 ? str_replace($said, $fresh, $value) : $value;
        }
        if (is_array($value) && is_array($said) && is_array($fresh)) {
            // The first of a list that had nothing is false.
            $fresh = array_slice($fresh, (int) (reset($fresh) === false && reset($said) !== false));
            for ($at = 0; $at + count($said) <= count($value); $at++) {
                if (array_slice($value, $at, count($said)) === $said) {
                    return [...array_slice($value, 0, $at), ...$fresh, ...array_slice($value, $at + count($said))];
                }
            }
        }

        return $value === $said ? $fresh : $value;
    }

    /** @return list<mixed> what guests are told depends on */
    private static function forGuests(): array
    {
        return [wp_create_nonce('wp_rest'), determine_locale(), get_option('date_format'), get_option('time_format'), get_option('start_of_week')];
    }
}

/**
 * Scripts are registered at their first use where a feed is made: in WordPress 7.1 each block asks which ones are enqueued, and a feed prints none.
 */
final class FeedScripts extends Scripts
{
    /** What registering sets: an access to one of them is a use. */
    private const SET = ['registered', 'base_url', 'content_url', 'default_version', 'default_dirs'];

    /** WordPress' own functions that register. */
    private const OWN = ['wp_default_scripts', 'wp_default_packages', 'wp_default_script_modules'];

    /** @var ?array<string, mixed> what SET was before; null: scripts are registered */
    private ?array $waiting = null;

    /** Functions that register, as they were when WordPress would have called them. */
    private ?\WP_Hook $hook = null;

    /** When it is known what is asked for. Where a plugin has scripts of its own to register, or has the object already, all is as ever. */
    public static function begin(): void
    {
        global $wp_filter, $wp_scripts;
        $hook = $wp_filter['wp_default_scripts'] ?? null;
        $isOrdinary = is_feed() && !isset($wp_scripts) && !isset($wp_filter['all']) && $hook instanceof \WP_Hook;
        if ($isOrdinary && array_diff(array_keys(array_merge([], ...$hook->callbacks)), self::OWN) === []) {
            $wp_scripts = new self();
        }
    }

    public function init()
    {
        if ($this->hook !== null) {
            $this->register();
            parent::init();

            return;
        }
        $this->hook = clone $GLOBALS['wp_filter']['wp_default_scripts'];
        if ($this->hook->has_filter('wp_default_scripts', 'wp_default_script_modules') !== false) {
            // Modules are not for this object, and others ask for them.
            wp_default_script_modules();
            $this->hook->remove_filter('wp_default_scripts', 'wp_default_script_modules', 10);
        }
        $this->waiting = array_intersect_key(get_object_vars($this), array_flip(self::SET));
        foreach (self::SET as $name) {
            unset($this->$name);
        }
    }

    public function &__get($name)
    {
        $this->register();
        if (in_array($name, self::SET, true)) {
            return $this->$name;
        }
        $value = $this->$name;

        return $value;
    }

    public function __set($name, $value)
    {
        $this->register();
        $this->$name = $value;
    }

    public function __isset($name)
    {
        $this->register();

        return isset($this->$name);
    }

    public function __unset($name)
    {
        $this->register();
        unset($this->$name);
    }

    private function register(): void
    {
        global $wp_filter;
        if ($this->waiting === null) {
            return;
        }
        [$set, $this->waiting, $hook] = [$this->waiting, null, $wp_filter['wp_default_scripts'] ?? new \WP_Hook()];
        foreach ($set as $name => $value) {
            $this->$name = $value;
        }
        $wp_filter['wp_default_scripts'] = $this->hook;
        try {
            parent::init();
        } finally {
            $wp_filter['wp_default_scripts'] = $hook;
        }
    }
}

// Nothing has used it yet.
reprise_replace_class('WP_Scripts', Scripts::class);
add_action('wp', [FeedScripts::class, 'begin'], PHP_INT_MAX, 0);
