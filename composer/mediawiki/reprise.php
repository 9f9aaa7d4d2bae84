<?php

/**
 * Serves MediaWiki from a snapshot and marks its pages for the cache of responses, where the server is Reprise. Does nothing elsewhere. The last line of LocalSettings.php requires it:
 *
 *     require '/path/of/the/package/mediawiki/reprise.php';
 */

declare(strict_types=1);

namespace Reprise\MediaWiki;

use Closure;
use MediaWiki\Actions\ActionEntryPoint;
use MediaWiki\Api\ApiEntryPoint;
use MediaWiki\Context\RequestContext;
use MediaWiki\EntryPointEnvironment;
use MediaWiki\HookContainer\FauxGlobalHookArray;
use MediaWiki\Http\Telemetry;
use MediaWiki\MediaWikiServices;
use MediaWiki\Request\HeaderCallback;
use MediaWiki\Request\WebRequest;
use MediaWiki\ResourceLoader\ResourceLoaderEntryPoint;
use MediaWiki\Session\SessionManager;
use MediaWiki\StubObject\StubUserLang;
use MediaWiki\Title\Title;
use Profiler;
use ReflectionClass;
use Reprise\WarmUp;
use Wikimedia\ObjectCache\HashBagOStuff;

use const LOG_WARNING;

if (!defined('MEDIAWIKI')) {
    exit;
}

/**
 * The snapshot is taken on the hook SetupAfterCache: configuration, extensions and hooks are there, and nothing of the session
 * or the user. What Setup.php does behind that point each request does itself, by MediaWiki's own code.
 *
 * Before the snapshot the boot renders the pages of warm-up requests. They get services, globals and static properties of their
 * own, of which nothing stays but the classes and what {@see Kept} lists.
 */
final class Snapshot
{
    /** The version of MediaWiki whose start this file knows. */
    public const VERSION = '1.43.';

    /** What serves the requests of an entry point. Others (images, thumbnails) stay in classic mode. */
    private const ENTRY_POINTS = [
        'index' => ActionEntryPoint::class,
        'load' => ResourceLoaderEntryPoint::class,
        'api' => ApiEntryPoint::class,
        'rest' => null,
    ];

    /** Services that the configuration alone has made. Others may know the boot's request, and are made anew unless {@see Kept} has looked at them. */
    private const KEPT = ['BootstrapConfig', 'ConfigFactory', 'ConfigRepository', 'HookContainer', 'MainConfig', 'ObjectFactory'];

    public static function register(): void
    {
        $known = array_key_exists(MW_ENTRY_POINT, self::ENTRY_POINTS);
        if (!function_exists('reprise_snapshot') || !$known || !str_starts_with(MW_VERSION, self::VERSION)) {
            return;
        }
        // Whether cookies are for https alone depends on the request, unless the configuration says it.
        $snapshot = new self(($GLOBALS['wgCookieSecure'] ?? null) === 'detect');
        // Before all others: what extensions do on this hook runs in each request.
        $GLOBALS['wgHooks']['SetupAfterCache'] = [$snapshot->take(...), ...$GLOBALS['wgHooks']['SetupAfterCache'] ?? []];
    }

    /** In a boot, and in requests from its snapshot. */
    private ?Kept $kept = null;

    private function __construct(private readonly bool $detectsHttps)
    {
    }

    public function take(): void
    {
        foreach (['stubs', 'functions', 'Hooks', 'WarmUp'] as $file) {
            require_once __DIR__ . "/../src/$file.php";
        }
        require_once __DIR__ . '/kept.php';
        require_once __DIR__ . '/messages.php';
        // One snapshot for all requests if nothing says which hosts there are.
        $perHost = (reprise_info()['hosts'] ?? []) !== [];
        if (!\Reprise\isBoot()) {
            \Reprise\snapshot($perHost);

            return;
        }
        $this->kept = new Kept(self::KEPT);
        $this->forgetBoot();
        $this->kept->rememberTexts();
        $this->warmUp();
        $this->forgetBoot();
        MediaWikiServices::getInstance()->getHookContainer()->register('BeforePageDisplay', $this->kept->giveTemplates(...));
        \Reprise\snapshot($perHost);
        $this->beginRequest();
    }

