<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** WordPress' parser of blocks, each text of which is parsed once for all workers: what it makes of a text depends on the text alone. */
final class Parser
{
    /** Looking for a shorter text costs as much as parsing it. */
    private const SHORT = 256;

    public static function register(): void
    {
        if (function_exists('reprise_memo') && reprise_info()['mode'] !== 'none') {
            // A parser of a plugin is that plugin's, whose texts may depend on more.
            add_filter('block_parser_class', static fn ($class) => $class === 'WP_Block_Parser' ? self::class : $class, PHP_INT_MAX);
        }
    }

    /** @param mixed $document @return array<mixed> */
    public function parse($document)
    {
        return is_string($document) && strlen($document) >= self::SHORT ? reprise_memo([self::class, 'parsed'], [$document]) : self::parsed($document);
    }

    /** @internal @param mixed $document @return array<mixed> */
    public static function parsed($document)
    {
        return (new \WP_Block_Parser())->parse($document);
    }
}
