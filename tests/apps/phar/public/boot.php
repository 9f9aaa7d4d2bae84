<?php
require __DIR__ . '/../library.phar';
(new Library\Greeter)->greet('nobody');
reprise_snapshot();
require __DIR__ . '/answer.php';
