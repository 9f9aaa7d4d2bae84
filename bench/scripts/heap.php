<?php
// MIB of boot heap, of which each request writes to three pages that none before it has written to: none is hot.
$pages = [];
for ($i = 0, $count = (int) getenv('MIB') * 256; $i < $count; $i++) {
    $pages[] = str_repeat('a', 4000);
}
reprise_snapshot();
for ($i = 0; $i < 3; $i++) {
    $pages[(3 * (int) $_GET['n'] + $i) * 1237 % $count][0] = 'b';
}
echo 'ok';
