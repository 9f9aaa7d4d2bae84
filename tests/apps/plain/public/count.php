<?php
// Reads the body as it comes: memory must not grow with it.
$input = fopen('php://input', 'rb');
$crc = hash_init('crc32b');
$length = 0;
while (($piece = fread($input, 65536)) !== false && $piece !== '') {
    $length += strlen($piece);
    hash_update($crc, $piece);
}
header('Content-Type: application/json');
echo json_encode(['length' => $length, 'crc32b' => hash_final($crc), 'memory_peak' => memory_get_peak_usage()]), "\n";
