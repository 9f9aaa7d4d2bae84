<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\CacheManager;
use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Routing\Events\RouteMatched;
use Illuminate\Support\ServiceProvider as BaseProvider;

/** Laravel finds it by composer.json. It adds the middleware `reprise.cache` and the cache driver `reprise`. */
final class ServiceProvider extends BaseProvider
{
    public function register(): void
    {
        $this->callAfterResolving('cache', static function (CacheManager $cache): void {
            // Not static: the manager binds it to itself.
            $cache->extend('reprise', function ($app, array $config): CacheRepository {
                $repository = new CacheRepository(new CacheStore((string) ($config['prefix'] ?? $app['config']['cache.prefix'])), $config);
                if ($app->bound(Dispatcher::class)) {
                    $repository->setEventDispatcher($app[Dispatcher::class]);
                }

                return $repository;
            });
        });
    }

    public function boot(): void
    {
        $this->app['router']->aliasMiddleware(CacheResponse::NAME, CacheResponse::class);
        $this->app['events']->listen(RouteMatched::class, static fn (RouteMatched $event) => CacheResponse::leaveOutSession($event->route));
    }
}
