<?php
// The same cases behind a snapshot.
if (function_exists('reprise_snapshot')) {
    reprise_snapshot();
}
require __DIR__ . '/cases.php';
