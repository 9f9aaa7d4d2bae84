<?php
header('HTTP/1.1 418 I am a teapot');
header('Content-Type: text/plain; charset=utf-8');
header('X-Single: one');
header('X-Single: two'); // replaces
header('X-Multi: one');
header('X-Multi: two', false);
header('X-Removed: yes');
header_remove('X-Removed');
header('x-lower:   spaces kept out   ');
header('X-Empty:');
setcookie('plain', 'a b&c', ['path' => '/', 'samesite' => 'Lax']);
setcookie('second', 'x', ['expires' => 1, 'httponly' => true]); // long gone: Max-Age=0
setrawcookie('raw', 'a/b');
if (isset($_GET['location'])) { header("Location: $_GET[location]", true, (int) ($_GET['status'] ?? 302)); }
echo implode("\n", headers_list()), "\n";
