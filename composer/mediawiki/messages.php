<?php

declare(strict_types=1);

namespace Reprise\MediaWiki;

use Closure;
use MediaWiki\HookContainer\HookContainer;
use MediaWiki\Language\Language;
use MediaWiki\MediaWikiServices;
use MediaWiki\Message\Message;
use MediaWiki\Page\PageReference;
use MediaWiki\Parser\Parser;
use MediaWiki\Parser\ParserOptions;
use MediaWiki\Parser\ParserOutput;
use MessageCache;
use ReflectionClass;

/** HTML of messages that were parsed, and messages whose variables were replaced, by what they were made of; false: cannot be remembered. */
final class Texts
{
    /** @var array<string, string|false> */
    public array $known = [];
}

/**
 * MediaWiki's cache of messages, which knows the HTML of plain messages. MediaWiki parses each of them in each request: `Tools`, `Main menu` and a dozen
 * others for a page, a quarter of its processor time.
 *
 * What is remembered is the HTML of a text in a language, not the text of a message: this is read anew by each request. A text is plain if it has no markup,
 * no link, no template, nothing in double braces but the names of the site and its language and the plural of a number, and if MediaWiki's parser has made of it what stands there, and no more.
 */
final class Messages extends MessageCache
{
    /** No address, and nothing that MediaWiki may make a link of by itself: that depends on settings. */
    private const PLAIN = '~^(?!.*(?:RFC|PMID|ISBN))(?:[\p{L}\p{M}\p{N} ,.!?;()/%$\'"‘’“”«»…–—-]|:(?= |$)|(?<=\d):(?=\d))+$~Du';

    /** The variables and the function that a plain text may have. */
    private const VARIABLE = '~\{\{(?:(SITENAME)|(CONTENTLANGUAGE)|PLURAL:(\d{1,9})((?:\|[^|{}]+)+))\}\}~';

    /** What may change a plain text, and whose handlers do not. */
    private const HOOKS = [
        'InternalParseBeforeLinks', 'ParserAfterParse', 'ParserAfterTidy', 'ParserBeforeInternalParse', 'ParserBeforePreprocess', 'ParserClearState',
        'ParserGetVariableValueSwitch', 'ParserGetVariableValueTs', 'ParserOutputPostCacheTransform',
    ];
    private const HARMLESS = ['Cite\Hooks\CiteParserHooks::onParserAfterParse', 'Cite\Hooks\CiteParserHooks::onParserClearState'];

    /** What Message::parseText() asks the parser's output for, but the language. */
    private const TEXT = ['allowTOC' => false, 'enableSectionEditLinks' => false, 'unwrap' => true];

    /** Options of the visitor that concern the sections of a page. A plain text has none. */
    private const OF_SECTIONS = ['collapsibleSections', 'suppressSectionEditLinks'];

    /** Bytes of a text, and texts, that are remembered. */
    private const LENGTH = 200;
    private const COUNT = 1000;

    private Texts $texts;
    private HookContainer $hooks;
    /** @var Closure(): bool whether the parser is parsing already: MediaWiki does not parse within it */
    private Closure $isParsing;
    /** The page of the latest text: MediaWiki's parser takes it for the next text if that has none. */
    private ?PageReference $page = null;

    /** MediaWiki's own, as it was made; one of an extension is left alone. */
    public static function of(MessageCache $made, MediaWikiServices $services, Texts $texts): MessageCache
    {
        if ($made::class !== MessageCache::class) {
            return $made;
        }
        $messages = (new ReflectionClass(self::class))->newInstanceWithoutConstructor();
        Closure::bind(static function () use ($made, $messages): void {
            foreach (get_object_vars($made) as $name => $value) {
                $messages->$name = $value;
            }
        }, null, MessageCache::class)();
        $messages->texts = $texts;
        $messages->hooks = $services->getHookContainer();
        $messages->isParsing = Closure::bind(fn (): bool => $this->inParser, $messages, MessageCache::class);

        return $messages;
    }

