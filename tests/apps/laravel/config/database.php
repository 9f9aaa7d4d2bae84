<?php
return ['default' => env('BLOG_URL') ? 'mysql' : env('DB_CONNECTION', 'sqlite'), 'connections' => [
    'sqlite' => ['driver' => 'sqlite', 'url' => null, 'database' => env('DB_DATABASE', database_path('blog.sqlite')), 'prefix' => '', 'foreign_key_constraints' => true],
    'mysql' => ['driver' => 'mysql', 'url' => env('BLOG_URL') ? env('BLOG_URL') . '/blog_laravel' : null, 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'prefix' => '', 'strict' => true],
], 'migrations' => 'migrations', 'redis' => ['client' => 'phpredis', 'options' => ['cluster' => 'redis', 'prefix' => 'test_'], 'default' => ['host' => '127.0.0.1', 'port' => '6379', 'database' => '0']]];
