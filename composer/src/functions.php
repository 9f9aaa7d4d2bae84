<?php

declare(strict_types=1);

namespace Reprise;

/** Whether this is the boot of a snapshot or of a worker script, and not a request of anybody. */
function isBoot(): bool
{
    return isset($_SERVER['REPRISE_BOOT']);
}

/** Whether REPRISE_MODE wants a worker's loop. The default is a snapshot. */
function wantsWorker(): bool
{
    return 'worker' === ($_SERVER['REPRISE_MODE'] ?? getenv('REPRISE_MODE'));
}

/** Runs before the snapshot, once: close here what has another end (connections, sockets, files open for writing). */
function beforeSnapshot(callable $hook): void
{
    Hooks::$before[] = $hook;
}

/** Runs behind the snapshot, in every request, before the application sees it. */
function afterRestore(callable $hook): void
{
    Hooks::$after[] = $hook;
}

/**
 * Runs once in each worker that is forked from the snapshot: open connections here that stay open (docs/guides/connections.md).
 * Elsewhere it is never called.
 */
function afterFork(callable $hook): void
{
    reprise_after_fork($hook);
}

/** reprise_snapshot() between the hooks. They run only where a snapshot is taken: one, or one for each host and scheme. */
function snapshot(bool $perHost = false): void
{
    // A request that runs without a snapshot also makes the call: that is how the server finds the script.
    if (!isBoot()) {
        reprise_snapshot($perHost);

        return;
    }
    Hooks::run(Hooks::$before);
    gc_collect_cycles();
    reprise_snapshot($perHost);
    Hooks::run(Hooks::$after);
}

/**
 * Renders the pages of the warm-up requests before the snapshot, each in a child process of the boot: GET, without cookie and Authorization, of
 * this boot's host. Nothing of a page stays but the values that `$after` returns, which the caller puts where requests find them. Does nothing
 * elsewhere than in a boot.
 *
 * A page that throws, fails, takes too long or answers 400 or more gives nothing, and the log says why.
 *
 * @param callable(array{method: string, path: string, headers: array<string, string>}): mixed      $render  renders the page that the superglobals ask for; may exit()
 * @param null|callable(array{method: string, path: string, headers: array<string, string>}): mixed $before  in the child, before the page: opens what the page needs, begins a transaction
 * @param null|callable(array{method: string, path: string, headers: array<string, string>}): mixed $after   in the child, after the page: returns what is to be kept, serializable, of no visitor
 * @param int                                                                                        $seconds the time that a page has
 *
 * @return array<string, mixed> what `$after` has returned, by path
 */
function warm(callable $render, ?callable $before = null, ?callable $after = null, int $seconds = 30): array
{
    $kept = [];
    foreach (Warm::canRender() ? Warm::requests() : [] as $request) {
        $said = Warm::render($request, $render, $before, $after, max(1, $seconds));
        if (is_array($said)) {
            $kept[$request['path']] = $said[0];
        } else {
            Warm::complain($request, $said);
        }
    }

    return $kept;
}

/**
 * Loads the classes that the pages of the warm-up requests need before the snapshot: each page is rendered in a child process of the boot, and nothing of it
 * stays but the names of its classes, which the boot then loads by its autoloader. A child returns from here with true, and the superglobals of its request:
 * it goes on as a request does, which renders the page. The boot itself gets false, and so does who calls elsewhere than in a boot.
 *
 * @param null|callable(array{method: string, path: string, headers: array<string, string>}): bool $is        whether a request is one of this script
 * @param null|string                                                                              $otherwise the path that is rendered if there are no such requests
 */
function preload(?callable $is = null, ?string $otherwise = null, int $seconds = 30): bool
{
    $requests = array_filter(Warm::canRender() ? Warm::requests() : [], $is ?? static fn (): bool => true);
    if ($requests === [] && $otherwise !== null && Warm::canRender()) {
        $requests = [['method' => 'GET', 'path' => $otherwise, 'headers' => []]];
    }
    $declared = static fn (): array => [...get_declared_interfaces(), ...get_declared_traits(), ...get_declared_classes()];
    foreach ($requests as $request) {
        $said = Warm::inChild($request, $declared, max(1, $seconds));
        if ($said instanceof Warm) {
            return true;
        }
        is_array($said) ? Warm::load((array) $said[0]) : Warm::complain($request, $said);
    }

    return false;
}

/**
 * Runs an application that takes its request from the superglobals and prints its answer: from a snapshot, in a worker's
 * loop (REPRISE_MODE=worker), or, without Reprise, once.
 *
 * @param callable(): mixed      $handle       one request
 * @param null|callable(): mixed $warmUp       one warm-up request; without it there are none
 * @param bool                   $survivesExit whether a worker goes on after a request that called exit(), of which no
 *                                             `finally` has run: only if the application puts itself in order
 */
function run(callable $handle, ?callable $warmUp = null, bool $survivesExit = false): void
{
    if (isBoot() && $warmUp !== null) {
        WarmUp::run($warmUp);
    }
    if (!wantsWorker()) {
        snapshot();
        $handle();

        return;
    }
    $handler = collecting($handle);
    while (reprise_handle_request($handler, $survivesExit)) {
        // What one has left that has ended by exit().
        gc_collect_cycles();
    }
}

/**
 * A handler whose objects are gone when it has ended, those in cycles too: what their destructors do is the request's own.
 *
 * @internal
 */
function collecting(callable $handle): callable
{
    return static function () use ($handle): void {
        $handle();
        gc_collect_cycles();
    };
}
