<?php
reprise_snapshot();
if (($_GET['seconds'] ?? '') !== '') {
    sleep((int) $_GET['seconds']);
}
echo json_encode(['mode' => reprise_info()['mode'], 'pid' => getmypid()]);
