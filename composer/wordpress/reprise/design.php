<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * Takes the place of WP_Theme_JSON_Resolver in the snapshot, and remembers what two of its methods have made of what: as long as all of
 * that is the same, so is the result. Their parts are made by WordPress, or come from the snapshot as `Warm` has kept them.
 *
 * | method | result depends on |
 * |---|---|
 * | get_theme_data() | the theme's part without what the theme has said by add_theme_support(), and that |
 * | get_merged_data() | the parts of WordPress, blocks, theme and, for 'custom', of the site's editor |
 * | both | what is known of the blocks, and the language |
 *
 * That is so for the text of these methods which was read; with another text, and where a plugin filters translations, they run as ever.
 */
class Design extends \WP_Theme_JSON_Resolver
{
    /** SHA-1 of the text of KNOWN_BY in WordPress 6.1, 6.8 and 7.1; false: it merges into its own part. */
    private const KNOWN = ['b97c361296ee7691633130bb86cfc0746783d9e6' => false, 'afa40a3b74ba1861fc70bb4a83d63580e5861525' => true, '93848f217e15e01c345c190f021be35680908b3f' => true];
    private const KNOWN_BY = [
        'WP_Theme_JSON_Resolver' => ['get_theme_data', 'get_merged_data', 'has_same_registered_blocks'],
        'WP_Theme_JSON' => ['__construct', 'merge', 'sanitize', 'get_from_editor_settings', 'set_spacing_sizes', 'compute_spacing_sizes'],
        '' => ['get_default_block_editor_settings', 'get_classic_theme_supports_block_editor_settings'],
    ];

    /** Of how many parts a result for an origin is merged. */
    private const PARTS = ['theme' => 3, 'custom' => 4];

    /** What get_theme_data() asks the theme for. */
    private const FEATURES = ['disable-custom-colors', 'disable-custom-font-sizes', 'disable-custom-gradients', 'disable-layout-styles', 'custom-line-height',
        'custom-spacing', 'custom-units', 'editor-color-palette', 'editor-font-sizes', 'editor-gradient-presets', 'editor-spacing-sizes'];

    private const THEME = 'theme with its features';

    /** So many results are kept for each: while a page is made, blocks get more styles. */
    private const MOST = 4;

    /** @var array<string, list<array{list<mixed>, ?\WP_Theme_JSON}>> by origin, and of the theme: what a result is made of, and the result; null: WordPress' own part, as it is */
    private static array $kept = [];

    /** Whether merging makes a new object; null: this text of WordPress is not known. */
    private static ?bool $makesNew = null;

    /** How often the request has asked for the whole design. */
    private static int $uses = 0;

    /** False: this text of WordPress is not known. */
    public static function knows(): bool
    {
        $text = '';
        $files = [];
        foreach (self::KNOWN_BY as $class => $names) {
            // Each version has some of them.
            $exists = $class === '' ? 'function_exists' : static fn (string $name) => method_exists($class, $name);
            foreach (array_filter($names, $exists) as $name) {
                $code = $class === '' ? new \ReflectionFunction($name) : new \ReflectionMethod($class, $name);
                $lines = $files[$code->getFileName()] ??= file((string) $code->getFileName()) ?: [];
                $text .= implode('', array_slice($lines, $code->getStartLine() - 1, $code->getEndLine() - $code->getStartLine() + 1));
            }
        }
        self::$makesNew = self::KNOWN[sha1($text)] ?? null;

        return self::$makesNew !== null;
    }

    /** Whether WordPress has the parts of the design as they were, whatever filters there are by now: it makes them twice. */
    public static function isSettled(): bool
    {
        return self::$uses > 1;
    }

    /** Whether merging leaves the parts as they are; false, too: this text of WordPress is not known. */
    public static function makesNew(): bool
    {
        return self::$makesNew === true;
    }

    public static function get_theme_data($deprecated = [], $options = [])
    {
        $isOrdinary = static::class === self::class && !$deprecated && !$options && !self::areTranslationsFiltered();

        return $isOrdinary ? clone self::theme(self::surroundings()) : parent::get_theme_data($deprecated, $options);
    }

