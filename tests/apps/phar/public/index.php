<?php
require __DIR__ . '/../library.phar';
require __DIR__ . '/answer.php';
