<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Closure;
use Illuminate\Foundation\Application;
use Illuminate\Routing\CompiledRouteCollection;
use Illuminate\Routing\Route;
use Illuminate\Routing\UrlGenerator;

/**
 * The routes of `route:cache` for whoever makes URLs. Laravel 8 makes a route anew for each URL; here each name has one, as in Laravel 13. The router has routes of its
 * own, which belong to a request.
 *
 * @internal
 */
final class NamedRoutes extends CompiledRouteCollection
{
    /** @var array<string, Route> */
    private array $named = [];

    /** Gives them to the application's generator of URLs, if this has routes that are made anew. */
    public static function giveTo(Application $app): void
    {
        $routes = $app['router']->getRoutes();
        $urls = $app['url'];
        $isPlain = $urls instanceof UrlGenerator && Closure::bind(fn () => $this->routes, $urls, UrlGenerator::class)() === $routes;
        if ($isPlain && $routes::class === CompiledRouteCollection::class && !property_exists($routes, 'nameCache')) {
            $urls->setRoutes(self::of($routes));
        }
    }

    private static function of(CompiledRouteCollection $routes): self
    {
        $own = new self($routes->compiled, $routes->attributes);
        [$own->routes, $own->router, $own->container] = [$routes->routes, $routes->router, $routes->container];

        return $own;
    }

    public function getByName($name)
    {
        if (isset($this->named[$name])) {
            return $this->named[$name];
        }
        $route = parent::getByName($name);
        // One that the application has added, and may replace, is not in the file.
        if ($route !== null && isset($this->attributes[$name])) {
            $this->named[$name] = $route;
        }

        return $route;
    }
}
