<?php
// The same attack from a worker that runs from a snapshot.
reprise_snapshot();
require __DIR__ . '/attack.php';
