<?php
// Endless. ?limit= sets PHP's own limit, in seconds of CPU time; 0 is none.
set_time_limit((int) ($_GET['limit'] ?? 0));
for ($i = 0;; $i++);
