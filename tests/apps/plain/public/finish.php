<?php
// Ends the answer, then works on: writes the file named by ?marker= after ?ms=. What is printed then goes nowhere.
header('Content-Type: text/plain');
echo "answered\n";
fastcgi_finish_request();
usleep((int) ($_GET['ms'] ?? 0) * 1000);
echo "never seen\n";
if (isset($_GET['marker'])) {
    file_put_contents($_GET['marker'], 'finished ' . connection_status() . "\n");
}
