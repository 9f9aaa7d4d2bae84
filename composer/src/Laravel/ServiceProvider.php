<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Routing\Events\RouteMatched;
use Illuminate\Support\ServiceProvider as BaseProvider;

/** Laravel finds it by composer.json. It adds the middleware `reprise.cache`. */
final class ServiceProvider extends BaseProvider
{
    public function boot(): void
    {
        $this->app['router']->aliasMiddleware(CacheResponse::NAME, CacheResponse::class);
        $this->app['events']->listen(RouteMatched::class, static fn (RouteMatched $event) => CacheResponse::leaveOutSession($event->route));
    }
}
