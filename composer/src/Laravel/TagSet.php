<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Cache\TagSet as BaseTagSet;

/**
 * Laravel's tags. Of requests that are the first to need one at once, all have the same.
 *
 * @internal
 */
final class TagSet extends BaseTagSet
{
    public function tagId($name): string
    {
        $key = $this->tagKey($name);
        $id = $this->store->get($key);
        if ($id !== null) {
            return $id;
        }
        $new = bin2hex(random_bytes(12));

        return $this->store->add($key, $new, 0) ? $new : ($this->store->get($key) ?? $new);
    }
}
