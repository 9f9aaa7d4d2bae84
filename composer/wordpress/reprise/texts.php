<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/** What the texts of pages rendered before the snapshot were parsed to, which depends on the text alone. */
final class Texts
{
    /** Bytes of all texts and of what they were parsed to, serialized, at most. */
    private const MOST = 2 << 20;

    /** What the parser has: where it has more, what it makes of a text may depend on that. */
    private const METHODS = ['parse', 'proceed', 'next_token', 'freeform', 'add_freeform', 'add_inner_block', 'add_block_from_stack'];
    private const PROPERTIES = ['document', 'offset', 'output', 'stack', 'empty_attrs'];

    /** @var array<string, array<string, mixed>> by text: the parser's other properties when it was parsed */
    public static array $known = [];

    /** @var ?array<string, string> in the child that renders a page, serialized: what it has parsed; null elsewhere */
    private static ?array $learned = null;

    private static int $room = self::MOST;

    /** Whether this WordPress' parser is as those of 6.0 to 7.1. */
    public static function knowsParser(): bool
    {
        $class = new \ReflectionClass('WP_Block_Parser');
        $names = static fn (array $all) => array_map(static fn ($one) => $one->getName(), $all);

        return array_diff($names($class->getMethods()), self::METHODS) === [] && array_diff($names($class->getProperties()), self::PROPERTIES) === [];
    }

    /** In the child that renders a page. */
    public static function begin(): void
    {
        self::$learned = [];
    }

    /** @param array<string, mixed> $parsed */
    public static function learn(string $text, array $parsed): void
    {
        if (self::$learned !== null && !isset(self::$learned[$text])) {
            $said = serialize($parsed);
            // Numbers may lose digits, and there is a limit for depth.
            if (strlen($said) <= self::$room && @unserialize($said, ['allowed_classes' => false]) === $parsed && self::hasRoom($text, $said)) {
                self::$learned[$text] = $said;
            }
        }
    }

    /** @return array<string, string> */
    public static function learned(): array
    {
        return self::$learned ?? [];
    }

    /** @param array<string, string> $learned in the boot: what a child has learned, which has read it back; the next child has the room that is left */
    public static function know(array $learned): void
    {
        foreach ($learned as $text => $said) {
            if (!isset(self::$known[$text]) && self::hasRoom((string) $text, $said)) {
                self::$known[$text] = (array) unserialize($said, ['allowed_classes' => false]);
            }
        }
    }

    private static function hasRoom(string $text, string $said): bool
    {
        $size = strlen($text) + strlen($said);
        $fits = $size <= self::$room;
        self::$room -= $fits ? $size : 0;

        return $fits;
    }
}
