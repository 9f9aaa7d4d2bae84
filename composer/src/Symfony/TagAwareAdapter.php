<?php

declare(strict_types=1);

namespace Reprise\Symfony;

use Symfony\Component\Cache\Adapter\AbstractTagAwareAdapter;

/** A pool of Symfony's cache in Reprise's data cache, whose items may have tags; at most 63 each. */
final class TagAwareAdapter extends AbstractTagAwareAdapter
{
    use SharedValues;

    /** How long it is known when a tag was invalidated, in seconds: for computations that take less. */
    private const KNOWN_SECONDS = 3600;

    protected function doSave(array $values, int $lifetime, array $addTagData = [], array $removeTagData = []): array
    {
        $failed = [];
        foreach ($values as $id => $value) {
            $tags = array_map($this->tagOf(...), array_values($value['tags'] ?? []));
            if (!$this->store((string) $id, $value, $lifetime, $tags)) {
                $failed[] = $id;
            } elseif ($tags !== [] && $this->began !== null && $this->isInvalidatedSince($this->began, $tags)) {
                // Its tags became known when it was computed, from what may be older than an invalidation meanwhile.
                $this->values->delete((string) $id);
            }
        }

        return $failed;
    }

    /** The tag's name alone: which items have it is not listed anywhere. */
    private function tagOf(string $tag): string
    {
        return $this->idOf("\0tags\0" . $tag);
    }

    /** @param array<string> $tags */
    private function isInvalidatedSince(float $began, array $tags): bool
    {
        foreach ($tags as $tag) {
            if ($this->values->fetch("\0at\0$tag", 0.0) >= $began) {
                return true;
            }
        }

        return false;
    }

    protected function doDeleteTagRelations(array $tagData): bool
    {
        return true;
    }

    protected function doInvalidate(array $tagIds): bool
    {
        foreach ($tagIds as $id) {
            $this->values->store("\0at\0$id", microtime(true), self::KNOWN_SECONDS);
        }

        return $this->values->invalidate(array_values($tagIds));
    }
}
