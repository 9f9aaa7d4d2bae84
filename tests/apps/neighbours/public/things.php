<?php
// Leaves what an application may have: files, shared memory, queues, sockets, a session, keys; and a process that holds some of it.
require __DIR__ . '/libc.php';
$who = $_GET['who'];
if (isset($_GET['remove'])) {
    shmop_delete(shmop_open($key($who), 'a', 0, 0));
    msg_remove_queue(msg_get_queue($key($who)));
    sem_remove(sem_get($key($who)));
    $libc->shm_unlink($shared($who));
    $libc->mq_unlink($shared($who));
    session_id($who . 'visitor');
    session_start();
    session_destroy();
    posix_kill((int) file_get_contents("$place/$who/child"), SIGKILL);
    exit('removed');
}
umask(0077);
file_put_contents("$place/$who/secret", 'a secret');
shmop_write(shmop_open($key($who), 'n', 0600, 4096), 'a secret', 0);
msg_send(msg_get_queue($key($who), 0600), 1, 'a secret');
sem_get($key($who), 1, 0600);
$libc->shm_open($shared($who), 0102, 0600) >= 0 || exit('no shared memory');
$libc->mq_open($shared($who), 0102, 0600, null) >= 0 || exit('no message queue');
apcu_store("$who-secret", 'a secret');
session_id($who . 'visitor');
session_start();
$_SESSION['secret'] = 'a secret';
session_write_close();
// A key in the session keyring, if the kernel has keys.
$libc->syscall(248, 'user', "$who-secret", 'a secret', 8, -3);
$socket = stream_socket_server("unix://$place/$who/socket");
$child = pcntl_fork();
if ($child === 0) {
    // Longer than the worker, which a request may have replaced; not longer than the test.
    while (file_exists("$place/$who")) {
        sleep(1);
        clearstatcache();
    }
    exit;
}
file_put_contents("$place/$who/child", $child);
echo 'made ', $child;