    /** @return list<string> handlers of extensions, by class and method, and stages of output, by name, that may change any text */
    public static function changedBy(HookContainer $hooks): array
    {
        $handlers = array_map(strval(...), array_keys((array) ($GLOBALS['wgOutputPipelineStages'] ?? [])));
        foreach (self::HOOKS as $hook) {
            if ($hooks->isRegistered($hook)) {
                array_push($handlers, ...array_diff($hooks->getHandlerDescriptions($hook), self::HARMLESS));
            }
        }

        return $handlers;
    }

    public function parse($text, ?PageReference $page = null, $linestart = true, $interface = false, $language = null)
    {
        if (!($this->isParsing)()) {
            $this->page = $page;
        }
        $isKnowable = $page !== null && $language instanceof Language && $this->isPlain($text) && self::isAskedForHtml();
        if (!$isKnowable) {
            return parent::parse($text, $page, $linestart, $interface, $language);
        }
        $key = $language->getCode() . ((bool) $linestart ? ' line ' : ' ') . ((bool) $interface ? "interface\n" : "content\n") . $text;
        $known = $this->texts->known[$key] ?? null;
        if (is_string($known)) {
            return $known;
        }
        $output = parent::parse($text, $page, $linestart, $interface, $language);
        if ($known === false || !$output instanceof ParserOutput) {
            return $output;
        }
        // MediaWiki's own result if it is to be used: asking for the text changes it.
        $html = (clone $output)->getText(self::TEXT + ['userLang' => $language]);
        $options = array_diff(array_intersect($output->getUsedOptions(), ParserOptions::allCacheVaryingOptions()), self::OF_SECTIONS);
        $isForAll = $options === [] && !$output->hasReducedExpiry()
            && str_replace('&#160;', ' ', $html) === "<p>$text\n</p>" && !self::hasVariants($language);
        $this->remember($key, $isForAll ? $html : false);

        return $isForAll ? $html : $output;
    }

    public function transform($message, $interface = false, $language = null, ?PageReference $page = null)
    {
        if (!is_string($message)) {
            return parent::transform($message, $interface, $language, $page);
        }
        if (!str_contains($message, '{{')) {
            return $message;
        }
        if (!($this->isParsing)()) {
            $page = $this->page = $page ?? $this->page;
        }
        // A bar is nothing but between the forms of a plural.
        if (!$language instanceof Language || !$this->isPlain(strtr((string) preg_replace(self::VARIABLE, 'x$4', $message), '|', ' '))) {
            return parent::transform($message, $interface, $language, $page);
        }
        $names = [(string) $GLOBALS['wgSitename'], (string) $GLOBALS['wgLanguageCode']];
        $key = implode("\n", [...$names, $language->getCode() . ((bool) $interface ? ' interface' : ' content'), $message]);
        $known = $this->texts->known[$key] ?? null;
        if (is_string($known)) {
            return $known;
        }
        $text = parent::transform($message, $interface, $language, $page);
        $replace = static fn (array $found): string => match (true) {
            $found[1] !== null => $names[0],
            $found[2] !== null => $names[1],
            default => $language->convertPlural((int) $found[3], array_map(trim(...), explode('|', substr($found[4], 1)))),
        };
        $isPlain = $text === preg_replace_callback(self::VARIABLE, $replace, $message, flags: PREG_UNMATCHED_AS_NULL);
        $this->remember($key, $isPlain ? $text : false);

        return $text;
    }

    private function remember(string $key, string|false $text): void
    {
        // Making the parser, too, may have registered a handler.
        $isUnchanged = $this->getParser()::class === Parser::class && self::changedBy($this->hooks) === [];
        if (count($this->texts->known) < self::COUNT && $isUnchanged) {
            $this->texts->known[$key] = $text;
        }
    }

    private function isPlain(mixed $text): bool
    {
        return is_string($text) && strlen($text) <= self::LENGTH && preg_match(self::PLAIN, $text) === 1
            && !($this->isParsing)() && self::changedBy($this->hooks) === [];
    }

    /** Others than MediaWiki's messages may do more with the parser's output than ask for its text. */
    private static function isAskedForHtml(): bool
    {
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 3)[2] ?? [];

        return ($caller['class'] ?? null) === Message::class && $caller['function'] === 'parseText';
    }

    private static function hasVariants(Language $language): bool
    {
        return MediaWikiServices::getInstance()->getLanguageConverterFactory()->getLanguageConverter($language)->hasVariants();
    }
}
