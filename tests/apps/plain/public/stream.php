<?php
// Five chunks, each flushed; ?ms= is the pause between them.
header('Content-Type: text/plain');
header('X-Accel-Buffering: no');
while (ob_get_level() > 0) {
    ob_end_flush();
}
for ($i = 1; $i <= 5; $i++) {
    if ($i > 1) {
        usleep((int) ($_GET['ms'] ?? 0) * 1000);
    }
    echo "chunk $i\n";
    flush();
}
