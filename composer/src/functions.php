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
