<?php
// ?signal= another one, ?flush=1 after part of the answer has gone out.
if (isset($_GET['flush'])) {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    echo "before\n";
    flush();
}
posix_kill(getmypid(), (int) ($_GET['signal'] ?? 11));
sleep(10);
