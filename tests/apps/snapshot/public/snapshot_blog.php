<?php
require __DIR__ . '/../pages.php';
reprise_snapshot();
blog();
