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

/**
 * URLs of routes. Laravel reads a route's URI with a dozen regular expressions for each URL; here it is read once. This makes only URLs of the plain kind: an
 * absolute one, each parameter of the route given, by name or by position, and no other, in characters that need no encoding. All others are Laravel's to make.
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

    /** @var array<string, string|null> without slashes at its ends, by the root of URLs; null for one that is not plain */
    private array $roots = [];

    /** Makes the URLs of each request from now on, if the application's generator is Laravel's own. */
    public static function giveTo(Application $app): void
    {
        if ($app['url']::class !== UrlGenerator::class) {
            return;
        }
        self::$unencoded = (new ReflectionClass(RouteUrlGenerator::class))->getDefaultProperties()['dontEncode'];
        // Called after the generator's own callback, which forgets what made the URLs of the request before.
        $app->rebinding('request', static fn (Application $app) => self::replaceIn($app['url']));
    }

    private static function replaceIn(object $urls): void
    {
        if ($urls::class === UrlGenerator::class) {
            Closure::bind(function (): void {
                $before = $this->routeUrl();
                if ($before::class === RouteUrlGenerator::class) {
                    $this->routeGenerator = new RouteUrls($this, $this->request);
                    $this->routeGenerator->defaultParameters = $before->defaultParameters;
                    $this->routeGenerator->dontEncode = $before->dontEncode;
                }
            }, $urls, UrlGenerator::class)();
        }
    }

    public function to($route, $parameters = [], $absolute = false)
    {
        return ($absolute ? $this->plain($route, $parameters) : null) ?? parent::to($route, $parameters, $absolute);
    }

    private function plain(Route $route, mixed $parameters): ?string
    {
        if ($this->defaultParameters !== [] || $this->dontEncode !== self::$unencoded || $route->getDomain()) {
            return null;
        }
        $path = self::path($route, is_array($parameters) ? $parameters : [$parameters]);
        $root = $path === null ? null : $this->root($route);
        if ($root === null) {
            return null;
        }
        $url = $this->url->format($root, $path, $route);

        // Another is one that the application has formatted.
        return $url === ($path === '' ? $root : "$root/$path") ? $url : null;
    }

    private function root(Route $route): ?string
    {
        $root = $this->url->formatRoot($this->getRouteScheme($route));
        if (!array_key_exists($root, $this->roots)) {
            $trimmed = trim($root, '/');
            $isPlain = preg_match('~^https?://[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[\w./-]*)?$~Di', $trimmed) && parse_url("$trimmed/") !== false;
            $this->roots[$root] = $isPlain ? $trimmed : null;
        }

        return $this->roots[$root];
    }

    /** Without slashes at its ends. */
    private static function path(Route $route, array $parameters): ?string
    {
        [$names, $literals] = self::parts($route->uri());
        // A route remembers the names of its parameters also when its URI has changed.
        if ($names === null || count($names) !== count($parameters) || $names !== $route->parameterNames()) {
            return null;
        }
        $path = $literals[0];
        $isByPosition = array_is_list($parameters);
        foreach ($names as $at => $name) {
            $value = $parameters[$isByPosition ? $at : $name] ?? null;
            if ($value instanceof UrlRoutable && $route->bindingFieldFor($name) === null) {
                $value = $value->getRouteKey();
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
