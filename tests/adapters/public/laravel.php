<?php

/*
 * Laravel's own tests of stores, locks, tags and events, which name the classes that they are for: here each of these names stands for one of the
 * package, and every test finds the cache empty. What they need of Testbench, which Debian does not have, is below.
 */

declare(strict_types=1);

namespace Orchestra\Testbench {
    use Illuminate\Cache\CacheManager;
    use Illuminate\Config\Repository as Config;
    use Illuminate\Container\Container;
    use Illuminate\Events\Dispatcher;
    use Illuminate\Support\Facades\Facade;
    use Reprise\Laravel\ServiceProvider;

    /** An application of a cache alone, whose driver the package's service provider adds. */
    abstract class TestCase extends \PHPUnit\Framework\TestCase
    {
        protected function setUp(): void
        {
            parent::setUp();
            reprise_cache_flush();
            \Illuminate\Support\Carbon::setTestNow();
            $app = new Container();
            Container::setInstance($app);
            $stores = array_fill_keys(['reprise', 'file', 'memcached', 'redis'], ['driver' => 'reprise']);
            $app->instance('config', new Config(['cache' => ['default' => 'reprise', 'prefix' => 'suite:', 'stores' => $stores]]));
            $app->instance('events', new Dispatcher($app));
            $app->singleton('cache', static fn ($app) => new CacheManager($app));
            (new ServiceProvider($app))->register();
            Facade::clearResolvedInstances();
            Facade::setFacadeApplication($app);
        }
    }
}

namespace Illuminate\Tests\Integration\Cache {
    /** In the place of the one that looks for a server. */
    abstract class MemcachedIntegrationTestCase extends \Orchestra\Testbench\TestCase
    {
    }
}

namespace {
    /** A file of the suite, in which the names of Laravel's classes are those of the package's. */
    $adapted = static function (string $file): void {
        $source = file_get_contents(getenv('SUITES') . '/laravel/tests/' . $file . '.php');
        eval('?>' . strtr($source, [
            'use Illuminate\Cache\ArrayStore;' => 'use Reprise\Laravel\CacheStore as ArrayStore;',
            'use Illuminate\Cache\Repository;' => 'use Reprise\Laravel\CacheRepository as Repository;',
            'use PHPUnit\Framework\TestCase;' => 'use Orchestra\Testbench\TestCase;',
        ]));
    };
    $classes = ['Cache\CacheArrayStoreTest', 'Cache\CacheTaggedCacheTest', 'Cache\CacheEventsTest', 'Integration\Cache\FileCacheLockTest',
        'Integration\Cache\MemcachedCacheLockTestCase', 'Integration\Cache\MemcachedTaggedCacheTestCase'];
    foreach ($classes as $class) {
        $adapted(strtr($class, '\\', '/'));
    }

    return array_map(static fn (string $class): string => "Illuminate\\Tests\\$class", $classes);
}
