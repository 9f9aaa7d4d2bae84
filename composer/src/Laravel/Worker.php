<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Pagination\PaginationState;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Str;

/**
 * Requests in a living process, as Laravel's Octane runs them: each in a clone of the booted application, so that what a
 * request resolves goes with it. Services that are there before are shared; they are handed the clone, and State has them
 * forget the request before.
 *
 * @internal
 */
final class Worker
{
    /** Shared, because other services of the boot hold them. */
    private const SHARED = ['auth', 'cache', 'cookie', 'db', 'encrypter', 'events', 'files', 'hash', 'log', 'session', 'translator'];
    /** Of these the clone has its own, because they collect what is set in a request. */
    private const CLONED = ['config', 'url', 'view'];
    /** Those that keep an application and can be handed another. */
    private const HANDED = ['auth', 'db', 'filesystem', 'mail.manager', 'queue', 'router', 'session', 'validator', 'view', Kernel::class, Gate::class];

    /**
     * PHP's streams that read functions of cached routes. Each remembers in a static variable that it is registered, and what a request registers ends with
     * it: they are registered before the first.
     */
    private const STREAMS = ['Laravel\SerializableClosure\Support\ClosureStream', 'Opis\Closure\ClosureStream'];

    private readonly State $state;
    /** A request has begun and not ended. */
    private bool $isBusy = false;

    public function __construct(private readonly Application $app)
    {
        // In a classic request the script runs for one, and its application is not yet booted.
        if (!$app->hasBeenBootstrapped()) {
            $app->instance('request', Request::capture());
            $app->make(Kernel::class)->bootstrap();
        }
        foreach ([...self::SHARED, ...self::CLONED] as $name) {
            if ($app->bound($name)) {
                $app->make($name);
            }
        }
        foreach (self::STREAMS as $stream) {
            if (class_exists($stream)) {
                $stream::register();
            }
        }
        $this->state = new State($app);
    }

    public function handle(): void
    {
        // One that ends by exit() leaves nothing either: no transaction stays open until the next comes.
        register_shutdown_function(function (): void {
            if ($this->isBusy) {
                $this->end();
            }
        });
        $this->isBusy = true;
        $kernel = $this->sandbox()->make(Kernel::class);
        $request = Request::capture();
        $response = $kernel->handle($request);
        $response->send();
        $kernel->terminate($request, $response);
        $this->end();
    }

    private function end(): void
    {
        $this->isBusy = false;
        $this->forget();
    }

    /** A request without an answer. */
    public function warmUp(): int
    {
        $kernel = $this->sandbox()->make(Kernel::class);
        $request = Request::capture();
        $response = $kernel->handle($request);
        $kernel->terminate($request, $response);
        $this->forget();

        return $response->getStatusCode();
    }

    private function forget(): void
    {
        $this->state->forget();
        // What has been made of words, which would grow with each new one. A snapshot keeps its own, and a request's end with it.
        Str::flushCache();
    }

    private function sandbox(): Application
    {
        $sandbox = clone $this->app;
        Container::setInstance($sandbox);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($sandbox);
        $sandbox->instance('app', $sandbox);
        $sandbox->instance(Container::class, $sandbox);
        foreach (self::CLONED as $name) {
            $sandbox->instance($name, clone $this->app[$name]);
        }
        $sandbox['view']->share(['app' => $sandbox, '__env' => $sandbox['view']]);
        foreach (self::HANDED as $name) {
            if (!$sandbox->resolved($name)) {
                continue;
            }
            $service = $sandbox->make($name);
            foreach (['setApplication', 'setContainer'] as $setter) {
                if (method_exists($service, $setter)) {
                    $service->$setter($sandbox);
                }
            }
        }
        PaginationState::resolveUsing($sandbox);

        return $sandbox;
    }
}
