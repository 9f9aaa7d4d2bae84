<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Database\Connection;
use Illuminate\Foundation\Application;
use Illuminate\Support\Facades\Facade;

use function Reprise\afterFork;

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
                self::rollBack($connection);
                $connection->forgetRecordModificationState();
                $connection->flushQueryLog();
            }
        }
        if ($app->resolved('log')) {
            foreach ($app['log']->getChannels() as $channel) {
                $channel->withoutContext();
            }
        }
        // A worker's request sets it in its clone of the configuration, and in the translator that all share.
        $now = $app->resolved('translator') ? $app['translator']->getLocale() : $app->getLocale();
        if ($now !== $this->locale || $app->getLocale() !== $this->locale) {
            $app->setLocale($this->locale);
        }
        if ($app->resolved('cache')) {
            $this->flushArrayStores();
        }
        // A route that is not from the cache keeps its controller, and so what was injected into it.
        $app['router']->current()?->flushController();
    }

    /** They last as long as a request under PHP-FPM, and so do their locks. */
    private function flushArrayStores(): void
    {
        foreach ($this->app['config']['cache.stores'] ?? [] as $name => $store) {
            if (($store['driver'] ?? null) === 'array') {
                $store = $this->app['cache']->store($name)->getStore();
                $store->flush();
                $store->locks = [];
            }
        }
    }

    /** As under PHP-FPM, where it ends with the process: exit() and exceptions leave transactions open. */
    private static function rollBack(Connection $connection): void
    {
        if ($connection->transactionLevel() === 0) {
            return;
        }
        try {
            $connection->rollBack(0);
        } catch (\Throwable) {
            $connection->disconnect();
        }
    }

    /**
     * Closes what may not be open at a snapshot. All of it opens again when it is needed, and with `kept_connections` once in each
     * worker.
     */
    public function disconnect(): void
    {
        $app = $this->app;
        if ($app->resolved('db')) {
            foreach ($app['db']->getConnections() as $name => $connection) {
                if ($connection->getRawPdo() instanceof \PDO && $connection->getDriverName() !== 'sqlite') {
                    afterFork(static fn () => $app['db']->reconnect($name)->getPdo());
                }
                $connection->disconnect();
            }
        }
        if ($app->resolved('redis')) {
            foreach ($app['redis']->connections() ?? [] as $name => $connection) {
                afterFork(static fn () => $app['redis']->connection($name)->command('ping'));
                $connection->disconnect();
                $app['redis']->purge($name);
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
