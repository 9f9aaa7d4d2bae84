<?php
ksort($_SERVER);
header('Content-Type: application/json');
echo json_encode($_SERVER, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_PRETTY_PRINT), "\n";
