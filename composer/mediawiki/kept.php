<?php

declare(strict_types=1);

namespace Reprise\MediaWiki;

use Closure;
use LCStoreCDB;
use LocalisationCache;
use MediaWiki\Context\IContextSource;
use MediaWiki\HookContainer\HookContainer;
use MediaWiki\Html\TemplateParser;
use MediaWiki\Languages\LanguageConverterFactory;
use MediaWiki\MediaWikiServices;
use MediaWiki\Output\OutputPage;
use MediaWiki\Permissions\Authority;
use MediaWiki\Request\WebRequest;
use MediaWiki\Session\Session;
use MediaWiki\Session\SessionManagerInterface;
use MediaWiki\User\UserIdentity;
use MessageCache;
use ReflectionClass;
use ReflectionFunction;
use ReflectionProperty;
use Skin;
use SkinMustache;
use SplObjectStorage;
use Wikimedia\ObjectCache\BagOStuff;
use Wikimedia\ObjectCache\HashBagOStuff;
use Wikimedia\ObjectCache\WANObjectCache;
use Wikimedia\Rdbms\ILBFactory;
use Wikimedia\Rdbms\ILoadBalancer;
use Wikimedia\Rdbms\IReadableDatabase;

use const LOG_NOTICE;

/**
 * What the pages that the boot renders leave for requests:
 *
 * - services of a closed list, with what they have read. Each is looked through before it stays: if it leads to a service that does not stay, to a
 *   visitor, a request, a session, a database or a shared cache, it is made anew by each request;
 * - functions of compiled templates, which MediaWiki compiles by eval() in each request. They have no object and no scope;
 * - the HTML of plain messages ({@see Messages}).
 */
final class Kept
{
    /** Languages and their texts, namespaces, magic words, rights of groups, skins: made of code, configuration and files of texts alone. */
    private const SERVICES = [
        'ActionFactory', 'CommentStore', 'ContentLanguage', 'ContentLanguageCode', 'GroupPermissionsLookup', 'LanguageConverterFactory', 'LanguageFactory',
        'LanguageFallback', 'LanguageNameUtils', 'LocalisationCache', 'MagicWordFactory', 'NamespaceInfo', 'SkinFactory', 'TempUserConfig', 'Tidy', 'TitleFactory',
        'UserIdentityUtils',
    ];

    /** What nothing that stays may lead to. */
    private const FOREIGN = [
        Authority::class, BagOStuff::class, IContextSource::class, ILBFactory::class, ILoadBalancer::class, IReadableDatabase::class, Session::class,
        SessionManagerInterface::class, UserIdentity::class, WANObjectCache::class, WebRequest::class,
    ];

    /** @var array<string, array<string, mixed>> properties of services that the boot had before it rendered, by service */
    private array $before = [];

    /** @var array<string, array<string, Closure>> functions of templates, by directory and name */
    private array $templates = [];

    private readonly bool $keepsServices;

    /** @param list<string> $own services that the configuration alone has made, and that stay whatever pages do */
    public function __construct(private readonly array $own)
    {
        $services = MediaWikiServices::getInstance();
        // The bridge itself is one.
        $handlers = Closure::bind(fn () => $this->handlers['SetupAfterCache'] ?? [], $services->getHookContainer(), HookContainer::class)();
        $this->keepsServices = count($handlers) <= 1;
        if (!$this->keepsServices) {
            reprise_log('extensions run on SetupAfterCache, where they may change the configuration: each request makes all services anew', LOG_NOTICE);
        }
        foreach ($own as $name) {
            $service = $services->peekService($name);
            foreach (is_object($service) ? self::properties($service) : [] as $property) {
                if ($property->isInitialized($service) && !$property->isReadOnly()) {
                    $this->before[$name][] = [$property, $property->getValue($service)];
                }
            }
        }
    }

    /** Before the service of messages is made, which each request makes for itself. */
    public function rememberTexts(): void
    {
        $services = MediaWikiServices::getInstance();
        $handlers = Messages::changedBy($services->getHookContainer());
        if ($handlers !== []) {
            reprise_log('handlers of extensions may change every text that is parsed (' . implode(', ', $handlers) . '): each request parses messages anew', LOG_NOTICE);
        }
        if ($handlers === [] && $this->keepsServices) {
            $texts = new Texts();
            $services->addServiceManipulator('MessageCache', static fn (MessageCache $made, MediaWikiServices $services) => Messages::of($made, $services, $texts));
        }
    }

