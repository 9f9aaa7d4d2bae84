<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\HigherOrderTapProxy;

use function Reprise\beforeSnapshot;
use function Reprise\collecting;
use function Reprise\isBoot;
use function Reprise\snapshot;
use function Reprise\wantsWorker;

use Reprise\WarmUp;

/**
 * Stands behind the line of public/index.php that makes the application. With a snapshot it comes back once per request,
 * the application booted and warm, and the rest of the file handles the request; a worker's loop ends in here.
 */
function serve(Application $app): void
{
    if (isBoot()) {
        // As the kernel does before it boots for its first request.
        $app->instance('request', Request::capture());
        $app->make(Kernel::class)->bootstrap();
    }
    if (wantsWorker()) {
        $worker = new Worker($app);
        if (isBoot()) {
            WarmUp::run($worker->warmUp(...));
        }
        $handler = collecting($worker->handle(...));
        // Not beyond exit(): Laravel keeps in static variables what its `finally` puts back (Model::unguarded(), withoutEvents()).
        while (reprise_handle_request($handler)) {
            gc_collect_cycles();
        }
        exit;
    }
    if (isBoot()) {
        $state = new State($app);
        // What public/index.php's tap() makes of the response.
        class_exists(HigherOrderTapProxy::class);
        WarmUp::run(static function () use ($app, $state): int {
            $kernel = $app->make(Kernel::class);
            $request = Request::capture();
            $response = $kernel->handle($request);
            $kernel->terminate($request, $response);
            $state->forget();

            return $response->getStatusCode();
        });
        beforeSnapshot($state->forget(...));
        beforeSnapshot($state->disconnect(...));
    }
    snapshot();
}
