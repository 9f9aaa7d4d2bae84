<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Symfony\Component\Cache\Adapter\AbstractAdapter;

/** A pool of Symfony's cache in Reprise's data cache. */
final class Adapter extends AbstractAdapter
{
    use SharedValues;

    protected function doSave(array $values, int $lifetime): array|bool
    {
        $failed = [];
        foreach ($values as $id => $value) {
            if (!$this->store((string) $id, $value, $lifetime)) {
                $failed[] = $id;
            }
        }

        return $failed;
    }
}
