<?php

/* One of many processes that ask for a value at once. RUNS names the file that has a byte for each computation. */

declare(strict_types=1);

echo reprise_cache('crowd', static function (): string {
    file_put_contents(getenv('RUNS'), '.', FILE_APPEND);
    usleep(400_000);

    return 'made ' . filesize(getenv('RUNS'));
}, 60);
