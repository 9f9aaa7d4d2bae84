<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\Lock;

/** A lock of the driver `reprise`. It lasts beyond a request, until it is released or its time is over. */
final class CacheLock extends Lock
{
    public function acquire(): bool
    {
        return reprise_cache_add($this->name, $this->owner, max(0, $this->seconds));
    }

    public function release(): bool
    {
        return reprise_cache_delete($this->name, only_if: $this->owner);
    }

    public function forceRelease(): void
    {
        reprise_cache_delete($this->name);
    }

    protected function getCurrentOwner(): ?string
    {
        return reprise_cache_fetch($this->name);
    }
}
