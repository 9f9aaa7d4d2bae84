<?php
// ?text= to the error log, then a warning. Neither may reach the client where display_errors is off.
header('Content-Type: text/plain');
error_log($_GET['text'] ?? 'error_log.php was here');
trigger_error('error_log.php warns', E_USER_WARNING);
file_put_contents('php://stderr', "error_log.php writes to stderr\n");
echo "logged\n";
