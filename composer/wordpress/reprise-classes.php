<?php
/*
Plugin Name: Reprise: classes in the place of WordPress' own
Description: With Reprise's snapshot a design that has not changed is merged once, and not for each block that asks for it; a text that has not changed is parsed once; a feed registers no scripts; each visitor has his own nonces beside scripts. Belongs to reprise.php, which has to be beside it.
License: MIT
*/

declare(strict_types=1);

namespace Reprise\WordPress;

// Elsewhere these classes are not even declared: what another version of WordPress has changed in its own can be an error in a boot alone.
if (isset($_SERVER['REPRISE_BOOT']) && defined('ABSPATH') && function_exists('reprise_replace_class')
    && class_exists('WP_Theme_JSON_Resolver', false) && class_exists('WP_Scripts', false) && class_exists('WP_Block_Parser', false)) {
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

        public static function get_theme_data($deprecated = [], $options = [])
        {
            $isOrdinary = static::class === self::class && !$deprecated && !$options && !self::areTranslationsFiltered();

            return $isOrdinary ? clone self::theme(self::surroundings()) : parent::get_theme_data($deprecated, $options);
        }

        public static function get_merged_data($origin = 'custom')
        {
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

    /**
     * Takes the place of WP_Block_Parser in the snapshot: a text of which the snapshot has what it was parsed to is not parsed again. Parsers that extend
     * this one parse each text, as they ever did.
     */
    class Parser extends \WP_Block_Parser
    {
        public function parse($document)
        {
            if ($this::class !== self::class || !is_string($document)) {
                return parent::parse($document);
            }
            $known = Texts::$known[$document] ?? null;
            if ($known === null) {
                parent::parse($document);
                Texts::learn($document, array_diff_key(get_object_vars($this), ['document' => null]));
            } else {
                $this->document = $document;
                foreach ($known as $name => $value) {
                    $this->$name = $value;
                }
            }

            return $this->output;
        }
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

    /** When a post was last changed and when one was last published: a feed asks for both, and one query answers both. */
    final class FeedTimes
    {
        public static function read(mixed $answer, mixed $timezone, mixed $type): mixed
        {
            global $wpdb;
            if ([$answer, $timezone, $type] === [false, 'GMT', 'any'] && wp_cache_get('lastpostmodified:gmt', 'timeinfo') === false) {
                $types = implode("', '", array_map('esc_sql', get_post_types(['public' => true])));
                $times = $wpdb->get_row("SELECT MAX(post_modified_gmt) AS modified, MAX(post_date_gmt) AS date FROM $wpdb->posts WHERE post_status = 'publish' AND post_type IN ('$types')", ARRAY_A);
                foreach (array_filter($times ?? []) as $field => $time) {
                    wp_cache_add("lastpost$field:gmt", $time, 'timeinfo');
                }
            }

            return $answer;
        }
    }

    // Nothing has used them yet.
    Design::knows() && reprise_replace_class('WP_Theme_JSON_Resolver', Design::class);
    reprise_replace_class('WP_Scripts', Scripts::class);
    Texts::knowsParser() && reprise_replace_class('WP_Block_Parser', Parser::class);
    add_action('wp', [FeedScripts::class, 'begin'], PHP_INT_MAX, 0);
    add_filter('pre_get_lastpostmodified', [FeedTimes::class, 'read'], PHP_INT_MAX, 3);
}
