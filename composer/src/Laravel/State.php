<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Foundation\Application;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Str;

/**
 * What Laravel's own services keep of a request. The order of the list is that of Octane's listeners.
 *
 * @internal
 */
final class State
{
    private readonly string $locale;

    public function __construct(private readonly Application $app)
    {
        $this->locale = $app->getLocale();
    }

    public function forget(): void
    {
        $app = $this->app;
        if ($app->resolved('session')) {
            foreach ($app['session']->getDrivers() as $store) {
                $store->flush();
            }
            $app['session']->forgetDrivers();
        }
        if ($app->resolved('auth')) {
            $app['auth']->forgetGuards();
        }
        if ($app->resolved('cookie')) {
            $app['cookie']->flushQueuedCookies();
        }
        // They hold a session or a guard.
        foreach (['session.store', 'redirect', 'auth.driver'] as $name) {
            $app->forgetInstance($name);
            Facade::clearResolvedInstance($name);
        }
        $app->forgetScopedInstances();
        if ($app->resolved('db')) {
            foreach ($app['db']->getConnections() as $connection) {
                $connection->forgetRecordModificationState();
                $connection->flushQueryLog();
            }
        }
        if ($app->resolved('log')) {
            foreach ($app['log']->getChannels() as $channel) {
                $channel->withoutContext();
            }
        }
        if ($app->getLocale() !== $this->locale) {
            $app->setLocale($this->locale);
        }
        // A route that is not from the cache keeps its controller, and so what was injected into it.
        $app['router']->current()?->flushController();
        Str::flushCache();
    }

    /** Closes what may not be open at a snapshot. All of it opens again when it is needed. */
    public function disconnect(): void
    {
        if ($this->app->resolved('db')) {
            foreach ($this->app['db']->getConnections() as $connection) {
                $connection->disconnect();
            }
        }
        if ($this->app->resolved('log')) {
            foreach ($this->app['log']->getChannels() as $channel) {
                $logger = $channel->getLogger();
                if (method_exists($logger, 'close')) {
                    $logger->close();
                }
            }
        }
    }
}
