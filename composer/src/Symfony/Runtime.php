<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\Runtime\RunnerInterface;
use Symfony\Component\Runtime\SymfonyRuntime;

/** Symfony's own runtime, but that a kernel is run as Reprise's mode wants it. */
final class Runtime extends SymfonyRuntime
{
    public function getRunner(?object $application): RunnerInterface
    {
        return $application instanceof HttpKernelInterface ? new Runner($application) : parent::getRunner($application);
    }
}
