<?php
require __DIR__ . '/../report.php';
report();