    private function warmUp(): void
    {
        $ignores = ignore_user_abort();
        WarmUp::run($this->warm(...), MW_ENTRY_POINT === 'index' ? '/' : null);
        ignore_user_abort((bool) $ignores);
    }

    /** @param array{method: string, path: string, headers: array<string, string>} $request */
    private function warm(array $request): ?int
    {
        $class = self::ENTRY_POINTS[MW_ENTRY_POINT];
        $path = (string) parse_url($request['path'], PHP_URL_PATH);
        $script = preg_match('~/(load|api|rest|thumb|img_auth|opensearch_desc)\.php(/|$)~', $path, $found) ? $found[1] : 'index';
        if ($class === null || $script !== MW_ENTRY_POINT) {
            return null;
        }
        $statics = self::staticProperties();
        $globals = $GLOBALS;
        $GLOBALS['wgJobRunRate'] = 0;
        $this->forgetBoot();
        $services = MediaWikiServices::getInstance();
        // PHP calls a method of it at the end of each request: it holds no connection to what sessions are stored in.
        $sessions = new SessionManager(['store' => new HashBagOStuff()]);
        self::set(SessionManager::class, 'instance', $sessions);
        try {
            $web = $GLOBALS['wgRequest'] = RequestContext::getMain()->getRequest();
            if (MW_ENTRY_POINT === 'index') {
                $web->interpolateTitle();
                if ($web->getRawVal('title') === null) {
                    $web->setVal('title', Title::newMainPage()->getPrefixedDBkey());
                }
            }
            $GLOBALS['wgUser'] = RequestContext::getMain()->getUser();
            $GLOBALS['wgLang'] = new StubUserLang();
            $GLOBALS['wgOut'] = RequestContext::getMain()->getOutput();
            $GLOBALS['wgTitle'] = null;
            $entry = new $class(RequestContext::getMain(), self::environment(), $services);
            $entry->enableOutputCapture();
            $entry->run();
            MW_ENTRY_POINT === 'index' && $this->kept->endPage(RequestContext::getMain()->getSkin());

            return http_response_code();
        } finally {
            unset($web, $entry);
            self::restoreGlobals($globals);
            self::restoreStaticProperties($statics);
            gc_collect_cycles();
            $services->getDBLoadBalancerFactory()->closeAll(__METHOD__);
            $this->kept->restoreOwn();
            $this->forgetBoot();
        }
    }

    /** The response of a warm-up request goes nowhere. */
    private static function environment(): EntryPointEnvironment
    {
        return new class extends EntryPointEnvironment {
            public function hasFastCgi(): bool
            {
                return false;
            }

            public function fastCgiFinishRequest(): bool
            {
                return false;
            }

            public function exit(int $code = 0): never
            {
                throw new \RuntimeException('a warm-up request asks for the end of the process');
            }
        };
    }

    /** What Setup.php has made of the boot's request on its way here. */
    private function forgetBoot(): void
    {
        $services = MediaWikiServices::getInstance();
        $stay = $this->kept->services();
        foreach ($services->getServiceNames() as $name) {
            if (!in_array($name, $stay, true) && $services->peekService($name) !== null) {
                Closure::bind(fn () => $services->resetService($name), null, MediaWikiServices::class)();
            }
        }
        self::set(RequestContext::class, 'instance', null);
        self::set(Telemetry::class, 'instance', null);
        self::set(\MediaWiki\Deferred\DeferredUpdates::class, 'scopeStack', null);
        $GLOBALS['wgRequest'] = null;
    }

    /** What Setup.php has done on its way here, with the request. */
    private function beginRequest(): void
    {
        if ($this->detectsHttps) {
            $GLOBALS['wgCookieSecure'] = $GLOBALS['wgForceHTTPS'] || WebRequest::detectProtocol() === 'https';
        }
        Profiler::init($GLOBALS['wgProfiler']);
        $request = $GLOBALS['wgRequest'] = RequestContext::getMain()->getRequest();
        if ($request->getCookie('UseDC', '') === 'master') {
            MediaWikiServices::getInstance()->getMainWANObjectCache()->useInterimHoldOffCaching(false);
        }
    }

