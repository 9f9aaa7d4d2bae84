<?php
$ms = (int) ($_GET['ms'] ?? 100);
usleep($ms * 1000);
header('Content-Type: text/plain');
echo "slept $ms ms\n";
