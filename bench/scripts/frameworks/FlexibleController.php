<?php

namespace App\Http\Controllers;

use App\SiteData;
use Illuminate\Contracts\Cache\Repository;
use Illuminate\Support\Facades\Cache;

/** A page whose values are Cache::flexible()'s, in the store that STORE names: good for two seconds, then made anew behind a response. */
class FlexibleController extends Controller
{
    private const TTL = [2, 60];

    public function show()
    {
        $store = Cache::store(getenv('STORE'));
        $get = method_exists($store, 'flexible')
            ? fn (string $key, callable $make) => $store->flexible($key, self::TTL, $make)
            : fn (string $key, callable $make) => self::flexible($store, $key, self::TTL, $make);

        return view('flexible', SiteData::all($get));
    }

    /** What Illuminate\Cache\Repository::flexible() of Laravel 11 does; the function after the response is its defer(). */
    private static function flexible(Repository $store, string $key, array $ttl, callable $make): mixed
    {
        $at = "illuminate:cache:flexible:created:$key";
        [$key => $value, $at => $created] = $store->many([$key, $at]);
        $put = fn ($value) => $store->putMany([$key => $value, $at => time()], $ttl[1]);
        if ($value === null || $created === null) {
            $put($value = $make());

            return $value;
        }
        if ($created + $ttl[0] <= time()) {
            app()->terminating(fn () => $store->getStore()->lock("illuminate:cache:flexible:lock:$key")->get(function () use ($store, $at, $created, $put, $make): void {
                if ($created === $store->get($at)) {
                    $put($make());
                }
            }));
        }

        return $value;
    }
}
