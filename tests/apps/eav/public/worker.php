<?php
// The code is loaded once; each request opens its own connection, as in the other modes.
require __DIR__ . '/../report.php';
while (reprise_handle_request('report')) {
}