    /** After a page was rendered, while its services are there. */
    public function endPage(Skin $skin): void
    {
        $services = MediaWikiServices::getInstance();
        $parser = self::parserOf($skin);
        if ($parser !== null) {
            [$directory, $functions] = Closure::bind(fn () => [$this->templateDir, $this->renderers ?? []], $parser, TemplateParser::class)();
            foreach ($functions as $name => $function) {
                $this->templates[$directory][$name] = Closure::bind($function, null, null);
            }
        }
        // Which of several scripts a language is shown in is the visitor's choice.
        $converters = $services->peekService('LanguageConverterFactory');
        $converters !== null && Closure::bind(fn () => $this->cache = [], $converters, LanguageConverterFactory::class)();
        // Open files of texts: they are opened again.
        $texts = $services->peekService('LocalisationCache');
        $store = $texts instanceof LocalisationCache ? Closure::bind(fn () => $this->store, $texts, LocalisationCache::class)() : null;
        $store instanceof LCStoreCDB && Closure::bind(fn () => $this->readers = [], $store, LCStoreCDB::class)();
    }

    /** What a page's hooks have left in services that the boot had is gone, such as objects that handle hooks. */
    public function restoreOwn(): void
    {
        $services = MediaWikiServices::getInstance();
        foreach ($this->before as $name => $properties) {
            foreach ($properties as [$property, $value]) {
                $property->setValue($services->peekService($name), $value);
            }
        }
    }

    /** On BeforePageDisplay, in each request. */
    public function giveTemplates(OutputPage $page, Skin $skin): void
    {
        $parser = self::parserOf($skin);
        if ($parser !== null) {
            $templates = $this->templates;
            Closure::bind(function () use ($templates): void {
                $this->renderers = ($this->renderers ?? []) + ($templates[$this->templateDir] ?? []);
            }, $parser, TemplateParser::class)();
        }
    }

    private static function parserOf(Skin $skin): ?TemplateParser
    {
        return $skin instanceof SkinMustache ? Closure::bind(fn () => $this->getTemplateParser(), $skin, SkinMustache::class)() : null;
    }

    /** @return list<string> services that need not be made anew */
    public function services(): array
    {
        $services = MediaWikiServices::getInstance();
        $all = new SplObjectStorage();
        foreach ($services->getServiceNames() as $name) {
            $service = $services->peekService($name);
            if (is_object($service)) {
                $all[$service] = $name;
            }
        }
        $stay = array_filter($this->keepsServices ? self::SERVICES : [], static fn ($name) => is_object($services->peekService($name)));
        $led = [];
        foreach ($stay as $name) {
            $led[$name] = $this->leadsTo($services->peekService($name), $all);
        }
        do {
            $count = count($stay);
            $known = array_flip([...$stay, ...$this->own]);
            $stay = array_filter($stay, static fn ($name) => $led[$name] !== null && array_diff_key($led[$name], $known) === []);
        } while (count($stay) < $count);

        return [...$this->own, ...$stay];
    }

    /**
     * The services that an object leads to; null if it leads to what must not stay.
     *
     * @param SplObjectStorage<object, string> $all services and their names
     * @return ?array<string, true>
     */
    private function leadsTo(object $service, SplObjectStorage $all): ?array
    {
        [$seen, $found, $open] = [new SplObjectStorage(), [], [$service]];
        while ($open !== []) {
            $value = array_pop($open);
            if (is_resource($value)) {
                return null;
            }
            if (is_array($value)) {
                foreach ($value as $one) {
                    is_scalar($one) || $open[] = $one;
                }
                continue;
            }
            // Whoever has the container asks it when he needs a service.
            if (!is_object($value) || $value instanceof MediaWikiServices || isset($seen[$value])) {
                continue;
            }
            $seen[$value] = true;
            if ($value !== $service && isset($all[$value])) {
                $found[$all[$value]] = true;
                continue;
            }
            foreach (self::FOREIGN as $class) {
                // This one is in the memory of the process alone.
                if ($value instanceof $class && !$value instanceof HashBagOStuff) {
                    return null;
                }
            }
            array_push($open, ...self::members($value));
        }

        return $found;
    }

    /** @return list<mixed> what an object or function holds */
    private static function members(object $value): array
    {
        if ($value instanceof Closure) {
            $function = new ReflectionFunction($value);

            return [$function->getClosureThis(), ...array_values($function->getClosureUsedVariables()), ...array_values($function->getStaticVariables())];
        }
        $members = [];
        foreach (self::properties($value) as $property) {
            if ($property->isInitialized($value)) {
                $members[] = $property->getValue($value);
            }
        }

        return $members;
    }

    /** @return list<ReflectionProperty> of all its classes */
    private static function properties(object $value): array
    {
        $properties = [];
        for ($class = new ReflectionClass($value); $class !== false; $class = $class->getParentClass()) {
            foreach ($class->getProperties() as $property) {
                if (!$property->isStatic() && $property->class === $class->name) {
                    $properties[] = $property;
                }
            }
        }

        return $properties;
    }
}
