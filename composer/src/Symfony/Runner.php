<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Doctrine\DBAL\Connection;
use Symfony\Component\Cache\LockRegistry;
use Symfony\Component\DependencyInjection\Container;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\HttpCache\HttpCache;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\HttpKernel\TerminableInterface;
use Symfony\Component\Runtime\RunnerInterface;

use function Reprise\afterFork;
use function Reprise\beforeSnapshot;
use function Reprise\isBoot;
use function Reprise\run;
use function Reprise\wantsWorker;

/** @internal */
final class Runner implements RunnerInterface
{
    /** A request has begun and not ended. */
    private bool $isBusy = false;

    public function __construct(private readonly HttpKernelInterface $kernel)
    {
    }

    public function run(): int
    {
        if (isBoot() && $this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
        }
        beforeSnapshot($this->reset(...));
        // A kernel that is shut down gives up its services, the stack of requests with them. HttpCache keeps locks of its
        // own, and what is no such kernel cannot be told to forget.
        run($this->handle(...), $this->warmUp(...), survivesExit: $this->kernel instanceof KernelInterface);

        return 0;
    }

    private function handle(): void
    {
        if (wantsWorker()) {
            register_shutdown_function($this->abandon(...));
        }
        $this->isBusy = true;
        $request = Request::createFromGlobals();
        $response = $this->kernel->handle($request);
        $response->send();
        if ($this->kernel instanceof TerminableInterface) {
            $this->kernel->terminate($request, $response);
        }
        $this->isBusy = false;
    }

    /** It has ended by exit(): it is still on the kernel's stack, and its services would stay, connections and locks with them. */
    private function abandon(): void
    {
        $kernel = $this->kernel instanceof HttpCache ? $this->kernel->getKernel() : $this->kernel;
        if ($this->isBusy && $kernel instanceof KernelInterface) {
            $kernel->shutdown();
            // A callback of a cache that did not come back: the other workers would wait for its lock for ever.
            if (class_exists(LockRegistry::class, false)) {
                LockRegistry::setFiles(LockRegistry::setFiles([]));
            }
            gc_collect_cycles();
        }
        $this->isBusy = false;
    }

    /** A request without an answer. In a snapshot no request follows it that would have the services reset. */
    private function warmUp(): int
    {
        $request = Request::createFromGlobals();
        $response = $this->kernel->handle($request);
        if ($this->kernel instanceof TerminableInterface) {
            $this->kernel->terminate($request, $response);
        }

        return $response->getStatusCode();
    }

    /** What the warm-up has left: data in services, open connections. */
    private function reset(): void
    {
        if (!$this->kernel instanceof KernelInterface) {
            return;
        }
        // Symfony resets the services (tag kernel.reset) when a booted kernel that has handled something is booted again.
        $this->kernel->boot();
        foreach (self::services($this->kernel->getContainer()) as $service) {
            if ($service instanceof Connection) {
                // What the warm-up has used: with `kept_connections` a worker opens it once. SQLite has no connection to keep.
                if ($service->isConnected() && !str_contains((string) ($service->getParams()['driver'] ?? ''), 'sqlite')) {
                    afterFork(static fn () => $service->executeQuery($service->getDatabasePlatform()->getDummySelectSQL())->free());
                }
                $service->close();
            }
        }
    }

    /**
     * The services made so far, private ones too: without DoctrineBundle there is no registry of connections to ask.
     *
     * @return array<mixed>
     */
    private static function services(object $container): array
    {
        if (!$container instanceof Container) {
            return [];
        }

        return (fn (): array => [...array_values($this->services), ...array_values($this->privates)])->call($container);
    }
}
