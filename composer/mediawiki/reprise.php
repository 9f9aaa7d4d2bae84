<?php

/**
 * Serves MediaWiki from a snapshot and marks its pages for the cache of responses, where the server is Reprise. Does nothing elsewhere. The last line of LocalSettings.php requires it:
 *
 *     require '/path/of/the/package/mediawiki/reprise.php';
 */

declare(strict_types=1);

namespace Reprise\MediaWiki;

use MediaWiki\Context\RequestContext;
use MediaWiki\Request\HeaderCallback;
use MediaWiki\Request\WebRequest;
use Profiler;

if (!defined('MEDIAWIKI')) {
    exit;
}

/**
 * The snapshot is taken on the hook MediaWikiServices: configuration, extensions and hooks are there, and nothing of the request is. All that follows each
 * request does itself, by MediaWiki's own code, with classes that pages of the warm-up requests have loaded.
 */
final class Snapshot
{
    /** From here on Setup.php makes the services before it looks at the request. */
    public const SINCE = '1.43';

    /** Others (images, thumbnails) stay in classic mode. */
    private const ENTRY_POINTS = ['index', 'load', 'api', 'rest'];

    public static function register(): void
    {
        $isKnown = in_array(MW_ENTRY_POINT, self::ENTRY_POINTS, true) && version_compare(MW_VERSION, self::SINCE, '>=');
        if (!function_exists('reprise_snapshot') || !$isKnown) {
            return;
        }
        // Whether cookies are for https alone depends on the request, unless the configuration says it.
        $snapshot = new self(($GLOBALS['wgCookieSecure'] ?? null) === 'detect');
        // Before all others: what extensions do on this hook runs in each request.
        $GLOBALS['wgHooks']['MediaWikiServices'] = [$snapshot->take(...), ...$GLOBALS['wgHooks']['MediaWikiServices'] ?? []];
    }

    private bool $isTaken = false;

    private function __construct(private readonly bool $detectsHttps)
    {
    }

    public function take(): void
    {
        // A request may make the services anew.
        if ($this->isTaken) {
            return;
        }
        $this->isTaken = true;
        foreach (['stubs', 'functions', 'Hooks', 'WarmUp', 'Warm'] as $file) {
            require_once __DIR__ . "/../src/$file.php";
        }
        // One snapshot for all requests if nothing says which hosts there are.
        $perHost = (reprise_info()['hosts'] ?? []) !== [];
        if (\Reprise\isBoot() && \Reprise\preload(self::isOfScript(...), MW_ENTRY_POINT === 'index' ? '/' : null)) {
            // In a child of the boot, which goes on as a request does. Jobs are for visitors' requests.
            $GLOBALS['wgJobRunRate'] = 0;

            return;
        }
        $isBoot = \Reprise\isBoot();
        \Reprise\snapshot($perHost);
        if ($isBoot) {
            $this->beginRequest();
        }
    }

    /** @param array{method: string, path: string, headers: array<string, string>} $request whether this script serves it */
    private static function isOfScript(array $request): bool
    {
        $path = (string) parse_url($request['path'], PHP_URL_PATH);
        $script = preg_match('~/(load|api|rest|thumb|img_auth|opensearch_desc)\.php(/|$)~', $path, $found) ? $found[1] : 'index';

        return $script === MW_ENTRY_POINT;
    }

    /** What Setup.php has done with the request on its way here. */
    private function beginRequest(): void
    {
        if ($this->detectsHttps) {
            $GLOBALS['wgCookieSecure'] = $GLOBALS['wgForceHTTPS'] || WebRequest::detectProtocol() === 'https';
        }
        Profiler::init($GLOBALS['wgProfiler']);
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
        if (MW_ENTRY_POINT !== 'index' || !function_exists('reprise_info') || reprise_info()['mode'] === 'none' || version_compare(MW_VERSION, Snapshot::SINCE, '<')) {
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
