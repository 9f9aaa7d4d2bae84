<?php
// ?flush=1 sends the first line before the exception, so that the status is already 200.
header('Content-Type: text/plain');
echo "before\n";
if (isset($_GET['flush'])) {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
}
throw new RuntimeException('fatal.php: not caught');