    public static function get_merged_data($origin = 'custom')
    {
        self::$uses += (int) ($origin === 'custom');
        $parts = is_string($origin) && static::class === self::class ? self::PARTS[$origin] ?? 0 : 0;
        // WordPress makes a part anew at its second use, too: whoever has changed something by then sees it.
        $isMade = static::$core && static::$blocks && static::$theme && (static::$user || $parts === 3);
        if ($parts === 0 || !$isMade || self::areTranslationsFiltered()) {
            return parent::get_merged_data($origin);
        }
        $core = parent::get_core_data();
        $around = self::surroundings();
        $of = [...$around, $core->get_raw_data(), parent::get_block_data()->get_raw_data(), self::theme($around)->get_raw_data()];
        if ($parts === 4) {
            $of[] = parent::get_user_data()->get_raw_data();
        }
        $kept = self::find($origin, $of);
        if ($kept !== null) {
            return $kept[1] === null ? $core : clone $kept[1];
        }
        $result = parent::get_merged_data($origin);
        if (self::$makesNew) {
            self::keep($origin, $of, clone $result);
        } elseif ($result === $core && self::sameAs($core->get_raw_data(), $of)) {
            // Where merging into its own part has changed nothing, it does not the next time.
            self::keep($origin, $of, null);
        }

        return $result;
    }

    /** Arrays that came back from a child and are equal become one: those are compared at once. */
    public static function link(): void
    {
        self::$uses = 0;
        $made = array_column(self::$kept[self::THEME] ?? [], 1);
        $objects = array_filter([static::$core, static::$blocks, static::$theme, static::$user, ...$made]);
        $arrays = [self::surroundings()[0], ...array_map(static fn (\WP_Theme_JSON $object) => $object->get_raw_data(), $objects)];
        foreach (self::$kept as $name => $results) {
            foreach (array_keys($results) as $number) {
                array_map(static fn (array $array) => self::sameAs($array, self::$kept[$name][$number][0]), $arrays);
            }
        }
    }

    /** @param list<mixed> $of @return ?array{list<mixed>, ?\WP_Theme_JSON} */
    private static function find(string $name, array $of): ?array
    {
        foreach (self::$kept[$name] ?? [] as $kept) {
            if ($kept[0] === $of) {
                return $kept;
            }
        }

        return null;
    }

    /** @param list<mixed> $of */
    private static function keep(string $name, array $of, ?\WP_Theme_JSON $result): void
    {
        // Equal ones are one: what is made of them finds the same array, and need not compare it.
        foreach ($result === null ? [] : array_filter(array_column(self::$kept[$name] ?? [], 1)) as $same) {
            if ($same::class === $result::class && (array) $same === (array) $result) {
                $result = $same;
            }
        }
        self::$kept[$name] = [[$of, $result], ...array_slice(self::$kept[$name] ?? [], 0, self::MOST - 1)];
    }

    /** @param list<mixed> $of in which an equal array is replaced by this one; false if there is none */
    private static function sameAs(array $array, array &$of): bool
    {
        $found = array_keys($of, $array, true);
        foreach ($found as $at) {
            $of[$at] = $array;
        }

        return $found !== [];
    }

    /**
     * As WordPress makes it anew for each call; nobody changes it here.
     *
     * @param array{array, string} $around
     */
    private static function theme(array $around): \WP_Theme_JSON
    {
        // A theme without theme.json is asked for more.
        if (!static::$theme || !(function_exists('wp_theme_has_theme_json') ? wp_theme_has_theme_json() : parent::theme_has_support())) {
            return parent::get_theme_data();
        }
        $features = array_intersect_key($GLOBALS['_wp_theme_features'] ?? [], array_flip(self::FEATURES));
        $of = [...$around, $features, parent::get_theme_data([], ['with_supports' => false])->get_raw_data()];
        $kept = self::find(self::THEME, $of);
        if ($kept === null) {
            self::keep(self::THEME, $of, parent::get_theme_data());
        }

        return $kept[1] ?? self::$kept[self::THEME][0][1];
    }

    /** @return array{array, string} what is known of the blocks, and the language */
    private static function surroundings(): array
    {
        static $blocks = null;
        $blocks ??= \Closure::bind(static fn () => static::get_blocks_metadata(), null, \WP_Theme_JSON::class);

        return [$blocks(), determine_locale()];
    }

    private static function areTranslationsFiltered(): bool
    {
        return has_filter('gettext') || has_filter('gettext_default') || has_filter('gettext_with_context') || has_filter('gettext_with_context_default');
    }
}

// Nothing has used it yet.
Design::knows() && reprise_replace_class('WP_Theme_JSON_Resolver', Design::class);
