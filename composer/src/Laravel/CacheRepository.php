<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\Repository;

/** Laravel's cache over the driver `reprise`. */
final class CacheRepository extends Repository
{
    use Remembers;
}
