<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Auth\AuthManager;
use Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse;
use Illuminate\Cookie\Middleware\EncryptCookies;
use Illuminate\Foundation\Http\Middleware\VerifyCsrfToken;
use Illuminate\Http\Request;
use Illuminate\Routing\Route;
use Illuminate\Session\Middleware\AuthenticateSession;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Support\ViewErrorBag;
use Illuminate\View\Middleware\ShareErrorsFromSession;
use Symfony\Component\HttpFoundation\Response;

/**
 * The middleware `reprise.cache:SECONDS,TAG,…`: marks a page that is the same for all visitors for Reprise's cache of responses. Its routes have no
 * session. `{name}` in a tag is a parameter of the route: `reprise.cache:3600,post-{post}`.
 */
final class CacheResponse
{
    public const NAME = 'reprise.cache';

    /**
     * What makes a page one visitor's, or sets a cookie. A cookie that nobody decrypts logs nobody in. The last one is a newer Laravel's name for the one
     * before.
     */
    private const OF_VISITORS = [
        EncryptCookies::class,
        AddQueuedCookiesToResponse::class,
        StartSession::class,
        AuthenticateSession::class,
        ShareErrorsFromSession::class,
        VerifyCsrfToken::class,
        'Illuminate\Foundation\Http\Middleware\PreventRequestForgery',
    ];

    /** Before the route's middleware is put together. */
    public static function leaveOutSession(Route $route): void
    {
        $isMarked = static fn ($name): bool => is_string($name)
            && (str_starts_with($name, self::NAME . ':') || str_starts_with($name, self::class) || $name === self::NAME);
        // A worker has the same route in each request.
        if (array_filter($route->gatherMiddleware(), $isMarked) && !in_array(StartSession::class, $route->excludedMiddleware(), true)) {
            $route->withoutMiddleware(self::OF_VISITORS);
        }
    }

    public function handle(Request $request, \Closure $next, int $seconds = 60, string ...$tags): mixed
    {
        if (!$request->hasSession()) {
            // Views rely on it.
            view()->share('errors', new ViewErrorBag());
        }
        $response = $next($request);
        if ($response instanceof Response && self::isServed() && $this->isForAll($request, $response)) {
            $response->headers->set('Reprise-Cache-Control', "max-age=$seconds, stale-while-revalidate=60");
            if ($tags !== []) {
                $response->headers->set('Reprise-Cache-Tag', implode(', ', $this->named($request, $tags)));
            }
        }

        return $response;
    }

    /** Whether Reprise is the server. */
    private static function isServed(): bool
    {
        return reprise_info()['mode'] !== 'none';
    }

    private function isForAll(Request $request, Response $response): bool
    {
        $content = $response->getContent();

        return $request->isMethod('GET')
            && $response->getStatusCode() === 200
            && !$request->headers->has('Authorization')
            && $response->headers->getCookies() === []
            && !$response->headers->hasCacheControlDirective('no-store')
            // What is streamed cannot be looked at.
            && is_string($content) && !str_contains($content, '_token') && !preg_match('~csrf-token["\'][^>]*content=["\'][^"\']~', $content)
            && !$this->isOfUser() && !$this->isOfSession($request);
    }

    /** Of any guard that the page has asked: what it has not asked makes no difference to it. */
    private function isOfUser(): bool
    {
        $auth = app()->resolved('auth') ? app('auth') : null;
        $guards = $auth instanceof AuthManager ? (fn (): array => $this->guards)->call($auth) : [];
        foreach ($guards as $guard) {
            if (!method_exists($guard, 'hasUser') || $guard->hasUser()) {
                return true;
            }
        }

        return false;
    }

    /** Only if a session was started elsewhere, for all routes. */
    private function isOfSession(Request $request): bool
    {
        return $request->hasSession() && array_diff_key($request->session()->all(), ['_token' => 1, '_previous' => 1, '_flash' => 1]) !== [];
    }

    /**
     * @param array<string> $tags
     *
     * @return array<string>
     */
    private function named(Request $request, array $tags): array
    {
        $route = $request->route();
        $values = [];
        foreach ($route instanceof Route ? $route->originalParameters() : [] as $name => $value) {
            $values['{' . $name . '}'] = preg_replace('/[^\w.-]/', '-', (string) $value);
        }

        return array_map(static fn (string $tag): string => strtr($tag, $values), $tags);
    }
}
