<?php
return ['default' => env('DB_CONNECTION', 'sqlite'), 'connections' => [
    'sqlite' => ['driver' => 'sqlite', 'url' => null, 'database' => env('DB_DATABASE', database_path('blog.sqlite')), 'prefix' => '', 'foreign_key_constraints' => true],
    'mysql' => ['driver' => 'mysql', 'host' => '127.0.0.1', 'port' => '3307', 'database' => 'laravel', 'username' => 'app', 'password' => 'app', 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'prefix' => '', 'strict' => true],
], 'migrations' => 'migrations', 'redis' => ['client' => 'phpredis', 'options' => ['cluster' => 'redis', 'prefix' => 'test_'], 'default' => ['host' => '127.0.0.1', 'port' => '6379', 'database' => '0']]];
