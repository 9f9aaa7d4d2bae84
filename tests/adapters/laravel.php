<?php

/* Laravel's cache with the driver `reprise`, in each mode. */

declare(strict_types=1);

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Cache;

require __DIR__ . '/../vendor/autoload.php';
$app = require __DIR__ . '/../bootstrap/app.php';
$app->instance('request', Request::capture());
$app->make(Kernel::class)->bootstrap();
config(['cache.stores.reprise' => ['driver' => 'reprise'], 'cache.default' => 'reprise']);

/** A value that says how often it was computed. */
function computed(string $name): string
{
    file_put_contents(getenv('RUNS') . "/$name", '.', FILE_APPEND);
    usleep(1000 * (int) ($_GET['ms'] ?? 0));
    clearstatcache();

    return 'made ' . filesize(getenv('RUNS') . "/$name");
}

Reprise\run(static function (): void {
    $key = $_GET['key'] ?? 'key';
    header('Mode: ' . reprise_info()['mode']);
    echo json_encode(match ($_GET['do']) {
        'put' => [Cache::put($key, ['x' => [1]], 60), Cache::add($key, 1, 60), Cache::increment('n', 2), Cache::decrement('n'), Cache::tags(['a', 'b'])->put($key, 'tagged', 60)],
        'get' => [Cache::get($key), Cache::many([$key, 'nothing']), Cache::get('n'), Cache::tags(['a', 'b'])->get($key), Cache::has('nothing')],
        'flush' => [Cache::tags('b')->flush(), Cache::tags(['a', 'b'])->get($key), Cache::forget($key), Cache::get($key), Cache::flush(), Cache::get('n')],
        'remember' => Cache::remember($key, 60, static fn (): string => computed($key)),
        'tagged' => Cache::tags('t')->remember($key, 60, static fn (): string => computed($key)),
        'no tag' => Cache::tags('t')->flush(),
        'null' => Cache::remember($key, 60, static function () use ($key): void { computed($key); }),
        'forgotten' => Cache::remember($key, 60, static function () use ($key): string {
            Cache::forget($key);

            return computed($key);
        }),
        'flexible' => Cache::flexible($key, [(int) $_GET['fresh'], 60], static fn (): string => computed($key)),
        'lock' => Cache::lock('lock', 30, $_GET['owner'])->get(),
        'release' => Cache::restoreLock('lock', $_GET['owner'])->release(),
    });
});
