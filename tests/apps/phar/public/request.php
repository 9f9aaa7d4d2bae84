<?php
reprise_snapshot();
require __DIR__ . '/../library.phar';
require __DIR__ . '/answer.php';
