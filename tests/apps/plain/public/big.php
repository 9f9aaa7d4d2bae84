<?php
// ?mb= megabytes in pieces of 64 KiB, the same bytes every time: piece N is md5(N) repeated.
header('Content-Type: application/octet-stream');
if (isset($_GET['length'])) { // ?length=1 says it beforehand
    header('Content-Length: ' . (int) $_GET['mb'] * 1048576);
}
for ($i = 0; $i < (int) ($_GET['mb'] ?? 1) * 16; $i++) {
    echo str_repeat(md5((string) $i), 2048);
}