    /** @param array<string, mixed> $before */
    private static function restoreGlobals(array $before): void
    {
        foreach (array_diff_key($GLOBALS, $before) as $name => $value) {
            unset($GLOBALS[$name]);
        }
        foreach ($before as $name => $value) {
            if (!array_key_exists($name, $GLOBALS) || $GLOBALS[$name] !== $value) {
                $GLOBALS[$name] = $value;
            }
        }
    }

    /** @return array<class-string, array<string, mixed>> */
    private static function staticProperties(): array
    {
        $all = [];
        foreach (get_declared_classes() as $name) {
            $class = new ReflectionClass($name);
            if (!$class->isInternal()) {
                $all[$name] = self::ownStaticProperties($class);
            }
        }

        return $all;
    }

    /** @return array<string, mixed> */
    private static function ownStaticProperties(ReflectionClass $class): array
    {
        $values = [];
        foreach ($class->getProperties(\ReflectionProperty::IS_STATIC) as $property) {
            if ($property->class === $class->name && $property->isInitialized()) {
                $values[$property->name] = $property->getValue();
            }
        }

        return $values;
    }

    /**
     * Classes that the warm-up has loaded get the values with which they are declared.
     *
     * @param array<class-string, array<string, mixed>> $before
     */
    private static function restoreStaticProperties(array $before): void
    {
        foreach (self::staticProperties() as $name => $now) {
            $class = new ReflectionClass($name);
            if ($now === [] || $name === self::class) {
                continue;
            }
            $values = $before[$name] ?? $class->getDefaultProperties();
            foreach ($now as $property => $value) {
                if (array_key_exists($property, $values) && $value !== $values[$property]) {
                    self::set($name, $property, $values[$property]);
                }
            }
        }
    }

    private static function set(string $class, string $property, mixed $value): void
    {
        (new \ReflectionProperty($class, $property))->setValue(null, $value);
    }
}

/**
 * What MediaWiki lets shared caches keep ($wgUseCdn) varies by Cookie, so that each visitor of a statistic would have pages of his own. It knows which
 * cookies matter, and Reprise is told: in the place of Cookie in Vary, which stays as it is for browsers.
 */
final class Cache
{
    public static function register(): void
    {
        if (MW_ENTRY_POINT !== 'index' || !function_exists('reprise_info') || reprise_info()['mode'] === 'none' || !str_starts_with(MW_VERSION, Snapshot::VERSION)) {
            return;
        }
        // There is one callback, and MediaWiki has taken it: it makes private what sets a cookie, which has to come first.
        header_register_callback(static function (): void {
            HeaderCallback::callback();
            $seconds = ($GLOBALS['wgUseCdn'] ?? false) ? self::seconds(headers_list()) : 0;
            if ($seconds > 0) {
                $cookies = RequestContext::getMain()->getOutput()->getCacheVaryCookies();
                header("Reprise-Cache-Control: max-age=$seconds, stale-while-revalidate=60");
                header('Reprise-Cache-Cookies: ' . implode(', ', preg_grep('/^[^\s,;"]+$/', $cookies) ?: ['*']));
                // MediaWiki purges this cache alone, and wants all behind it to ask again.
                header('Cache-Control: s-maxage=0, must-revalidate, max-age=0');
            }
        });
    }

    /**
     * For how long shared caches may keep a response; 0: not at all.
     *
     * @param array<string> $headers
     */
    private static function seconds(array $headers): int
    {
        $control = implode(',', preg_grep('/^cache-control:/i', $headers));
        $isOwn = preg_match('/\b(private|no-store|no-cache)\b/i', $control) || preg_grep('/^set-cookie:/i', $headers) !== [];

        return !$isOwn && preg_match('/\bs-maxage=(\d+)/i', $control, $found) ? (int) $found[1] : 0;
    }
}

Snapshot::register();
Cache::register();
