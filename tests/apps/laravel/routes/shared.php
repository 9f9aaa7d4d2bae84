<?php
// For routes/web.php of an application with the bridge, by tests/tests/cache_applications: pages for all visitors, some of them wrongly so.
use App\Http\Controllers\BlogController;
use App\Models\User;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\{Auth, Cookie, Route};
use Reprise\Laravel\Cache;

Route::get('/shared/list', [BlogController::class, 'home'])->middleware('reprise.cache:3600,posts');
Route::view('/shared/form/{n}', 'account.login')->middleware('reprise.cache:3600,forms');
Route::get('/shared/{what}/{n}', function (Request $r, string $what, string $n) {
    [$cart, $user] = [$_COOKIE['cart'] ?? 'none', 'nobody'];
    if ($what === 'user') { Auth::setUser(User::first()); }
    if ($what === 'queued') { Cookie::queue('told', $n); }
    $response = response("[[user=$user lang=" . $r->getPreferredLanguage(['en', 'de', 'fr']) . " cart=$cart page=$n]] " . bin2hex(random_bytes(8)), $what === 'gone' ? 404 : 200);
    $response->withHeaders(['Vary' => 'Accept-Language', 'Reprise-Cache-Cookies' => 'cart']);
    if ($what === 'cookie') { $response->withCookie('told', $n); }
    if ($what === 'secret') { $response->header('Cache-Control', 'no-store'); }
    if ($what === 'stream') { return response()->stream(fn () => print('streamed')); }
    return $response;
})->middleware('reprise.cache:3600,page-{n},{what}');
Route::get('/purge/{what}/{name}', fn (string $what, string $name) => response()->json(match ($what) {
    'tag' => Cache::purge($name), 'url' => Cache::purgeUrls("/shared/open/$name"), 'all' => Cache::purgeAll(),
}));
