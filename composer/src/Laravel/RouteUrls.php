<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Closure;
use Illuminate\Contracts\Routing\UrlRoutable;
use Illuminate\Foundation\Application;
use Illuminate\Routing\Route;
use Illuminate\Routing\RouteUrlGenerator;
use Illuminate\Routing\UrlGenerator;
use ReflectionClass;
use UnitEnum;

/**
 * URLs of routes. Laravel reads a route's URI with a dozen regular expressions for each URL; here it is read once. This makes only URLs of the plain kind: an
 * absolute one, each parameter of the route given, by name or by position, and no other, in characters that need no encoding, and nothing that the application
 * formats. All others are Laravel's to make.
 *
 * @internal
 */
final class RouteUrls extends RouteUrlGenerator
{
    /** Characters that stay as they are in a path. */
    private const PLAIN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/';

    /** URIs of routes that are remembered. */
    private const MOST = 1024;

    /** @var array<string, array{list<string>|null, list<string>}> by URI, as parts() returns them */
    private static array $parts = [];

    /** @var array<string, string> by what Laravel encodes: what it leaves so */
    private static array $unencoded;

    /** Whether Laravel's own class gives names and keys to parameters. Before 13 the generator does, and a route's names are not asked for. */
    private static bool $namesParameters;

    /** @var Closure(UrlGenerator): bool whether the application formats hosts or paths */
    private static Closure $formats;

    /** @var array<string, string|null> without slashes at its ends, by the root of URLs; null for one that is not plain */
    private array $roots = [];

    /** Laravel would have made its own by now, and a copy of the generator would share that. */
    private bool $isUsed;

    /** Makes the URLs of each request from now on, if the application's generator is Laravel's own. */
    public static function giveTo(Application $app): void
    {
        if ($app['url']::class !== UrlGenerator::class) {
            return;
        }
        self::$unencoded = (new ReflectionClass(RouteUrlGenerator::class))->getDefaultProperties()['dontEncode'];
        self::$namesParameters = method_exists(RouteUrlGenerator::class, 'formatParameters');
        $formats = static fn (UrlGenerator $urls) => $urls->formatHostUsing !== null || $urls->formatPathUsing !== null;
        self::$formats = Closure::bind($formats, null, UrlGenerator::class);
        // Called after the generator's own callback, which forgets what made the URLs of the request before.
        $app->rebinding('request', static fn (Application $app) => self::replaceIn($app['url']));
    }

    private static function replaceIn(object $urls): void
    {
        if ($urls::class !== UrlGenerator::class) {
            return;
        }
        $before = Closure::bind(fn () => $this->routeGenerator, $urls, UrlGenerator::class)();
        if ($before === null) {
            self::putInto($urls, false);
        } elseif ($before::class === RouteUrlGenerator::class) {
            $own = self::putInto($urls, true);
            [$own->defaultParameters, $own->dontEncode] = [$before->defaultParameters, $before->dontEncode];
        }
    }

    private static function putInto(UrlGenerator $urls, bool $isUsed): self
    {
        $own = Closure::bind(fn () => $this->routeGenerator = new RouteUrls($this, $this->request), $urls, UrlGenerator::class)();
        $own->isUsed = $isUsed;

        return $own;
    }

    public function to($route, $parameters = [], $absolute = false)
    {
        $own = $this->own();
        if ($own !== $this) {
            return $own->to($route, $parameters, $absolute);
        }
        $values = is_array($parameters) ? $parameters : [$parameters];
        $url = $absolute && $route instanceof Route ? $this->plain($route, $values) : null;

        return $url ?? parent::to($route, is_array($parameters) || $values !== [$parameters] ? $values : $parameters, $absolute);
    }

    public function defaults(array $defaults)
    {
        $own = $this->own();
        $own === $this ? parent::defaults($defaults) : $own->defaults($defaults);
    }

    /** This one, but one of its own for a copy of the generator that was made before the first URL. */
    private function own(): self
    {
        if ($this->isUsed) {
            return $this;
        }
        $asks = debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS, 3)[2]['object'] ?? null;
        if ($asks !== $this->url && $asks instanceof UrlGenerator) {
            return self::putInto($asks, true);
        }
        $this->isUsed = true;

        return $this;
    }

    /** @param array<mixed> $values of the parameters; keys take the place of models */
    private function plain(Route $route, array &$values): ?string
    {
        $isOrdinary = $this->defaultParameters === [] && $this->dontEncode === self::$unencoded && !$route->getDomain() && !(self::$formats)($this->url);
        $path = $isOrdinary ? self::path($route, $values) : null;
        $root = $path === null ? null : $this->root($route);

        return $root === null || $path === '' ? $root : "$root/$path";
    }

    private function root(Route $route): ?string
    {
        $root = $this->url->formatRoot($this->getRouteScheme($route));
        if (!array_key_exists($root, $this->roots)) {
            $trimmed = trim($root, '/');
            $isPlain = preg_match('~^https?://[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[a-z0-9_./-]*)?$~Di', $trimmed) && parse_url("$trimmed/") !== false;
            $this->roots[$root] = $isPlain ? $trimmed : null;
        }

        return $this->roots[$root];
    }

    /** Without slashes at its ends. */
    private static function path(Route $route, array &$values): ?string
    {
        $uri = $route->uri();
        [$names, $literals] = is_string($uri) ? self::parts($uri) : [null, []];
        if ($names === null || count($names) !== count($values)) {
            return null;
        }
        // A route remembers the names of its parameters also when its URI has changed.
        if (self::$namesParameters && $names !== $route->parameterNames()) {
            return null;
        }
        $path = $literals[0];
        $isByPosition = array_is_list($values);
        foreach ($names as $at => $name) {
            $key = $isByPosition ? $at : $name;
            $value = $values[$key] ?? null;
            if (self::$namesParameters && $value instanceof UrlRoutable && !$value instanceof UnitEnum && $route->bindingFieldFor($name) === null) {
                $value = $value->getRouteKey();
                if (is_int($value) || (is_string($value) && $value !== '')) {
                    // Laravel need not ask for it once more.
                    $values[$key] = $value;
                }
            }
            if (is_int($value)) {
                $value = (string) $value;
            }
            if (!is_string($value) || $value === '' || !self::isPlain($value)) {
                return null;
            }
            $path .= $value . $literals[$at + 1];
        }

        return trim($path, '/');
    }

    /** @return array{list<string>|null, list<string>} its parameters' names, and the text before, between and behind them; null for a URI that is not plain */
    private static function parts(string $uri): array
    {
        if (!isset(self::$parts[$uri])) {
            if (count(self::$parts) >= self::MOST) {
                self::$parts = [];
            }
            self::$parts[$uri] = self::read($uri);
        }

        return self::$parts[$uri];
    }

    /** @return array{list<string>|null, list<string>} */
    private static function read(string $uri): array
    {
        preg_match_all('~\{([A-Za-z_]\w*)\}~', $uri, $found);
        $names = $found[1];
        $literals = preg_split('~\{[A-Za-z_]\w*\}~', $uri);
        // An optional parameter, for one, is left in them.
        $isPlain = self::isPlain(implode('', $literals)) && count(array_unique($names)) === count($names);

        return [$isPlain ? $names : null, $literals];
    }

    private static function isPlain(string $text): bool
    {
        return strspn($text, self::PLAIN) === strlen($text);
    }
}
