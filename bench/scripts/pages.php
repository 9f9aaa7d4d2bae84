<?php
// One byte is written into each of the first ?pages= strings of the boot; each string lies in a page of its own.
$pages = [];
for ($i = 0; $i < 5000; $i++) {
    $pages[] = str_repeat('a', 4000);
}
reprise_snapshot();
for ($i = 0, $count = (int) $_GET['pages']; $i < $count; $i++) {
    $pages[$i][0] = 'b';
}
echo $count;
