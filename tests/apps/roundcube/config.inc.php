<?php

// @APP@ is where the application lies; the test says at which port the mail server listens.
$config = [
    'db_dsnw' => 'sqlite:///@APP@/data/db.sqlite?mode=0640',
    'imap_host' => '127.0.0.1:' . (getenv('IMAP_PORT') ?: 143),
    'smtp_host' => '127.0.0.1:25',
    'des_key' => 'of-24-letters-for-tests-',
    'plugins' => [],
    'skin' => 'elastic',
    'log_dir' => '@APP@/logs/',
    'temp_dir' => '@APP@/temp/',
    'enable_installer' => false,
];
