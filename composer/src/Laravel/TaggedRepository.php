<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\TaggedCache;

/** Laravel's cache with tags over the driver `reprise`. */
final class TaggedRepository extends TaggedCache
{
    use Remembers;
}
