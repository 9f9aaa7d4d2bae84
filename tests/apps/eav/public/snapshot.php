<?php
// The code is loaded once; each request opens its own connection.
require __DIR__ . '/../report.php';
reprise_snapshot();
report();
