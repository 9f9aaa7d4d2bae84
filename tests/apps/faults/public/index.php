<?php
// Leaves a line in the journal for every run, so that a request that ran twice is seen, and answers with its id.
$id = $_GET['id'] ?? '';
if (getenv('JOURNAL')) {
    file_put_contents(getenv('JOURNAL'), "$id\n", FILE_APPEND);
}
if (isset($_GET['us'])) {
    usleep((int) $_GET['us']);
}
header('Content-Type: text/plain');
echo "id=$id pid=", getmypid(), "\n";
