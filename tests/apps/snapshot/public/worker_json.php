<?php
require __DIR__ . '/../pages.php';
serve('json');
