<?php
ini_set('memory_limit', ($_GET['limit'] ?? '32') . 'M');
header('Content-Type: text/plain');
for ($all = [];;) {
    $all[] = str_repeat('x', 1048576);
}
