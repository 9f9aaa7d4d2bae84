<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** Addresses of the site that wp-config.php, or a plugin, makes of the host of the request. A snapshot for all hosts would have the one of its boot. */
final class Address
{
    /** @return list<string> the names of those that the boot has made of its own host */
    public static function ofRequest(): array
    {
        $found = [];
        $stored = wp_load_alloptions();
        foreach (['WP_HOME' => 'home', 'WP_SITEURL' => 'siteurl'] as $constant => $option) {
            if (self::isOfBoot((string) get_option($option)) && (defined($constant) || !self::isOfBoot($stored[$option] ?? ''))) {
                $found[] = defined($constant) ? $constant : "the option $option";
            }
        }
        foreach (['WP_CONTENT_URL', 'WP_PLUGIN_URL'] as $constant) {
            // By default they begin with the site's address.
            if (self::isOfBoot(constant($constant)) && !str_starts_with(constant($constant), get_option('siteurl'))) {
                $found[] = $constant;
            }
        }
        if (self::isWritten()) {
            $found = [];
        }
        // No fixed one is like that: browsers take no cookie for such a domain.
        if (defined('COOKIE_DOMAIN') && COOKIE_DOMAIN === $_SERVER['HTTP_HOST']) {
            $found[] = 'COOKIE_DOMAIN';
        }

        return $found;
    }

    private static function isOfBoot(string $address): bool
    {
        return preg_match(self::pattern(), $address) === 1;
    }

    /** Whether wp-config.php or the environment has the host itself: the address is fixed. */
    private static function isWritten(): bool
    {
        $file = is_file(ABSPATH . 'wp-config.php') ? ABSPATH . 'wp-config.php' : dirname(ABSPATH) . '/wp-config.php';
        $texts = [php_strip_whitespace($file), ...array_filter([...getenv(), ...$_ENV], is_string(...))];

        return preg_grep(self::pattern(), $texts) !== [];
    }

    private static function pattern(): string
    {
        return '~//' . preg_quote($_SERVER['HTTP_HOST'], '~') . '(?![\w.:-])~i';
    }
}
