<?php

/* PSR-6, PSR-16 and Symfony's interfaces over the data cache, in each mode. */

declare(strict_types=1);

use Reprise\Psr\CachePool;
use Reprise\Psr\SimpleCache;
use Reprise\Symfony\Adapter;
use Reprise\Symfony\LockStore;
use Reprise\Symfony\TagAwareAdapter;
use Symfony\Component\Lock\LockFactory;
use Symfony\Contracts\Cache\ItemInterface;

require __DIR__ . '/../vendor/autoload.php';

/** A value that says how often it was computed. */
function computed(string $name): string
{
    file_put_contents(getenv('RUNS') . "/$name", '.', FILE_APPEND);
    usleep(1000 * (int) ($_GET['ms'] ?? 0));
    clearstatcache();

    return 'made ' . filesize(getenv('RUNS') . "/$name");
}

Reprise\run(static function (): void {
    $pool = new CachePool('a');
    $simple = new SimpleCache('a');
    $adapter = new Adapter('a');
    $tagged = new TagAwareAdapter('a');
    $key = $_GET['key'] ?? 'key';
    header('Mode: ' . reprise_info()['mode']);
    echo json_encode(match ($_GET['do']) {
        'save' => [$pool->save($pool->getItem($key)->set([1, 'x' => new DateTime('@1')])), $simple->set($key, 'text', 60)],
        'read' => [$pool->getItem($key)->get()['x']->format('U'), $simple->get($key), (new SimpleCache('b'))->get($key, 'none')],
        'clear' => [$simple->clear(), $simple->has($key), $pool->hasItem($key), $pool->clear(), $pool->hasItem($key)],
        'get' => $adapter->get($key, static function (ItemInterface $item) use ($key): string {
            $item->expiresAfter(60);

            return computed($key);
        }),
        'item' => $adapter->getItem($key)->get(),
        'tagged' => $tagged->get($key, static function (ItemInterface $item) use ($key): string {
            $item->tag(['one', 'two']);

            return computed($key);
        }),
        'invalidate' => $tagged->invalidateTags([$_GET['tag']]),
        // The tag is invalidated, or the key deleted, by another request while the value is computed.
        'late' => $tagged->get($key, static function (ItemInterface $item) use ($tagged, $key): string {
            $item->tag('late');
            $tagged->invalidateTags(['late']);

            return computed($key);
        }),
        'deleted' => $adapter->get($key, static function () use ($adapter, $key): string {
            $adapter->deleteItem($key);

            return computed($key);
        }),
        'unstored' => $adapter->get($key, static function (ItemInterface $item, bool &$save) use ($key): string {
            $save = false;

            return computed($key);
        }),
        'forced' => $adapter->get($key, static fn (): string => computed($key), INF),
        'lock' => (new LockFactory(new LockStore()))->createLock('lock', 30, false)->acquire(),
        // As the documentation configures them.
        'services' => (static function () use ($key): array {
            $_SERVER += ['APP_SECRET' => 'x', 'DATABASE_PATH' => 'data/blog.sqlite'];
            $kernel = new App\Kernel('prod', false);
            $kernel->boot();
            [$products, $app, $locks] = array_map($kernel->getContainer()->get(...), ['test.products', 'test.app', 'test.locks']);
            $value = $products->get($key, static function (ItemInterface $item) use ($key): string {
                $item->tag('one');

                return computed($key);
            });

            return [$products::class, $app::class, $value, $products->invalidateTags(['one']), $products->getItem($key)->isHit(), $locks->createLock('of the kernel')->acquire()];
        })(),
        'locked' => (static function (): array {
            $factory = new LockFactory(new LockStore());
            $lock = $factory->createLock('own', 30);
            $said = [$lock->acquire(), $factory->createLock('own', 30)->acquire(), $lock->isAcquired()];
            $lock->refresh(60);
            $lock->release();

            return [...$said, $factory->createLock('own', 30)->acquire()];
        })(),
    });
});
